//! All configured issuers, and the tokens that were verified already.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::Clock;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::claims::VerifiedToken;
use crate::compact_token::{CompactToken, is_too_large};
use crate::config::{InvalidJwtIssuer, JwtIssuerConfig};
use crate::issuer::{JwtIssuer, SignedToken};
use crate::problem::JwksProblem;
use crate::refusal::TokenRefusal;

/// Verified tokens that are remembered; one that is not used goes first.
const MAX_REMEMBERED_TOKENS: usize = 10_000;

/// A token as its SHA-256, so that no token stays in memory.
type TokenDigest = [u8; 32];

/// The issuers whose tokens are accepted.
pub struct JwtIssuers {
    issuers: Vec<JwtIssuer>,
    remembered: Cache<TokenDigest, Arc<RememberedToken>>,
    clock: Arc<dyn Clock>,
}

/// A verified token. It counts until it expires, or until the keys of its issuer change.
struct RememberedToken {
    issuer: usize,
    key_set: u64,
    token: VerifiedToken,
}

impl JwtIssuers {
    pub fn new(configs: Vec<JwtIssuerConfig>, clock: Arc<dyn Clock>) -> Result<Self, InvalidJwtIssuer> {
        let mut issuers: Vec<JwtIssuer> = Vec::new();
        for config in configs {
            let name = config.name.clone();
            let beside = issuers.iter().try_for_each(|other| config.check_beside(other.config()));
            let issuer = beside.and_then(|()| JwtIssuer::new(config, Arc::clone(&clock)));
            issuers.push(issuer.map_err(|fault| InvalidJwtIssuer { name, fault })?);
        }
        Ok(Self { issuers, remembered: Cache::new(MAX_REMEMBERED_TOKENS), clock })
    }

    /// No issuer, so no token is accepted.
    pub fn none(clock: Arc<dyn Clock>) -> Self {
        Self { issuers: Vec::new(), remembered: Cache::new(1), clock }
    }

    pub fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// The issuers as their tokens name them, in the order of the configuration.
    pub fn names_in_tokens(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| issuer.config().issuer.as_str())
    }

    /// The entry of the issuer with this name, in words that change with each of its settings that decides about users.
    pub fn entry_of(&self, name: &str) -> String {
        let entry = self.issuers.iter().map(JwtIssuer::config).find(|config| config.name == name);
        entry.map(JwtIssuerConfig::entry).unwrap_or_default()
    }

    /// True if an issuer has exactly this entry.
    pub fn has_entry(&self, entry: &str) -> bool {
        self.issuers.iter().any(|issuer| issuer.config().entry() == entry)
    }

    /// Loads the keys of all issuers that have none yet. Gives the names of those that could not be loaded, and why.
    pub async fn load_keys(&self) -> Vec<(String, JwksProblem)> {
        let mut problems = Vec::new();
        for issuer in &self.issuers {
            issuer.fresh_key_set().await;
            problems.extend(issuer.key_problem().map(|problem| (issuer.config().name.clone(), problem)));
        }
        problems
    }

    /// The issuer whose users have names like this one. An API key must not have such a name.
    pub fn issuer_of_name(&self, user: &str) -> Option<&str> {
        self.issuer_of_user(user).map(|config| config.name.as_str())
    }

    /// Why the keys of the issuer with this name could not be loaded, if the last try failed.
    pub fn key_problem(&self, name: &str) -> Option<JwksProblem> {
        self.issuers.iter().find(|issuer| issuer.config().name == name)?.key_problem()
    }

    /// True if the token was verified before and still counts. It costs one hash, and never a request.
    pub fn is_verified_already(&self, token: &str) -> bool {
        if is_too_large(token) {
            return false;
        }
        let remembered = self.remembered.peek(&digest(token));
        remembered.is_some_and(|remembered| {
            let key_set = self.issuers.get(remembered.issuer).and_then(JwtIssuer::key_set);
            remembered.counts(key_set, self.clock.now())
        })
    }

    /// The user whom a token names. A repeated token costs no check of its signature.
    pub async fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRefusal> {
        if is_too_large(token) {
            return Err(TokenRefusal::TooLarge);
        }
        let digest = digest(token);
        if let Some(verified) = self.recollect(&digest).await {
            return Ok(verified);
        }
        let compact = CompactToken::parse(token)?;
        let (issuer, signed) = self.verify_signed(token, &compact).await?;
        let SignedToken { token, key_set } = signed;
        let remembered = RememberedToken { issuer, key_set, token: token.clone() };
        self.remembered.insert(digest, Arc::new(remembered));
        Ok(token)
    }

    /// The keys are loaded again first if they are too old, so that a removed key ends its tokens.
    async fn recollect(&self, digest: &TokenDigest) -> Option<VerifiedToken> {
        let remembered = self.remembered.get(digest)?;
        let key_set = self.issuers.get(remembered.issuer)?.fresh_key_set().await;
        remembered.counts(key_set, self.clock.now()).then(|| remembered.token.clone())
    }

    /// Asks each issuer that the token can be from. Several may have the same `iss`, with different audiences.
    async fn verify_signed(
        &self,
        text: &str,
        token: &CompactToken,
    ) -> Result<(usize, SignedToken), TokenRefusal> {
        let mut refusal = TokenRefusal::UnknownIssuer;
        for (index, issuer) in self.issuers.iter().enumerate().filter(|(_, one)| one.is_issuer_of(token)) {
            if !issuer.is_for_audience(token) {
                refusal = graver_refusal(refusal, TokenRefusal::WrongAudience);
                continue;
            }
            match issuer.verify(text, token).await.and_then(|signed| self.check_user(issuer, signed)) {
                Ok(signed) => return Ok((index, signed)),
                Err(other) => refusal = graver_refusal(refusal, other),
            }
        }
        Err(refusal)
    }

    /// An issuer without a prefix must not name a user of another issuer.
    fn check_user(&self, issuer: &JwtIssuer, signed: SignedToken) -> Result<SignedToken, TokenRefusal> {
        match self.issuer_of_user(&signed.token.user) {
            Some(other) if other.prefix != issuer.config().prefix => Err(issuer.user_refusal()),
            Some(_) | None => Ok(signed),
        }
    }

    fn issuer_of_user(&self, user: &str) -> Option<&JwtIssuerConfig> {
        let is_prefix_of = |prefix: &str| !prefix.is_empty() && user.starts_with(prefix);
        self.issuers.iter().map(JwtIssuer::config).find(|config| is_prefix_of(&config.prefix))
    }
}

impl RememberedToken {
    fn counts(&self, key_set: Option<u64>, now: Timestamp) -> bool {
        key_set == Some(self.key_set) && now < self.token.expires_at
    }
}

/// The refusal that says most: one of an issuer that the token fits, and above all that a later try may succeed.
fn graver_refusal(one: TokenRefusal, other: TokenRefusal) -> TokenRefusal {
    let is_guess = matches!(one, TokenRefusal::UnknownIssuer | TokenRefusal::WrongAudience);
    if is_guess || other.is_temporary() { other } else { one }
}

fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}
