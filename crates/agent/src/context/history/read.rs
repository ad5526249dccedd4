//! Reading earlier turns: no further back than the newest summary, or than the budget could show.

use memory::tombstone::Forgotten;
use protocol::{MessageId, PinView, Scope, Stretch, ThreadId, Warning};
use store::{HiddenWords, MessageRow, ProfileRow, PromptRows, Store, SummaryRow};

use super::{PastTurn, long_texts};
use crate::context::gather::Sources;
use crate::{hiding, transcript};

/// Messages that every run reads before the one that it answers.
const FIRST_WINDOW: usize = 24;

/// Messages that are read together, and if those are not enough: most prompts need a few.
const WINDOWS: [usize; 3] = [FIRST_WINDOW, 96, 400];

/// Messages that are read when nothing else works, with the one that is answered.
const FALLBACK: usize = 11;

/// The fewest tokens of a message on average. It gives the number of messages that fill a budget.
const TOKENS_PER_MESSAGE: usize = 12;

/// Bytes beyond which a token of history cannot reach: more than that need not be looked at.
const MOST_BYTES_PER_TOKEN: usize = 12;

/// The parts of a prompt's history.
#[derive(Debug, Default)]
pub(in crate::context) struct ReadHistory {
    /// After the newest summary, oldest first, without the message that is answered.
    pub(in crate::context) turns: Vec<PastTurn>,
    /// The message that is answered.
    pub(in crate::context) message: Option<PastTurn>,
    /// Oldest first, each beginning where the one before it ends.
    pub(in crate::context) summaries: Vec<SummaryRow>,
    pub(in crate::context) pins: Vec<PinView>,
    pub(in crate::context) warnings: Vec<Warning>,
}

/// The newest messages of a path, oldest first, read once for all that a run does with them.
#[derive(Debug)]
pub(crate) struct NewestMessages {
    rows: Vec<MessageRow>,
    /// There are as many as were asked for, or all.
    is_complete: bool,
    /// The summaries and pins of the thread.
    background: Result<(Vec<SummaryRow>, Vec<PinView>), store::Error>,
}

/// A look at the rows of a thread and its user.
pub(crate) struct PromptLook {
    pub(crate) newest: NewestMessages,
    /// The profile for all apps, and the one for this app.
    pub(crate) profiles: Result<(ProfileRow, ProfileRow), store::Error>,
    pub(crate) memory_is_off: Result<bool, store::Error>,
    /// Words that the user has asked to forget.
    pub(crate) hidden: Result<HiddenWords, store::Error>,
}

impl PromptLook {
    /// Reads the path that ends in `leaf`, and with it what else a prompt needs. If the path cannot be read, the message
    /// `leaf` alone is.
    pub(crate) async fn read(
        store: &Store,
        (scope, everywhere): (&Scope, &Scope),
        (thread, leaf): (ThreadId, MessageId),
    ) -> Result<Self, store::Error> {
        let PromptRows { newest, summaries, pins, profiles, memory_is_off, hidden } =
            store.prompt_rows(scope, everywhere, (thread, leaf), FIRST_WINDOW + 1).await?;
        let background = summaries.and_then(|summaries| Ok((summaries, pins?)));
        let newest = match newest {
            Ok(rows) => NewestMessages { rows, is_complete: true, background },
            Err(error) => {
                tracing::error!(%thread, %error, "the newest messages could not be read; only the last one is used");
                let rows = store.path(thread, leaf, 1).await?;
                NewestMessages { rows, is_complete: false, background }
            }
        };
        Ok(Self { newest, profiles, memory_is_off, hidden })
    }
}

impl NewestMessages {
    /// The last of them, which a run answers, as it was said.
    pub(crate) fn text(&self) -> String {
        self.rows.last().map(|row| transcript::read(row).text).unwrap_or_default()
    }

    /// The newest messages, at most `most`.
    pub(crate) fn last(&self, most: usize) -> &[MessageRow] {
        self.rows.get(self.rows.len().saturating_sub(most)..).unwrap_or_default()
    }
}

/// Reads the rest; if that fails, the last messages stand alone. Fails if the database is away.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    leaf: MessageId,
    newest: &NewestMessages,
    forgotten: &Forgotten,
) -> Result<ReadHistory, store::Error> {
    let warning = |what: &str| Warning { code: "history_reduced".into(), message: what.into() };
    if !newest.is_complete {
        let warnings = vec![warning("earlier messages could not be read")];
        return Ok(ReadHistory {
            warnings,
            ..split_newest_turn(past_turns(from.thread, &newest.rows, forgotten, leaf))
        });
    }
    let rich = match &newest.background {
        Ok(background) => match read_with_background(from, leaf, (newest, background), forgotten).await {
            Err(error) if error.is_away() => return Err(error),
            rich => rich.map_err(|error| error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    match rich {
        Ok(rich) => Ok(rich),
        Err(error) => {
            tracing::error!(thread = %from.thread, %error, "summaries and pins could not be read; the prompt has only the last messages");
            let warnings = vec![warning("summaries and pins could not be read; the last messages are shown")];
            Ok(ReadHistory {
                warnings,
                ..split_newest_turn(past_turns(from.thread, newest.last(FALLBACK), forgotten, leaf))
            })
        }
    }
}

async fn read_with_background(
    from: &Sources<'_>,
    leaf: MessageId,
    (newest, (all, pins)): (&NewestMessages, &(Vec<SummaryRow>, Vec<PinView>)),
    forgotten: &Forgotten,
) -> Result<ReadHistory, store::Error> {
    let (rows, end) = tail(from, newest, all).await?;
    let mut rich = split_newest_turn(past_turns(from.thread, &rows, forgotten, leaf));
    for mut summary in end.map(|end| chain(all, end)).unwrap_or_default() {
        match summary.text.take() {
            Some(text) => {
                let text = forgotten.clear(&text, summary.created_at).into_owned();
                rich.summaries.push(SummaryRow { text: Some(text), ..summary });
            }
            None => {
                tracing::warn!(thread = %from.thread, summary = %summary.id, "a summary has no stored text and is left out");
                let message = format!("the summary {} has no text and was left out", summary.id);
                rich.warnings.push(Warning { code: "summary_lost".into(), message });
            }
        }
    }
    rich.pins.clone_from(pins);
    Ok(rich)
}

/// The messages after the newest summary on the path, and the message that summary ends with. Without one, the newest.
async fn tail(
    from: &Sources<'_>,
    newest: &NewestMessages,
    summaries: &[SummaryRow],
) -> Result<(Vec<MessageRow>, Option<MessageId>), store::Error> {
    let budget = from.history_budget();
    let most = (budget / TOKENS_PER_MESSAGE).max(FALLBACK);
    let mut rows: Vec<MessageRow> = Vec::new();
    for limit in WINDOWS {
        let limit = limit.min(most);
        rows = match (limit, rows.first().and_then(|oldest| oldest.parent)) {
            (..=FIRST_WINDOW, _) => newest.last(limit + 1).to_vec(),
            (_, None) => return Ok((rows, None)),
            (_, Some(earlier)) => {
                let mut more = from.world.store.path(from.thread, earlier, limit + 1 - rows.len()).await?;
                more.retain(|row| rows.iter().all(|known| known.id != row.id)); // parents may form a ring
                more.append(&mut rows);
                more
            }
        };
        let ends = |row: &MessageRow| summaries.iter().any(|summary| summary.to_message == row.id);
        if let Some(place) = rows.iter().rposition(ends) {
            let end = rows.get(place).map(|row| row.id);
            return Ok((rows.split_off(place + 1), end));
        }
        let bytes: usize = rows.iter().filter_map(|row| row.said.as_ref()).map(|said| said.body.len()).sum();
        if rows.len() <= limit || limit == most || bytes > budget * MOST_BYTES_PER_TOKEN {
            return Ok((rows, None));
        }
    }
    Ok((rows, None))
}

/// The summaries that lead up to a message, oldest first. Where several end at one message, the one that covers most.
pub(crate) fn chain(all: &[SummaryRow], end: MessageId) -> Vec<SummaryRow> {
    let mut chain: Vec<SummaryRow> = Vec::new();
    let mut next = Some(end);
    while let Some(end) = next {
        let ending = all.iter().filter(|summary| summary.to_message == end);
        // Each begins before the last one, so this ends even over rows that make no sense.
        let before = |summary: &&SummaryRow| chain.last().is_none_or(|last| summary.to < last.from);
        let Some(widest) = ending.filter(before).min_by_key(|summary| summary.from) else { break };
        next = widest.after_message;
        chain.push(widest.clone());
    }
    chain.reverse();
    chain
}

/// The messages that the log says were shown, as short as they were.
pub(in crate::context) async fn read_again(
    (store, thread): (&Store, ThreadId),
    leaf: MessageId,
    (shown, bytes): (Option<&[Stretch]>, Option<u64>),
    forgotten: &Forgotten,
) -> Result<ReadHistory, store::Error> {
    let most = WINDOWS.last().map_or(0, |most| most + 1);
    let rows = store.path(thread, leaf, most).await?;
    // A message that was sent again since is a message of its own: the one that is answered is as old as its run.
    let mut rich = split_newest_turn(read_path(thread, &rows, Some(forgotten)));
    if let Some(shown) = shown {
        let is_shown =
            |past: &PastTurn| shown.iter().any(|stretch| (stretch.from..=stretch.to).contains(&past.seq));
        rich.turns.retain(is_shown);
    }
    if let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        rich.turns.iter_mut().for_each(|past| long_texts::shorten(past, bytes));
    }
    Ok(rich)
}

/// The messages of a path as far as they can be read, without forgotten words.
pub(crate) fn read_path(
    thread: ThreadId,
    rows: &[MessageRow],
    forgotten: Option<&Forgotten>,
) -> Vec<PastTurn> {
    let read = |row: &MessageRow| {
        let mut turn = transcript::read(row);
        transcript::warn(thread, row, turn.trouble);
        if let Some(forgotten) = forgotten {
            hiding::hide_in_turn(&mut turn, forgotten, row.created_at);
        }
        PastTurn { id: row.id, seq: row.seq, turn }
    };
    rows.iter().map(read).collect()
}

/// The messages of a path without forgotten words, but for the message that is answered: that is as it was said.
fn past_turns(
    thread: ThreadId,
    rows: &[MessageRow],
    forgotten: &Forgotten,
    leaf: MessageId,
) -> Vec<PastTurn> {
    let (answered, earlier) = match rows.split_last() {
        Some((last, earlier)) if last.id == leaf => (Some(last), earlier),
        Some(_) | None => (None, rows),
    };
    let mut pasts = read_path(thread, earlier, Some(forgotten));
    pasts
        .extend(answered.map(|row| read_path(thread, std::slice::from_ref(row), None)).into_iter().flatten());
    pasts
}

/// The message that is answered, which is the last, and those before it.
fn split_newest_turn(mut pasts: Vec<PastTurn>) -> ReadHistory {
    let message = pasts.pop();
    ReadHistory { turns: pasts, message, ..ReadHistory::default() }
}
