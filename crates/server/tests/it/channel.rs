//! The thread's channel: one sequence without gaps, the same for all readers (S1, S2).

use protocol::Stored;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Frames, TestApp};

use crate::support::{Names, RUNS, THREADS, good, patch, say, say_in, status_of};

async fn take(stream: &mut Frames, count: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    for _ in 0..count {
        frames.push(stream.next().await.expect("a channel does not end"));
    }
    frames
}

#[tokio::test]
async fn s1_every_client_of_a_thread_sees_the_same_gapless_sequence() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::says("One."),
        Reply::stream()
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
            .call(ScriptedCall::new("echo", r#"{"text":"b"}"#)),
        Reply::says("Two."),
        Reply::status(401).error("invalid_request_error", None, "no"),
        Reply::says("Four."),
    ]);
    let titled = json!({ "title": "First" }); // or it would be named in the background
    let thread = good(app.post(THREADS, &titled).await)["id"].as_str().unwrap().to_owned();
    let channel = format!("/v1/threads/{thread}/events");
    let (mut one, mut two) = (app.follow(&channel, None).await, app.follow(&channel, Some(0)).await);

    let mut of_runs = Vec::new();
    for message in ["A", "B", "C"] {
        let body = json!({ "message": message, "threadId": thread });
        of_runs.extend(app.stream(RUNS, &body).await.all().await);
    }
    good(patch(&app, &format!("/v1/threads/{thread}"), &json!({ "title": "Named" })).await);
    let body = json!({ "message": "D", "threadId": thread });
    let last_run = app.stream(RUNS, &body).await.all().await;

    let last = good(app.get(&format!("/v1/threads/{thread}")).await)["lastSeq"].as_u64().unwrap();
    assert_eq!(last_run.last().map(|frame| frame.id), Some(last));
    let count = usize::try_from(last).unwrap();
    let seen = take(&mut one, count).await;
    assert_eq!(seen, take(&mut two, count).await);
    assert_eq!(seen.iter().map(|frame| frame.id).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());

    // The runs' own streams, with the one event that belongs to no run, are the channel.
    let named = seen.iter().find(|frame| frame.event == "thread:named").unwrap().clone();
    let all = [of_runs, vec![named], last_run].concat();
    assert_eq!(seen, all);

    // A reader that comes late begins where it says.
    for after in [1, last / 2, last - 1] {
        let mut late = app.follow(&channel, Some(after)).await;
        let rest = &seen[usize::try_from(after).unwrap()..];
        assert_eq!(take(&mut late, rest.len()).await, rest);
    }
}

/// Take `lastSeq` of the thread as `?after=` to see only what is new.
#[tokio::test]
async fn a_client_that_begins_at_the_head_sees_only_what_is_new() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Old."), Reply::says("New.")]);
    let names = say(&app, "A").await;
    let head = good(app.get(&names.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let mut at_head = app.follow(&format!("{}?after={head}", names.channel_path()), None).await;
    let mut past_it = app.follow(&names.channel_path(), Some(head + 1_000)).await;
    let stream = app.stream(RUNS, &json!({ "message": "B", "threadId": names.thread })).await;
    let run = stream.all().await;
    assert_eq!(run[0].id, head + 1);
    assert_eq!(take(&mut at_head, run.len()).await, run);
    assert_eq!(take(&mut past_it, run.len()).await, run);
}

#[tokio::test]
async fn the_threads_of_others_are_not_heard() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    let (here, there) = (say(&app, "A").await, say(&app, "B").await);
    let head = good(app.get(&here.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let mut channel = app.follow(&here.channel_path(), Some(head)).await;
    say_in(&app, &there.thread, "Elsewhere").await;
    say_in(&app, &here.thread, "Here").await;
    assert_eq!(channel.next().await.unwrap().data["text"], "Here");
}

/// S2: no event leaves before it is committed. A second connection to the database sees only what is.
#[tokio::test]
async fn s2_every_event_is_in_the_database_when_it_arrives() {
    let app = TestApp::start().await;
    let words = (0..60).fold(Reply::stream(), |reply, number| reply.text(&format!("w{number} ")));
    app.upstream.script([
        Reply::stream().reasoning("Hm.").call(ScriptedCall::new("echo", r#"{"text":"a"}"#).fragments(2)),
        words,
    ]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut seen = Vec::new();
    while let Some(frame) = stream.next().await {
        let of_frame = |event: &Stored| event.thread.to_string() == names.thread && event.seq == frame.id;
        let stored = app.stored_log().into_iter().find(of_frame).expect("an event that was sent is stored");
        assert_eq!(
            (&*stored.kind, serde_json::from_str::<Value>(&stored.body).unwrap()),
            (&*frame.event, frame.data.clone())
        );
        seen.push(frame);
    }
    assert_eq!(status_of(&seen), "completed");
}

/// S2: an answer to a request is given after its commit, too.
#[tokio::test]
async fn s2_what_the_headers_name_is_in_the_database() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::silence()]);
    let stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let run = names.run.strip_prefix("run_").unwrap();
    let sql =
        format!("SELECT count(*) FROM runs r JOIN messages m ON m.id = r.message WHERE r.id = x'{run}'");
    assert_eq!(app.count(&sql), 1);
}
