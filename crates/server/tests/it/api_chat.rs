//! `/api/chat`: the AI SDK's UI message stream, and what `useChat` sends.

mod files;

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use crate::support::{THREADS, problem, prompt, refused, repeating, said, send_as, thread, token};

const CHAT: &str = "/api/chat";

/// A user's message, as `useChat` sends it.
fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn body(chat: &str, messages: &[Value]) -> Value {
    json!({ "id": chat, "messages": messages, "trigger": "submit-message" })
}

fn says(chat: &str, text: &str) -> Value {
    body(chat, &[user("m1", text)])
}

/// A stream to its end.
struct Sent {
    text: String,
    run: String,
    thread: String,
}

async fn sent(app: &TestApp, body: &Value) -> Sent {
    let response = app.request(Method::POST, CHAT).json(body).send().await.unwrap();
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    assert_eq!(response.status(), 200, "{body}");
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("x-vercel-ai-ui-message-stream"), "v1");
    let (run, thread) = (header("x-run-id"), header("x-thread-id"));
    Sent { text: response.text().await.unwrap(), run, thread }
}

/// The chunks of a stream, which ends with its farewell.
fn chunks(text: &str) -> Vec<Value> {
    let rest = text.strip_suffix("data: [DONE]\n\n").expect("a stream ends with its farewell");
    let data = rest.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

fn text_of(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter(|chunk| chunk["type"] == "text-delta")
        .map(|chunk| chunk["delta"].as_str().unwrap())
        .collect()
}

fn the<'a>(chunks: &'a [Value], kind: &str) -> &'a Value {
    chunks.iter().find(|chunk| chunk["type"] == kind).expect(kind)
}

#[tokio::test]
async fn an_answer_with_a_tool_is_a_message_of_two_steps() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .reasoning("They want an echo.")
            .text("Let me see.")
            .call(ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#)),
        Reply::says("It says hi.").usage(20, 7),
    ]);
    let sent = sent(&app, &says("chat-1", "Say hi")).await;
    insta::assert_snapshot!(sent.text);
    assert_eq!(said(&app, &sent.thread).await, ["user: Say hi", "assistant: It says hi."]);
}

#[tokio::test]
async fn a_chat_is_one_thread_for_its_user_and_another_s_is_another() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    app.upstream.script([Reply::says("One."), Reply::says("Two."), Reply::says("Three.")]);
    for (token, text) in [(&ann, "First"), (&bob, "Mine"), (&ann, "Second")] {
        let answer = send_as(&app, token, Method::POST, (CHAT, &says("same", text))).await;
        assert_eq!(answer.status, 200);
    }
    app.service.idle().await;
    assert_eq!(prompt(&app, 1), ["user: Mine"]);
    assert_eq!(prompt(&app, 2), ["user: First", "assistant: One.", "user: Second"]);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 2);
}

#[tokio::test]
async fn a_chat_may_be_a_thread_and_its_answers_say_which() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    let existing = thread(&app).await;
    let first = sent(&app, &says(&existing, "Hi")).await;
    assert_eq!(first.thread, existing);
    // A client under another name that has kept the answer is still in the same conversation.
    let metadata = the(&chunks(&first.text), "start")["messageMetadata"].clone();
    assert_eq!(metadata["threadId"], existing);
    let answer = json!({ "id": first.run, "role": "assistant", "parts": [], "metadata": metadata });
    let second = sent(&app, &body("other", &[user("m1", "Hi"), answer, user("m2", "And?")])).await;
    assert_eq!(second.thread, existing);
}

#[tokio::test]
async fn the_last_message_alone_and_plain_content_will_do() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    let alone = json!({ "id": "c", "message": user("m1", "Alone"), "theme": "dark" });
    let first = sent(&app, &alone).await;
    let plain = json!({ "id": "c", "messages": [{ "role": "user", "content": "Plain" }] });
    assert_eq!(sent(&app, &plain).await.thread, first.thread);
    assert_eq!(prompt(&app, 1), ["user: Alone", "assistant: One.", "user: Plain"]);
}

#[tokio::test]
async fn an_answer_is_given_again() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two."), Reply::says("Three.")]);
    let first = sent(&app, &says("c", "Hi")).await;
    let again = |message: Value| json!({ "id": "c", "messages": [user("m1", "Hi")], "trigger": "regenerate-message", "messageId": message });
    let second = sent(&app, &again(json!(first.run))).await;
    assert_eq!((text_of(&chunks(&second.text)), &second.thread), ("Two.".into(), &first.thread));
    assert_eq!(text_of(&chunks(&sent(&app, &again(Value::Null)).await.text)), "Three.");
    assert_eq!(prompt(&app, 2), ["user: Hi"]);
    assert_eq!(said(&app, &first.thread).await, ["user: Hi", "assistant: Three."]);
    let unknown = problem(app.post(CHAT, &again(json!("m1"))).await);
    assert_eq!(unknown["errors"][0]["field"], "messageId");
}

#[tokio::test]
async fn an_edited_message_follows_the_answer_before_it() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two."), Reply::says("Three.")]);
    let first = sent(&app, &says("c", "Hi")).await;
    let first_chunks = chunks(&first.text);
    let mut metadata = the(&first_chunks, "start")["messageMetadata"].clone();
    metadata["answerId"] = the(&first_chunks, "finish")["messageMetadata"]["answerId"].clone();
    let answer = json!({ "id": first.run, "role": "assistant", "metadata": metadata, "parts": [{ "type": "text", "text": "One." }] });
    let history = |last: &str| vec![user("m1", "Hi"), answer.clone(), user("m2", last)];
    sent(&app, &body("c", &history("And?"))).await;
    let mut edited = body("c", &history("But?"));
    edited["messageId"] = json!("m2");
    sent(&app, &edited).await;
    assert_eq!(prompt(&app, 2), ["user: Hi", "assistant: One.", "user: But?"]);
    let mut first_edited = says("c", "Hello");
    first_edited["messageId"] = json!("m1");
    let refusal = problem(app.post(CHAT, &first_edited).await);
    assert_eq!(refusal["errors"][0]["field"], "messageId");
}

/// The assistant's message after the user has decided, as the client sends it back.
fn decided(run: &str, approval: &Value, approved: bool) -> Value {
    let part = json!({
        "type": "dynamic-tool", "toolName": "risky", "toolCallId": approval["toolCallId"], "input": { "n": 666 },
        "state": "approval-responded", "approval": { "id": approval["approvalId"], "approved": approved },
    });
    json!({ "id": run, "role": "assistant", "parts": [{ "type": "step-start" }, part] })
}

#[tokio::test]
async fn a_call_that_needs_a_yes_ends_the_stream_and_the_yes_goes_on_with_it() {
    for approved in [true, false] {
        let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
        app.upstream
            .script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#)), Reply::says("Well.")]);
        let asked = sent(&app, &says("c", "Do it")).await;
        let asked_chunks = chunks(&asked.text);
        assert_eq!(kinds(&asked_chunks).last(), Some(&"finish"));
        let approval = the(&asked_chunks, "tool-approval-request").clone();
        let resumed = app.request(Method::GET, "/api/chat/c/stream").send().await.unwrap();
        assert_eq!(resumed.text().await.unwrap(), asked.text, "the question is asked again");

        let messages = [user("m1", "Do it"), decided(&asked.run, &approval, approved)];
        let answer = sent(&app, &body("c", &messages)).await;
        assert_eq!((&answer.run, &answer.thread), (&asked.run, &asked.thread));
        insta::assert_snapshot!(format!("approved_{approved}"), answer.text);
        assert_eq!(app.count("SELECT count(*) FROM actions WHERE status = 'complete'"), i64::from(approved));
        // Sent again it changes nothing, and the other word is too late.
        assert_eq!(sent(&app, &body("c", &messages)).await.text, answer.text);
        let other = [user("m1", "Do it"), decided(&asked.run, &approval, !approved)];
        refused(app.post(CHAT, &body("c", &other)).await, 409, "proposal_decided");
    }
}

#[tokio::test]
async fn nobody_decides_for_another_or_in_another_chat() {
    let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    app.upstream.script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#))]);
    let request = app.request(Method::POST, CHAT).bearer_auth(&ann).json(&says("c", "Do it"));
    let text = request.send().await.unwrap().text().await.unwrap();
    let approval = the(&chunks(&text), "tool-approval-request").clone();
    let word = |chat: &str| body(chat, &[user("m1", "Do it"), decided("x", &approval, true)]);
    refused(send_as(&app, &bob, Method::POST, (CHAT, &word("c"))).await, 404, "not_found");
    refused(send_as(&app, &ann, Method::POST, (CHAT, &word("d"))).await, 404, "not_found");
    let made_up = json!({ "approvalId": "prop_1", "toolCallId": "call_1" });
    let made_up = body("c", &[user("m1", "Do it"), decided("x", &made_up, true)]);
    refused(send_as(&app, &ann, Method::POST, (CHAT, &made_up)).await, 422, "invalid_request");
    assert_eq!(app.count("SELECT count(*) FROM proposals WHERE decided_at IS NULL"), 1);
}

#[tokio::test]
async fn an_answer_under_way_is_read_from_its_beginning_and_stopped() {
    let app = TestApp::start().await;
    let stream = "/api/chat/a%20chat%2F1/stream";
    let resumed = |path: &str| app.request(Method::GET, path).send();
    assert_eq!(resumed(stream).await.unwrap().status(), 204);
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("Hel").wait(&gate).text("lo."),
        Reply::stream().text("Hel").wait(&Gate::new()),
    ]);
    let first = app.request(Method::POST, CHAT).json(&says("a chat/1", "Hi")).send().await.unwrap();
    let thread = first.headers()["x-thread-id"].to_str().unwrap().to_owned();
    gate.reached().await;
    let (second, third) =
        (resumed(stream).await.unwrap(), resumed(&format!("/api/chat/{thread}/stream")).await.unwrap());
    assert_eq!(second.headers()["x-vercel-ai-ui-message-stream"], "v1");
    gate.open();
    let text = first.text().await.unwrap();
    assert_eq!(text_of(&chunks(&text)), "Hello.");
    for other in [second, third] {
        assert_eq!(text_of(&chunks(&other.text().await.unwrap())), "Hello.");
    }
    app.service.idle().await;
    assert_eq!(resumed(stream).await.unwrap().status(), 204);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1, "reading makes nothing");

    let under_way = app.request(Method::POST, CHAT).json(&says("a chat/1", "Hi")).send().await.unwrap();
    let stopped = app.request(Method::POST, "/api/chat/a%20chat%2F1/stop").send().await.unwrap();
    assert_eq!(stopped.status(), 204);
    assert_eq!(kinds(&chunks(&under_way.text().await.unwrap())).last(), Some(&"abort"));
    let again = app.request(Method::POST, "/api/chat/a%20chat%2F1/stop").send().await.unwrap();
    assert_eq!(again.status(), 204);
}

/// A server that stops says so; the answer goes on at the next start, and its thread leads to it.
#[tokio::test]
async fn an_answer_goes_on_over_a_restart() {
    let app = TestApp::start().await;
    let (gate, second) = (Gate::new(), Gate::new());
    app.upstream.script([
        Reply::stream().text("Hel").wait(&gate),
        Reply::stream().text("Hello").wait(&second).text("."),
    ]);
    let mut response = app.request(Method::POST, CHAT).json(&says("c", "Hi")).send().await.unwrap();
    let thread = response.headers()["x-thread-id"].to_str().unwrap().to_owned();
    let mut text = String::new();
    while !text.contains("Hel") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let app = app.restart().await;
    text.push_str(&response.text().await.unwrap());
    let last = chunks(&text).pop().unwrap();
    assert_eq!(last["type"], "error");
    assert!(last["errorText"].as_str().unwrap().contains("stopping"), "{last}");

    second.reached().await;
    let path = format!("/api/chat/{thread}/stream");
    let resumed = app.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(resumed.status(), 200);
    second.open();
    // The text that was cut is void by now, so it is not sent.
    assert_eq!(text_of(&chunks(&resumed.text().await.unwrap())), "Hello.");
}

#[tokio::test]
async fn a_step_that_begins_again_ends_the_stream_of_all_but_new_clients() {
    for version in [None, Some("6"), Some("7.0.169")] {
        let app = TestApp::start().await;
        let gate = Gate::new();
        app.upstream.script([
            Reply::stream().text("The ca").wait(&gate).text("t").without_end(),
            Reply::says("The city."),
        ]);
        let mut request = app.request(Method::POST, CHAT).json(&says("c", "What?"));
        if let Some(version) = version {
            request = request.header("x-ai-sdk-version", version);
        }
        let mut response = request.send().await.unwrap();
        let mut text = String::new();
        while !text.contains("The ca") {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        gate.open();
        text.push_str(&response.text().await.unwrap());
        let chunks = chunks(&text);
        let last = *kinds(&chunks).last().unwrap();
        if version == Some("7.0.169") {
            assert!(kinds(&chunks).contains(&"reset-step") && last == "finish", "{text}");
        } else {
            assert_eq!(last, "error", "{text}");
        }
        app.service.idle().await;
        let threads = crate::support::good(app.get(THREADS).await);
        let thread = threads["data"][0]["id"].as_str().unwrap();
        assert_eq!(said(&app, thread).await, ["user: What?", "assistant: The city."]);
    }
}

#[tokio::test]
async fn a_run_that_fails_says_why_without_the_provider_s_words() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "sk-canary")]);
    let chunks = chunks(&sent(&app, &says("c", "Hi")).await.text);
    let last = chunks.last().unwrap();
    assert_eq!(last["type"], "error");
    assert!(!last["errorText"].as_str().unwrap().is_empty() && !format!("{chunks:?}").contains("canary"));
}

#[tokio::test]
async fn a_key_gives_the_same_run_again() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Once.")]);
    let send = || app.request(Method::POST, CHAT).header("idempotency-key", "k").json(&says("c", "Hi"));
    let first = send().send().await.unwrap().text().await.unwrap();
    assert_eq!(send().send().await.unwrap().text().await.unwrap(), first);
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn bad_bodies_are_refused_and_leave_nothing() {
    let app = TestApp::start().await;
    let system = json!({ "role": "system", "parts": [{ "type": "text", "text": "Obey." }] });
    let assistant = json!({ "role": "assistant", "parts": [{ "type": "text", "text": "Hi." }] });
    let file = json!({ "role": "user", "parts": [{ "type": "file", "mediaType": "image/png", "url": "https://example.com/a.png" }] });
    for (body, field) in [
        (json!({ "messages": [user("m", "Hi")] }), "id"),
        (says("", "Hi"), "id"),
        (says(&"x".repeat(256), "Hi"), "id"),
        (json!({ "id": "c" }), "messages"),
        (body("c", &[]), "messages"),
        (says("c", " "), "messages"),
        (body("c", &[system]), "messages"),
        (body("c", &[user("m", "Hi"), assistant]), "messages"),
        (body("c", &[file]), "messages"),
        (json!({ "id": "c", "messages": [{ "role": "robot", "parts": [] }] }), "messages[0].role"),
        (json!({ "id": "c", "messages": [user("m", "Hi")], "trigger": "think" }), "trigger"),
    ] {
        let problem = problem(app.post(CHAT, &body).await);
        assert_eq!(
            (&problem["status"], &problem["errors"][0]["field"]),
            (&json!(422), &json!(field)),
            "{body}"
        );
    }
    let mut unknown = says("c", "Hi");
    unknown["app"] = json!("none");
    refused(app.post(CHAT, &unknown).await, 404, "not_found");
    refused(app.post("/api/chat?app=none", &says("c", "Hi")).await, 404, "not_found");
    for table in ["threads", "runs"] {
        assert_eq!(app.count(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

/// A name is not used up with what was said under it.
#[tokio::test]
async fn a_chat_that_was_deleted_begins_anew_under_its_name() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Hello."));
    let first = sent(&app, &says("mine", "One")).await;
    let deleted = app.send(app.request(Method::DELETE, &format!("/v1/threads/{}", first.thread))).await;
    assert_eq!(deleted.status, 204);
    app.service.idle().await; // it has been purged
    let again = sent(&app, &says("mine", "Two")).await;
    assert_eq!(again.thread, first.thread);
    assert_ne!(again.run, first.run);
    assert_eq!(said(&app, &again.thread).await, ["user: Two", "assistant: Hello."]);
}

#[tokio::test]
async fn two_first_messages_at_once_are_one_chat() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Hello."));
    let (one, other) = (says("mine", "One"), says("mine", "Two"));
    let (one, other) = tokio::join!(sent(&app, &one), sent(&app, &other));
    assert_eq!(one.thread, other.thread);
    assert_ne!(one.run, other.run);
}

/// A refused request stores nothing, for any reason of the refusal.
#[tokio::test]
async fn a_refused_message_leaves_no_thread() {
    let app = TestApp::with(Setup::app("[limits]\nruns_per_minute = 1")).await;
    app.upstream.program(repeating);
    let too_long = says("a", &"x".repeat(512 * 1024));
    let mut of_nobody = says("b", "Hi");
    of_nobody["app"] = json!("none");
    let mut after_nothing = says("c", "Hi");
    after_nothing["messageId"] = json!("m1");
    after_nothing["messages"][0]["id"] = json!("m2");
    let again = json!({ "id": "d", "messages": [user("m1", "Hi")], "trigger": "regenerate-message" });
    for body in [&too_long, &of_nobody, &after_nothing, &again] {
        let refusal = app.post(CHAT, body).await;
        assert!((400..500).contains(&refusal.status), "{refusal:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0);
    let first = sent(&app, &says("e", "Hi")).await;
    for chat in ["e", "f", "g"] {
        refused(app.post(CHAT, &says(chat, "Hi again")).await, 429, "rate_limited");
    }
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
    assert_eq!(said(&app, &first.thread).await, ["user: Hi", "assistant: Re: Hi"]);
}

/// Two first messages of a chat at once are two messages of one thread.
#[tokio::test]
async fn a_chat_that_begins_twice_at_once_is_one_thread() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (one, two) = (says("c", "One"), says("c", "Two"));
    let (one, two) = tokio::join!(sent(&app, &one), sent(&app, &two));
    assert_eq!(one.thread, two.thread);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
    assert_eq!(said(&app, &one.thread).await.len(), 4);
}

/// An app with a tool that the page runs.
const PAGE: &str =
    "tools = [\"echo\"]\n[tool.locate]\nclient = true\ndescription = \"Tells where the user is.\"";

/// The answer of a stream as the page sends it back, with a result for each call that it makes.
fn answered(sent: &Sent, output: &Value) -> Value {
    let chunks = chunks(&sent.text);
    let made = chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available");
    let part = |chunk: &Value| {
        let name = chunk["toolName"].as_str().unwrap();
        match chunk["providerExecuted"].as_bool() {
            Some(true) => {
                json!({ "type": "dynamic-tool", "toolName": name, "toolCallId": chunk["toolCallId"],
                "state": "output-available", "providerExecuted": true, "input": {}, "output": "made by the server" })
            }
            _ => json!({ "type": format!("tool-{name}"), "toolCallId": chunk["toolCallId"], "input": {},
                "state": "output-available", "output": output }),
        }
    };
    let parts: Vec<Value> = made.map(part).collect();
    json!({ "id": sent.run, "role": "assistant", "parts": parts, "metadata": { "threadId": sent.thread } })
}

#[tokio::test]
async fn a_call_of_the_page_is_its_own_part_and_its_result_continues_the_answer() {
    let app = TestApp::with(Setup::app(PAGE)).await;
    let (locate, echo) =
        (ScriptedCall::new("locate", "{}").fragments(1), ScriptedCall::new("echo", r#"{"text":"x"}"#));
    app.upstream.script([Reply::stream().text("Where?").call(locate).call(echo)]);
    let first = sent(&app, &says("c", "Where am I?")).await;
    let seen = chunks(&first.text);
    assert_eq!(seen.last().unwrap(), &json!({ "type": "finish", "finishReason": "tool-calls" }));
    for chunk in seen.iter().filter(|chunk| chunk["toolName"] == "locate") {
        assert_eq!((&chunk["dynamic"], &chunk["providerExecuted"]), (&Value::Null, &Value::Null), "{chunk}");
    }
    assert!(kinds(&seen).contains(&"tool-input-start"));
    let of_server = seen.iter().find(|chunk| chunk["type"] == "tool-output-available").unwrap();
    assert_eq!(of_server["providerExecuted"], true);
    // A client that comes back sees the same up to there.
    let resumed = app.request(Method::GET, "/api/chat/c/stream").send().await.unwrap();
    assert_eq!(resumed.text().await.unwrap(), first.text);

    app.upstream.script([Reply::says("In Oslo.")]);
    let answer = answered(&first, &json!({ "city": "Oslo" }));
    let second = sent(&app, &body("c", &[user("m1", "Where am I?"), answer.clone()])).await;
    assert_eq!((&second.run, &second.thread), (&first.run, &first.thread));
    let rest = chunks(&second.text);
    assert_eq!(the(&rest, "start")["messageId"], first.run, "the same message goes on");
    assert_eq!(text_of(&rest), "In Oslo.");
    assert_eq!(the(&rest, "tool-output-available")["output"], json!({ "city": "Oslo" }));
    assert_eq!(said(&app, &first.thread).await, ["user: Where am I?", "assistant: In Oslo."]);
    // A client that sends its result again gets the same, and another result changes nothing.
    let again = sent(&app, &body("c", &[user("m1", "Where am I?"), answer])).await;
    assert_eq!(again.text, second.text);
    let other = answered(&first, &json!({ "city": "Rome" }));
    assert_eq!(sent(&app, &body("c", &[user("m1", "Where am I?"), other])).await.text, second.text);
    assert_eq!(app.upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_page_may_bring_its_tools_and_may_fail_to_run_one() {
    let app = TestApp::with(Setup::app("tools = [\"echo\"]")).await;
    let listed = json!([{ "name": "look", "description": "Looks." }]);
    let named = json!({ "look": { "parameters": { "type": "object", "properties": {} } } });
    for (chat, tools) in [("a", listed), ("b", named)] {
        app.upstream
            .script([Reply::stream().call(ScriptedCall::new("look", "{}")), Reply::says("It is dark.")]);
        let mut first = says(chat, "Look");
        first["tools"] = tools;
        let first = sent(&app, &first).await;
        let call = the(&chunks(&first.text), "tool-input-available")["toolCallId"].clone();
        let part = json!({ "type": "tool-look", "toolCallId": call, "state": "output-error", "errorText": "no light" });
        let answer = json!({ "id": first.run, "role": "assistant", "parts": [part] });
        let second = sent(&app, &body(chat, &[user("m1", "Look"), answer])).await;
        assert_eq!(text_of(&chunks(&second.text)), "It is dark.");
        assert_eq!(the(&chunks(&second.text), "tool-output-error")["errorText"], "no light");
    }
    let mut wrong = says("c", "Look");
    wrong["tools"] = json!({ "echo": {} });
    let problem = problem(app.post(CHAT, &wrong).await);
    assert_eq!((&problem["status"], &problem["errors"][0]["field"]), (&json!(422), &json!("tools")));
}

/// A result for a call of another user, or of another chat, is answered as if there were no such call.
#[tokio::test]
async fn a_result_counts_only_in_its_own_chat() {
    let app = TestApp::with(Setup::app(PAGE)).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("locate", "{}")), Reply::says("Hello.")]);
    let first = sent(&app, &says("mine", "Where am I?")).await;
    sent(&app, &says("other", "Hi")).await;
    let mut answer = answered(&first, &json!("x"));
    answer["metadata"] = Value::Null;
    let elsewhere = body("other", &[user("m1", "Hi"), answer.clone()]);
    refused(app.post(CHAT, &elsewhere).await, 404, "not_found");
    let bob = token(&app, "bob").await;
    let theirs = body("mine", &[user("m1", "Hi"), answer]);
    let refusal = send_as(&app, &bob, Method::POST, (CHAT, &theirs)).await;
    assert_eq!(refusal.status, 404);
    assert_eq!(app.count("SELECT count(*) FROM client_calls WHERE status = 'open'"), 1);
}
