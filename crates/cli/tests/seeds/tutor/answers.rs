//! How the tutor answers: an object whose text streams, memories that are counted, a message that is kept.

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use super::{TITLE, asked, is_naming, memory, object, refers, remember, teaches, text, thread_of, tutor};
use crate::process::within;
use crate::product::{of, status};
use crate::world::{names, read_text};

#[tokio::test]
async fn an_answer_is_asked_for_as_an_object_with_two_fields() {
    let (product, server) = tutor().await;
    let known = remember(&product, &server, "Struggles with thirds.").await;
    refers(&product, &[]);
    product.say(&server, "Hello.").await;
    let format = &asked(&product)[0]["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["strict"]), (&json!("json_schema"), &json!(true)));
    let schema = &format["json_schema"]["schema"];
    assert_eq!(schema["required"], json!(["memoriesReferenced", "response"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    let (memories, response) =
        (&schema["properties"]["memoriesReferenced"], &schema["properties"]["response"]);
    assert_eq!((&memories["type"], &memories["items"]["enum"]), (&json!("array"), &json!([known])));
    assert_eq!(response["type"], "string");
    for field in [memories, response] {
        assert!(!field["description"].as_str().unwrap().is_empty(), "the model is told what goes where");
    }
}

#[tokio::test]
async fn the_reader_gets_the_reply_and_never_the_json() {
    let (product, server) = tutor().await;
    let known = remember(&product, &server, "Struggles with thirds.").await;
    let reply = "Take a \"third\".\nFold it: ⅓ é \\ done.";
    let written = object(&[&known], reply);
    teaches(&product, move |_| Reply::says(&written));
    let frames = product.say(&server, "Hello.").await;
    assert_eq!(text(&frames), reply);
    let complete = of(&frames, "stream:complete")[0];
    assert_eq!((&complete["text"], &complete["memoriesReferenced"]), (&json!(reply), &json!([known])));
    let answer = product.answer(&server, json!({ "message": "Once more." })).await;
    assert_eq!((&answer["reply"], &answer["memoriesReferenced"]), (&json!(reply), &json!([known])));
}

#[tokio::test]
async fn the_first_words_are_there_while_the_object_is_still_being_written() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    teaches(&product, move |_| {
        let head = "{\"memoriesReferenced\":[],\"response\":\"Take a str";
        Reply::stream().text(head).wait(&held).text("ip of paper.\"}")
    });
    let mut frames = product.ask(&server, json!({ "message": "Hello." })).await;
    let mut seen = within("the first words", read_text(&mut frames, "Take a str")).await;
    assert!(of(&seen, "step:end").is_empty(), "the model has not ended");
    gate.open();
    seen.extend(frames.all().await);
    assert_eq!((text(&seen).as_str(), status(&seen)), ("Take a strip of paper.", "completed"));
    assert_eq!(asked(&product)[0]["stream"], json!(true));
}

#[tokio::test]
async fn without_tool_calls_one_model_call_is_the_answer() {
    let (product, server) = tutor().await;
    refers(&product, &[]);
    let frames = product.say(&server, "Hello.").await;
    assert_eq!((text(&frames).as_str(), status(&frames)), ("Let us see.", "completed"));
    let requests = asked(&product);
    assert_eq!(requests.len(), 1, "no second call for the same answer");
    assert!(requests[0].get("tools").is_some() && requests[0].get("response_format").is_some());
}

#[tokio::test]
async fn an_answer_is_saved_with_the_memories_it_refers_to_before_its_end_is_told() {
    let (product, server) = tutor().await;
    let known = remember(&product, &server, "Struggles with thirds.").await;
    refers(&product, &[&known]);
    let mut frames = product.ask(&server, json!({ "message": "Hello." })).await;
    let seen = frames.read_until("stream:complete").await;
    let (_, page) = server.get(&format!("/v1/threads/{}/messages", thread_of(&seen))).await;
    let saved = &page["data"][1];
    assert_eq!(saved["id"], of(&seen, "stream:complete")[0]["messageId"]);
    assert_eq!((&saved["role"], &saved["text"]), (&json!("assistant"), &json!("Let us see.")));
    assert_eq!(saved["memoriesReferenced"], json!([known]));
    let rest = frames.all().await;
    assert_eq!(names(&rest), ["run:end"], "which ends the stream");
}

#[tokio::test]
async fn without_a_memory_the_tutor_answers_all_the_same() {
    let (product, server) = tutor().await;
    refers(&product, &[]);
    let frames = product.say(&server, "Hello.").await;
    assert_eq!((text(&frames).as_str(), status(&frames)), ("Let us see.", "completed"));
    assert_eq!(of(&frames, "stream:complete")[0]["memoriesReferenced"], json!([]));
    let schema = &asked(&product)[0]["response_format"]["json_schema"]["schema"];
    let memories = &schema["properties"]["memoriesReferenced"];
    assert_eq!(
        (&memories["maxItems"], memories["items"].get("enum")),
        (&json!(0), None),
        "an empty choice is no schema"
    );
}

#[tokio::test]
async fn a_memory_that_an_answer_refers_to_counts_as_used() {
    let (product, server) = tutor().await;
    let thirds = remember(&product, &server, "Struggles with thirds.").await;
    let chess = remember(&product, &server, "Likes chess.").await;
    refers(&product, &[&thirds]);
    let thread = thread_of(&product.say(&server, "Hello.").await);
    let (_, page) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    let (used, other) = (memory(&server, &thirds).await, memory(&server, &chess).await);
    assert_eq!((&used["accessCount"], &other["accessCount"]), (&json!(1), &json!(0)));
    let seconds = |time: &Value| time.as_str().unwrap()[.."2026-01-01T00:00:00".len()].to_owned();
    assert!(seconds(&used["lastAccessedAt"]) >= seconds(&page["data"][0]["createdAt"]), "{used}");
    assert_eq!(other["lastAccessedAt"], Value::Null);
}

#[tokio::test]
async fn uses_add_up_from_answer_to_answer() {
    let (product, server) = tutor().await;
    let thirds = remember(&product, &server, "Struggles with thirds.").await;
    let chess = remember(&product, &server, "Likes chess.").await;
    for memories in [vec![&thirds], vec![&thirds, &chess], vec![&thirds]] {
        refers(&product, &memories.into_iter().map(String::as_str).collect::<Vec<_>>());
        product.say(&server, "Hello.").await;
    }
    assert_eq!(memory(&server, &thirds).await["accessCount"], 3);
    assert_eq!(memory(&server, &chess).await["accessCount"], 1);
}

#[tokio::test]
async fn an_id_that_was_made_up_is_dropped() {
    let (product, server) = tutor().await;
    let thirds = remember(&product, &server, "Struggles with thirds.").await;
    refers(&product, &["mem_00000000000000000000000000000000", &thirds, "the one about chess"]);
    let frames = product.say(&server, "Hello.").await;
    assert_eq!(of(&frames, "stream:complete")[0]["memoriesReferenced"], json!([thirds]));
    assert_eq!(of(&frames, "step:end")[0]["structured"]["dropped"], 2, "and it is told how many");
    assert_eq!((text(&frames).as_str(), status(&frames)), ("Let us see.", "completed"));
}

#[tokio::test]
async fn every_client_of_a_thread_sees_the_same_tokens_as_they_come() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    teaches(&product, move |_| {
        let head = "{\"memoriesReferenced\":[],\"response\":\"Half of";
        Reply::stream().text(head).wait(&held).text(" it.\"}")
    });
    let (_, thread) = server.post(&product.path("threads"), &json!({ "title": "Fractions" })).await;
    let id = thread["id"].as_str().unwrap();
    let channel = format!("/v1/threads/{id}/events");
    let mut clients = [server.follow(&channel, 0).await, server.follow(&channel, 0).await];
    let frames = product.ask(&server, json!({ "message": "Hello.", "threadId": id })).await;
    let mut seen = Vec::new();
    for client in &mut clients {
        seen.push(within("half of the answer", read_text(client, "Half of")).await);
    }
    gate.open();
    for (client, seen) in clients.iter_mut().zip(&mut seen) {
        seen.extend(client.read_until("run:end").await);
        assert_eq!(text(seen), "Half of it.");
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].last(), frames.all().await.last(), "and the one who asked sees it, too");
}

#[tokio::test]
async fn a_client_that_was_cut_off_goes_on_where_it_was() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    teaches(&product, move |_| {
        let head = "{\"memoriesReferenced\":[],\"response\":\"Half of";
        Reply::stream().text(head).wait(&held).text(" it.\"}")
    });
    let mut frames = product.ask(&server, json!({ "message": "Hello." })).await;
    let run = frames.header("x-run-id");
    let mut seen = within("half of the answer", read_text(&mut frames, "Half of")).await;
    drop(frames);
    gate.open();
    let rest = server.follow(&format!("/v1/runs/{run}/events"), seen.last().unwrap().id).await.all().await;
    seen.extend(rest);
    assert_eq!(
        (text(&seen).as_str(), status(&seen)),
        ("Half of it.", "completed"),
        "nothing is lost, nothing comes twice"
    );
}

#[tokio::test]
async fn a_thread_is_named_in_the_background_after_its_answer() {
    let (product, server) = tutor().await;
    let gate = Gate::new();
    let held = gate.clone();
    product.upstream().program(move |body| match is_naming(body) {
        true => Reply::stream().wait(&held).text(TITLE),
        false => Reply::says(&object(&[], "Fine.")),
    });
    let frames = product.say(&server, "Please help me with fractions.").await;
    assert_eq!(status(&frames), "completed", "without waiting for the name");
    let path = format!("/v1/threads/{}", thread_of(&frames));
    within("the question for a name", gate.reached()).await;
    assert_eq!(server.get(&path).await.1["title"], Value::Null);
    gate.open();
    let mut channel = server.follow(&format!("{path}/events"), 0).await;
    let named = within("the name", channel.read_until("thread:named")).await;
    assert_eq!(named.last().unwrap().data["title"], TITLE);
    let place = |event: &str| named.iter().position(|frame| frame.event == event).unwrap();
    assert!(place("stream:complete") < place("thread:named"));
    assert_eq!(server.get(&path).await.1["title"], TITLE);
}
