//! Tools of the client, and approvals, which this contract has no word for.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use super::{CHAT, Completed, body, chunks, completed, completed_in, error, joined, streamed, user, with};
use crate::support::{good, prompt, said, send_as, token};

fn locate() -> Value {
    json!([{ "type": "function", "function": {
        "name": "locate", "description": "Tells where the user is.", "strict": true,
        "parameters": { "type": "object", "properties": { "precise": { "type": "boolean" } } },
    }}])
}

fn calls(calls: &[&str]) -> Reply {
    calls.iter().fold(Reply::stream().text("Let me look."), |reply, input| {
        reply.call(ScriptedCall::new("locate", input))
    })
}

fn asks(messages: &[Value]) -> Value {
    with(body(messages), &json!({ "tools": locate() }))
}

fn ids(answer: &Completed) -> Vec<String> {
    let calls = answer.body["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
}

fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

#[tokio::test]
async fn a_call_of_the_client_ends_the_answer_and_its_result_continues_the_run() {
    let app = TestApp::start().await;
    app.upstream.script([calls(&[r#"{"precise":true}"#]), Reply::says("You are in Oslo.").usage(20, 7)]);
    let first = completed(&app, &asks(&[user("Where am I?")])).await;
    assert_eq!((first.finish(), first.text()), ("tool_calls", "Let me look."));
    let call = &first.body["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"], json!({ "name": "locate", "arguments": r#"{"precise":true}"# }));
    assert_eq!(call["type"], "function");
    let id = ids(&first)[0].clone();
    let messages = [user("Where am I?"), first.message(), result(&id, r#"{"city":"Oslo"}"#)];
    let second = completed(&app, &asks(&messages)).await;
    assert_eq!((second.finish(), second.text()), ("stop", "You are in Oslo."));
    assert_eq!((&second.run, &second.thread), (&first.run, &first.thread));
    assert_eq!(second.body["usage"]["prompt_tokens"], 20, "of this answer alone");
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
    // Sent again after all is over: the same answer, and nothing happens.
    let again = completed(&app, &asks(&messages)).await;
    assert_eq!(again.body, second.body);
    assert_eq!(app.upstream.requests().len(), 2);
}

#[tokio::test]
async fn calls_are_streamed_with_their_index() {
    let app = TestApp::start().await;
    app.upstream.script([calls(&["{}", r#"{"precise":false}"#]), Reply::says("There.")]);
    let text = streamed(&app, &asks(&[user("Where?")])).await;
    insta::assert_snapshot!(text);
    let chunks = super::chunks(&text);
    let calls: Vec<&Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
        .flatten()
        .collect();
    let id = |index: usize| calls[index]["id"].as_str().unwrap().to_owned();
    // One of two is not enough, and changes nothing.
    let part = [user("Where?"), result(&id(0), "here")];
    let refused = error(app.post(CHAT, &asks(&part)).await, 400, "invalid_request");
    assert!(refused["message"].as_str().unwrap().contains(&id(1)), "{refused}");
    // One that cannot be stored refuses both.
    let deep = "[".repeat(100) + &"]".repeat(100);
    let bad = [user("Where?"), result(&id(0), "nowhere"), result(&id(1), &deep)];
    error(app.post(CHAT, &asks(&bad)).await, 400, "invalid_request");
    let both = [user("Where?"), result(&id(1), "there"), result(&id(0), "here")];
    let text = streamed(&app, &asks(&both)).await;
    assert_eq!(joined(&super::chunks(&text), "content"), "There.");
    assert_eq!(streamed(&app, &asks(&both)).await, text, "a stream that is read again");
}

#[tokio::test]
async fn results_alone_continue_the_run_and_a_second_call_waits_again() {
    let app = TestApp::start().await;
    app.upstream.script([calls(&["{}"]), calls(&[r#"{"precise":true}"#]), Reply::says("Done.")]);
    let first = completed_in(&app, Some("t"), &asks(&[user("Go")])).await;
    let only = |answer: &Completed| asks(&[result(&ids(answer)[0], "x")]);
    let second = completed_in(&app, Some("t"), &only(&first)).await;
    assert_eq!((second.finish(), ids(&second).len()), ("tool_calls", 1));
    assert_ne!(ids(&first), ids(&second));
    let third = completed_in(&app, None, &only(&second)).await;
    assert_eq!(third.text(), "Done.");
    // The first results once more: the answer that they had then, with the call that is answered meanwhile.
    let again = completed_in(&app, Some("t"), &only(&first)).await;
    assert_eq!(again.body, second.body);
    // In another thread the call is not known, and nothing before it says what it was.
    let refused = app.request(Method::POST, CHAT).header("x-thread-id", "other").json(&only(&first));
    error(app.send(refused).await, 400, "invalid_request");
}

#[tokio::test]
async fn a_message_instead_of_results_supersedes_the_call() {
    let app = TestApp::start().await;
    app.upstream.script([calls(&["{}"]), Reply::says("I do not know."), Reply::says("Fine.")]);
    let first = completed_in(&app, Some("t"), &asks(&[user("Where?")])).await;
    let messages = [user("Where?"), first.message(), user("Never mind")];
    assert_eq!(completed_in(&app, Some("t"), &asks(&messages)).await.text(), "Fine.");
    let expected = ["user: Where?", "assistant: I do not know.", "user: Never mind", "assistant: Fine."];
    assert_eq!(said(&app, &first.thread).await, expected);
    // Too late: what followed from the call is told, and nothing changes.
    let late = completed_in(&app, Some("t"), &asks(&[result(&ids(&first)[0], "Oslo")])).await;
    assert_eq!(late.text(), "I do not know.");
    assert_eq!(app.upstream.requests().len(), 3);
}

#[tokio::test]
async fn results_of_unknown_calls_are_history() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("It rains.")]);
    let made = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "call_of_another", "type": "function", "function": { "name": "weather", "arguments": "{\"at\":1}" } },
    ]});
    let answer = completed(&app, &body(&[user("Weather?"), made, result("call_of_another", "rain")])).await;
    assert_eq!(answer.text(), "It rains.");
    let told = prompt(&app, 0);
    assert_eq!(told.last().unwrap(), "user: Continue with the results of the tools.");
    let sent = app.upstream.requests()[0].body["messages"].to_string();
    assert!(sent.contains("weather") && sent.contains("rain"), "{sent}");
}

#[tokio::test]
async fn somebody_else_s_call_is_unknown() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    app.upstream.script([calls(&["{}"]), Reply::says("Mine.")]);
    let first = send_as(&app, &ann, Method::POST, (CHAT, &asks(&[user("Go")]))).await.body;
    let id = first["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    let stolen = asks(&[result(&id, "evil")]);
    error(send_as(&app, &bob, Method::POST, (CHAT, &stolen)).await, 400, "invalid_request");
    let open = good(send_as(&app, &ann, Method::GET, (&format!("/v1/calls/{id}"), &Value::Null)).await);
    assert_eq!(open["status"], "open");
    let mine = send_as(&app, &ann, Method::POST, (CHAT, &asks(&[result(&id, "good")]))).await;
    assert_eq!(mine.body["choices"][0]["message"]["content"], "Mine.");
}

#[tokio::test]
async fn no_tools_are_offered_where_the_client_wants_none() {
    let app = TestApp::with(Setup::app("tools = []")).await;
    app.upstream.script([Reply::says("A."), Reply::says("B.")]);
    completed(&app, &with(asks(&[user("Go")]), &json!({ "tool_choice": "none" }))).await;
    let choice = json!({ "type": "function", "function": { "name": "locate" } });
    completed(&app, &with(asks(&[user("Go")]), &json!({ "tool_choice": choice }))).await;
    let offered = |index: usize| {
        let tools = app.upstream.requests()[index].body["tools"].clone();
        tools.as_array().into_iter().flatten().any(|tool| tool["function"]["name"] == "locate")
    };
    assert_eq!((offered(0), offered(1)), (false, true));
}

#[tokio::test]
async fn an_approval_is_asked_for_in_words_and_the_next_message_goes_on() {
    let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
    let risky = || Reply::stream().text("I will.").call(ScriptedCall::new("risky", r#"{"n":1}"#));
    app.upstream.script([risky(), Reply::says("Not done."), Reply::says("As you like.")]);
    let first = completed_in(&app, Some("a"), &body(&[user("Do it")])).await;
    assert_eq!(first.finish(), "stop");
    assert!(first.text().starts_with("I will.\n\nApproval needed: risky {\"n\":1}. "), "{}", first.text());
    let id = first.text().split("/v1/proposals/").nth(1).unwrap().split('/').next().unwrap();
    let proposal = good(app.get(&format!("/v1/proposals/{id}")).await);
    assert_eq!(proposal["status"], "open");
    // The call is superseded, as with any other message.
    let messages = [user("Do it"), first.message(), user("Stop")];
    let second = completed_in(&app, Some("a"), &body(&messages)).await;
    assert_eq!(second.text(), "As you like.");
    assert_eq!(second.thread, first.thread);
    let expected = ["user: Do it", "assistant: Not done.", "user: Stop", "assistant: As you like."];
    assert_eq!(said(&app, &first.thread).await, expected);
}

#[tokio::test]
async fn an_approved_call_goes_on_and_the_client_s_history_still_fits() {
    let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
    app.upstream.script([
        Reply::stream().text("I will.").call(ScriptedCall::new("risky", r#"{"n":1}"#)),
        Reply::says("Done."),
        Reply::says("Yes."),
    ]);
    let text =
        streamed(&app, &with(body(&[user("Do it")]), &json!({ "metadata": { "thread_id": "a" } }))).await;
    let content = joined(&chunks(&text), "content");
    let id = content.split("/v1/proposals/").nth(1).unwrap().split('/').next().unwrap();
    good(app.post(&format!("/v1/proposals/{id}/confirm"), &json!({})).await);
    app.service.idle().await;
    let messages = [user("Do it"), super::assistant(&content), user("Done?")];
    let next = completed_in(&app, Some("a"), &body(&messages)).await;
    assert_eq!(next.text(), "Yes.");
    let said = said(&app, &next.thread).await;
    assert_eq!(said, ["user: Do it", "assistant: Done.", "user: Done?", "assistant: Yes."]);
}
