//! Which passages of documents stand in a prompt: those that the message is about, in any words, and no others.

use reqwest::Method;
use serde_json::{Value, json};

use super::{asked, kalito, system};
use crate::process::within;
use crate::product::{Product, of};
use crate::world::Server;

const DIMENSIONS: usize = 8;
const WALKER: &str = "# Mobility\n\nShe walks short distances with a rollator, which stands in the hall.\n";

async fn upload(product: &Product, server: &Server, name: &str, text: &str) -> Value {
    let request = server.request(Method::POST, &product.path(&format!("documents?name={name}")));
    let request = request.header("content-type", "text/markdown").body(text.to_owned());
    let (status, made) = crate::world::send(request).await;
    assert_eq!(status, 201, "{made}");
    made["id"].clone()
}

/// Waits until every piece of the document has its vector.
async fn embedded(server: &Server, document: &Value) {
    let path = format!("/v1/documents/{}", document.as_str().unwrap());
    let is_ready = async || {
        let (_, view) = server.get(&path).await;
        view["progress"]["done"] == view["progress"]["total"] && view["status"] == "ready"
    };
    within("the vectors of a document", async { while !is_ready().await {} }).await;
}

/// A vector that is as near to the first direction as this, and apart from that in one of its own.
fn near_by(near: f64, place: usize) -> Vec<f64> {
    let mut vector = vec![0.0; DIMENSIONS];
    vector[0] = near;
    vector[place] = (1.0 - near * near).sqrt();
    vector
}

#[tokio::test]
async fn a_passage_is_found_by_other_words_and_what_is_unrelated_takes_no_room() {
    let product = kalito().await;
    product
        .world
        .write("rondo.toml", "[embeddings]\nprovider = 'openai'\nmodel = 'text-embedding-3-small'\n");
    product.upstream().embed_with(|text| match text {
        text if text.contains("rollator") => near_by(0.30, 1),
        text if text.contains("hose") => near_by(0.10, 2),
        text if text.contains("remote") => near_by(0.12, 3),
        text if text.contains("get around") => near_by(1.0, 4),
        _ => near_by(0.0, 5),
    });
    let server = product.serve().await;
    for (name, text) in [
        ("care.md", WALKER),
        ("garden.md", "# Garden\n\nThe hose of the house lies in the shed; the neighbour cuts the grass.\n"),
        ("television.md", "# Television\n\nThe remote with the large buttons is in the house, too.\n"),
    ] {
        let document = upload(&product, &server, name, text).await;
        embedded(&server, &document).await;
    }
    let frames = product.say(&server, "How does she get around the house?").await;
    let titles: Vec<&Value> = of(&frames, "source").into_iter().map(|source| &source["title"]).collect();
    assert_eq!(titles, ["care.md"], "{}", system(&product));
    assert!(system(&product).contains("rollator") && !system(&product).contains("remote with"));
    product.say(&server, "Tell me a joke about penguins.").await;
    assert!(!system(&product).contains("rollator"), "{}", system(&product));
}

#[tokio::test]
async fn a_run_that_names_no_documents_on_purpose_reads_none() {
    let product = kalito().await;
    let server = product.serve().await;
    upload(&product, &server, "care.md", WALKER).await;
    let question = "Where does the rollator stand?";
    let none = json!({ "message": question, "documentIds": [] });
    let frames = product.ask(&server, none).await.all().await;
    assert_eq!(of(&frames, "run:start")[0]["documentIds"], json!([]));
    assert!(of(&frames, "source").is_empty() && !system(&product).contains("in the hall"), "{frames:?}");
    let offered = asked(&product).last().unwrap()["tools"].to_string();
    assert!(offered.contains("recordVital") && !offered.contains("search_documents"), "{offered}");
    let frames = product.say(&server, question).await;
    assert_eq!(of(&frames, "source").len(), 1);
    assert!(system(&product).contains("in the hall"));
}
