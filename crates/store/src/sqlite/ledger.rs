//! The ledger: what was done, in entries that are chained by hash within each scope.
//!
//! How a chain is made, for whoever checks one from outside (`‖` joins bytes, numbers are eight bytes, big end first):
//!
//! - `digest` = SHA-256(salt ‖ payload), where the salt has 16 bytes and the payload is its text as stored, in UTF-8;
//! - `hash` = SHA-256(hash before ‖ position ‖ action ‖ kind ‖ at ‖ digest), where the action's id has 16 bytes, the kind
//!   is its name in ASCII, and `at` is signed, in milliseconds since 1970;
//! - positions begin at 1, and the hash before the first entry is SHA-256(app ‖ one zero byte ‖ user).
//!
//! What came out of a call of a run is stored once, in its event `tool:complete`. The outcome's payload has `outputIn`
//! then: the number of that event in the thread, and the SHA-256 of its body as stored, in hex.
//!
//! Erasing removes payloads and their salts, never entries: the chain still holds, and what was said cannot be guessed.

use protocol::{ActionId, Effect, RunId, Scope, Seq, ThreadId};
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::append::Batch;
use super::read::{count, sql};
use crate::{ActionRow, Change, Error};

pub(super) type Hash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call is about to be made.
    Intent,
    /// How it ended; the only entry of a call that was never made.
    Outcome,
    /// It was taken back.
    Undo,
    /// Another result came after the first.
    Late,
    /// What the entries before said of it is gone.
    Erase,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Intent, Kind::Outcome, Kind::Undo, Kind::Late, Kind::Erase];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Intent => "intent",
            Kind::Outcome => "outcome",
            Kind::Undo => "undo",
            Kind::Late => "late",
            Kind::Erase => "erase",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What an entry says: an intent has the upper part, an outcome the middle, or both if nothing went before it. The intent
/// of an undo that reaches outside also names what it is to undo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<Effect>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<u32>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) output: Value,
    /// Where the output is, if it is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_in: Option<OutputPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undo_of: Option<ActionId>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undone_by: Option<ActionId>,
    /// Why something was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// The event that tells what came out of a call, and what its body must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutputPlace {
    pub(super) seq: Seq,
    /// In hex, of the body as stored.
    sha256: String,
}

impl OutputPlace {
    pub(super) fn of(seq: Seq, body: &str) -> Self {
        Self { seq, sha256: Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Whether this is the body it was made of.
    pub(super) fn holds(&self, body: &str) -> bool {
        *self == Self::of(self.seq, body)
    }
}

impl Payload {
    pub(super) fn intent(action: &ActionRow) -> Self {
        Self {
            tool: Some(action.tool.clone()),
            effect: Some(action.effect),
            input: action.input.clone(),
            thread: action.thread,
            run: action.run,
            step: action.step,
            undo_of: action.undo_of,
            ..Self::default()
        }
    }

    /// Of an action that has ended. One that no intent announced says all of it. With a place, the output is there.
    pub(super) fn outcome(action: &ActionRow, announced: bool, place: Option<OutputPlace>) -> Self {
        let asked = if announced { Self::default() } else { Self::intent(action) };
        Self {
            status: Some(action.status.clone()),
            output: if place.is_none() { action.output.clone() } else { Value::Null },
            output_in: place,
            duration_ms: action.duration_ms,
            changes: action.changes.clone(),
            undo_of: action.undo_of,
            ..asked
        }
    }
}

/// The fixed part of an entry, which its hash covers.
pub(super) struct Entry {
    pub(super) position: u64,
    pub(super) action: [u8; 16],
    pub(super) kind: Kind,
    pub(super) at: i64,
    pub(super) digest: Hash,
}

impl Entry {
    pub(super) fn hash(&self, before: &Hash) -> Hash {
        let mut hash = Sha256::new();
        hash.update(before);
        hash.update(self.position.to_be_bytes());
        hash.update(self.action);
        hash.update(self.kind.name());
        hash.update(self.at.to_be_bytes());
        hash.update(self.digest);
        hash.finalize().into()
    }
}

pub(super) fn digest(salt: &[u8], payload: &str) -> Hash {
    Sha256::new().chain_update(salt).chain_update(payload).finalize().into()
}

/// What stands before a scope's first entry, so that no chain can pass for another scope's.
pub(super) fn origin(scope: &Scope) -> Hash {
    let hash = Sha256::new().chain_update(scope.app.as_str()).chain_update([0]);
    hash.chain_update(scope.user.as_str()).finalize().into()
}

/// Adds an entry to the scope's chain and gives its position.
pub(super) fn append(
    batch: &Batch<'_>,
    scope: &Scope,
    action: ActionId,
    kind: Kind,
    payload: &Payload,
) -> Result<u64, Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let head: Option<(u64, Hash)> = batch
        .conn()
        .prepare_cached("SELECT position, hash FROM ledger_heads WHERE app = ?1 AND user = ?2")?
        .query_row([app, user], |row| Ok((count(row, 0)?, row.get(1)?)))
        .optional()?;
    let (last, before) = head.unwrap_or_else(|| (0, origin(scope)));
    let payload = serde_json::to_string(payload).map_err(|_| Error::Aborted)?;
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| Error::Aborted)?;
    let digest = digest(&salt, &payload);
    let entry = Entry { position: last + 1, action: *action.bytes(), kind, at: batch.at(), digest };
    let hash = entry.hash(&before);
    let position = sql(entry.position);
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO ledger (app, user, position, action, kind, at, digest, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![app, user, position, action.bytes(), kind.name(), entry.at, digest, hash])?;
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO ledger_payloads (app, user, position, salt, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![app, user, position, salt, payload])?;
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO ledger_heads (app, user, position, hash) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (app, user) DO UPDATE SET position = excluded.position, hash = excluded.hash",
        )?
        .execute(params![app, user, position, hash])?;
    Ok(entry.position)
}

/// Removes what the entries of an action say, and adds one that says so.
pub(super) fn erase(batch: &Batch<'_>, scope: &Scope, action: ActionId, reason: &str) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(
            "DELETE FROM ledger_payloads WHERE app = ?1 AND user = ?2 AND position IN
                (SELECT position FROM ledger WHERE action = ?3 AND app = ?1 AND user = ?2)",
        )?
        .execute(params![scope.app.as_str(), scope.user.as_str(), action.bytes()])?;
    let payload = Payload { reason: Some(reason.to_owned()), ..Payload::default() };
    append(batch, scope, action, Kind::Erase, &payload).map(drop)
}
