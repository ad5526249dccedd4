//! Every read of a prompt, in two rounds: the conversation and the persona, then what depends on the words of the message.
//! Each fragment gives its pieces within its bound, and what is to be noted of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use app::{App, DocumentUse, Fragment, Inject};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use memory::suspicion::is_instruction;
use memory::tombstone::Forgotten;
use model::{Counter, Model, ToolSpec};
use protocol::{
    ContextLoaded, DocumentId, LeftOut, MemoryId, MessageId, MessagePart, Part, Role, RunStart, Scope,
    Source, ThreadId, Warning,
};
use sha2::{Digest, Sha256};
use store::{MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, MemoryRow, NewText, ProfileRow};
use tools::SEARCH_DOCUMENTS;

use super::fragments::{
    self, documents, domain, due_memories, memories, persona, pins, profile, proposals, recall, snapshot,
};
use super::{
    AnswerShape, Context, Fence, NewestMessages, PromptBudget, PromptHistory, PromptPiece, history, parts,
};
use crate::world::World;
use crate::{transcript, unseen_images};

/// The history gets at most 1/`HISTORY_SHARE` of the prompt.
const HISTORY_SHARE: usize = 2;
/// Pins get at most 1/`PIN_SHARE` of the history, and summaries at most 1/`SUMMARY_SHARE`.
const PIN_SHARE: usize = 4;
const SUMMARY_SHARE: usize = 3;

/// Tokens that a prompt takes for what is in every one: the date, the focus, marks and what goes around messages.
const FRAME_TOKENS: usize = 260;

/// Documents that a run answers from at most, where messages name them.
const MAX_NAMED_DOCUMENTS: usize = 50;

/// The sources of a prompt's parts, and the room that they may take.
pub(crate) struct Sources<'a> {
    pub(crate) world: &'a World,
    pub(crate) app: &'a App,
    pub(crate) scope: &'a Scope,
    pub(crate) thread: ThreadId,
    pub(crate) fence: &'a Fence,
    pub(crate) now: Timestamp,
    /// The time zone in which the user lives.
    pub(crate) zone: TimeZone,
    pub(crate) counter: &'a Counter,
    /// Tokens the model takes, answer included.
    pub(crate) window: u32,
    /// Tokens the prompt may have.
    pub(crate) limit: usize,
    /// Tokens of the tools that the model is offered.
    pub(crate) tool_tokens: usize,
    /// Whether the model sees images.
    pub(crate) sees_images: bool,
    /// Whether memories may be used.
    pub(crate) remembers: bool,
    /// Whether the app proposes calls that outlive their runs.
    pub(crate) proposes: bool,
}

impl Sources<'_> {
    /// The tokens of 1/`parts` of the prompt.
    pub(crate) fn share(&self, parts: usize) -> usize {
        self.limit / parts
    }

    pub(super) fn history_budget(&self) -> usize {
        (self.app.history.budget as usize).min(self.share(HISTORY_SHARE))
    }
}

/// Tokens that a pin can have and still be shown, by an app to one of these models. Where others may be chosen, their
/// windows are not known.
pub fn most_pin_tokens(app: &App, models: &[Arc<Model>]) -> usize {
    let limit = |model: &Arc<Model>| {
        PromptBudget::of_window(model.capabilities().context_window, app.settings.max_tokens).prompt
    };
    let largest = models.iter().map(limit).max().filter(|_| app.models.is_empty());
    let history = largest.map_or(usize::MAX, |limit| limit / HISTORY_SHARE).min(app.history.budget as usize);
    pin_room(app, history)
}

fn pin_room(app: &App, history: usize) -> usize {
    app.context.pin_tokens.min(history / PIN_SHARE)
}

/// The result of reading: a context, what to keep of it beside the log, and what to tell readers of it.
pub(crate) struct Gathered {
    pub(crate) context: Context,
    pub(crate) keep: Vec<NewText>,
    pub(crate) sources: Vec<Source>,
}

/// Facts about a user that are read before a prompt is made.
pub(crate) struct UserFacts {
    pub(crate) profile: ProfileRow,
    /// Words that the user wants forgotten.
    pub(crate) forgotten: Arc<Forgotten>,
}

/// Reads what the prompt of a run needs. `newest` ends with the message that is answered.
pub(crate) async fn gather(
    from: &Sources<'_>,
    start: &RunStart,
    user: &UserFacts,
    newest: &NewestMessages,
    tools: Arc<[ToolSpec]>,
) -> Result<Gathered, store::Error> {
    let UserFacts { profile, forgotten } = user;
    let (mut past, persona) = tokio::try_join!(
        history::read(from, start.message_id, newest, forgotten),
        persona_piece(from, start)
    )?;
    let message = AnsweredMessage::of(past.message.take());
    let (asked, before) = (message.text_to_search_by(), last_of_user(&past.turns));
    let named = named_documents(from.app.context.documents, start, &message.parts, &past.turns);
    let about = profile::piece(profile);
    let speaker = persona.as_ref().and_then(|persona| persona.as_ref().ok());
    let room = room_for_records(from, start, &message, [speaker, about.as_ref()]);
    let (known, domain, documents, knowledge, proposals) = tokio::try_join!(
        about_user(from, &asked, forgotten),
        domain::read(from, &asked, before, room),
        documents::read(from, &asked, &named),
        documents::read_knowledge(from, &asked, start.document_ids.as_deref()),
        proposals::read(from, forgotten),
    )?;
    let mut noted = Noted { warnings: past.warnings.split_off(0), ..Noted::default() };
    let mut pieces = vec![fragments::instructions(from.app)];
    let persona = persona.and_then(|persona| noted.or_warn(persona));
    let speaks = persona.is_some();
    // One may only set how the model answers.
    pieces.extend(persona.filter(|piece| !piece.text.trim().is_empty()));
    pieces.extend(about);
    pieces.extend(known.pieces);
    let (shown, background) = background(from, past, &message.text, &mut noted);
    pieces.extend(background);
    noted.warnings.extend(domain.warnings);
    noted.warnings.extend(documents.warnings);
    noted.warnings.extend(unseen_images_warning(from, &message.parts));
    noted.left_out.extend(domain.left_out);
    noted.left_out.extend(documents.left_out);
    noted.left_out.extend(knowledge.left_out);
    pieces.extend(domain.pieces);
    pieces.extend(documents.pieces);
    pieces.extend(knowledge.pieces);
    noted.left_out.extend(limit_pieces(&mut pieces));
    let loaded = ContextLoaded {
        outside: distinct_ids(shown.turns.iter().flat_map(outside_tools)),
        suspicious: suspicious_messages(&shown.turns, start.message_id, &message.text),
        history: Some(shown.stretches),
        history_bytes: shown.bytes.map(|bytes| bytes as u64),
        persona: start.persona_id.clone().filter(|_| speaks),
        sections: domain.names,
        documents: distinct_ids(documents.sources.iter().map(|source| source.id.clone())),
        knowledge: distinct_ids(knowledge.sources.iter().map(|source| source.id.clone())),
        proposals,
        date: fragments::date(from.now, &from.zone),
        follow_ups: known.follow_ups,
        left_out: noted.left_out,
        warnings: noted.warnings,
        summaries: noted.summaries,
        ..named_pieces(&pieces)
    };
    let keep = pieces.iter().map(stored_text).collect();
    let sources = documents.sources.into_iter().chain(knowledge.sources).collect();
    let history = PromptHistory { style: from.app.history.style, turns: shown.turns };
    Ok(Gathered { context: context(from, start, (loaded, pieces, history, message), tools), keep, sources })
}

/// Tokens that are left for records beside what a prompt cannot do without. Where tools leave nothing, the model is asked
/// without them.
fn room_for_records(
    from: &Sources<'_>,
    start: &RunStart,
    message: &AnsweredMessage,
    pieces: [Option<&PromptPiece>; 2],
) -> usize {
    let instructions = app::instructions_told(&from.app.instructions, from.tool_tokens > 0);
    let pieces = pieces.into_iter().flatten().map(|piece| piece.text.as_str());
    let fixed =
        [&*instructions, &message.text].into_iter().chain(start.system_prompt.as_deref()).chain(pieces);
    let images = if from.sees_images { parts::image_tokens(&message.parts, from.counter) } else { 0 };
    let fixed: usize = FRAME_TOKENS + images + fixed.map(|text| from.counter.text(text)).sum::<usize>();
    let without_tools = from.limit.saturating_sub(fixed);
    match without_tools.saturating_sub(from.tool_tokens) {
        0 => without_tools,
        left => left,
    }
}

/// The message that a run answers.
pub(super) struct AnsweredMessage {
    pub(super) text: String,
    pub(super) parts: Vec<MessagePart>,
}

impl AnsweredMessage {
    pub(super) fn of(past: Option<history::PastTurn>) -> Self {
        let unreadable = || Self { text: transcript::UNREADABLE.to_owned(), parts: Vec::new() };
        past.map_or_else(unreadable, |past| Self { text: past.turn.text, parts: past.turn.parts })
    }

    /// The words by which memories, records and documents are searched: its own, or else the names of its parts.
    fn text_to_search_by(&self) -> String {
        if self.text.is_empty() {
            transcript::text_with(&self.text, self.parts.iter())
        } else {
            self.text.clone()
        }
    }
}

/// Returns the user's last message.
fn last_of_user(turns: &[history::PastTurn]) -> Option<&str> {
    let said = turns.iter().rev().find(|past| past.turn.role == Some(Role::User));
    said.map(|past| past.turn.text.as_str())
}

/// The documents that a run answers from: those that the request or the message names. Where the request names none, those
/// of earlier messages count, too, unless all documents are searched anyway.
fn named_documents(
    uses: DocumentUse,
    start: &RunStart,
    parts: &[MessagePart],
    turns: &[history::PastTurn],
) -> documents::NamedDocuments {
    let own = parts.iter().filter_map(MessagePart::document);
    let asked: Vec<DocumentId> = start.document_ids.iter().flatten().copied().chain(own).collect();
    let mut among = asked.clone();
    if start.document_ids.is_none() && uses == DocumentUse::Named {
        let newest = turns.iter().rev().flat_map(|past| &past.turn.parts);
        among.extend(newest.filter_map(MessagePart::document));
    }
    let mut seen = BTreeSet::new();
    among.retain(|document| seen.insert(*document));
    among.truncate(MAX_NAMED_DOCUMENTS);
    let among = Some(among).filter(|among| start.document_ids.is_some() || !among.is_empty());
    documents::NamedDocuments { asked, among }
}

/// The warning that the model does not see the images of the message.
fn unseen_images_warning(from: &Sources<'_>, parts: &[MessagePart]) -> Option<Warning> {
    let has_images = parts.iter().any(|part| part.image().is_some());
    (has_images && !from.sees_images).then(unseen_images::warning)
}

/// Leaves out what is more than one event can name: of the fragment that has most pieces, the first, which are the
/// oldest.
fn limit_pieces(pieces: &mut Vec<PromptPiece>) -> Option<LeftOut> {
    let excess = pieces.len().checked_sub(MAX_TEXTS_PER_WRITE).filter(|excess| *excess > 0)?;
    let pieces_of = |of: &PromptPiece| pieces.iter().filter(|piece| piece.fragment == of.fragment).count();
    let largest = pieces.iter().max_by_key(|piece| pieces_of(piece))?.fragment;
    let mut left = excess;
    pieces.retain(|piece| {
        let goes = left > 0 && piece.fragment == largest;
        left -= usize::from(goes);
        !goes
    });
    pieces.truncate(MAX_TEXTS_PER_WRITE); // should several fragments share the blame
    Some(LeftOut { fragment: largest.name().into(), what: format!("the oldest {excess} pieces"), tokens: 0 })
}

/// Notes for the log.
#[derive(Default)]
struct Noted {
    warnings: Vec<Warning>,
    left_out: Vec<LeftOut>,
    summaries: Vec<String>,
}

impl Noted {
    fn or_warn(&mut self, piece: Result<PromptPiece, Warning>) -> Option<PromptPiece> {
        piece.map_err(|warning| self.warnings.push(warning)).ok()
    }
}

async fn persona_piece(
    from: &Sources<'_>,
    start: &RunStart,
) -> Result<Option<Result<PromptPiece, Warning>>, store::Error> {
    match start.persona_id.as_deref() {
        Some(id) => persona::read(from, id).await.map(Some),
        None => Ok(None),
    }
}

/// Memories of the user for a prompt.
#[derive(Default)]
struct AboutUser {
    pieces: Vec<PromptPiece>,
    /// Ids of the memories among them that are to be brought up, because their day has come.
    follow_ups: Vec<String>,
}

async fn about_user(
    from: &Sources<'_>,
    message: &str,
    forgotten: &Forgotten,
) -> Result<AboutUser, store::Error> {
    if !from.remembers {
        return Ok(AboutUser::default());
    }
    let memory = &from.app.memory;
    let mut pieces = match memory.inject {
        Inject::None | Inject::Top => Vec::new(),
        Inject::Snapshot => snapshot::read(from, forgotten).await?,
        Inject::All => {
            let rows = from.world.store.active_memories(from.scope, memory.limit).await?;
            let piece = |row: &MemoryRow| {
                let remark = due_memories::for_practice(row, &from.app.memory.review, from.now);
                memories::piece(Fragment::Memories, row, remark.as_deref())
            };
            rows.iter().map(piece).collect()
        }
    };
    let (due, recalled) = tokio::try_join!(due_memories::read(from), recall::read(from, message))?;
    let follow_ups: Vec<String> = due.iter().map(|piece| piece.source.clone()).collect();
    pieces.retain(|piece| piece.fragment != Fragment::Memories || !follow_ups.contains(&piece.source));
    let mut room = memory.limit.saturating_sub(due.len());
    let recalled = recalled.into_iter().filter(|piece| {
        let is_memory = piece.source.parse::<MemoryId>().is_ok();
        let fits = !is_memory || (room > 0 && !follow_ups.contains(&piece.source));
        room -= usize::from(is_memory && fits);
        fits
    });
    pieces.extend(due.into_iter().chain(recalled));
    Ok(AboutUser { pieces, follow_ups })
}

/// Pins, summaries and turns under the budget of the history.
fn background(
    from: &Sources<'_>,
    past: history::ReadHistory,
    message: &str,
    noted: &mut Noted,
) -> (history::SelectedTurns, Vec<PromptPiece>) {
    let budget = from.history_budget();
    let (pins, left) = pins::choose(past.pins, message, pin_room(from.app, budget), from.counter);
    noted.left_out.extend(left);
    let (mut pieces, mut room) = (Vec::new(), budget);
    for pin in &pins {
        room = room.saturating_sub(from.counter.text(&pin.text));
        pieces.push(pins::piece(pin));
    }
    let mut summary_room = budget / SUMMARY_SHARE;
    let mut background = Vec::new();
    for summary in past.summaries.into_iter().rev() {
        let text = summary.text.unwrap_or_default();
        let tokens = from.counter.text(&text);
        if let Some(rest) = summary_room.checked_sub(tokens) {
            (summary_room, room) = (rest, room.saturating_sub(tokens));
            noted.summaries.push(summary.id.to_string());
            // Kept under the thread, as the summary itself is.
            background.push(PromptPiece::of_data(Fragment::Summaries, from.thread, text));
        } else {
            let fragment = Fragment::Summaries.name().into();
            let what = format!("the summary {}", summary.id);
            noted.left_out.push(LeftOut { fragment, what, tokens: tokens as u64 });
        }
    }
    background.reverse();
    pieces.extend(background);
    let pinned: Vec<&str> = pins.iter().map(|pin| pin.text.as_str()).collect();
    let shown = history::select(past.turns, &pinned, room, (from.counter, from.fence));
    noted.left_out.extend(shown.left_out.clone());
    (shown, pieces)
}

/// The entry of the log about the pieces.
fn named_pieces(pieces: &[PromptPiece]) -> ContextLoaded {
    let of = |fragments: &[Fragment], prefix: &str| -> Vec<String> {
        let wanted =
            |piece: &&PromptPiece| fragments.contains(&piece.fragment) && piece.source.starts_with(prefix);
        pieces.iter().filter(wanted).map(|piece| piece.source.clone()).collect()
    };
    let part = |piece: &PromptPiece| Part {
        fragment: piece.fragment.name().into(),
        source: piece.source.clone(),
        hash: hex(&hash(&piece.text)),
        suspicious: piece.suspicious,
    };
    ContextLoaded {
        memories: of(&[Fragment::Memories, Fragment::Recalled], "mem_"),
        recalled: of(&[Fragment::Recalled], "msg_"),
        pins: of(&[Fragment::Pins], "pin_"),
        parts: pieces.iter().map(part).collect(),
        ..ContextLoaded::default()
    }
}

/// Tools that reach outside and whose words are in an earlier turn.
fn outside_tools(past: &history::PastTurn) -> impl Iterator<Item = String> {
    past.turn.results.iter().filter(|result| result.outside).map(|result| result.name.clone())
}

/// The user's messages with text that reads like instructions of a third party, oldest first.
fn suspicious_messages(turns: &[history::PastTurn], id: MessageId, message: &str) -> Vec<String> {
    let earlier = turns.iter().filter(|past| past.turn.role == Some(Role::User));
    let said = earlier.map(|past| (past.id, past.turn.text.as_str())).chain([(id, message)]);
    said.filter(|(_, text)| is_instruction(text)).map(|(id, _)| id.to_string()).collect()
}

fn distinct_ids(ids: impl Iterator<Item = String>) -> Vec<String> {
    ids.collect::<BTreeSet<_>>().into_iter().collect()
}

fn stored_text(piece: &PromptPiece) -> NewText {
    let end = piece.text.floor_char_boundary(MAX_TEXT_BYTES);
    let text = piece.text.get(..end).unwrap_or_default().to_owned();
    NewText { source: piece.source.clone(), hash: hash(&piece.text), text }
}

/// Names a text.
pub(crate) fn hash(text: &str) -> [u8; 16] {
    Sha256::digest(text).first_chunk().copied().unwrap_or_default()
}

pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts together what was read, now or when the run began.
pub(super) fn context(
    from: &Sources<'_>,
    start: &RunStart,
    (loaded, pieces, history, message): (ContextLoaded, Vec<PromptPiece>, PromptHistory, AnsweredMessage),
    tools: Arc<[ToolSpec]>,
) -> Context {
    let tools = match start.document_ids.as_deref() {
        // An empty list of documents leaves nothing to search.
        Some([]) => tools.iter().filter(|tool| tool.name != SEARCH_DOCUMENTS).cloned().collect(),
        Some(_) | None => tools,
    };
    let there: BTreeSet<&str> = pieces.iter().map(|piece| piece.source.as_str()).collect();
    let named: Vec<String> =
        loaded.memories.iter().filter(|id| there.contains(id.as_str())).cloned().collect();
    let shape = match &start.answer_schema {
        Some(asked) => Some(AnswerShape::of_request(asked)),
        None => AnswerShape::of(&from.app.answer, &named),
    };
    Context {
        rules: from.app.context.clone(),
        shape: shape.map(Arc::new),
        custom: start.system_prompt.clone(),
        settings: start.settings.clone(),
        message_id: start.message_id,
        fence: from.fence.clone(),
        pieces,
        loaded,
        history,
        message: message.text,
        parts: message.parts,
        history_images: from.app.images.history,
        tools,
        hides: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_one_event_can_name_is_left_out_oldest_first() {
        let piece = |fragment, number: usize| PromptPiece::new(fragment, number, format!("{number}"));
        let pins = (0..3).map(|number| piece(Fragment::Pins, number));
        let memories = (0..MAX_TEXTS_PER_WRITE).map(|number| piece(Fragment::Memories, number));
        let mut pieces: Vec<PromptPiece> = pins.chain(memories).collect();
        let left_out = limit_pieces(&mut pieces).unwrap();
        assert_eq!(pieces.len(), MAX_TEXTS_PER_WRITE);
        assert_eq!(left_out.what, "the oldest 3 pieces");
        let sources: Vec<&str> = pieces.iter().map(|piece| piece.source.as_str()).take(4).collect();
        assert_eq!(sources, ["0", "1", "2", "3"], "the pins, and then the memories without the first three");
        assert_eq!(limit_pieces(&mut pieces), None);
    }
}
