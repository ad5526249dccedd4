//! O6: what a client makes of a run's events is what is stored of it.

use std::collections::HashMap;

use protocol::Stored;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Value, json};
use store::inspection::LoggedRow;
use testkit::Frame;
use testkit::fold::{DeltaState, Folded, fold};

use crate::record::Violation;

use super::case::violation;
use super::log::{LoggedRun, RowId, StoredLog, hex, log_rows, number};
use super::mixtures;

/// The messages of a thread as they are stored: whose, of which run, and the event that holds the text.
const MESSAGES: &str = "SELECT m.id, m.role, m.run, e.body ->> '$.text', e.kind
    FROM messages m LEFT JOIN events e ON e.thread = m.thread AND e.seq = m.seq WHERE m.thread = ?1 ORDER BY m.seq";

pub(super) fn check(conn: &Connection, log: &StoredLog) -> Vec<Violation> {
    let mut found = Vec::new();
    let stored = match log_rows(conn) {
        Ok(stored) => stored,
        Err(error) => return vec![violation("O6", format!("the log cannot be read: {error}"))],
    };
    let mut frames: HashMap<RowId, RunFrames> = HashMap::new();
    for LoggedRow { event, .. } in stored {
        let Some(run) = event.run else { continue };
        let of_thread = frames.entry(*event.thread.bytes()).or_default();
        of_thread.entry(*run.bytes()).or_default().push(frame(&event));
    }
    for id in log.threads.iter().filter(|(_, thread)| !thread.deleted).map(|(id, _)| id) {
        let frames = frames.remove(id).unwrap_or_default();
        found.extend(frames.iter().flat_map(|(run, frames)| mixtures::check(run, frames)));
        match of_thread(conn, log, id, &frames) {
            Ok(complaints) => found.extend(complaints.into_iter().map(|what| violation("O6", what))),
            Err(error) => found.push(violation("O6", format!("thread {} cannot be read: {error}", hex(id)))),
        }
    }
    found
}

/// The events of each run, as a client gets them.
type RunFrames = HashMap<RowId, Vec<Frame>>;

fn of_thread(
    conn: &Connection,
    log: &StoredLog,
    thread: &RowId,
    frames: &RunFrames,
) -> rusqlite::Result<Vec<String>> {
    let mut list = conn.prepare_cached(MESSAGES)?;
    let stored: Vec<Value> = list.query_map([thread], message)?.collect::<Result<_, _>>()?;
    let mut complaints = Vec::new();
    for (id, frames) in frames {
        let Some(run) = log.runs.get(id) else { continue };
        let deltas = if run.pruned { DeltaState::Pruned } else { DeltaState::Kept };
        let folded = fold(frames, deltas);
        let about = |what: String| format!("run {} of message {:?}: {what}", hex(id), run.tag);
        complaints.extend(folded.findings.iter().cloned().map(about));
        complaints.extend(differences(&folded, run, id, &stored).into_iter().map(about));
        complaints.extend(tokens(conn, &folded, id)?.map(about));
    }
    Ok(complaints)
}

fn frame(event: &Stored) -> Frame {
    let data = serde_json::from_str(&event.body).unwrap_or_default();
    Frame { id: event.seq, event: event.kind.to_string(), data }
}

fn message(row: &Row<'_>) -> rusqlite::Result<Value> {
    let (id, role, run): (RowId, String, RowId) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let text: Option<String> = row.get(3)?;
    Ok(json!({ "id": format!("msg_{}", hex(&id)), "role": role, "run": hex(&run), "text": text }))
}

fn differences(folded: &Folded, run: &LoggedRun, id: &RowId, stored: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let status = folded.status.as_deref();
    if status.is_some_and(|status| status != run.status.name()) {
        found.push(format!("it is {} and its events say {status:?}", run.status.name()));
    }
    let asked = folded.asked.as_ref().map(|asked| (field(asked, "messageId"), field(asked, "text")));
    let said = folded.message.as_ref().map(|said| (field(said, "id"), field(said, "text")));
    for (role, expected) in [("user", asked), ("assistant", said)] {
        let of_run = |message: &&Value| field(message, "run") == hex(id) && field(message, "role") == role;
        let there: Vec<(&str, &str)> = stored
            .iter()
            .filter(of_run)
            .map(|message| (field(message, "id"), field(message, "text")))
            .collect();
        if there.as_slice() != expected.as_slice() {
            found.push(format!("stored of the {role}: {there:?}; its events say {expected:?}"));
        }
    }
    found
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn tokens(conn: &Connection, folded: &Folded, run: &RowId) -> rusqlite::Result<Option<String>> {
    let mut find = conn.prepare_cached("SELECT input_tokens, output_tokens FROM runs WHERE id = ?1")?;
    let stored: Option<(u64, u64)> =
        find.query_row([run], |row| Ok((number(row, 0)?, number(row, 1)?))).optional()?;
    let told = (folded.input_tokens, folded.output_tokens);
    Ok(stored
        .filter(|stored| *stored != told)
        .map(|stored| format!("it used {stored:?}; its events say {told:?}")))
}
