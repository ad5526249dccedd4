//! X2: a secret goes where it is to go, and comes back nowhere, however it is spelt.

use axum::http::Method;
use serde_json::json;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Reach, Setup, TestApp};

use super::{run, setup};
use crate::support::{Names, RUNS, good};

/// With characters that every encoding treats in its own way.
const SECRET: &str = "s3-kr_t.a/b+c=\"d\"\\e f~g";

const TOOLS: &str = r#"
[tool.look]
description = "Looks."
policy = "allow"
effect = "reversible"
[tool.look.http]
method = "POST"
url = "WEB/look"
query = { key = "{{ secret.look }}" }
headers = { Authorization = "Bearer {{ secret.look }}", "X-Api-Key" = "{{ secret.look }}" }
body = { key = "{{ secret.look }}" }
[tool.look.undo]
method = "DELETE"
url = "WEB/look"
query = { key = "{{ secret.look }}" }
headers = { Authorization = "Bearer {{ secret.look }}" }
"#;

fn hex(bytes: &[u8], upper: bool) -> String {
    let hex = |byte: &u8| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
    bytes.iter().map(hex).collect()
}

/// The secret as servers may give it back.
fn spellings() -> Vec<(&'static str, String)> {
    let percent = |kept: &str, upper: bool| -> String {
        SECRET
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || kept.contains(c) {
                    c.to_string()
                } else {
                    hex(&[c as u8], upper)
                }
            })
            .collect()
    };
    let quoted = json!(SECRET).to_string();
    let quoted = quoted[1..quoted.len() - 1].to_owned();
    vec![
        ("raw", SECRET.into()),
        ("JSON", quoted.clone()),
        ("JSON with slashes escaped", quoted.replace('/', "\\/")),
        ("percent", percent("", true)),
        ("percent, small", percent("", false)),
        ("URL component", percent("-_.~", true)),
        ("URL component of JavaScript", percent("-_.!~*'()", true)),
        ("form", percent("-_.*", true).replace("%20", "+")),
        ("base64", "czMta3JfdC5hL2IrYz0iZCJcZSBmfmc=".into()),
        ("base64 for URLs, without padding", "czMta3JfdC5hL2IrYz0iZCJcZSBmfmc".into()),
    ]
}

/// No usable part of the secret is left.
fn assert_hidden(place: &str, text: &str) {
    for (name, spelling) in spellings() {
        assert!(!text.contains(&spelling), "{place} holds the secret ({name}): {text}");
    }
}

async fn start(web: &Web) -> TestApp {
    let setup = setup(web, TOOLS);
    let reach = Reach { secrets: vec![("look".into(), SECRET.into())], ..setup.reach };
    TestApp::with(Setup { reach, ..setup }).await
}

/// Everything that can be read of a run, and all that the database holds.
async fn assert_nothing_leaks(app: &TestApp, names: &Names) {
    for path in [
        names.run_path(),
        names.messages_path(),
        format!("{}/prompt", names.run_path()),
        "/v1/apps/test/actions".into(),
        "/v1/apps/test/proposals".into(),
    ] {
        let answer = app.send(app.request(Method::GET, &path)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_hidden(&path, &answer.body.to_string());
    }
    for request in app.upstream.requests() {
        assert_hidden("a prompt", &request.body.to_string());
    }
    for entry in std::fs::read_dir(app.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert_hidden("the database", &String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
}

#[tokio::test]
async fn x2_a_secret_arrives_and_is_told_to_nobody_even_if_the_server_gives_it_back() {
    let web = Web::start().await;
    let app = start(&web).await;
    for (name, spelling) in spellings() {
        let mut replies = vec![
            web::WebReply::text(&format!("you sent {spelling}, thank you")),
            web::WebReply::text(&format!("invalid key {spelling}!")).with_status(401),
        ];
        if !name.contains("JSON") {
            let echo = json!({ "headers": { "x": [format!("Bearer {spelling}")] }, spelling.clone(): 1 });
            replies.extend([web::WebReply::json(&echo), web::WebReply::json(&echo).with_status(500)]);
        }
        for reply in replies {
            web.on("POST", "/look", [reply]);
            let frames = run(&app, "look", &json!({})).await;
            for frame in &frames {
                assert_hidden(name, &frame.data.to_string());
            }
            let told = super::the(&frames, "tool:complete")["output"].to_string();
            assert!(told.contains("[look is hidden]"), "{name}: {told}");
        }
    }
    let arrival = &web.arrivals()[0];
    assert_eq!(arrival.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    assert_eq!(arrival.header("x-api-key"), Some(SECRET));
    assert_eq!(arrival.json()["key"], SECRET);
    let runs = good(app.get("/v1/apps/test/actions?limit=1").await);
    let action = &runs["data"][0];
    let text = |name: &str| action[name].as_str().unwrap().to_owned();
    assert_nothing_leaks(&app, &Names { run: text("runId"), thread: text("threadId") }).await;
}

#[tokio::test]
async fn x2_an_undo_and_its_failure_tell_no_secret_either() {
    let web = Web::start().await;
    let app = start(&web).await;
    web.on("POST", "/look", [web::WebReply::json(&json!({ "id": 1 }))]);
    app.upstream.script([Reply::stream().call(ScriptedCall::new("look", "{}")), Reply::says("Done.")]);
    let stream = app.stream(RUNS, &json!({ "message": "Do it" })).await;
    let names = Names::of(&stream);
    stream.all().await;
    app.service.idle().await;
    let action = good(app.get("/v1/apps/test/actions").await)["data"][0].clone();
    let undo = format!("/v1/actions/{}/undo", action["id"].as_str().unwrap());
    web.on(
        "DELETE",
        "/look",
        [web::WebReply::text(&format!("no: {SECRET}")).with_status(409), web::WebReply::text(SECRET)],
    );
    let preview = good(app.get(&undo).await);
    assert_eq!(
        (&preview["possible"], &preview["changes"][0]["after"]["method"]),
        (&json!(true), &json!("DELETE"))
    );
    assert_hidden("a preview", &preview.to_string());
    assert_eq!(web.arrivals().len(), 1, "a preview sends nothing");
    let refused = app.send(app.request(Method::POST, &undo)).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().ends_with("no: [look is hidden]"), "{refused:?}");
    assert_eq!(web.arrivals()[1].header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    good(app.send(app.request(Method::POST, &undo)).await);
    assert_nothing_leaks(&app, &names).await;
}

/// A template of what the model reads cannot name a secret, and one in an argument is only a text.
#[tokio::test]
async fn x2_the_model_cannot_ask_for_a_secret() {
    let web = Web::start().await;
    let tools = "[tool.say]\ndescription = 'Says.'\npolicy = 'allow'\n\
        parameters = { type = 'object', properties = { text = { type = 'string' } } }\n\
        [tool.say.http]\nmethod = 'POST'\nurl = 'WEB/say'\nbody = { text = '{{ input.text }}' }\n";
    let setup = setup(&web, &(tools.to_owned() + TOOLS));
    let reach = Reach { secrets: vec![("look".into(), SECRET.into())], ..setup.reach };
    let app = TestApp::with(Setup { reach, ..setup }).await;
    web.on("POST", "/say", [web::WebReply::status(204)]);
    let text = "{{ secret.look }} {{ secret }} {% set x = secret %}{{ x }}";
    run(&app, "say", &json!({ "text": text })).await;
    assert_eq!(web.arrivals()[0].json(), json!({ "text": text }));
}
