//! The clients of MCP in both eras of the protocol, and its conformance suite.

use std::process::Command;

use reqwest::Method;

use crate::process::Process;
use crate::world::{Server, send};
use crate::{Stage, check_kill, judge, node, python};

const MCP: &str = "MCP";

/// A server with a file, which its clients read.
async fn check_with_file(driver: impl FnOnce(&str) -> Command) {
    let stage = Stage::new().await;
    let server = stage.serve().await;
    put_file(&server).await;
    judge(MCP, Process::start(&mut driver(&stage.url()))).await;
}

async fn put_file(server: &Server) {
    let request = server.request(Method::PUT, "/v1/apps/demo/files/notes.md");
    let request = request.header("content-type", "text/markdown").body("# Notes\n\nThe lamp is green.");
    assert_eq!(send(request).await.0, 200);
}

#[tokio::test]
async fn the_client_of_the_first_generation() {
    check_with_file(|url| node("mcp.mjs", &["sdk", "all", url])).await;
}

#[tokio::test]
async fn the_client_of_the_second_generation_in_both_eras() {
    check_with_file(|url| node("mcp.mjs", &["client", "all", url])).await;
    check_with_file(|url| node("mcp.mjs", &["modern", "all", url])).await;
}

#[tokio::test]
async fn the_client_for_python_in_both_eras() {
    check_with_file(|url| python("mcp_client.py", &["legacy", "all", url])).await;
    check_with_file(|url| python("mcp_client.py", &["modern", "all", url])).await;
}

#[tokio::test]
async fn a_run_survives_the_death_of_its_server() {
    for client in ["sdk", "client", "modern"] {
        check_kill(MCP, |url| node("mcp.mjs", &[client, "kill", url])).await;
    }
    for era in ["legacy", "modern"] {
        check_kill(MCP, |url| python("mcp_client.py", &[era, "kill", url])).await;
    }
}

#[tokio::test]
async fn the_conformance_suite() {
    check_with_file(|url| node("conformance.mjs", &["all", url])).await;
}
