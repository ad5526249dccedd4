//! What a run takes from outside its log, read once and noted: memories, earlier conversations, proposals, the date.

use app::Inject;
use memory::index::{Among, ItemId};
use memory::recall::{Found, Question};
use memory::remember::{self, Asked, Outcome, Statement};
use memory::secrets;
use protocol::{ContextLoaded, Decision, Event, MemoryId, Remembered, RememberedOutcome};
use store::{NewMemory, PageOf, ProposalRow, Source, Window, Write};

use super::Run;
use super::state::RunState;
use crate::context;
use crate::transcript;

/// The tool that proposes calls which outlive their run.
const CREATE_PROPOSAL: &str = "createProposal";

/// Proposals of the user among which those of this conversation are looked for, and at most shown to the model.
const MAX_PROPOSALS_LOOKED_AT: usize = 50;
const MAX_PROPOSALS_SHOWN: usize = 10;

/// Bytes of a proposal's input that the model is reminded of.
const MAX_PROPOSAL_BYTES: usize = 300;

/// What is kept because the user said so.
const ASKED: &str = "asked";

/// A past message that is less near than this says nothing about the question.
const MIN_MESSAGE_SCORE: f32 = 0.3;

/// What was read of memories.
#[derive(Default)]
struct Known {
    memories: Vec<String>,
    recalled: Vec<String>,
}

impl Run {
    /// Notes what the prompt takes from outside the log, and keeps what the message asks to remember.
    pub(super) async fn load(&self, state: &RunState) -> Result<Vec<Event>, store::Error> {
        let date = self.started.strftime("%A, %-d %B %Y (UTC)").to_string();
        let memory = &self.app.memory;
        let is_on = memory.is_used() && !self.store.memory_is_off(&self.scope).await?;
        let message = if is_on { self.message(state).await? } else { String::new() };
        let (remembered, writes) =
            match (is_on && memory.remember).then(|| remember::asked(&message)).flatten() {
                Some(asked) => self.remember(state, asked).await?,
                None => (None, Vec::new()),
            };
        let answered = remembered.as_ref().is_some_and(|remembered| remembered.reply.is_some());
        let known = if is_on && !answered { self.recall(&message).await? } else { Known::default() };
        let proposals = self.proposals().await?;
        let Known { memories, recalled } = known;
        let loaded = ContextLoaded { memories, recalled, remembered, summaries: vec![], proposals, date };
        match self.record_with(vec![Event::ContextLoaded(loaded.clone())], Vec::new(), writes).await {
            Err(store::Error::Changed(reason)) => {
                let remembered = loaded.remembered.map(|remembered| no_room(remembered, &reason));
                self.record(vec![Event::ContextLoaded(ContextLoaded { remembered, ..loaded })]).await
            }
            recorded => recorded,
        }
    }

    /// What the user said.
    async fn message(&self, state: &RunState) -> Result<String, store::Error> {
        let Some(start) = &state.start else { return Ok(String::new()) };
        let rows = self.store.path(self.thread, start.message_id, Window::Newest(1)).await?;
        Ok(rows.last().map(|row| transcript::read(row).text).unwrap_or_default())
    }

    async fn recall(&self, message: &str) -> Result<Known, store::Error> {
        let memory = &self.app.memory;
        let ids = |rows: Vec<store::MemoryRow>| rows.iter().map(|row| row.id.to_string()).collect();
        let memories = match memory.inject {
            Inject::None | Inject::Top => Vec::new(),
            Inject::All => ids(self.store.active_memories(&self.scope, memory.limit).await?),
            Inject::Snapshot => {
                let view = context::View {
                    store: &*self.store,
                    scope: &self.scope,
                    thread: self.thread,
                    memories: memory.limit,
                    records: &memory.snapshot,
                    now: self.started,
                };
                context::take_snapshot(view).await?;
                Vec::new()
            }
        };
        let among = match (memory.inject, memory.history) {
            (Inject::Top, true) => Among::Both,
            (Inject::Top, false) => Among::Memories,
            (Inject::None | Inject::All | Inject::Snapshot, true) => Among::Messages,
            (Inject::None | Inject::All | Inject::Snapshot, false) => {
                return Ok(Known { memories, recalled: Vec::new() });
            }
        };
        let mut question = Question::new(message, self.started, memory.limit, among);
        question.without = Some(self.thread);
        let found = self.recall.search(&self.scope, question).await?;
        let mut known = Known { memories, recalled: Vec::new() };
        let mut left = memory.recall_tokens;
        for Found { item, score } in found {
            let Some(rest) = left.checked_sub(context::estimate::text(&item.text)) else { continue };
            match item.id {
                ItemId::Memory(id) => known.memories.push(id.to_string()),
                ItemId::Message(id) if score >= MIN_MESSAGE_SCORE => known.recalled.push(id.to_string()),
                ItemId::Message(_) => continue,
            }
            left = rest;
        }
        Ok(known)
    }

    /// Keeps a statement, unless it is known or must not be kept.
    async fn remember(
        &self,
        state: &RunState,
        asked: Asked<'_>,
    ) -> Result<(Option<Remembered>, Vec<Write>), store::Error> {
        let statement = match asked {
            Asked::Keep(statement) => statement,
            Asked::Nothing => {
                return Ok((Some(reply(RememberedOutcome::NotSaid, Outcome::HowTo)), Vec::new()));
            }
            Asked::TooLong => {
                return Ok((Some(reply(RememberedOutcome::NotSaid, Outcome::TooLong)), Vec::new()));
            }
        };
        let Statement { content, words, whole } = statement;
        let said = |outcome: RememberedOutcome, memory: Option<MemoryId>, text: Outcome<'_>| Remembered {
            outcome,
            memory_id: memory,
            text: content.clone(),
            reply: whole.then(|| remember::confirmation(text)),
        };
        if let Some(secret) = secrets::find(&content) {
            let refused = Remembered {
                text: String::new(),
                ..said(RememberedOutcome::Refused, None, Outcome::Refused(secret))
            };
            return Ok((Some(refused), Vec::new()));
        }
        if let Some(known) = self.recall.duplicate(&self.scope, &content, self.started).await? {
            return Ok((
                Some(said(RememberedOutcome::Known, Some(known), Outcome::Known(&content))),
                Vec::new(),
            ));
        }
        let id = self.ids.memory();
        let source = Source {
            thread: Some(self.thread),
            message: state.start.as_ref().map(|start| start.message_id),
            words: Some(words.to_owned()),
            at: Some(self.started),
        };
        let new = NewMemory {
            id,
            text: content.clone(),
            kind: memory::extract::DEFAULT_KIND.to_owned(),
            source: ASKED,
            sources: vec![source],
            valid_from: None,
            created_at: None,
        };
        let saved = said(RememberedOutcome::Saved, Some(id), Outcome::Saved(&content));
        Ok((Some(saved), vec![Write::Remember(new)]))
    }

    /// How the newest proposals of this conversation stand that no run waits for.
    async fn proposals(&self) -> Result<Vec<String>, store::Error> {
        if self.tools.effect(CREATE_PROPOSAL).is_none() {
            return Ok(Vec::new());
        }
        let newest = PageOf { after: None, limit: MAX_PROPOSALS_LOOKED_AT };
        let mut rows = self.store.proposals(&self.scope, false, newest).await?;
        rows.retain(|row| row.thread == Some(self.thread) && row.run.is_none());
        let line = |row: &ProposalRow| {
            let status = row.decision.map_or("open", Decision::name);
            let input = context::capped(&row.input.to_string(), MAX_PROPOSAL_BYTES);
            format!("{} {status}: {} {input}", row.id, row.tool)
        };
        Ok(rows.iter().take(MAX_PROPOSALS_SHOWN).map(line).collect())
    }
}

/// What could not be kept because of what is kept already.
fn no_room(remembered: Remembered, reason: &str) -> Remembered {
    let reply = |_| format!("I could not keep that: {reason}. Forget something first, then tell me again.");
    Remembered {
        outcome: RememberedOutcome::NotSaid,
        memory_id: None,
        text: String::new(),
        reply: remembered.reply.map(reply),
    }
}

/// An answer where nothing was kept.
fn reply(outcome: RememberedOutcome, text: Outcome<'_>) -> Remembered {
    Remembered { outcome, memory_id: None, text: String::new(), reply: Some(remember::confirmation(text)) }
}
