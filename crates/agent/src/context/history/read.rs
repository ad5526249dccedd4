//! Reading earlier turns: no further back than the newest summary, or than the budget could show.

use memory::tombstone::Forgotten;
use protocol::{MessageId, PinView, Stretch, ThreadId, Warning};
use store::{MessageRow, Store, SummaryRow};

use super::{PastTurn, long};
use crate::context::gather::Sources;
use crate::{hiding, transcript};

/// Messages that every run reads before the one that it answers.
const FIRST_WINDOW: usize = 24;

/// Messages that are read together, and if those are not enough: most prompts need a few.
const WINDOWS: [usize; 3] = [FIRST_WINDOW, 96, 400];

/// Messages that are read when nothing else works, with the one that is answered.
const FALLBACK: usize = 11;

/// Tokens that a message has at least on average; so many messages fill a budget.
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
}

impl NewestMessages {
    /// Reads the path that ends in `leaf`; if that fails, the message `leaf` alone.
    pub(crate) async fn read(store: &Store, thread: ThreadId, leaf: MessageId) -> Result<Self, store::Error> {
        match store.path(thread, leaf, FIRST_WINDOW + 1).await {
            Ok(rows) => Ok(Self { rows, is_complete: true }),
            Err(error) => {
                tracing::error!(%thread, %error, "the newest messages could not be read; only the last one is used");
                Ok(Self { rows: store.path(thread, leaf, 1).await?, is_complete: false })
            }
        }
    }

    /// The last of them, which a run answers, as it was said.
    pub(crate) fn text(&self) -> String {
        self.rows.last().map(|row| transcript::read(row).text).unwrap_or_default()
    }

    /// At most so many, the newest ones.
    pub(crate) fn last(&self, most: usize) -> &[MessageRow] {
        self.rows.get(self.rows.len().saturating_sub(most)..).unwrap_or_default()
    }
}

/// Reads the rest; if that fails, the last messages stand alone.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    leaf: MessageId,
    newest: &NewestMessages,
    forgotten: &Forgotten,
) -> ReadHistory {
    let warning = |what: &str| Warning { code: "history_reduced".into(), message: what.into() };
    if !newest.is_complete {
        let warnings = vec![warning("earlier messages could not be read")];
        return ReadHistory { warnings, ..parted(pasts(from.thread, &newest.rows, forgotten, leaf)) };
    }
    match rich(from, leaf, newest, forgotten).await {
        Ok(rich) => rich,
        Err(error) => {
            tracing::error!(thread = %from.thread, %error, "summaries and pins could not be read; the prompt has only the last messages");
            let warnings = vec![warning("summaries and pins could not be read; the last messages are shown")];
            ReadHistory { warnings, ..parted(pasts(from.thread, newest.last(FALLBACK), forgotten, leaf)) }
        }
    }
}

async fn rich(
    from: &Sources<'_>,
    leaf: MessageId,
    newest: &NewestMessages,
    forgotten: &Forgotten,
) -> Result<ReadHistory, store::Error> {
    let (all, pins) = tokio::try_join!(
        from.world.store.summaries(from.thread, false),
        from.world.store.pins(from.scope, Some(from.thread))
    )?;
    let (rows, end) = tail(from, leaf, newest, &all).await?;
    let mut rich = parted(pasts(from.thread, &rows, forgotten, leaf));
    for mut summary in end.map(|end| chain(&all, end)).unwrap_or_default() {
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
    rich.pins = pins;
    Ok(rich)
}

/// The messages after the newest summary on the path, and the message that summary ends with. Without one, the newest.
async fn tail(
    from: &Sources<'_>,
    leaf: MessageId,
    newest: &NewestMessages,
    summaries: &[SummaryRow],
) -> Result<(Vec<MessageRow>, Option<MessageId>), store::Error> {
    let budget = from.history_budget();
    let most = (budget / TOKENS_PER_MESSAGE).max(FALLBACK);
    let mut widest = Vec::new();
    for limit in WINDOWS {
        let limit = limit.min(most);
        let mut rows = match limit {
            ..=FIRST_WINDOW => newest.last(limit + 1).to_vec(),
            _ => from.world.store.path(from.thread, leaf, limit + 1).await?,
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
        widest = rows;
    }
    Ok((widest, None))
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
pub(in crate::context) async fn again(
    (store, thread): (&Store, ThreadId),
    leaf: MessageId,
    (shown, bytes): (Option<&[Stretch]>, Option<u64>),
    forgotten: &Forgotten,
) -> Result<ReadHistory, store::Error> {
    let most = WINDOWS.last().map_or(0, |most| most + 1);
    let rows = store.path(thread, leaf, most).await?;
    // A message that was sent again since is a message of its own: the one that is answered is as old as its run.
    let mut rich = parted(read_path(thread, &rows, Some(forgotten)));
    if let Some(shown) = shown {
        let is_shown =
            |past: &PastTurn| shown.iter().any(|stretch| (stretch.from..=stretch.to).contains(&past.seq));
        rich.turns.retain(is_shown);
    }
    if let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        rich.turns.iter_mut().for_each(|past| long::shorten(past, bytes));
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
fn pasts(thread: ThreadId, rows: &[MessageRow], forgotten: &Forgotten, leaf: MessageId) -> Vec<PastTurn> {
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
fn parted(mut pasts: Vec<PastTurn>) -> ReadHistory {
    let message = pasts.pop();
    ReadHistory { turns: pasts, message, ..ReadHistory::default() }
}
