//! Texts beside the log: in their scope, in the order asked for, and never longer there than what they come from.

use protocol::{Ids, RunStatus, Scope};
use store::{Error, MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, NewMemoryRow, NewPinRow, NewText, Target, Write};

use super::{elsewhere, is_kept, keep, loaded, text};
use crate::support::{Fixture, after, call, end, principal, result, scope, step_end};

fn named(source: &str, number: u8) -> (String, [u8; 16]) {
    (source.to_owned(), [number; 16])
}

async fn memory(fixture: &Fixture, scope: &Scope) -> protocol::MemoryId {
    let id = fixture.ids.memory();
    let memory = NewMemoryRow {
        id,
        text: format!("It is {id}"),
        kind: "fact".into(),
        source: "user",
        sources: vec![],
        valid_from: None,
        created_at: None,
    };
    fixture.store.add_memory(scope, memory, None).await.unwrap().id
}

#[tokio::test]
async fn texts_are_read_in_the_order_asked_for_and_by_nobody_else() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let thread = submitted.thread.to_string();
    let again = NewText { text: "another".into(), ..text("revision", 1) };
    let texts = vec![text("revision", 1), text("revision", 2), text(&thread, 1), again];
    assert_eq!(keep(&log, texts).await.unwrap(), [true]);
    let asked = [named(&thread, 1), named("revision", 3), named("revision", 1), named("rev", 1)];
    let found = fixture.store.texts(&scope("alice"), &asked).await.unwrap();
    assert_eq!(
        found,
        [Some("text 1".to_owned()), None, Some("text 1".to_owned()), None],
        "the first one stays"
    );
    for stranger in [scope("mallory"), elsewhere()] {
        assert_eq!(fixture.store.texts(&stranger, &asked).await.unwrap(), [None, None, None, None]);
    }
    assert_eq!(fixture.store.texts(&scope("alice"), &[]).await.unwrap(), []);
}

#[tokio::test]
async fn texts_have_so_many_bytes_and_there_are_so_many_with_an_event() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let long = |bytes| vec![NewText { text: "x".repeat(bytes), ..text("long", 1) }];
    let head = fixture.store.head(submitted.thread).await.unwrap();
    assert!(matches!(keep(&log, long(MAX_TEXT_BYTES + 1)).await, Err(Error::Changed(_))));
    let many = |number: usize| (0..number).map(|number| text(&format!("source {number}"), 1)).collect();
    assert!(matches!(keep(&log, many(MAX_TEXTS_PER_WRITE + 1)).await, Err(Error::Changed(_))));
    assert_eq!(fixture.store.head(submitted.thread).await.unwrap(), head, "nor is the event recorded");
    assert!(!is_kept(&fixture, "source 0", 1).await);
    keep(&log, long(MAX_TEXT_BYTES)).await.unwrap();
    keep(&log, many(MAX_TEXTS_PER_WRITE)).await.unwrap();
    assert!(is_kept(&fixture, "long", 1).await && is_kept(&fixture, "source 511", 1).await);
}

#[tokio::test]
async fn what_was_kept_of_a_memory_or_a_pin_goes_with_it() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let (_, log) = fixture.run().await;
    let (gone, kept) = (memory(&fixture, &alice).await, memory(&fixture, &alice).await);
    let pin = NewPinRow { id: fixture.ids.pin(), thread: None, text: "important".into() };
    fixture.store.add_pin(&alice, pin.clone(), None).await.unwrap();
    keep(&log, vec![text(&gone, 1), text(&gone, 2), text(&kept, 3), text(&pin.id, 4)]).await.unwrap();
    fixture.store.forget_memory(&her, gone, None).await.unwrap();
    assert!(!is_kept(&fixture, gone, 1).await && !is_kept(&fixture, gone, 2).await);
    assert!(is_kept(&fixture, kept, 3).await && is_kept(&fixture, pin.id, 4).await);
    keep(&log, vec![text(&gone, 1)]).await.unwrap();
    assert!(!is_kept(&fixture, gone, 1).await, "a run that began before does not bring it back");
    fixture.store.restore_memory(&her, gone, None).await.unwrap();
    assert!(!is_kept(&fixture, gone, 1).await);
    keep(&log, vec![text(&gone, 1)]).await.unwrap();
    assert!(is_kept(&fixture, gone, 1).await);
    fixture.store.delete_pin(&her, pin.id, None).await.unwrap();
    keep(&log, vec![text(&pin.id, 4)]).await.unwrap();
    assert!(!is_kept(&fixture, pin.id, 4).await);
}

#[tokio::test]
async fn nothing_is_kept_of_what_is_somebody_elses() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let bobs = memory(&fixture, &scope("bob")).await;
    let hers = memory(&fixture, &elsewhere()).await;
    let never = fixture.ids.document();
    keep(&log, vec![text(&bobs, 1), text(&hers, 1), text(&never, 1)]).await.unwrap();
    let count: i64 =
        fixture.database().query_row("SELECT count(*) FROM texts", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
}

#[tokio::test]
async fn what_was_kept_of_a_thread_its_messages_and_its_pins_is_purged_with_it() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let (gone, old) = fixture.run().await;
    let said = fixture.store.run(&her, gone.run).await.unwrap().message;
    let pin = NewPinRow { id: fixture.ids.pin(), thread: Some(gone.thread), text: "important".into() };
    fixture.store.add_pin(&alice, pin.clone(), None).await.unwrap();
    let many: Vec<_> = (0..250).map(|number| text(&gone.thread, number)).collect();
    keep(&old, many).await.unwrap();
    old.record(vec![end(gone.run, RunStatus::Completed)], vec![], vec![]).await.unwrap();
    let kept = fixture.submit(Target::New(fixture.ids.thread())).await;
    let other = fixture.store.run(&her, kept.run).await.unwrap().message;
    let texts =
        vec![text(&said, 1), text(&pin.id, 2), text(&kept.thread, 3), text(&other, 4), text("revision", 5)];
    keep(&fixture.log(kept).await, texts).await.unwrap();
    fixture.store.delete_thread(&her, gone.thread, None).await.unwrap();
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    assert!(!is_kept(&fixture, gone.thread, 249).await && !is_kept(&fixture, said, 1).await);
    let left: i64 = fixture.database().query_row("SELECT count(*) FROM texts", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 3);
    assert!(is_kept(&fixture, kept.thread, 3).await && is_kept(&fixture, other, 4).await);
    assert_eq!(fixture.store.pins(&alice, Some(gone.thread)).await.unwrap(), []);
    let pins: i64 = fixture.database().query_row("SELECT count(*) FROM pins", [], |row| row.get(0)).unwrap();
    assert_eq!(pins, 0);
}

#[tokio::test]
async fn a_call_keeps_and_pins_nothing_and_the_beginning_of_a_run_writes_nothing_else() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let id = fixture.ids.call();
    log.record(vec![step_end(vec![call(id)])], vec![], vec![]).await.unwrap();
    let pin = Write::Pin(NewPinRow { id: fixture.ids.pin(), thread: None, text: "x".into() });
    let file = Write::File { path: "a.md".into(), content: Some("x".into()), expected: 0 };
    for (event, write) in [
        (result(id, "done"), pin.clone()),
        (result(id, "done"), Write::Keep(text("revision", 1))),
        (loaded(), file),
        (step_end(vec![]), pin),
    ] {
        let refused = log.record(vec![event], vec![], vec![write]).await;
        assert!(matches!(refused, Err(Error::Aborted)), "{refused:?}");
    }
    assert!(!is_kept(&fixture, "revision", 1).await);
    assert_eq!(fixture.store.pins(&scope("alice"), Some(submitted.thread)).await.unwrap(), []);
    assert_eq!(log.record(vec![result(id, "done")], vec![], vec![]).await.unwrap(), [true]);
}
