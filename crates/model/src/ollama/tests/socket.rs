//! Over a real socket: the ways an answer can travel.

use futures_util::TryStreamExt;
use protocol::Finish;
use testkit::upstream::{Reply, ScriptedCall, Upstream};

use crate::{AnswerPiece, Endpoint, Error, ModelRequest, PromptMessage, ProviderWire, Timeouts, connect};

async fn ask(upstream: &Upstream, request: &ModelRequest) -> Result<Vec<AnswerPiece>, Error> {
    let endpoint = Endpoint {
        provider: "scripted".into(),
        base_url: upstream.root_url(),
        key: None,
        timeouts: Timeouts::default(),
    };
    connect(ProviderWire::Ollama, &endpoint).unwrap().stream(request).await?.try_collect().await
}

#[tokio::test]
async fn an_answer_is_the_same_streamed_whole_or_split_anywhere() {
    let reply =
        || Reply::stream().reasoning("Hm.").text("é🎵").call(ScriptedCall::new("a", r#"{"é":"🎵"}"#).id("c"));
    let mut request = ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())]);
    let upstream = Upstream::start().await;
    upstream.script([reply(), reply().split_at(0..1000), reply()]);
    let streamed = ask(&upstream, &request).await.unwrap();
    assert_eq!(streamed.last(), Some(&AnswerPiece::Finish(Finish::ToolCalls)));
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
    request.stream = false;
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
    assert_eq!(upstream.requests()[2].path, "/api/chat");
}
