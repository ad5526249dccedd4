//! Personas: whose prompt and settings a run has.

use serde_json::{Value, json};

use super::{NURSE, asked, kalito, system, with_small};
use crate::product::of;

#[tokio::test]
async fn the_persona_that_is_chosen_speaks_first() {
    let product = kalito().await;
    let server = product.serve().await;
    product.answer(&server, json!({ "message": "Hello", "personaId": NURSE })).await;
    let nurse = "You are a compassionate eldercare nurse with 20 years of experience";
    assert!(system(&product).starts_with(nurse), "{}", system(&product));
    product.answer(&server, json!({ "message": "Hello" })).await;
    let nobody = system(&product);
    assert!(!nobody.contains(nurse) && nobody.starts_with("You help people who care"), "{nobody}");
}

#[tokio::test]
async fn an_unknown_persona_is_left_out_and_the_answer_still_comes() {
    let product = kalito().await;
    let server = product.serve().await;
    for (persona, warned) in [("nonexistent", true), (NURSE, false)] {
        let body = json!({ "message": "Hello", "personaId": persona });
        let frames = product.ask(&server, body).await.all().await;
        assert_eq!(of(&frames, "stream:complete")[0]["text"], "So it is.");
        let loaded = of(&frames, "context:loaded")[0];
        assert_eq!(loaded.get("warnings").is_some(), warned, "{persona}: {loaded}");
    }
}

#[tokio::test]
async fn personas_are_listed_with_their_settings_and_users_keep_their_own() {
    let product = kalito().await;
    let server = product.serve().await;
    let (_, nurse) = server.get(&product.path(&format!("personas/{NURSE}"))).await;
    assert_eq!(
        nurse["settings"],
        json!({ "temperature": 0.7, "maxTokens": 2000, "repeatPenalty": 0.5 }),
        "{nurse}"
    );
    let own = json!({ "id": "persona_test", "prompt": "You are a test persona", "settings": { "temperature": 0.4 } });
    assert_eq!(server.post(&product.path("personas"), &own).await.0, 201);
    let (_, listed) = server.get(&product.path("personas")).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 4, "three of the app, one of the user");
    product.answer(&server, json!({ "message": "Hello", "personaId": "persona_test" })).await;
    assert!(system(&product).starts_with("You are a test persona\n\n"));
    assert_eq!(asked(&product)[0]["temperature"], 0.4);
}

#[tokio::test]
async fn settings_of_a_persona_are_the_base_and_the_request_wins() {
    let product = kalito().await;
    let server = product.serve().await;
    product.answer(&server, json!({ "message": "Hello", "personaId": NURSE })).await;
    let changed =
        json!({ "message": "Hello", "personaId": NURSE, "settings": { "temperature": 0.2, "topP": 0.9 } });
    product.answer(&server, changed).await;
    let of = |body: &Value| {
        let tokens = body.get("max_completion_tokens").or(body.get("max_tokens")).cloned();
        (body["temperature"].clone(), body["top_p"].clone(), body["frequency_penalty"].clone(), tokens)
    };
    let tokens = Some(json!(2000));
    let asked = asked(&product);
    assert_eq!(of(&asked[0]), (json!(0.7), Value::Null, json!(0.5), tokens.clone()));
    assert_eq!(of(&asked[1]), (json!(0.2), json!(0.9), json!(0.5), tokens), "what it does not set stays");
}

#[tokio::test]
async fn a_repeat_penalty_means_the_same_to_both_kinds_of_models() {
    let product = kalito().await;
    let server = with_small(&product).await;
    for model in ["gpt-5.6-luna", "small"] {
        product.answer(&server, json!({ "message": "Hello", "model": model, "personaId": NURSE })).await;
    }
    let asked = asked(&product);
    assert_eq!((&asked[0]["frequency_penalty"], asked[0].get("repeat_penalty")), (&json!(0.5), None));
    let options = &asked[1]["options"];
    assert_eq!(
        (&options["repeat_penalty"], &options["temperature"]),
        (&json!(0.5), &json!(0.7)),
        "{options}"
    );
    assert_eq!(options["num_predict"], 2000);
}

#[tokio::test]
async fn what_neither_persona_nor_app_sets_is_not_sent() {
    let product = kalito().await;
    let server = product.serve().await;
    product.answer(&server, json!({ "message": "Hello", "personaId": "persona_family_helper" })).await;
    product.answer(&server, json!({ "message": "Hello" })).await;
    let asked = asked(&product);
    let temperatures: Vec<&Value> = asked.iter().map(|body| &body["temperature"]).collect();
    assert_eq!(temperatures, [&json!(0.8), &json!(0.7)], "the persona's, and without one the app's");
    for body in &asked {
        for name in ["top_p", "frequency_penalty", "presence_penalty", "response_format"] {
            assert_eq!(body.get(name), None, "{name}");
        }
    }
}

#[tokio::test]
async fn a_stored_persona_that_broke_is_left_out_and_the_answer_still_comes() {
    let product = kalito().await;
    let server = product.serve().await;
    let own = json!({ "id": "persona_test", "prompt": "You are a test persona" });
    assert_eq!(server.post(&product.path("personas"), &own).await.0, 201);
    let database = testkit::sql::Connection::open(product.world.path("data").join("rondo.db")).unwrap();
    database.execute("UPDATE personas SET settings = '[1]'", []).unwrap();
    let answer = product.answer(&server, json!({ "message": "Hello", "personaId": "persona_test" })).await;
    assert_eq!(answer["reply"], "So it is.");
    assert!(!system(&product).contains("test persona"));
    product.answer(&server, json!({ "message": "Hello", "personaId": NURSE })).await;
    assert!(system(&product).contains("eldercare nurse"), "the others are as before");
}

#[tokio::test]
async fn a_persona_answers_the_runs_that_name_it_and_no_other() {
    let product = kalito().await;
    let server = product.serve().await;
    let first = product.answer(&server, json!({ "message": "Hello", "personaId": NURSE })).await;
    assert!(system(&product).contains("eldercare nurse"));
    super::say_in(&product, &server, &first["threadId"], "And now?").await;
    let shown = system(&product);
    assert!(!shown.contains("eldercare nurse") && shown.starts_with("You help people who care"), "{shown}");
    assert_eq!(asked(&product)[1].get("frequency_penalty"), None, "nor its settings");
    let given = json!({ "title": "Care", "personaId": NURSE });
    let (_, thread) = server.post(&product.path("threads"), &given).await;
    super::say_in(&product, &server, &thread["id"], "Hello").await;
    assert!(system(&product).contains("eldercare nurse"), "unless the thread was given one");
}

#[tokio::test]
async fn a_persona_may_have_settings_and_no_prompt() {
    let product = kalito().await;
    let file = product.world.path("apps/kalito/personas/persona_calm.md");
    std::fs::write(file, "---\ntemperature: 0.3\n---\n").unwrap();
    let server = product.serve().await;
    let own = json!({ "id": "persona_cool", "settings": { "temperature": 0.4 } });
    let (status, made) = server.post(&product.path("personas"), &own).await;
    assert_eq!((status, &made["prompt"]), (201, &json!("")), "{made}");
    for (persona, temperature) in [("persona_calm", 0.3), ("persona_cool", 0.4)] {
        let answer = product.answer(&server, json!({ "message": "Hello", "personaId": persona })).await;
        assert_eq!(answer.get("warnings"), None, "{answer}");
        assert!(system(&product).starts_with("You help people who care"), "nothing stands before it");
        assert_eq!(asked(&product).last().unwrap()["temperature"], temperature, "{persona}");
    }
    let nothing = json!({ "id": "persona_none", "prompt": " " });
    let hot = json!({ "id": "persona_hot", "settings": { "temperature": 1.5 } });
    for refused in [nothing, hot] {
        assert_eq!(server.post(&product.path("personas"), &refused).await.0, 422, "{refused}");
    }
}
