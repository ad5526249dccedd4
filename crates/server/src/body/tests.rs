//! Bodies that a client should not have sent, and what they are told.

use protocol::{NewPin, NewRun};

use super::*;

fn refusal(body: &str) -> ApiProblem {
    parse::<NewRun>(body.as_bytes()).unwrap_err()
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn a_good_body_is_read() {
    let new: NewRun = parse(br#" {"message": "hi", "settings": {"temperature": 0.5}} "#).unwrap();
    assert_eq!(new.message.as_deref(), Some("hi"));
    assert_eq!(new.settings.settings.temperature, Some(0.5));
}

#[test]
fn what_is_not_json_is_called_so() {
    for body in [
        "",
        " ",
        "{",
        "{\"message\": \"hi\"",
        "{\"message\": \"hi\"} {}",
        "{'message': 'hi'}",
        "{\"message\": NaN}",
        "{\"settings\": {\"temperature\": 1e999}}",
        "{\"message\": \"\\ud800\"}",
        "{\"message\": \"a\nb\"}",
        "{\"message\": \"hi\",}",
        "\u{feff}{\"message\": \"hi\"}",
    ] {
        assert_eq!(refusal(body).code(), ProblemCode::InvalidJson, "{body:?}");
    }
}

#[test]
fn what_is_not_utf8_is_called_so() {
    let problem = parse::<NewRun>(b"{\"message\": \"\xff\"}").unwrap_err();
    let detail = "the byte at offset 13 is not UTF-8; encode the body as UTF-8";
    assert_eq!(problem, ApiProblem::new(ProblemCode::InvalidUtf8, detail));
}

#[test]
fn the_field_at_fault_is_named() {
    let cases = [
        (r#"{"message": 5}"#, "message", "invalid type: integer `5`, expected a string"),
        (r#"{"parts": [null]}"#, "parts[0]", "invalid type: null, expected an object"),
        (r#"{"tools": [null]}"#, "tools[0]", "invalid type: null, expected an object"),
        (r#"{"stream": "yes"}"#, "stream", "invalid type: string \"yes\", expected a boolean"),
        (
            r#"{"settings": {"temperature": "hot"}}"#,
            "settings.temperature",
            "invalid type: string \"hot\", expected a number",
        ),
        (
            r#"{"settings": {"warmth": 1}}"#,
            "settings.warmth",
            "unknown field `warmth`, expected one of `model`, `temperature`, `maxTokens`, `topP`, \
             `frequencyPenalty`, `presencePenalty`, `repeatPenalty`, `outputFormat`, `reasoningEffort`",
        ),
        (
            r#"{"settings": {"maxTokens": -1}}"#,
            "settings.maxTokens",
            "invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
        ),
        (r#"{"message": "a", "message": "b"}"#, "message", "duplicate field `message`"),
        (r#"{"threadId": "42"}"#, "threadId", "expected an id of the form thr_ and 32 hexadecimal digits"),
    ];
    for (body, field, message) in cases {
        assert_eq!(refusal(body), ApiProblem::invalid(field, message), "{body}");
    }
    let missing = parse::<NewPin>(b"{}").unwrap_err();
    assert_eq!(missing, ApiProblem::invalid("text", "missing field `text`"));
}

#[test]
fn a_list_is_not_taken_for_an_object() {
    for body in [r#"["hi"]"#, "[]", "null", "true", "42", "\"hi\""] {
        assert_eq!(
            refusal(body),
            ApiProblem::new(ProblemCode::InvalidRequest, "the body must be a JSON object"),
            "{body}"
        );
    }
}

#[test]
fn depth_is_bounded() {
    assert_eq!(json_depth(&nested(64)), 64);
    assert_eq!(json_depth(r#"{"a": "[[[", "b": "\"[[", "c": [{}]}"#), 3);
    let at_limit = refusal(&format!("{{\"x\": {}}}", nested(63)));
    assert_eq!(at_limit.code(), ProblemCode::InvalidRequest);
    let problem = ApiProblem::new(ProblemCode::InvalidJson, "the JSON nests deeper than 64 levels");
    assert_eq!(refusal(&format!("{{\"x\": {}}}", nested(64))), problem);
    assert_eq!(refusal(&nested(1_000_000)), problem);
    assert_eq!(refusal(&"[".repeat(1_000_000)), problem);
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused() {
    let limits = ServerLimits { max_body_bytes: 8, ..ServerLimits::default() };
    assert_eq!(collect(Body::from("12345678"), &limits).await.unwrap(), "12345678");
    let problem = ApiProblem::new(ProblemCode::BodyTooLarge, "the body must be at most 8 bytes");
    assert_eq!(collect(Body::from("123456789"), &limits).await.unwrap_err(), problem);
    assert_eq!(read_bounded(Body::from("123456789"), &limits).await.unwrap_err(), problem);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_refused() {
    let limits = ServerLimits::default();
    let stalled = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let problem = ApiProblem::new(ProblemCode::BodyTimeout, "the body must arrive within 30 seconds");
    assert_eq!(collect(stalled, &limits).await.unwrap_err(), problem);
}

#[test]
fn json_is_the_only_content_type() {
    let check = |value: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, axum::http::HeaderValue::from_bytes(value).unwrap());
        check_content_type(&headers, &[JSON], JSON).map_err(|problem| problem.code())
    };
    assert_eq!(check_content_type(&HeaderMap::new(), &[JSON], JSON), Ok(()));
    for good in ["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"] {
        assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
    }
    for bad in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "\u{e9}"] {
        assert_eq!(check(bad.as_bytes()), Err(ProblemCode::UnsupportedMediaType), "{bad}");
    }
}
