//! O9: every run has caused its work for later, each piece was done or given up with a reason, and none did its effect
//! twice.

use std::collections::{HashMap, HashSet};

use protocol::{Clock, RunStatus, SystemClock};
use rusqlite::Connection;

use crate::record::Violation;

use super::case::{Case, violation};
use super::log::{LoggedJob, LoggedRun, RowId, StoredLog, hex};
use super::rows;

const NAME_THREAD: &str = "name_thread";
const EXTRACT: &str = "extract_memories";
const SUMMARISE: &str = "summarise";

/// Milliseconds after which work that is due must have begun.
const PATIENCE: i64 = 10_000;

/// Effects that are there twice.
const DOUBLED: [(&str, &str); 3] = [
    (
        "a thread was named more than once",
        "SELECT lower(hex(thread)) FROM events WHERE kind = 'thread:named' GROUP BY thread HAVING count(*) > 1",
    ),
    (
        "a message became the same memory more than once",
        "SELECT lower(hex(s.message)) || ' ' || m.text FROM memories m JOIN memory_sources s ON s.memory = m.id
            WHERE m.source = 'extracted' AND s.message IS NOT NULL
            GROUP BY s.message, m.app, m.user, m.text HAVING count(DISTINCT m.id) > 1",
    ),
    (
        "a stretch was summarised more than once",
        "SELECT lower(hex(thread)) || ' ' || (body ->> '$.toMessageId') FROM events WHERE kind = 'summary'
            GROUP BY thread, body ->> '$.level', body ->> '$.toMessageId' HAVING count(*) > 1",
    ),
];

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let now = SystemClock.now().as_millisecond();
    let mut found: Vec<Violation> = case.log.jobs.iter().filter_map(|job| unfinished_job(job, now)).collect();
    found.extend(missing_jobs(case.log));
    found
}

/// Finds jobs that are in the database twice.
pub(super) fn find_doubled(conn: &Connection) -> Vec<Violation> {
    DOUBLED.iter().flat_map(|(what, sql)| rows::complain("O9", conn, what, sql)).collect()
}

fn unfinished_job(job: &LoggedJob, now: i64) -> Option<Violation> {
    let complaint = match job.status.as_str() {
        "running" => "is under way after all is quiet",
        // One that waits for its next attempt is not late.
        "ready" if job.due_at < now - PATIENCE => "was due and did not begin",
        "dead" if job.error.as_deref().unwrap_or_default().is_empty() => "is dead without a reason",
        _ => return None,
    };
    Some(violation("O9", format!("job {} {} {complaint}", job.kind, job.key)))
}

fn missing_jobs(log: &StoredLog) -> Vec<Violation> {
    let there: HashSet<(&str, &str)> =
        log.jobs.iter().map(|job| (job.kind.as_str(), job.key.as_str())).collect();
    // Jobs that an app causes are seen by what it has caused: if some of its messages were looked at, all are.
    let extracting: HashSet<&str> =
        log.jobs.iter().filter(|job| job.kind == EXTRACT).map(|job| job.app.as_str()).collect();
    let long = long_histories(log, &there);
    let mut found = Vec::new();
    for (id, run) in log.runs.iter().filter(|(_, run)| !log.is_gone(&run.thread)) {
        let (thread, message) = (format!("thr_{}", hex(&run.thread)), format!("msg_{}", hex(&run.message)));
        let completed = run.status == RunStatus::Completed;
        let is_long = |least: &u64| history(run).is_some_and(|tokens| tokens >= *least);
        let wanted = [
            (completed, NAME_THREAD, &thread),
            (run.start.is_some() && extracting.contains(run.app.as_str()), EXTRACT, &message),
            (completed && long.get(run.app.as_str()).is_some_and(is_long), SUMMARISE, &message),
        ];
        for (_, kind, key) in wanted.into_iter().filter(|(wanted, ..)| *wanted) {
            if !there.contains(&(kind, key.as_str())) {
                found.push(violation(
                    "O9",
                    format!("run {} has caused no {kind} {key}", describe_run(id, run)),
                ));
            }
        }
    }
    found
}

/// The shortest history of each app that has caused a summary: longer ones must have, too.
fn long_histories<'a>(log: &'a StoredLog, there: &HashSet<(&str, &str)>) -> HashMap<&'a str, u64> {
    let mut least: HashMap<&str, u64> = HashMap::new();
    for run in log.runs.values().filter(|run| run.status == RunStatus::Completed) {
        let key = format!("msg_{}", hex(&run.message));
        if let Some(tokens) = history(run).filter(|_| there.contains(&(SUMMARISE, key.as_str()))) {
            least.entry(&run.app).and_modify(|known| *known = (*known).min(tokens)).or_insert(tokens);
        }
    }
    least
}

/// Tokens of earlier messages in the run's last prompt.
fn history(run: &LoggedRun) -> Option<u64> {
    run.steps.iter().rev().find_map(|step| step.history)
}

fn describe_run(id: &RowId, run: &LoggedRun) -> String {
    format!("{} of message {:?}", hex(id), run.tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::tests::sample::{self, RUN};

    fn found(change: impl FnOnce(&mut StoredLog)) -> Vec<String> {
        let (trial, mut log) = sample::good();
        change(&mut log);
        check(&Case::new(&trial, &log)).into_iter().map(|violation| violation.what).collect()
    }

    fn one(change: impl FnOnce(&mut StoredLog), part: &str) {
        let found = found(change);
        assert!(matches!(found.as_slice(), [what] if what.contains(part)), "{part}: {found:?}");
    }

    #[test]
    fn work_that_was_not_done_is_found() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
        one(|log| log.jobs[0].status = "running".into(), "is under way");
        one(|log| log.jobs[0].status = "ready".into(), "did not begin");
        one(|log| log.jobs[0].status = "dead".into(), "without a reason");
        let later =
            |log: &mut StoredLog| (log.jobs[0].status, log.jobs[0].due_at) = ("ready".into(), i64::MAX);
        assert_eq!(found(later), Vec::<String>::new());
        let dead = |log: &mut StoredLog| {
            (log.jobs[0].status, log.jobs[0].error) = ("dead".into(), Some("the model is gone".into()));
        };
        assert_eq!(found(dead), Vec::<String>::new());
    }

    #[test]
    fn work_that_was_never_there_is_found() {
        one(|log| log.jobs.retain(|job| job.kind != NAME_THREAD), "name_thread thr_");
        let other = |log: &mut StoredLog| {
            let job = log.jobs.iter_mut().find(|job| job.kind == EXTRACT).unwrap();
            job.key = "msg_another".into();
        };
        one(other, "extract_memories msg_");
        let never = |log: &mut StoredLog| log.jobs.retain(|job| job.kind != EXTRACT);
        assert_eq!(found(never), Vec::<String>::new(), "the app has no such work");
        let gone = |log: &mut StoredLog| {
            log.jobs.clear();
            log.threads.clear();
        };
        assert_eq!(found(gone), Vec::<String>::new());
    }

    #[test]
    fn a_history_as_long_as_one_that_was_summarised_is_summarised() {
        let second = |tokens: u64| {
            move |log: &mut StoredLog| {
                let first = log.runs.get_mut(&RUN).unwrap();
                first.steps[0].history = Some(500);
                let key = format!("msg_{}", hex(&first.message));
                let mut other = LoggedRun { message: [0x77; 16], start: None, ..first.clone() };
                other.steps[0].history = Some(tokens);
                log.runs.insert([0x78; 16], other);
                let job = LoggedJob { kind: SUMMARISE.into(), key, ..log.jobs[0].clone() };
                log.jobs.push(job);
            }
        };
        one(second(500), "summarise msg_7777");
        assert_eq!(found(second(499)), Vec::<String>::new());
    }

    #[test]
    fn effects_that_are_there_twice_are_found() {
        let (_folder, conn) = sample::database();
        assert_eq!(find_doubled(&conn), []);
        conn.execute_batch(
            "INSERT INTO threads (id, app, user, created_at, updated_at) VALUES (zeroblob(16), 'a', 'u', 0, 0);
             INSERT INTO events (thread, seq, kind, at, body) VALUES (zeroblob(16), 1, 'thread:named', 0, '{}');",
        )
        .unwrap();
        assert_eq!(find_doubled(&conn), []);
        conn.execute_batch(
            "DROP TRIGGER events_append;
             INSERT INTO events (thread, seq, kind, at, body) SELECT thread, seq + 1, kind, at, body FROM events;
             INSERT INTO events (thread, seq, kind, at, body)
                VALUES (zeroblob(16), 3, 'summary', 0, '{\"level\":0,\"toMessageId\":\"m\"}'),
                       (zeroblob(16), 4, 'summary', 0, '{\"level\":0,\"toMessageId\":\"m\"}');
             INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
                VALUES (randomblob(16), 'a', 'u', 'x', 'fact', 'active', 'extracted', 0, 0),
                       (randomblob(16), 'a', 'u', 'x', 'fact', 'active', 'extracted', 0, 0);
             INSERT INTO memory_sources (memory, thread, message, at)
                SELECT id, zeroblob(16), zeroblob(16), 0 FROM memories;",
        )
        .unwrap();
        let found: Vec<String> = find_doubled(&conn).into_iter().map(|violation| violation.what).collect();
        for part in ["named", "memory", "summarised"] {
            assert!(found.iter().any(|what| what.contains(part)), "{part}: {found:?}");
        }
    }
}
