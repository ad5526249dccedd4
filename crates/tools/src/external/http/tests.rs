//! Results that are made of an answer, and of a refusal.

use serde_json::json;

use super::*;

fn incoming(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Incoming {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
    Incoming { status, headers: headers.collect(), body: body.to_vec(), cut: false }
}

fn answered(content_type: &str, body: &[u8]) -> Result<Value, (&'static str, bool)> {
    let answer = incoming(200, &[("content-type", content_type)], body);
    whole_answer(&answer).map_err(|failed| (failed.error, failed.uncertain))
}

#[test]
fn an_answer_is_json_if_it_says_so_and_text_otherwise() {
    assert_eq!(answered("application/json; charset=utf-8", b"{\"a\":1}"), Ok(json!({ "a": 1 })));
    assert_eq!(answered("Application/Problem+JSON", b"[1]"), Ok(json!([1])));
    assert_eq!(answered("text/plain", b"{\"a\":1}"), Ok(json!("{\"a\":1}")));
    assert_eq!(answered("application/x-ndjson", b"1\n2\n"), Ok(json!("1\n2\n")), "many values are a text");
    assert_eq!(answered("application/jsonl", b"1\n2\n"), Ok(json!("1\n2\n")));
    assert_eq!(answered("", "Grüße".as_bytes()), Ok(json!("Grüße")));
    assert_eq!(answered("application/json", b""), Ok(json!({ "status": 200 })));
}

#[test]
fn an_answer_out_of_shape_is_no_result() {
    let invalid = Err(("invalid_answer", true));
    assert_eq!(answered("application/json", b"{\"a\":"), invalid);
    assert_eq!(answered("application/json", b"\xff"), invalid);
    assert_eq!(answered("text/html", b"caf\xe9"), invalid);
    assert_eq!(answered("image/png", b"\x89PNG\r\n\x1a\n\0"), invalid);
    let nested = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(answered("application/json", nested.as_bytes()), Ok(json!(nested)), "deep as it is, a text");
}

#[test]
fn a_long_answer_is_a_text_that_ends_at_a_whole_character() {
    let long = "é".repeat(MAX_TEXT_BYTES);
    for (content_type, body) in [("text/plain", format!("x{long}")), ("application/json", format!("x{long}"))]
    {
        let text = answered(content_type, body.as_bytes()).unwrap();
        assert_eq!(text.as_str().map(str::len), Some(MAX_TEXT_BYTES - 1), "{content_type}");
    }
    let cut = Incoming { cut: true, ..incoming(200, &[("content-type", "application/json")], b"[1, \"\xc3") };
    assert_eq!(whole_answer(&cut).unwrap(), json!("[1, \""));
}

#[test]
fn a_part_is_taken_only_of_an_answer_that_was_read_whole() {
    let whole = incoming(200, &[], b"{\"a\": [1, 2]}");
    assert_eq!(json_of(&whole).unwrap(), json!({ "a": [1, 2] }));
    let error = json_of(&Incoming { cut: true, ..whole }).unwrap_err();
    assert_eq!((error.error, error.uncertain), ("too_large", true));
    for (bytes, error) in [(MAX_JSON_BYTES, None), (MAX_JSON_BYTES + 1, Some("too_large"))] {
        let mut body = vec![b' '; bytes];
        body[0] = b'1';
        assert_eq!(json_of(&incoming(200, &[], &body)).err().map(|failed| failed.error), error, "{bytes}");
    }
}

#[test]
fn a_refusal_says_what_the_server_says_and_no_secret_of_which_a_part_would_be_left() {
    let mut hidden = Hidden::default();
    hidden.add("tickets", "0123456789abcdef");
    let said = |body: &str| refusal(&incoming(400, &[], body.as_bytes()), true, &hidden).message;
    assert_eq!(said(" no such project \n"), "the server answered with the status 400: no such project");
    assert_eq!(said(""), "the server answered with the status 400");
    let before = "x".repeat(MAX_REASON_BYTES - 8);
    let message = said(&format!("{before}0123456789abcdef"));
    assert!(message.ends_with("x[tickets"), "{message}");
    assert!(said(&"é".repeat(MAX_REASON_BYTES)).ends_with('é'));
}

#[test]
fn another_try_is_made_where_the_server_is_busy_and_says_no_longer_than_we_wait() {
    let again = |status, after: Option<&str>, retry| {
        let headers: Vec<(&'static str, &str)> =
            after.map(|after| ("retry-after", after)).into_iter().collect();
        refusal(&incoming(status, &headers, b""), retry, &Hidden::default()).again
    };
    for status in [429, 502, 503, 504] {
        assert_eq!(again(status, None, true), Some(USUAL_PAUSE), "{status}");
        assert_eq!(again(status, None, false), None, "{status}");
    }
    for status in [400, 401, 404, 408, 409, 500, 501] {
        assert_eq!(again(status, Some("0"), true), None, "{status}");
    }
    assert_eq!(again(429, Some("0"), true), Some(Duration::ZERO));
    assert_eq!(again(503, Some("5"), true), Some(LONGEST_PAUSE));
    assert_eq!(again(503, Some("6"), true), None);
    assert_eq!(again(503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), true), Some(USUAL_PAUSE));
}

#[test]
fn only_a_status_that_blames_the_request_says_that_nothing_happened() {
    for status in [400, 401, 403, 404, 405, 409, 410, 413, 422, 425, 429, 451] {
        let failed = refusal(&incoming(status, &[], b""), true, &Hidden::default());
        assert_eq!((failed.error, failed.uncertain), ("http_error", false), "{status}");
    }
    for status in [304, 408, 500, 501, 502, 503, 504, 507, 520, 599] {
        let failed = refusal(&incoming(status, &[], b""), true, &Hidden::default());
        assert_eq!((failed.error, failed.uncertain), ("http_error", true), "{status}");
    }
}

#[test]
fn a_header_of_the_app_stands_before_ours() {
    let rendered = |headers: &[(&str, &str)], body| Rendered {
        method: HttpMethod::Post,
        url: "https://a.example.com/x".into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        body,
    };
    let sent = outgoing(rendered(&[], Some(RenderedBody::Json(json!({ "a": 1 })))), "call_1").unwrap();
    assert_eq!(
        (sent.headers[KEY].as_bytes(), sent.headers[CONTENT_TYPE].as_bytes()),
        (&b"call_1"[..], &b"application/json"[..])
    );
    assert_eq!(sent.body.as_deref(), Some(&b"{\"a\":1}"[..]));
    let own = [("Idempotency-Key", "mine"), ("content-type", "application/vnd.x+json")];
    let sent = outgoing(rendered(&own, Some(RenderedBody::Json(json!(1)))), "call_1").unwrap();
    assert_eq!((sent.headers[KEY].as_bytes(), sent.headers.len()), (&b"mine"[..], 3));
    assert!(!format!("{:?}", sent.headers).contains("mine"), "it may be a secret");
    let fields = vec![("a b".into(), "1&2".into())];
    let sent = outgoing(rendered(&[], Some(RenderedBody::Form(fields))), "call_1").unwrap();
    assert_eq!(sent.body.as_deref(), Some(&b"a+b=1%262"[..]));
    assert!(outgoing(rendered(&[("a", "b\nc")], None), "call_1").is_err());
}
