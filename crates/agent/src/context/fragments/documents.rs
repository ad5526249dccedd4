//! Passages of the user's documents, each with the place it comes from, so that an answer can cite it.

use app::{DocumentUse, Fragment};
use memory::recall::Passage;
use protocol::{DocumentId, LeftOut, Source, Warning};
use serde_json::Value;

use crate::context::PromptPiece;
use crate::context::gather::Sources;

/// Passages that are looked at.
const MAX_PASSAGES: usize = 40;

/// A part of the prompt that passages may take at most: one in so many.
const SHARE: usize = 3;

/// A passage that is less near than this says nothing about the question, where nobody named its document; and neither
/// does one that is much less near than the best.
const MIN_SCORE: f32 = 0.22;
const MIN_PART_OF_BEST: f32 = 0.6;

/// Before the passages.
pub(super) const INTRO: &str = "Passages from the user's documents, each after its document and place; say where a \
    fact comes from when you use one.";

/// The documents that were found.
#[derive(Debug, Default)]
pub(in crate::context) struct ChosenDocuments {
    pub(in crate::context) pieces: Vec<PromptPiece>,
    pub(in crate::context) sources: Vec<Source>,
    pub(in crate::context) left_out: Vec<LeftOut>,
    pub(in crate::context) warnings: Vec<Warning>,
}

/// Passages for a message: of the documents the run names, or of all of the user's if the app says so and the run does
/// not say that it wants none.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    message: &str,
    among: Option<&[DocumentId]>,
) -> Result<ChosenDocuments, store::Error> {
    let named = among.unwrap_or_default();
    match (from.app.context.documents, among) {
        (DocumentUse::None, _) | (DocumentUse::Named, None) | (_, Some([])) => {
            return Ok(ChosenDocuments::default());
        }
        (DocumentUse::Named, Some(_)) | (DocumentUse::All, _) => {}
    }
    let found = from.world.recall.passages(from.scope, message, among, MAX_PASSAGES).await?;
    let mut out = ChosenDocuments { warnings: missing(from, named).await?, ..ChosenDocuments::default() };
    let mut left = from.app.context.document_tokens.min(from.share(SHARE));
    let (mut taken, mut beyond) = (Vec::new(), (0, 0));
    let best = found.first().map_or(0.0, |best| best.score);
    let least = if among.is_some() { 0.0 } else { MIN_SCORE.max(best * MIN_PART_OF_BEST) };
    for passage in found.into_iter().filter(|found| found.score >= least) {
        let tokens = from.counter.text(&passage.chunk.text);
        match left.checked_sub(tokens) {
            Some(rest) => {
                left = rest;
                taken.push(passage);
            }
            None => beyond = (beyond.0 + 1, beyond.1 + tokens),
        }
    }
    if beyond.0 > 0 {
        let what = format!("{} passages", beyond.0);
        let fragment = Fragment::Documents.name().into();
        out.left_out.push(LeftOut { fragment, what, tokens: beyond.1 as u64 });
    }
    // Read in the order in which they stand, not in which they were found.
    taken.sort_by_key(|passage| (passage.chunk.document, passage.chunk.number));
    for Passage { chunk, .. } in taken {
        let head = format!("[{} {}, {}]", chunk.document, Value::from(chunk.name.as_str()), chunk.place);
        let piece = PromptPiece::new(Fragment::Documents, chunk.document, format!("{head}\n{}", chunk.text));
        out.pieces.push(PromptPiece { suspicious: chunk.suspicious, ..piece });
        out.sources.push(Source {
            kind: "document".into(),
            id: chunk.document.to_string(),
            title: chunk.name,
            place: chunk.place,
        });
    }
    Ok(out)
}

/// The warning about documents that were named and are not the user's, or gone.
async fn missing(from: &Sources<'_>, named: &[DocumentId]) -> Result<Vec<Warning>, store::Error> {
    let mut warnings = Vec::new();
    for id in named {
        if from.world.store.chunks(from.scope, *id, 0, 1).await?.is_empty() {
            let message = format!("there is no document {id}; the answer is given without it");
            warnings.push(Warning { code: "document_unknown".into(), message });
        }
    }
    Ok(warnings)
}
