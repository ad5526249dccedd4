//! Answers of search engines, what is read out of them, and what the model is told of it.

use serde_json::json;

use super::*;

fn page(title: Option<&str>, url: &str, content: Option<&str>) -> FoundPage {
    FoundPage { title: title.map(str::to_owned), url: url.to_owned(), content: content.map(str::to_owned) }
}

fn urls(results: &Value) -> Vec<String> {
    pages(&json!({ "results": results })).into_iter().map(|page| page.url).collect()
}

#[test]
fn only_pages_that_can_be_followed_are_results() {
    let found = urls(&json!([
        { "url": "https://a.example.com/x", "title": "A" },
        { "url": "javascript:alert(1)" },
        { "url": "data:text/html,x" },
        { "url": "file:///etc/passwd" },
        { "url": "//b.example.com" },
        { "url": "nonsense" },
        { "url": 3 },
        { "title": "without an address" },
        "text",
        null,
        { "url": "HTTP://B.example.com", "title": null, "content": null, "score": "high" },
    ]));
    assert_eq!(found, ["https://a.example.com/x", "http://b.example.com/"]);
    assert_eq!(pages(&json!({ "results": "none" })), []);
    assert_eq!(pages(&json!([])), []);
}

#[test]
fn an_address_holds_nothing_that_is_not_seen() {
    let found = urls(&json!([{ "url": "https://a.example.com/\u{202e}x\ny" }]));
    assert_eq!(found, ["https://a.example.com/%E2%80%AExy"]);
}

#[test]
fn results_are_bounded_in_number_and_length() {
    let many: Vec<Value> = (0..20).map(|n| json!({ "url": format!("https://a.example.com/{n}") })).collect();
    assert_eq!(urls(&json!(many)).len(), MAX_RESULTS);
    let start = "https://a.example.com/";
    let longest = format!("{start}{}", "x".repeat(MAX_URL_BYTES - start.len()));
    assert_eq!(urls(&json!([{ "url": format!("{longest}x") }, { "url": longest }])), [longest]);
    let long = page(Some(&"t".repeat(MAX_TITLE_CHARS + 1)), start, Some(&"é".repeat(MAX_CONTENT_CHARS + 1)));
    let done = search_output("q", &Found { answer: None, pages: vec![long] });
    let expected =
        format!("1. {}…\n{start}\n{}…", "t".repeat(MAX_TITLE_CHARS), "é".repeat(MAX_CONTENT_CHARS));
    assert_eq!(done.output, json!(expected));
}

#[test]
fn the_model_reads_a_list_and_the_user_sees_where_it_is_from() {
    let found = Found {
        answer: Some(" Four. ".into()),
        pages: vec![
            page(Some(" Sums\n2. fake "), "https://a.example.com/", Some("2 + 2 is 4")),
            page(None, "https://b.example.com/", None),
        ],
    };
    let done = search_output("q", &found);
    let text = "In short: Four.\n\n1. Sums 2. fake\nhttps://a.example.com/\n2 + 2 is 4\n\n\
                2. https://b.example.com/\nhttps://b.example.com/";
    assert_eq!(done.output, json!(text));
    let source = |title: &str, url: &str| Source {
        kind: "web".into(),
        id: url.into(),
        title: title.into(),
        place: url.into(),
    };
    let expected = [
        source("Sums 2. fake", "https://a.example.com/"),
        source("https://b.example.com/", "https://b.example.com/"),
    ];
    assert_eq!(done.sources, expected);
    let nothing = search_output("a \"b\"", &Found::default());
    assert_eq!(
        (nothing.output, nothing.sources.len()),
        (json!("Nothing was found on the web for \"a \\\"b\\\"\"."), 0)
    );
}

#[test]
fn a_base_address_may_end_in_a_slash_or_a_path() {
    for (base, expected) in [
        ("https://s.example.com", "https://s.example.com/search"),
        ("https://s.example.com/", "https://s.example.com/search"),
        ("http://s.example.com:8888/searxng/", "http://s.example.com:8888/searxng/search"),
    ] {
        assert_eq!(address(base, "search").unwrap().as_str(), expected);
    }
    assert_eq!(address("nonsense", "search").unwrap_err().error, "not_configured");
}
