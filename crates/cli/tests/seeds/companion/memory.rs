//! The memories that companion is asked to keep, those that it keeps by itself, and those that it brings back.

use reqwest::Method;
use testkit::upstream::Gate;

use super::*;
use crate::world::send;

const EMBEDDINGS: &str = "[embeddings]\nprovider = \"openai\"\nmodel = \"bge-base-en-v1.5\"\n";
const DIMENSIONS: usize = 8;

async fn with_embeddings(replies: impl IntoIterator<Item = Reply>) -> (Product, Server) {
    let product = Product::new("companion").await;
    product.world.write("rondo.toml", EMBEDDINGS);
    serving(product, replies).await
}

/// An answer with one vector for each number: all of it in that place.
fn vectors(places: &[usize]) -> Reply {
    let vector =
        |place: usize| (0..DIMENSIONS).map(|at| f64::from(u8::from(at == place))).collect::<Vec<_>>();
    let data = places
        .iter()
        .enumerate()
        .map(|(index, place)| json!({ "object": "embedding", "index": index, "embedding": vector(*place) }));
    Reply::json(&json!({
        "object": "list",
        "data": data.collect::<Vec<_>>(),
        "model": "bge-base-en-v1.5",
        "usage": { "prompt_tokens": 1, "total_tokens": 1 },
    }))
}

/// Says each, and expects exactly these memories, kept without a model.
async fn keeps_without_a_model(requests: &[(&str, &str)]) {
    let (product, server) = companion([]).await;
    for (message, memory) in requests {
        let frames = product.say(&server, message).await;
        assert!(answer(&frames).contains(memory), "{message}: {}", answer(&frames));
        assert_eq!(known(&product, &server).await[0], *memory, "after {message}");
    }
    assert_eq!(known(&product, &server).await.len(), requests.len());
    assert_eq!(asked(&product).len(), 0, "no model was asked");
}

#[tokio::test]
async fn the_command_and_remember_that_keep_what_follows_without_a_model() {
    keeps_without_a_model(&[
        ("/remember I am allergic to nuts", "I am allergic to nuts"),
        ("Remember that my sister lives in Toronto", "my sister lives in Toronto"),
        ("Please remember that my cat is called Miso.", "my cat is called Miso"),
    ])
    .await;
}

#[tokio::test]
async fn the_other_ways_of_asking_keep_what_follows_too() {
    keeps_without_a_model(&[
        ("Save to memory: my shoe size is 42", "my shoe size is 42"),
        ("Note that I work on Sundays", "I work on Sundays"),
        ("Keep in mind that I am left-handed", "I am left-handed"),
    ])
    .await;
}

#[tokio::test]
async fn a_request_is_confirmed_and_becomes_part_of_the_conversation() {
    let (product, server) = companion([]).await;
    let frames = product.say(&server, "Please remember that my cat is called Miso.").await;
    assert_eq!(status(&frames), "completed");
    assert_eq!(answer(&frames), "I'll remember that: my cat is called Miso");
    let (_, messages) = server.get(&format!("/v1/threads/{}/messages", thread(&frames))).await;
    let said = |at: usize| (messages["data"][at]["role"].clone(), messages["data"][at]["text"].clone());
    assert_eq!(said(0), (json!("user"), json!("Please remember that my cat is called Miso.")));
    assert_eq!(said(1), (json!("assistant"), json!("I'll remember that: my cat is called Miso")));
    assert_eq!(messages["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_known_already_is_not_kept_twice() {
    let (product, server) = companion([]).await;
    product.say(&server, "/remember my cat is called Miso").await;
    let again = product.say(&server, "Please remember that my cat is called MISO!").await;
    assert!(answer(&again).starts_with("I already know that"), "{}", answer(&again));
    assert_eq!(known(&product, &server).await, ["my cat is called Miso"]);
}

#[tokio::test]
async fn what_says_the_same_in_other_words_is_known_by_its_vector() {
    let (product, server) = with_embeddings([]).await;
    // The words to be kept; then, in the background, they and the two messages; then the next words to be kept.
    product.upstream().script_embeddings([vectors(&[0]), vectors(&[0, 1, 2]), vectors(&[0])]);
    product.say(&server, "/remember my cat is called Miso").await;
    settled(&server).await;
    let again = product.say(&server, "/remember My cat's name is Miso").await;
    assert_eq!(answer(&again), "I already know that: My cat's name is Miso");
    let kept = ("bge-base-en-v1.5".to_owned(), "my cat is called Miso".to_owned());
    assert_eq!(embedded(&product)[0], kept);
    assert_eq!(known(&product, &server).await, ["my cat is called Miso"]);
}

#[tokio::test]
async fn an_embedding_model_that_hangs_keeps_nobody_from_remembering() {
    let (product, server) = with_embeddings([]).await;
    let held = Gate::new();
    product.upstream().script_embeddings([vectors(&[0]).wait(&held)]);
    let frames = product.say(&server, "/remember my cat is called Miso").await;
    assert_eq!(
        (status(&frames), answer(&frames)),
        ("completed", "I'll remember that: my cat is called Miso")
    );
    held.open();
    settled(&server).await;
    let texts: Vec<String> = embedded(&product).into_iter().map(|(_, text)| text).collect();
    assert!(texts[1..].contains(&"my cat is called Miso".to_owned()), "it is made up for: {texts:?}");
}

#[tokio::test]
async fn what_the_request_was_and_what_it_kept_stand_in_the_log() {
    let (product, server) = companion([]).await;
    let frames = product.say(&server, "/remember I am allergic to nuts").await;
    let remembered = &of(&frames, "context:loaded")[0]["remembered"];
    let (_, memory) = server.get(&format!("/v1/memories/{}", remembered["memoryId"].as_str().unwrap())).await;
    assert_eq!(
        (&memory["text"], &memory["source"]["by"]),
        (&json!("I am allergic to nuts"), &json!("asked"))
    );
    assert_eq!(memory["source"]["threadId"], json!(thread(&frames)));
    let plain = product.say(&server, "Good morning").await;
    assert_eq!(of(&plain, "context:loaded")[0]["remembered"], Value::Null);
}

#[tokio::test]
async fn a_request_looks_nothing_up_and_a_message_does() {
    let (product, server) = companion([]).await;
    let cat = add(&product, &server, "Has a cat called Miso").await;
    let request = product.say(&server, "/remember my cat called Miso likes tuna").await;
    assert_eq!(of(&request, "context:loaded")[0]["memories"], json!([]));
    assert_eq!(answer(&request), "I'll remember that: my cat called Miso likes tuna");
    let message = product.say(&server, "What is my cat called?").await;
    let loaded = of(&message, "context:loaded")[0]["memories"].to_string();
    assert!(loaded.contains(cat["id"].as_str().unwrap()), "{loaded}");
}

#[tokio::test]
async fn a_request_with_a_question_is_kept_and_answered() {
    let (product, server) = companion([Reply::says("Lentils.")]).await;
    let frames = product.say(&server, "Note that I am vegan, so what should I cook?").await;
    assert_eq!(answer(&frames), "Lentils.");
    assert_eq!(known(&product, &server).await, ["I am vegan"]);
    assert!(newest(&asked(&product)[0]).contains("has just been saved to memory"));
}

#[tokio::test]
async fn the_command_alone_explains_itself_and_a_question_about_memory_is_no_request() {
    let (product, server) = companion([Reply::says("Yes, Miso.")]).await;
    let alone = product.say(&server, "/remember").await;
    assert!(answer(&alone).contains("/remember I am"), "{}", answer(&alone));
    let question = product.say(&server, "Do you remember that my cat is called Miso?").await;
    assert_eq!(answer(&question), "Yes, Miso.");
    assert_eq!(known(&product, &server).await.len(), 0);
}

#[tokio::test]
async fn the_memories_nearest_in_meaning_come_first_without_a_word_in_common() {
    let (product, server) = with_embeddings([]).await;
    let facts = [
        "Is a vegetarian",
        "Has a cat called Miso",
        "Speaks Danish",
        "Owns two kayaks",
        "Hates coriander",
        "Sings bass",
        "Grows tomatoes",
    ];
    product.upstream().script_embeddings([vectors(&[0, 1, 2, 3, 4, 5, 6])]);
    let body = facts.map(|fact| format!("- {fact}\n")).concat();
    let import = server
        .request(Method::POST, &product.path("memories/import"))
        .header("content-type", "text/markdown");
    assert_eq!(send(import.body(body)).await.1["imported"], 7);
    settled(&server).await;
    let inputs: Vec<String> = embedded(&product).into_iter().map(|(_, text)| text).collect();
    let place = inputs.iter().position(|text| text == "Has a cat called Miso").unwrap();
    product.upstream().script_embeddings([vectors(&[place])]);
    product.say(&server, "How is my pet?").await;
    let (model, query) = embedded(&product)[7].clone();
    assert_eq!((model.as_str(), query.as_str()), ("bge-base-en-v1.5", "How is my pet?"));
    let prompt = asked(&product)[0].clone();
    let first = newest(&prompt).lines().find(|line| line.starts_with("- mem_")).expect("a memory");
    assert!(first.contains("Has a cat called Miso"), "{first}");
}

#[tokio::test]
async fn five_memories_at_most_stand_before_the_message() {
    let (product, server) = companion([]).await;
    for number in 0..9 {
        add(&product, &server, &format!("Once rented boat number {number} on the river")).await;
    }
    product.say(&server, "Which boat did I rent on the river?").await;
    let prompt = asked(&product)[0].clone();
    let sent = newest(&prompt);
    assert_eq!(sent.matches("- mem_").count(), 5, "{sent}");
    assert!(sent.ends_with("Which boat did I rent on the river?"), "{sent}");
}

#[tokio::test]
async fn memories_stand_under_their_heading_as_data_and_leave_the_system_prompt_as_it_was() {
    let (product, server) = companion([]).await;
    let first = product.say(&server, "Good morning").await;
    add(&product, &server, "Plays the cello").await;
    say_in(&product, &server, &thread(&first), "Which instrument do I play, the cello?").await;
    let requests = asked(&product);
    let sent = newest(&requests[1]);
    assert!(sent.starts_with("Relevant context about the user"), "{sent}");
    assert!(sent.contains("Plays the cello") && sent.contains("<data-"), "{sent}");
    assert_eq!(content(&requests[0], 0), content(&requests[1], 0), "the beginning of the prompt can be kept");
}

#[tokio::test]
async fn what_was_said_in_earlier_conversations_comes_back_too() {
    let (product, server) = companion([]).await;
    product.say(&server, "We spent August in a lighthouse near Bergen").await;
    product.say(&server, "Where was the lighthouse we spent August in?").await;
    let sent = asked(&product)[1].clone();
    assert!(newest(&sent).contains("From earlier conversations"), "{sent}");
    assert!(newest(&sent).contains("lighthouse near Bergen"), "{sent}");
}

#[tokio::test]
async fn facts_are_looked_for_after_the_answer_and_nobody_waits_for_them() {
    let product = Product::new("companion").await;
    let held = Gate::new();
    let gate = held.clone();
    let change = json!({ "action": "create", "ids": [], "text": "The user is vegan", "kind": "preference",
        "message": "u1", "quote": "I am vegan" });
    let found = json!({ "changes": [change] }).to_string();
    product.upstream().program(move |request| match is_extraction(request) {
        true => Reply::stream().wait(&gate).text(&found),
        false => Reply::says("Good to know."),
    });
    let server = product.serve().await;
    let frames = product.say(&server, "By the way, I am vegan these days.").await;
    assert_eq!((status(&frames), answer(&frames)), ("completed", "Good to know."));
    assert_eq!(known(&product, &server).await.len(), 0, "not yet");
    held.open();
    let channel = format!("/v1/threads/{}/events", thread(&frames));
    let update = server.follow(&channel, 0).await.read_until("memory:update").await.pop().unwrap();
    assert_eq!(update.data["created"].as_array().unwrap().len(), 1);
    assert_eq!(known(&product, &server).await, ["The user is vegan"]);
}

/// Returns the requests to the memory model, once there are `count` of them.
async fn extractions(product: &Product, count: usize) -> Vec<String> {
    let mut seen = 0;
    loop {
        let requests = product.upstream().wait_for_requests(seen + 1).await;
        let asked = requests.iter().filter(|request| is_extraction(&request.body));
        let last = |body: &Value| body["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        let found: Vec<String> = asked.map(|request| last(&request.body)).collect();
        if found.len() >= count {
            return found;
        }
        seen = requests.len();
    }
}

#[tokio::test]
async fn the_memory_model_sees_the_thread_and_not_the_newest_message_alone() {
    let product = Product::new("companion").await;
    product.upstream().program(|request| match is_extraction(request) {
        true => Reply::says(r#"{"changes": []}"#),
        false => Reply::says("How old is Rex?"),
    });
    let server = product.serve().await;
    let frames = product.say(&server, "My dog is called Rex.").await;
    within("the first extraction", extractions(&product, 1)).await;
    let body = json!({ "message": "He is three.", "threadId": thread(&frames) });
    product.answer(&server, body).await;
    let second = within("the second extraction", extractions(&product, 2)).await.pop().unwrap();
    assert!(second.contains("not citable") && second.contains("My dog is called Rex."), "{second}");
    let (before, new) = second.split_once("The conversation, oldest first").unwrap();
    assert!(before.contains("My dog is called Rex.") && !new.contains("My dog is called Rex."), "{second}");
    assert!(new.contains("He is three."), "{second}");
}

#[tokio::test]
async fn what_the_memory_model_invents_is_not_kept() {
    let product = Product::new("companion").await;
    let change = |text: &str, quote: &str| json!({ "action": "create", "ids": [], "text": text, "kind": "fact", "message": "u1", "quote": quote });
    let changes = [change("The user is rich", "I am rich"), change("The user has a dog", "I have a dog")];
    let found = json!({ "changes": changes }).to_string();
    product
        .upstream()
        .program(move |request| Reply::says(if is_extraction(request) { &found } else { "How nice." }));
    let server = product.serve().await;
    let frames = product.say(&server, "Well, I have a dog now.").await;
    let channel = format!("/v1/threads/{}/events", thread(&frames));
    server.follow(&channel, 0).await.read_until("memory:update").await;
    assert_eq!(known(&product, &server).await, ["The user has a dog"], "only what the user said");
}

#[tokio::test]
async fn each_user_has_memories_of_their_own() {
    let (product, server) = companion([]).await;
    let mut tokens = Vec::new();
    for user in ["ada", "grace"] {
        let made = product.run(&["keys", "add", user]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        tokens.push(made.output.trim().to_owned());
    }
    let post = |token: &str, path: &str, body: Value| {
        send(server.request(Method::POST, &product.path(path)).bearer_auth(token).json(&body))
    };
    assert_eq!(post(&tokens[0], "memories", json!({ "text": "my cat is called Miso" })).await.0, 201);
    for token in &tokens {
        let body = json!({ "message": "What is my cat called?", "stream": false });
        assert_eq!(post(token, "runs", body).await.0, 200);
    }
    let prompts = asked(&product);
    assert!(newest(&prompts[0]).contains("my cat is called Miso"), "{}", prompts[0]);
    assert!(!prompts[1].to_string().contains("Miso"), "{}", prompts[1]);
}

#[tokio::test]
async fn what_is_forgotten_is_in_no_prompt_any_more() {
    let (product, server) = companion([]).await;
    let first = product.say(&server, "/remember my cat is called Miso").await;
    let id = of(&first, "context:loaded")[0]["remembered"]["memoryId"].as_str().unwrap().to_owned();
    product.say(&server, "What is my cat called?").await;
    assert!(newest(&asked(&product)[0]).contains("Miso"));
    let (status, _) = send(server.request(Method::DELETE, &format!("/v1/memories/{id}"))).await;
    assert_eq!(status, 204);
    product.say(&server, "What is my cat called?").await;
    assert!(!asked(&product)[1].to_string().contains("Miso"), "{}", asked(&product)[1]);
}

#[tokio::test]
async fn the_confirmation_streams_like_any_answer() {
    let (product, server) = companion([]).await;
    let frames = product.say(&server, "/remember I am allergic to nuts").await;
    assert_eq!(answer(&frames), "I'll remember that: I am allergic to nuts");
    let pieces: Vec<&Value> = of(&frames, "text:delta").iter().map(|data| &data["delta"]).collect();
    assert_eq!(pieces, [answer(&frames)], "{frames:?}");
    let names: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    assert!(place("text:delta") < place("stream:complete"), "{names:?}");
}
