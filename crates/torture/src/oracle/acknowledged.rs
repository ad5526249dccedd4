//! O4: what was acknowledged is there, what was refused is not, and a request with an unknown answer is there at most
//! once.

use crate::record::{Op, OperationOutcome, Violation, What};

use super::case::{Case, violation};
use super::log::{LoggedMemory, RowId, hex, id};

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let mut found: Vec<Violation> = case.trial.ops.iter().flat_map(|op| of_op(case, op)).collect();
    found.extend(lost_threads(case));
    found
}

fn of_op(case: &Case<'_>, op: &Op) -> Vec<Violation> {
    let complaints = match &op.what {
        What::Send { .. } => check_send(case, op),
        What::Cancel { run, .. } => check_cancel(case, op, run),
        What::Decide { proposal, run, confirm } => check_decision(case, op, (proposal, run), *confirm),
        What::Undo { action } => check_undo(case, op, action),
        What::Remember { text, memory } => check_addition(case, op, text, memory.as_deref()),
        What::Edit { memory, text } => check_edit(case, op, memory, text),
        What::Forget { memory } => check_forget(case, op, memory),
        What::DeleteThread { thread } => check_deletion(case, op, thread),
        What::Search { words, found } => check_search(case, op, words, found),
        What::Read { .. } => Vec::new(),
    };
    let tell = |what: String| {
        violation("O4", format!("{what} (user {}, key {}, {:?})", op.user, op.key, op.outcome))
    };
    complaints.into_iter().map(tell).collect()
}

fn check_send(case: &Case<'_>, op: &Op) -> Vec<String> {
    let What::Send { tag, thread: asked, runs, threads, .. } = &op.what else { return Vec::new() };
    let places = case.log.said.get(tag).map(Vec::as_slice).unwrap_or_default();
    let mut complaints = Vec::new();
    if runs.len() > 1 {
        complaints.push(format!("message {tag}: one key has led to the runs {runs:?}"));
    }
    if places.len() > 1 {
        complaints.push(format!("message {tag} is stored {} times", places.len()));
    }
    let elsewhere = asked.as_ref().is_some_and(|asked| threads.iter().any(|told| told != asked));
    if elsewhere || threads.len() > 1 {
        complaints.push(format!("message {tag} was sent to {asked:?} and told to be in {threads:?}"));
    }
    match op.outcome {
        OperationOutcome::Unknown => {}
        OperationOutcome::Fail => {
            // A thread that is deleted refuses what it had taken before.
            if places.iter().any(|place| !case.is_deleted(&place.thread)) {
                complaints.push(format!("message {tag} was refused and is stored"));
            }
        }
        OperationOutcome::Ok => complaints.extend(lost_message(case, tag, runs.first())),
    }
    complaints
}

/// Returns the part that is missing of a message that was accepted.
fn lost_message(case: &Case<'_>, tag: &str, run: Option<&String>) -> Option<String> {
    let place = case.log.said.get(tag).and_then(|places| places.first());
    let Some(run) = run.and_then(|run| id(run)) else {
        return place.is_none().then(|| format!("message {tag} was accepted and is not stored"));
    };
    if case.thread_of(&run).is_some_and(|thread| case.is_deleted(&thread)) {
        return None;
    }
    let Some(stored) = case.log.runs.get(&run) else {
        return Some(format!("message {tag} was accepted and its run {} is gone", hex(&run)));
    };
    let told = case.thread_of(&run);
    match place {
        Some(place) if place.run != Some(run) => {
            Some(format!("message {tag} is not of the run {} that its sender was told", hex(&run)))
        }
        Some(place) if told != Some(place.thread) => Some(format!("message {tag} is in another thread")),
        Some(_) => None,
        // It never had its turn.
        None if stored.start.is_none() && case.cancelled.contains(&run) => None,
        None => Some(format!("message {tag} was accepted and is not stored, though its run is")),
    }
}

fn check_cancel(case: &Case<'_>, op: &Op, run: &str) -> Vec<String> {
    let Some(run) = id(run).filter(|_| op.outcome == OperationOutcome::Ok) else { return Vec::new() };
    let gone = case.thread_of(&run).is_none_or(|thread| case.is_deleted(&thread));
    let lost = !case.log.runs.contains_key(&run) && !gone;
    lost.then(|| format!("run {} was cancelled and is gone", hex(&run))).into_iter().collect()
}

fn check_decision(case: &Case<'_>, op: &Op, (proposal, run): (&str, &str), confirm: bool) -> Vec<String> {
    if op.outcome != OperationOutcome::Ok {
        return Vec::new();
    }
    let thread = id(run).and_then(|run| case.thread_of(&run));
    if thread.is_none_or(|thread| case.is_deleted(&thread)) {
        return Vec::new();
    }
    let wanted = if confirm { "confirmed" } else { "rejected" };
    let stored = id(proposal).and_then(|proposal| case.log.proposals.get(&proposal));
    let status = stored.map(|proposal| proposal.status.as_str());
    let differs = status != Some(wanted);
    differs.then(|| format!("proposal {proposal} was {wanted} and is {status:?}")).into_iter().collect()
}

fn check_undo(case: &Case<'_>, op: &Op, action: &str) -> Vec<String> {
    // A whole run can be undone too; what it says of each action is not written down.
    if op.outcome != OperationOutcome::Ok || action.starts_with("run_") {
        return Vec::new();
    }
    let stored = id(action).and_then(|action| case.log.actions.get(&action));
    match stored {
        Some(stored) if stored.undone_by.is_some() => Vec::new(),
        Some(_) => vec![format!("action {action} was undone and is not")],
        None => vec![format!("action {action} was undone and is gone")],
    }
}

fn check_addition(case: &Case<'_>, op: &Op, text: &str, memory: Option<&str>) -> Vec<String> {
    let said = |memory: &&LoggedMemory| {
        is_of(memory, op) && memory.texts.first().is_some_and(|first| first.trim() == text.trim())
    };
    let times = case.log.memories.values().filter(said).count();
    let stored = memory.and_then(id).and_then(|memory| case.log.memories.get(&memory));
    // One that says the same was there: that one is named, with another status.
    let known = op.attempts.last() == Some(&200);
    let held = stored.is_some_and(|stored| is_of(stored, op) && (known || count_versions(stored, text) > 0));
    let mut complaints = Vec::new();
    if times > 1 {
        complaints.push(format!("memory {text:?} was added once and is there {times} times"));
    }
    if op.outcome == OperationOutcome::Fail && times > 0 {
        complaints.push(format!("memory {text:?} was refused and is there"));
    }
    if op.outcome == OperationOutcome::Ok && times == 0 && !held {
        complaints.push(format!("memory {text:?} ({memory:?}) was added and is not there"));
    }
    complaints
}

fn check_edit(case: &Case<'_>, op: &Op, memory: &str, text: &str) -> Vec<String> {
    let stored = id(memory).and_then(|memory| case.log.memories.get(&memory));
    let times = stored.map_or(0, |stored| count_versions(stored, text));
    let complaint = match op.outcome {
        OperationOutcome::Ok if times == 0 => {
            Some(format!("memory {memory} was edited and never was {text:?}"))
        }
        OperationOutcome::Fail if times > 0 => {
            Some(format!("memory {memory} was not to be edited and was {text:?}"))
        }
        OperationOutcome::Ok | OperationOutcome::Fail | OperationOutcome::Unknown => None,
    };
    complaint.into_iter().collect()
}

fn check_forget(case: &Case<'_>, op: &Op, memory: &str) -> Vec<String> {
    let stored = id(memory).and_then(|memory| case.log.memories.get(&memory));
    let kept = op.outcome == OperationOutcome::Ok && stored.is_some_and(|stored| stored.active);
    kept.then(|| format!("memory {memory} was forgotten and is active")).into_iter().collect()
}

fn check_deletion(case: &Case<'_>, op: &Op, thread: &str) -> Vec<String> {
    let shown =
        op.outcome == OperationOutcome::Ok && id(thread).is_some_and(|thread| !case.log.is_gone(&thread));
    shown.then(|| format!("thread {thread} was deleted and is there")).into_iter().collect()
}

/// Checks that memories which the same user had added before, and no request has changed since, are found by their
/// words.
fn check_search(case: &Case<'_>, op: &Op, words: &str, found: &[String]) -> Vec<String> {
    if op.outcome != OperationOutcome::Ok {
        return Vec::new();
    }
    let before = |other: &&Op| {
        let same = other.user == op.user && other.app == op.app && other.outcome == OperationOutcome::Ok;
        same && other.answered.unwrap_or(other.ended) < op.began
    };
    let missed = case.trial.ops.iter().filter(before).filter_map(|other| {
        let What::Remember { text, memory: Some(memory) } = &other.what else { return None };
        let stored = case.log.memories.get(&id(memory)?)?;
        let untouched = stored.active && stored.texts.len() == 1;
        let wanted = untouched && text.split_whitespace().any(|word| word == words);
        let missed = wanted && !found.iter().any(|found| found.trim() == text.trim());
        missed.then(|| format!("memory {text:?} was not found by {words:?} among {} found", found.len()))
    });
    missed.collect()
}

/// How often a memory became this text.
fn count_versions(memory: &LoggedMemory, text: &str) -> usize {
    memory.texts.iter().filter(|version| version.trim() == text.trim()).count()
}

fn is_of(memory: &LoggedMemory, op: &Op) -> bool {
    memory.user == op.user && memory.app == op.app
}

/// Threads that a sender was told of and that are gone without a request to delete them.
fn lost_threads(case: &Case<'_>) -> Vec<Violation> {
    let mut lost: Vec<RowId> = Vec::new();
    for op in &case.trial.ops {
        let What::Send { threads, .. } = &op.what else { continue };
        let told = threads.iter().filter_map(|thread| id(thread));
        lost.extend(told.filter(|thread| case.log.is_gone(thread) && !case.deleted.contains(thread)));
    }
    lost.sort_unstable();
    lost.dedup();
    let tell =
        |thread: RowId| violation("O4", format!("thread {} is gone and nobody deleted it", hex(&thread)));
    lost.into_iter().map(tell).collect()
}

#[cfg(test)]
mod tests;
