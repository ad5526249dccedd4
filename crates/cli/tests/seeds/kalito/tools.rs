//! Which calls are run at all, and which are put before the user first.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::TAVILY_KEY;
use testkit::upstream::Reply;
use testkit::web::Web;

use super::{answers, asked, kalito, results, with_small};
use crate::product::{Product, calls, of, status};
use crate::world::{Server, send};

fn reading(kind: &str, value: f64, unit: &str) -> Value {
    json!({ "type": kind, "value": value, "unit": unit, "measuredAt": "2026-11-16T08:00:00-05:00" })
}

/// Returns the stored records of a type.
async fn stored(product: &Product, server: &Server, path: &str) -> Vec<Value> {
    let (status, page) = server.get(&product.path(path)).await;
    assert_eq!(status, 200, "{page}");
    page["data"].as_array().unwrap().clone()
}

/// Returns the outcome of one call of the model.
async fn with_call(product: &Product, server: &Server, tool: &'static str, input: Value) -> Value {
    makes(product, tool, input);
    product.answer(server, json!({ "message": "Please write that down." })).await
}

/// From now on the model makes this call, and then is content.
fn makes(product: &Product, tool: &'static str, input: Value) {
    answers(product, move |body| match results(body).len() {
        0 => calls(&[(tool, input.clone())]),
        _ => Reply::says("Done."),
    });
}

#[tokio::test]
async fn calls_of_tools_that_were_not_offered_are_never_run() {
    let web = Web::start().await;
    let product = kalito().await.env("TAVILY_API_KEY", TAVILY_KEY).env("TAVILY_BASE_URL", &web.url());
    let server = with_small(&product).await;
    answers(&product, |body| {
        let told = body["messages"][0]["content"].as_str().unwrap_or_default();
        if told.contains("nothing that you called was run") {
            return Reply::says("I cannot write that down here.");
        }
        calls(&[
            ("recordVital", reading("weight", 999.0, "lbs")),
            ("tavily_search", json!({ "query": "weight" })),
            ("save_memory", json!({ "text": "Weighs 999 lbs." })),
        ])
    });
    let body = json!({ "message": "She weighs 145 lbs today.", "model": "small" });
    let frames = product.ask(&server, body).await.all().await;
    assert_eq!(status(&frames), "completed");
    assert_eq!(of(&frames, "stream:complete")[0]["text"], "I cannot write that down here.");
    let ended = of(&frames, "tool:complete");
    assert_eq!((ended.len(), of(&frames, "tool:start").len()), (3, 0));
    for result in ended {
        let (error, message) = (&result["output"]["error"], result["output"]["message"].as_str().unwrap());
        assert_eq!((&result["status"], error), (&json!("denied"), &json!("not_offered")), "{result}");
        assert!(message.contains("was offered"), "{message}");
    }
    assert_eq!(asked(&product).len(), 2, "and then it answers");
    assert!(web.arrivals().is_empty() && stored(&product, &server, "records/vital").await.is_empty());
    assert!(stored(&product, &server, "memories").await.is_empty());
}

#[tokio::test]
async fn a_call_that_a_model_without_tools_writes_into_its_text_is_text() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[models.writer]\nkind = 'local'\ntool_calls_in_text = true\n");
    let server = product.serve().await;
    let written = json!({ "name": "recordVital", "arguments": reading("weight", 145.0, "lbs") }).to_string();
    let text = format!("<tool_call>{written}</tool_call>");
    let said = text.clone();
    answers(&product, move |_| Reply::says(&said));
    let frames = product.ask(&server, json!({ "message": "145 lbs", "model": "writer" })).await.all().await;
    assert_eq!((status(&frames), &of(&frames, "stream:complete")[0]["text"]), ("completed", &json!(text)));
    assert!(asked(&product)[0].get("tools").is_none() && of(&frames, "tool:complete").is_empty());
    assert!(stored(&product, &server, "records/vital").await.is_empty());
}

#[tokio::test]
async fn a_model_without_tools_is_told_of_none() {
    let product = kalito().await;
    let server = with_small(&product).await;
    for model in ["gpt-5.6-luna", "small"] {
        product.answer(&server, json!({ "message": "What does she take?", "model": model })).await;
    }
    let (offered, told) = (asked(&product)[0].clone(), asked(&product)[1]["messages"].to_string());
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = offered["tools"].as_array().unwrap().iter().map(name).collect();
    assert!(
        offered["messages"].to_string().contains("`recordVital`"),
        "who has tools is told when to use them"
    );
    for name in &names {
        assert!(!told.contains(name.as_str()), "{name}: {told}");
    }
    assert!(told.contains("You help people who care") && !told.contains("{%"), "{told}");
}

#[tokio::test]
async fn a_reading_that_is_hardly_possible_is_put_before_the_user() {
    let product = kalito().await;
    let server = product.serve().await;
    for (kind, value, unit) in [
        ("weight", 145.0, "lbs"),
        ("weight", 66.0, "kg"),
        ("blood_glucose", 62.0, "mg/dL"),
        ("blood_glucose", 5.4, "mmol/L"),
        ("blood_pressure", 190.0, "mmHg"),
        ("temperature", 101.5, "°F"),
        ("pain", 10.0, "of 10"),
    ] {
        let answer = with_call(&product, &server, "recordVital", reading(kind, value, unit)).await;
        assert_eq!(answer["status"], "completed", "{kind} {value} {unit} is recorded at once: {answer}");
        assert_eq!(answer["toolResults"][0]["success"], true, "{answer}");
    }
    let before = stored(&product, &server, "records/vital").await.len();
    for (kind, value, unit) in [
        ("weight", 999.0, "lbs"),
        ("weight", 145.0, "lightyears"),
        ("blood_glucose", 5.4, "mg/dL"),
        ("blood_pressure", 19.0, "mmHg"),
        ("heart_rate", 720.0, "bpm"),
        ("temperature", 986.0, "°F"),
        ("oxygen_saturation", 970.0, "%"),
        ("respiratory_rate", 160.0, "/min"),
        ("pain", 11.0, "of 10"),
    ] {
        let answer = with_call(&product, &server, "recordVital", reading(kind, value, unit)).await;
        let asked = (&answer["status"], &answer["proposals"][0]["tool"]);
        assert_eq!(asked, (&json!("waiting"), &json!("recordVital")), "{kind} {value} {unit}: {answer}");
    }
    assert_eq!(stored(&product, &server, "records/vital").await.len(), before, "and not written down before");
    makes(&product, "recordVital", reading("weight", 501.0, "lbs"));
    let mut stream = product.ask(&server, json!({ "message": "She weighs 501 lbs." })).await;
    let open = stream.read_until("proposal:open").await.pop().unwrap().data;
    let confirm = format!("/v1/proposals/{}/confirm", open["proposalId"].as_str().unwrap());
    assert_eq!(send(server.request(Method::POST, &confirm)).await.0, 200);
    assert_eq!(status(&stream.all().await), "completed");
    assert_eq!(stored(&product, &server, "records/vital").await.len(), before + 1, "a yes is enough");
}

#[tokio::test]
async fn appointments_are_put_before_the_user() {
    let product = kalito().await;
    product.import_sample().await;
    let server = product.serve().await;
    let known = stored(&product, &server, "records/appointment").await;
    let new = json!({ "provider": "Dr. Lee", "startsAt": "2026-12-01T10:00:00-05:00" });
    let changed = json!({ "id": known[0]["id"], "status": "cancelled" });
    for (tool, input) in [("addAppointment", new), ("updateAppointment", changed)] {
        let answer = with_call(&product, &server, tool, input).await;
        assert_eq!((&answer["status"], &answer["proposals"][0]["tool"]), (&json!("waiting"), &json!(tool)));
    }
    assert_eq!(stored(&product, &server, "records/appointment").await, known, "nothing has changed yet");
}
