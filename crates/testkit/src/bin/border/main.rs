//! Shows that tools reach nothing they should not: runs alone in a network namespace whose addresses are all sentinels.
//!
//! `cargo xtask border` makes the namespace and starts this in it. Every address that must not be reached listens and
//! counts; one public address serves redirects; a name server answers what attackers' name servers answer. Then a run
//! calls every address of the corpus as a tool, and any connection to a sentinel fails the whole.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a test, and what it says is what it is for")]

mod corpus;
mod names;
mod sentinels;

use std::process::ExitCode;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Reach, Setup, TestApp};
use tokio_util::task::TaskTracker;

use corpus::{ADDRESSES, OPEN, REDIRECTS};
use sentinels::Sentinels;

/// Times that each address is called, so that a name that changes its answer gets the chance to.
const TIMES: usize = 4;

/// Calls of one step. A run may make no more than these in all.
const CALLS_PER_RUN: usize = 24;

#[tokio::main]
async fn main() -> ExitCode {
    let tasks = TaskTracker::new();
    names::serve(&tasks).await;
    let sentinels = Sentinels::start(&tasks).await;
    let (tools, refused) = declared_tools();
    let setup = Setup {
        app: tools.iter().map(|(name, url)| tool(name, url)).collect::<String>() + EXTRA,
        reach: Reach { allow: vec![OPEN.into()], ..Reach::default() },
        ..Setup::default()
    };
    let app = TestApp::with(setup).await;
    app.service.idle().await; // the servers of tools have been looked for
    let mut calls: Vec<ScriptedCall> = Vec::new();
    for _ in 0..TIMES {
        calls.extend(tools.iter().map(|(name, _)| ScriptedCall::new(name, "{}")));
    }
    for number in 0..REDIRECTS.len() {
        calls.push(ScriptedCall::new("redirected", &json!({ "number": number.to_string() }).to_string()));
        calls.push(ScriptedCall::new("posted", &json!({ "number": number.to_string() }).to_string()));
    }
    calls.push(ScriptedCall::new("allowed", "{}"));
    let made = calls.len();
    let completed = run_all(&app, calls).await;
    let reached = sentinels.reached_addresses();
    println!("addresses   {} ({} of them refused when the app is read)", ADDRESSES.len(), refused);
    println!("redirects   {} by GET and by POST", REDIRECTS.len());
    println!("calls       {made}");
    println!("public      {} connections to the one public host", sentinels.public());
    println!("allowed     {completed} answers, all of the host that the operator has opened");
    println!("sentinels   {} connections", reached.len());
    for sentinel in &reached {
        println!("REACHED     {sentinel}");
    }
    let vacuous = completed != 1 || sentinels.public() == 0;
    if vacuous {
        println!("VACUOUS     what may be reached was not, so nothing is shown");
    }
    if reached.is_empty() && !vacuous { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const EXTRA: &str = r#"
[tool.redirected]
description = "Is sent elsewhere."
effect = "read"
parameters = { type = "object", properties = { number = { type = "string" } }, required = ["number"] }
[tool.redirected.http]
url = "http://public.test/redirect/{{ input.number }}"
headers = { Authorization = "Bearer hush" }

[tool.posted]
description = "Is sent elsewhere."
effect = "idempotent"
parameters = { type = "object", properties = { number = { type = "string" } }, required = ["number"] }
[tool.posted.http]
method = "POST"
url = "http://public.test/redirect/{{ input.number }}"
body = { text = "hush" }

[tool.allowed]
description = "Is open."
effect = "read"
[tool.allowed.http]
url = "http://10.0.0.2:8088/"

[mcp.inner]
url = "http://127.0.0.1:8080/mcp"

[mcp.metadata]
url = "http://169.254.169.254/mcp"

[mcp.rebind]
url = "http://rebind.test/mcp"

[mcp.named]
url = "http://inner.test/mcp"

[loop]
tool_timeout_seconds = 5
max_parallel_tools = 8
"#;

fn tool(name: &str, url: &str) -> String {
    format!(
        "[tool.{name}]\ndescription = \"x\"\neffect = \"read\"\n[tool.{name}.http]\nurl = {}\nretry = false\n",
        json!(url)
    )
}

/// The addresses that an app can be given at all, under names; and how many cannot.
fn declared_tools() -> (Vec<(String, &'static str)>, usize) {
    let good = |url: &&&str| app::UrlTemplate::new(url, app::Names::Call).is_ok();
    let tools: Vec<_> = ADDRESSES
        .iter()
        .filter(good)
        .zip(0..)
        .map(|(url, number)| (format!("reach{number}"), *url))
        .collect();
    let refused = ADDRESSES.len() - tools.len();
    (tools, refused)
}

/// Makes the calls, some in each run. Gives how many of them completed.
async fn run_all(app: &TestApp, calls: Vec<ScriptedCall>) -> usize {
    let mut completed = 0;
    let mut calls = calls.into_iter().peekable();
    while calls.peek().is_some() {
        let step: Vec<ScriptedCall> = calls.by_ref().take(CALLS_PER_RUN).collect();
        let reply = step.into_iter().fold(Reply::stream(), Reply::call);
        app.upstream.script([reply, Reply::says("Done.")]);
        let answer = app.post("/v1/apps/test/runs", &json!({ "message": "Try", "stream": false })).await;
        let results = answer.body.get("toolResults").and_then(Value::as_array).cloned().unwrap_or_default();
        for result in results {
            let success = result.get("success").and_then(Value::as_bool) == Some(true);
            if success && result.get("name").and_then(Value::as_str) != Some("allowed") {
                let name = result.get("name").cloned().unwrap_or_default();
                println!("ANSWERED    {name} {}", result.get("result").cloned().unwrap_or_default());
            }
            completed += usize::from(success);
        }
    }
    completed
}
