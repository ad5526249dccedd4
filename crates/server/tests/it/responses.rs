//! `/openai/v1/responses`: OpenAI's Responses, their streams, and how they are resumed.

mod waiting;

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::retention::prune;
use crate::support::{good, prompt, send_as, system, token};

pub(crate) const RESPONSES: &str = "/openai/v1/responses";

pub(crate) fn ask(input: &str) -> Value {
    json!({ "model": "test", "input": input })
}

pub(crate) fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

/// An event as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) text: String,
    pub(crate) data: Value,
}

impl Sent {
    fn number(&self) -> u64 {
        self.data["sequence_number"].as_u64().unwrap()
    }

    pub(crate) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }
}

/// The events of a stream, whose names stand in both places.
pub(crate) fn events(text: &str) -> Vec<Sent> {
    let event = |block: &str| {
        let (name, data) = block.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        Sent { text: block.to_owned(), data }
    };
    text.split_terminator("\n\n").filter(|block| !block.starts_with(':')).map(event).collect()
}

pub(crate) async fn stream(app: &TestApp, body: &Value) -> Vec<Sent> {
    let body = with(body.clone(), "stream", json!(true));
    let response = app.request(Method::POST, RESPONSES).json(&body).send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    let sent = events(&text);
    check(&sent);
    sent
}

pub(crate) async fn read_stream(app: &TestApp, id: &str, after: Option<u64>) -> Vec<Sent> {
    let after = after.map(|after| format!("&starting_after={after}")).unwrap_or_default();
    let path = format!("{RESPONSES}/{id}?stream=true{after}");
    let response = app.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    events(&response.text().await.unwrap())
}

/// The rules that a client enforces.
fn check(sent: &[Sent]) {
    let numbers: Vec<u64> = sent.iter().map(Sent::number).collect();
    assert_eq!(numbers, (0..sent.len() as u64).collect::<Vec<_>>());
    let (first, last) = (&sent[0], sent.last().unwrap());
    assert_eq!(first.kind(), "response.created");
    let mut open: Vec<u64> = Vec::new();
    let mut added = 0;
    for event in sent {
        let index = event.data["output_index"].as_u64();
        match (event.kind(), index) {
            ("response.output_item.added", Some(index)) => {
                assert_eq!(index, added, "an index is added once, in order");
                added += 1;
                open.push(index);
            }
            ("response.output_item.done", Some(index)) => {
                assert!(open.contains(&index), "{event:?}");
                assert_eq!(last.data["response"]["output"][index as usize], event.data["item"]);
                open.retain(|other| *other != index);
            }
            (_, Some(index)) => assert!(open.contains(&index), "{event:?}"),
            (_, None) => {
                let id = &event.data["response"]["id"];
                assert!(id.is_null() || *id == first.data["response"]["id"]);
            }
        }
    }
    assert!(open.is_empty() && last.data["response"]["output"].as_array().unwrap().len() as u64 == added);
}

pub(crate) fn id_of(sent: &[Sent]) -> String {
    sent[0].data["response"]["id"].as_str().unwrap().to_owned()
}

pub(crate) fn last(sent: &[Sent]) -> &Value {
    &sent.last().unwrap().data
}

pub(crate) fn output_text(response: &Value) -> String {
    let messages = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    messages.map(|item| item["content"][0]["text"].as_str().unwrap()).collect()
}

/// An error in OpenAI's form; gives its message.
pub(crate) fn refused(answer: Answer, status: u16, param: Option<&str>) -> String {
    let body = answer.body;
    assert_eq!((answer.status, answer.content_type.as_str()), (status, "application/json"), "{body}");
    assert_eq!(body["error"]["param"].as_str(), param, "{body}");
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_with_a_tool_is_told_item_by_item_and_read_again() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .reasoning("They want an echo.")
            .text("Let me see.")
            .call(ScriptedCall::new("echo", r#"{"text":"hi"}"#)),
        Reply::stream().text("It says").text(" hi.").usage(20, 7),
    ]);
    let body = json!({
        "model": "test", "input": "Say hi", "instructions": "Be brief.", "metadata": { "key": "value" },
        "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100, "reasoning": { "effort": "low" },
    });
    let sent = stream(&app, &body).await;
    let mut kinds: Vec<&str> = sent.iter().map(Sent::kind).collect();
    kinds.dedup(); // neighbouring pieces can be one event
    insta::assert_debug_snapshot!(kinds);
    let response = &last(&sent)["response"];
    insta::assert_json_snapshot!(response);
    assert!(system(&app, 0).contains("Be brief."));
    assert_eq!(app.upstream.requests()[0].body["temperature"], 0.5);
    // Read again it is the same, whole and after every event.
    let id = id_of(&sent);
    assert_eq!(good(app.get(&format!("{RESPONSES}/{id}")).await), *response);
    assert_eq!(read_stream(&app, &id, None).await, sent);
    for event in &sent {
        let rest = read_stream(&app, &id, Some(event.number())).await;
        assert_eq!(rest, sent[event.number() as usize + 1..], "after {}", event.number());
    }
    let items = good(app.get(&format!("{RESPONSES}/{id}/input_items")).await);
    assert_eq!(items["data"][0]["content"][0]["text"], "Say hi");
}

#[tokio::test]
async fn a_response_is_one_object_without_a_stream() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Hello."), Reply::stream().text("Cut").finish("length")]);
    let response = good(app.post(RESPONSES, &ask("Hi")).await);
    assert_eq!((&response["status"], output_text(&response).as_str()), (&json!("completed"), "Hello."));
    assert_eq!(response["usage"]["total_tokens"], 15);
    let cut = good(app.post(RESPONSES, &ask("Hi")).await);
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
}

#[tokio::test]
async fn a_response_continues_another_and_an_older_one_makes_a_branch() {
    let app = TestApp::start().await;
    app.upstream.script(["One.", "Two.", "Three."].map(Reply::says));
    let first = good(app.post(RESPONSES, &with(ask("First"), "instructions", json!("Only now."))).await);
    let after_first = |input: &str| with(ask(input), "previous_response_id", first["id"].clone());
    let second = good(app.post(RESPONSES, &after_first("Second")).await);
    assert_eq!((&second["previous_response_id"], &second["instructions"]), (&first["id"], &Value::Null));
    assert_eq!(prompt(&app, 1), ["user: First", "assistant: One.", "user: Second"]);
    assert!(!system(&app, 1).contains("Only now."));
    good(app.post(RESPONSES, &after_first("Other")).await);
    assert_eq!(prompt(&app, 2), ["user: First", "assistant: One.", "user: Other"]);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
    // One of several in a conversation is not deleted.
    let path = format!("{RESPONSES}/{}", first["id"].as_str().unwrap());
    refused(app.send(app.request(Method::DELETE, &path)).await, 409, None);
}

#[tokio::test]
async fn a_conversation_is_a_thread() {
    let app = TestApp::start().await;
    app.upstream.script(["One.", "Two."].map(Reply::says));
    let conversation = good(app.post("/openai/v1/conversations", &json!({})).await);
    let id = conversation["id"].as_str().unwrap();
    let first = good(app.post(RESPONSES, &with(ask("First"), "conversation", json!(id))).await);
    assert_eq!(first["conversation"]["id"], id);
    good(app.post(RESPONSES, &with(ask("Second"), "conversation", json!({ "id": id }))).await);
    assert_eq!(prompt(&app, 1).len(), 3);
    let path = format!("/openai/v1/conversations/{id}");
    let items = good(app.get(&format!("{path}/items?order=asc&limit=3")).await);
    let texts: Vec<&str> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!((texts, &items["has_more"]), (vec!["First", "One.", "Second"], &json!(true)));
    let both = with(with(ask("x"), "conversation", json!(id)), "previous_response_id", first["id"].clone());
    refused(app.post(RESPONSES, &both).await, 400, Some("previous_response_id"));
    assert_eq!(good(app.send(app.request(Method::DELETE, &path)).await)["deleted"], true);
    refused(app.get(&path).await, 404, None);
    refused(app.post(RESPONSES, &with(ask("x"), "conversation", json!(id))).await, 404, None);
}

#[tokio::test]
async fn a_conversation_that_the_client_has_is_told_to_the_model() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Blue.")]);
    let input = json!([
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "content": "My colour is blue." },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Noted." }] },
        { "type": "reasoning", "id": "rs_1", "summary": [] },
        { "role": "user", "content": [{ "type": "input_text", "text": "Which colour?" }] },
    ]);
    let response = good(app.post(RESPONSES, &with(ask(""), "input", input)).await);
    assert_eq!(output_text(&response), "Blue.");
    assert_eq!(prompt(&app, 0), ["user: My colour is blue.", "assistant: Noted.", "user: Which colour?"]);
    assert!(system(&app, 0).contains("Be brief."));
}

#[tokio::test]
async fn a_response_in_the_background_is_polled_resumed_and_cancelled() {
    let app = TestApp::start().await;
    let (gate, second) = (Gate::new(), Gate::new());
    app.upstream.script([
        Reply::stream().text("Hel").wait(&gate).text("lo."),
        Reply::stream().text("Hel").wait(&second),
    ]);
    let begun = good(app.post(RESPONSES, &with(ask("Hi"), "background", json!(true))).await);
    assert!(["queued", "in_progress"].contains(&begun["status"].as_str().unwrap()), "{begun}");
    let path = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    gate.reached().await;
    let now = good(app.get(&path).await);
    assert_eq!((&now["status"], &now["background"]), (&json!("in_progress"), &json!(true)));
    gate.open();
    let sent = read_stream(&app, begun["id"].as_str().unwrap(), None).await;
    check(&sent);
    assert_eq!(sent[1].kind(), "response.queued");
    assert_eq!(output_text(&last(&sent)["response"]), "Hello.");
    assert_eq!(good(app.get(&path).await), last(&sent)["response"]);

    let begun = good(app.post(RESPONSES, &with(ask("Hi"), "background", json!(true))).await);
    second.reached().await;
    let cancelled =
        good(app.post(&format!("{RESPONSES}/{}/cancel", begun["id"].as_str().unwrap()), &json!({})).await);
    assert_eq!((&cancelled["status"], output_text(&cancelled).as_str()), (&json!("cancelled"), "Hel"));
}

#[tokio::test]
async fn an_answer_has_the_form_of_a_schema() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says(r#"{"city":"Oslo"}"#)]);
    let schema = json!({
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "name": "place", "schema": schema, "strict": true });
    let response = good(app.post(RESPONSES, &with(ask("Where?"), "text", json!({ "format": format }))).await);
    assert_eq!(serde_json::from_str::<Value>(&output_text(&response)).unwrap(), json!({ "city": "Oslo" }));
    assert_eq!(response["text"]["format"], format);
}

/// Reads a stream until it contains a text.
macro_rules! read_until {
    ($response:expr, $wanted:expr) => {{
        let mut text = String::new();
        while !text.contains($wanted) {
            text.push_str(std::str::from_utf8(&$response.chunk().await.unwrap().unwrap()).unwrap());
        }
        text
    }};
}

#[tokio::test]
async fn a_client_that_goes_takes_along_only_what_it_alone_waits_for() {
    for (field, value, status) in [
        ("user", json!("x"), "cancelled"),
        ("background", json!(true), "running"),
        ("conversation", Value::Null, "running"),
    ] {
        let app = TestApp::start().await;
        let gate = Gate::new();
        app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let value = if field == "conversation" {
            good(app.post("/openai/v1/conversations", &json!({})).await)["id"].clone()
        } else {
            value
        };
        let body = with(with(ask("Hi"), "stream", json!(true)), field, value);
        let mut response = app.request(Method::POST, RESPONSES).json(&body).send().await.unwrap();
        let run = response.headers()["x-run-id"].to_str().unwrap().to_owned();
        read_until!(response, "Hel");
        drop(response);
        if status == "cancelled" {
            // The end of the run is awaited.
            let text = app.request(Method::GET, &format!("/v1/runs/{run}/events")).send().await.unwrap();
            assert!(text.text().await.unwrap().contains("\"cancelled\""));
        } else {
            gate.open();
            let text = app.request(Method::GET, &format!("/v1/runs/{run}/events")).send().await.unwrap();
            assert!(text.text().await.unwrap().contains("\"completed\""));
        }
    }
}

/// The exact rest while the run is live, over a restart between two steps, and after its end.
#[tokio::test]
async fn a_stream_is_resumed_exactly_over_a_restart() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("Let").text(" me.").call(ScriptedCall::new("echo", r#"{"text":"hi"}"#)),
        Reply::stream().wait(&gate),
        Reply::stream().text("It").text(" says hi."),
    ]);
    let body = with(with(ask("Hi"), "background", json!(true)), "stream", json!(true));
    let mut response = app.request(Method::POST, RESPONSES).json(&body).send().await.unwrap();
    let mut text = String::new();
    while text.matches("event: response.output_item.done").count() < 2 {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    gate.reached().await;
    let seen: Vec<Sent> = events(text.rsplit_once("\n\n").unwrap().0);
    let id = id_of(&seen);
    let app = app.restart().await;
    let whole = read_stream(&app, &id, None).await;
    check(&whole);
    assert_eq!(output_text(&last(&whole)["response"]), "Let me.It says hi.");
    assert_eq!(seen, whole[..seen.len()]);
    for event in &whole {
        let rest = read_stream(&app, &id, Some(event.number())).await;
        assert_eq!(rest, whole[event.number() as usize + 1..]);
    }
}

/// A step that is void keeps its numbers: who has seen some of it is sent the end alone, all others the rest.
#[tokio::test]
async fn nobody_is_sent_the_rest_of_a_text_that_began_again() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream
        .script([Reply::stream().text("The").text(" ca").wait(&gate), Reply::stream().text("The city.")]);
    let body = with(with(ask("What?"), "background", json!(true)), "stream", json!(true));
    let mut response = app.request(Method::POST, RESPONSES).json(&body).send().await.unwrap();
    let mut text = read_until!(response, " ca");
    let app = app.restart().await;
    text.push_str(&response.text().await.unwrap());
    let seen = events(&text);
    let (id, cut) = (id_of(&seen), seen.last().unwrap());
    assert_eq!((cut.kind(), &cut.data["code"]), ("error", &json!("stream_cut")));
    // The error has the number of the event before it, so that nothing is missed after it.
    assert_eq!(cut.number(), seen[seen.len() - 2].number());
    // Before the step begins again, no reader can know that its pieces are void.
    app.service.idle().await;
    let whole = read_stream(&app, &id, None).await;
    assert_eq!(output_text(&last(&whole)["response"]), "The city.");
    let deltas: String = whole.iter().filter_map(|event| event.data["delta"].as_str()).collect();
    assert_eq!(deltas, "The city.");
    let first_void = seen.iter().find(|event| event.kind() == "response.output_item.added").unwrap().number();
    for number in 0..cut.number() + 3 {
        let rest = read_stream(&app, &id, Some(number)).await;
        if number < first_void {
            let exact: Vec<Sent> = whole.iter().filter(|event| event.number() > number).cloned().collect();
            assert_eq!(rest, exact, "after {number}");
        } else if number <= cut.number() {
            assert_eq!(rest.len(), 1, "after {number}: {rest:?}");
            assert_eq!(last(&rest)["response"], last(&whole)["response"]);
        }
    }
}

#[tokio::test]
async fn a_pruned_response_is_told_whole_and_its_end_to_all_who_resume() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").text("lo").text(".")]);
    let sent = stream(&app, &ask("Hi")).await;
    let id = id_of(&sent);
    prune(&app).await;
    let whole = read_stream(&app, &id, None).await;
    check(&whole);
    assert_eq!(last(&whole)["response"], last(&sent)["response"]);
    let pieces = whole.iter().filter(|event| event.kind() == "response.output_text.delta");
    assert_eq!(pieces.map(|event| event.data["delta"].as_str().unwrap()).collect::<Vec<_>>(), ["Hello."]);
    for number in [0, 3, 5, 100] {
        let rest = read_stream(&app, &id, Some(number)).await;
        assert_eq!((rest.len(), &last(&rest)["response"]), (1, &last(&sent)["response"]));
        assert!(rest[0].number() > number);
    }
    assert_eq!(good(app.get(&format!("{RESPONSES}/{id}")).await), last(&sent)["response"]);
}

#[tokio::test]
async fn a_run_that_fails_is_a_failed_response() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "sk-canary")]);
    let sent = stream(&app, &ask("Hi")).await;
    let response = &last(&sent)["response"];
    assert_eq!(
        (last(&sent)["type"].as_str(), &response["status"]),
        (Some("response.failed"), &json!("failed"))
    );
    assert_eq!(response["error"]["code"], "server_error");
    assert!(!response.to_string().contains("canary"));
}

#[tokio::test]
async fn responses_are_private_and_can_be_deleted() {
    let app = TestApp::with(Setup::app("tools = []")).await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    app.upstream.script([Reply::says("Hello.")]);
    let made = send_as(&app, &ann, Method::POST, (RESPONSES, &ask("Hi"))).await.body;
    let path = format!("{RESPONSES}/{}", made["id"].as_str().unwrap());
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::GET, format!("{path}?stream=true")),
        (Method::GET, format!("{path}/input_items")),
        (Method::POST, format!("{path}/cancel")),
        (Method::DELETE, path.clone()),
    ] {
        refused(send_as(&app, &bob, method, (&path, &Value::Null)).await, 404, None);
    }
    let continued = with(ask("x"), "previous_response_id", made["id"].clone());
    refused(
        send_as(&app, &bob, Method::POST, (RESPONSES, &continued)).await,
        400,
        Some("previous_response_id"),
    );
    let deleted = send_as(&app, &ann, Method::DELETE, (&path, &Value::Null)).await;
    assert_eq!((deleted.status, &deleted.body["deleted"]), (200, &json!(true)));
    refused(send_as(&app, &ann, Method::GET, (&path, &Value::Null)).await, 404, None);
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_form_of_the_api_and_change_nothing() {
    let app = TestApp::start().await;
    let item = |item: Value| with(ask(""), "input", json!([item]));
    let tool = |tool: Value| with(ask("x"), "tools", json!([tool]));
    let user = |part: Value| json!({ "role": "user", "content": [part] });
    let cases = [
        (json!({ "model": "test" }), 400, Some("input")),
        (json!({ "input": "x" }), 400, Some("model")),
        (with(ask("x"), "model", json!("gpt-9")), 404, None),
        (ask("  "), 400, Some("input")),
        (with(ask("x"), "input", json!([])), 400, Some("input")),
        (with(ask("x"), "previous_response_id", json!("resp_1")), 400, Some("previous_response_id")),
        (with(ask("x"), "conversation", json!("conv_1")), 404, None),
        (item(json!({ "type": "computer_call" })), 400, Some("input[0].type")),
        (item(json!({ "role": "boss", "content": "x" })), 400, Some("input[0].role")),
        (item(user(json!({ "type": "input_audio" }))), 400, Some("input[0].content[0].type")),
        (
            item(user(json!({ "type": "input_image", "image_url": "https://example.com/a.png" }))),
            400,
            Some("input[0].content[0].image_url"),
        ),
        (item(json!({ "role": "assistant", "content": "x" })), 400, Some("input")),
        (
            item(json!({ "type": "function_call_output", "call_id": "x", "output": "y" })),
            400,
            Some("input[0].call_id"),
        ),
        (
            item(json!({ "type": "mcp_approval_response", "approval_request_id": "x", "approve": true })),
            400,
            Some("input[0].approval_request_id"),
        ),
        (tool(json!({ "type": "web_search" })), 400, Some("tools[0].type")),
        (tool(json!({ "type": "function" })), 400, Some("tools[0].name")),
        (with(ask("x"), "metadata", json!({ "key": 1 })), 400, Some("metadata")),
        (with(ask("x"), "temperature", json!(9)), 400, Some("temperature")),
        (with(ask("x"), "reasoning", json!({ "effort": "huge" })), 400, Some("reasoning.effort")),
        (with(ask("x"), "text", json!({ "format": { "type": "xml" } })), 400, Some("text.format")),
    ];
    for (body, status, param) in cases {
        let message = refused(app.post(RESPONSES, &body).await, status, param);
        assert!(!message.is_empty(), "{body}");
    }
    let message = refused(
        app.post(RESPONSES, &tool(json!({ "type": "web_search" }))).await,
        400,
        Some("tools[0].type"),
    );
    assert!(message.contains("web_search"));
    for path in ["/openai/v1/responses/resp_1", "/openai/v1/conversations/conv_1"] {
        refused(app.get(path).await, 404, None);
    }
    assert_eq!(app.count("SELECT count(*) FROM runs"), 0);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0);
}
