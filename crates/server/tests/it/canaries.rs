//! M2: each user has a word of their own. It reaches no prompt, answer, search or export of another user, also not
//! while memories are recalled, extracted and searched.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Method, Setup, TestApp, WordVectors};

const USERS: usize = 6;
const ROUNDS: usize = 4;
const APP: &str = "tools = [\"memory\"]\n[memory]\ninject = \"top\"\nhistory = true\nextract = true\n\
                   extract_delay_seconds = 0\nkeep = 5\n";

fn canary(user: usize) -> String {
    format!("canary{user}zebra")
}

/// All canaries in a text.
fn found(text: &str) -> Vec<usize> {
    (0..USERS).filter(|user| text.contains(&canary(*user))).collect()
}

/// Repeats what it is shown, and keeps it too: the worst a model can do.
fn gullible(request: &Value) -> Reply {
    let shown = request["messages"].to_string();
    let word = found(&shown).first().map(|user| canary(*user)).unwrap_or_default();
    if request["response_format"]["json_schema"]["name"] != "memories" {
        return Reply::says(&format!("You said {word}, I believe."));
    }
    let change = json!({ "action": "create", "ids": [], "text": format!("The user's word is {word}"), "kind": "fact",
        "message": "u1", "quote": word });
    Reply::says(&json!({ "changes": [change] }).to_string())
}

async fn get(app: &TestApp, token: &str, path: &str) -> String {
    app.send(app.request(Method::GET, path).bearer_auth(token)).await.body.to_string()
}

async fn post(app: &TestApp, token: &str, path: &str, body: &Value) -> String {
    app.send(app.request(Method::POST, path).bearer_auth(token).json(body)).await.body.to_string()
}

async fn live(app: &TestApp, token: &str, user: usize) {
    let word = canary(user);
    let say = async |message: String| {
        let body = json!({ "message": message, "stream": false });
        post(app, token, "/v1/apps/test/runs", &body).await
    };
    for round in 0..ROUNDS {
        for text in [
            say(format!("Remember that my secret word of round {round} is {word}.")).await,
            say(format!("What is my secret word, and what did I say about {word}?")).await,
            say("What is the secret word?".into()).await,
            get(app, token, "/v1/apps/test/memories?status=all&limit=100").await,
            get(app, token, "/v1/apps/test/memories/export").await,
            get(app, token, "/v1/apps/test/search?q=secret%20word").await,
            get(app, token, "/v1/apps/test/threads").await,
            post(app, token, "/v1/apps/test/memories/search", &json!({ "query": "secret word" })).await,
        ] {
            assert!(found(&text).iter().all(|other| *other == user), "user {user} got {text}");
        }
    }
}

#[tokio::test]
async fn m2_no_word_of_one_user_reaches_another() {
    for embedder in [None, Some(())] {
        let embedder = embedder.map(|()| Arc::new(WordVectors("words")) as Arc<_>);
        let app = TestApp::with(Setup { embedder, ..Setup::app(APP) }).await;
        app.upstream.program(gullible);
        let mut tokens: Vec<String> = Vec::new();
        for user in 0..USERS {
            let body = json!({ "user": format!("user{user}"), "admin": user == 0 });
            let request = app.request(Method::POST, "/v1/admin/keys").json(&body);
            let request = match tokens.first() {
                Some(admin) => request.bearer_auth(admin),
                None => request,
            };
            let made = app.send(request).await;
            assert_eq!(made.status, 201, "{made:?}");
            tokens.push(made.body["token"].as_str().unwrap().to_owned());
        }
        join_all(tokens.iter().enumerate().map(|(user, token)| live(&app, token, user))).await;
        app.service.idle().await;
        let requests = app.upstream.requests();
        assert!(requests.len() > USERS * ROUNDS, "runs and extractions have asked");
        for request in &requests {
            let words = found(&request.body.to_string());
            assert!(words.len() <= 1, "a prompt holds the words of {words:?}: {}", request.body);
        }
        let kept = "SELECT count(*) FROM memories WHERE text LIKE '%canary%'
                    AND substr(text, instr(text, 'canary') + 6, 1) <> substr(user, 5)";
        assert_eq!(app.count(kept), 0, "and every memory is with its owner");
        assert!(app.count("SELECT count(*) FROM memories WHERE source = 'extracted'") > 0);
    }
}
