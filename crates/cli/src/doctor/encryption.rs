//! Whether requests to the server are encrypted, and how long its certificate is valid.

use protocol::{Clock, SystemClock};
use server::TlsPair;

use super::Diagnosis;
use crate::config::Config;
use crate::serve::{end_notice, require_encryption};

/// Nothing is said of a server that only this machine can reach and that has no certificate.
pub(super) fn check(config: &Config) -> Option<Diagnosis> {
    if let Err(refusal) = require_encryption(config) {
        return Some(Diagnosis::Bad(format!("TLS: {refusal}")));
    }
    let files = config.tls.as_ref()?;
    let now = SystemClock.now();
    Some(match TlsPair::load(files, now) {
        Err(error) => Diagnosis::Bad(format!("TLS: {error}")),
        Ok(pair) => match end_notice(&pair, now) {
            Some(notice) => Diagnosis::Note(format!("TLS: {notice}")),
            None => Diagnosis::Good(format!(
                "TLS: the certificate in {} is valid until {}",
                files.cert.display(),
                pair.end()
            )),
        },
    })
}
