//! One configured issuer: which tokens are its own, and whether their signatures are right.

use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode};
use protocol::Clock;
use serde::de::IgnoredAny;

use crate::claims::{ClaimRules, VerifiedToken};
use crate::compact_token::CompactToken;
use crate::config::{JwtAlgorithm, JwtIssuerConfig, JwtIssuerFault};
use crate::issuer_keys::IssuerKeys;
use crate::key_set::KeySet;
use crate::key_source::KeySource;
use crate::problem::JwksProblem;
use crate::refusal::TokenRefusal;

/// An issuer with its keys.
pub(crate) struct JwtIssuer {
    config: JwtIssuerConfig,
    rules: ClaimRules,
    keys: IssuerKeys,
    clock: Arc<dyn Clock>,
}

/// A token that an issuer has signed, and the number of the key set that says so.
pub(crate) struct SignedToken {
    pub(crate) token: VerifiedToken,
    pub(crate) key_set: u64,
}

impl JwtIssuer {
    pub(crate) fn new(config: JwtIssuerConfig, clock: Arc<dyn Clock>) -> Result<Self, JwtIssuerFault> {
        config.check()?;
        let rules = ClaimRules::new(&config)?;
        let keys = IssuerKeys::new(&config.name, KeySource::new(&config)?, Arc::clone(&clock));
        Ok(Self { config, rules, keys, clock })
    }

    pub(crate) fn config(&self) -> &JwtIssuerConfig {
        &self.config
    }

    pub(crate) fn is_issuer_of(&self, token: &CompactToken) -> bool {
        self.config.issuer == token.issuer
    }

    pub(crate) fn is_for_audience(&self, token: &CompactToken) -> bool {
        self.config.audiences.iter().any(|audience| token.audiences.contains(audience))
    }

    /// The number of the set after it was loaded again where necessary.
    pub(crate) async fn fresh_key_set(&self) -> Option<u64> {
        self.keys.current().await.map(|current| current.number)
    }

    pub(crate) fn key_set(&self) -> Option<u64> {
        self.keys.number()
    }

    pub(crate) fn key_problem(&self) -> Option<JwksProblem> {
        self.keys.problem()
    }

    pub(crate) fn user_refusal(&self) -> TokenRefusal {
        self.rules.user_refusal()
    }

    /// Checks the signature before the claims, so that a refusal for a claim speaks of a token of this issuer.
    pub(crate) async fn verify(&self, text: &str, token: &CompactToken) -> Result<SignedToken, TokenRefusal> {
        if !self.config.algorithms.contains(&token.algorithm) {
            return Err(TokenRefusal::AlgorithmNotAllowed);
        }
        let unavailable = || TokenRefusal::KeysNotAvailable { issuer: self.config.name.clone() };
        let mut keys = self.keys.current().await.ok_or_else(unavailable)?;
        let mut signature = self.check_signature(text, token, &keys.set);
        if signature.as_ref().is_err_and(|refusal| may_need_newer_keys(refusal, token))
            && let Some(newer) = self.keys.other_than(keys.number).await
        {
            keys = newer;
            signature = self.check_signature(text, token, &keys.set);
        }
        signature?;
        let token = self.rules.read(&token.claims, self.clock.now())?;
        Ok(SignedToken { token, key_set: keys.number })
    }

    fn check_signature(&self, text: &str, token: &CompactToken, keys: &KeySet) -> Result<(), TokenRefusal> {
        let validation = self.validation(token.algorithm);
        let mut refusal = TokenRefusal::UnknownKey;
        for key in keys.candidates(token.kid.as_deref(), token.algorithm) {
            match decode::<IgnoredAny>(text, &key.public, &validation) {
                Ok(_) => return Ok(()),
                Err(error) => refusal = refusal_for(error.kind()),
            }
        }
        Err(refusal)
    }

    /// The library checks the signature, and `iss` and `aud` once more. It also refuses a token whose registered claims
    /// are arrays or objects. It would compare times with the machine's clock, so [`ClaimRules`] does this.
    fn validation(&self, algorithm: JwtAlgorithm) -> Validation {
        let mut validation = Validation::new(match algorithm {
            JwtAlgorithm::RS256 => Algorithm::RS256,
            JwtAlgorithm::ES256 => Algorithm::ES256,
            JwtAlgorithm::EdDSA => Algorithm::EdDSA,
        });
        validation.set_required_spec_claims(&["aud", "iss"]);
        validation.set_issuer(&[&self.config.issuer]);
        validation.set_audience(&self.config.audiences);
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation
    }
}

/// A key may be new, or a token without a key id may be signed by a new one.
fn may_need_newer_keys(refusal: &TokenRefusal, token: &CompactToken) -> bool {
    match refusal {
        TokenRefusal::UnknownKey => true,
        TokenRefusal::BadSignature => token.kid.is_none(),
        TokenRefusal::TooLarge
        | TokenRefusal::Malformed
        | TokenRefusal::AlgorithmNotAllowed
        | TokenRefusal::CriticalHeader
        | TokenRefusal::WrongType
        | TokenRefusal::UnknownIssuer
        | TokenRefusal::WrongAudience
        | TokenRefusal::Expired
        | TokenRefusal::NotYetValid
        | TokenRefusal::IssuedInFuture
        | TokenRefusal::TimeNotAcceptable { .. }
        | TokenRefusal::UserNotAcceptable { .. }
        | TokenRefusal::AppsNotAcceptable { .. }
        | TokenRefusal::KeysNotAvailable { .. } => false,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library may add kinds, and each is a refusal")]
fn refusal_for(kind: &ErrorKind) -> TokenRefusal {
    match kind {
        ErrorKind::InvalidSignature => TokenRefusal::BadSignature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => TokenRefusal::AlgorithmNotAllowed,
        ErrorKind::InvalidIssuer => TokenRefusal::UnknownIssuer,
        ErrorKind::InvalidAudience => TokenRefusal::WrongAudience,
        _ => TokenRefusal::Malformed,
    }
}
