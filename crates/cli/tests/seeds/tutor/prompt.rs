//! The parts that are gathered before the tutor's model is asked: the learner, the conversation, the memories.

use reqwest::Method;
use serde_json::json;
use testkit::upstream::Reply;

use super::{asked, choice, object, refers, remember, system, teaches, thread_of, tutor};
use crate::product::{of, send, status};
use crate::world::names;

#[tokio::test]
async fn every_memory_stands_in_the_system_prompt_after_its_id() {
    let (product, server) = tutor().await;
    let chess = remember(&product, &server, "Likes examples with chess pieces.").await;
    let thirds = remember(&product, &server, "Struggles with thirds.").await;
    refers(&product, &[]);
    product.say(&server, "Where were we?").await;
    let requests = asked(&product);
    for (id, text) in [(&chess, "Likes examples with chess pieces."), (&thirds, "Struggles with thirds.")] {
        assert!(system(&requests[0]).contains(&format!("{id}: \"{text}\"")), "{}", system(&requests[0]));
    }
}

#[tokio::test]
async fn what_is_no_longer_active_is_neither_shown_nor_offered() {
    let (product, server) = tutor().await;
    let chess = remember(&product, &server, "Likes examples with chess pieces.").await;
    let trains = remember(&product, &server, "Likes examples with trains.").await;
    refers(&product, &[]);
    assert_eq!(send(&server, Method::DELETE, &format!("/v1/memories/{trains}"), &json!({})).await.0, 204);
    product.say(&server, "Give me an example.").await;
    let request = &asked(&product)[0];
    assert_eq!(choice(request), json!([chess]));
    assert!(system(request).contains(&chess) && !system(request).contains(&trains));
    assert!(!system(request).contains("trains"));
}

#[tokio::test]
async fn exactly_the_ids_of_the_prompt_can_be_named() {
    let (product, server) = tutor().await;
    let ids = [
        remember(&product, &server, "Wants to pass the test.").await,
        remember(&product, &server, "Struggles with thirds.").await,
        remember(&product, &server, "Learns by drawing.").await,
    ];
    refers(&product, &[]);
    let loaded = product.say(&server, "What do you know of me?").await;
    let request = &asked(&product)[0];
    assert_eq!(choice(request), json!(ids), "oldest first, and nothing else");
    assert_eq!(of(&loaded, "context:loaded")[0]["memories"], json!(ids));
    let places: Vec<_> = ids.iter().map(|id| system(request).find(id.as_str())).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "the prompt has them in the same order"
    );
}

#[tokio::test]
async fn the_choice_of_ids_is_made_anew_for_each_message() {
    let (product, server) = tutor().await;
    let first = remember(&product, &server, "Struggles with thirds.").await;
    refers(&product, &[]);
    let thread = thread_of(&product.say(&server, "Hello.").await);
    let second = remember(&product, &server, "Learns by drawing.").await;
    product.ask(&server, json!({ "message": "Go on.", "threadId": thread })).await.all().await;
    let choices: Vec<_> = asked(&product).iter().map(choice).collect();
    assert_eq!(choices, [json!([first]), json!([first, second])]);
}

#[tokio::test]
async fn the_learners_profile_and_memories_are_there_before_the_model_is_asked() {
    let (product, server) = tutor().await;
    let memory = remember(&product, &server, "Struggles with thirds.").await;
    let profile = json!({ "name": "Ana Sousa", "fields": { "class": "7b" } });
    assert_eq!(send(&server, Method::PATCH, "/v1/me", &profile).await.0, 200);
    refers(&product, &[]);
    let frames = product.say(&server, "Hello.").await;
    let request = &asked(&product)[0];
    assert!(system(request).contains("Ana Sousa") && system(request).contains("7b"), "{}", system(request));
    assert!(system(request).contains(&memory));
    assert_eq!(of(&frames, "context:loaded")[0]["memories"], json!([memory]));
    let order = names(&frames);
    let expected = ["message:user", "run:start", "context:loaded", "step:start"];
    assert_eq!(order[..expected.len()], expected, "everything is read once, and first");
}

#[tokio::test]
async fn the_conversation_so_far_is_in_the_prompt_as_it_was_read() {
    let (product, server) = tutor().await;
    teaches(&product, |_| Reply::says(&object(&[], "First comes the strip of paper.")));
    let long = format!("I want to learn about fractions. {}", "Please go slowly with me. ".repeat(100));
    let thread = thread_of(&product.say(&server, &long).await);
    let again = product.ask(&server, json!({ "message": "And then?", "threadId": thread })).await.all().await;
    assert_eq!(status(&again), "completed");
    let messages = asked(&product)[1]["messages"].clone();
    let said: Vec<_> =
        messages.as_array().unwrap().iter().skip(1).map(|said| (&said["role"], &said["content"])).collect();
    assert_eq!(said.len(), 3, "{messages}");
    assert_eq!(said[0], (&json!("user"), &json!(long.trim())), "{messages}");
    assert_eq!(said[1], (&json!("assistant"), &json!("First comes the strip of paper.")));
    assert!(said[2].1.as_str().unwrap().ends_with("And then?"));
}
