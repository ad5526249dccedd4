//! The app's records in a prompt, when the message is about them.

use super::*;

const PATIENT: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": false}"#;
const MEDICATION: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "dosage": {"type": "string"}},
    "required": ["name"], "additionalProperties": false}"#;
const FILES: &[(&str, &str)] = &[
    ("records/patient.json", PATIENT),
    ("records/medication.json", MEDICATION),
    (
        "context/a_patient.md",
        "---\ntitle: Patient\nrecords: patient\nalways: true\n---\n{% for p in patient %}- Name: {{ p.name }}\n{% endfor %}",
    ),
    (
        "context/b_medications.md",
        "---\ntitle: Current Medications\nrecords: medication\ntriggers: medication, pills\n---\n{% for m in medication %}- {{ m.name }} {{ m.dosage }}\n{% endfor %}",
    ),
];

#[tokio::test]
async fn sections_are_chosen_by_what_the_message_is_about() {
    let app = start("", FILES).await;
    app.post("/v1/apps/test/records/patient", &json!({ "name": "Mary Smith" })).await;
    app.post("/v1/apps/test/records/medication", &json!({ "name": "Lisinopril", "dosage": "10mg" })).await;
    let log = run(&app, json!({ "message": "Which medications does she take?" })).await;
    assert_eq!(event(&log, "context:loaded")["sections"], json!(["a_patient", "b_medications"]));
    let shown = said(&app.upstream.requests()[0]).pop().unwrap().1;
    assert!(
        shown.contains("Patient:\n- Name: Mary Smith\n\nCurrent Medications:\n- Lisinopril 10mg"),
        "{shown}"
    );
    let thread = thread_of(&log);
    let log = say_in(&app, &thread, "And in the evening?").await;
    assert_eq!(
        event(&log, "context:loaded")["sections"],
        json!(["a_patient", "b_medications"]),
        "a message that says nothing of it follows one that does"
    );
    let log = run(&app, json!({ "message": "Tell me a story" })).await;
    assert_eq!(event(&log, "context:loaded")["sections"], json!(["a_patient"]));
}

#[tokio::test]
async fn sections_keep_to_their_budget_and_another_users_records_stay_out() {
    let app = start("[context]\ndomain_tokens = 130\n", FILES).await;
    app.post("/v1/apps/test/records/patient", &json!({ "name": "Mary Smith" })).await;
    for number in 0..40 {
        let dosage = format!("{number}mg");
        app.post("/v1/apps/test/records/medication", &json!({ "name": "Drug", "dosage": dosage })).await;
    }
    let log = run(&app, json!({ "message": "Which pills? Is 37mg one of them?" })).await;
    let loaded = event(&log, "context:loaded");
    assert_eq!(loaded["sections"], json!(["a_patient", "b_medications"]), "{loaded}");
    let shown = said(&app.upstream.requests()[0]).pop().unwrap().1;
    let listed: Vec<&str> = shown.lines().filter(|line| line.starts_with("- Drug ")).collect();
    assert!(listed.iter().all(|line| line.ends_with("mg")) && listed.contains(&"- Drug 37mg"), "{shown}");
    assert!(shown.contains(&format!("[{} of 40 shown", listed.len())) && listed.len() > 5, "{shown}");
    let left = format!("{} of 40 items of the section \"b_medications\"", 40 - listed.len());
    assert_eq!(
        loaded["leftOut"][0],
        json!({ "fragment": "domain", "what": left, "tokens": loaded["leftOut"][0]["tokens"] })
    );

    app.post("/v1/apps/test/records/medication", &json!({ "name": "x".repeat(3_000) })).await;
    let log = run(&app, json!({ "message": "Which pills?" })).await;
    assert_eq!(event(&log, "context:loaded")["sections"], json!(["a_patient", "b_medications"]));
}

#[tokio::test]
async fn a_section_is_found_by_its_meaning_where_none_of_its_words_are_said() {
    let night = "---\ntitle: How the night went\nrecords: patient\ntriggers: insomnia\n---\n- Slept well.";
    let files = [FILES[0], FILES[1], ("context/night.md", night)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let embedder = Some(std::sync::Arc::new(testkit::WordVectors("words")) as _);
    let app = TestApp::with(Setup { files, embedder, ..Setup::app("") }).await;
    app.upstream.program(|_| Reply::says("Fine."));
    let log = run(&app, json!({ "message": "How went the night?" })).await;
    assert_eq!(event(&log, "context:loaded")["sections"], json!(["night"]));
    let log = run(&app, json!({ "message": "Please write a poem about trains" })).await;
    assert_eq!(event(&log, "context:loaded").get("sections"), None);
}
