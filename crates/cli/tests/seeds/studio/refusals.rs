//! Calls that are refused: which events each kind of refusal has, as docs/api.md says.

use reqwest::Method;
use testkit::upstream::ScriptedCall;

use super::*;
use crate::world::send;

const PATH: &str = "a.md";

/// Studio with a tool that is denied, one that asks, one that looks before it runs, and a model that gets none.
async fn with_more_tools() -> (Product, Server) {
    let product = Product::new("studio").await;
    let path = product.world.path("apps/studio/app.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let tools = r#"tools = ["current_time", "calculate""#;
    assert!(text.contains(tools));
    let more = format!(r#"{tools}, "undo", "save_memory", "createMarkdownFile""#);
    let rules = "[tool.save_memory]\npolicy = \"deny\"\n\n[tool.createMarkdownFile]\nconfirm = true\n";
    std::fs::write(&path, format!("{}\n{rules}", text.replace(tools, &more))).unwrap();
    product.world.write("rondo.toml", "[models.bare]\nkind = 'local'\n");
    let server = product.serve().await;
    (product, server)
}

/// A model that answers with this, and then is content.
fn plays(product: &Product, reply: Reply) {
    product.upstream().script([reply, Reply::says("So be it.")]);
}

/// How often a call was announced, and how it ended: status and error.
fn told(frames: &[Frame]) -> (usize, Vec<(String, String)>) {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ended = |end: &&Value| (word(&end["status"]), word(&end["output"]["error"]));
    (of(frames, "tool:start").len(), of(frames, "tool:complete").iter().map(ended).collect())
}

fn refused(status: &str, error: &str) -> (usize, Vec<(String, String)>) {
    (0, vec![(status.to_owned(), error.to_owned())])
}

fn note() -> (&'static str, Value) {
    ("createMarkdownFile", json!({ "path": PATH, "content": "A note." }))
}

#[tokio::test]
async fn a_call_that_is_refused_at_once_has_a_result_and_no_start() {
    let (product, server) = with_more_tools().await;
    let nobodys = json!({ "actionId": "act_00000000000000000000000000000001" });
    for (reply, model, status, error) in [
        (calls(&[("run_shell", json!({}))]), None, "failed", "unknown_tool"),
        (calls(&[("calculate", json!({ "expression": "1 + 1" }))]), Some("bare"), "denied", "not_offered"),
        (
            Reply::stream().call(ScriptedCall::new("calculate", "{not json")),
            None,
            "failed",
            "invalid_arguments",
        ),
        (calls(&[("calculate", json!({ "sum": 1 }))]), None, "failed", "invalid_arguments"),
        (calls(&[("undoAction", nobodys)]), None, "failed", "not_found"),
        (calls(&[("save_memory", json!({ "text": "Likes tea." }))]), None, "denied", "denied"),
    ] {
        plays(&product, reply);
        let mut body = json!({ "message": "Please" });
        body["model"] = json!(model);
        let frames = server.stream(STREAM, &body).await.all().await;
        assert_eq!(told(&frames), refused(status, error), "{frames:?}");
        assert_eq!(answer(&frames), "So be it.");
    }
}

#[tokio::test]
async fn a_call_that_needs_a_yes_starts_only_after_it() {
    for (decision, expected) in [
        ("confirm", (1, vec![("complete".to_owned(), String::new())])),
        ("reject", refused("denied", "rejected")),
    ] {
        let (product, server) = with_more_tools().await;
        plays(&product, calls(&[note()]));
        let mut stream = server.stream(STREAM, &json!({ "message": "Note it" })).await;
        let mut frames = stream.read_until("proposal:open").await;
        assert_eq!(told(&frames), (0, Vec::new()), "nothing before the user has spoken");
        let id = frames.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
        let decide = format!("/v1/proposals/{id}/{decision}");
        assert_eq!(send(server.request(Method::POST, &decide)).await.0, 200);
        frames.extend(stream.all().await);
        assert_eq!(told(&frames), expected, "{decision}");
        assert_eq!(of(&frames, "proposal:closed").len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_the_end_of_its_run_left_has_a_result_and_no_start() {
    let (product, server) = with_more_tools().await;
    plays(&product, calls(&[note()]));
    let mut stream = server.stream(STREAM, &json!({ "message": "Note it" })).await;
    let mut frames = stream.read_until("proposal:open").await;
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap().to_owned();
    assert_eq!(send(server.request(Method::POST, &format!("/v1/runs/{run}/cancel"))).await.0, 202);
    frames.extend(stream.all().await);
    let (starts, ended) = told(&frames);
    assert_eq!((starts, ended.len(), ended[0].0.as_str()), (0, 1, "cancelled"), "{frames:?}");
}

#[tokio::test]
async fn calls_beyond_a_bound_are_told_as_the_page_says() {
    let (product, server) = with_more_tools().await;
    product.upstream().program(|request| match request.get("tools") {
        Some(_) => calls(&[("calculate", json!({ "expression": "6 * 7" }))]),
        None => calls(&[("calculate", json!({ "expression": "6 * 7" }))]).text("Enough."),
    });
    let frames = say(&server, None, "Go on").await;
    let (starts, ended) = told(&frames);
    assert_eq!((starts, ended.len()), (4, 5));
    assert_eq!(ended[4], ("denied".to_owned(), "loop_detected".to_owned()));
    let last = of(&frames, "step:end").pop().unwrap();
    assert_eq!(
        (&last["calls"], &last["text"]),
        (&json!([]), &json!("Enough.")),
        "asked for words, it called"
    );

    product.upstream().program(|request| {
        let turns = request["messages"].as_array().unwrap().len();
        let call =
            |number: usize| ("calculate", json!({ "expression": format!("{turns} * 100 + {number}") }));
        match request.get("tools") {
            Some(_) => calls(&(0..40).map(call).collect::<Vec<_>>()),
            None => Reply::says("Enough."),
        }
    });
    let frames = say(&server, None, "Go on").await;
    let first = of(&frames, "step:end")[0];
    assert_eq!((first["calls"].as_array().unwrap().len(), &first["dropped"][0]), (32, &json!("calculate")));
    let (starts, ended) = told(&frames);
    let beyond = ("denied".to_owned(), "too_many_calls".to_owned());
    assert_eq!((starts, ended.iter().filter(|end| **end == beyond).count()), (200, ended.len() - 200));
    assert!(ended.len() > 200, "{}", ended.len());
}
