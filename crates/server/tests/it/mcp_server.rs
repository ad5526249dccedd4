//! The MCP server, spoken to by rmcp's own client in both eras of the protocol.

mod approvals;
mod identities;
mod sessions;
mod support;
mod wire;

use protocol::Right;
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams};
use serde_json::json;
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Setup, TestApp};
use tokio_util::task::TaskTracker;

use self::support::{ERAS, Era, TestClient, call, connect, failure, structured};
use crate::support::{good, repeating};

#[tokio::test]
async fn a_client_of_each_era_asks_and_reads_the_answer() {
    for era in ERAS {
        let app = TestApp::start().await;
        app.upstream.script([
            Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"hi"}"#)),
            Reply::says("It said hi."),
            Reply::says("Still here."),
        ]);
        let handler = TestClient::default();
        let client = connect(&app, None, "/mcp", (era, handler.clone())).await;
        let info = client.peer_info().unwrap();
        assert_eq!(info.server_info.as_ref().map(|server| server.name.as_str()), Some("rondo"));
        let told = structured(&call(&client, "ask", json!({ "message": "Say hi" })).await);
        assert_eq!((&told["status"], &told["answer"]), (&json!("completed"), &json!("It said hi.")));
        assert_eq!((&told["approvals"], &told["calls"]), (&json!([]), &json!([])));
        let progress = handler.progress();
        assert_eq!(progress[0], (1.0, format!("the run {} has started", told["run"].as_str().unwrap())));
        assert!(progress.iter().zip(&progress[1..]).all(|(one, next)| one.0 < next.0), "{progress:?}");

        let again = json!({ "message": "And now?", "thread": told["thread"] });
        let told = structured(&call(&client, "ask", again).await);
        assert_eq!(told["answer"], "Still here.");
        let shown = structured(&call(&client, "get", json!({ "run": told["run"] })).await);
        assert_eq!(shown, told);
        assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn the_tools_are_listed_in_one_order_with_hints_and_schemas() {
    let app = TestApp::start().await;
    for era in ERAS {
        let client = connect(&app, None, "/mcp", (era, TestClient::default())).await;
        let tools = client.list_tools(None).await.unwrap();
        assert_eq!((tools.next_cursor, tools.tools.len()), (None, 8));
        insta::assert_json_snapshot!("mcp_tools", tools.tools);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_repeated_message_under_one_key_is_one_run() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::default())).await;
    let message = json!({ "message": "Once", "idempotencyKey": "k-1" });
    let first = structured(&call(&client, "ask", message.clone()).await);
    let started = structured(&call(&client, "start", message.clone()).await);
    let second = structured(&call(&client, "ask", message).await);
    assert_eq!((&started["run"], &second), (&first["run"], &first));
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
    let other = json!({ "message": "Twice", "idempotencyKey": "k-1" });
    assert!(failure(&call(&client, "start", other).await).starts_with("idempotency_key_reused: "));
    let bad = json!({ "message": "Twice", "idempotencyKey": "ä" });
    assert!(failure(&call(&client, "start", bad).await).starts_with("invalid_idempotency_key: "));
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
    client.cancel().await.unwrap();
}

/// The call is dropped and the server dies in the middle of an answer. The run ends all the same.
#[tokio::test]
async fn a_run_outlives_its_call_and_the_server() {
    for era in ERAS {
        let app = TestApp::start().await;
        let gate = Gate::new();
        app.upstream.script([Reply::stream().text("Half of ").wait(&gate).text("it.")]);
        let client = connect(&app, None, "/mcp", (era, TestClient::default())).await;
        let started =
            structured(&call(&client, "start", json!({ "message": "Go", "idempotencyKey": "a" })).await);
        let (tasks, peer) = (TaskTracker::new(), client.peer().clone());
        let asking = tasks.spawn(async move {
            support::call_peer(&peer, "ask", json!({ "message": "Go", "idempotencyKey": "a" })).await
        });
        let run = started["run"].clone();
        // Until the first half has been stored.
        let mut shown = structured(&call(&client, "get", json!({ "run": run })).await);
        while shown["answer"] != "Half of " {
            shown = structured(&call(&client, "get", json!({ "run": run })).await);
        }
        assert_eq!(shown["status"], "running");
        asking.abort();
        client.cancel().await.unwrap();
        app.upstream.script([Reply::says("All of it.")]);
        let app = app.restart().await;
        gate.open();
        let client = connect(&app, None, "/mcp", (era, TestClient::default())).await;
        let shown = structured(&call(&client, "get", json!({ "run": run, "waitSeconds": 30 })).await);
        assert_eq!((&shown["status"], &shown["answer"]), (&json!("completed"), &json!("All of it.")));
        assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_run_is_cancelled_and_keeps_its_text() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Half of ").stall()]);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::default())).await;
    let started = structured(&call(&client, "start", json!({ "message": "Go" })).await);
    app.upstream.wait_for_requests(1).await;
    let told = structured(&call(&client, "cancel", json!({ "run": started["run"] })).await);
    assert_eq!(told["cancelRequested"], true);
    let shown = structured(&call(&client, "get", json!({ "run": started["run"], "waitSeconds": 30 })).await);
    assert_eq!(shown["status"], "cancelled");
    let message = failure(&call(&client, "get", json!({ "run": started["run"], "waitSeconds": 61 })).await);
    assert_eq!(message, "invalid_request: waitSeconds: must be at most 60");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn memories_are_added_found_and_forgotten() {
    let app = TestApp::start().await;
    let client = connect(&app, None, "/mcp/test", (Era::Old, TestClient::default())).await;
    let added = structured(&call(&client, "add_memory", json!({ "text": "The user sails a dinghy." })).await);
    assert_eq!((&added["isNew"], &added["kind"]), (&json!(true), &json!("fact")));
    let again = structured(&call(&client, "add_memory", json!({ "text": "The user sails a dinghy." })).await);
    assert_eq!((&again["isNew"], &again["id"]), (&json!(false), &added["id"]));
    let query = json!({ "query": "dinghy" });
    let found = structured(&call(&client, "search_memories", query.clone()).await);
    assert_eq!(found["memories"][0]["text"], "The user sails a dinghy.");
    for _ in 0..2 {
        let told = structured(&call(&client, "forget_memory", json!({ "id": added["id"] })).await);
        assert_eq!(told, json!({ "id": added["id"], "forgotten": true }));
    }
    assert_eq!(structured(&call(&client, "search_memories", query).await), json!({ "memories": [] }));
    let key = json!({ "text": format!("The key is sk-proj-{}", "a1B2".repeat(12)) });
    assert!(failure(&call(&client, "add_memory", key).await).starts_with("secret: text: "));
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn files_are_resources_in_pages() {
    let app = TestApp::with(two_apps()).await;
    for number in 0..120 {
        let path = format!("/v1/apps/test/files/notes/{number:03}.md");
        let request = app.request(axum::http::Method::PUT, &path).header("content-type", "text/markdown");
        assert!(app.send(request.body(format!("# {number}\n"))).await.status < 300);
    }
    let request = app.request(axum::http::Method::PUT, "/v1/apps/other/files/%C3%9Cber%20mich.md");
    assert!(app.send(request.header("content-type", "text/markdown").body("Hallo")).await.status < 300);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::default())).await;
    let first = client.list_resources(None).await.unwrap();
    assert_eq!(first.resources.len(), 100);
    assert_eq!(first.resources[0].uri, "rondo://other/files/%C3%9Cber%20mich.md");
    assert_eq!((first.resources[0].size, first.resources[0].name.as_str()), (Some(5), "Über mich.md"));
    let request = PaginatedRequestParams::default().with_cursor(first.next_cursor);
    let second = client.list_resources(Some(request)).await.unwrap();
    assert_eq!((second.resources.len(), second.next_cursor), (21, None));
    assert_eq!(second.resources[20].uri, "rondo://test/files/notes/119.md");

    let read = |uri: &str| client.read_resource(ReadResourceRequestParams::new(uri));
    let text = serde_json::to_value(read(&first.resources[0].uri).await.unwrap().contents).unwrap();
    assert_eq!((&text[0]["text"], &text[0]["mimeType"]), (&json!("Hallo"), &json!("text/markdown")));
    for unknown in
        ["rondo://test/files/none.md", "rondo://none/files/a.md", "rondo://test/files/../a.md", "file:///x"]
    {
        let error = read(unknown).await.unwrap_err().to_string();
        assert!(error.contains("there is no such file"), "{unknown}: {error}");
    }
    let wrong = PaginatedRequestParams::default().with_cursor(Some("?".into()));
    assert!(client.list_resources(Some(wrong)).await.unwrap_err().to_string().contains("cursor"));
    let templates = client.list_resource_templates(None).await.unwrap().resource_templates;
    assert_eq!(templates[0].uri_template, "rondo://{app}/files/{+path}");
    client.cancel().await.unwrap();

    let client = connect(&app, None, "/mcp/other", (Era::Old, TestClient::default())).await;
    assert_eq!(client.list_resources(None).await.unwrap().resources.len(), 1);
    assert!(client.read_resource(ReadResourceRequestParams::new(&second.resources[20].uri)).await.is_err());
    client.cancel().await.unwrap();
}

/// The apps `test` and `other`.
fn two_apps() -> Setup {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    Setup { files, ..Setup::default() }
}

#[tokio::test]
async fn an_app_is_chosen_by_the_path_or_by_the_call() {
    let app = TestApp::with(two_apps()).await;
    app.upstream.program(repeating);
    let client = connect(&app, None, "/mcp", (Era::New, TestClient::default())).await;
    let tools = client.list_tools(None).await.unwrap().tools;
    assert_eq!(tools[0].input_schema["properties"]["app"]["enum"], json!(["other", "test"]));
    let message = failure(&call(&client, "start", json!({ "message": "Hi" })).await);
    assert!(message.starts_with("invalid_request: app: is required"), "{message}");
    let run = structured(&call(&client, "ask", json!({ "message": "Hi", "app": "other" })).await);
    // A thread says which app it is in.
    let next = structured(&call(&client, "ask", json!({ "message": "Hi", "thread": run["thread"] })).await);
    assert_eq!(next["status"], "completed");
    let unknown = failure(&call(&client, "start", json!({ "message": "Hi", "app": "none" })).await);
    assert!(unknown.starts_with("not_found: "), "{unknown}");
    client.cancel().await.unwrap();

    let client = connect(&app, None, "/mcp/test", (Era::Old, TestClient::default())).await;
    let tools = client.list_tools(None).await.unwrap().tools;
    assert_eq!(tools[0].input_schema["properties"].get("app"), None);
    assert!(failure(&call(&client, "get", json!({ "run": run["run"] })).await).starts_with("not_found: "));
    let other = failure(&call(&client, "start", json!({ "message": "Hi", "app": "other" })).await);
    assert_eq!(other, "invalid_request: app: is not the app of this address");
    assert_eq!(structured(&call(&client, "ask", json!({ "message": "Hi" })).await)["status"], "completed");
    client.cancel().await.unwrap();
    good(app.get("/v1/apps").await);
}

#[tokio::test]
async fn a_reading_key_reads_and_does_nothing_else() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (writer, reader) =
        (support::key(&app, "ann", Right::Run).await, support::key(&app, "ann", Right::Read).await);
    let client = connect(&app, Some(&writer), "/mcp", (Era::New, TestClient::default())).await;
    let run = structured(&call(&client, "ask", json!({ "message": "Hi" })).await);
    client.cancel().await.unwrap();
    for era in ERAS {
        let client = connect(&app, Some(&reader), "/mcp", (era, TestClient::default())).await;
        let names: Vec<String> =
            client.list_tools(None).await.unwrap().tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["get", "search_memories"]);
        assert_eq!(structured(&call(&client, "get", json!({ "run": run["run"] })).await), run);
        for (tool, arguments) in [
            ("ask", json!({ "message": "Hi" })),
            ("start", json!({ "message": "Hi" })),
            ("cancel", json!({ "run": run["run"] })),
            ("add_memory", json!({ "text": "The user is here." })),
        ] {
            let message = failure(&call(&client, tool, arguments).await);
            assert_eq!(message, "forbidden: this tool needs the right `run`, which your key does not have");
        }
        client.cancel().await.unwrap();
    }
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
    assert_eq!(app.count("SELECT count(*) FROM memories"), 0);
}
