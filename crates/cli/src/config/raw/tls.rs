//! `[tls]` as it is written, and the way from there to the two files.

use app::Problem;
use app::source::Spanned;
use serde::Deserialize;
use server::TlsFiles;

use super::{Chosen, ConfigReader};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTls {
    cert: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
}

impl ConfigReader<'_> {
    pub(super) fn tls(&self, raw: RawTls) -> Result<Option<TlsFiles>, Problem> {
        let cert = self.choose("RONDO_TLS_CERT", raw.cert)?;
        let key = self.choose("RONDO_TLS_KEY", raw.key)?;
        match (cert, key) {
            (Some(cert), Some(key)) => {
                Ok(Some(TlsFiles { cert: cert.value.trim().into(), key: key.value.trim().into() }))
            }
            (None, None) => Ok(None),
            (Some(cert), None) => {
                Err(half_of_pair(&cert, "there is a certificate without its key", "tls.key"))
            }
            (None, Some(key)) => {
                Err(half_of_pair(&key, "there is a key without its certificate", "tls.cert"))
            }
        }
    }
}

/// The problem of a certificate without its key, or of a key without its certificate.
fn half_of_pair(chosen: &Chosen<'_>, message: &str, missing: &str) -> Problem {
    let variable = missing.replace('.', "_").to_uppercase();
    chosen.problem(
        message,
        format!("set {missing} (RONDO_{variable}) to its PEM file too, or remove this setting"),
    )
}
