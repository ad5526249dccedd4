//! The context of a run again, from what its log says of it. Words and items that were forgotten or deleted since are
//! not in it.

use std::sync::Arc;

use app::Fragment;
use model::ToolSpec;
use protocol::{ContextLoaded, Part, RunStart};

use super::gather::{AnsweredMessage, Sources, context, hash};
use super::{Context, Hides, PromptHistory, PromptPiece, fragments, history};
use crate::hiding;

pub(crate) async fn rebuild(
    from: &Sources<'_>,
    start: &RunStart,
    loaded: &ContextLoaded,
    tools: Arc<[ToolSpec]>,
) -> Result<Context, store::Error> {
    let forgotten = from.world.recall.forgotten_words(from.scope).await?;
    let of = (&from.world.store, from.thread);
    let (mut pieces, mut past) = tokio::try_join!(
        pieces(from, &loaded.parts),
        history::read_again(
            of,
            start.message_id,
            (loaded.history.as_deref(), loaded.history_bytes),
            &forgotten
        )
    )?;
    for piece in &mut pieces {
        if holds_what_was_said(piece) {
            piece.text = forgotten.clear(&piece.text, from.now).into_owned();
        }
    }
    let message = AnsweredMessage::of(past.message.take());
    let history = PromptHistory { style: from.app.history.style, turns: past.turns };
    let mut loaded = loaded.clone();
    hiding::hide_in_loaded(&mut loaded, &forgotten, from.now);
    let hides = forgotten.reaches(from.now).then_some(Hides { forgotten, said_at: from.now });
    Ok(Context { hides, ..context(from, start, (loaded, pieces, history, message), tools) })
}

/// Whether words of a conversation are in it, which can be forgotten without the text itself being deleted.
fn holds_what_was_said(piece: &PromptPiece) -> bool {
    matches!(piece.fragment, Fragment::Recalled | Fragment::Summaries | Fragment::Snapshot)
}

async fn pieces(from: &Sources<'_>, parts: &[Part]) -> Result<Vec<PromptPiece>, store::Error> {
    let names: Vec<(String, [u8; 16])> =
        parts.iter().filter_map(|part| Some((part.source.clone(), bytes(&part.hash)?))).collect();
    let texts = from.world.store.texts(from.scope, &names).await?;
    let mut pieces = Vec::with_capacity(parts.len());
    for (part, text) in parts.iter().filter(|part| bytes(&part.hash).is_some()).zip(texts) {
        let (Some(fragment), Some(text)) = (Fragment::parse(&part.fragment), text) else { continue };
        if hash(&text) != bytes(&part.hash).unwrap_or_default() {
            tracing::warn!(
                source = part.source,
                "a stored prompt text does not match its hash and is left out"
            );
            continue;
        }
        let source = part.source.clone();
        pieces.push(PromptPiece { fragment, source, text, suspicious: part.suspicious });
    }
    // A log of an older server names no texts.
    if !pieces.iter().any(|piece| piece.fragment == Fragment::Instructions) {
        pieces.insert(0, fragments::instructions(from.app));
    }
    Ok(pieces)
}

/// A hash from its hexadecimal digits.
fn bytes(hex: &str) -> Option<[u8; 16]> {
    let is_hash = hex.len() == 2 * size_of::<u128>() && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    u128::from_str_radix(hex, 16).ok().filter(|_| is_hash).map(u128::to_be_bytes)
}
