//! Over a real socket: the ways an answer can travel.

use futures_util::TryStreamExt;
use protocol::Finish;
use testkit::upstream::{Call, Reply, Upstream};

use crate::{Endpoint, Error, Message, Piece, Request, Timeouts, Wire, connect};

async fn ask(upstream: &Upstream, request: &Request) -> Result<Vec<Piece>, Error> {
    let endpoint = Endpoint {
        provider: "scripted".into(),
        base_url: upstream.root_url(),
        key: None,
        timeouts: Timeouts::default(),
    };
    connect(Wire::Ollama, &endpoint).unwrap().stream(request).await?.try_collect().await
}

#[tokio::test]
async fn an_answer_is_the_same_streamed_whole_or_split_anywhere() {
    let reply = || Reply::stream().reasoning("Hm.").text("é🎵").call(Call::new("a", r#"{"é":"🎵"}"#).id("c"));
    let mut request = Request::new("m", "", vec![Message::User("hello".into())]);
    let upstream = Upstream::start().await;
    upstream.script([reply(), reply().split_at(0..1000), reply()]);
    let streamed = ask(&upstream, &request).await.unwrap();
    assert_eq!(streamed.last(), Some(&Piece::Finish(Finish::ToolCalls)));
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
    request.stream = false;
    assert_eq!(ask(&upstream, &request).await.unwrap(), streamed);
    assert_eq!(upstream.requests()[2].path, "/api/chat");
}
