//! Tools that write, and tools that act outside.

use serde_json::json;
use testkit::Setup;

use crate::model::calls_then;
use crate::stage::{Scenario, sweep};

const PART: &str = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],
    "additionalProperties":false}"#;

fn acts() -> Setup {
    Setup::app(
        "tools = [\"act_read\", \"act_idempotent\", \"act_reversible\", \"act_irreversible\", \"echo\"]",
    )
}

/// Sweeps a run that makes these calls in one step.
async fn calling(scenario: Scenario) {
    sweep(scenario, async |client| {
        client.turn("send", "Do it").await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_writes_records() {
    let setup = || Setup {
        files: vec![("records/part.json".into(), PART.into())],
        ..Setup::app("[tool.addPart]\nrecord = \"part\"\ndoes = \"create\"\n")
    };
    let scenario = Scenario::new("tool that writes records", setup, 29).says(|request, _| {
        let calls = [("addPart", r#"{"name":"Critic"}"#), ("addPart", r#"{"name":"Guide"}"#)];
        calls_then(request, &calls, "Added.")
    });
    calling(scenario).await;
}

#[tokio::test]
async fn a_tool_that_writes_files() {
    let scenario = Scenario::new("tool that writes files", || Setup::app("tools = [\"markdown\"]"), 26).says(
        |request, _| {
            let calls = [
                ("createMarkdownFile", r##"{"path":"a.md","content":"# One\n"}"##),
                ("createMarkdownFile", r##"{"path":"b.md","content":"# Two\n"}"##),
            ];
            calls_then(request, &calls, "Written.")
        },
    );
    calling(scenario).await;
}

#[tokio::test]
async fn a_tool_that_writes_memories() {
    let setup = || Setup::app("tools = [\"memory\"]\n[memory]\ninject = \"all\"");
    let scenario = Scenario::new("tool that writes memories", setup, 24).says(|request, _| {
        calls_then(request, &[("save_memory", r#"{"text":"Likes green tea."}"#)], "I will remember.")
    });
    calling(scenario).await;
}

#[tokio::test]
async fn a_tool_that_reads_outside() {
    let scenario = Scenario::new("reads outside", acts, 26)
        .says(|request, _| calls_then(request, &[("act_read", r#"{"n":1}"#)], "Read."));
    calling(scenario).await;
}

/// A value that nests so deep that it could not be read back is neither run nor stored as it is.
#[tokio::test]
async fn arguments_and_results_that_nest_as_deep_as_a_parser_takes() {
    let setup = || Setup::app("tools = [\"act_idempotent\", \"deep\", \"echo\"]");
    let scenario = Scenario::new("nested", setup, 30).says(|request, _| {
        let nested = |levels| format!("{{\"a\":{}}}", testkit::nested_text(levels));
        let (most, fits) = (nested(123), nested(60));
        let calls = [("act_idempotent", most.as_str()), ("act_idempotent", fits.as_str()), ("deep", "{}")];
        calls_then(request, &calls, "Nested.")
    });
    calling(scenario).await;
}

#[tokio::test]
async fn a_tool_outside_that_can_be_repeated() {
    let scenario = Scenario::new("idempotent outside", acts, 25)
        .says(|request, _| calls_then(request, &[("act_idempotent", r#"{"n":1}"#)], "Put."));
    calling(scenario).await;
}

#[tokio::test]
async fn a_tool_outside_that_cannot_be_repeated() {
    let scenario = Scenario::new("irreversible outside", acts, 24)
        .says(|request, _| calls_then(request, &[("act_irreversible", r#"{"n":1}"#)], "Paid."));
    // A call that was cut is of an unknown end.
    calling(Scenario { ignoring: &["results", "actions"], ..scenario }).await;
}

#[tokio::test]
async fn a_tool_outside_that_could_be_taken_back() {
    let scenario = Scenario::new("reversible outside", acts, 24)
        .says(|request, _| calls_then(request, &[("act_reversible", r#"{"n":1}"#)], "Booked."));
    calling(Scenario { ignoring: &["results", "actions"], ..scenario }).await;
}

/// Calls that were not made yet follow words from outside after a death, and may do so.
fn free() -> Setup {
    Setup::app(
        "tools = [\"act_irreversible\", \"act_idempotent\", \"echo\"]
[tool.act_irreversible]
policy = \"allow\"
[[tool.act_irreversible.flow]]
[tool.act_idempotent]
policy = \"allow\"
[[tool.act_idempotent.flow]]
",
    )
}

#[tokio::test]
async fn several_tools_outside_at_once() {
    let scenario = Scenario::new("several outside", free, 32).says(|request, _| {
        let calls = [
            ("act_irreversible", r#"{"n":1}"#),
            ("act_irreversible", r#"{"n":2}"#),
            ("act_idempotent", r#"{"n":3}"#),
            ("echo", r#"{"text":"x"}"#),
        ];
        calls_then(request, &calls, "All done.")
    });
    calling(Scenario { ignoring: &["results", "actions"], ..scenario }).await;
}

#[tokio::test]
async fn a_proposal_that_outlives_its_run() {
    let setup = || Setup::app("tools = [\"markdown\", \"proposals\"]");
    let scenario = Scenario::new("createProposal", setup, 25).says(|request, _| {
        let file = json!({ "path": "a.md", "content": "# One\n" });
        let input = json!({ "tool": "createMarkdownFile", "input": file }).to_string();
        calls_then(request, &[("createProposal", &input)], "Proposed.")
    });
    sweep(scenario, async |client| {
        client.turn("send", "Propose it").await?;
        let open = client.get("/v1/apps/test/proposals").await?["data"][0]["id"].clone();
        let path = format!("/v1/proposals/{}/confirm", open.as_str().expect("a proposal"));
        client.post("confirm", &path, &json!({})).await?;
        Ok(())
    })
    .await;
}
