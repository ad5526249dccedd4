//! Tools that are requests, from the model's call to a real socket and back: what is sent, what comes of the answer, and
//! what is not reached at all.

mod faults;
mod secrets;
mod undo;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Frame, Reach, Setup, TestApp};

use crate::support::{RUNS, status_of};

/// Memory that a call may take for a while, for any answer.
const MAX_GROWTH_KIB: u64 = 32 * 1024;

/// An app with these tools. `WEB` in them stands for the address of the world outside, which the operator has opened.
pub(crate) fn setup(web: &Web, tools: &str) -> Setup {
    let reach = Reach { allow: vec![web.host()], ..Reach::default() };
    Setup { reach, ..Setup::app(&tools.replace("WEB", &web.url())) }
}

/// A tool without arguments: `kind` is its effect, the rest stands under `http`.
pub(crate) fn tool(name: &str, effect: &str, http: &str) -> String {
    format!(
        "[tool.{name}]\ndescription = 'For tests.'\neffect = '{effect}'\npolicy = 'allow'\n[tool.{name}.http]\n{http}\n"
    )
}

/// The events of a run in which the model calls the tool once and then answers.
pub(crate) async fn run(app: &TestApp, tool: &str, input: &Value) -> Vec<Frame> {
    let call = ScriptedCall::new(tool, &input.to_string());
    app.upstream.script([Reply::stream().call(call), Reply::says("Done.")]);
    let frames = app.stream(RUNS, &json!({ "message": "Do it" })).await.all().await;
    assert_eq!(status_of(&frames), "completed", "{frames:?}");
    frames
}

/// Returns the data of `tool:complete` for the one call of a run.
pub(crate) async fn call(app: &TestApp, tool: &str, input: &Value) -> Value {
    the(&run(app, tool, input).await, "tool:complete")
}

/// The data of the only event of that name.
pub(crate) fn the(frames: &[Frame], event: &str) -> Value {
    let found: Vec<&Frame> = frames.iter().filter(|frame| frame.event == event).collect();
    assert_eq!(found.len(), 1, "{event}: {frames:?}");
    found[0].data.clone()
}

fn status(result: &Value) -> &str {
    result["status"].as_str().unwrap()
}

/// The word and the sentence of a call that failed.
pub(crate) fn failure(result: &Value) -> (&str, &str) {
    assert_eq!(status(result), "failed", "{result}");
    (result["output"]["error"].as_str().unwrap(), result["output"]["message"].as_str().unwrap())
}

const FIND: &str = r#"
[tool.find]
description = "Finds items."
parameters = { type = "object", required = ["project"], properties = { project = { type = "string" }, q = { type = "string" }, page = { type = "integer" } } }
[tool.find.http]
url = "WEB/v1/{{ input.project }}/items?fixed=1"
query = { q = "{{ input.q }}", page = "{{ input.page }}" }
headers = { "X-User" = "{{ user.id }}", "X-Page" = "{{ input.page }}" }
"#;

#[tokio::test]
async fn a_request_is_filled_with_the_arguments_and_none_of_them_leads_elsewhere() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, FIND)).await;
    let found = json!({ "items": [{ "id": 7, "name": "Grüße" }] });
    web.on("GET", "/v1/a%2F..%20b/items", [web::WebReply::json(&found)]);
    let frames = run(&app, "find", &json!({ "project": "a/.. b", "q": "x&page=9" })).await;
    let (start, end) = (the(&frames, "tool:start"), the(&frames, "tool:complete"));
    assert_eq!((status(&end), &end["output"], &end["outside"]), ("complete", &found, &json!(true)));
    assert_eq!((&start["effect"], &start["marker"]), (&json!("read"), &Value::Null));
    let arrival = &web.arrivals()[0];
    assert_eq!(arrival.query, "fixed=1&q=x%26page%3D9", "what has no value is left out");
    assert_eq!(arrival.header("idempotency-key"), start["callId"].as_str());
    assert_eq!((arrival.header("x-user"), arrival.header("x-page")), (Some("local"), None));
    let told = &app.upstream.requests()[1].body["messages"];
    assert!(told.to_string().contains("Grüße"), "the model reads the answer: {told}");

    for (input, error) in [
        (json!({ "project": "..", "q": "x" }), "url: a part of the path becomes empty"),
        (json!({ "project": "" }), "url: a part of the path becomes empty"),
        (json!({ "project": "a", "page": "one" }), "/page: "),
        (json!({ "project": "a", "userId": "eve" }), "do not name users"),
        (json!({}), "\"project\" is a required property"),
    ] {
        let result = call(&app, "find", &input).await;
        let (word, message) = failure(&result);
        assert!(word == "invalid_arguments" && message.contains(error), "{input}: {message}");
    }
    assert_eq!(web.arrivals().len(), 1, "and nothing was sent for these");
}

const TICKETS: &str = r#"
[tool.open]
description = "Opens a ticket."
policy = "allow"
effect = "idempotent"
marker = "[OPENING]"
parameters = { type = "object", properties = { title = { type = "string" }, tags = { type = "array" }, urgent = { type = "boolean" } } }
[tool.open.http]
method = "POST"
url = "WEB/tickets"
headers = { "X-Trace" = "{{ call.key }}" }
body = { title = "{{ input.title }}", about = "On: {{ input.title }}", tags = "{{ input.tags }}", urgent = "{{ input.urgent }}", origin = { app = "{{ app.id }}", n = 1 } }
result = "/ticket/id"
[tool.note]
description = "Writes a note."
policy = "allow"
effect = "idempotent"
parameters = { type = "object", properties = { text = { type = "string" } } }
[tool.note.http]
method = "PUT"
url = "WEB/note"
form = { text = "{{ input.text }}", kind = "a b" }
result_template = "{{ output.count }} notes{% for name in output.names %}, {{ name }}{% endfor %}"
[tool.say]
description = "Says it."
policy = "allow"
effect = "idempotent"
parameters = { type = "object", properties = { text = { type = "string" } } }
[tool.say.http]
method = "POST"
url = "WEB/say"
text = "He said: {{ input.text }}"
accept_status = [404]
result = "/said"
"#;

#[tokio::test]
async fn a_body_is_json_a_form_or_a_text_and_what_is_wanted_is_picked_out_of_the_answer() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, TICKETS)).await;
    web.on("POST", "/tickets", [web::WebReply::json(&json!({ "ticket": { "id": 42 } })).with_status(201)]);
    web.on("PUT", "/note", [web::WebReply::json(&json!({ "count": 2, "names": ["a", "b"] }))]);
    web.on("POST", "/say", [web::WebReply::json(&json!({ "said": { "x": [true, null] } })).drip()]);

    let title = "Quote \" and \\ and {{ secret.key }}\n";
    let frames = run(&app, "open", &json!({ "title": title, "tags": ["x", 1] })).await;
    assert_eq!(the(&frames, "tool:complete")["output"], 42);
    let start = the(&frames, "tool:start");
    assert_eq!((&start["effect"], &start["marker"]), (&json!("idempotent"), &json!("[OPENING]")));
    assert_eq!(call(&app, "note", &json!({ "text": "1&2=é" })).await["output"], "2 notes, a, b");
    assert_eq!(call(&app, "say", &json!({ "text": "hi" })).await["output"], json!({ "x": [true, null] }));

    let arrivals = web.arrivals();
    let sent = json!({ "title": title, "about": format!("On: {title}"), "tags": ["x", 1], "origin": { "app": "test", "n": 1 } });
    assert_eq!((arrivals[0].json(), arrivals[0].header("content-type")), (sent, Some("application/json")));
    let key = arrivals[0].header("idempotency-key");
    assert_eq!((key, key), (start["callId"].as_str(), arrivals[0].header("x-trace")));
    assert_eq!(arrivals[1].header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(arrivals[1].text(), "text=1%262%3D%C3%A9&kind=a+b");
    assert_eq!(
        (arrivals[2].header("content-type"), arrivals[2].text()),
        (Some("text/plain; charset=utf-8"), "He said: hi".into())
    );
    assert_ne!(arrivals[1].header("idempotency-key"), arrivals[2].header("idempotency-key"));
}

#[tokio::test]
async fn an_answer_is_what_the_app_accepts_and_all_else_is_a_failure_with_the_reason() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, TICKETS)).await;
    let gone = json!({ "error": "nobody listens" });
    web.on(
        "POST",
        "/say",
        [web::WebReply::json(&gone).with_status(404), web::WebReply::text("not so loud").with_status(422)],
    );
    web.on(
        "POST",
        "/tickets",
        [web::WebReply::status(404), web::WebReply::json(&json!({})), web::WebReply::status(204)],
    );
    let accepted = call(&app, "say", &json!({ "text": "a" })).await;
    assert_eq!((status(&accepted), &accepted["output"]), ("complete", &gone));
    let refused = call(&app, "say", &json!({ "text": "b" })).await;
    assert_eq!(failure(&refused), ("http_error", "the server answered with the status 422: not so loud"));
    let missing = call(&app, "open", &json!({})).await;
    assert_eq!(failure(&missing), ("http_error", "the server answered with the status 404"));
    // It was done, and what it came to is not to be had: that is no failure.
    for n in 0..2 {
        assert_eq!(status(&call(&app, "open", &json!({ "title": n.to_string() })).await), "unknown");
    }
}

#[tokio::test]
async fn an_answer_out_of_shape_is_a_failure_of_the_call_and_of_nothing_else() {
    let web = Web::start().await;
    let tools = tool("look", "read", "url = 'WEB/look'")
        + &tool("act", "irreversible", "method = 'POST'\nurl = 'WEB/act'");
    let app = TestApp::with(setup(&web, &tools)).await;
    let json =
        |body: &[u8]| web::WebReply::status(200).header("content-type", "application/json").bytes(body);
    web.on(
        "GET",
        "/look",
        [
            json(b"{\"a\": "),
            json(b"\"caf\xe9\""),
            web::WebReply::text("").bytes(&b"\xff\xfe\0x"[..]),
            web::WebReply::status(204),
            web::WebReply::status(200).header("content-type", "application/x-ndjson").bytes("1\n2\n"),
        ],
    );
    web.on("POST", "/act", [json(b"{"), json(b"{}")]);
    for _ in 0..3 {
        let result = call(&app, "look", &json!({})).await;
        assert_eq!(failure(&result).0, "invalid_answer");
    }
    assert_eq!(call(&app, "look", &json!({})).await["output"], json!({ "status": 204 }));
    assert_eq!(call(&app, "look", &json!({})).await["output"], "1\n2\n");
    assert_eq!(status(&call(&app, "act", &json!({})).await), "unknown");
    assert_eq!(status(&call(&app, "act", &json!({})).await), "complete");
}

#[tokio::test]
async fn what_a_reader_would_not_see_does_not_reach_the_model() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tool("look", "read", "url = 'WEB/look'"))).await;
    let dirty = "a\u{1b}[31mred\u{1b}[0m\u{202e}b\u{200b}c\u{0}d\u{e0041}e\u{feff}\u{1b}]0;t\u{7}f\r\ng";
    web.on(
        "GET",
        "/look",
        [
            web::WebReply::text(dirty),
            web::WebReply::json(&json!({ dirty: [dirty] })),
            web::WebReply::text(dirty).with_status(400),
        ],
    );
    let clean = "aredbcdef\ng";
    assert_eq!(call(&app, "look", &json!({})).await["output"], clean);
    assert_eq!(call(&app, "look", &json!({})).await["output"], json!({ clean: [clean] }));
    let result = call(&app, "look", &json!({})).await;
    assert_eq!(failure(&result).1, format!("the server answered with the status 400: {clean}"));
    let events =
        app.database().query_row("SELECT group_concat(body) FROM events", [], |row| row.get::<_, String>(0));
    let events = events.unwrap();
    for unseen in ["\\u001b", "\u{202e}", "\u{200b}", "\\u0000", "\u{e0041}", "\u{feff}"] {
        assert!(!events.contains(unseen), "{unseen:?}");
    }
}

/// Returns the greatest memory that the process has taken so far.
pub(crate) fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_answer_of_a_gigabyte_is_cut_and_takes_no_room() {
    let web = Web::start().await;
    let tools =
        tool("look", "read", "url = 'WEB/look'") + &tool("part", "read", "url = 'WEB/look'\nresult = '/a'");
    let app = TestApp::with(setup(&web, &tools)).await;
    let json = |reply: web::WebReply| reply.header("content-type", "application/json");
    web.on(
        "GET",
        "/look",
        [
            web::WebReply::text("warm"),
            web::WebReply::endless(1 << 30),
            web::WebReply::endless(1 << 30).with_status(500),
            json(web::WebReply::status(200).bytes("[".to_owned() + &"0,".repeat(4 << 20) + "0]")),
        ],
    );
    call(&app, "look", &json!({})).await;
    let before = peak_kib();
    let result = call(&app, "look", &json!({})).await;
    let text = result["output"].as_str().unwrap();
    assert_eq!(status(&result), "complete");
    assert!(text.starts_with("xxx") && text.len() < 66_000, "{}", text.len());
    assert!(text.ends_with("bytes kept]"), "{}", &text[text.len() - 60..]);
    let failed = call(&app, "look", &json!({})).await;
    assert!(failure(&failed).1.len() < 3_000);
    let large = call(&app, "part", &json!({})).await;
    assert_eq!(failure(&large).0, "too_large");
    assert!(web.written_bytes() < 100 << 20, "reading stopped: {} bytes were sent", web.written_bytes());
    let growth = peak_kib() - before;
    println!("two answers of a gigabyte took {growth} KiB");
    assert!(growth < MAX_GROWTH_KIB, "{growth} KiB");
}

#[tokio::test]
async fn what_is_inside_stays_unreached_unless_the_operator_opens_it() {
    let (outer, inner) = (Web::start().await, Web::start().await);
    let port = inner.url().rsplit(':').next().unwrap().to_owned();
    let closed = [
        inner.url(),
        format!("http://localhost:{port}"),
        format!("http://127.1:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        "http://169.254.169.254/latest".into(),
    ];
    let mut tools = tool("hop", "read", "url = 'WEB/hop'")
        + &tool("post", "irreversible", "method = 'POST'\nurl = 'WEB/hop'");
    for (index, url) in closed.iter().enumerate() {
        tools += &tool(&format!("inner{index}"), "read", &format!("url = '{url}/x'"));
    }
    let app = TestApp::with(setup(&outer, &tools)).await;
    for index in 0..closed.len() {
        let result = call(&app, &format!("inner{index}"), &json!({})).await;
        let (word, message) = failure(&result);
        assert_eq!(word, "unreachable");
        assert!(message.ends_with("The operator can allow it under [egress] in rondo.toml"), "{message}");
    }
    for target in closed {
        outer.on("GET", "/hop", [web::WebReply::redirect(302, &format!("{target}/x"))]);
        let result = call(&app, "hop", &json!({})).await;
        assert!(failure(&result).1.contains("not a public address"), "{result}");
    }
    // A request that changes something is not sent on, wherever that leads; and it may have been done.
    outer.on("POST", "/hop", [web::WebReply::redirect(307, "/other")]);
    assert_eq!(status(&call(&app, "post", &json!({})).await), "unknown");
    outer.on("GET", "/hop", [web::WebReply::redirect(302, "/there")]);
    outer.on("GET", "/there", [web::WebReply::text("arrived")]);
    assert_eq!(call(&app, "hop", &json!({})).await["output"], "arrived");
    assert_eq!(inner.arrivals().len(), 0);
    assert_eq!(outer.arrivals().len(), 5 + 1 + 2);
}

/// The blocks of the page whose first line says that they are an app.toml.
fn app_files() -> Vec<String> {
    let page = include_str!("../../../../docs/external-tools.md");
    let blocks = page.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.filter(|block| block.starts_with("# app.toml\n")).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_app_file_of_the_page_is_accepted_and_its_tools_are_offered() {
    let files = app_files();
    assert!(files.len() >= 4, "{}", files.len());
    for file in files {
        let schema = r#"{"type": "object", "properties": {"title": {"type": "string"}}}"#;
        let secrets = ["tickets", "mail"].map(|name| (name.to_owned(), "a-secret".to_owned())).to_vec();
        let reach = Reach { secrets, tavily: Some("https://api.tavily.com".into()), ..Reach::default() };
        let files = vec![("tools/ticket.json".to_owned(), schema.to_owned())];
        let app = TestApp::with(Setup { reach, files, ..Setup::app(&file) }).await;
        app.upstream.script([Reply::says("Hello.")]);
        app.say("Hi").await;
        let offered = app.upstream.requests()[0].body["tools"].to_string();
        let declared = file.lines().filter_map(|line| line.strip_prefix("[tool.")?.strip_suffix(']'));
        // Tools of servers are offered once those have answered.
        for name in declared.filter(|name| !name.contains('.') && !name.contains("__")) {
            assert!(offered.contains(&format!("\"name\":\"{name}\"")), "{name} is not offered: {offered}");
        }
    }
}
