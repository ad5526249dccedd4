//! Others are in the way: they have all connections of PostgreSQL, or a lock that a statement needs.

use std::time::Duration;

use futures_util::future::join_all;
use store::postgres::{PostgresAddress, READERS};
use store::{Error, Target};
use testpg::{PostgresServer, WITHOUT_SYNC};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::address;
use crate::sent::{PATIENCE, SentMessages, programs};
use crate::support::principal;
use protocol::Ids as _;

/// Reads that are made at the same time.
const READS: usize = READERS * 5;

/// The store lets PostgreSQL wait ten seconds for a lock. Messages that are sent together have two commits at most: the first
/// of them may be alone in one. Each of the three alone would take longer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(25);

/// Another program, with connections of its own.
struct OtherProgram {
    address: String,
    clients: Vec<Client>,
    connections: JoinSet<()>,
}

impl OtherProgram {
    fn new(address: &str) -> Self {
        let address = format!("{address} application_name=other");
        Self { address, clients: vec![], connections: JoinSet::new() }
    }

    async fn connect(&mut self) -> Result<(), tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.address, NoTls).await?;
        self.connections.spawn(async move { drop(connection.await) });
        self.clients.push(client);
        Ok(())
    }

    /// Takes all connections that are left.
    async fn take_all_connections(&mut self) {
        while self.connect().await.is_ok() {}
    }

    async fn run(&self, statement: &str) {
        self.clients[0].batch_execute(statement).await.unwrap();
    }

    /// Asks on the newest connection: within a transaction, PostgreSQL shows the state of its connections as it was.
    async fn number(&self, statement: &str) -> i64 {
        self.clients.last().unwrap().query_one(statement, &[]).await.unwrap().get(0)
    }

    /// Waits until a statement finds `count`.
    async fn wait_for(&self, statement: &str, count: i64) {
        let waiting = async { while self.number(statement).await != count {} };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    }
}

/// A store whose connections have a name, beside another program that is connected to the same tables.
async fn beside_other(name: &str) -> (SentMessages, PostgresAddress, OtherProgram) {
    let schema = format!("{name}_{}", std::process::id());
    let named = format!("{} application_name={schema}?schema={schema}", address()).parse().unwrap();
    let sent = SentMessages::to(&named);
    let mut other = OtherProgram::new(&address());
    other.connect().await.unwrap();
    other.run(&format!("SET search_path = {schema}")).await;
    other.connect().await.unwrap();
    (sent, named, other)
}

/// How many statements of the store with this schema wait for a lock, or have a connection.
fn connections(address: &PostgresAddress, condition: &str) -> String {
    let name = address.schema();
    format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}' AND {condition}")
}

const WAITS: &str = "wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_reads_than_connections_take_turns() {
    let (mut sent, address, other) = beside_other("turns").await;
    sent.send_until_kept(1).await;
    let (store, run) = (sent.fixture.store.clone(), sent.kept[0]);
    // While no connection can read, all of them are under way.
    other.run("BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").await;
    let alice = principal("alice");
    let reads = join_all((0..READS).map(|_| store.run(&alice, run)));
    let unlock = async {
        other.wait_for(&connections(&address, WAITS), i64::try_from(READERS).unwrap()).await;
        // The writer has a connection, too.
        let all = other.number(&connections(&address, "true")).await;
        other.run("COMMIT").await;
        all
    };
    let (found, all) = tokio::join!(reads, unlock);
    assert_eq!(all, i64::try_from(READERS + 1).unwrap());
    assert!(found.iter().all(Result::is_ok), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_others_have_used_up_are_missed_only_as_long() {
    let settings = [WITHOUT_SYNC, &["max_connections=20"]].concat();
    let server = PostgresServer::start(&programs(), &settings).unwrap();
    let address = server.url().parse().unwrap();
    let mut sent = SentMessages::to(&address);
    sent.send_until_kept(1).await;
    let mut other = OtherProgram::new(&server.address());
    other.take_all_connections().await;

    // The connections that the store has continue.
    let (store, run, alice) = (sent.fixture.store.clone(), sent.kept[0], principal("alice"));
    store.run(&alice, run).await.unwrap();
    sent.send_until_kept(1).await;
    let reads = join_all((0..READS).map(|_| store.run(&alice, run))).await;
    for error in reads.iter().filter_map(|read| read.as_ref().err()) {
        assert!(error.is_away() && error.to_string().contains("(53300)"), "{error}");
    }
    assert!(reads.iter().any(Result::is_ok) && reads.iter().any(Result::is_err), "{reads:?}");

    // Without any connection, everything is refused for now.
    let mine = "FROM pg_stat_activity WHERE application_name = 'rondo'";
    other.run(&format!("SELECT pg_terminate_backend(pid) {mine}")).await;
    other.wait_for(&format!("SELECT count(*) {mine}"), 0).await;
    other.take_all_connections().await;
    let told = store.run(&alice, run).await.unwrap_err();
    assert!(told.to_string().starts_with("PostgreSQL cannot be reached: "), "{told}");
    let refusals = sent.send().await;
    assert!(!refusals.is_empty() && refusals.iter().all(Error::is_away), "{refusals:?}");

    drop(other);
    sent.send_until_kept(5).await;
    sent.check(&address).await;
}

/// PostgreSQL gives up on a statement that waits for a lock too long. Messages that share a commit wait once together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_else_keeps_refuses_for_now() {
    let (mut sent, address, other) = beside_other("locked").await;
    sent.send_until_kept(1).await;
    other.run("BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").await;
    let (store, run, alice) = (sent.fixture.store.clone(), sent.kept[0], principal("alice"));
    let both = async { tokio::join!(store.run(&alice, run), sent.send()) };
    let (read, refusals) = tokio::time::timeout(LOCK_TIMEOUT, both).await.expect("the wait has an end");
    let refused = read.unwrap_err();
    assert!(refused.may_pass(), "{refused}");
    assert!(!refusals.is_empty());
    other.run("COMMIT").await;
    sent.send_until_kept(5).await;
    sent.check(&address).await;
}

/// A statement that PostgreSQL cancels, as it does after the time of `statement_timeout`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_cancelled_is_refused_for_now() {
    let (mut sent, address, other) = beside_other("cancelled").await;
    sent.send_until_kept(1).await;
    other.run("BEGIN; LOCK TABLE threads IN ACCESS EXCLUSIVE MODE").await;
    let cancel = async {
        other.wait_for(&connections(&address, WAITS), 1).await;
        let name = address.schema();
        let mine = format!("FROM pg_stat_activity WHERE application_name = '{name}' AND {WAITS}");
        other.wait_for(&format!("SELECT count(pg_cancel_backend(pid)) {mine}"), 1).await;
    };
    let submission = sent.fixture.submission(Target::New(sent.fixture.ids.thread()));
    let (run, store) = (submission.run, sent.fixture.store.clone());
    let (told, ()) = tokio::join!(store.submit(submission), cancel);
    let refused = told.unwrap_err();
    assert!(refused.may_pass(), "{refused}");
    sent.refused.push(run);
    other.run("COMMIT").await;
    sent.send_until_kept(5).await;
    sent.check(&address).await;
}

/// A row that another session has changed and not committed is waited for; then the write succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_else_changes_is_waited_for() {
    let (mut sent, address, other) = beside_other("waited").await;
    sent.send_until_kept(1).await;
    other.run("BEGIN; SELECT 1 FROM commits FOR UPDATE").await;
    let unlock = async {
        other.wait_for(&connections(&address, WAITS), 1).await;
        other.run("ROLLBACK").await;
    };
    let (refusals, ()) = tokio::join!(sent.send(), unlock);
    assert!(refusals.is_empty(), "{refusals:?}");
    sent.check(&address).await;
}
