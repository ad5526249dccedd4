//! Over a real socket: a turn that goes back to who thought it, and the ways an answer can travel.

use futures_util::TryStreamExt;
use protocol::{CallId, Finish};
use serde_json::json;
use testkit::upstream::{Reply, ScriptedCall, Upstream};
use uuid::Uuid;

use crate::{
    AnswerPiece, CallResult, Endpoint, Error, Exchange, ModelRequest, PromptMessage, ProviderWire, Timeouts,
    connect,
};

async fn ask(upstream: &Upstream, request: &ModelRequest) -> Result<Vec<AnswerPiece>, Error> {
    let endpoint = Endpoint {
        provider: "scripted".into(),
        base_url: upstream.base_url(),
        key: None,
        timeouts: Timeouts::default(),
    };
    connect(ProviderWire::Responses, &endpoint).unwrap().stream(request).await?.try_collect().await
}

#[tokio::test]
async fn what_it_thought_before_a_call_is_returned_with_the_result() {
    let upstream = Upstream::start().await;
    upstream.script([
        Reply::stream()
            .reasoning("Hm.")
            .text("Let me see.")
            .call(ScriptedCall::new("search", r#"{"query":"x"}"#)),
        Reply::says("Done."),
    ]);
    let mut request = ModelRequest::new("m", "Be brief.", vec![PromptMessage::User("hello".into())]);
    let pieces = ask(&upstream, &request).await.unwrap();
    assert_eq!(pieces.last(), Some(&AnswerPiece::Finish(Finish::ToolCalls)));
    let opaque = |piece| if let AnswerPiece::Provider(opaque) = piece { Some(opaque) } else { None };
    let provider = pieces.into_iter().find_map(opaque);
    let exchange = Exchange {
        id: CallId::new(Uuid::from_u128(1)),
        name: "search".into(),
        input: json!({"query": "x"}),
        result: CallResult { text: "found".into(), success: true },
    };
    let text = "Let me see.".into();
    request.messages.push(PromptMessage::Assistant { text, exchanges: vec![exchange], provider });
    ask(&upstream, &request).await.unwrap();
    let received = &upstream.requests()[1];
    assert_eq!(received.path, "/v1/responses");
    let input = &received.body["input"];
    assert_eq!((&input[1]["content"], &input[3]["name"]), (&json!("Let me see."), &json!("search")));
    assert_eq!((&input[2]["type"], &input[2]["summary"][0]["text"]), (&json!("reasoning"), &json!("Hm.")));
    assert!(input[2]["encrypted_content"].as_str().is_some_and(|sealed| !sealed.is_empty()));
}

#[tokio::test]
async fn an_answer_is_the_same_streamed_whole_or_split_anywhere() {
    let reply =
        || Reply::stream().reasoning("Hm.").text("é🎵").call(ScriptedCall::new("a", r#"{"é":"🎵"}"#).id("c"));
    let mut request = ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]);
    let upstream = Upstream::start().await;
    upstream.script([reply(), reply().split_at(0..4000), reply()]);
    let streamed = ask(&upstream, &request).await.unwrap();
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
    request.stream = false;
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
}
