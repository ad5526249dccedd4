//! Memories out of what the user said: a model proposes, and what rests on the user's own words is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use app::{App, ExtractionRules as How};
use async_trait::async_trait;
use memory::extract::{
    self, ConversationTurn, ExtractedChange, ExtractionBatch, MAX_TURNS, SeenMemory, ShownMemory,
};
use memory::index::{ItemRef, RecallFilter};
use memory::recall::RecallQuestion;
use memory::tombstone::Forgotten;
use model::{AnswerFormat, Counter, Error, Model, PromptMessage, Schema, SchemaSupport};
use protocol::{JobId, MemoryId, Role, Settings, ThreadId};
use serde_json::Value;
use store::{
    JobRow, MemoryChange, MemoryExtraction, MemoryOrigin, MemoryRow, MessageRow, NewMemoryRow, RecordQuery,
    RunInput, RunJob,
};

use super::ask::{Unanswered, ask};
use super::{BackgroundJob, JobEffect, UnfinishedJob};
use crate::context::cap_text;
use crate::spoken_requests::SpokenRequests;
use crate::world::World;
use crate::{profile, transcript};

/// Memories that the model is shown: all of them if there are no more, else those near what was said.
const MAX_SHOWN: usize = 30;
/// Sources of memories that the user has asked for, confirmed or brought along.
const ASKED_FOR: [&str; 4] = ["asked", "user", "tool", "import"];
/// Memories near one message.
const NEAR_EACH: usize = 10;
/// Tokens of a result.
const MAX_RESULT_TOKENS: u32 = 2_000;
/// Bytes of an answer that are read.
const MAX_RESULT_BYTES: usize = 64 * 1024;
/// Records of each type that the model is shown, and bytes of each.
const MAX_RECORDS: usize = 10;
const MAX_RECORD_BYTES: usize = 1_000;
/// Tokens kept for the prompt itself and the schema, and bytes that a token has at least, mostly.
const PROMPT_TOKENS: usize = 1_500;
const BYTES_PER_TOKEN: usize = 3;
/// Of each message so much is shown at least.
const MIN_TURN_BYTES: usize = 200;
/// Messages before those that are looked at, and bytes of each, that the model is shown for understanding.
const MAX_EARLIER: usize = 100;
const MAX_EARLIER_BYTES: usize = 2 * 1024;
/// Tokens that stand around a message.
const LINE_TOKENS: usize = 16;
/// Attempts after which a model that answers nonsense is left alone: each one is paid for.
const MAX_NONSENSE: u32 = 2;
/// The source that is noted for a memory of this job.
const EXTRACTED: &str = "extracted";

/// Looks for memories in what the user said.
pub(crate) struct ExtractMemories;

impl ExtractMemories {
    pub(crate) const NAME: &str = "extract_memories";
}

#[async_trait]
impl BackgroundJob for ExtractMemories {
    /// The changes for the messages that no extraction has read yet. The commit decides whether that is still so.
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        let (Some(thread), Some(app)) = (job.thread, world.app(&job.scope.app)) else {
            return Ok(JobEffect::Nothing);
        };
        let Some(how) = &app.memory.extraction else { return Ok(JobEffect::Nothing) };
        look(world, job, (thread, &app), how).await
    }
}

/// The work that a message causes: looking for memories in it, unless asking to remember is all that it does.
pub fn of_message(app: &App, ask: &RunInput, id: impl Fn() -> JobId) -> Vec<RunJob> {
    let (Some(how), RunInput::Say { text, .. }) = (&app.memory.extraction, ask) else { return Vec::new() };
    if app.memory.remember && SpokenRequests::of(text).is_whole_message() {
        return Vec::new();
    }
    let delay_ms = u64::try_from(how.delay.as_millis()).unwrap_or(u64::MAX);
    vec![RunJob { id: id(), kind: ExtractMemories::NAME.to_owned(), delay_ms }]
}

/// One at a time for a thread, or two would pay for the same messages: jobs of a kind are claimed so.
async fn look(
    world: &World,
    job: &JobRow,
    (thread, app): (ThreadId, &App),
    how: &How,
) -> Result<JobEffect, UnfinishedJob> {
    let store = &world.store;
    let rows = store.unextracted(thread, MAX_TURNS).await?;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(JobEffect::Nothing) };
    let nothing = MemoryExtraction { from: first.seq, through: last.seq, ..MemoryExtraction::default() };
    let is_off = store.memory_is_off(&job.scope).await?;
    let as_of = Some(store.recall_head(&job.scope).await?);
    let forgotten = world.recall.forgotten_words(&job.scope).await?;
    let mut turns = turns(&rows, &forgotten, app);
    let is_of_user = turns.iter().any(|turn| turn.role == Role::User);
    let model = world.model_for_job(app, how.model.as_deref());
    let Some(model) = model.filter(|_| is_of_user && !is_off) else {
        return Ok(JobEffect::Memories(nothing));
    };
    let mut shown: Vec<ShownMemory> =
        memories_near(world, job, &turns).await?.values().map(known_memory).collect();
    let mut extra = records(world, job, how).await?;
    let left = fit(model.capabilities().context_window, &mut turns, &mut shown, &mut extra);
    let left = left.min(app.history.budget as usize);
    let before = earlier_turns(world, (thread, app), first, &forgotten, (left, model.tokens())).await?;
    let zone = profile::zone_in_app(store, &job.scope, app).await;
    let today = world.now().to_zoned(zone.clone()).date();
    let batch =
        ExtractionBatch { turns: &turns, earlier: &before, known: &shown, extra: &extra, today, zone: &zone };
    let prompt = how.prompt.as_deref().unwrap_or(extract::DEFAULT_PROMPT);
    let request = request(&model, &extract::request(prompt, &batch));
    let answered = ask(world, job, &model, request, MAX_RESULT_BYTES).await;
    let (result, spent) = match answered.map(|(answer, spent)| (object(&answer), spent)) {
        Ok((Some(result), spent)) => (result, Some(spent)),
        // Asked again, it would say the same, and these messages would stand in the way of later ones.
        Ok((None, spent)) if job.attempts >= MAX_NONSENSE => {
            tracing::warn!(%thread, model = model.name(), "the memory model gave no valid answer; no memories are extracted from these messages");
            return Ok(JobEffect::Memories(MemoryExtraction { spent: Some(spent), ..nothing }));
        }
        Err(Unanswered::Failed { error: error @ (Error::ContextLength | Error::Rejected { .. }), spent })
            if job.attempts >= MAX_NONSENSE =>
        {
            tracing::warn!(%thread, model = model.name(), %error, "the memory model refused the request; no memories are extracted from these messages");
            return Ok(JobEffect::Memories(MemoryExtraction { spent, ..nothing }));
        }
        // The job of a later message looks at these as well.
        Err(Unanswered::Unaffordable) => return Ok(JobEffect::Nothing),
        Ok((None, spent)) => {
            let reason = "the memory model's answer is not a JSON object".to_owned();
            return Err(UnfinishedJob { reason, spent: Some(spent), is_early: false, is_final: false });
        }
        Err(unanswered) => return Err(unanswered.into()),
    };
    let plan = extract::plan(&result, &batch).without_kinds(&app.memory.consent, &batch);
    for dropped in &plan.dropped {
        tracing::debug!(%thread, place = dropped.at, reason = %dropped.reason, "an extracted memory was dropped");
    }
    let mut changes = Vec::new();
    for change in plan.changes {
        changes.extend(stored_change(world, job, (thread, &turns), change).await?);
    }
    let (limit, per_subject) = (app.memory.keep, app.memory.keep_per_subject);
    Ok(JobEffect::Memories(MemoryExtraction { changes, limit, per_subject, spent, as_of, ..nothing }))
}

/// The messages without forgotten words and without requests to remember or to forget. A message is left out, too, if
/// the next one asks to forget it.
fn turns(rows: &[MessageRow], forgotten: &Forgotten, app: &App) -> Vec<ConversationTurn> {
    let mut turns: Vec<ConversationTurn> = Vec::new();
    for row in rows {
        let read = transcript::read(row);
        let Some(role) = read.role else { continue };
        let spoken = (role == Role::User && app.memory.remember).then(|| SpokenRequests::of(&read.text));
        if let Some(spoken) = spoken.filter(SpokenRequests::is_whole_message) {
            let said = turns.iter().rposition(|turn| turn.role == Role::User);
            if let Some(said) = said.filter(|_| spoken.asks_to_forget_last()) {
                turns.truncate(said);
            }
            continue;
        }
        let text = forgotten.clear(&read.text_with_parts(), row.created_at).into_owned();
        if !text.trim().is_empty() {
            turns.push(ConversationTurn { message: row.id, role, text, at: row.created_at });
        }
    }
    turns
}

/// The memories that may have to do with what was said.
async fn memories_near(
    world: &World,
    job: &JobRow,
    turns: &[ConversationTurn],
) -> Result<BTreeMap<MemoryId, MemoryRow>, store::Error> {
    let store = &world.store;
    let newest = store.active_memories(&job.scope, MAX_SHOWN + 1).await?;
    let by_id = |rows: Vec<MemoryRow>| rows.into_iter().map(|row| (row.id, row)).collect();
    if newest.len() <= MAX_SHOWN {
        return Ok(by_id(newest));
    }
    let mut ids: Vec<MemoryId> = Vec::new();
    for turn in turns.iter().filter(|turn| turn.role == Role::User) {
        let question = RecallQuestion::new(&turn.text, world.now(), NEAR_EACH, RecallFilter::Memories);
        for found in world.recall.search(&job.scope, question).await? {
            match found.item.id {
                ItemRef::Memory(id) if !ids.contains(&id) => ids.push(id),
                ItemRef::Memory(_) | ItemRef::Message(_) | ItemRef::Chunk(_) => {}
            }
        }
    }
    ids.truncate(MAX_SHOWN);
    Ok(by_id(store.memories_by_id(&job.scope, &ids).await?))
}

fn known_memory(row: &MemoryRow) -> ShownMemory {
    ShownMemory {
        id: row.id,
        version: row.version,
        text: row.text.clone(),
        kind: row.kind.clone(),
        asked_for: ASKED_FOR.contains(&row.source.as_str()),
    }
}

/// The app's own context, a record a line.
async fn records(world: &World, job: &JobRow, how: &How) -> Result<String, store::Error> {
    let mut lines = Vec::new();
    for kind in &how.records {
        let any = RecordQuery::default();
        let rows = store::newest_records(&world.store, &job.scope, kind, any, MAX_RECORDS).await?;
        lines.extend(
            rows.iter().map(|row| format!("{kind}: {}", cap_text(&row.data.to_string(), MAX_RECORD_BYTES))),
        );
    }
    Ok(lines.join("\n"))
}

/// The newest messages before a message that fit into `room` tokens, in their order. A long message is shown with its
/// beginning only.
async fn earlier_turns(
    world: &World,
    (thread, app): (ThreadId, &App),
    first: &MessageRow,
    forgotten: &Forgotten,
    (room, counter): (usize, &Counter),
) -> Result<Vec<ConversationTurn>, store::Error> {
    let Some(parent) = first.parent else { return Ok(Vec::new()) };
    let rows = world.store.path(thread, parent, MAX_EARLIER).await?;
    let (mut left, mut kept) = (room, Vec::new());
    for mut turn in turns(&rows, forgotten, app).into_iter().rev() {
        turn.text = cap_text(&turn.text, MAX_EARLIER_BYTES);
        let Some(rest) = left.checked_sub(counter.text(&turn.text) + LINE_TOKENS) else { break };
        left = rest;
        kept.push(turn);
    }
    kept.reverse();
    Ok(kept)
}

/// Cuts what is shown to what the model takes: half of it for what was said, a quarter each for what is known and for the
/// app's own context. Gives the tokens that are left.
fn fit(
    window: u32,
    turns: &mut [ConversationTurn],
    known: &mut Vec<ShownMemory>,
    extra: &mut String,
) -> usize {
    let tokens = (window as usize).saturating_sub(MAX_RESULT_TOKENS as usize + PROMPT_TOKENS);
    let room = tokens.saturating_mul(BYTES_PER_TOKEN);
    let said: usize = turns.iter().map(|turn| turn.text.len()).sum();
    if said > room / 2 {
        let each = (room / 2 / turns.len().max(1)).max(MIN_TURN_BYTES);
        turns.iter_mut().for_each(|turn| turn.text.truncate(turn.text.floor_char_boundary(each)));
    }
    let mut left = room / 4;
    known.retain(|known| {
        let rest = left.checked_sub(known.text.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    extra.truncate(extra.floor_char_boundary(room / 4));
    let texts = turns.iter().map(|turn| turn.text.len()).chain(known.iter().map(|known| known.text.len()));
    room.saturating_sub(texts.sum::<usize>() + extra.len()) / BYTES_PER_TOKEN
}

/// The request to the model, in the form that it takes.
fn request(model: &Model, ask: &extract::ExtractionPrompt) -> model::ModelRequest {
    let settings = Settings { max_tokens: Some(MAX_RESULT_TOKENS), ..Settings::default() };
    let schema = || Schema { name: "memories".into(), schema: ask.schema.clone(), strict: true };
    let (format, told) = match model.schema_support() {
        SchemaSupport::WithTools | SchemaSupport::Alone => {
            (AnswerFormat::Schema(Arc::new(schema())), String::new())
        }
        SchemaSupport::Prompt => (
            AnswerFormat::Text,
            format!("\n\nAnswer with one JSON object of this schema alone:\n{}", ask.schema),
        ),
    };
    let system = format!("{}{told}", ask.system);
    let request = model.request(system, vec![PromptMessage::User(ask.user.as_str().into())], &settings);
    model::ModelRequest { format, ..request }
}

/// The object in an answer, though there may be words around it.
fn object(answer: &str) -> Option<Value> {
    let (start, end) = (answer.find('{')?, answer.rfind('}')?);
    serde_json::from_str(answer.get(start..=end)?).ok().filter(Value::is_object)
}

/// The change as it is committed; none for a new memory that says what another one says.
async fn stored_change(
    world: &World,
    job: &JobRow,
    (thread, turns): (ThreadId, &[ConversationTurn]),
    change: ExtractedChange,
) -> Result<Option<MemoryChange>, store::Error> {
    let source = |source: extract::CitedWords| {
        let said = turns.iter().find(|turn| turn.message == source.message);
        MemoryOrigin {
            thread: Some(thread),
            message: Some(source.message),
            words: Some(source.words),
            at: said.map(|turn| turn.at),
        }
    };
    let held = |held: SeenMemory| (held.id, held.version);
    Ok(Some(match change {
        ExtractedChange::Create { text: fact, kind, source: from } => {
            let duplicate = world.recall.duplicate(&job.scope, &fact, world.now()).await?;
            if duplicate.is_some() {
                return Ok(None);
            }
            let from = source(from);
            MemoryChange::Create(NewMemoryRow {
                id: world.ids.memory(),
                text: fact,
                kind,
                source: EXTRACTED,
                valid_from: from.at,
                sources: vec![from],
                created_at: None,
            })
        }
        ExtractedChange::Update { of, text, kind, source: from } => {
            MemoryChange::Update { id: of.id, version: of.version, text, kind, source: source(from) }
        }
        ExtractedChange::Merge { into, from, text, kind, source: said } => MemoryChange::Merge {
            into: held(into),
            from: from.into_iter().map(held).collect(),
            text,
            kind,
            source: said.map(source),
        },
        ExtractedChange::Remove { of, source: from } => {
            MemoryChange::Remove { id: of.id, version: of.version, source: source(from) }
        }
    }))
}
