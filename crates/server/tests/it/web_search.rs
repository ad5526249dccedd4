//! Searching the web: what the service is asked, what the model reads, what the user sees, and what goes wrong.

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Frame, Reach, Setup, TAVILY_KEY, TestApp};

use crate::http_tools::{failure, run, the};
use crate::support::{RUNS, good, system};

const MARKER: &str = "[SEARCHING_ONLINE]";
const PAGES: [(&str, &str, &str); 4] = [
    ("Moss", "https://a.example.com/moss", "Moss grows\u{200b} in shade."),
    ("Trap", "javascript:alert(1)", "click"),
    ("Data", "data:text/html,x", "click"),
    ("", "https://b.example.com/", "Ferns too."),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Tavily,
    Searxng,
}

impl Service {
    fn tool(self) -> &'static str {
        match self {
            Self::Tavily => "tavily_search",
            Self::Searxng => "searxng_search",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Tavily => "POST",
            Self::Searxng => "GET",
        }
    }

    fn found(self) -> web::WebReply {
        match self {
            Self::Tavily => web::WebReply::tavily(Some("In the shade."), &PAGES),
            Self::Searxng => web::WebReply::searxng(&PAGES),
        }
    }

    async fn app(self, web: &Web, more: &str) -> TestApp {
        let url = Some(web.url());
        let reach = match self {
            Self::Tavily => Reach { tavily: url, ..Reach::default() },
            Self::Searxng => Reach { searxng: url, ..Reach::default() },
        };
        TestApp::with(Setup { reach, ..Setup::app(&format!("tools = ['web_search']\n{more}")) }).await
    }

    async fn search(self, app: &TestApp, query: &str) -> Vec<Frame> {
        run(app, self.tool(), &json!({ "query": query })).await
    }
}

const ENGINES: [Service; 2] = [Service::Tavily, Service::Searxng];

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

#[tokio::test]
async fn what_is_found_reaches_the_model_as_a_text_and_the_user_with_its_sources() {
    for service in ENGINES {
        let web = Web::start().await;
        let app = service.app(&web, "").await;
        web.on(service.method(), "/search", [service.found()]);
        let frames = service.search(&app, "where does moss grow? ü&x").await;
        let start = the(&frames, "tool:start");
        assert_eq!((&start["marker"], &start["effect"]), (&json!(MARKER), &json!("read")));
        let end = the(&frames, "tool:complete");
        let pages = "1. Moss\nhttps://a.example.com/moss\nMoss grows in shade.\n\n\
                     2. https://b.example.com/\nhttps://b.example.com/\nFerns too.";
        let short = if service == Service::Tavily { "In short: In the shade.\n\n" } else { "" };
        assert_eq!(end["output"], format!("{short}{pages}"));
        assert_eq!((&end["status"], &end["outside"]), (&json!("complete"), &json!(true)));

        let at = frames.iter().position(|frame| frame.event == "tool:complete").unwrap();
        assert_eq!(names(&frames[at + 1..at + 3]), ["source", "source"], "right after the result");
        let source =
            |title: &str, url: &str| json!({ "kind": "web", "id": url, "title": title, "place": url });
        assert_eq!(frames[at + 1].data, source("Moss", "https://a.example.com/moss"));
        assert_eq!(frames[at + 2].data, source("https://b.example.com/", "https://b.example.com/"));
        assert_eq!(names(&frames).iter().filter(|name| **name == "source").count(), 2);

        let arrival = &web.arrivals()[0];
        match service {
            Service::Tavily => assert_eq!(arrival.json()["query"], "where does moss grow? ü&x"),
            Service::Searxng => assert_eq!(arrival.query, "q=where+does+moss+grow%3F+%C3%BC%26x&format=json"),
        }
        let told = app.upstream.requests()[1].body.to_string();
        assert!(told.contains("Moss grows in shade.") && !told.contains("javascript:"), "{told}");
    }
}

#[tokio::test]
async fn the_marker_is_for_contracts_without_events_and_never_for_the_model() {
    let web = Web::start().await;
    let app = Service::Tavily.app(&web, "").await;
    let found = || Service::Tavily.found();
    web.on("POST", "/search", [found(), found(), found()]);
    let query = |query: &str| ScriptedCall::new("tavily_search", &json!({ "query": query }).to_string());
    app.upstream.script([
        Reply::stream().call(query("a")).call(query("b")),
        Reply::stream().call(query("c")),
        Reply::says("Moss grows in shade."),
        Reply::says("Plain."),
    ]);
    let whole = good(app.post(RUNS, &json!({ "message": "Moss?", "stream": false })).await);
    assert_eq!(
        whole["reply"], "[SEARCHING_ONLINE]\n\nMoss grows in shade.",
        "once, however often it searched"
    );
    let thread = whole["threadId"].as_str().unwrap();
    let plain = json!({ "message": "Thanks", "threadId": thread, "stream": false });
    assert_eq!(good(app.post(RUNS, &plain).await)["reply"], "Plain.");
    let page = good(app.get(&format!("/v1/threads/{thread}/messages")).await);
    assert_eq!(page["data"][1]["text"], "Moss grows in shade.");
    for request in app.upstream.requests() {
        assert!(!request.body.to_string().contains("SEARCHING_ONLINE"), "{}", request.body);
    }
}

#[tokio::test]
async fn an_app_may_have_another_marker_and_another_description() {
    let web = Web::start().await;
    let app = Service::Searxng
        .app(&web, "[tool.searxng_search]\nmarker = '[…]'\ndescription = 'Looks around.'")
        .await;
    web.on("GET", "/search", [web::WebReply::searxng(&[])]);
    let frames = Service::Searxng.search(&app, "x").await;
    assert_eq!(the(&frames, "tool:start")["marker"], "[…]");
    assert_eq!(the(&frames, "tool:complete")["output"], "Nothing was found on the web for \"x\".");
    assert!(app.upstream.requests()[0].body["tools"].to_string().contains("Looks around."));
}

#[tokio::test]
async fn whatever_goes_wrong_is_told_to_the_model_and_the_run_goes_on() {
    let web = Web::start().await;
    let app = Service::Tavily.app(&web, "").await;
    let busy = || web::WebReply::text("slow down").with_status(429).header("retry-after", "0");
    let garbage = web::WebReply::text("<html>").header("content-type", "text/html");
    for (replies, word, part) in [
        (
            vec![web::WebReply::text(TAVILY_KEY).with_status(401)],
            "not_configured",
            "Tavily refused the API key",
        ),
        (vec![busy(), busy()], "http_error", "the web search answered with the status 429"),
        (vec![web::WebReply::status(432)], "rate_limited", "plan are used up"),
        (
            vec![web::WebReply::text(&format!("bad {TAVILY_KEY}")).with_status(500)],
            "http_error",
            "the web search answered with the status 500",
        ),
        (vec![garbage], "invalid_answer", "not the JSON"),
        (vec![web::WebReply::broken(), web::WebReply::broken()], "unreachable", "broke before"),
        (vec![web::WebReply::endless(1 << 30)], "too_large", "longer than"),
        (
            vec![web::WebReply::redirect(302, "https://elsewhere.example.com/")],
            "unreachable",
            "redirects are not followed",
        ),
    ] {
        let count = web.arrivals().len() + replies.len();
        web.on("POST", "/search", replies);
        let frames = Service::Tavily.search(&app, "moss").await;
        let result = the(&frames, "tool:complete");
        let (error, message) = failure(&result);
        assert_eq!(error, word);
        assert!(message.contains(part), "{message}");
        for foreign in [TAVILY_KEY, "slow down", "bad", "elsewhere.example.com", &web.host()] {
            assert!(!message.contains(foreign), "{foreign}: {message}");
        }
        assert_eq!(web.arrivals().len(), count, "{word}");
        assert!(!names(&frames).contains(&"source"));
    }
    let odd = [
        json!([]),
        json!({}),
        json!({ "results": null }),
        json!({ "results": [3, { "url": 1 }], "answer": 7 }),
    ];
    for answer in odd {
        web.on("POST", "/search", [web::WebReply::json(&answer)]);
        let frames = Service::Tavily.search(&app, "moss").await;
        assert_eq!(
            the(&frames, "tool:complete")["output"],
            "Nothing was found on the web for \"moss\".",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_busy_engine_is_asked_once_more_and_a_silent_one_is_let_go() {
    for service in ENGINES {
        let web = Web::start().await;
        let app = service.app(&web, "[loop]\ntool_timeout_seconds = 1").await;
        web.on(
            service.method(),
            "/search",
            [
                web::WebReply::status(503).header("retry-after", "0"),
                service.found(),
                web::WebReply::text("late").wait(&Gate::new()),
            ],
        );
        assert_eq!(the(&service.search(&app, "a").await, "tool:complete")["status"], "complete");
        let result = the(&service.search(&app, "b").await, "tool:complete");
        assert_eq!(failure(&result).0, "timeout");
        web.closed(2).await;
        assert_eq!(web.arrivals().len(), 3);
    }
}

#[tokio::test]
async fn a_searxng_that_speaks_no_json_is_said_to_need_it() {
    let web = Web::start().await;
    let app = Service::Searxng.app(&web, "").await;
    web.on("GET", "/search", [web::WebReply::status(403)]);
    let result = the(&Service::Searxng.search(&app, "a").await, "tool:complete");
    let (word, message) = failure(&result);
    assert!(word == "not_configured" && message.contains("search.formats"), "{message}");
}

#[tokio::test]
async fn a_query_out_of_bounds_is_not_sent() {
    let web = Web::start().await;
    let app = Service::Tavily.app(&web, "").await;
    for input in [
        json!({}),
        json!({ "query": "" }),
        json!({ "query": "x".repeat(401) }),
        json!({ "query": "a", "max": 3 }),
    ] {
        let result = the(&run(&app, "tavily_search", &input).await, "tool:complete");
        assert_eq!(failure(&result).0, "invalid_arguments", "{input}");
    }
    assert_eq!(web.arrivals().len(), 0);
}

fn offered(app: &TestApp, index: usize) -> Vec<String> {
    let tools = app.upstream.requests()[index].body["tools"].clone();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.as_array().unwrap_or(&Vec::new()).iter().map(name).collect()
}

#[tokio::test]
async fn only_a_search_that_is_set_up_is_offered() {
    let web = Web::start().await;
    let both = Reach { tavily: Some(web.url()), searxng: Some(web.url()), ..Reach::default() };
    for (reach, expected) in [
        (Reach::default(), vec!["echo"]),
        (Reach { searxng: Some(web.url()), ..Reach::default() }, vec!["echo", "searxng_search"]),
        (both, vec!["echo", "tavily_search", "searxng_search"]),
    ] {
        let app = TestApp::with(Setup { reach, ..Setup::app("tools = ['echo', 'web_search']") }).await;
        app.upstream.script([Reply::says("Hello.")]);
        app.say("Hi").await;
        assert_eq!(offered(&app, 0), expected);
        assert!(!system(&app, 0).contains("SEARCHING_ONLINE"));
    }
}
