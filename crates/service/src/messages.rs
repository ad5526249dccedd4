//! Messages as clients ask for them: the branch that a thread shows, the tree of all branches, and the choice of a branch.

use agent::{MessageTurn, tool_result_view};
use protocol::{
    Event, HeadChoice, Message, MessageId, Page, Principal, QueuedMessage, Role, RunStatus, Siblings, Source,
    ThreadId, ThreadTree, ThreadView, ToolCallView, TreeMessage, Usage,
};
use store::{
    AnswerRun, IdempotencyClaim, MAX_TREE_TEXT_CHARS, MessageRow, QueuedRun, RawEvent, RunInput,
    ShownMessage, TreeRow,
};

use crate::checks::PageQuery;
use crate::{Error, Service, views};

/// The sign at the end of a text of which only the beginning is shown.
const CUT: &str = "…";

/// Text between the steps of an answer.
const PARAGRAPH: &str = "\n\n";

/// A message as clients that keep conversations themselves have it: without ids of calls, and with all that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenMessage {
    pub id: MessageId,
    pub role: Role,
    /// For an answer, the texts of all its steps.
    pub text: String,
    /// Images and documents that go with it.
    pub parts: usize,
}

impl Service {
    /// The newest messages of the path to a message, oldest of them first; to the head of the thread if none is named.
    pub async fn spoken_path(
        &self,
        principal: &Principal,
        thread: ThreadId,
        leaf: Option<MessageId>,
        newest: usize,
    ) -> Result<Vec<SpokenMessage>, Error> {
        let row = agent::thread_row(self.store(), principal, thread).await?;
        let Some(leaf) = leaf.or(row.head) else { return Ok(Vec::new()) };
        let path = self.store().path(thread, leaf, newest).await?;
        Ok(path.iter().filter_map(spoken_message).collect())
    }

    /// The path to the thread's head, oldest first.
    pub async fn messages(
        &self,
        principal: &Principal,
        thread: ThreadId,
        page: PageQuery,
    ) -> Result<Page<Message>, Error> {
        let wanted = page.by_position()?;
        let row = agent::thread_row(self.store(), principal, thread).await?;
        let Some(head) = row.head else { return Ok(Page { data: Vec::new(), next: None }) };
        let page = self.store().messages(thread, head, wanted).await?;
        let last = page.rows.last().filter(|_| page.more).map(|shown| shown.row.seq.to_string());
        // One by one, so that no more than one message is there both as its rows and as it is shown.
        let data = page.rows.into_iter().filter_map(view).collect();
        Ok(Page { data, next: last })
    }

    /// The messages that wait for the thread, the next one first.
    pub async fn queued_messages(
        &self,
        principal: &Principal,
        thread: ThreadId,
    ) -> Result<Page<QueuedMessage>, Error> {
        agent::thread_row(self.store(), principal, thread).await?;
        let rows = self.store().queued_runs(thread).await?;
        Ok(Page { data: rows.into_iter().map(queued_view).collect(), next: None })
    }

    /// All messages of a thread, on all branches, oldest first.
    pub async fn thread_tree(
        &self,
        principal: &Principal,
        thread: ThreadId,
        page: PageQuery,
    ) -> Result<ThreadTree, Error> {
        let wanted = page.by_position()?;
        let row = agent::thread_row(self.store(), principal, thread).await?;
        let page = self.store().tree(thread, wanted).await?;
        let next = page.rows.last().filter(|_| page.more).map(|row| row.seq.to_string());
        let data = page.rows.into_iter().filter_map(tree_view).collect();
        Ok(ThreadTree { head_id: row.head, data, next })
    }

    /// Shows the branch through a message. Refused while a run is active in the thread.
    pub async fn choose_head(
        &self,
        principal: &Principal,
        thread: ThreadId,
        choice: HeadChoice,
        once: Option<IdempotencyClaim>,
    ) -> Result<ThreadView, Error> {
        agent::thread_row(self.store(), principal, thread).await?;
        let row = self.store().choose_head(principal, thread, choice.message_id, once).await?;
        Ok(views::thread(row))
    }
}

/// None for a row whose role is none we know.
fn spoken_message(row: &MessageRow) -> Option<SpokenMessage> {
    let MessageTurn { role, text, parts, steps, .. } = agent::read_message(row);
    let mut texts: Vec<String> = steps.into_iter().map(|step| step.text).collect();
    // A run that ended while its calls waited has no other text than that of its last step.
    if texts.last() != Some(&text) {
        texts.push(text);
    }
    texts.retain(|text| !text.trim().is_empty());
    Some(SpokenMessage { id: row.id, role: role?, text: texts.join(PARAGRAPH), parts: parts.len() })
}

/// None for a row whose role is none we know.
pub(crate) fn view(shown: ShownMessage) -> Option<Message> {
    let ShownMessage { row, siblings, reasoning, sources, run } = shown;
    let MessageTurn { role, text, parts, steps, results, memories_referenced, .. } =
        agent::read_message(&row);
    let role = role?;
    let calls = steps.into_iter().flat_map(|step| step.calls);
    let place = siblings.iter().position(|sibling| *sibling == row.id);
    // A message of the user only tells how its run ended.
    let answered = run.as_ref().filter(|_| role == Role::Assistant);
    Some(Message {
        id: row.id,
        role,
        text,
        parts,
        parent_id: row.parent,
        run_id: row.run,
        model: row.model.filter(|_| role == Role::Assistant),
        tool_calls: calls
            .map(|call| ToolCallView { id: call.id, name: call.name, input: call.input })
            .collect(),
        tool_results: results.into_iter().map(tool_result_view).collect(),
        memories_referenced,
        siblings: place.map(|index| Siblings { ids: siblings, index }),
        reasoning: (!reasoning.is_empty()).then(|| reasoning.join("\n\n")),
        sources: distinct_sources(&sources),
        usage: answered.map(|run| run.usage).filter(|usage| *usage != Usage::default()),
        duration_ms: answered.and_then(duration_ms),
        status: run.as_ref().map(|run| run.status).filter(|status| *status != RunStatus::Completed),
        error: run.and_then(|run| run.error),
        created_at: row.created_at,
    })
}

fn queued_view(row: QueuedRun) -> QueuedMessage {
    let (text, parts) = match row.ask {
        RunInput::Say { text, parts, .. } => (text.trim().to_owned(), parts),
        RunInput::Again { .. } => (String::new(), Vec::new()),
    };
    QueuedMessage { run_id: row.run, text, parts, created_at: row.created_at }
}

/// How long a run took, once it has ended.
fn duration_ms(run: &AnswerRun) -> Option<u64> {
    let span = run.ended_at?.as_millisecond().saturating_sub(run.started_at?.as_millisecond());
    u64::try_from(span).ok()
}

/// The sources that can be read, each once: a search can give one again.
fn distinct_sources(events: &[RawEvent]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for event in events {
        if let Ok(Event::Source(source)) = Event::read(&event.kind, &event.body)
            && !sources.contains(&source)
        {
            sources.push(source);
        }
    }
    sources
}

/// None for a row whose role is none we know.
fn tree_view(row: TreeRow) -> Option<TreeMessage> {
    let text = row.text.unwrap_or_else(|| agent::UNREADABLE.to_owned());
    Some(TreeMessage {
        id: row.id,
        parent_id: row.parent,
        role: row.role.role()?,
        text: beginning(text),
        run_id: row.run,
        created_at: row.created_at,
    })
}

fn beginning(text: String) -> String {
    match text.char_indices().nth(MAX_TREE_TEXT_CHARS) {
        Some((end, _)) => format!("{}{CUT}", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let whole = "é".repeat(MAX_TREE_TEXT_CHARS);
        assert_eq!(beginning(whole.clone()), whole);
        assert_eq!(beginning(format!("{whole}x")), format!("{whole}…"));
    }

    #[test]
    fn a_source_that_came_twice_is_shown_once() {
        let event = |seq, body: &str| RawEvent { seq, kind: "source".into(), body: body.into() };
        let body = r#"{"kind":"web","id":"https://a.example","title":"A","place":""}"#;
        let other = r#"{"kind":"web","id":"https://b.example","title":"B","place":""}"#;
        let sources = distinct_sources(&[event(1, body), event(2, other), event(3, body), event(4, "{")]);
        let ids: Vec<&str> = sources.iter().map(|source| source.id.as_str()).collect();
        assert_eq!(ids, ["https://a.example", "https://b.example"]);
    }
}
