//! A small trial in which everything is right, for checks to be shown what they must not find; and an empty database.

use std::collections::HashMap;

use protocol::{Effect, Kind, RunStatus, ToolStatus, Usage};
use rusqlite::Connection;
use tempfile::TempDir;

use super::log::{Action, Id, Job, Log, Outcome as Result, Run, Said, Step, Stored, Thread, hex};
use crate::record::{Arrival, Asked, End, Op, Outcome, Reading, Seen, Trial, What};

pub(super) const THREAD: Id = [1; 16];
pub(super) const RUN: Id = [2; 16];
pub(super) const CALL: Id = [3; 16];
pub(super) const MESSAGE: Id = [4; 16];
pub(super) const TAG: &str = "t1";

/// When the trial began, as the database counts.
pub(super) const EPOCH: i64 = 1_700_000_000_000;

/// The number of the run's last event.
pub(super) const LAST: u64 = 6;

pub(super) fn wire(prefix: &str, id: &Id) -> String {
    format!("{prefix}_{}", hex(id))
}

/// One message of Ann's, answered by a run that paid once.
pub(super) fn good() -> (Trial, Log) {
    let log = log();
    let events = &log.threads[&THREAD].events;
    let seen = |event: &Stored| Seen {
        seq: event.seq,
        event: event.kind.unwrap().name().into(),
        hash: hex(&event.hash),
    };
    let reading = Reading {
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
        outcome: Outcome::Ok,
        attempts: vec![200],
        answered: Some(10_500),
    }
}

fn asked() -> Asked {
    Asked {
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
    }
}

fn arrival() -> Arrival {
    Arrival {
        tool: "pay".into(),
        key: wire("call", &CALL),
        tag: TAG.into(),
        arguments: r#"{"n":1}"#.into(),
        at: 24_000,
        replied: Some(24_500),
        canaries: vec!["ann".into()],
    }
}

fn log() -> Log {
    let kinds =
        [Kind::MessageUser, Kind::RunStart, Kind::StepEnd, Kind::ToolStart, Kind::ToolComplete, Kind::RunEnd];
    let stored = |(seq, kind): (u64, Kind)| Stored {
        seq,
        run: Some(RUN),
        kind: Some(kind),
        hash: [u8::try_from(seq).unwrap(); 32],
        at: EPOCH + 10,
    };
    let events = (1..).zip(kinds).map(stored).collect();
    let thread = Thread { app: "alpha".into(), user: "ann".into(), deleted: false, events };
    let action = Action {
        tool: "pay".into(),
        effect: Effect::Irreversible,
        status: "complete".into(),
        undone_by: None,
        undo_of: None,
    };
    let job = |kind: &str, key: String| Job {
        kind: kind.into(),
        key,
        app: "alpha".into(),
        status: "done".into(),
        error: None,
        due_at: EPOCH,
    };
    Log {
        threads: HashMap::from([(THREAD, thread)]),
        runs: HashMap::from([(RUN, run())]),
        actions: HashMap::from([(CALL, action)]),
        jobs: vec![job("name_thread", wire("thr", &THREAD)), job("extract_memories", wire("msg", &MESSAGE))],
        said: HashMap::from([(TAG.into(), vec![Said { thread: THREAD, run: Some(RUN), seq: 1 }])]),
        ..Log::default()
    }
}

fn run() -> Run {
    let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
    Run {
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
        steps: vec![Step { at: EPOCH + 22, usage, whole: true, history: None }],
        steps_begun: vec![EPOCH + 20],
        resets: Vec::new(),
        begun: HashMap::from([(CALL, EPOCH + 23)]),
        results: HashMap::from([(CALL, Result { status: ToolStatus::Complete, outside: true })]),
    }
}

/// A database of the newest form with nothing in it. Foreign keys are not enforced, so that they can be broken.
pub(super) fn database() -> (TempDir, Connection) {
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
