//! Over a real socket: the headers, and a turn that goes back to who thought it.

use futures_util::{StreamExt, TryStreamExt};
use protocol::{CallId, Finish};
use serde_json::json;
use testkit::upstream::{Reply, ScriptedCall, Upstream};
use uuid::Uuid;

use crate::{
    AnswerPiece, AnthropicVersion, CallResult, Endpoint, Error, Exchange, ModelRequest, PromptMessage,
    ProviderKey, ProviderWire, Timeouts, connect,
};

fn endpoint(upstream: &Upstream) -> Endpoint {
    Endpoint {
        provider: "scripted".into(),
        base_url: upstream.base_url(),
        key: Some(ProviderKey::new("sk-planted")),
        timeouts: Timeouts::default(),
    }
}

async fn ask(
    upstream: &Upstream,
    version: AnthropicVersion,
    request: &ModelRequest,
) -> Result<Vec<AnswerPiece>, Error> {
    let model = connect(ProviderWire::Anthropic(version), &endpoint(upstream)).unwrap();
    model.stream(request).await?.try_collect().await
}

#[tokio::test]
async fn each_version_has_its_own_headers() {
    for (version, date) in [(AnthropicVersion::V2023, "2023-06-01"), (AnthropicVersion::V2026, "2026-10-21")]
    {
        let upstream = Upstream::start().await;
        upstream.require_key("sk-planted");
        upstream.script([Reply::says("ok").without_usage()]);
        let request = ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]);
        let pieces = ask(&upstream, version, &request).await.unwrap();
        assert_eq!(pieces, [AnswerPiece::Text("ok".into()), AnswerPiece::Finish(Finish::Stop)]);
        let received = &upstream.requests()[0];
        assert_eq!(received.path, "/v1/messages");
        assert_eq!(received.header("anthropic-version"), Some(date));
        let (key, bearer) = (received.header("x-api-key"), received.header("authorization"));
        match version {
            AnthropicVersion::V2023 => assert_eq!((key, bearer), (Some("sk-planted"), None)),
            AnthropicVersion::V2026 => assert_eq!((key, bearer), (None, Some("Bearer sk-planted"))),
        }
    }
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
    let version = AnthropicVersion::V2026;
    let pieces = ask(&upstream, version, &request).await.unwrap();
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
    ask(&upstream, version, &request).await.unwrap();
    let turn = &upstream.requests()[1].body["messages"][1]["content"];
    assert_eq!(turn[0]["type"], "thinking");
    assert_eq!(turn[0]["thinking"], "Hm.");
    assert!(turn[0]["signature"].as_str().is_some_and(|signature| !signature.is_empty()));
    assert_eq!((&turn[1]["text"], &turn[2]["name"]), (&json!("Let me see."), &json!("search")));
}

#[tokio::test]
async fn an_answer_is_the_same_streamed_whole_or_split_anywhere() {
    let reply =
        || Reply::stream().reasoning("Hm.").text("é🎵").call(ScriptedCall::new("a", r#"{"é":"🎵"}"#).id("c"));
    let version = AnthropicVersion::V2026;
    let mut request = ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]);
    let upstream = Upstream::start().await;
    upstream.script([reply(), reply().split_at(0..4000), reply()]);
    let streamed = ask(&upstream, version, &request).await.unwrap();
    assert_eq!(ask(&upstream, version, &request).await.unwrap(), streamed);
    request.stream = false;
    let whole = ask(&upstream, version, &request).await.unwrap();
    assert_eq!(whole, streamed);
}

#[tokio::test]
async fn an_answer_that_was_cut_is_broken() {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("x").without_end()]);
    let model = connect(ProviderWire::Anthropic(AnthropicVersion::V2026), &endpoint(&upstream)).unwrap();
    let request = ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]);
    let pieces: Vec<_> = model.stream(&request).await.unwrap().collect().await;
    let broken = Error::Broken("ended without a finish reason".into());
    assert_eq!(pieces, [Ok(AnswerPiece::Text("x".into())), Err(broken)]);
}
