//! The parts of a request: which model, which settings, and what is refused.

use serde_json::{Value, json};

use super::{NURSE, answers, asked, first, kalito, system, with_sample, with_small};
use crate::product::of;
use testkit::upstream::Reply;

#[tokio::test]
async fn a_cloud_model_and_one_at_home_answer_in_the_same_app() {
    let product = kalito().await;
    let server = with_small(&product).await;
    for (model, path) in [("gpt-5.6-luna", "/v1/chat/completions"), ("small", "/api/chat")] {
        let answer = product.answer(&server, json!({ "message": "Hello", "model": model })).await;
        assert_eq!(answer["reply"], "So it is.");
        assert!(answer["tokenUsage"].as_u64().unwrap() > 0, "{answer}");
        assert!(product.upstream().requests().iter().any(|request| request.path == path), "{path}");
    }
    let offered: Vec<bool> = asked(&product).iter().map(|body| body.get("tools").is_some()).collect();
    assert_eq!(offered, [true, false], "a local model gets no tools");
}

#[tokio::test]
async fn a_model_that_nobody_serves_is_refused_by_its_name() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[providers.openai]\nopen = false\n[models.'gpt-6-luna']\n");
    let server = product.serve().await;
    let body = json!({ "message": "Hello", "model": "nobodys", "stream": false });
    let (status, problem) = server.post(&product.path("runs"), &body).await;
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("model")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("nobodys"), "{problem}");
    let (_, threads) = server.get(&product.path("threads")).await;
    assert_eq!((&threads["data"], asked(&product).len()), (&json!([]), 0));
}

#[tokio::test]
async fn a_model_that_cannot_stream_answers_in_one_piece() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[models.whole]\nstreaming = false\n");
    let server = product.serve().await;
    let frames = product.ask(&server, json!({ "message": "Hello", "model": "whole" })).await.all().await;
    assert_ne!(asked(&product)[0]["stream"], json!(true));
    let deltas: Vec<&Value> = of(&frames, "text:delta").iter().map(|data| &data["delta"]).collect();
    assert_eq!(deltas, ["So it is."]);
    assert_eq!(crate::product::status(&frames), "completed");
}

#[tokio::test]
async fn a_small_window_is_shown_less_and_never_overrun() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[models.tiny]\nkind = 'local'\ncontext_window = 4096\n");
    product.import_sample().await;
    let server = product.serve().await;
    let message = "Which caregiver could help with her medications, and what is the phone number?";
    product.answer(&server, json!({ "message": message })).await;
    assert!(system(&product).contains("Caregivers:\n- "), "{}", system(&product));
    let answer = product.answer(&server, json!({ "message": message, "model": "tiny" })).await;
    let shown = system(&product);
    assert!(shown.contains("Lisinopril 10mg") && !shown.contains("Ana Torres"), "{shown}");
    let (_, prompt) = server.get(&format!("/v1/runs/{}/prompt", answer["runId"].as_str().unwrap())).await;
    let (tokens, limit) =
        (prompt["ledger"]["tokens"].as_u64().unwrap(), prompt["ledger"]["limit"].as_u64().unwrap());
    assert!(tokens <= limit && limit < 4096, "{tokens} of {limit}, and room for the answer");
}

#[tokio::test]
async fn a_window_too_small_for_the_tools_is_asked_without_them() {
    let product = kalito().await;
    product.world.write("rondo.toml", "[models.narrow]\nprovider = 'openai'\ncontext_window = 4096\n");
    let server = product.serve().await;
    product.answer(&server, json!({ "message": "Good morning.", "model": "narrow" })).await;
    let request = asked(&product)[0].clone();
    assert!(request.get("tools").is_none(), "{request}");
    let said = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(said.as_str().unwrap().ends_with("Good morning."), "{said}");
}

#[tokio::test]
async fn settings_out_of_their_range_are_refused_and_those_at_its_ends_taken() {
    let product = kalito().await;
    let server = product.serve().await;
    for (name, inside, outside) in [
        ("temperature", [json!(0.1), json!(1.2)], [json!(0.09), json!(1.3)]),
        ("maxTokens", [json!(1), json!(4000)], [json!(0), json!(4001)]),
        ("topP", [json!(0), json!(1)], [json!(-0.1), json!(1.1)]),
        ("frequencyPenalty", [json!(0), json!(2)], [json!(-0.1), json!(2.1)]),
        ("presencePenalty", [json!(0), json!(2)], [json!(-0.1), json!(2.1)]),
    ] {
        for value in outside {
            let body = json!({ "message": "Hello", "settings": { name: value } });
            let (status, problem) = server.post(&product.path("runs"), &body).await;
            assert_eq!(
                (status, &problem["code"]),
                (422, &json!("invalid_request")),
                "{name} {value}: {problem}"
            );
            assert!(problem["errors"][0]["field"].as_str().unwrap().contains(name), "{problem}");
        }
        for value in inside {
            product.answer(&server, json!({ "message": "Hello", "settings": { name: value } })).await;
        }
    }
    assert_eq!(asked(&product).len(), 10, "what was refused never reached the model");
}

#[tokio::test]
async fn a_request_is_checked_before_anything_is_stored() {
    let product = kalito().await;
    let server = product.serve().await;
    for body in [
        json!({ "message": "Hello", "personality": "kind" }),
        json!({ "message": "  " }),
        json!({ "message": "Hello", "settings": { "outputFormat": "xml" } }),
        json!({ "message": "Hello", "settings": { "temperature": 1.3 } }),
    ] {
        let (status, problem) = server.post(&product.path("runs"), &body).await;
        assert_eq!((status, &problem["code"]), (422, &json!("invalid_request")), "{body}: {problem}");
    }
    let (_, threads) = server.get(&product.path("threads")).await;
    assert_eq!((&threads["data"], asked(&product).len()), (&json!([]), 0));
}

#[tokio::test]
async fn one_request_carries_everything_and_both_forms_ask_the_same() {
    let (product, server) = with_sample().await;
    answers(&product, |_| Reply::says("{\"doses\": 2}"));
    let body = json!({
        "message": "Which medications does she take? Answer in JSON.",
        "systemPrompt": "Be brief.",
        "model": "gpt-5.6-luna",
        "settings": { "temperature": 0.2, "outputFormat": "json" },
        "personaId": NURSE,
    });
    let (mut whole, mut streamed) = (body.clone(), body);
    for body in [&mut whole, &mut streamed] {
        let (_, thread) = server.post(&product.path("threads"), &json!({ "title": "Doses" })).await;
        body["threadId"] = thread["id"].clone();
    }
    let answer = product.answer(&server, whole.clone()).await;
    assert_eq!((&answer["reply"], &answer["threadId"]), (&json!("{\"doses\": 2}"), &whole["threadId"]));
    product.ask(&server, streamed).await.all().await;
    let asked = asked(&product);
    let plain = |body: &Value| {
        let first = first(body).split(['<', '>']).filter(|part| !part.contains("data-")).collect::<String>();
        let mut body = body.clone();
        body["messages"][0]["content"] = json!(first);
        body
    };
    assert!(plain(&asked[0]) == plain(&asked[1]), "with a stream and without");
    assert_eq!((&asked[0]["model"], &asked[0]["temperature"]), (&json!("gpt-5.6-luna"), &json!(0.2)));
    assert_eq!(asked[0]["response_format"]["type"], "json_object");
    assert_eq!(asked[0]["frequency_penalty"], 0.5, "the persona's");
}

#[tokio::test]
async fn a_model_that_is_on_no_list_of_a_provider_is_refused_by_its_name() {
    let product = kalito().await;
    product.upstream().serves(&["gpt-5.6-luna", "gpt-6-sol-2026-05-01"]);
    let server = product.serve().await;
    let runs = product.path("runs");
    for body in [
        json!({ "message": "Hello", "model": "gpt-99" }),
        json!({ "message": "Hello", "settings": { "model": "gpt-99" } }),
    ] {
        let (status, problem) = server.post(&runs, &body).await;
        let field = if body.get("model").is_some() { "model" } else { "settings.model" };
        assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!(field)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("\"gpt-99\""), "{problem}");
    }
    let (_, threads) = server.get(&product.path("threads")).await;
    assert_eq!((&threads["data"], asked(&product).len()), (&json!([]), 0), "nothing is stored or asked");
    for model in ["gpt-5.6-luna", "gpt-6-sol"] {
        product.answer(&server, json!({ "message": "Hello", "model": model })).await;
    }
    assert_eq!(product.upstream().count_lists(), 1, "the list is asked for once");
}

#[tokio::test]
async fn where_no_list_can_be_had_the_provider_says_that_there_is_no_such_model() {
    let product = kalito().await;
    answers(&product, |_| Reply::status(404).error("invalid_request_error", Some("model_not_found"), "no"));
    let server = product.serve().await;
    let answer = product.answer(&server, json!({ "message": "Hello", "model": "gpt-99" })).await;
    assert!(
        answer["reply"].as_str().unwrap().starts_with("The model that was chosen does not exist."),
        "{answer}"
    );
    let (_, run) = server.get(&format!("/v1/runs/{}", answer["runId"].as_str().unwrap())).await;
    assert_eq!(run["status"], "completed");
    server.process.errors.line("no such model").await;
}

#[tokio::test]
async fn a_model_may_be_named_among_the_settings() {
    let product = kalito().await;
    let server = product.serve().await;
    let within = json!({ "message": "Hello", "settings": { "model": "gpt-5.6-luna", "temperature": 0.2 } });
    product.answer(&server, within).await;
    let both = json!({ "message": "Hello", "model": "gpt-6-sol", "settings": { "model": "gpt-5.6-luna" } });
    product.answer(&server, both).await;
    let models: Vec<Value> = asked(&product).iter().map(|body| body["model"].clone()).collect();
    assert_eq!(models, ["gpt-5.6-luna", "gpt-6-sol"], "the one beside the settings wins");
    assert_eq!(asked(&product)[0]["temperature"], 0.2);
    for (settings, field) in
        [(json!({ "model": 3 }), "settings.model"), (json!({ "modle": "x" }), "settings.modle")]
    {
        let body = json!({ "message": "Hello", "settings": settings });
        let (status, problem) = server.post(&product.path("runs"), &body).await;
        assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!(field)), "{problem}");
    }
}

#[tokio::test]
async fn a_message_is_seen_without_the_spaces_around_it_and_logged_with_them() {
    let product = kalito().await;
    let server = product.serve().await;
    let said = " \n\tWhat does she take?  \n";
    let frames = product.say(&server, said).await;
    assert_eq!(of(&frames, "message:user")[0]["text"], said, "the log has every byte");
    assert_eq!(of(&frames, "stream:complete")[0]["text"], "So it is.");
    let (role, shown) = super::told(&product).pop().unwrap();
    assert_eq!((role.as_str(), shown.as_str()), ("user", "What does she take?"));
    let thread = of(&frames, "run:start")[0]["threadId"].as_str().unwrap();
    let (_, messages) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    assert_eq!(messages["data"][0]["text"], "What does she take?");
}

#[tokio::test]
async fn tokens_that_nobody_counted_are_marked_as_estimated() {
    let product = kalito().await;
    let server = product.serve().await;
    for (reply, estimated) in
        [(Reply::says("So it is."), Value::Null), (Reply::says("So it is.").without_usage(), json!(true))]
    {
        answers(&product, move |_| reply.clone());
        let answer = product.answer(&server, json!({ "message": "Hello" })).await;
        assert_eq!(answer["tokenUsageEstimated"], estimated, "{answer}");
        let body = json!({ "message": "Hello" });
        let path = product.path("runs?format=delta");
        let text = server
            .request(reqwest::Method::POST, &path)
            .json(&body)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let last = text.lines().rfind(|line| line.starts_with("data: ")).unwrap();
        let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        assert!(last["tokenUsage"].as_u64().unwrap() > 0, "{last}");
        assert_eq!(last["tokenUsageEstimated"], estimated, "{last}");
    }
}
