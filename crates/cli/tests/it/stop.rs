//! Stopping in good order: SIGTERM once, twice, and the lock on the data folder.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testkit::Method;
use testkit::upstream::Reply;

use crate::process::PATIENCE;
use crate::world::{World, files};

#[tokio::test]
async fn idle_it_stops_on_either_signal() {
    for signal in ["TERM", "INT"] {
        let world = World::new().await;
        let server = world.serve().await;
        let begin = Instant::now();
        server.process.signal(signal);
        let ended = server.process.ended().await;
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
    }
}

/// A server that ends in peace leaves an empty log, and no word of what was deleted right before.
#[tokio::test]
async fn what_was_deleted_right_before_a_stop_is_in_no_file() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("A quokkaanswer."));
    for _ in 0..5 {
        let server = world.serve().await;
        let said = server.say("What is a quokkamessage?").await;
        let thread = said.header("x-thread-id");
        said.all().await;
        // A thread is purged when no job of it is under way.
        let events = format!("/v1/threads/{thread}/events");
        server.follow(&events, 0).await.read_until("thread:named").await;
        let delete = server.request(Method::DELETE, &format!("/v1/threads/{thread}"));
        assert_eq!(delete.send().await.unwrap().status(), 204);
        server.process.signal("TERM");
        assert_eq!(server.process.ended().await.code, Some(0));
        for (file, bytes) in files(&world.path("data")) {
            let held = bytes.windows(6).any(|part| part.eq_ignore_ascii_case(b"quokka"));
            assert!(!held, "{} still has it", file.display());
            let is_log = file.extension().is_some_and(|end| end == "db-wal");
            assert!(!is_log || bytes.is_empty(), "{} bytes are left in the log", bytes.len());
        }
    }
}

/// A request whose body never comes would hold the server back for its second of grace.
#[tokio::test]
async fn a_second_sigterm_ends_it_at_once() {
    let world = World::new().await;
    let server = world.serve().await;
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /studio/stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    slow.write_all(format!("{head}expect: 100-continue\r\ncontent-length: 100\r\n\r\n").as_bytes()).unwrap();
    let mut go_on = [0; 12];
    slow.read_exact(&mut go_on).unwrap(); // the handler waits for the body now
    assert_eq!(&go_on, b"HTTP/1.1 100");
    server.process.signal("TERM");
    server.process.errors.contains("stopping: streams close now").await;
    let begin = Instant::now();
    server.process.signal("TERM");
    let ended = server.process.ended().await;
    assert!(begin.elapsed() < Duration::from_millis(900), "it took {:?}", begin.elapsed());
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("second stop signal"), "{}", ended.errors);
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let world = World::new().await;
    let server = world.serve().await;
    let data = world.path("data");
    let refused = world.run(&["serve"]).await;
    let expected = format!(
        "rondo: the data folder {} is in use by another process; stop it or choose another folder with RONDO_DATA\n",
        data.display()
    );
    assert_eq!((refused.code, refused.errors), (Some(1), expected));
    std::fs::remove_file(data.join("control.json")).unwrap(); // as if it were the server of another chat
    let refused = world.run(&["chat", "Hello"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.errors.ends_with("; if a server is running, give its address with --url\n"),
        "{}",
        refused.errors
    );
    assert_eq!(server.get("/readyz").await.0, 200, "the first goes on");
    server.process.kill();
    world.serve().await; // a lock does not outlive its process
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let world = World::new().await;
    let server = world.serve().await;
    let refused = world.run(&["serve", "--data", "other", "--listen", server.address()]).await;
    let begin = format!("rondo: cannot listen on {}: ", server.address());
    assert_eq!(refused.code, Some(1));
    assert!(refused.errors.starts_with(&begin), "{}", refused.errors);
    assert!(
        refused.errors.ends_with("choose another address with --listen or RONDO_LISTEN\n"),
        "{}",
        refused.errors
    );
}
