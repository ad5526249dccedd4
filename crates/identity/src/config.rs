//! The configuration of an issuer, and what is wrong with it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Clocks of two machines differ. A token counts as valid for this time after its end, unless configured.
const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);
const MAX_LEEWAY: Duration = Duration::from_secs(5 * 60);
const MAX_NAME_BYTES: usize = 40;
const MAX_PREFIX_BYTES: usize = 64;
/// Of an issuer, an audience or the name of a claim.
const MAX_TEXT_BYTES: usize = 2048;
const DEFAULT_USER_CLAIM: &str = "sub";
const ENTRY_HASH_BYTES: usize = 8;

/// An issuer whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtIssuerConfig {
    /// The name of this entry, in lower case. Log lines and user names contain it.
    pub name: String,
    /// The exact value of the claim `iss`.
    pub issuer: String,
    /// A token must name one of them in its claim `aud`.
    pub audiences: Vec<String>,
    pub keys: JwksSource,
    pub algorithms: Vec<JwtAlgorithm>,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claim that lists the apps of the user. Without one, a token is good for all apps.
    pub app_claim: Option<String>,
    /// `CLAIM` must be true, or `CLAIM=VALUE` must be or contain the value. Without one, no token is for an admin.
    pub admin_claim: Option<String>,
    /// Stands before the value of the user claim, so that users of different issuers have different names.
    pub prefix: String,
    /// How far the clocks of the issuer and of this server may differ.
    pub leeway: Duration,
}

impl JwtIssuerConfig {
    /// An issuer with the default of every other setting.
    pub fn new(name: &str, issuer: &str, audience: &str, keys: JwksSource) -> Self {
        Self {
            name: name.to_owned(),
            issuer: issuer.to_owned(),
            audiences: vec![audience.to_owned()],
            keys,
            algorithms: JwtAlgorithm::ALL.to_vec(),
            user_claim: DEFAULT_USER_CLAIM.to_owned(),
            app_claim: None,
            admin_claim: None,
            prefix: format!("{name}:"),
            leeway: DEFAULT_LEEWAY,
        }
    }

    /// Its name, its issuer, and a hash of the settings that decide which users a token names.
    pub(crate) fn entry(&self) -> String {
        let Self { name, issuer, audiences, user_claim, app_claim, admin_claim, prefix, .. } = self;
        let settings = format!("{audiences:?} {user_claim:?} {app_claim:?} {admin_claim:?} {prefix:?}");
        let hash = Sha256::digest(settings.as_bytes());
        let short: String = hash.iter().take(ENTRY_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("{name} {issuer} {short}")
    }

    /// Checks this entry alone, except for the address of its keys.
    pub(crate) fn check(&self) -> Result<(), JwtIssuerFault> {
        let is_name_byte =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let name_fits =
            (1..=MAX_NAME_BYTES).contains(&self.name.len()) && self.name.bytes().all(is_name_byte);
        let prefix_fits =
            self.prefix.len() <= MAX_PREFIX_BYTES && self.prefix.bytes().all(|byte| byte.is_ascii_graphic());
        let claims = [Some(&self.user_claim), self.app_claim.as_ref(), self.admin_claim.as_ref()];
        let faults = [
            (!name_fits, JwtIssuerFault::Name),
            (!is_text(&self.issuer), JwtIssuerFault::Issuer),
            (
                self.audiences.is_empty() || !self.audiences.iter().all(|text| is_text(text)),
                JwtIssuerFault::Audiences,
            ),
            (self.algorithms.is_empty(), JwtIssuerFault::Algorithms),
            (!claims.into_iter().flatten().all(|claim| is_text(claim)), JwtIssuerFault::Claim),
            (!prefix_fits, JwtIssuerFault::Prefix),
            (self.leeway > MAX_LEEWAY, JwtIssuerFault::Leeway),
        ];
        faults.into_iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, fault)| Err(fault))
    }

    /// Checks this entry beside an earlier one.
    pub(crate) fn check_beside(&self, other: &Self) -> Result<(), JwtIssuerFault> {
        let same_issuer = self.issuer == other.issuer;
        if self.name == other.name {
            return Err(JwtIssuerFault::NameTwice);
        }
        if same_issuer && self.audiences.iter().any(|audience| other.audiences.contains(audience)) {
            return Err(JwtIssuerFault::SameTokens { other: other.name.clone() });
        }
        // One issuer may serve two audiences with the same users. Otherwise a user could take the name of another.
        let same_users = same_issuer && self.prefix == other.prefix;
        let (short, long) = if self.prefix.len() <= other.prefix.len() {
            (&self.prefix, &other.prefix)
        } else {
            (&other.prefix, &self.prefix)
        };
        let begins_alike = long.starts_with(short.as_str()) && (!short.is_empty() || long.is_empty());
        if begins_alike && !same_users {
            return Err(JwtIssuerFault::SamePrefix { other: other.name.clone() });
        }
        Ok(())
    }
}

/// Visible characters and inner spaces.
fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && text.trim() == text && !text.chars().any(char::is_control)
}

/// The source of an issuer's public keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// A key set (JWKS) at this URL.
    Url(String),
    /// A key set in a file.
    File(PathBuf),
    /// The key set that the issuer's `/.well-known/openid-configuration` names.
    Discovery,
}

/// The algorithms that an issuer may sign with. All of them use a public key, so no secret is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum JwtAlgorithm {
    RS256,
    ES256,
    EdDSA,
}

impl JwtAlgorithm {
    pub const ALL: [Self; 3] = [Self::RS256, Self::ES256, Self::EdDSA];

    /// The name in the headers of tokens and in key sets.
    pub fn name(self) -> &'static str {
        match self {
            Self::RS256 => "RS256",
            Self::ES256 => "ES256",
            Self::EdDSA => "EdDSA",
        }
    }

    /// Names are compared exactly, so `None` and `nOnE` are no algorithms either.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// An entry of the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the token issuer {name:?}: {fault}")]
pub struct InvalidJwtIssuer {
    pub name: String,
    pub fault: JwtIssuerFault,
}

/// The fault of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwtIssuerFault {
    #[error("a name has 1 to 40 lower-case letters, digits, `-` or `_`")]
    Name,
    #[error("another issuer has this name; names must differ")]
    NameTwice,
    #[error("set `issuer` to the exact `iss` of its tokens, without spaces around it")]
    Issuer,
    #[error("set at least one audience, so that tokens for other services are refused")]
    Audiences,
    #[error("set at least one algorithm: RS256, ES256 or EdDSA")]
    Algorithms,
    #[error("the name of a claim must not be empty")]
    Claim,
    #[error("write `admin_claim` as `CLAIM` or `CLAIM=VALUE`")]
    AdminClaim,
    #[error("a prefix has at most 64 visible ASCII characters")]
    Prefix,
    #[error("the leeway is at most 5 minutes; correct the clocks instead")]
    Leeway,
    #[error(
        "the keys must come from https://, or from http:// on this machine, without user name and password"
    )]
    KeyAddress,
    #[error("the issuer {other} accepts the same tokens; give them different audiences")]
    SameTokens { other: String },
    #[error(
        "the prefix begins like the prefix of the issuer {other}; choose one that makes different user names"
    )]
    SamePrefix { other: String },
}

#[cfg(test)]
mod tests;
