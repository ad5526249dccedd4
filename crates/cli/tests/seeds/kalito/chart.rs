//! The patient's chart: times, lists that are too long, what is current, targets, doses, and whose each record is.

use jiff::ToSpan;
use protocol::{Clock, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;

use super::prompt::record;
use super::{answers, in_order, kalito, results, system, with_sample};
use crate::product::{Product, calls, of, send, status};
use crate::world::Server;

async fn served() -> (Product, Server) {
    let product = kalito().await;
    let server = product.serve().await;
    (product, server)
}

/// The day that is `days` days from now, as records have it.
fn day(days: i64) -> String {
    let today = SystemClock.now().in_tz("America/New_York").unwrap().date();
    today.checked_add(days.days()).unwrap().to_string()
}

fn time(days: i64) -> String {
    SystemClock.now().checked_add((days * 24).hours()).unwrap().to_string()
}

async fn pills(product: &Product, server: &Server, names: impl Iterator<Item = String>) {
    for name in names {
        let data = json!({
            "name": name, "dosage": "10mg", "schedule": "Once daily at 8am", "purpose": "a purpose", "status": "active",
        });
        record(product, server, "medication", data).await;
    }
}

#[tokio::test]
async fn a_time_is_shown_as_it_was_meant_with_its_zone() {
    let (product, server) = served().await;
    let data =
        json!({ "provider": "Dr. Johnson", "startsAt": "2099-11-05T10:00:00-05:00", "status": "planned" });
    record(&product, &server, "appointment", data).await;
    for (zone, expected) in [
        (None, "10:00 AM EST"),
        (Some("Europe/Lisbon"), "10:00 AM UTC-05:00"),
        (Some("America/New_York"), "10:00 AM EST"),
    ] {
        if let Some(zone) = zone {
            assert_eq!(send(&server, Method::PATCH, "/v1/me", &json!({ "timezone": zone })).await.0, 200);
        }
        product.answer(&server, json!({ "message": "When is her next appointment?" })).await;
        let shown = system(&product);
        assert!(shown.contains(&format!("- Dr. Johnson - Nov 5, 2099 at {expected}")), "{zone:?}: {shown}");
    }
}

#[tokio::test]
async fn whoever_names_no_zone_lives_in_that_of_the_app() {
    let (product, server) = served().await;
    answers(&product, |body| match results(body).is_empty() {
        true => calls(&[("current_time", json!({}))]),
        false => Reply::says("It is late."),
    });
    let frames = product.say(&server, "What time is it?").await;
    let date = of(&frames, "context:loaded")[0]["date"].as_str().unwrap();
    assert!(date.ends_with("(America/New_York)"), "{date}");
    assert_eq!(of(&frames, "tool:complete")[0]["output"]["timezone"], "America/New_York");
}

#[tokio::test]
async fn a_long_list_in_a_small_window_is_shortened_by_whole_lines_and_says_so() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[models.tiny]\nkind = 'local'\ncontext_window = 4096\n");
    let server = product.serve().await;
    record(&product, &server, "patient", json!({ "name": "Mary Smith", "allergies": ["Penicillin"] })).await;
    pills(&product, &server, (1..=29).map(|number| format!("Medicine{number}"))).await;
    pills(&product, &server, ["Oxazepam".to_owned()].into_iter()).await;
    let body = json!({ "message": "Among her medications, when is Oxazepam due?", "model": "tiny" });
    let frames = product.ask(&server, body).await.all().await;
    let shown = system(&product);
    let whole = |name: &str| format!("- {name} 10mg - Once daily at 8am (for a purpose)\n");
    assert!(
        in_order(&shown, &["- Allergies: Penicillin", "Current Medications:\n", &whole("Oxazepam")]),
        "{shown}"
    );
    let listed =
        shown.lines().filter(|line| line.starts_with("- Medicine") || line.starts_with("- Oxazepam"));
    let count = listed.inspect(|line| assert!(line.ends_with("(for a purpose)"), "{line}")).count();
    assert!((5..30).contains(&count), "{count}: {shown}");
    assert!(shown.contains(&format!("[{count} of 30 shown; the others are on record too.]")), "{shown}");
    let loaded = of(&frames, "context:loaded")[0];
    let left = format!("{} of 30 items of the section \"medications\"", 30 - count);
    assert_eq!(
        (&loaded["leftOut"][0]["fragment"], &loaded["leftOut"][0]["what"]),
        (&json!("domain"), &json!(left))
    );
}

#[tokio::test]
async fn a_list_beyond_its_bound_ends_with_a_whole_line_in_a_large_window_too() {
    let (product, server) = served().await;
    pills(&product, &server, (1..=90).map(|number| format!("Medicine{number}"))).await;
    product.answer(&server, json!({ "message": "Which medications does she take?" })).await;
    let shown = system(&product);
    let listed: Vec<&str> = shown.lines().filter(|line| line.starts_with("- Medicine")).collect();
    assert!(listed.iter().all(|line| line.ends_with("(for a purpose)")), "{shown}");
    assert!(listed.len() >= 20 && !shown.contains("[cut:"), "{shown}");
    assert!(
        shown.contains(&format!("[{} of 90 shown; the others are on record too.]", listed.len())),
        "{shown}"
    );
}

#[tokio::test]
async fn a_medication_is_current_between_its_first_and_its_last_day() {
    let (product, server) = served().await;
    for (name, first, last) in
        [("Ended", -9, -1), ("Ending", -9, 0), ("Beginning", 0, 9), ("Planned", 1, 9), ("Running", -9, 9)]
    {
        let data = json!({ "name": name, "status": "active", "startedOn": day(first), "endsOn": day(last) });
        record(&product, &server, "medication", data).await;
    }
    product.answer(&server, json!({ "message": "Which medications does she take?" })).await;
    let shown = system(&product);
    for (name, is_current) in
        [("Ended", false), ("Ending", true), ("Beginning", true), ("Planned", false), ("Running", true)]
    {
        assert_eq!(shown.contains(&format!("- {name} [until")), is_current, "{name}: {shown}");
    }
}

#[tokio::test]
async fn readings_are_told_against_their_target_with_their_trend() {
    let (product, server) = served().await;
    for (days, value) in [(-4, 95), (-3, 104), (-2, 110), (-1, 102)] {
        let data = json!({
            "type": "blood_glucose", "value": value, "unit": "mg/dL", "context": "AM", "measuredAt": time(days),
        });
        record(&product, &server, "vital", data).await;
    }
    let ask = json!({ "message": "How was her blood sugar this week?" });
    product.answer(&server, ask.clone()).await;
    let shown = system(&product);
    let line = "- Blood Glucose: AM 95-110 mg/dL (well controlled, stable; target AM 80-130)";
    assert!(shown.contains(line), "{shown}");
    let goal =
        json!({ "type": "blood_glucose", "unit": "mg/dL", "low": 90, "high": 103, "setBy": "Dr. Patel" });
    record(&product, &server, "goal", goal).await;
    product.answer(&server, ask).await;
    let shown = system(&product);
    assert!(shown.contains("AM 95-110 mg/dL (2 of 4 above target, stable; target AM 90-103)"), "{shown}");
}

#[tokio::test]
async fn the_sample_is_as_old_as_its_import() {
    let (product, server) = with_sample().await;
    let message =
        "How are her medications, her blood sugar and her weight, and when is the next appointment?";
    product.answer(&server, json!({ "message": message })).await;
    let shown = system(&product);
    let parts = [
        "- Allergies: Penicillin",
        "- Doctor: Dr. Patel",
        "- Mobility: ",
        "- Cognition: ",
        "- Acetaminophen 500mg",
        "[only when needed]",
        "  Never more than: 3000mg in 24 hours",
        "- Weight: 145-148 lbs (stable)",
        "- Blood Glucose: AM 95-110, PM 120-135 mg/dL (well controlled, stable",
        "- Dr. Johnson (Cardiologist) - ",
    ];
    assert!(in_order(&shown, &parts), "{shown}");
    assert!(!shown.contains("Doxycycline") && !shown.contains("Dr. Okafor"), "they are over: {shown}");
    drop(server);
    let sample = product.world.path("apps/kalito/sample").display().to_string();
    let again = product.run(&["import", &sample, "--app", "kalito", "--user", "local"]).await;
    assert_eq!((again.code, again.output.trim_start()), (Some(0), "49  already there\n"), "{again:?}");
}

#[tokio::test]
async fn a_record_names_its_patient_and_nobody_else() {
    let (product, server) = served().await;
    let mary = record(&product, &server, "patient", json!({ "name": "Mary Smith" })).await["id"].clone();
    let weight = |patient: &Value, value: u32| json!({ "type": "weight", "value": value, "unit": "lbs", "measuredAt": time(-1), "patient": patient });
    for nobody in [json!("Mary Smith"), json!("rec_00000000000000000000000000000001")] {
        let (status, problem) = server.post(&product.path("records/vital"), &weight(&nobody, 150)).await;
        assert_eq!((status, &problem["code"]), (422, &json!("invalid_request")), "{problem}");
    }
    let george = record(&product, &server, "patient", json!({ "name": "George Smith" })).await["id"].clone();
    record(&product, &server, "vital", weight(&mary, 146)).await;
    record(&product, &server, "vital", weight(&george, 181)).await;
    product
        .answer(&server, json!({ "message": "What do Mary and George weigh, by the last readings?" }))
        .await;
    let shown = system(&product);
    assert!(shown.contains("- Mary Smith, Weight: 146 lbs"), "{shown}");
    assert!(shown.contains("- George Smith, Weight: 181 lbs"), "{shown}");
}

#[tokio::test]
async fn whether_a_dose_was_given_is_answered_from_records() {
    let (product, server) = served().await;
    let data = json!({ "name": "Lisinopril", "dosage": "10mg", "status": "active" });
    let pill = record(&product, &server, "medication", data).await["id"].clone();
    let ask = "Did I already give her the Lisinopril?";
    product.say(&server, ask).await;
    assert!(
        system(&product).contains("Doses (Last 48 hours):\n- None is on record."),
        "{}",
        system(&product)
    );
    let given = time(0);
    let input = json!({ "medication": pill, "givenAt": given, "amount": "10mg", "givenBy": "Ana" });
    answers(&product, move |body| match results(body).is_empty() {
        true => calls(&[("recordDose", input.clone())]),
        false => Reply::says("Recorded."),
    });
    let mut stream =
        product.ask(&server, json!({ "message": "I gave her 10mg of Lisinopril just now." })).await;
    let open = stream.read_until("proposal:open").await.pop().unwrap().data;
    let confirm = format!("/v1/proposals/{}/confirm", open["proposalId"].as_str().unwrap());
    assert_eq!(send(&server, Method::POST, &confirm, &json!({})).await.0, 200);
    assert_eq!(status(&stream.all().await), "completed");
    answers(&product, |_| Reply::says("Yes."));
    product.say(&server, ask).await;
    let shown = system(&product);
    assert!(shown.contains("(10mg), by Ana") && shown.contains(": Lisinopril 10mg, by Ana"), "{shown}");
}
