//! Answers of every shape.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use crate::model::{asked, calls_then, step};
use crate::stage::{Scenario, sweep, sweep_after};

#[tokio::test]
async fn a_plain_turn() {
    sweep(Scenario::new("plain turn", Setup::default, 15), async |client| {
        client.turn("send", "Hi").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_long_streamed_turn() {
    let scenario = Scenario::new("long streamed turn", Setup::default, 14).says(|_, _| {
        let pieces = (0..24).map(|number| format!("piece {number}, ünd\n"));
        pieces.fold(Reply::stream().reasoning("Hm. "), |reply, piece| reply.text(&piece))
    });
    sweep(scenario, async |client| {
        client.turn("send", "Tell me a story").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_turn_with_reasoning_and_arguments_in_fragments() {
    let scenario = Scenario::new("reasoning and fragments", Setup::default, 22).says(|request, _| {
        if step(request) > 0 {
            return Reply::stream().reasoning("So ").reasoning("it is.").text("It says hello.");
        }
        let call = ScriptedCall::new("echo", r#"{"text":"hello","n":1}"#).fragments(5);
        Reply::stream().reasoning("They want ").reasoning("an echo.").text("Let me see.").call(call)
    });
    sweep(scenario, async |client| {
        client.turn("send", "Echo hello").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_second_turn_in_a_thread() {
    sweep(Scenario::new("second turn", Setup::default, 27), async |client| {
        let first = client.turn("first", "Hi").await?;
        let body = json!({ "message": "And you?", "threadId": first.thread });
        let second = client.say("second", body).await?;
        client.end(&second).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn parallel_tools() {
    let setup = || Setup::app("tools = [\"echo\", \"refuse\"]");
    let scenario = Scenario::new("parallel tools", setup, 25).says(|request, _| {
        let texts = [r#"{"text":"a"}"#, r#"{"text":"b"}"#, r#"{"text":"c"}"#, r#"{"text":"d"}"#];
        let calls: Vec<_> = texts.iter().map(|text| ("echo", *text)).chain([("refuse", "{}")]).collect();
        calls_then(request, &calls, "All heard.")
    });
    sweep(scenario, async |client| {
        client.turn("send", "Listen").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_forced_at_the_limit() {
    let setup = || Setup::app("tools = [\"echo\"]\n[loop]\nmax_steps = 2");
    let scenario = Scenario::new("forced answer", setup, 30).says(|request, _| {
        if request.get("tools").is_none() {
            return Reply::stream().text("Enough.").call(ScriptedCall::new("echo", r#"{"text":"no"}"#));
        }
        let text = json!({ "text": format!("t{}", step(request)) }).to_string();
        Reply::stream().call(ScriptedCall::new("echo", &text))
    });
    sweep(scenario, async |client| {
        client.turn("send", "Go on").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_structured_answer() {
    let setup = || Setup::app("answer = \"structured\"\n[memory]\ninject = \"all\"");
    let scenario = Scenario::new("structured answer", setup, 15).says(|request, _| {
        let known = "/response_format/json_schema/schema/properties/memoriesReferenced/items/enum";
        let memories = request.pointer(known).cloned().unwrap_or(json!([]));
        let object = json!({ "memoriesReferenced": memories, "response": "All \"aboard\"" }).to_string();
        let (head, tail) = object.split_at(object.len() - 6);
        Reply::stream().text(head).text(tail)
    });
    let prepare = async |app: &TestApp| {
        let made = app.post("/v1/apps/test/memories", &json!({ "text": "likes trains" })).await;
        assert_eq!(made.status, 201);
    };
    sweep_after(scenario, prepare, async |client| {
        let told = client.turn("send", "Hi").await?;
        let complete = client.wait_for_event(&told, "stream:complete").await?;
        let known = complete["memoriesReferenced"].as_array().map(Vec::len);
        client.check(known == Some(1), "the answer refers to the memory");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn another_answer_to_the_same_message() {
    let scenario = Scenario::new("regenerate", Setup::default, 28)
        .says(|_, before| Reply::says(["One.", "Two."][before % 2]));
    // Which answer it was asked for when it died is not the same each time.
    sweep(Scenario { ignoring: &["messages"], ..scenario }, async |client| {
        let first = client.turn("send", "Hi").await?;
        let body = json!({ "threadId": first.thread, "regenerate": true });
        let second = client.say("again", body).await?;
        client.end(&second).await?;
        client.check(first.run != second.run, "another answer is another run");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_message_that_asks_to_remember() {
    let setup = || Setup::app("[memory]\ninject = \"all\"");
    sweep(Scenario::new("asked to remember", setup, 10), async |client| {
        client.turn("send", "Please remember that my cat is called Miso.").await?;
        client.turn("other", "What is my cat called?").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn two_threads_at_once() {
    let scenario = Scenario::new("two threads", Setup::default, 31).says(|request: &Value, _| {
        let text = json!({ "text": asked(request) }).to_string();
        calls_then(request, &[("echo", &text)], &format!("Re: {}", asked(request)))
    });
    // Which of them comes first is not the same each time.
    sweep(Scenario { ignoring: &["messages", "threads"], ..scenario }, async |client| {
        let (left, right) = tokio::join!(client.turn("left", "Left"), client.turn("right", "Right"));
        client.check(left?.thread != right?.thread, "two messages without a thread are two threads");
        Ok(())
    })
    .await;
}
