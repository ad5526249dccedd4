//! Why the keys of an issuer could not be loaded.

use std::io;

use thiserror::Error;

/// A failed load of keys. An operator reads it in the log and in reports about the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwksProblem {
    #[error("the issuer did not send its keys within 5 seconds; check that its address can be reached")]
    Timeout,
    #[error("no connection to the issuer; check the address of its keys, and that this machine can reach it")]
    Unreachable,
    #[error("TLS cannot be set up; are the root certificates of the system installed?")]
    Tls,
    #[error(
        "the issuer answered with status {0} instead of 200; redirects are not followed, so configure the final URL"
    )]
    Status(u16),
    #[error("the document is longer than 256 KiB; configure the URL of the key set alone")]
    TooLarge,
    #[error("the document is not a JSON key set with a list `keys`; check the configured URL or file")]
    NotKeySet,
    #[error("the key set has more than 100 keys; remove the keys that are no longer in use")]
    TooManyKeys,
    #[error("the discovery document is not JSON with `issuer` and `jwks_uri`; configure the URL of the keys")]
    NotDiscovery,
    #[error("the discovery document names another issuer; configure exactly the issuer that it names")]
    OtherIssuer,
    #[error("the discovery document names a URL of keys that is not https; configure the URL of the keys")]
    KeyAddress,
    #[error("the key file cannot be read ({0}); check its path and its permissions")]
    File(io::ErrorKind),
}
