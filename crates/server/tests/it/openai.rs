//! `/openai/v1`: Chat Completions, models and embeddings, as clients of OpenAI's API use them.

mod embeddings;
mod errors;
mod presence;
mod threads;
mod tools;

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::support::{prompt, said, system};

const CHAT: &str = "/openai/v1/chat/completions";

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn body(messages: &[Value]) -> Value {
    json!({ "model": "test", "messages": messages })
}

/// A request with more fields.
fn with(mut body: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A whole answer with what its headers name.
struct Completed {
    body: Value,
    run: String,
    thread: String,
}

impl Completed {
    fn text(&self) -> &str {
        self.body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
    }

    fn finish(&self) -> &str {
        self.body["choices"][0]["finish_reason"].as_str().unwrap()
    }

    fn message(&self) -> Value {
        self.body["choices"][0]["message"].clone()
    }
}

async fn completed_in(app: &TestApp, thread: Option<&str>, body: &Value) -> Completed {
    let mut request = app.request(Method::POST, CHAT).json(body);
    if let Some(thread) = thread {
        request = request.header("x-thread-id", thread);
    }
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (status, run, thread) = (response.status(), header("x-run-id"), header("x-thread-id"));
    assert_eq!(header("x-request-id").len(), 32);
    let body: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{body}");
    Completed { body, run, thread }
}

async fn completed(app: &TestApp, body: &Value) -> Completed {
    completed_in(app, None, body).await
}

/// A stream as text, to its end.
async fn streamed(app: &TestApp, body: &Value) -> String {
    let body = with(body.clone(), &json!({ "stream": true }));
    let response = app.request(Method::POST, CHAT).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{body}");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.text().await.unwrap()
}

/// The chunks of a stream, which ends with its farewell.
fn chunks(text: &str) -> Vec<Value> {
    let rest = text.strip_suffix("data: [DONE]\n\n").expect("a stream ends with its farewell");
    let data = rest.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn joined(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

/// The error that an answer must hold.
fn error(answer: Answer, status: u16, code: &str) -> Value {
    let Answer { status: said, content_type, mut body } = answer;
    assert_eq!((said, content_type.as_str()), (status, "application/json"), "{body}");
    let error = body["error"].take();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    assert!(error["type"].is_string() && error.get("param").is_some(), "{error}");
    error
}

#[tokio::test]
async fn an_answer_is_streamed_with_reasoning_and_without_the_server_s_tools() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .reasoning("They want an echo.")
            .text("Let me see.")
            .call(ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#)),
        Reply::says("It says hi.").usage(20, 7),
    ]);
    let options = json!({ "stream_options": { "include_usage": true } });
    let text = streamed(&app, &with(body(&[user("Say hi")]), &options)).await;
    insta::assert_snapshot!(text);
    let chunks = chunks(&text);
    assert_eq!(joined(&chunks, "content"), "Let me see.\n\nIt says hi.");
    assert!(
        chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["created"] == chunks[0]["created"])
    );
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_says_the_same() {
    let app = TestApp::start().await;
    let replies = || {
        let call = ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#);
        [
            Reply::stream().reasoning("Hm.").text("Let me see.").call(call),
            Reply::says("It says hi.").usage(20, 7).finish("length"),
        ]
    };
    app.upstream.script(replies());
    app.upstream.script(replies());
    let answer = completed(&app, &body(&[user("Say hi")])).await;
    insta::assert_json_snapshot!(answer.body);
    assert_eq!(answer.body["id"], format!("chatcmpl-{}", answer.run.strip_prefix("run_").unwrap()));
    let chunks = chunks(&streamed(&app, &body(&[user("Say hi")])).await);
    assert_eq!(joined(&chunks, "content"), answer.text());
    assert_eq!(joined(&chunks, "reasoning_content"), "Hm.");
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"][0]["finish_reason"], last.get("usage")), (&json!("length"), None));
}

#[tokio::test]
async fn the_history_of_the_client_is_the_history_of_the_run() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Three.")]);
    let messages = [
        json!({ "role": "system", "content": "Count." }),
        assistant("Welcome."),
        user("One?"),
        json!({ "role": "developer", "content": "In English." }),
        assistant("One."),
        user("Two?"),
        user("Really?"),
        json!({ "role": "assistant", "content": null, "refusal": "No." }),
        user("Three?"),
    ];
    let answer = completed(&app, &body(&messages)).await;
    assert_eq!(answer.text(), "Three.");
    let expected = [
        "user: ",
        "assistant: Welcome.",
        "user: One?",
        "assistant: One.",
        "user: Two?\n\nReally?",
        "assistant: No.",
        "user: Three?",
        "assistant: Three.",
    ];
    assert_eq!(said(&app, &answer.thread).await, expected);
    let told = prompt(&app, 0);
    assert_eq!(told.last().unwrap(), "user: Three?");
    assert!(told.contains(&"assistant: One.".to_owned()), "{told:?}");
    assert!(system(&app, 0).contains("Count.\n\nIn English."));
}

#[tokio::test]
async fn options_reach_the_model_and_unknown_fields_do_not_matter() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("{}"), Reply::says("{}")]);
    let fields = json!({
        "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 77, "max_tokens": 5, "frequency_penalty": 0.1,
        "presence_penalty": 0.2, "response_format": { "type": "json_object" }, "n": 1,
        "user": 5, "seed": "x", "store": true, "logprobs": 3, "verbosity": {}, "service_tier": [], "stop": 7,
        "parallel_tool_calls": "no", "prompt_cache_key": null, "tools": null, "stream": null, "metadata": {},
        "stream_options": null, "logit_bias": { "50256": -100 }, "modalities": ["text"], "invented": [[[]]],
    });
    assert_eq!(completed(&app, &with(body(&[user("Hi")]), &fields)).await.text(), "{}");
    let sent = &app.upstream.requests()[0].body;
    let names = ["temperature", "top_p", "frequency_penalty", "presence_penalty"];
    assert_eq!(names.map(|name| sent[name].clone()), [json!(0.5), json!(0.9), json!(0.1), json!(0.2)]);
    assert_eq!(sent["max_completion_tokens"].as_u64().or(sent["max_tokens"].as_u64()), Some(77), "{sent}");
    assert_eq!(sent["response_format"]["type"], "json_object");
    let schema = json!({
        "type": "object", "properties": { "a": { "type": "integer" } }, "required": [], "additionalProperties": false,
    });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "out", "schema": schema, "strict": true } });
    completed(&app, &with(body(&[user("Hi")]), &json!({ "response_format": format }))).await;
    let sent = app.upstream.requests()[1].body["response_format"].clone();
    assert_eq!(
        (&sent["type"], &sent["json_schema"]["name"]),
        (&json!("json_schema"), &json!("out")),
        "{sent}"
    );
}

#[tokio::test]
async fn apps_are_models() {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let app = TestApp::with(Setup { files, ..Setup::app("models = [\"a/b\"]") }).await;
    let ids = |answer: Answer| -> Vec<String> {
        assert_eq!((answer.status, &answer.body["object"]), (200, &json!("list")));
        answer.body["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = ids(app.get("/openai/v1/models").await);
    for id in ["other", "test", "test/a/b"] {
        assert!(all.contains(&id.to_owned()), "{all:?}");
        for path in
            [format!("/openai/v1/models/{id}"), format!("/openai/v1/models/{}", id.replace('/', "%2F"))]
        {
            let model = app.get(&path).await;
            let expected = json!({ "id": id, "object": "model", "created": 0, "owned_by": "rondo" });
            assert_eq!((model.status, model.body), (200, expected), "{path}");
        }
    }
    for wrong in ["gpt-4o", "test/none", "test/", "none/a"] {
        error(app.get(&format!("/openai/v1/models/{wrong}")).await, 404, "model_not_found");
    }
    app.upstream.script([Reply::says("Hi.")]);
    let answer = completed(&app, &json!({ "model": "test/a/b", "messages": [user("Hi")] })).await;
    assert_eq!(answer.body["model"], "test/a/b");
    assert_eq!(app.upstream.requests()[0].body["model"], "a/b");
    let token = crate::support::token(&app, "ann").await;
    let listed = app.send(app.request(Method::GET, "/openai/v1/models").bearer_auth(&token)).await;
    assert!(ids(listed).iter().all(|id| id.starts_with("test")), "a key for one app sees that one");
    let request = app.request(Method::POST, CHAT).bearer_auth(&token);
    let foreign = request.json(&json!({ "model": "other", "messages": [user("Hi")] }));
    error(app.send(foreign).await, 404, "model_not_found");
}

#[tokio::test]
async fn a_stream_that_is_read_again_has_the_same_bytes() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .text("Let me ")
            .text("see.")
            .call(ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#)),
        Reply::says("It says hi."),
    ]);
    let fields = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let body = with(body(&[user("Say hi")]), &fields);
    let send = async || {
        let request = app.request(Method::POST, CHAT).header("idempotency-key", "k1").json(&body);
        request.send().await.unwrap().text().await.unwrap()
    };
    let live = send().await;
    app.service.idle().await;
    let again = send().await;
    assert_eq!(joined(&chunks(&live), "content"), joined(&chunks(&again), "content"));
    assert_eq!(chunks(&live).first(), chunks(&again).first());
    assert_eq!(chunks(&live).last(), chunks(&again).last());
    assert_eq!(again, send().await, "the same from the log, byte for byte");
    assert_eq!(app.upstream.requests().len(), 2, "nothing was asked twice");
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
}

#[tokio::test]
async fn images_and_files_are_parts_of_the_message() {
    let mut setup = Setup::default();
    setup.capabilities.vision = true;
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::says("A square."), Reply::says("Still.")]);
    let url = testkit::pictures::data_url("image/png", &testkit::pictures::png(4, 4));
    let look = json!({ "role": "user", "content": [
        { "type": "text", "text": "Look" },
        { "type": "image_url", "image_url": { "url": url, "detail": "low" } },
    ]});
    let first = completed_in(&app, Some("pics"), &body(std::slice::from_ref(&look))).await;
    assert_eq!(first.text(), "A square.");
    let messages = app.get(&format!("/v1/threads/{}/messages", first.thread)).await.body;
    assert_eq!(messages["data"][0]["parts"][0]["type"], "image");
    // The image in the history of the client is the one that the thread has.
    let second =
        completed_in(&app, Some("pics"), &body(&[look, assistant("A square."), user("And now?")])).await;
    assert_eq!(second.thread, first.thread);
    assert_eq!(said(&app, &first.thread).await.len(), 4);
    assert_eq!(app.count("SELECT count(*) FROM images"), 1);
}
