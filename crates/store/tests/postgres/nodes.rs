//! Several stores on one database, as several servers have them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{
    CallId, Clock, Effect, Failure, Ids as _, OnBusy, RunStatus, Seq, Stored, SystemClock, ThreadId,
};
use store::inspection::execute;
use store::postgres::{PostgresAddress, VaultFit, audit, examine};
use store::{
    Error, ForcedEnd, NewestNotice, NodeNews, Publish, RunRow, SharedClock, SharedStore, Stop, Store,
    StoreOptions, Target,
};
use testkit::still::CountingIds;

use crate::address;
use crate::support::{Fixture, principal, scope, start, step_end, text};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The news that one node has heard.
#[derive(Default)]
struct Heard {
    events: Mutex<Vec<Arc<Stored>>>,
    newest: Mutex<Vec<(ThreadId, Seq)>>,
    notices: Mutex<Vec<NewestNotice>>,
    news: Mutex<NodeNews>,
}

impl Publish for Heard {
    fn publish(&self, events: &[Arc<Stored>]) {
        self.events.lock().unwrap().extend_from_slice(events);
    }

    fn publish_notices(&self, newest: &[NewestNotice]) {
        self.notices.lock().unwrap().extend_from_slice(newest);
    }

    fn publish_newest(&self, newest: &[(ThreadId, Seq)]) {
        self.newest.lock().unwrap().extend_from_slice(newest);
    }

    fn publish_news(&self, news: NodeNews) {
        self.news.lock().unwrap().add(news);
    }
}

/// A machine whose clock is an hour late.
struct HourLate;

impl Clock for HourLate {
    fn now(&self) -> Timestamp {
        SystemClock.now().checked_sub(SignedDuration::from_hours(1)).unwrap()
    }
}

struct Node {
    store: Store,
    heard: Arc<Heard>,
}

fn schema(name: &str) -> PostgresAddress {
    format!("{}?schema={name}_{}", address(), std::process::id()).parse().unwrap()
}

fn try_join(address: &PostgresAddress, machine: Arc<dyn Clock>, vault: &str) -> Result<Node, Error> {
    let heard = Arc::new(Heard::default());
    let clock = Arc::new(SharedClock::new(machine));
    let shared = Some(SharedStore { clock: Arc::clone(&clock), vault: vault.to_owned() });
    let options = StoreOptions { shared, ..StoreOptions::default() };
    let store = Store::open_postgres(address, clock, Arc::clone(&heard) as Arc<dyn Publish>, options)?;
    Ok(Node { store, heard })
}

fn join(address: &PostgresAddress) -> Node {
    try_join(address, Arc::new(SystemClock), "vault").unwrap()
}

/// Waits until something is so.
async fn wait_until(is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("it becomes so in time");
}

impl Node {
    async fn run(&self, ids: &Fixture) -> RunRow {
        let submitted = self.store.submit(ids.submission(Target::New(ids.ids.thread()))).await.unwrap().0;
        self.store.run(&principal("alice"), submitted.run).await.unwrap()
    }

    /// The numbers of all events of a thread, as this node reads them.
    async fn seqs(&self, thread: ThreadId) -> Vec<Seq> {
        self.store.events(thread, None, 0).await.unwrap().iter().map(|event| event.seq).collect()
    }
}

fn failed(ids: &CountingIds) -> ForcedEnd {
    let error = Failure { code: "test".into(), message: "the test ends it".into() };
    let (cancelled, unknown) = (serde_json::json!({}), serde_json::json!({}));
    ForcedEnd { status: RunStatus::Failed, error, message: ids.message(), cancelled, unknown }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_streams_the_other_has_and_counts_on_from() {
    let (ids, at) = (Fixture::new(), schema("nodes_stream"));
    let (one, other) = (join(&at), join(&at));
    let row = one.run(&ids).await;
    let log = one.store.log(&row);
    for word in ["so ", "it ", "is"] {
        log.push(text(word)).unwrap();
    }
    let has_deltas = |heard: &Heard| {
        let events = heard.events.lock().unwrap();
        let text: usize =
            events.iter().filter(|event| event.kind == "text:delta").map(|event| event.body.len()).sum();
        text > 0 && events.iter().any(|event| event.body.contains("is"))
    };
    wait_until(|| has_deltas(&other.heard)).await;
    let streamed = one.seqs(row.thread).await;
    assert_eq!(other.seqs(row.thread).await, streamed, "deltas that are not packed are there, too");
    assert!(other.heard.newest.lock().unwrap().iter().any(|(thread, _)| *thread == row.thread));
    assert!(!other.heard.notices.lock().unwrap().is_empty());
    // The other one ends the run, after the deltas that it has from the first.
    other.store.force_end(&row, failed(&ids.ids)).await.unwrap();
    let all = other.seqs(row.thread).await;
    assert!(all.iter().zip(1..).all(|(seq, number)| *seq == number), "no number is missing: {all:?}");
    assert!(all.len() > streamed.len());
    assert_eq!(one.seqs(row.thread).await, all);
    // Nothing follows the end, even if the first node still has deltas.
    log.push(text("late")).unwrap();
    let late = log.record(vec![step_end(vec![])], vec![], vec![]).await;
    assert!(late.is_err(), "{late:?}");
    one.run(&ids).await; // a commit after it
    assert_eq!(one.seqs(row.thread).await, all);
    assert_eq!(audit(&at).unwrap().findings, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cancelled_elsewhere_is_looked_at_by_its_node() {
    let (ids, at) = (Fixture::new(), schema("nodes_cancel"));
    let (one, other) = (join(&at), join(&at));
    let row = one.run(&ids).await;
    assert_eq!(row.owner, one.store.node());
    assert_ne!(one.store.node(), other.store.node());
    other.store.cancel(&principal("alice"), row.id, None).await.unwrap();
    wait_until(|| one.heard.news.lock().unwrap().threads.contains(&row.thread)).await;
    assert_eq!(one.store.told_to_stop().await.unwrap(), [row.thread]);
    assert_eq!(other.store.told_to_stop().await.unwrap(), []);
    let call = start(CallId::new(ids.ids.fresh()), "echo", Effect::Read);
    let refused = one.store.log(&row).record(vec![call], vec![], vec![]).await;
    assert!(matches!(refused, Err(Error::Stopped(Stop::Cancelled))), "{refused:?}");
    assert_eq!(other.store.adopt().await.unwrap(), [], "its node lives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_is_begun_by_the_node_that_ends_the_run_before_it() {
    let (ids, at) = (Fixture::new(), schema("nodes_queue"));
    let (one, other) = (join(&at), join(&at));
    let row = one.run(&ids).await;
    let mut next = ids.submission(Target::Existing(row.thread));
    next.on_busy = OnBusy::Queue;
    let waiting = next.run;
    other.store.submit(next).await.unwrap();
    one.store.force_end(&row, failed(&ids.ids)).await.unwrap();
    let begun = other.store.run(&principal("alice"), waiting).await.unwrap();
    assert_eq!(begun.owner, one.store.node());
    let again = ids.submission(Target::Existing(row.thread));
    assert!(matches!(other.store.submit(again).await, Err(Error::Busy)));
}

/// A node that leaves gives up its runs at once. A late write for it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_a_node_that_is_gone_continue_and_its_late_writes_are_refused() {
    let (ids, at) = (Fixture::new(), schema("nodes_gone"));
    let (one, other) = (join(&at), join(&at));
    let row = one.run(&ids).await;
    let log = one.store.log(&row);
    log.push(text("half an ans")).unwrap();
    wait_until(|| other.heard.events.lock().unwrap().iter().any(|event| event.kind == "text:delta")).await;
    // Its lease is not renewed any more. The log of the run keeps its writer.
    drop(one);
    wait_until(|| other.heard.news.lock().unwrap().orphans).await;
    let adopted = loop {
        let adopted = other.store.adopt().await.unwrap();
        if !adopted.is_empty() {
            break adopted;
        }
    };
    let [adopted] = adopted.as_slice() else { panic!("one run was under way: {adopted:?}") };
    assert_eq!((adopted.id, adopted.epoch), (row.id, row.epoch + 1));
    assert_eq!(adopted.owner, other.store.node());
    let late = log.record(vec![step_end(vec![])], vec![], vec![]).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    other.store.force_end(adopted, failed(&ids.ids)).await.unwrap();
    let seqs = other.seqs(row.thread).await;
    assert!(seqs.iter().zip(1..).all(|(seq, number)| *seq == number), "{seqs:?}");
    assert_eq!(audit(&at).unwrap().findings, [""; 0]);
}

/// A node that was silent for too long has missed rows that are gone by now. It reads the rest and continues as a new
/// node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_others_took_for_dead_joins_again() {
    let (ids, at) = (Fixture::new(), schema("nodes_again"));
    let (one, other) = (join(&at), join(&at));
    let row = one.run(&ids).await;
    let before = one.store.node().unwrap();
    // As another node does with one whose lease is over, and as both do with old rows of the log.
    execute(&at, &format!("DELETE FROM nodes WHERE number = {before}")).unwrap();
    let adopted = other.store.adopt().await.unwrap();
    assert_eq!(adopted.iter().map(|row| row.id).collect::<Vec<_>>(), [row.id]);
    execute(&at, "DELETE FROM delta_log_0").unwrap();
    execute(&at, "DELETE FROM delta_log_1").unwrap();
    other.run(&ids).await;
    wait_until(|| one.store.node() != Some(before)).await;
    let late = one.store.log(&row).record(vec![step_end(vec![])], vec![], vec![]).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    let fresh = one.run(&ids).await;
    assert_eq!(fresh.owner, one.store.node());
    assert_eq!(other.store.adopt().await.unwrap(), [], "the new node lives");
}

#[tokio::test]
async fn a_node_whose_machine_is_an_hour_late_goes_by_the_database() {
    let (ids, at) = (Fixture::new(), schema("nodes_clock"));
    let late = try_join(&at, Arc::new(HourLate), "vault").unwrap();
    let row = late.run(&ids).await;
    let off = SystemClock.now().duration_since(row.created_at).as_secs().abs();
    assert!(off < 60, "{off} s");
    let right = join(&at);
    assert_eq!(right.store.adopt().await.unwrap(), []);
}

#[tokio::test]
async fn a_server_is_alone_or_all_share_one_vault_key() {
    let at = schema("nodes_key");
    let one = join(&at);
    let other = try_join(&at, Arc::new(SystemClock), "another vault").map(drop);
    let refusal = other.unwrap_err().to_string();
    assert!(refusal.contains("RONDO_VAULT_KEY"), "{refusal}");
    let published = Arc::new(Heard::default());
    let alone = Store::open_postgres(&at, Arc::new(SystemClock), published.clone(), StoreOptions::default());
    let refusal = alone.map(drop).unwrap_err().to_string();
    assert!(refusal.contains("several servers share a schema"), "{refusal}");
    drop(one);
    store::sqlite::wait_until_closed(PATIENCE);
    let alone = Store::open_postgres(&at, Arc::new(SystemClock), published, StoreOptions::default()).unwrap();
    assert_eq!(alone.node(), None);
    let refusal = try_join(&at, Arc::new(SystemClock), "vault").map(drop).unwrap_err().to_string();
    assert!(refusal.contains("another server uses the schema"), "{refusal}");
}

/// Opens a store that is alone, as a server with this vault key.
fn open_alone(address: &PostgresAddress, vault: &str) -> Result<Store, Error> {
    let options = StoreOptions { vault: Some(vault.to_owned()), ..StoreOptions::default() };
    Store::open_postgres(address, Arc::new(SystemClock), Arc::new(Heard::default()), options)
}

/// Drops a store and waits until its connections have ended.
fn close<T>(store: T) {
    drop(store);
    store::sqlite::wait_until_closed(PATIENCE);
}

#[tokio::test]
async fn the_database_knows_the_vault_key_of_its_credentials_when_no_node_runs() {
    let at = schema("nodes_vault");
    let join_with = |vault: &str| try_join(&at, Arc::new(SystemClock), vault);
    close(open_alone(&at, "first").unwrap());
    // Nothing is encrypted with the first key.
    let node = join_with("second").unwrap();
    node.store.put_credential(&scope("alice"), "mail", b"sealed".to_vec(), None).await.unwrap();
    close(node);
    for refused in [join_with("first").map(drop), open_alone(&at, "first").map(drop)] {
        let refusal = refused.unwrap_err().to_string();
        assert!(refusal.contains("another vault key has encrypted"), "{refusal}");
    }
    close(open_alone(&at, "second").unwrap());
    close(join_with("second").unwrap());
    // The operator continues without the second key, as the documents say.
    execute(&at, "DELETE FROM credentials").unwrap();
    close(join_with("third").unwrap());
    assert_eq!(examine(&at, &SystemClock, Some("third")).unwrap().vault, Some(VaultFit::Same));
}

#[tokio::test]
async fn the_nodes_that_run_are_listed_with_their_last_sign() {
    let at = schema("nodes_listed");
    let look = |vault: &str| examine(&at, &SystemClock, Some(vault)).unwrap();
    let found = look("vault");
    assert_eq!((found.nodes, found.vault, found.is_taken), (vec![], None, false), "there are no tables yet");
    let (one, other) = (join(&at), join(&at));
    let found = look("vault");
    let numbers: Vec<i64> = found.nodes.iter().map(|node| node.number).collect();
    assert_eq!(numbers, [one.store.node().unwrap(), other.store.node().unwrap()]);
    assert!(found.nodes.iter().all(|node| (0..8_000).contains(&node.renewed_before)), "{found:?}");
    assert_eq!((found.vault, found.is_taken), (Some(VaultFit::Same), false));
    assert_eq!(look("another").vault, Some(VaultFit::DiffersFromNodes));
    close((one, other));
    let alone = open_alone(&at, "vault").unwrap();
    let found = look("another");
    assert_eq!((found.nodes, found.vault, found.is_taken), (vec![], Some(VaultFit::Replaces), true));
    drop(alone);
    wait_until(|| !look("another").is_taken).await;
}
