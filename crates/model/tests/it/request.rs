//! What is sent, as the provider reads it. The upstream has checked each of these as strictly as OpenAI would.

use model::openai::{Quirks, TokenLimit};
use model::{Answered, ChatModel, Exchange, Message, Request, ToolSpec};
use protocol::{CallId, Settings};
use serde_json::{Value, json};
use testkit::upstream::{Reply, Upstream};
use uuid::Uuid;

use crate::support::{PATIENT, client, hello};

async fn sent(request: &Request, quirks: Option<Quirks>) -> Value {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("ok")]);
    let mut client = client(&upstream, PATIENT);
    if let Some(quirks) = quirks {
        client = client.with_quirks(quirks);
    }
    client.stream(request).await.map(drop).unwrap();
    let requests = upstream.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-planted"));
    assert_eq!(requests[0].header("accept-encoding"), None);
    requests[0].body.clone()
}

fn exchange(id: u128, input: Value, result: &str, success: bool) -> Exchange {
    Exchange {
        id: CallId::new(Uuid::from_u128(id)),
        name: "calculate".into(),
        input,
        result: Answered { text: result.into(), success },
    }
}

fn conversation() -> Request {
    let assistant =
        |text: &str, exchanges, provider| Message::Assistant { text: text.into(), exchanges, provider };
    let signature = json!({"google": {"thought_signature": "c2ln"}});
    Request {
        model: "gpt-x".into(),
        system: "Be brief.".into(),
        messages: vec![
            Message::User("What is 2+2, and 1/0?".into()),
            assistant(
                "",
                vec![
                    exchange(1, json!({"expression": "2+2", "note": "a \"quote\"\n"}), "4", true),
                    exchange(2, json!({"expression": "1/0"}), "error: division by zero", false),
                ],
                Some(json!({"provider": "scripted", "extra": {"1": signature}})),
            ),
            assistant(
                "Once more.",
                vec![exchange(3, Value::Null, "6", true)],
                Some(json!({"provider": "another", "extra": {"0": signature}})),
            ),
            assistant("4, and there is no answer.", vec![], None),
            Message::User("Thanks".into()),
        ],
        tools: [
            ToolSpec {
                name: "calculate".into(),
                description: "Evaluates an expression.".into(),
                parameters: json!({
                    "type": "object",
                    "properties": {"expression": {"type": "string"}},
                    "required": ["expression"],
                }),
            },
            ToolSpec {
                name: "now".into(),
                description: String::new(),
                parameters: json!({"type": "object"}),
            },
        ]
        .into(),
        settings: Settings { temperature: Some(0.5), max_tokens: Some(100), top_p: Some(0.9) },
    }
}

#[tokio::test]
async fn a_bare_question() {
    insta::assert_json_snapshot!(sent(&hello(), None).await);
}

#[tokio::test]
async fn a_conversation_with_tools() {
    insta::assert_json_snapshot!(sent(&conversation(), None).await);
}

#[tokio::test]
async fn the_limit_has_another_name_at_openai() {
    let quirks = Quirks { token_limit: TokenLimit::MaxCompletionTokens };
    let body = sent(&conversation(), Some(quirks)).await;
    assert_eq!(body.get("max_completion_tokens"), Some(&json!(100)));
    assert_eq!(body.get("max_tokens"), None);
}

#[tokio::test]
async fn the_same_request_has_the_same_bytes() {
    let (one, other) = (sent(&conversation(), None).await, sent(&conversation(), None).await);
    assert_eq!(one.to_string(), other.to_string());
}
