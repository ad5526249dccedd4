//! The checks that a call must pass before it runs: the schema, and whose it is.

use serde_json::json;

use super::*;

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_anything_runs() {
    let (product, server) = empty().await;
    let mut beyond = evidence("Too sure.");
    beyond["confidence"] = json!(1.5);
    plays_calls(&product, &[("addEvidence", beyond)]);
    let frames = product.say(&server, "Note this.").await;
    let ended = outcome(&frames, "addEvidence");
    assert_eq!(
        (&ended["status"], &ended["output"]["error"]),
        (&json!("failed"), &json!("invalid_arguments"))
    );
    assert!(of(&frames, "tool:start").is_empty(), "it was not begun");
    assert!(list(&server, "records/evidence").await.is_empty(), "and nothing was stored");
}

#[tokio::test]
async fn the_model_is_told_what_does_not_fit_and_mends_it() {
    let (product, server) = empty().await;
    plays(&product, |seen, body| match seen {
        0 => calls(&[("addEvidence", json!({ "type": "pattern", "content": "Mended.", "confidence": 7 }))]),
        1 if results(body)[0].to_string().contains("confidence") => {
            calls(&[("addEvidence", evidence("Mended."))])
        }
        _ => Reply::says("Noted."),
    });
    let frames = product.say(&server, "Note this.").await;
    let statuses: Vec<&Value> =
        of(&frames, "tool:complete").into_iter().map(|data| &data["status"]).collect();
    assert_eq!((statuses, reply(&frames)), (vec![&json!("failed"), &json!("complete")], "Noted."));
    assert_eq!(list(&server, "records/evidence").await.len(), 1);
}

#[tokio::test]
async fn whose_records_are_meant_never_comes_from_the_model_or_the_client() {
    let (product, server) = empty().await;
    let mut of_another = evidence("Of another.");
    of_another["userId"] = json!("ada");
    let ended = does(&product, &server, "addEvidence", of_another).await;
    assert_eq!(ended["output"]["error"], "invalid_arguments", "{ended}");
    assert!(list(&server, "records/evidence").await.is_empty());
    let body = json!({ "message": "Hi", "userId": "ada" });
    assert_eq!(server.post(&product.path("runs"), &body).await.0, 422);
}
