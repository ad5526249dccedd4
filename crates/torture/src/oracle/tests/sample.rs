//! A small trial in which everything is right, for checks to be shown what they must not find; and an empty database.

use std::collections::HashMap;

use protocol::{Effect, Kind, RunStatus, ToolStatus, Usage};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::oracle::log::{
    Action, LoggedEvent, LoggedJob, LoggedMessage, LoggedResult, LoggedRun, LoggedStep, RowId, StoredLog,
    Thread, hex,
};
use crate::record::{
    End, ModelCallRecord, Op, OperationOutcome, ReceivedEvent, StreamReading, ToolRequestRecord, Trial, What,
};

pub(in crate::oracle) const THREAD: RowId = [1; 16];
pub(in crate::oracle) const RUN: RowId = [2; 16];
pub(in crate::oracle) const CALL: RowId = [3; 16];
pub(in crate::oracle) const MESSAGE: RowId = [4; 16];
pub(in crate::oracle) const TAG: &str = "t1";

/// When the trial began, as the database counts.
pub(in crate::oracle) const EPOCH: i64 = 1_700_000_000_000;

/// The number of the run's last event.
pub(in crate::oracle) const LAST: u64 = 6;

pub(in crate::oracle) fn wire(prefix: &str, id: &RowId) -> String {
    format!("{prefix}_{}", hex(id))
}

/// One message of Ann's, answered by a run that paid once.
pub(in crate::oracle) fn good() -> (Trial, StoredLog) {
    let log = log();
    let events = &log.threads[&THREAD].events;
    let seen = |event: &LoggedEvent| ReceivedEvent {
        seq: event.seq,
        event: event.kind.unwrap().name().into(),
        hash: hex(&event.hash),
    };
    let reading = StreamReading {
        actor: 1,
        user: "ann".into(),
        run: Some(wire("run", &RUN)),
        thread: None,
        after: None,
        began: 15_000,
        first: Some(16_000),
        ended: 30_000,
        status: 200,
        frames: events.iter().map(seen).collect(),
        end: End::Whole,
        start: 1,
        node: Some(0),
    };
    let trial = Trial {
        ops: vec![send()],
        readings: vec![reading],
        asked: vec![asked()],
        arrivals: vec![arrival()],
        ..Trial::default()
    };
    (trial, log)
}

fn send() -> Op {
    Op {
        actor: 1,
        user: "ann".into(),
        app: "alpha".into(),
        key: "send-t1".into(),
        what: What::Send {
            tag: TAG.into(),
            thread: None,
            runs: vec![wire("run", &RUN)],
            threads: vec![wire("thr", &THREAD)],
            on_busy: None,
        },
        began: 9_500,
        ended: 11_000,
        outcome: OperationOutcome::Ok,
        attempts: vec![200],
        answered: Some(10_500),
        node: Some(0),
    }
}

fn asked() -> ModelCallRecord {
    ModelCallRecord {
        tag: Some(TAG.into()),
        step: 0,
        attempt: 0,
        began: 20_000,
        written: Some(22_000),
        closed: None,
        input_tokens: 100,
        output_tokens: 10,
        canaries: vec!["ann".into()],
        text: "Done.".into(),
        node: 0,
    }
}

fn arrival() -> ToolRequestRecord {
    ToolRequestRecord {
        tool: "pay".into(),
        key: wire("call", &CALL),
        tag: TAG.into(),
        arguments: r#"{"n":1}"#.into(),
        at: 24_000,
        replied: Some(24_500),
        canaries: vec!["ann".into()],
    }
}

fn log() -> StoredLog {
    let kinds =
        [Kind::MessageUser, Kind::RunStart, Kind::StepEnd, Kind::ToolStart, Kind::ToolComplete, Kind::RunEnd];
    let stored = |(seq, kind): (u64, Kind)| LoggedEvent {
        seq,
        run: Some(RUN),
        kind: Some(kind),
        hash: [u8::try_from(seq).unwrap(); 32],
        at: EPOCH + 10,
    };
    let events = (1..).zip(kinds).map(stored).collect();
    let (app, user, skipped) = ("alpha".into(), "ann".into(), Vec::new());
    let thread = Thread { app, user, deleted: false, events, skipped };
    let action = Action {
        tool: "pay".into(),
        effect: Effect::Irreversible,
        status: "complete".into(),
        undone_by: None,
        undo_of: None,
    };
    let job = |kind: &str, key: String| LoggedJob {
        kind: kind.into(),
        key,
        app: "alpha".into(),
        status: "done".into(),
        error: None,
        due_at: EPOCH,
    };
    StoredLog {
        threads: HashMap::from([(THREAD, thread)]),
        runs: HashMap::from([(RUN, run())]),
        actions: HashMap::from([(CALL, action)]),
        jobs: vec![job("name_thread", wire("thr", &THREAD)), job("extract_memories", wire("msg", &MESSAGE))],
        said: HashMap::from([(TAG.into(), vec![LoggedMessage { thread: THREAD, run: Some(RUN), seq: 1 }])]),
        ..StoredLog::default()
    }
}

fn run() -> LoggedRun {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    LoggedRun {
        thread: THREAD,
        app: "alpha".into(),
        message: MESSAGE,
        status: RunStatus::Completed,
        stop: None,
        start: Some(1),
        end: Some(LAST),
        created_at: EPOCH + 10,
        pruned: false,
        tag: Some(TAG.into()),
        steps: vec![LoggedStep { at: EPOCH + 22, usage, whole: true, history: None }],
        steps_begun: vec![EPOCH + 20],
        resets: Vec::new(),
        begun: HashMap::from([(CALL, EPOCH + 23)]),
        results: HashMap::from([(CALL, LoggedResult { status: ToolStatus::Complete, outside: true })]),
    }
}

/// A database of the newest form with nothing in it. Foreign keys are not enforced, so that they can be broken.
pub(in crate::oracle) fn database() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let conn = Connection::open(folder.path().join("rondo.db")).unwrap();
    let migrations = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src/sqlite/migrations");
    let mut files: Vec<_> =
        std::fs::read_dir(migrations).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        conn.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    (folder, conn)
}
