//! OpenAI's own clients and `LangChain`, with Chat Completions and Responses.

use crate::process::Process;
use crate::{Stage, check_all, check_kill, judge, node, python};

const CHAT: &str = "OpenAI Chat Completions";
const RESPONSES: &str = "OpenAI Responses";

#[tokio::test]
async fn chat_completions_with_openai_for_node() {
    check_all(CHAT, |url| node("openai_chat.mjs", &["all", url])).await;
}

#[tokio::test]
async fn chat_completions_with_openai_for_python() {
    check_all(CHAT, |url| python("openai_chat.py", &["all", url])).await;
}

#[tokio::test]
async fn chat_completions_with_langchain() {
    check_all(CHAT, |url| python("langchain_chat.py", &["all", url])).await;
}

/// The clients begin before there is a server.
#[tokio::test]
async fn clients_repeat_requests_until_the_server_is_there() {
    let stage = Stage::new().await;
    let url = stage.url();
    let commands = [
        node("openai_chat.mjs", &["retry", &url]),
        python("openai_chat.py", &["retry", &url]),
        python("langchain_chat.py", &["retry", &url]),
    ];
    let mut clients = Vec::new();
    for mut command in commands {
        let client = Process::start(&mut command);
        client.errors.line("asking").await;
        clients.push(client);
    }
    let _server = stage.serve().await;
    for client in clients {
        judge(CHAT, client).await;
    }
}

#[tokio::test]
async fn responses_with_openai_for_node() {
    check_all(RESPONSES, |url| node("responses.mjs", &["all", url])).await;
}

#[tokio::test]
async fn responses_with_openai_for_python() {
    check_all(RESPONSES, |url| python("responses.py", &["all", url])).await;
}

#[tokio::test]
async fn a_response_survives_the_death_of_its_server_for_node() {
    check_kill(RESPONSES, |url| node("responses.mjs", &["kill", url])).await;
}

#[tokio::test]
async fn a_response_survives_the_death_of_its_server_for_python() {
    check_kill(RESPONSES, |url| python("responses.py", &["kill-sync", url])).await;
    check_kill(RESPONSES, |url| python("responses.py", &["kill-async", url])).await;
}
