//! The seam of ADR 17, on a real PostgreSQL: submitting a message, recording a tool result and claiming a job are decided by
//! the rules that SQLite uses. `RONDO_TEST_POSTGRES` is the connection string of an
//! empty database. `cargo xtask test postgres` fetches and starts one.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what goes wrong fails the test")]

mod backend;

use backend::{CallPlace, Failure, Postgres};
use protocol::{
    AppId, CallId, Effect, Ids, JobId, OnBusy, RecordId, Scope, Settings, TimeOrderedIds, ToolComplete,
    ToolStart, ToolStatus, UserId, UserLimits,
};
use serde_json::{Value, json};
use store::rules::ledger::{LedgerHead, LedgerRow, entry_faults};
use store::{
    Admitted, Error, LedgerKind, Once, RunInput, RunJob, RunRequest, Submission, SubmittedRun, Target, Write,
};
use tokio_postgres::{Client, NoTls};

const SCHEMA: &str = include_str!("schema.sql");

/// The moment of every transaction here.
const NOW: i64 = 1_790_000_000_000;

/// Opens a connection to the server that the tests were given.
#[expect(
    clippy::disallowed_methods,
    reason = "the address is the test's own, and the connection ends with it"
)]
async fn connect() -> Client {
    let address =
        std::env::var("RONDO_TEST_POSTGRES").expect("run `cargo xtask test postgres`, which sets it");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.expect("the server answers");
    tokio::spawn(async move { connection.await.expect("the connection holds") });
    client
}

/// An empty store in a schema of its own, whose name it gives.
async fn store() -> (Postgres, String) {
    let client = connect().await;
    let schema = format!("rondo_{}", TimeOrderedIds.fresh().simple());
    let set_up = format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {SCHEMA}");
    client.batch_execute(&set_up).await.expect("the tables can be made");
    (Postgres { client, at: NOW }, schema)
}

/// Another connection to the same tables.
async fn beside(schema: &str) -> Postgres {
    let client = connect().await;
    client.batch_execute(&format!("SET search_path TO {schema}")).await.unwrap();
    Postgres { client, at: NOW }
}

fn scope() -> Scope {
    Scope { app: AppId::new("app"), user: UserId::new("alice") }
}

fn submission(thread: Target) -> Submission {
    let id = TimeOrderedIds.message();
    Submission {
        scope: scope(),
        thread,
        run: TimeOrderedIds.run(),
        on_busy: OnBusy::Queue,
        once: None,
        replay_only: false,
        limits: UserLimits::default(),
        request: RunRequest {
            ask: RunInput::Say { id, text: "hi".into(), parent: None, parts: vec![] },
            model: Some("m".into()),
            settings: Settings::default(),
            system_prompt: None,
            persona: None,
            documents: None,
            app_revision: "r".into(),
            echo: None,
            actor: None,
            tools: vec![],
            client_tools: vec![],
            answer_schema: None,
            earlier: vec![],
            jobs: vec![RunJob {
                id: JobId::new(TimeOrderedIds.fresh()),
                kind: "extract".into(),
                delay_ms: 0,
            }],
        },
    }
}

async fn begun(store: &mut Postgres) -> SubmittedRun {
    store.submit(submission(Target::New(TimeOrderedIds.thread()))).await.unwrap()
}

async fn kinds(store: &Postgres) -> Vec<String> {
    let rows = store.client.query("SELECT kind FROM events ORDER BY thread, seq", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_message_begins_a_run_waits_for_another_or_is_refused() {
    let (mut store, _) = store().await;
    let first = begun(&mut store).await;
    assert_eq!(first.admitted, Admitted::Running);
    assert_eq!(kinds(&store).await, ["message:user", "run:start"]);
    let here = Target::Existing(first.thread);
    let second = store.submit(submission(here)).await.unwrap();
    assert_eq!(second.admitted, Admitted::Queued { interrupted: None, resumed: false });
    let urgent = Submission { on_busy: OnBusy::Interrupt, ..submission(here) };
    let third = store.submit(urgent).await.unwrap();
    assert_eq!(third.admitted, Admitted::Queued { interrupted: Some(first.run), resumed: false });
    let refused = store.submit(Submission { on_busy: OnBusy::Reject, ..submission(here) }).await;
    assert!(matches!(refused, Err(Failure::Refused(Error::Busy))), "{refused:?}");
    let waiting = store.client.query_one("SELECT count(*) FROM queue", &[]).await.unwrap();
    assert_eq!(waiting.get::<_, i64>(0), 2, "what was refused left nothing");
}

#[tokio::test]
async fn a_request_under_a_key_happens_once_and_limits_hold() {
    let (mut store, _) = store().await;
    let once = Some(Once { key: "k".into(), fingerprint: [1; 32] });
    let new = || Submission { once: once.clone(), ..submission(Target::New(TimeOrderedIds.thread())) };
    let first = store.submit(new()).await.unwrap();
    let again = store.submit(new()).await.unwrap();
    assert_eq!((again.run, again.thread, again.admitted), (first.run, first.thread, Admitted::Replayed));
    let other = Once { key: "k".into(), fingerprint: [2; 32] };
    let other = store.submit(Submission { once: Some(other), ..new() }).await;
    assert!(matches!(other, Err(Failure::Refused(Error::KeyReused))), "{other:?}");
    let limits = UserLimits { runs_per_minute: Some(1), ..UserLimits::default() };
    let limited = submission(Target::New(TimeOrderedIds.thread()));
    let limited = store.submit(Submission { limits, ..limited }).await;
    assert!(matches!(limited, Err(Failure::Refused(Error::Limited(_)))), "{limited:?}");
}

fn start(call_id: CallId) -> ToolStart {
    let input = json!({ "name": "W" });
    ToolStart { call_id, name: "rename".into(), input, effect: Effect::Reversible, marker: None }
}

fn result(call_id: CallId, output: Value) -> ToolComplete {
    ToolComplete {
        call_id,
        name: "rename".into(),
        status: ToolStatus::Complete,
        output,
        duration_ms: 7,
        outside: false,
        suspicious: false,
        by: None,
    }
}

fn record(id: RecordId, expected: u64) -> Write {
    Write::Record { id, kind: "part".into(), data: Some(json!({ "name": "W" })), expected }
}

/// Every entry follows the one before, with the hash that it must have.
fn assert_chained(entries: &[LedgerRow]) {
    let mut before = LedgerHead::origin(&scope());
    for row in entries {
        assert_eq!(entry_faults(&before, row), Vec::<String>::new());
        before = LedgerHead { position: row.entry.position, hash: row.hash };
    }
}

#[tokio::test]
async fn a_result_is_recorded_once_with_its_writes_and_its_entries() {
    let (mut store, _) = store().await;
    let SubmittedRun { thread, run, .. } = begun(&mut store).await;
    let scope = scope();
    let place = CallPlace { scope: &scope, thread, run };
    let (call, id) = (CallId::new(TimeOrderedIds.fresh()), RecordId::new(TimeOrderedIds.fresh()));
    store.start_call(place, start(call)).await.unwrap();
    let late = store.end_call(place, result(call, json!("late")), vec![record(id, 3)]).await;
    assert!(matches!(late, Err(Failure::Refused(Error::Changed(_)))), "{late:?}");
    assert!(store.end_call(place, result(call, json!("done")), vec![record(id, 0)]).await.unwrap());
    assert!(!store.end_call(place, result(call, json!("again")), vec![]).await.unwrap(), "the first stays");
    let expected = ["message:user", "run:start", "tool:start", "tool:complete"];
    assert_eq!(kinds(&store).await, expected, "a write that came too late left no event");
    let entries = store.ledger(&scope).await.unwrap();
    let told: Vec<LedgerKind> = entries.iter().map(|row| row.entry.kind).collect();
    assert_eq!(told, [LedgerKind::Intent, LedgerKind::Outcome, LedgerKind::Late]);
    assert_chained(&entries);
    let row = store.client.query_one("SELECT status, changes FROM actions", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "complete");
    assert!(row.get::<_, String>(1).contains("\"version\":1"), "what can be undone is kept");
}

#[tokio::test]
async fn a_job_is_claimed_by_one_worker_and_no_user_has_more_than_eight_at_work() {
    let (mut store, schema) = store().await;
    for _ in 0..10 {
        begun(&mut store).await;
    }
    let mut other = beside(&schema).await;
    let mut claimed = Vec::new();
    for _ in 0..5 {
        let (one, two) = tokio::join!(store.claim(), other.claim());
        claimed.extend(one.unwrap().into_iter().chain(two.unwrap()));
    }
    let different: std::collections::BTreeSet<&Vec<u8>> = claimed.iter().map(|(id, _)| id).collect();
    assert_eq!((claimed.len(), different.len()), (8, 8));
    assert!(claimed.iter().all(|(_, epoch)| *epoch == 1));
}

#[tokio::test]
async fn two_connections_number_one_thread_without_a_hole() {
    let (mut store, schema) = store().await;
    let SubmittedRun { thread, run, .. } = begun(&mut store).await;
    let mut other = beside(&schema).await;
    let scope = scope();
    let place = CallPlace { scope: &scope, thread, run };
    for _ in 0..5 {
        let [a, b] = [(); 2].map(|()| CallId::new(TimeOrderedIds.fresh()));
        let (one, two) = tokio::join!(store.start_call(place, start(a)), other.start_call(place, start(b)));
        one.unwrap();
        two.unwrap();
    }
    let rows = store.client.query("SELECT seq FROM events ORDER BY seq", &[]).await.unwrap();
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<i64>>());
    assert_chained(&store.ledger(&scope).await.unwrap());
}
