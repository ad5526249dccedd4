//! The oracle before a real server's data: it finds nothing where nothing is wrong, and each kind of damage.

pub(super) mod sample;

use protocol::Kind;
use testkit::TestApp;
use testkit::upstream::{Reply, ScriptedCall};

use super::log::{StoredLog, hex};
use super::*;
use crate::program::MessageProgram;
use crate::record::{End, ModelCallRecord, Op, OperationOutcome, ReceivedEvent, StreamReading, What};

const TOKENS: [(u64, u64); 2] = [(120, 12), (140, 14)];

/// One message, a call, an answer; and all of it written down.
async fn played(app: &TestApp) -> (Trial, Evidence) {
    let program = MessageProgram {
        tag: "t1".into(),
        canary: "canary1".into(),
        steps: Vec::new(),
        fault: None,
        pace: 0,
    };
    app.upstream.script([
        Reply::stream()
            .text("I look it up.")
            .call(ScriptedCall::new("echo", r#"{"text":"x"}"#))
            .usage(TOKENS[0].0, TOKENS[0].1),
        Reply::stream().text("It ").text("is done.").usage(TOKENS[1].0, TOKENS[1].1),
    ]);
    let frames = app.say(&program.text()).await;
    let start = &frames.iter().find(|frame| frame.event == "run:start").unwrap().data;
    let id = |field: &str| start[field].as_str().unwrap().to_owned();
    wait_for_jobs(app).await;
    let what = What::Send {
        tag: "t1".into(),
        thread: None,
        runs: vec![id("runId")],
        threads: vec![id("threadId")],
        on_busy: None,
    };
    let op = Op {
        actor: 0,
        user: "local".into(),
        app: "test".into(),
        key: "k".into(),
        what,
        began: 0,
        ended: 1_000_000,
        outcome: OperationOutcome::Ok,
        attempts: vec![200],
        answered: Some(1_000_000),
        node: Some(0),
    };
    let asked = |(step, tokens): (usize, (u64, u64))| ModelCallRecord {
        tag: Some("t1".into()),
        step,
        attempt: 0,
        began: 500_000,
        written: Some(600_000),
        closed: None,
        input_tokens: tokens.0,
        output_tokens: tokens.1,
        canaries: vec!["local".into()],
        text: String::new(),
        node: 0,
    };
    let readings = vec![reading(app, &id("runId"))];
    let asked = TOKENS.into_iter().enumerate().map(asked).collect();
    let trial = Trial { ops: vec![op], readings, asked, ..Trial::default() };
    (trial, evidence(app))
}

fn judge(trial: &Trial, evidence: &Evidence) -> Vec<Violation> {
    examine(trial, evidence).violations
}

/// Naming and the like are done when nothing is left to do.
async fn wait_for_jobs(app: &TestApp) {
    const LOOKS: usize = 100_000;
    for _ in 0..LOOKS {
        if app.count("SELECT count(*) FROM jobs WHERE status IN ('ready', 'running')") == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("jobs are left");
}

fn reading(app: &TestApp, run: &str) -> StreamReading {
    let log = StoredLog::read(&app.database()).unwrap();
    let thread = log.threads.values().next().unwrap();
    let seen = |event: &log::LoggedEvent| ReceivedEvent {
        seq: event.seq,
        event: event.kind.map_or("", Kind::name).into(),
        hash: hex(&event.hash),
    };
    StreamReading {
        actor: 0,
        user: "local".into(),
        run: Some(run.to_owned()),
        thread: None,
        after: None,
        began: 10,
        first: Some(20),
        ended: 900_000,
        status: 200,
        frames: thread.events.iter().filter(|event| event.run.is_some()).map(seen).collect(),
        end: End::Whole,
        start: 1,
        node: Some(0),
    }
}

fn evidence(app: &TestApp) -> Evidence {
    let log = app.data().join("server.log");
    std::fs::write(&log, "2026-11-15T21:00:00Z  INFO serving\n").unwrap();
    let user = |name: &str, canary: &str| User {
        name: name.into(),
        app: "test".into(),
        key: String::new(),
        canary: canary.into(),
    };
    Evidence {
        data: app.data(),
        logs: vec![log],
        users: vec![user("local", "canary1"), user("other", "canary2")],
        secrets: vec!["sk-planted".into()],
        resources: vec![Resources::default()],
    }
}

#[tokio::test]
async fn nothing_is_wrong_with_what_a_real_server_did() {
    let app = TestApp::start().await;
    let (trial, evidence) = played(&app).await;
    let verdict = examine(&trial, &evidence);
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.facts.runs.get("completed"), Some(&1));
}

/// Takes away what prevents damage.
const FRAGILE: &str = "PRAGMA foreign_keys = OFF;
    DROP TRIGGER events_kept; DROP TRIGGER events_fixed; DROP TRIGGER runs_absorb; DROP TRIGGER messages_fixed;
    DROP TRIGGER runs_end; DROP TRIGGER tool_results_fixed; DROP TRIGGER packed_deltas_fixed;";

#[tokio::test]
async fn each_kind_of_damage_is_told_by_its_check() {
    let app = TestApp::start().await;
    let (trial, evidence) = played(&app).await;
    let conn = app.database();
    conn.execute_batch(FRAGILE).unwrap();
    for (damage, mend, check) in [
        ("UPDATE runs SET status = 'running'", "UPDATE runs SET status = 'completed'", "O1"),
        (
            "UPDATE packed_deltas SET body = CAST(replace(CAST(body AS TEXT), 'It ', 'Is ') AS BLOB)",
            "UPDATE packed_deltas SET body = CAST(replace(CAST(body AS TEXT), 'Is ', 'It ') AS BLOB)",
            "O6",
        ),
        (
            "UPDATE runs SET output_tokens = output_tokens + 1",
            "UPDATE runs SET output_tokens = output_tokens - 1",
            "O6",
        ),
        (
            "UPDATE jobs SET kind = 'x' WHERE kind = 'name_thread'",
            "UPDATE jobs SET kind = 'name_thread' WHERE kind = 'x'",
            "O9",
        ),
        ("UPDATE threads SET title = 'canary2'", "UPDATE threads SET title = 'x'", "O11"),
        ("UPDATE threads SET title = 'sk-planted'", "UPDATE threads SET title = 'x'", "O12"),
    ] {
        conn.execute_batch(damage).unwrap();
        let violations = judge(&trial, &evidence);
        assert!(violations.iter().any(|violation| violation.check == check), "{damage}: {violations:?}");
        conn.execute_batch(mend).unwrap();
        let after: Vec<Violation> = judge(&trial, &evidence);
        assert!(after.is_empty(), "{mend}: {after:?}");
    }
}

#[tokio::test]
async fn a_message_that_was_acknowledged_and_lost_is_told() {
    let app = TestApp::start().await;
    let (mut trial, evidence) = played(&app).await;
    let mut lost = trial.ops[0].clone();
    lost.what =
        What::Send { tag: "t2".into(), thread: None, runs: Vec::new(), threads: Vec::new(), on_busy: None };
    trial.ops.push(lost);
    let violations = judge(&trial, &evidence);
    assert!(matches!(violations.as_slice(), [Violation { check: "O4", .. }]), "{violations:?}");
}

#[test]
fn a_folder_without_a_database_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(open_database(folder.path()).is_err());
    let evidence = Evidence {
        data: folder.path().into(),
        logs: vec![folder.path().join("server.log")],
        users: Vec::new(),
        secrets: Vec::new(),
        resources: Vec::new(),
    };
    let violations = judge(&Trial::default(), &evidence);
    assert!(matches!(violations.as_slice(), [Violation { check: "O16", .. }]), "{violations:?}");
}

#[test]
fn of_very_many_violations_only_some_are_told() {
    let many = vec![violation("O1", "x"); MAX_TOLD + 5];
    let told = first_of_check(many);
    assert_eq!(told.len(), MAX_TOLD + 1);
    assert_eq!(told.last().unwrap().what, "and 5 more of these");
}
