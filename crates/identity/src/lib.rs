//! Verification of bearer tokens (JWTs) that the sign-in of a product issues.
//!
//! [`JwtIssuers`] knows the configured issuers. It checks a token by the public keys of its issuer, and says which user
//! the token names. No token is ever made here, and no secret is needed: the keys are public.

mod claims;
mod compact_token;
mod config;
mod issuer;
mod issuer_keys;
mod issuers;
mod key_set;
mod key_source;
mod problem;
mod refusal;
mod unique_object;
mod wire;

pub use claims::VerifiedToken;
pub use config::{InvalidJwtIssuer, JwksSource, JwtAlgorithm, JwtIssuerConfig, JwtIssuerFault};
pub use issuers::JwtIssuers;
pub use problem::JwksProblem;
pub use refusal::TokenRefusal;
