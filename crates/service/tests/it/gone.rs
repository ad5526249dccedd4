//! Deleted and purged things are in no file of the data folder once the server has stopped, and undo refuses them.

use std::path::Path;

use serde_json::{Value, json};
use testkit::pictures::{data_url, png};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Answer, Frame, Method, Setup, TestApp};

const APP: &str = r#"
tools = ["memory", "undo", "markdown", "documents"]

[images]
without_vision = "text"

[memory]
inject = "snapshot"
snapshot = ["part"]
history = true

[context]
documents = "all"

[tool.addPart]
description = "Adds a part."
record = "part"
does = "create"
policy = "allow"
[[tool.addPart.flow]]

# A document is in the prompt, and nobody is to be asked all the same.
[tool.createMarkdownFile]
policy = "allow"
[[tool.createMarkdownFile.flow]]

[tool.save_memory]
policy = "allow"
[[tool.save_memory.flow]]
"#;

const SECTION: &str = "---\ntitle: Parts\nrecords: part\norder: 1\ntriggers: [part]\n---\n\
    {% for item in part %}\n- {{ item.name }}\n{% endfor %}\n";

const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": false}"#;

/// One for each way in which words come in.
const WORDS: [&str; 14] = [
    "quokkamessage",
    "quokkaanswer",
    "quokkathought",
    "zebrarecord",
    "zebratool",
    "zebraversion",
    "yakfile",
    "yakversion",
    "yaktool",
    "wombatdocument",
    "vicunapin",
    "urchinprofile",
    "tapirmemory",
    "newtimage",
];

/// Returns the places of each of the words in all files under a folder.
fn places(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(places(&path, words));
            continue;
        }
        let bytes = match std::fs::read(&path) {
            Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => continue, // the log, when all have let go of it
            read => read.unwrap().to_ascii_lowercase(),
        };
        for word in words {
            let times = bytes.windows(word.len()).filter(|part| *part == word.as_bytes()).count();
            if times > 0 {
                found.push(format!("{word} is {times} times in {}", path.display()));
            }
        }
    }
    found
}

async fn start() -> TestApp {
    let files = vec![
        ("records/part.json".to_owned(), SCHEMA.to_owned()),
        ("context/parts.md".to_owned(), SECTION.to_owned()),
    ];
    let app = TestApp::with(Setup { files, ..Setup::app(APP) }).await;
    app.upstream.program(|request| {
        let messages = request["messages"].as_array().unwrap();
        let said = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
        let is_first = messages.last().unwrap()["role"] == "user";
        // In later prompts it is recalled, and then something else is said.
        let said = said["content"].as_str().unwrap();
        if is_first && said.ends_with("quokkamessage about a part\n[image: newtimage.png, 9x9]") {
            let calls = [
                ("addPart", json!({ "name": "zebratool" })),
                ("createMarkdownFile", json!({ "path": "tool.md", "content": "# yaktool\n" })),
                ("save_memory", json!({ "text": "Keeps a tapirmemory at home." })),
                ("search_documents", json!({ "query": "wombatdocument" })),
            ];
            let answer = Reply::stream().reasoning("quokkathought").text("quokkaanswer");
            let call = |answer: Reply, (name, input): (&str, Value)| {
                answer.call(ScriptedCall::new(name, &input.to_string()))
            };
            return calls.into_iter().fold(answer, call).finish("tool_calls");
        }
        Reply::says("Fine.")
    });
    app
}

async fn say(app: &TestApp, body: Value) -> Vec<Frame> {
    app.stream("/v1/apps/test/runs", &body).await.all().await
}

async fn good(app: &TestApp, method: Method, path: &str, body: Option<Value>) -> Answer {
    let request = app.request(method, path);
    let answer = app.send(body.iter().fold(request, |request, body| request.json(body))).await;
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer
}

fn id(answer: &Answer) -> String {
    answer.body["id"].as_str().unwrap().to_owned()
}

/// Brings every word in by every way there is, and gives the thread that has said them.
async fn fill(app: &TestApp) -> (String, Vec<String>) {
    let document = app.request(Method::POST, "/v1/apps/test/documents?name=a.md");
    let document = app
        .send(
            document
                .header("content-type", "text/markdown")
                .body("# A part\n\nThe wombatdocument says more of it.\n"),
        )
        .await;
    assert_eq!(document.status, 201, "{document:?}");
    let profile = json!({ "fields": { "pet": "urchinprofile" } });
    good(app, Method::PATCH, "/v1/me", Some(profile)).await;
    let name = json!({ "name": "zebrarecord" });
    let record = good(app, Method::POST, "/v1/apps/test/records/part", Some(name)).await;
    let path = format!("/v1/apps/test/records/part/{}", id(&record));
    // Each has an earlier version, too.
    for name in ["zebraversion", "zebrarecord"] {
        good(app, Method::PATCH, &path, Some(json!({ "name": name }))).await;
    }
    for text in ["# yakversion\n", "# yakfile\n"] {
        let file = app.request(Method::PUT, "/v1/apps/test/files/own.md").body(text);
        assert!(app.send(file.header("content-type", "text/markdown")).await.status < 300);
    }
    let pin = good(app, Method::POST, "/v1/apps/test/pins", Some(json!({ "text": "vicunapin" }))).await;
    let image = json!({ "type": "image", "url": data_url("image/png", &png(9, 9)), "name": "newtimage.png" });
    let said = say(app, json!({ "message": "quokkamessage about a part", "parts": [image] })).await;
    let thread = said[1].data["threadId"].as_str().unwrap().to_owned();
    // A thread that stays, whose prompts were made of all of it.
    for message in ["Which part?", "Which part, and what does the document say?"] {
        say(app, json!({ "message": message })).await;
    }
    let parts = app.get("/v1/apps/test/records/part").await.body;
    let parts = parts["data"].as_array().unwrap().iter().map(|part| part["id"].as_str().unwrap().to_owned());
    let mut paths: Vec<String> = parts.map(|id| format!("/v1/apps/test/records/part/{id}")).collect();
    assert!(paths.iter().any(|path| path.ends_with(&id(&record))), "{paths:?}");
    assert_eq!(paths.len(), 2, "{paths:?}");
    let memories = app.get("/v1/apps/test/memories").await.body;
    let memory = memories["data"][0]["id"].as_str().unwrap();
    paths.extend([
        format!("/v1/memories/{memory}?purge=true"),
        format!("/v1/documents/{}", id(&document)),
        format!("/v1/pins/{}", id(&pin)),
        "/v1/apps/test/files/own.md".to_owned(),
        "/v1/apps/test/files/tool.md".to_owned(),
        format!("/v1/threads/{thread}"),
    ]);
    (thread, paths)
}

/// Stops the server, and gives back its folder once no task uses it any more.
async fn stopped(app: TestApp) -> testkit::Stopped {
    let stopped = app.stop().await;
    let lock = std::fs::File::open(stopped.data().join("lock")).unwrap();
    tokio::task::spawn_blocking(move || lock.lock().unwrap()).await.unwrap();
    stopped
}

#[tokio::test]
async fn what_is_deleted_and_purged_is_in_no_file() {
    let app = start().await;
    let (_, paths) = fill(&app).await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM image_contents"), 1);
    let there = places(&app.data(), &WORDS);
    for word in WORDS {
        assert!(there.iter().any(|place| place.starts_with(word)), "{word} has not come in: {there:#?}");
    }
    for path in &paths {
        good(&app, Method::DELETE, path, None).await;
    }
    good(&app, Method::PATCH, "/v1/me", Some(json!({ "fields": { "pet": null } }))).await;
    app.service.idle().await;
    assert_eq!(app.service.verify_ledger(None).await.unwrap().faults, Vec::<String>::new());
    // The conversations that stay still work.
    assert_eq!(say(&app, json!({ "message": "And now?" })).await.last().unwrap().event, "run:end");
    let asked = app.upstream.requests().last().unwrap().body.to_string();
    assert!(!WORDS.iter().any(|word| asked.contains(word)), "{asked}");
    app.service.idle().await;
    assert_eq!(app.count("SELECT (SELECT count(*) FROM image_contents) + (SELECT count(*) FROM images)"), 0);
    let stopped = stopped(app).await;
    assert_eq!(places(&stopped.data(), &WORDS), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_user_deleted_is_not_brought_back() {
    let app = start().await;
    let (_, paths) = fill(&app).await;
    let actions = app.get("/v1/apps/test/actions?tool=addPart").await.body;
    let action = actions["data"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(actions["data"][0]["undoable"], json!(true));
    for path in paths.iter().filter(|path| path.contains("/records/")) {
        good(&app, Method::DELETE, path, None).await;
    }
    let undo = format!("/v1/actions/{action}/undo");
    // Before the sweep and after it.
    for _ in 0..2 {
        let refused = app.post(&undo, &json!({})).await;
        assert_eq!((refused.status, &refused.body["code"]), (409, &json!("cannot_undo")), "{refused:?}");
        app.service.idle().await;
    }
    let shown = app.get(&format!("/v1/actions/{action}")).await.body;
    assert_eq!((&shown["undoable"], &shown["input"]), (&json!(false), &Value::Null), "{shown}");
    assert_eq!(
        app.count("SELECT count(*) FROM actions WHERE changes LIKE '%zebra%' OR input LIKE '%zebra%'"),
        0
    );
    assert_eq!(app.count("SELECT count(*) FROM ledger_payloads WHERE payload LIKE '%zebra%'"), 0);
    assert_eq!(app.count("SELECT count(*) FROM texts WHERE body LIKE '%zebra%'"), 0);
    assert_eq!(app.count("SELECT count(*) FROM snapshot_lines WHERE text LIKE '%zebra%'"), 0);
}

#[tokio::test]
async fn instructions_are_kept_once_and_go_with_the_last_thread() {
    let app = start().await;
    let mut threads = Vec::new();
    for message in ["One.", "Two."] {
        let said = say(&app, json!({ "message": message })).await;
        threads.push(said[1].data["threadId"].as_str().unwrap().to_owned());
    }
    let kept = "SELECT count(*) FROM texts WHERE body LIKE 'You are a test.%'";
    assert_eq!(app.count(kept), 1, "for all threads and users");
    for (thread, left) in threads.iter().zip([1, 0]) {
        good(&app, Method::DELETE, &format!("/v1/threads/{thread}"), None).await;
        app.service.idle().await;
        assert_eq!(app.count(kept), left);
    }
}
