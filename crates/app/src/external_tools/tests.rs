//! Values in templates, good and hostile ones, and the address that a request ends up with.

use proptest::prelude::*;
use serde_json::{Value, json};
use url::Url;

use super::*;

const KIB: usize = 1024;

fn template(source: &str) -> TextTemplate {
    TextTemplate::new(source, Names::Undo).unwrap_or_else(|mistake| panic!("{source}: {mistake}"))
}

fn mistake(source: &str, names: Names) -> String {
    let mistake = TextTemplate::read(source, names, Writing::Plain).unwrap_err();
    format!("{mistake}; {}", mistake.remedy)
}

fn values() -> Value {
    json!({
        "input": {
            "title": "Fix \"it\"\nnow", "count": 3, "share": 0.5, "big": u64::MAX, "yes": true, "nothing": null,
            "tags": ["a", null, { "b": 1 }], "odd": "{{ secret.tickets }}", "path": "../../admin?x=1#y",
        },
        "secret": { "tickets": "s3cr3t", "other": "0th3r" },
        "credential": { "github": "gh0" },
        "user": { "id": "alice" },
        "app": { "id": "demo" },
        "thread": { "id": "t1" },
        "call": { "key": "k1" },
        "output": { "id": 7 },
    })
}

#[test]
fn one_expression_keeps_its_type_and_is_left_out_without_a_value() {
    let values = values();
    for (source, value, text) in [
        ("{{ input.count }}", json!(3), "3"),
        ("{{input.count}}", json!(3), "3"),
        ("{{- input.count -}}", json!(3), "3"),
        ("{{ -input.count }}", json!(-3), "-3"),
        ("{{ input.big }}", json!(u64::MAX), "18446744073709551615"),
        ("{{ input.share }}", json!(0.5), "0.5"),
        ("{{ input.yes }}", json!(true), "true"),
        ("{{ input.tags }}", json!(["a", null, { "b": 1 }]), r#"["a",null,{"b":1}]"#),
        ("{{ input.title }}", json!("Fix \"it\"\nnow"), "Fix \"it\"\nnow"),
        ("{{ {'a': input.count} }}", json!({ "a": 3 }), r#"{"a":3}"#),
        ("{{ '}} {{' }}", json!("}} {{"), "}} {{"),
        ("{{ output.id }}", json!(7), "7"),
        (" {{ input.count }}", json!(" 3"), " 3"),
        ("{{ input.count }}{{ input.count }}", json!("33"), "33"),
        ("a {{ input.tags }}\n", json!("a [\"a\",null,{\"b\":1}]\n"), "a [\"a\",null,{\"b\":1}]\n"),
        ("[{{ input.nothing }}{{ input.missing }}]", json!("[]"), "[]"),
        ("{% if input.yes %}y{% else %}n{% endif %}", json!("y"), "y"),
        ("{% for tag in input.tags if tag is string %}{{ tag }}{% endfor %}", json!("a"), "a"),
        ("plain", json!("plain"), "plain"),
        ("", json!(""), ""),
    ] {
        let template = template(source);
        assert_eq!(template.value(&values), Ok(Some(value)), "{source}");
        assert_eq!(template.text(&values), Ok(Some(text.into())), "{source}");
    }
    for source in ["{{ input.nothing }}", "{{ input.missing }}", "{{ input.a.b.c }}", "{{ credential.none }}"]
    {
        let template = template(source);
        assert_eq!((template.value(&values), template.text(&values)), (Ok(None), Ok(None)), "{source}");
    }
}

#[test]
fn what_a_call_says_is_never_taken_for_a_template() {
    let values = values();
    assert_eq!(template("{{ input.odd }}").text(&values), Ok(Some("{{ secret.tickets }}".into())));
    assert_eq!(template("x{{ input.odd }}").text(&values), Ok(Some("x{{ secret.tickets }}".into())));
}

#[test]
fn a_template_names_what_it_is_for_and_nothing_else() {
    let call = "use only input, secret.NAME, credential.NAME, user.id, app.id, thread.id, call.key";
    let answer = "use only input, output, user.id, app.id, thread.id, call.key";
    let server = "use only secret.NAME, credential.NAME, user.id, app.id";
    for (source, names, expected) in [
        ("{{ title }}", Names::Call, format!("the template names \"title\"; {call}")),
        ("{{ output.id }}", Names::Call, format!("the template names \"output.id\"; {call}")),
        ("{{ user.name }}", Names::Call, format!("the template names \"user.name\"; {call}")),
        ("{{ user }}", Names::Call, format!("the template names \"user\"; {call}")),
        ("{{ inputs.a }}", Names::Call, format!("the template names \"inputs.a\"; {call}")),
        ("{{ debug() }}", Names::Call, format!("the template names \"debug\"; {call}")),
        ("{{ secret }}", Names::Call, format!("the template names \"secret\"; {call}")),
        ("{{ secret['a'] }}", Names::Call, format!("the template names \"secret\"; {call}")),
        ("{{ secret|tojson }}", Names::Call, format!("the template names \"secret\"; {call}")),
        ("{{ (secret if true).a }}", Names::Call, format!("the template names \"secret\"; {call}")),
        ("{% for s in credential %}{% endfor %}", Names::Call, format!("the template names \"credential\"; {call}")),
        ("{{ secret.tickets }}", Names::Answer, format!("the template names \"secret.tickets\"; {answer}")),
        ("{{ input.a }}", Names::Connection, format!("the template names \"input.a\"; {server}")),
        ("{% set secret = secret %}", Names::Call, "the template uses {% set %}; use only if and for".into()),
        ("{%- include 'x' %}", Names::Call, "the template uses {% include %}; use only if and for".into()),
        ("{{ input.a|fly }}", Names::Call, "line 1 of the template: unknown filter: filter fly is unknown; correct it there".into()),
        ("\n{{ input.a", Names::Call, "line 2 of the template: syntax error: unexpected end of input, expected end of variable block; correct it there".into()),
    ] {
        assert_eq!(mistake(source, names), expected, "{source}");
    }
    for (source, names) in [
        ("{{ input }}", Names::Call),
        ("{{ output }}", Names::Undo),
        ("{{ output.x }} {{ input.y }}", Names::Answer),
        ("{{ secret.a }}{{ user.id }}{{ app.id }}", Names::Connection),
        ("{{ input.a[:3] }}", Names::Call),
    ] {
        TextTemplate::new(source, names).unwrap();
    }
}

#[test]
fn a_template_knows_the_secrets_it_names_and_gets_no_others() {
    let several = template(
        "{{ secret.tickets }}{% if input.yes %}{{ secret.other|upper }}{% endif %}{{ credential.github }}",
    );
    assert_eq!(several.secrets(), &BTreeSet::from(["other".to_owned(), "tickets".to_owned()]));
    assert_eq!(several.credentials(), &BTreeSet::from(["github".to_owned()]));
    assert_eq!(several.text(&values()), Ok(Some("s3cr3t0TH3Rgh0".into())));
    for detour in ["x{{ secret.tickets[1:] }}", "{{ secret[:] }}", "{{ 'a' ~ secret . tickets[:2] }}"] {
        let expected = "the template uses secret in a way that cannot be checked; write it plainly, as {{ \
            secret.NAME }}";
        assert_eq!(mistake(detour, Names::Call), expected, "{detour}");
    }
    for harmless in ["secret.a {{ input.secret.b }} secret", "{{ input.secrets }}{{ input.my_secret }}"] {
        assert!(template(harmless).secrets().is_empty(), "{harmless}");
    }
    let per_user = |source| template(source).is_per_user();
    assert!(per_user("{{ user.id }}") && per_user("{{ credential.a }}"));
    assert!(!per_user("{{ secret.a }}{{ app.id }}"));
}

#[test]
fn no_error_holds_a_value() {
    let values = values();
    for source in [
        "{{ secret.tickets + 1 }}",
        "{{ secret.tickets|int }}",
        "{{ secret.tickets() }}",
        "{{ input|attr(secret.tickets)|abs }}x",
        "{{ input.count[secret.tickets].x.y() }}",
        "{{ {}[secret.tickets].fly() }}",
        "{{ secret.tickets|round }}",
        "{{ [1]|map(secret.tickets)|list }}",
        "{{ [1]|select(secret.tickets)|list }}x",
        "{{ secret.tickets|format(1) }}{{ secret.tickets|batch('x') }}",
        "{% for x in secret.tickets|int %}{% endfor %}",
    ] {
        let template = template(source);
        let errors: Vec<String> =
            [template.text(&values).err(), template.value(&values).err()].into_iter().flatten().collect();
        assert_eq!(errors.len(), 2, "{source}");
        for error in errors {
            assert!(error.starts_with("the template cannot be filled: "), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }
}

#[test]
fn what_a_template_comes_to_is_bounded() {
    let of = |bytes: usize| json!({ "input": { "text": "x".repeat(bytes) } });
    let too_long = "it becomes longer than 256 KiB";
    for source in ["{{ input.text }}", "{{ input.text }}{{ input.none }}"] {
        let template = template(source);
        assert_eq!(template.text(&of(256 * KIB)).unwrap().unwrap().len(), 256 * KIB);
        for bytes in [256 * KIB + 1, 1024 * KIB] {
            assert_eq!(template.text(&of(bytes)), Err(too_long.into()));
            assert_eq!(template.value(&of(bytes)), Err(too_long.into()));
        }
    }
    let whole = JsonTemplate::new(&json!(["{{ input.text }}", "{{ input.text }}"]), Names::Call).unwrap();
    assert!(whole.render(&of(127 * KIB)).is_ok());
    assert_eq!(whole.render(&of(129 * KIB)), Err(too_long.into()));
    let endless = template("{% for a in input.text %}{% for b in input.text %}{% endfor %}{% endfor %}");
    let expected = "the template cannot be filled: engine ran out of fuel";
    assert_eq!(endless.text(&of(10 * KIB)), Err(expected.into()));
}

#[test]
fn json_is_built_of_values_and_never_of_their_text() {
    let source = json!({
        "title": "{{ input.title }}",
        "tags": "{{ input.tags }}",
        "text": "about {{ input.title }}",
        "none": "{{ input.nothing }}",
        "list": ["{{ input.missing }}", "{{ input.count }}", null, 1.5],
        "deep": { "none": "{{ input.missing }}", "fixed": "as it is" },
    });
    let template = JsonTemplate::new(&source, Names::Call).unwrap();
    let expected = json!({
        "title": "Fix \"it\"\nnow",
        "tags": ["a", null, { "b": 1 }],
        "text": "about Fix \"it\"\nnow",
        "list": [3, null, 1.5],
        "deep": { "fixed": "as it is" },
    });
    let rendered = template.render(&values()).unwrap();
    assert_eq!(rendered, expected);
    let keys: Vec<&String> = rendered.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["title", "tags", "text", "list", "deep"]);
    let hostile = json!({ "input": { "title": "\", \"admin\": true, \"x\": \"" } });
    let one = JsonTemplate::new(&json!({ "title": "a {{ input.title }}" }), Names::Call).unwrap();
    assert_eq!(one.render(&hostile), Ok(json!({ "title": "a \", \"admin\": true, \"x\": \"" })));
    let absent = JsonTemplate::new(&json!("{{ input.none }}"), Names::Call).unwrap();
    assert_eq!(absent.render(&values()), Ok(Value::Null));
    let wrong = JsonTemplate::new(&json!({ "a": ["x", "{{ b }}"] }), Names::Call).unwrap_err();
    assert_eq!(wrong, "/a/1: the template names \"b\"");
}

fn url(source: &str) -> UrlTemplate {
    UrlTemplate::new(source, Names::Call).unwrap_or_else(|mistake| panic!("{source}: {mistake}"))
}

#[test]
fn an_address_holds_values_only_where_they_cannot_lead_elsewhere() {
    let values = values();
    for (source, expected) in [
        ("https://a.example.com", "https://a.example.com/"),
        ("https://a.example.com:8443/x/", "https://a.example.com:8443/x/"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("HTTPS://A.example.com/x?y=z?", "https://a.example.com/x?y=z?"),
        ("https://a.example.com?q={{ input.count }}", "https://a.example.com/?q=3"),
        ("https://a.example.com/{{ input.count }}/t", "https://a.example.com/3/t"),
        ("https://a.example.com/{{ input.path }}/t", "https://a.example.com/..%2F..%2Fadmin%3Fx%3D1%23y/t"),
        (
            "https://a.example.com/p?a={{ input.path }}&b=1",
            "https://a.example.com/p?a=..%2F..%2Fadmin%3Fx%3D1%23y&b=1",
        ),
        ("https://a.example.com/{{ input.title }}", "https://a.example.com/Fix%20%22it%22%0Anow"),
        ("https://a.example.com/{{ '/' if input.yes else '?' }}x", "https://a.example.com/%2Fx"),
        ("https://a.example.com/%2e{{ input.count }}", "https://a.example.com/%2e3"),
        (
            "https://a.example.com/{{ user.id }}/{{ input.tags }}",
            "https://a.example.com/alice/%5B%22a%22%2Cnull%2C%7B%22b%22%3A1%7D%5D",
        ),
    ] {
        assert_eq!(url(source).render(&values), Ok(expected.into()), "{source}");
    }
}

#[test]
fn a_path_that_comes_out_as_another_is_no_address() {
    let dots = "a part of the path becomes empty, \".\" or \"..\"";
    for (source, given, expected) in [
        ("https://a.example.com/x/{{ input.a }}", json!(".."), dots),
        ("https://a.example.com/x/{{ input.a }}/y", json!("."), dots),
        ("https://a.example.com/x/{{ input.a }}/y", json!(""), dots),
        ("https://a.example.com/x/{{ input.a }}/y", json!(null), dots),
        ("https://a.example.com/x/.{{ input.a }}", json!("."), dots),
        ("https://a.example.com/x/%2E{{ input.a }}", json!("."), dots),
        ("https://a.example.com/x/{{ input.a }}%2e", json!("."), dots),
        (
            "https://a.example.com/{{ input.a }}",
            json!("x".repeat(8 * KIB)),
            "it becomes longer than 8192 bytes",
        ),
        (
            "https://a.example.com/{{ input.a }}",
            json!("é".repeat(512 * KIB)),
            "it becomes longer than 256 KiB",
        ),
    ] {
        assert_eq!(url(source).render(&json!({ "input": { "a": given } })), Err(expected.into()), "{source}");
    }
    for harmless in ["...", "%2e%2e", "..\\", "a/../b", "\u{2025}", "．．", "x\ny", " "] {
        let rendered =
            url("https://a.example.com/x/{{ input.a }}").render(&json!({ "input": { "a": harmless } }));
        let rendered = Url::parse(&rendered.unwrap()).unwrap();
        assert_eq!(rendered.path_segments().unwrap().count(), 2, "{harmless:?}");
    }
}

#[test]
fn an_address_that_could_lead_anywhere_is_refused() {
    let host = "scheme, host or port is a template; write them literally; only the path and the query may \
        contain {{ … }}";
    let secret =
        "the url itself names a secret; addresses are logged; put the secret into headers, query or body";
    let address = "write https:// or http://, a host, and the path";
    for (source, expected) in [
        ("{{ input.url }}", host.to_owned()),
        ("https://{{ input.host }}/x", host.to_owned()),
        ("https://a.example.com{{ input.a }}/x", host.to_owned()),
        ("https://a.example.com:{{ input.port }}/", host.to_owned()),
        ("https://{{ a / b }}/", host.to_owned()),
        ("{{ input.scheme }}://a.example.com/", host.to_owned()),
        ("https://user:word@a.example.com/", "the url contains a user name or a password; remove it; secrets belong into headers, as {{ secret.NAME }}".into()),
        ("ftp://a.example.com/", format!("it does not begin with http:// or https://; {address}")),
        ("file:///etc/passwd", format!("it does not begin with http:// or https://; {address}")),
        ("/x", format!("it is not a URL: relative URL without a base; {address}")),
        ("https:///", format!("it is not a URL: empty host; {address}")),
        ("https://a.example.com/{{ secret.a }}", secret.to_owned()),
        ("https://a.example.com/x?a={{ credential.a }}", secret.to_owned()),
        ("https://a.example.com/a/../b", "the path has the segment \"..\"; write the path without it".into()),
        ("https://a.example.com/a/%2E./b", "the path has the segment \"%2E.\"; write the path without it".into()),
        ("https://a.example.com\\@b.example.com/", "the url contains '\\\\'; write it percent-encoded".into()),
        ("https://a.example.com/a b", "the url contains ' '; write it percent-encoded".into()),
        ("https://a.example.com/{a}", "the url contains '{'; write it percent-encoded".into()),
        ("https://a.example.com/%{{ input.a }}", "the url contains a \"%\" that encodes nothing; write %25".into()),
        ("https://a.example.com/#x", "the url has a fragment, which is never sent; remove it".into()),
        ("https://a.example.com/{% if input.a %}a/{% endif %}", "the url contains a statement; write only {{ … }} into it".into()),
        ("https://a.example.com/{{ input.a", "a {{ is not closed; close it with }}".into()),
        (&format!("https://a.example.com/{}", "x".repeat(8 * KIB)), "it has more than 8192 bytes; shorten it".into()),
    ] {
        let mistake = UrlTemplate::read(source, Names::Call).unwrap_err();
        assert_eq!(format!("{mistake}; {}", mistake.remedy), expected, "{source}");
    }
}

proptest! {
    #[test]
    fn no_value_changes_where_a_request_goes(path in ".{0,40}", segment in "[./\\\\?#%@:2eEfF]{0,8}", query in ".{0,40}") {
        let source = "https://a.example.com:8443/v1/{{ input.path }}/x{{ input.segment }}/{{ input.segment }}?q={{ input.query }}&r=1";
        let values = json!({ "input": { "path": path, "segment": segment, "query": query } });
        if let Ok(rendered) = url(source).render(&values) {
            let rendered = Url::parse(&rendered).unwrap();
            prop_assert_eq!(rendered.origin().ascii_serialization(), "https://a.example.com:8443");
            prop_assert_eq!((rendered.username(), rendered.password(), rendered.fragment()), ("", None, None));
            let segments: Vec<&str> = rendered.path_segments().unwrap().collect();
            prop_assert_eq!((segments.len(), segments[0]), (4, "v1"));
            let pairs: Vec<(String, String)> = rendered.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, [("q".to_owned(), query), ("r".to_owned(), "1".to_owned())]);
        }
    }
}

fn request() -> RequestTemplate {
    let named = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, source)| ((*name).to_owned(), template(source))).collect::<Vec<_>>()
    };
    RequestTemplate {
        method: HttpMethod::Post,
        url: url("https://a.example.com/x?a=1"),
        query: named(&[
            ("q", "{{ input.title }}"),
            ("none", "{{ input.none }}"),
            ("key", "{{ secret.other }}"),
        ]),
        headers: named(&[("Authorization", "Bearer {{ secret.tickets }}"), ("X-None", "{{ input.none }}")]),
        body: Some(BodyTemplate::Form(named(&[
            ("c", "{{ credential.github }}"),
            ("none", "{{ input.none }}"),
        ]))),
        timeout: None,
    }
}

#[test]
fn a_request_comes_to_what_has_a_value() {
    let request = request();
    let rendered = request.render(&values()).unwrap();
    assert_eq!(rendered.url, "https://a.example.com/x?a=1&q=Fix+%22it%22%0Anow&key=0th3r");
    assert_eq!(rendered.headers, [("Authorization".to_owned(), "Bearer s3cr3t".to_owned())]);
    assert!(rendered.body == Some(RenderedBody::Form(vec![("c".into(), "gh0".into())])));
    assert_eq!(format!("{rendered:?}"), "Rendered { method: Post, .. }", "it may hold secrets");
    assert_eq!(request.secrets(), BTreeSet::from(["other", "tickets"]));
    assert_eq!(request.credentials(), BTreeSet::from(["github"]));
}

#[test]
fn a_header_cannot_end_its_line() {
    let header = |source: &str| vec![("X-Title".to_owned(), template(source))];
    for hostile in ["a\r\nX-Admin: 1", "a\n", "a\0", "a\u{7f}", "a\u{85}b"] {
        let values = json!({ "input": { "title": hostile } });
        let expected = "headers.X-Title: it contains a line break or another control character";
        assert_eq!(header_values(&header("{{ input.title }}"), &values), Err(expected.into()), "{hostile:?}");
    }
    let values = json!({ "input": { "title": "Grüße" } });
    let expected = vec![("X-Title".to_owned(), "Grüße".to_owned())];
    assert_eq!(header_values(&header("{{ input.title }}"), &values), Ok(expected));
    let failed = RequestTemplate { body: None, query: header("{{ input.title|round }}"), ..request() };
    let expected = "query.X-Title: the template cannot be filled: invalid operation";
    assert_eq!(failed.render(&values).unwrap_err(), expected);
}

#[test]
fn a_flow_allows_what_it_names() {
    let flow = |from: Option<&[&str]>, input: Value| FlowRule {
        from: from.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        input: input.as_object().unwrap().clone(),
    };
    let any = flow(None, json!({}));
    assert!(any.allows("documents", &json!({ "to": "x" })) && any.allows("web", &Value::Null));
    let narrow = flow(Some(&["documents", "web"]), json!({ "to": ["a", "b"], "urgent": false }));
    for (source, input, expected) in [
        ("web", json!({ "to": "a", "urgent": false, "text": "anything" }), true),
        ("documents", json!({ "to": "b", "urgent": false }), true),
        ("mail", json!({ "to": "a", "urgent": false }), false),
        ("web", json!({ "to": "c", "urgent": false }), false),
        ("web", json!({ "to": ["a", "b"], "urgent": false }), false),
        ("web", json!({ "to": "a", "urgent": true }), false),
        ("web", json!({ "to": "a" }), false),
        ("web", json!("a"), false),
    ] {
        assert_eq!(narrow.allows(source, &input), expected, "{source} {input}");
    }
}
