//! Readers that are behind: what one of them holds is bounded (S8), and what is pruned under it is told in one event.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};

use async_trait::async_trait;
use protocol::{Kind, RunEnd, RunStatus};
use serde_json::{Value, json};
use store::{MAX_BYTES_PER_READ, MAX_EVENTS_PER_READ, Publish, RawEvent};
use uuid::Uuid;

use super::*;
use crate::live::bus::Bus;

/// Bodies of this many bytes: small ones, as tokens are.
const BODY_BYTES: usize = 40;

/// A log in memory.
#[derive(Default)]
struct Book {
    events: Mutex<Vec<Arc<Stored>>>,
    pruned: AtomicBool,
}

impl Book {
    fn write(&self, bus: &Bus, events: &[Arc<Stored>]) {
        self.events.lock().unwrap().extend_from_slice(events);
        bus.publish(events);
    }

    fn prune(&self) {
        self.events
            .lock()
            .unwrap()
            .retain(|event| Kind::parse(&event.kind).is_some_and(|kind| !kind.is_delta()));
        self.pruned.store(true, Ordering::Release);
    }
}

#[async_trait]
impl EventLog for Book {
    async fn events(
        &self,
        _: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, store::Error> {
        let events = self.events.lock().unwrap();
        let (mut found, mut bytes) = (Vec::new(), 0);
        for event in events.iter().filter(|event| event.seq > after && (run.is_none() || event.run == run)) {
            if run.is_some() && self.pruned.load(Ordering::Acquire) {
                return Err(store::Error::Pruned);
            }
            bytes += event.body.len();
            found.push(Arc::clone(event));
            if bytes >= MAX_BYTES_PER_READ || found.len() == MAX_EVENTS_PER_READ {
                break;
            }
        }
        Ok(found)
    }

    async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, store::Error> {
        let events = self.events.lock().unwrap();
        let raw = |event: &Arc<Stored>| RawEvent {
            seq: event.seq,
            kind: event.kind.to_string(),
            body: event.body.to_string(),
        };
        Ok(events.iter().filter(|event| event.run == Some(run)).map(raw).collect())
    }
}

fn thread() -> ThreadId {
    ThreadId::new(Uuid::nil())
}

fn run() -> RunId {
    RunId::new(Uuid::nil())
}

fn stored(seq: Seq, kind: Kind, body: String) -> Arc<Stored> {
    let kind = Cow::Borrowed(kind.name());
    Arc::new(Stored { thread: thread(), seq, run: Some(run()), kind, body: body.into() })
}

fn pieces(numbers: std::ops::RangeInclusive<Seq>) -> Vec<Arc<Stored>> {
    numbers.map(|seq| stored(seq, Kind::TextDelta, "x".repeat(BODY_BYTES))).collect()
}

fn last_events(from: Seq) -> Vec<Arc<Stored>> {
    let end = RunEnd { run_id: run(), status: RunStatus::Completed, error: None, message_id: None };
    let answer = json!({
        "messageId": "msg_00000000000000000000000000000001", "text": "So.", "memoriesReferenced": [],
        "usage": { "inputTokens": 1, "outputTokens": 1 },
    });
    vec![
        stored(from, Kind::StreamComplete, answer.to_string()),
        stored(from + 1, Kind::RunEnd, serde_json::to_string(&end).unwrap()),
    ]
}

fn follower(book: &Arc<Book>, bus: &Arc<Bus>, of: Option<RunId>) -> Follower {
    let log = Arc::clone(book) as Arc<dyn EventLog>;
    Follower::new(log, bus.subscribe(thread()), (thread(), of), 0)
}

async fn numbers(follower: &mut Follower) -> Vec<Seq> {
    let events = follower.next().await.unwrap().unwrap_or_default();
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_reader_is_never_given_more_than_a_reads_worth_at_once() {
    for of in [None, Some(run())] {
        let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
        let mut reader = follower(&book, &bus, of);
        book.write(&bus, &pieces(1..=1));
        assert_eq!(numbers(&mut reader).await, [1]);
        // All of it is in the ring, and the reader has looked away meanwhile.
        book.write(&bus, &pieces(2..=1_500));
        let (mut seen, mut batches) = (1, 0);
        while seen < 1_500 {
            let batch = reader.next().await.unwrap().unwrap();
            let bytes: usize = batch.iter().map(|event| event.body.len()).sum();
            assert!(bytes < MAX_BYTES_PER_READ + BODY_BYTES, "{bytes}");
            for event in batch {
                assert_eq!(event.seq, seen + 1);
                seen = event.seq;
            }
            batches += 1;
        }
        assert!(batches > 2, "{batches}");
    }
}

#[tokio::test]
async fn an_event_larger_than_a_read_comes_alone() {
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    let mut reader = follower(&book, &bus, None);
    book.write(&bus, &pieces(1..=1));
    assert_eq!(numbers(&mut reader).await, [1]);
    let large = |seq| stored(seq, Kind::StepEnd, "x".repeat(2 * MAX_BYTES_PER_READ));
    book.write(&bus, &[large(2), large(3)]);
    assert_eq!(numbers(&mut reader).await, [2]);
    assert_eq!(numbers(&mut reader).await, [3]);
}

/// S8: a reader is a position. A thousand of them that take nothing keep nothing alive but the one ring they share.
#[tokio::test]
async fn readers_that_take_nothing_hold_nothing() {
    const READERS: usize = 1_000;
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    let mut readers: Vec<Follower> = (0..READERS).map(|_| follower(&book, &bus, Some(run()))).collect();
    book.write(&bus, &pieces(1..=1));
    for reader in &mut readers {
        assert_eq!(numbers(reader).await, [1]);
    }
    let all = pieces(2..=100_000);
    let written: Vec<Weak<Stored>> = all.iter().map(Arc::downgrade).collect();
    for part in all.chunks(100) {
        bus.publish(part);
    }
    drop(all);
    let held: usize = written.iter().filter_map(Weak::upgrade).map(|event| event.body.len()).sum();
    assert!(held > 0 && held <= 8 * MAX_BYTES_PER_READ, "{held} bytes");
    drop(readers);
    assert_eq!(
        written.iter().filter_map(Weak::upgrade).count(),
        0,
        "and the ring goes with the last of them"
    );
}

async fn body(follower: &mut Follower) -> (Seq, Value) {
    let events = follower.next().await.unwrap().unwrap();
    assert_eq!(events.iter().map(|event| &*event.kind).collect::<Vec<_>>(), ["snapshot"]);
    (events[0].seq, serde_json::from_str(&events[0].body).unwrap())
}

/// S5, S6: between two pages of the log.
#[tokio::test]
async fn a_reader_whose_run_is_pruned_under_it_gets_a_snapshot_and_the_end() {
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    book.write(&bus, &pieces(1..=1_000));
    book.write(&bus, &last_events(1_001));
    let (mut reader, mut by_facts) =
        (follower(&book, &bus, Some(run())), follower(&book, &bus, Some(run())).by_facts());
    assert_eq!(numbers(&mut reader).await, (1..=256).collect::<Vec<_>>());
    assert_eq!(numbers(&mut by_facts).await, (1..=256).collect::<Vec<_>>());
    book.prune();
    let (seq, told) = body(&mut reader).await;
    assert_eq!((seq, &told["text"], &told["status"]), (1_002, &json!("So."), &json!("completed")));
    assert_eq!(reader.next().await.unwrap(), None);
    // A reader that takes facts gets those that are left.
    assert_eq!(numbers(&mut by_facts).await, [1_001, 1_002]);
    assert_eq!(by_facts.next().await.unwrap(), None);
}

/// One that fell behind the ring comes back to a log without it.
#[tokio::test]
async fn a_live_reader_that_fell_behind_gets_a_snapshot_too() {
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    let mut reader = follower(&book, &bus, Some(run()));
    book.write(&bus, &pieces(1..=10));
    assert_eq!(numbers(&mut reader).await, (1..=10).collect::<Vec<_>>());
    // It is listening when more comes than the ring holds.
    {
        let waiting = reader.next();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    }
    book.write(&bus, &pieces(11..=20_000));
    book.write(&bus, &last_events(20_001));
    book.prune();
    assert_eq!(body(&mut reader).await.0, 20_002);
    assert_eq!(reader.next().await.unwrap(), None);
}

/// The ring still has what the log has lost: a reader that keeps up does not notice.
#[tokio::test]
async fn a_reader_that_keeps_up_sees_every_event_of_a_run_that_is_pruned_at_its_end() {
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    let mut reader = follower(&book, &bus, Some(run()));
    book.write(&bus, &pieces(1..=10));
    assert_eq!(numbers(&mut reader).await, (1..=10).collect::<Vec<_>>());
    {
        let waiting = reader.next();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    }
    book.write(&bus, &pieces(11..=12));
    book.write(&bus, &last_events(13));
    book.prune();
    assert_eq!(numbers(&mut reader).await, [11, 12, 13, 14]);
    assert_eq!(reader.next().await.unwrap(), None);
}

/// Its thread was deleted and purged, too: there is nothing to tell.
#[tokio::test]
async fn a_pruned_run_of_a_thread_that_is_gone_ends_without_a_word() {
    let (book, bus) = (Arc::new(Book::default()), Arc::new(Bus::default()));
    book.write(&bus, &pieces(1..=300));
    let mut reader = follower(&book, &bus, Some(run()));
    assert_eq!(numbers(&mut reader).await.len(), 256);
    book.pruned.store(true, Ordering::Release);
    book.events.lock().unwrap().retain(|event| event.seq == 300); // what is left of it has no end
    assert_eq!(reader.next().await.unwrap(), None);
}
