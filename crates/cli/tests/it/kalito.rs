//! Kalito from the outside: what the model is told of the people it cares for, by whom, and what a document says.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;

use crate::world::{APPS, Server, World, send};

const RUNS: &str = "/v1/apps/kalito/runs";

async fn with_sample() -> (World, Server) {
    let world = World::with(&["kalito"]).await;
    world.upstream.program(|_| Reply::says("Two."));
    let sample = Path::new(APPS).join("kalito/sample").display().to_string();
    let imported = world.run(&["import", &sample, "--app", "kalito"]).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let server = world.serve().await;
    (world, server)
}

/// The newest request for an answer. Naming the thread is another one, and may come first or last.
fn newest(world: &World) -> Value {
    let is_answer = |body: &Value| body["messages"].to_string().contains("CURRENT QUESTION");
    world.upstream.requests().into_iter().map(|request| request.body).rfind(is_answer).unwrap()
}

fn said(world: &World) -> Vec<(String, String)> {
    let body = newest(world);
    let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

#[tokio::test]
async fn the_nurse_knows_the_records_the_question_is_about() {
    let (world, server) = with_sample().await;
    let asked = json!({
        "message": "Which medications does she take?",
        "personaId": "persona_eldercare_nurse",
        "systemPrompt": "Be brief and concise in your responses.",
        "stream": false,
    });
    let (status, answer) = server.post(RUNS, &asked).await;
    assert_eq!((status, &answer["reply"]), (200, &json!("Two.")), "{answer}");
    let shown = said(&world);
    let system = &shown[0].1;
    assert!(
        system.starts_with("You are a compassionate eldercare nurse with 20 years of experience"),
        "{system}"
    );
    let in_order = [
        "Patient Information:\n- Name: Mary Smith",
        "Current Medications:\n- Lisinopril 10mg - Once daily at 8am (for hypertension)",
        "  Side effects to monitor: Nausea, diarrhea",
        "Be brief and concise in your responses.",
        "CRITICAL INSTRUCTION: You MUST address ONLY the user's CURRENT QUESTION.",
    ];
    let places: Vec<Option<usize>> = in_order.iter().map(|part| system.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {system}");
    assert_eq!(shown.last().unwrap(), &("user".to_owned(), "Which medications does she take?".to_owned()));
    assert_eq!(newest(&world)["temperature"], 0.7);
}

#[tokio::test]
async fn a_question_about_something_else_shows_nothing_of_the_patient() {
    let (world, server) = with_sample().await;
    for message in ["What is the weather in San Francisco today?", "Help me to write a poem about trains."] {
        let (status, answer) = server.post(RUNS, &json!({ "message": message, "stream": false })).await;
        assert_eq!((status, &answer["reply"]), (200, &json!("Two.")), "{answer}");
        let shown = said(&world);
        let private = ["Mary", "Smith", "Hypertension", "Lisinopril", "555-"];
        for (_, text) in &shown {
            assert!(!private.iter().any(|word| text.contains(word)), "after {message:?}: {text}");
        }
    }
    let (_, answer) = server.post(RUNS, &json!({ "message": "How is she?", "stream": false })).await;
    assert_eq!(answer["reply"], "Two.");
    let system = &said(&world)[0].1;
    assert!(system.contains("Patient Information:\n- Name: Mary Smith"), "{system}");
}

#[tokio::test]
async fn a_page_is_read_in_a_process_of_its_own_and_cited() {
    let (world, server) = with_sample().await;
    let page = "<html><head><title>Plan</title><script>x()</script></head><body><h1>Care plan</h1>\
                <h2>Evenings</h2><p>The walker stands in the hall.</p></body></html>";
    let upload = server.request(Method::POST, "/v1/apps/kalito/documents?name=plan.html");
    let (status, made) = send(upload.header("content-type", "text/html").body(page)).await;
    assert_eq!((status, &made["kind"]), (201, &json!("html")), "{made}");
    let asked = json!({ "message": "Where does the walker stand?" });
    let frames = server.stream(RUNS, &asked).await.all().await;
    let source = frames.iter().find(|frame| frame.event == "source").expect("a source");
    assert_eq!(source.data["id"], made["id"]);
    assert!(source.data["place"].as_str().unwrap().contains("Evenings"), "{:?}", source.data);
    assert!(said(&world)[0].1.contains("The walker stands in the hall."));
    let broken = server.request(Method::POST, "/v1/apps/kalito/documents?name=plan.pdf");
    let (status, problem) = send(broken.body("%PDF-1.7\nnothing of it")).await;
    assert_eq!((status, &problem["code"]), (422, &json!("document_unreadable")), "{problem}");
}
