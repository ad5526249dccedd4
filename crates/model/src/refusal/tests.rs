//! Statuses and bodies as providers send them, and what they mean.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn error(status: u16, body: &Value) -> Error {
    Refusal::read(body.to_string().as_bytes()).error(status, &HeaderMap::new(), "test")
}

fn rejected(status: u16, summary: &str) -> Error {
    Error::Rejected { status, summary: summary.into() }
}

fn unavailable(reason: &str) -> Error {
    Error::Unavailable { reason: reason.into(), after: None }
}

#[test]
fn a_status_alone_decides() {
    let auth = |status| Error::Auth { status, provider: "test".into() };
    for (status, expected) in [
        (301, rejected(301, "it answers with a redirect; check the base URL")),
        (400, rejected(400, "the provider found the request invalid")),
        (401, auth(401)),
        (402, Error::Quota),
        (403, auth(403)),
        (404, rejected(404, "no such model or address")),
        (408, unavailable("status 408")),
        (409, unavailable("status 409")),
        (422, rejected(422, "the provider found the request invalid")),
        (429, Error::RateLimited { after: None }),
        (500, unavailable("status 500")),
        (502, unavailable("status 502")),
        (503, unavailable("status 503")),
        (529, unavailable("status 529")),
    ] {
        assert_eq!(Refusal::read(b"<html>no</html>").error(status, &HeaderMap::new(), "test"), expected);
    }
}

#[test]
fn money_is_not_waited_for() {
    for body in [
        json!({"error": {"message": "x", "type": "insufficient_quota", "code": "insufficient_quota"}}),
        json!({"error": {"message": "x", "type": "insufficient_quota", "code": null}}),
        json!({"error": {"code": "billing_hard_limit_reached"}}),
        json!({"error": {"message": "You have reached your monthly Spend Limit.", "type": "rate_limit_error"}}),
        json!({"error": "You exceeded your current quota, please check your plan and billing details."}),
    ] {
        assert_eq!(error(429, &body), Error::Quota, "{body}");
    }
    // A provider that says when to come back means a limit of the minute, in any words.
    let body = json!({"error": {"message": "You exceeded your current quota.", "code": 429}}).to_string();
    let after = Some(Duration::from_secs(7));
    let error = Refusal::read(body.as_bytes()).error(429, &headers(&[("retry-after", "7")]), "test");
    assert_eq!(error, Error::RateLimited { after });
}

#[test]
fn a_prompt_that_does_not_fit() {
    for body in [
        json!({"error": {"message": "x", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
        json!({"error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_ctx": 4096}}),
        json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
        json!([{"error": {"message": "The input token count exceeds the maximum number of tokens allowed (9)."}}]),
    ] {
        assert_eq!(error(400, &body), Error::ContextLength, "{body}");
    }
}

#[test]
fn only_codes_are_passed_on() {
    let secret = "Incorrect key sk-planted for prompt: my heart";
    for (body, expected) in [
        (
            json!({"error": {"message": secret, "code": "model_not_found"}}),
            "no such model or address, model_not_found",
        ),
        (
            json!({"error": {"message": secret, "type": "not_found.v1-x"}}),
            "no such model or address, not_found.v1-x",
        ),
        (
            json!({"error": {"message": secret, "code": secret, "type": "ok_type"}}),
            "no such model or address, ok_type",
        ),
        (json!({"error": {"code": "A"}}), "no such model or address"),
        (json!({"error": {"code": ""}}), "no such model or address"),
        (json!({"error": {"code": "x".repeat(65)}}), "no such model or address"),
        (json!({"detail": secret}), "no such model or address"),
        (json!("sk-planted"), "no such model or address"),
        (json!(null), "no such model or address"),
    ] {
        assert_eq!(error(404, &body), rejected(404, expected), "{body}");
    }
    assert_eq!(
        error(529, &json!({"error": {"type": "overloaded_error"}})),
        unavailable("status 529, overloaded_error")
    );
}

#[test]
fn waits_are_read_in_every_form() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (list, expected) in [
        (vec![("retry-after", "2")], Some(Duration::from_secs(2))),
        (vec![("retry-after", " 2 ")], Some(Duration::from_secs(2))),
        (vec![("retry-after", "2"), ("retry-after-ms", "1500")], Some(Duration::from_millis(1500))),
        (vec![("retry-after", "2"), ("retry-after-ms", "soon")], Some(Duration::from_secs(2))),
        (vec![date, ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(Duration::from_secs(30))),
        (vec![date, ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(Duration::ZERO)),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], None),
        (vec![("retry-after", "99999999999")], Some(MAX_WAIT)),
        (vec![("retry-after", "-1")], None),
        (vec![("retry-after", "soon")], None),
        (vec![], None),
    ] {
        assert_eq!(retry_after(&headers(&list)), expected, "{list:?}");
    }
}

#[test]
fn a_notice_inside_a_stream() {
    let rate = Error::RateLimited { after: None };
    for (body, expected) in [
        (
            json!({"type": "server_error", "code": null, "message": "x"}),
            unavailable("an error inside the stream, server_error"),
        ),
        (json!({"type": "overloaded_error"}), unavailable("an error inside the stream, overloaded_error")),
        (json!({"code": 502, "message": "x"}), unavailable("status 502")),
        (json!({"code": "502", "message": "x"}), unavailable("status 502, 502")),
        (json!({"code": "rate_limit_exceeded", "type": "requests"}), rate.clone()),
        (json!({"code": 429}), rate),
        (json!({"code": "insufficient_quota", "type": "insufficient_quota"}), Error::Quota),
        (json!({"code": "context_length_exceeded", "type": "invalid_request_error"}), Error::ContextLength),
        (
            json!({"type": "invalid_request_error"}),
            rejected(400, "the provider found the request invalid, invalid_request_error"),
        ),
        (json!({"type": "authentication_error"}), Error::Auth { status: 401, provider: "test".into() }),
        (json!("something"), unavailable("an error inside the stream")),
        (json!("maximum context length is 9"), Error::ContextLength),
    ] {
        assert_eq!(Refusal::from_json(&json!({"error": body})).in_stream("test"), expected, "{body}");
    }
}

/// The log says which limit was reached, and shows no key.
#[test]
fn a_message_is_logged_short_and_without_keys() {
    let limit = "rate limit reached for gpt-4o-mini in organization org-aB3dE5gH7jK9mN1pQ3 on tokens per min (tpm): \
                 limit 30000, used 29012.";
    let expected = "rate limit reached for gpt-4o-mini in organization [hidden] on tokens per min (tpm): limit \
                    30000, used 29012.";
    assert_eq!(loggable(limit), expected);
    assert_eq!(
        loggable("key sk-abc is\nover \u{7}its quota, see https://x.example/?key=1"),
        "key [hidden] is over its quota, see [hidden]"
    );
    assert_eq!(loggable("key 0f8fad5b-d9cb-469f-a165-70867728950e."), "key [hidden]");
    let long = loggable(&"ab ".repeat(1000));
    assert_eq!(long.chars().count(), MAX_LOGGED_CHARS + 1);
    assert!(long.ends_with('…'));
}
