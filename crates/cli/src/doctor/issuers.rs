//! Whether the keys of the configured issuers of JWTs can be loaded.

use std::sync::Arc;

use identity::JwtIssuers;
use protocol::SystemClock;

use super::Diagnosis;
use crate::config::Config;

pub(super) async fn check(config: &Config) -> Vec<Diagnosis> {
    let Ok(issuers) = JwtIssuers::new(config.issuers.clone(), Arc::new(SystemClock)) else {
        return Vec::new();
    };
    let problems = issuers.load_keys().await;
    let finding = |name: &str| match problems.iter().find(|(issuer, _)| issuer == name) {
        Some((_, problem)) => Diagnosis::Bad(format!("JWT of {name}: {problem}; look at [auth.jwt.{name}]")),
        None => Diagnosis::Good(format!("JWT of {name}: the keys of the issuer are there")),
    };
    config.issuers.iter().map(|issuer| finding(&issuer.name)).collect()
}
