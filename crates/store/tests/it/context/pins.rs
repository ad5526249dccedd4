//! Pins: of a thread or of all, oldest first, within bounds, and of one user.

use protocol::{Ids, PinView, ThreadId};
use store::{Error, MAX_PIN_BYTES, MAX_PINS_PER_SCOPE, NewPinRow, NewThreadRow, Write};

use super::{elsewhere, is_kept, loaded, text};
use crate::support::{Fixture, after, once, principal, scope};

fn new(fixture: &Fixture, thread: Option<ThreadId>, text: &str) -> NewPinRow {
    NewPinRow { id: fixture.ids.pin(), thread, text: text.into() }
}

async fn thread(fixture: &Fixture) -> ThreadId {
    let thread = NewThreadRow { id: fixture.ids.thread(), title: None, persona: None };
    fixture.store.create_thread(&scope("alice"), thread, None).await.unwrap().id
}

async fn listed(fixture: &Fixture, thread: Option<ThreadId>) -> Vec<String> {
    let pins = fixture.store.pins(&scope("alice"), thread).await.unwrap();
    pins.into_iter().map(|pin| pin.text).collect()
}

#[tokio::test]
async fn pins_of_a_thread_stand_with_those_of_all_oldest_first() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (one, two) = (thread(&fixture).await, thread(&fixture).await);
    let first = new(&fixture, Some(one), "in one");
    let NewPinRow { id, thread, text } = first.clone();
    let expected = PinView { id, thread_id: thread, text, created_at: after(0) };
    assert_eq!(fixture.store.add_pin(&alice, first, None).await.unwrap(), expected);
    for (thread, text) in [(None, "in all"), (Some(two), "in two"), (Some(one), "in one too")] {
        fixture.store.add_pin(&alice, new(&fixture, thread, text), None).await.unwrap();
    }
    assert_eq!(listed(&fixture, Some(one)).await, ["in one", "in all", "in one too"]);
    assert_eq!(listed(&fixture, Some(two)).await, ["in all", "in two"]);
    assert_eq!(listed(&fixture, None).await, ["in all"]);
    fixture.store.delete_thread(&principal("alice"), one, None).await.unwrap();
    assert_eq!(listed(&fixture, Some(one)).await, ["in all"], "what is said of a deleted thread is hidden");
}

#[tokio::test]
async fn a_pin_is_nobody_elses() {
    let fixture = Fixture::new();
    let (hers, alice) = (thread(&fixture).await, scope("alice"));
    let pin = fixture.store.add_pin(&alice, new(&fixture, None, "hers"), None).await.unwrap();
    for stranger in [scope("mallory"), elsewhere()] {
        let stolen = fixture.store.add_pin(&stranger, new(&fixture, Some(hers), "x"), None).await;
        assert!(matches!(stolen, Err(Error::NotFound("thread"))));
        assert_eq!(fixture.store.pins(&stranger, Some(hers)).await.unwrap(), []);
    }
    let stolen = fixture.store.delete_pin(&principal("mallory"), pin.id, None).await;
    assert!(matches!(stolen, Err(Error::NotFound("pin"))));
    assert_eq!(listed(&fixture, None).await, ["hers"]);
}

#[tokio::test]
async fn pins_are_added_and_deleted_once_under_a_key() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let pin = fixture.store.add_pin(&alice, new(&fixture, None, "x"), once("k", 1)).await.unwrap();
    let again = fixture.store.add_pin(&alice, new(&fixture, None, "x"), once("k", 1)).await.unwrap();
    assert_eq!((&again, listed(&fixture, None).await.len()), (&pin, 1));
    let other = fixture.store.add_pin(&alice, new(&fixture, None, "y"), once("k", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    let reused = fixture.store.delete_pin(&her, pin.id, once("k", 3)).await;
    assert!(matches!(reused, Err(Error::KeyReused)));
    assert_eq!(listed(&fixture, None).await, ["x"]);
    for _ in 0..2 {
        fixture.store.delete_pin(&her, pin.id, once("gone", 1)).await.unwrap();
    }
    let again = fixture.store.delete_pin(&her, pin.id, None).await;
    assert!(matches!(again, Err(Error::NotFound("pin"))));
}

#[tokio::test]
async fn pins_have_so_many_bytes_and_there_are_so_many() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    for (bytes, good) in [(0, false), (1, true), (MAX_PIN_BYTES, true), (MAX_PIN_BYTES + 1, false)] {
        let added = fixture.store.add_pin(&alice, new(&fixture, None, &"x".repeat(bytes)), None).await;
        assert_eq!(added.is_ok(), good, "{bytes} bytes");
        assert!(good || matches!(added, Err(Error::Changed(_))));
    }
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_PINS_PER_SCOPE} - 1)
         INSERT INTO pins (id, app, user, text, created_at) SELECT randomblob(16), 'app', 'alice', 'x', i FROM n"
    );
    fixture.database().execute(&fill, []).unwrap();
    let last = fixture.store.add_pin(&alice, new(&fixture, None, "the last"), None).await.unwrap();
    let Err(Error::Changed(words)) = fixture.store.add_pin(&alice, new(&fixture, None, "x"), None).await
    else {
        panic!("there was room");
    };
    assert_eq!(words, "there are already 2000 pins; delete some first");
    assert_eq!(listed(&fixture, None).await.len(), MAX_PINS_PER_SCOPE);
    fixture.store.add_pin(&elsewhere(), new(&fixture, None, "x"), None).await.unwrap();
    fixture.store.delete_pin(&principal("alice"), last.id, None).await.unwrap();
    fixture.store.add_pin(&alice, new(&fixture, None, "x"), None).await.unwrap();
}

#[tokio::test]
async fn a_run_that_begins_pins_what_was_asked_or_begins_not() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let pin = new(&fixture, Some(submitted.thread), "asked for");
    let writes = vec![Write::Keep(text(&pin.id, 1)), Write::Pin(pin.clone())];
    log.record(vec![loaded()], vec![], writes).await.unwrap();
    assert_eq!(listed(&fixture, Some(submitted.thread)).await, ["asked for"]);
    assert!(is_kept(&fixture, pin.id, 1).await, "it is kept of what the same writes make");
    let empty = NewPinRow { text: String::new(), id: fixture.ids.pin(), thread: None };
    let refused = log.record(vec![loaded()], vec![], vec![Write::Pin(empty)]).await;
    assert!(matches!(refused, Err(Error::Changed(_))));
}
