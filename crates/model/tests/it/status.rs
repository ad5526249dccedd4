//! Refusals: what each status and error of a provider means for the caller, by every wire.

use std::time::Duration;

use model::{Error, ModelRequest, ProviderWire, Timeouts};
use serde_json::json;
use testkit::upstream::{Reply, Upstream};

use crate::support::{PATIENT, SHORT, answer_to, ask, client, endpoint, hello};

/// The error of an answer without a piece.
pub(crate) async fn error(wire: ProviderWire, reply: Reply, timeouts: Timeouts) -> Error {
    let (pieces, error) = answer_to(wire, reply, timeouts).await;
    assert_eq!(pieces, [], "{wire:?}");
    error.unwrap()
}

pub(crate) fn unavailable(reason: &str) -> Error {
    Error::Unavailable { reason: reason.into(), after: None }
}

/// A reason with the provider's code, where its errors have one.
pub(crate) fn with_code(wire: ProviderWire, reason: &str, code: &str) -> String {
    match wire {
        ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => {
            format!("{reason}, {code}")
        }
        ProviderWire::Ollama => reason.to_owned(),
    }
}

#[tokio::test]
async fn statuses_are_mapped() {
    for wire in ProviderWire::ALL {
        let html = |status| Reply::status(status).header("content-type", "text/html").body("<h1>no</h1>");
        let overloaded = with_code(wire, "status 529", "overloaded_error");
        let invalid = with_code(wire, "the provider found the request invalid", "invalid_request_error");
        let after = |seconds| Some(Duration::from_secs(seconds));
        let auth = |status| Error::Auth { status, provider: "scripted".into() };
        for (reply, expected) in [
            (html(500), unavailable("status 500")),
            (html(502), unavailable("status 502")),
            (
                html(503).header("retry-after", "4"),
                Error::Unavailable { reason: "status 503".into(), after: after(4) },
            ),
            (Reply::status(529).error("overloaded_error", None, "x"), unavailable(&overloaded)),
            (Reply::status(401), auth(401)),
            (Reply::status(403).error("permission_error", None, "x"), auth(403)),
            (
                Reply::status(400).error("invalid_request_error", None, "secret sk-planted"),
                Error::Rejected { status: 400, summary: invalid },
            ),
            (Reply::status(404), Error::Rejected { status: 404, summary: "no such model or address".into() }),
            (
                Reply::status(204),
                Error::Rejected { status: 204, summary: "the provider found the request invalid".into() },
            ),
        ] {
            assert_eq!(error(wire, reply, PATIENT).await, expected, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn too_many_requests_say_when_to_come_back() {
    let limited = |after| Error::RateLimited { after };
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for wire in ProviderWire::ALL {
        for (reply, expected) in [
            (Reply::status(429), limited(None)),
            (Reply::status(429).error("rate_limit_error", None, "slow down"), limited(None)),
            (Reply::status(429).header("retry-after", "2"), limited(Some(Duration::from_secs(2)))),
            (
                Reply::status(429).header("retry-after", "9").header("retry-after-ms", "300"),
                limited(Some(Duration::from_millis(300))),
            ),
            (
                Reply::status(429)
                    .header("date", date)
                    .header("Retry-After", "Sun, 06 Nov 1994 08:49:57 GMT"),
                limited(Some(Duration::from_secs(20))),
            ),
        ] {
            assert_eq!(error(wire, reply, PATIENT).await, expected, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn money_that_ran_out_is_not_waited_for() {
    for wire in ProviderWire::ALL {
        let exceeded = "You exceeded your current quota, please check your plan and billing details.";
        let spent = "This request would exceed your organization's monthly spend limit.";
        for reply in [
            Reply::status(429).error("insufficient_quota", Some("insufficient_quota"), exceeded),
            Reply::status(429).error("rate_limit_error", None, spent),
            Reply::status(402),
        ] {
            assert_eq!(error(wire, reply, PATIENT).await, Error::Quota, "{wire:?}");
        }
        let low = "Your credit balance is too low to access the Anthropic API.";
        let refused =
            error(wire, Reply::status(400).error("invalid_request_error", None, low), PATIENT).await;
        assert!(!refused.is_retryable(), "{wire:?}: {refused:?}");
    }
}

/// A provider's own words for a prompt that does not fit, with its code for it.
fn too_long(wire: ProviderWire) -> Vec<(Option<&'static str>, &'static str)> {
    match wire {
        ProviderWire::Chat => vec![
            (Some("context_length_exceeded"), "x"),
            (None, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."),
        ],
        ProviderWire::Responses => vec![
            (Some("context_length_exceeded"), "x"),
            (
                None,
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
        ],
        ProviderWire::Anthropic(_) => vec![
            (None, "prompt is too long: 200001 tokens > 200000 maximum"),
            (
                None,
                "input length and `max_tokens` exceed context limit: 198000 + 4096 > 200000, decrease input length \
                 or `max_tokens` and try again",
            ),
        ],
        ProviderWire::Ollama => vec![
            (None, "the input length exceeds the context length"),
            (None, "prompt too long; exceeded max context length by 808 tokens"),
        ],
    }
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_told_in_each_providers_words() {
    for wire in ProviderWire::ALL {
        for (code, words) in too_long(wire) {
            let reply = Reply::status(400).error("invalid_request_error", code, words);
            assert_eq!(error(wire, reply, PATIENT).await, Error::ContextLength, "{wire:?}: {words}");
            let inside = Reply::stream().error("invalid_request_error", code, words);
            assert_eq!(error(wire, inside, PATIENT).await, Error::ContextLength, "{wire:?}: {words}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_read_only_so_far_and_only_so_long() {
    for wire in ProviderWire::ALL {
        let endless = Reply::status(500).body("x".repeat(1 << 20)).stall();
        assert_eq!(error(wire, endless, PATIENT).await, unavailable("status 500"), "{wire:?}");
        let stalled = Reply::status(500).head().stall().body("never sent");
        let short = Timeouts { idle: SHORT, ..PATIENT };
        assert_eq!(error(wire, stalled, short).await, unavailable("status 500"), "{wire:?}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Upstream::start().await;
    for wire in ProviderWire::ALL {
        for status in [301, 302, 303, 307, 308] {
            let reply = Reply::status(status).header("location", &elsewhere.base_url());
            let summary = "it answers with a redirect; check the base URL".into();
            let expected = Error::Rejected { status, summary };
            assert_eq!(error(wire, reply, PATIENT).await, expected, "{wire:?}");
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_page_is_not_an_answer() {
    let broken = |reason: &str| Error::Broken(reason.into());
    for wire in ProviderWire::ALL {
        let page = |kind| Reply::status(200).header("content-type", kind).body("<html>Log in</html>");
        let neither = broken("neither an event stream nor JSON");
        assert_eq!(error(wire, page("text/html; charset=utf-8"), PATIENT).await, neither, "{wire:?}");
        assert_eq!(error(wire, page("text/plain"), PATIENT).await, neither, "{wire:?}");
        let cut = error(wire, page("text/event-stream"), PATIENT).await;
        assert_eq!(cut, broken("ended without a finish reason"), "{wire:?}");
        let unreadable = broken("an event that cannot be read");
        assert_eq!(error(wire, page("application/json"), PATIENT).await, unreadable, "{wire:?}");
        assert_eq!(error(wire, page("application/x-ndjson"), PATIENT).await, unreadable, "{wire:?}");
        let zipped = Reply::says("x").header("content-encoding", "gzip");
        let compressed = broken("a compressed answer, which was not asked for");
        assert_eq!(error(wire, zipped, PATIENT).await, compressed, "{wire:?}");
        let refusal = Reply::status(200).error("server_error", None, "x");
        let reason = with_code(wire, "an error inside the stream", "server_error");
        assert_eq!(error(wire, refusal, PATIENT).await, unavailable(&reason), "{wire:?}");
        for nothing in [json!({}), json!([]), json!(null), json!("x")] {
            let empty = error(wire, Reply::json(&nothing), PATIENT).await;
            assert!(matches!(empty, Error::Broken(_)), "{wire:?}: {nothing} gave {empty:?}");
        }
    }
}

#[tokio::test]
async fn nothing_of_the_provider_or_the_key_is_shown() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        upstream.script([
            Reply::status(401).error("invalid_api_key", None, "Incorrect API key provided: sk-planted"),
            Reply::status(400).error("sk-planted is WRONG", Some("sk-planted!"), "sk-planted"),
            Reply::stream().error("Key sk-planted", None, "sk-planted"),
            Reply::says("x").error("Key sk-planted", Some("sk-planted?"), "sk-planted"),
            Reply::says("x").finish("error"),
        ]);
        let client = client(wire, &upstream, PATIENT);
        for _ in 0..5 {
            let error = ask(&*client).await.1;
            let shown = format!("{error:?} {:?}", endpoint(wire, &upstream, PATIENT));
            let told = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(!shown.contains("planted") && !told.contains("planted"), "{wire:?}: {shown} {told}");
        }
    }
}

#[tokio::test]
async fn the_upstream_tells_on_a_client() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x")]);
    let client = client(ProviderWire::Chat, &upstream, PATIENT);
    let rejected = client.stream(&ModelRequest { messages: vec![], ..hello() }).await.err();
    let summary = "the provider found the request invalid, invalid_request_error".into();
    assert_eq!(rejected, Some(Error::Rejected { status: 400, summary }));
    let expected = ["Invalid 'messages': empty array. Expected an array with minimum length 1."];
    assert_eq!(upstream.violations(), expected);
    assert_eq!(ask(&*client).await.1, None);
    assert_eq!(ask(&*client).await.1, Some(unavailable("status 500")));
    assert_eq!(upstream.violations(), ["unexpected request: the script is empty"]);
}
