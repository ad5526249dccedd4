//! The claims of a token whose signature is right: its times, its user, its apps.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::config::{JwtIssuerConfig, JwtIssuerFault};
use crate::refusal::TokenRefusal;

/// Bytes of a user name together with its prefix.
const MAX_USER_BYTES: usize = 200;
/// Apps that a token can list.
const MAX_APPS: usize = 64;

/// The user for whom an issuer made a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The configured name of the issuer.
    pub issuer: String,
    /// The prefix of the issuer and the value of its user claim.
    pub user: String,
    /// None if the token is good for all apps.
    pub apps: Option<Vec<String>>,
    pub admin: bool,
    /// The moment from which the token is refused: its `exp` and the leeway.
    pub expires_at: Timestamp,
}

/// How the claims of one issuer are read.
#[derive(Debug)]
pub(crate) struct ClaimRules {
    issuer: String,
    prefix: String,
    user_claim: String,
    app_claim: Option<String>,
    admin: Option<AdminRule>,
    leeway: SignedDuration,
}

#[derive(Debug)]
enum AdminRule {
    /// The claim is `true`.
    True { claim: String },
    /// The claim is this string, a text of words with spaces between them that contains it, or an array that does.
    Has { claim: String, value: String },
}

impl ClaimRules {
    pub(crate) fn new(config: &JwtIssuerConfig) -> Result<Self, JwtIssuerFault> {
        Ok(Self {
            issuer: config.name.clone(),
            prefix: config.prefix.clone(),
            user_claim: config.user_claim.clone(),
            app_claim: config.app_claim.clone(),
            admin: config.admin_claim.as_deref().map(AdminRule::parse).transpose()?,
            leeway: SignedDuration::try_from(config.leeway).map_err(|_| JwtIssuerFault::Leeway)?,
        })
    }

    pub(crate) fn read(
        &self,
        claims: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenRefusal> {
        let expires_at = self.check_times(claims, now)?;
        Ok(VerifiedToken {
            issuer: self.issuer.clone(),
            user: self.user(claims)?,
            apps: self.apps(claims)?,
            admin: self.admin.as_ref().is_some_and(|rule| rule.applies(claims)),
            expires_at,
        })
    }

    /// The name of the user claim, for a refusal.
    pub(crate) fn user_refusal(&self) -> TokenRefusal {
        TokenRefusal::UserNotAcceptable { claim: self.user_claim.clone() }
    }

    /// The library reads the machine's clock, so times are compared here with the clock that the server was given.
    fn check_times(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Timestamp, TokenRefusal> {
        let ends = time(claims, "exp")?.ok_or(TokenRefusal::TimeNotAcceptable { claim: "exp" })?;
        let expires_at = ends.saturating_add(self.leeway).unwrap_or(Timestamp::MAX);
        if now >= expires_at {
            return Err(TokenRefusal::Expired);
        }
        let latest = now.saturating_add(self.leeway).unwrap_or(Timestamp::MAX);
        if time(claims, "nbf")?.is_some_and(|begins| begins > latest) {
            return Err(TokenRefusal::NotYetValid);
        }
        if time(claims, "iat")?.is_some_and(|issued| issued > latest) {
            return Err(TokenRefusal::IssuedInFuture);
        }
        Ok(expires_at)
    }

    /// Only visible ASCII, so that no two names look alike.
    fn user(&self, claims: &Map<String, Value>) -> Result<String, TokenRefusal> {
        let Some(Value::String(name)) = claims.get(&self.user_claim) else { return Err(self.user_refusal()) };
        let is_visible = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_visible || self.prefix.len() + name.len() > MAX_USER_BYTES {
            return Err(self.user_refusal());
        }
        Ok(format!("{}{name}", self.prefix))
    }

    fn apps(&self, claims: &Map<String, Value>) -> Result<Option<Vec<String>>, TokenRefusal> {
        let Some(claim) = &self.app_claim else { return Ok(None) };
        let apps: Option<Vec<String>> = match claims.get(claim) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(apps)) => {
                Some(apps.split(' ').filter(|app| !app.is_empty()).map(str::to_owned).collect())
            }
            Some(Value::Array(apps)) => apps.iter().map(|app| app.as_str().map(str::to_owned)).collect(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
        };
        let apps = apps.filter(|apps| apps.len() <= MAX_APPS);
        apps.map(Some).ok_or_else(|| TokenRefusal::AppsNotAcceptable { claim: claim.clone() })
    }
}

impl AdminRule {
    /// A claim may be named by a URL with `=` in it, so the last one separates the value.
    fn parse(text: &str) -> Result<Self, JwtIssuerFault> {
        match text.rsplit_once('=') {
            None => Ok(Self::True { claim: text.to_owned() }),
            Some((claim, value)) if !claim.is_empty() && !value.is_empty() => {
                Ok(Self::Has { claim: claim.to_owned(), value: value.to_owned() })
            }
            Some(_) => Err(JwtIssuerFault::AdminClaim),
        }
    }

    fn applies(&self, claims: &Map<String, Value>) -> bool {
        match self {
            Self::True { claim } => claims.get(claim) == Some(&Value::Bool(true)),
            Self::Has { claim, value } => match claims.get(claim) {
                // As in the claim `scope` of OAuth.
                Some(Value::String(text)) => text.split(' ').any(|word| word == value) || text == value,
                Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(value)),
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
            },
        }
    }
}

/// Some issuers write fractions of a second, which do not count.
fn whole_seconds(value: &Value) -> Option<u64> {
    const LATEST: f64 = 253_402_207_200.0; // the end of the year 9999
    let fraction = || value.as_f64().filter(|seconds| (0.0..=LATEST).contains(seconds));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    value.as_u64().or_else(|| fraction().map(|seconds| seconds as u64))
}

/// The value of a time claim. A time beyond the last one that can be written counts as that one.
fn time(claims: &Map<String, Value>, claim: &'static str) -> Result<Option<Timestamp>, TokenRefusal> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let seconds = whole_seconds(value).ok_or(TokenRefusal::TimeNotAcceptable { claim })?;
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    Ok(Some(time.unwrap_or(Timestamp::MAX)))
}

#[cfg(test)]
mod tests;
