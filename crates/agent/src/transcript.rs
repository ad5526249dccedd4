//! Reading stored messages back, also from rows that are damaged.
//!
//! Both the API and the prompt are made from this one reading. It never fails: a row that cannot be read is left out
//! or stands as a placeholder, and what is left out is counted, so that one corrupt row never bricks a thread.

use std::borrow::Cow;
use std::collections::HashSet;

use protocol::{
    Call, Event, MAX_DOCUMENTS_PER_MESSAGE, MAX_IMAGES_PER_MESSAGE, MessagePart, Role, StepEnd, ThreadId,
    ToolComplete,
};
use store::{MessageRow, RawEvent};

/// Calls one step may hold. The schema refuses more; rows written around it are cut here.
pub(crate) const MAX_CALLS_PER_STEP: usize = 32;

/// Characters that the log shows of an unknown role.
const MAX_ROLE_CHARS: usize = 32;

/// Results of one message that are shown at most, where they cannot all be right.
const MAX_DOUBTFUL_RESULTS: usize = 100;

/// Parts of one message. The service refuses more; rows written around it are cut here.
const MAX_PARTS: usize = MAX_IMAGES_PER_MESSAGE + MAX_DOCUMENTS_PER_MESSAGE;

/// The text that stands for a message whose row cannot be read.
pub const UNREADABLE: &str = "[this message could not be read]";

/// A message as far as it can be read.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageTurn {
    /// None when the stored role is none we know.
    pub role: Option<Role>,
    pub text: String,
    /// Images and documents that go with the text.
    pub parts: Vec<MessagePart>,
    /// The steps that called tools, in order.
    pub steps: Vec<StepEnd>,
    /// At most one result per call, the first.
    pub results: Vec<ToolComplete>,
    pub memories_referenced: Vec<String>,
    pub(crate) trouble: MessageTrouble,
}

impl MessageTurn {
    /// Whether it has neither words nor parts, like the message before a greeting.
    pub(crate) fn is_silent(&self) -> bool {
        self.text.is_empty() && self.parts.is_empty()
    }

    /// The text with a line for each part, for readers who see no parts.
    pub(crate) fn text_with_parts(&self) -> Cow<'_, str> {
        if self.parts.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(text_with(&self.text, self.parts.iter()))
    }
}

/// A text with a line for each of these parts.
pub(crate) fn text_with<'a>(text: &str, parts: impl Iterator<Item = &'a MessagePart>) -> String {
    let mut lines: Vec<String> = Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
    lines.extend(parts.map(MessagePart::placeholder));
    lines.join("\n")
}

/// Defects of a message's rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageTrouble {
    pub(crate) unreadable: usize,
    /// The stored role is none we know.
    pub(crate) unknown_role: bool,
    /// Results found and results allowed, when there were more than can be right.
    pub(crate) results: Option<(u64, usize)>,
}

pub fn read(row: &MessageRow) -> MessageTurn {
    let mut trouble = MessageTrouble::default();
    let Said { text, parts, memories_referenced } = said_text(row.said.as_ref(), &mut trouble);
    let steps = steps(&row.steps, &mut trouble);
    let calls: HashSet<_> = steps.iter().flat_map(|step| &step.calls).map(|call| call.id).collect();
    let read: Vec<Option<ToolComplete>> = row.results.iter().map(result).collect();
    let allowed = allowed_results(row.results_total, calls.len(), repeats(&read));
    if row.results_total > allowed as u64 {
        trouble.results = Some((row.results_total, allowed));
    }
    let shown = || read.iter().take(allowed);
    trouble.unreadable += shown().filter(|result| result.is_none()).count();
    let mut seen = HashSet::new();
    let results = shown()
        .flatten()
        .filter(|result| calls.contains(&result.call_id) && seen.insert(result.call_id))
        .cloned()
        .collect();
    let role = row.role.role();
    trouble.unknown_role = role.is_none();
    MessageTurn { role, text, parts, steps, results, memories_referenced, trouble }
}

/// The safeguard against corrupt history: `min(results, calls × 2, 100)` where there are more results than calls, or
/// several of one call. A history without such faults stays whole.
fn allowed_results(results: u64, calls: usize, repeated: bool) -> usize {
    let results = usize::try_from(results).unwrap_or(usize::MAX);
    if results <= calls && !repeated {
        return results;
    }
    results.min(calls.saturating_mul(2)).min(MAX_DOUBTFUL_RESULTS)
}

/// Whether a call has several results.
fn repeats(results: &[Option<ToolComplete>]) -> bool {
    let mut seen = HashSet::new();
    results.iter().flatten().any(|result| !seen.insert(result.call_id))
}

fn result(raw: &RawEvent) -> Option<ToolComplete> {
    match Event::read(&raw.kind, &raw.body) {
        Ok(Event::ToolComplete(result)) => Some(result),
        Ok(_) | Err(_) => None,
    }
}

/// The words and outcome that the event of a message holds.
#[derive(Default)]
struct Said {
    text: String,
    parts: Vec<MessagePart>,
    memories_referenced: Vec<String>,
}

fn said_text(raw: Option<&RawEvent>, trouble: &mut MessageTrouble) -> Said {
    let of_text = |text| Said { text, ..Said::default() };
    match raw.map(|raw| Event::read(&raw.kind, &raw.body)) {
        // The log keeps every byte; what is said is the text between the spaces.
        Some(Ok(Event::MessageUser(said))) => {
            let mut parts = said.parts;
            parts.truncate(MAX_PARTS);
            Said { parts, ..of_text(said.text.trim().to_owned()) }
        }
        Some(Ok(Event::StreamComplete(answer))) => {
            Said { memories_referenced: answer.memories_referenced, ..of_text(answer.text) }
        }
        Some(Ok(Event::StepEnd(step))) => of_text(step.text),
        // A run that was cut short before it said anything.
        Some(Ok(Event::RunEnd(_))) => Said::default(),
        Some(Ok(_) | Err(_)) | None => {
            trouble.unreadable += 1;
            of_text(UNREADABLE.to_owned())
        }
    }
}

/// The readable steps that called tools; a call's id counts once.
fn steps(rows: &[RawEvent], trouble: &mut MessageTrouble) -> Vec<StepEnd> {
    let mut seen = HashSet::new();
    let mut steps = Vec::new();
    for raw in rows {
        let Ok(Event::StepEnd(mut step)) = Event::read(&raw.kind, &raw.body) else {
            trouble.unreadable += 1;
            continue;
        };
        step.calls.retain(|call: &Call| seen.insert(call.id));
        step.calls.truncate(MAX_CALLS_PER_STEP);
        if !step.calls.is_empty() {
            steps.push(step);
        }
    }
    steps
}

/// The beginning of a text, for the log.
fn log_excerpt(text: &str) -> String {
    text.chars().take(MAX_ROLE_CHARS).collect()
}

/// Says once per message what was wrong with it, naming the thread.
pub(crate) fn warn(thread: ThreadId, row: &MessageRow, trouble: MessageTrouble) {
    if let Some((found, allowed)) = trouble.results {
        tracing::warn!(%thread, message = %row.id, found, allowed, "corrupt history: more tool results than calls allow");
    }
    if trouble.unknown_role {
        let role = log_excerpt(row.role.name());
        tracing::warn!(%thread, message = %row.id, role, "corrupt history: a message of an unknown role is left out");
    }
    if trouble.unreadable > 0 {
        tracing::warn!(%thread, message = %row.id, rows = trouble.unreadable, "corrupt history: unreadable rows");
    }
}
