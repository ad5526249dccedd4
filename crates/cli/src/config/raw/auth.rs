//! `[auth.jwt.NAME]` as it is written, and the way from there to checked issuers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use app::Problem;
use app::source::Spanned;
use app::source::bounds::whole_number;
use identity::{JwksSource, JwtAlgorithm, JwtIssuerConfig, JwtIssuers};
use protocol::SystemClock;
use serde::Deserialize;

use super::ConfigReader;
use super::proxying::OneOrSeveral;

const MAX_ISSUERS: usize = 32;
const MAX_LEEWAY_SECONDS: i64 = 300;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAuth {
    jwt: BTreeMap<String, Spanned<RawJwt>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJwt {
    issuer: String,
    audience: OneOrSeveral,
    jwks_url: Option<String>,
    jwks_file: Option<String>,
    algorithms: Option<Vec<JwtAlgorithm>>,
    user_claim: Option<String>,
    apps_claim: Option<String>,
    admin_claim: Option<String>,
    prefix: Option<String>,
    #[serde(default, deserialize_with = "whole_number::<0, MAX_LEEWAY_SECONDS, _, _>")]
    leeway_seconds: Option<Duration>,
}

impl ConfigReader<'_> {
    pub(super) fn issuers(&self, raw: RawAuth) -> Result<Vec<JwtIssuerConfig>, Problem> {
        let mut issuers: Vec<JwtIssuerConfig> = Vec::new();
        for (name, raw) in raw.jwt {
            let span = raw.span();
            let problem = |message: String, remedy: &str| self.source.problem(span.clone(), message, remedy);
            let raw = raw.into_inner();
            let keys = match (raw.jwks_url, raw.jwks_file) {
                (Some(url), None) => JwksSource::Url(url),
                (None, Some(file)) => JwksSource::File(file.into()),
                (None, None) => JwksSource::Discovery,
                (Some(_), Some(_)) => {
                    let message = format!("[auth.jwt.{name}] has both jwks_url and jwks_file");
                    return Err(problem(message, "remove one of them"));
                }
            };
            let usual = JwtIssuerConfig::new(&name, &raw.issuer, "", keys);
            issuers.push(JwtIssuerConfig {
                audiences: raw.audience.into_list(),
                algorithms: raw.algorithms.unwrap_or(usual.algorithms),
                user_claim: raw.user_claim.unwrap_or(usual.user_claim),
                app_claim: raw.apps_claim,
                admin_claim: raw.admin_claim,
                prefix: raw.prefix.unwrap_or(usual.prefix),
                leeway: raw.leeway_seconds.unwrap_or(usual.leeway),
                ..usual
            });
            if issuers.len() > MAX_ISSUERS {
                return Err(problem(format!("there are more than {MAX_ISSUERS} issuers"), "remove some"));
            }
            // Looked at with those before it, so that the problem is found at its line.
            if let Err(wrong) = JwtIssuers::new(issuers.clone(), Arc::new(SystemClock)) {
                let message = format!("[auth.jwt.{name}] cannot be used");
                return Err(problem(message, &wrong.fault.to_string()));
            }
        }
        Ok(issuers)
    }
}
