//! The bytes of a stream on the wire: for all kinds of rows, and for each kind of end.

use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use http_body_util::BodyExt;
use protocol::{ThreadId, UserId};
use service::{Error, StreamAccess};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::event_stream::{StreamSetting, body};
use crate::stream_permits::StreamPermits;

fn stored(seq: u64, kind: &'static str, body: &str) -> Arc<Stored> {
    let thread: ThreadId = "thr_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1".parse().unwrap();
    Arc::new(Stored { thread, seq, run: None, kind: kind.into(), body: body.into() })
}

fn encoded(batch: &[Arc<Stored>]) -> String {
    String::from_utf8(encode(batch).to_vec()).unwrap()
}

fn setting(streams: &StreamPermits, shutdown: &CancellationToken) -> StreamSetting {
    StreamSetting {
        access: StreamAccess::without_end(shutdown, Arc::new(protocol::SystemClock)),
        heartbeat: Duration::from_secs(15),
        shutdown: shutdown.clone(),
        permit: streams.permit(&UserId::new("ann"), 1).unwrap(),
    }
}

async fn chunk(body: &mut Body) -> Option<String> {
    let bytes = body.frame().await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn assert_retry(chunk: Option<String>) {
    let chunk = chunk.unwrap();
    let wait = chunk.strip_prefix("retry: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
    assert!(RETRY_MS.contains(&wait.parse().unwrap()), "{chunk:?}");
}

#[test]
fn a_batch_is_one_buffer_of_frames() {
    let batch = [
        stored(1, "message:user", r#"{"text":"hé \n"}"#),
        stored(u64::MAX, "text:delta", r#"{"step":1,"delta":"a"}"#),
    ];
    assert_eq!(
        encoded(&batch),
        concat!(
            "event: message:user\nid: 1\ndata: {\"text\":\"hé \\n\"}\n\n",
            "event: text:delta\nid: 18446744073709551615\ndata: {\"step\":1,\"delta\":\"a\"}\n\n",
        )
    );
    assert_eq!(encoded(&[]), "");
}

#[test]
fn a_corrupt_row_cannot_pass_for_another_event() {
    let batch =
        [stored(7, "text:delta\nid: 99\r", "{\n\nevent: run:end\rid: 8\r\ndata: x"), stored(8, "", "")];
    let wire = encoded(&batch);
    assert_eq!(
        wire,
        concat!(
            "event: text:deltaid: 99\nid: 7\n",
            "data: {\ndata: \ndata: event: run:end\ndata: id: 8\ndata: \ndata: data: x\n\n",
            "event: \nid: 8\ndata: \n\n",
        )
    );
}

#[test]
fn a_buffer_is_reserved_once() {
    let batch: Vec<_> =
        (0..100).map(|seq| stored(seq, "text:delta", "{\"step\":1,\"delta\":\"hello\"}")).collect();
    let reserved = batch.len() * (FRAME_BYTES + MAX_NUMBER_BYTES + "text:delta".len() + 26);
    assert!(encode(&batch).len() <= reserved);
}

#[tokio::test]
async fn a_stream_ends_with_its_events_and_gives_its_permit_back() {
    let (streams, shutdown) = (StreamPermits::default(), CancellationToken::new());
    let events = stream::iter([Ok(vec![stored(1, "a", "{}")]), Ok(vec![stored(2, "b", "{}")])]);
    let mut body = body(events, LogFrames, setting(&streams, &shutdown));
    assert_retry(chunk(&mut body).await);
    assert_eq!(chunk(&mut body).await.as_deref(), Some("event: a\nid: 1\ndata: {}\n\n"));
    assert_eq!(chunk(&mut body).await.as_deref(), Some("event: b\nid: 2\ndata: {}\n\n"));
    assert_eq!(chunk(&mut body).await, None);
    drop(body);
    assert!(streams.permit(&UserId::new("ann"), 1).is_some());
}

#[tokio::test]
async fn an_error_ends_the_stream() {
    let (streams, shutdown) = (StreamPermits::default(), CancellationToken::new());
    let events = stream::iter([Err(Error::Internal), Ok(vec![stored(1, "a", "{}")])]);
    let mut body = body(events, LogFrames, setting(&streams, &shutdown));
    assert_retry(chunk(&mut body).await);
    assert_eq!(chunk(&mut body).await, None);
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_a_comment() {
    let (streams, shutdown) = (StreamPermits::default(), CancellationToken::new());
    let mut body = body(stream::pending(), LogFrames, setting(&streams, &shutdown));
    assert_retry(chunk(&mut body).await);
    let start = Instant::now();
    assert_eq!(chunk(&mut body).await.as_deref(), Some(": keep-alive\n\n"));
    assert_eq!(chunk(&mut body).await.as_deref(), Some(": keep-alive\n\n"));
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn a_server_that_stops_says_when_to_come_back() {
    let (streams, shutdown) = (StreamPermits::default(), CancellationToken::new());
    let mut body = body(stream::pending(), LogFrames, setting(&streams, &shutdown));
    assert_retry(chunk(&mut body).await);
    shutdown.cancel();
    assert_retry(chunk(&mut body).await);
    assert_eq!(chunk(&mut body).await, None);
}
