//! Access: rights, keys, sessions, and the audit of admins.

use std::fmt;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{KeyId, SessionId};

/// A right that a key, a token or a session gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Requests that change nothing: `GET`.
    Read,
    /// Requests that change the user's own data: messages, approvals, memories, files. It includes `read`.
    Run,
    /// Requests under `/v1/admin`.
    Admin,
}

impl Right {
    const ALL: [Self; 3] = [Self::Admin, Self::Read, Self::Run];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

/// A set of rights, in the API a list of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rights {
    read: bool,
    run: bool,
    admin: bool,
}

impl Rights {
    pub const NONE: Self = Self { read: false, run: false, admin: false };
    /// The rights of a user of an app.
    pub const USER: Self = Self { read: true, run: true, admin: false };

    pub fn of(rights: impl IntoIterator<Item = Right>) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
    }

    #[must_use]
    pub fn with(self, right: Right) -> Self {
        match right {
            Right::Read => Self { read: true, ..self },
            Right::Run => Self { read: true, run: true, ..self },
            Right::Admin => Self { admin: true, ..self },
        }
    }

    #[must_use]
    pub fn without(self, right: Right) -> Self {
        Self::of(self.list().filter(|other| *other != right))
    }

    pub fn has(self, right: Right) -> bool {
        match right {
            Right::Read => self.read,
            Right::Run => self.run,
            Right::Admin => self.admin,
        }
    }

    /// Whether each of these rights is among the others.
    pub fn is_within(self, others: Self) -> bool {
        self.list().all(|right| others.has(right))
    }

    /// The rights in the order of their names.
    pub fn list(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }

    /// The rights in a text of names with commas between them; none if a name is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(Right::parse).collect::<Option<Vec<_>>>().map(Self::of)
    }
}

/// The names with commas between them, as the store keeps them.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.list().map(Right::name).collect();
        f.write_str(&names.join(","))
    }
}

impl Serialize for Rights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list())
    }
}

impl<'de> Deserialize<'de> for Rights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rights = Vec::<Right>::deserialize(deserializer)?;
        if rights.is_empty() {
            return Err(D::Error::custom("name at least one right: read, run or admin"));
        }
        Ok(Self::of(rights))
    }
}

/// The users for whom an acting key may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActsFor {
    /// Every user. The header `X-Rondo-User` names the user of a request.
    Any,
}

impl ActsFor {
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = KeyRequest)]
pub struct NewKey {
    /// The holder of the key.
    pub user: String,
    /// The only app that the key is valid for; all apps when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Whether the right `admin` is added.
    #[serde(default)]
    pub admin: bool,
    /// The rights of the key: `read`, `run`, `admin`. `run` includes `read`. A key has `run` when this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Right>>)]
    pub rights: Option<Rights>,
    /// The users for whom an acting key may speak. A product's own back end uses such a key and names the user in
    /// `X-Rondo-User`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts_for: Option<ActsFor>,
    /// The time after which the key is no longer valid; no end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A request for a new key in place of another.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = KeyRotationRequest)]
pub struct KeyRotation {
    /// The seconds for which the old key stays valid: a day when absent, at most 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u32>,
}

/// A key that was just made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct KeyMade {
    pub id: KeyId,
    /// The secret, which requests send as `Authorization: Bearer`. The server shows it only once: a repeated request
    /// gets null.
    pub token: Option<String>,
    /// A text about the first key of a server: its effect, and how to undo that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The result of the removal of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysRemoved {
    /// The number of keys, revoked ones included.
    pub removed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    pub id: KeyId,
    pub user: String,
    pub app: Option<String>,
    /// Whether `admin` is among the rights.
    pub admin: bool,
    #[schema(value_type = Vec<Right>)]
    pub rights: Rights,
    /// The users for whom an acting key may speak; null for other keys.
    pub acts_for: Option<ActsFor>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// The last use, to about a minute.
    pub used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The user who made the key; null for a key of an older server.
    pub made_by: Option<String>,
    /// The user who revoked the key.
    pub revoked_by: Option<String>,
    /// The key that a rotation made in place of this one.
    pub replaced_by: Option<KeyId>,
}

/// A browser's session. Its secret is in a cookie that no script can read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    pub id: SessionId,
    pub user: String,
    /// The apps that the session is limited to; null for all apps.
    pub apps: Option<Vec<String>>,
    #[schema(value_type = Vec<Right>)]
    pub rights: Rights,
    /// The key that the session was made with. The session ends with it.
    pub key: Option<KeyId>,
    /// The issuer of the JWT that the session was made with.
    pub issuer: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The kind of an entry in the audit of admins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    KeyMade,
    KeyRevoked,
    KeyRotated,
    KeysRemoved,
    SessionEnded,
    McpToolsApproved,
    McpToolsRevoked,
    RunCancelled,
    JobRetried,
}

impl AuditKind {
    pub const ALL: [Self; 9] = [
        Self::KeyMade,
        Self::KeyRevoked,
        Self::KeyRotated,
        Self::KeysRemoved,
        Self::SessionEnded,
        Self::McpToolsApproved,
        Self::McpToolsRevoked,
        Self::RunCancelled,
        Self::JobRetried,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::KeyMade => "key_made",
            Self::KeyRevoked => "key_revoked",
            Self::KeyRotated => "key_rotated",
            Self::KeysRemoved => "keys_removed",
            Self::SessionEnded => "session_ended",
            Self::McpToolsApproved => "mcp_tools_approved",
            Self::McpToolsRevoked => "mcp_tools_revoked",
            Self::RunCancelled => "run_cancelled",
            Self::JobRetried => "job_retried",
        }
    }
}

/// One entry of the audit of admins, with the user, the change and the time. Entries are chained by hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryView {
    /// The number of the entry, from 1 without a gap.
    pub number: u64,
    pub at: Timestamp,
    /// The user who did it, or `ACTOR for USER` if an acting key spoke for a user.
    pub by: String,
    pub kind: AuditKind,
    /// The app that the entry concerns; null for all apps.
    pub app: Option<String>,
    /// The object of the change: the id of a key, a session, a run or a job, or the name of an MCP server.
    pub target: String,
    /// Details of the change, such as the user and the rights of a key.
    pub detail: Value,
    /// SHA-256 over this entry and the hash before it, in hex.
    pub hash: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_a_list_of_names_and_run_includes_read() {
        let rights: Rights = serde_json::from_str(r#"["run"]"#).unwrap();
        assert_eq!(rights, Rights::USER);
        assert_eq!(serde_json::to_string(&rights.with(Right::Admin)).unwrap(), r#"["admin","read","run"]"#);
        assert_eq!(Rights::parse(&rights.to_string()), Some(rights));
        assert_eq!(Rights::parse("read,all"), None);
        assert!(serde_json::from_str::<Rights>("[]").is_err());
        assert!(Rights::of([Right::Read]).is_within(Rights::USER));
        assert!(!Rights::of([Right::Admin]).is_within(Rights::USER));
    }

    #[test]
    fn the_names_of_audit_entries_are_those_of_the_api() {
        for kind in AuditKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
