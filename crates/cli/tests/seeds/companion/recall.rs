//! Recall of companion by meaning, by names and in other languages, and how it keeps memories and past messages apart.

use futures_util::future::join_all;
use reqwest::Method;

use super::*;
use crate::world::send;

const DIMENSIONS: usize = 16;
const EMBEDDINGS: &str = "[embeddings]\nprovider = \"openai\"\nmodel = \"bge-base-en-v1.5\"\n";

async fn with_embeddings() -> (Product, Server) {
    let product = Product::new("companion").await;
    product.world.write("rondo.toml", EMBEDDINGS);
    serving(product, []).await
}

/// A vector that is as near to the first direction as this, and apart from that in one of its own.
fn near_by(near: f64, place: usize) -> Vec<f64> {
    let mut vector = vec![0.0; DIMENSIONS];
    vector[0] = near;
    vector[place] = (1.0 - near * near).sqrt();
    vector
}

/// Companion that has these memories. The question is nearest to the first of them, a little less near to the others.
async fn remembering(facts: &'static [&'static str]) -> (Product, Server) {
    let (product, server) = with_embeddings().await;
    product.upstream().embed_with(move |text| match facts.iter().position(|fact| *fact == text) {
        Some(0) => near_by(0.40, 1),
        Some(place) => near_by(0.33, place + 1),
        None => near_by(1.0, 1),
    });
    let body = facts.iter().map(|fact| format!("- {fact}\n")).collect::<String>();
    let import = server
        .request(Method::POST, &product.path("memories/import"))
        .header("content-type", "text/markdown");
    assert_eq!(send(import.body(body)).await.1["imported"], facts.len());
    settled(&server).await;
    (product, server)
}

/// The memories before the last message, in their order.
fn shown(product: &Product) -> Vec<String> {
    let requests = asked(product);
    let lines = newest(requests.last().unwrap()).lines().filter(|line| line.starts_with("- mem_"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_memory_is_found_by_its_meaning_among_others_that_have_the_words() {
    let (product, server) = remembering(&[
        "Is allergic to peanuts",
        "Likes eating breakfast on the balcony",
        "Avoids driving during rush hour",
        "Enjoys eating popcorn at the cinema",
        "Tries to avoid phone calls before nine",
        "Is eating out with colleagues on Fridays",
        "Avoids small talk in the lift",
        "Started eating lunch at the desk",
        "Avoids the motorway when it rains",
    ])
    .await;
    product.say(&server, "What should I avoid eating?").await;
    let shown = shown(&product);
    assert!(shown.len() == 5 && shown[0].contains("peanuts"), "{shown:?}");
}

#[tokio::test]
async fn a_name_or_a_number_is_found_although_others_are_a_little_nearer() {
    let (product, server) = remembering(&[
        "Has a dog that sleeps all day",
        "Gave Biscuit a new basket",
        "The bicycle is in locker 318",
        "Has a cat",
        "Walks the dog of an aunt",
        "Likes puppies",
    ])
    .await;
    for (question, word) in [("And how is Biscuit?", "Biscuit"), ("Which is it, 318?", "318")] {
        product.say(&server, question).await;
        let shown = shown(&product);
        assert!(shown[0].contains(word), "{question}: {shown:?}");
    }
}

#[tokio::test]
async fn words_are_found_in_other_forms_in_other_languages() {
    let (product, server) = companion([]).await;
    for (memory, question) in [
        ("Mi hermana es profesora en Sevilla", "¿Dónde están los profesores?"),
        ("Meine Katze schläft auf dem Sofa", "Wo sind die Katzen?"),
        ("Elle a un cheval dans le pré", "Où sont les chevaux ?"),
        ("Моя собака боится грозы", "Чего боятся мои собаки?"),
    ] {
        add(&product, &server, memory).await;
        product.say(&server, question).await;
        let shown = shown(&product);
        assert!(shown.len() == 1 && shown[0].contains(memory), "{question}: {shown:?}");
    }
}

#[tokio::test]
async fn past_messages_take_no_place_of_the_five_memories() {
    let (product, server) = companion([]).await;
    for number in 0..7 {
        add(&product, &server, &format!("Once rented boat number {number} on the river")).await;
        product.say(&server, &format!("We rented a boat on the river, the boat of uncle {number}")).await;
    }
    product.say(&server, "Which boat did I rent on the river?").await;
    let sent = newest(asked(&product).last().unwrap()).to_owned();
    assert_eq!(sent.matches("- mem_").count(), 5, "{sent}");
    assert_eq!(sent.matches("the boat of uncle").count(), 5, "{sent}");
}

#[tokio::test]
async fn what_only_says_that_it_was_heard_is_no_past_message_to_come_back() {
    let (product, server) = companion([]).await;
    for message in
        ["Ok thanks!", "OK", "yes please", "👍", "We saw the white lighthouse on the island with Ida"]
    {
        product.say(&server, message).await;
    }
    for (question, expected) in [("Ok thanks!", 0), ("Ok, the white lighthouse on the island with Ida?", 1)] {
        product.say(&server, question).await;
        let sent = newest(asked(&product).last().unwrap()).to_owned();
        let earlier: Vec<&str> = sent.lines().filter(|line| line.contains(", the user: ")).collect();
        assert_eq!(earlier.len(), expected, "{sent}");
        assert!(earlier.iter().all(|line| line.contains("lighthouse")), "{sent}");
    }
}

/// Asks for the same to be kept several times at once, and expects one memory.
async fn asks_for_the_same_at_once(product: &Product, server: &Server) {
    let before = known(product, server).await.len();
    let messages = ["my cat is called Miso", "My cat is called MISO!", "my cat is called Miso"]
        .map(|fact| format!("/remember {fact}"));
    let said = join_all(messages.iter().map(|message| product.say(server, message))).await;
    let kept = said.iter().filter(|frames| answer(frames).starts_with("I'll remember that")).count();
    let told = said.iter().filter(|frames| answer(frames).starts_with("I already know that")).count();
    assert_eq!((kept, told), (1, 2), "{:?}", said.iter().map(|frames| answer(frames)).collect::<Vec<_>>());
    assert_eq!(known(product, server).await.len(), before + 1);
    let ids: Vec<&Value> =
        said.iter().map(|frames| &of(frames, "context:loaded")[0]["remembered"]["memoryId"]).collect();
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn the_same_asked_for_at_the_same_moment_is_kept_once() {
    let (product, server) = companion([]).await;
    asks_for_the_same_at_once(&product, &server).await;
    let (path, fact) = (product.path("memories"), json!({ "text": "Sings bass" }));
    let added = join_all((0..8).map(|_| server.post(&path, &fact))).await;
    assert_eq!(added.iter().filter(|(status, _)| *status == 201).count(), 1, "{added:?}");
    assert!(added.iter().all(|(_, memory)| memory["id"] == added[0].1["id"]), "{added:?}");
}

#[tokio::test]
async fn the_same_asked_for_at_the_same_moment_is_kept_once_with_an_embedding_model_too() {
    let (product, server) = remembering(&["Has two kayaks", "Speaks Danish"]).await;
    asks_for_the_same_at_once(&product, &server).await;
}
