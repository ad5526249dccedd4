//! The rest of a user's limits in an app, in the header fields of draft-ietf-httpapi-ratelimit-headers.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use protocol::{Allowance, Principal, Quota, Used};

use crate::Api;
use crate::error::ApiProblem;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

impl Api {
    /// The answer of a route that starts runs of the app, with what is left to the user now.
    pub(crate) async fn with_allowance(
        &self,
        principal: &Principal,
        app: &str,
        answer: Result<Response, ApiProblem>,
    ) -> Response {
        let mut response = answer.unwrap_or_else(ApiProblem::into_response);
        if !response.headers().contains_key(RATE_LIMIT_POLICY) {
            response.headers_mut().extend(self.allowance(principal, app).await);
        }
        response
    }

    /// The rest of the user's limits, as header fields; none for an app that is not theirs or has no limits.
    pub(crate) async fn allowance(&self, principal: &Principal, app: &str) -> HeaderMap {
        header_fields(&self.service.allowances(principal, app).await.unwrap_or_default())
    }

    /// The rest of the limits of a user of whom it is known how much they have used, as header fields.
    pub(crate) fn allowance_with(&self, principal: &Principal, app: &str, used: &Used) -> HeaderMap {
        header_fields(&self.service.allowances_with(principal, app, used))
    }
}

fn header_fields(allowances: &[Allowance]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, text) in [(RATE_LIMIT_POLICY, policies(allowances)), (RATE_LIMIT, format_left(allowances))] {
        if let Some(value) = HeaderValue::from_str(&text).ok().filter(|value| !value.is_empty()) {
            headers.insert(name, value);
        }
    }
    headers
}

fn policies(allowances: &[Allowance]) -> String {
    list(allowances, |text, allowance| {
        write!(text, ";q={}", allowance.limit)?;
        if let Some(unit) = unit(allowance.quota) {
            write!(text, ";qu=\"{unit}\"")?;
        }
        allowance.quota.window().map_or(Ok(()), |window| write!(text, ";w={window}"))
    })
}

fn format_left(allowances: &[Allowance]) -> String {
    list(allowances, |text, allowance| {
        write!(text, ";r={}", allowance.left)?;
        allowance.resets_in.map_or(Ok(()), |seconds| write!(text, ";t={seconds}"))
    })
}

fn list(allowances: &[Allowance], member: impl Fn(&mut String, &Allowance) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for allowance in allowances {
        let comma = if text.is_empty() { "" } else { ", " };
        let written = write!(text, "{comma}\"{}\"", allowance.quota.name());
        if written.and_then(|()| member(&mut text, allowance)).is_err() {
            return String::new();
        }
    }
    text
}

/// The unit of a limit, where it is not requests.
fn unit(quota: Quota) -> Option<&'static str> {
    match quota {
        Quota::RunsMinute | Quota::RunsDay => None,
        Quota::TokensMinute | Quota::TokensDay => Some("tokens"),
        Quota::Running => Some("concurrent-requests"),
    }
}

#[cfg(test)]
mod tests {
    use protocol::UserLimits;

    use super::*;

    #[test]
    fn every_limit_is_a_member_of_both_lists() {
        let limits = UserLimits {
            runs_per_minute: Some(20),
            runs_per_day: Some(500),
            tokens_per_minute: Some(50_000),
            tokens_per_day: Some(1_000_000),
            max_running: Some(4),
        };
        let used = Used { minute_runs: 3, day_runs: 20, minute_tokens: 60_000, day_tokens: 1, running: 1 };
        let allowances = limits.allowances(&used, "2026-11-15T12:00:18Z".parse().unwrap());
        assert_eq!(
            policies(&allowances),
            "\"runs-minute\";q=20;w=60, \"runs-day\";q=500;w=86400, \
             \"tokens-minute\";q=50000;qu=\"tokens\";w=60, \"tokens-day\";q=1000000;qu=\"tokens\";w=86400, \
             \"running\";q=4;qu=\"concurrent-requests\""
        );
        assert_eq!(
            format_left(&allowances),
            "\"runs-minute\";r=17;t=42, \"runs-day\";r=480;t=43182, \"tokens-minute\";r=0;t=42, \
             \"tokens-day\";r=999999;t=43182, \"running\";r=3"
        );
    }
}
