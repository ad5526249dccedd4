//! Why a token is refused.

use thiserror::Error;

/// The reason for a refusal. No text contains a part of the token, because texts are logged and sent to clients.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    #[error("the token is longer than 8 KiB; ask the issuer for a token with fewer claims")]
    TooLarge,
    #[error("the token is not a signed JWT; send the three parts of the token as the issuer made them")]
    Malformed,
    #[error("the token is signed with an algorithm that is not allowed; sign it with one that is configured")]
    AlgorithmNotAllowed,
    #[error("the token has a critical header, which is not supported; ask the issuer for a token without it")]
    CriticalHeader,
    #[error("the type of the token is neither JWT nor at+jwt; send an access token")]
    WrongType,
    #[error("the token is from an issuer that is not configured; sign in with a configured issuer")]
    UnknownIssuer,
    #[error("the token is for another audience; ask the issuer for a token for this service")]
    WrongAudience,
    #[error("no key of the issuer fits the token; sign in again")]
    UnknownKey,
    #[error("the signature of the token is wrong; sign in again")]
    BadSignature,
    #[error("the token has expired; sign in again")]
    Expired,
    #[error("the token is not valid yet; compare the clocks of the issuer and of this server")]
    NotYetValid,
    #[error("the token was issued in the future; compare the clocks of the issuer and of this server")]
    IssuedInFuture,
    #[error("the claim {claim} must be a whole number of seconds since 1970; `exp` must be in every token")]
    TimeNotAcceptable { claim: &'static str },
    #[error(
        "the claim {claim} must name the user with visible ASCII characters, together with the prefix at most 200"
    )]
    UserNotAcceptable { claim: String },
    #[error("the claim {claim} must list apps as one string or as an array of at most 64 strings")]
    AppsNotAcceptable { claim: String },
    #[error("the keys of the issuer {issuer} are not available; try again in a minute")]
    KeysNotAvailable { issuer: String },
}

impl TokenRefusal {
    /// True if the token may be good, and the server cannot check it now. An HTTP server answers 503, otherwise 401.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::KeysNotAvailable { .. })
    }
}
