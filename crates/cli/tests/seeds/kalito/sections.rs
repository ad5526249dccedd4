//! Which records a message gets: those it needs, however it is put, and none if it is about something else.

use serde_json::{Value, json};

use super::{kalito, say_in};
use crate::product::{Product, of};
use crate::world::Server;

/// Kalito with a record of each type, none of them old.
async fn with_records() -> (Product, Server) {
    let product = kalito().await;
    let server = product.serve().await;
    let patient = json!({ "name": "Mary Smith", "conditions": ["Hypertension"] });
    let now = record(&product, &server, "patient", patient).await["createdAt"].clone();
    let year: i32 = now.as_str().unwrap()[..4].parse().unwrap();
    let starts = format!("{}-03-05T10:00:00-05:00", year + 1);
    for (kind, data) in [
        ("medication", json!({ "name": "Lisinopril", "dosage": "10mg", "status": "active" })),
        ("medication", json!({ "name": "Zelvaxor", "dosage": "2mg", "status": "active" })),
        ("vital", json!({ "type": "weight", "value": 146, "unit": "lbs", "measuredAt": now })),
        ("appointment", json!({ "provider": "Dr. Johnson", "startsAt": starts, "status": "planned" })),
        ("caregiver", json!({ "name": "Ruth Levin", "phone": "555-0119" })),
    ] {
        record(&product, &server, kind, data).await;
    }
    (product, server)
}

async fn record(product: &Product, server: &Server, kind: &str, data: Value) -> Value {
    let (status, made) = server.post(&product.path(&format!("records/{kind}")), &data).await;
    assert_eq!(status, 201, "{made}");
    made
}

/// The sections that a message gets, by name.
async fn sections(product: &Product, server: &Server, message: &str) -> Vec<String> {
    let frames = product.say(server, message).await;
    let loaded = of(&frames, "context:loaded")[0]["sections"].clone();
    loaded.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

async fn assert_needs(product: &Product, server: &Server, message: &str, needs: &[&str]) {
    let got = sections(product, server, message).await;
    let missing: Vec<&&str> = needs.iter().filter(|need| !got.iter().any(|got| got == *need)).collect();
    assert!(missing.is_empty(), "{message}: {missing:?} is missing in {got:?}");
}

async fn assert_needs_nothing(product: &Product, server: &Server, messages: &[&str]) {
    for message in messages {
        let got = sections(product, server, message).await;
        assert!(got.is_empty(), "{message}: {got:?}");
    }
}

#[tokio::test]
async fn questions_get_the_records_that_they_need_and_everyday_sentences_get_none() {
    let (product, server) = with_records().await;
    for (message, needs) in [
        ("Is it ok to give her ibuprofen for her knee?", ["medications", "patient"].as_slice()),
        ("Can she eat grapefruit?", &["medications", "patient"]),
        ("She fell and hit her head", &["patient", "medications"]),
        ("Her BP is 190/110", &["vitals", "patient", "medications"]),
        ("What about Metformin before the scan?", &["medications"]),
        ("I can't come tonight, who else could help her to bed?", &["caregivers"]),
    ] {
        assert_needs(&product, &server, message, needs).await;
    }
    let everyday = ["I take the bus", "Take me through making pancakes", "That was a painful film"];
    assert_needs_nothing(&product, &server, &everyday).await;
}

#[tokio::test]
async fn questions_in_spanish_and_german_get_the_records_that_they_need() {
    let (product, server) = with_records().await;
    for (message, needs) in [
        ("¿Puede tomar ibuprofeno?", ["medications", "patient"].as_slice()),
        ("Mi abuela se cayó en el baño y se golpeó la cabeza", &["patient", "medications"]),
        ("Wann ist der nächste Arzttermin?", &["appointments"]),
        ("Wie war ihr Blutdruck in den letzten Tagen?", &["vitals"]),
    ] {
        assert_needs(&product, &server, message, needs).await;
    }
    let everyday = ["Tomo el autobús para ir al trabajo", "Ich nehme jeden Tag den Bus zur Arbeit"];
    assert_needs_nothing(&product, &server, &everyday).await;
}

#[tokio::test]
async fn a_name_that_occurs_in_the_records_brings_its_section() {
    let (product, server) = with_records().await;
    for (message, needs) in [
        ("She missed this morning's Lisinopril", ["medications"].as_slice()),
        ("What time is Dr. Johnson?", &["appointments"]),
        ("what about her zelvaxxor", &["medications"]),
        ("Is Ruth coming round on Wednesday?", &["caregivers"]),
    ] {
        assert_needs(&product, &server, message, needs).await;
    }
    let others = ["What is Johnson's theorem?", "Mary had a little lamb, how does it go on?"];
    assert_needs_nothing(&product, &server, &others).await;
}

#[tokio::test]
async fn a_message_that_goes_on_gets_what_the_one_before_got_and_a_joke_does_not() {
    let (product, server) = with_records().await;
    let first =
        product.answer(&server, json!({ "message": "Which tablets does she get in the morning?" })).await;
    let thread = &first["threadId"];
    say_in(&product, &server, thread, "And in the evening?").await;
    assert!(super::system(&product).contains("Current Medications:"), "{}", super::system(&product));
    product.answer(&server, json!({ "message": "Which tablets does she get?", "threadId": thread })).await;
    say_in(&product, &server, thread, "Tell me a joke").await;
    let shown = super::system(&product);
    assert!(!shown.contains("Current Medications:") && !shown.contains("Mary"), "{shown}");
}
