//! Passages of the user's documents and of the app's, each with the place it comes from, so that an answer can cite it.

use app::{DocumentUse, Fragment};
use memory::recall::Passage;
use protocol::{DocumentId, LeftOut, Scope, Source, Warning};
use serde_json::Value;

use crate::context::PromptPiece;
use crate::context::gather::Sources;

/// Passages that are looked at.
const MAX_PASSAGES: usize = 40;

/// Passages of each kind get at most 1/`SHARE` of the prompt.
const SHARE: usize = 3;

/// A passage below this score says nothing about the question, unless a message names its document. A passage far below
/// the best one is left out, too.
const MIN_SCORE: f32 = 0.22;
const MIN_PART_OF_BEST: f32 = 0.6;

/// Before the passages of the user's documents.
pub(super) const INTRO: &str = "Passages from the user's documents, each after its document and place; say where a \
    fact comes from when you use one.";

/// Before the passages of the app's documents.
pub(super) const APP_INTRO: &str = "Passages from the documents of this app, each after its document and place; say \
    where a fact comes from when you use one.";

/// The documents that were found.
#[derive(Debug, Default)]
pub(in crate::context) struct ChosenDocuments {
    pub(in crate::context) pieces: Vec<PromptPiece>,
    pub(in crate::context) sources: Vec<Source>,
    pub(in crate::context) left_out: Vec<LeftOut>,
    pub(in crate::context) warnings: Vec<Warning>,
}

/// The documents that a run names.
pub(in crate::context) struct NamedDocuments {
    /// The documents of its request and its message: a missing one is told.
    pub(in crate::context) asked: Vec<DocumentId>,
    /// The documents that are searched. None if neither the request nor a message names any.
    pub(in crate::context) among: Option<Vec<DocumentId>>,
}

/// Passages for a message: of the documents the run names, or of all of the user's if the app says so and the run does
/// not say that it wants none.
pub(in crate::context) async fn read(
    from: &Sources<'_>,
    message: &str,
    named: &NamedDocuments,
) -> Result<ChosenDocuments, store::Error> {
    let among = named.among.as_deref();
    match (from.app.context.documents, among) {
        (DocumentUse::None, _) | (DocumentUse::Named, None) | (_, Some([])) => {
            return Ok(ChosenDocuments::default());
        }
        (DocumentUse::Named, Some(_)) | (DocumentUse::All, _) => {}
    }
    let found = from.world.recall.passages(from.scope, message, among, MAX_PASSAGES).await?;
    let room = (Fragment::Documents, from.app.context.document_tokens);
    let chosen = choose(from, relevant_passages(found, among.is_some()), room);
    Ok(ChosenDocuments { warnings: missing_documents(from, &named.asked).await?, ..chosen })
}

/// Passages of the app's own documents for a message. A run that names some of them wants those. An empty list of
/// documents is about the user's own.
pub(in crate::context) async fn read_knowledge(
    from: &Sources<'_>,
    message: &str,
    among: Option<&[DocumentId]>,
) -> Result<ChosenDocuments, store::Error> {
    if !from.app.knowledge.enabled {
        return Ok(ChosenDocuments::default());
    }
    let (recall, of_app) = (&from.world.recall, Scope::of_app(from.scope.app.clone()));
    let named = match among {
        None | Some([]) => Vec::new(),
        Some(_) => recall.passages(&of_app, message, among, MAX_PASSAGES).await?,
    };
    let found = match named.is_empty() {
        true => relevant_passages(recall.passages(&of_app, message, None, MAX_PASSAGES).await?, false),
        false => named,
    };
    Ok(choose(from, found, (Fragment::Knowledge, from.app.knowledge.tokens)))
}

/// The passages that say something about the question. All of them if their documents are named.
fn relevant_passages(found: Vec<Passage>, is_named: bool) -> Vec<Passage> {
    let best = found.first().map_or(0.0, |best| best.score);
    let least = if is_named { 0.0 } else { MIN_SCORE.max(best * MIN_PART_OF_BEST) };
    found.into_iter().filter(|found| found.score >= least).collect()
}

/// The passages that fit into the room of a fragment, best first, as pieces of the prompt.
fn choose(from: &Sources<'_>, found: Vec<Passage>, (fragment, tokens): (Fragment, usize)) -> ChosenDocuments {
    let mut out = ChosenDocuments::default();
    let mut left = tokens.min(from.share(SHARE));
    let (mut taken, mut beyond) = (Vec::new(), (0, 0));
    for passage in found {
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
        out.left_out.push(LeftOut { fragment: fragment.name().into(), what, tokens: beyond.1 as u64 });
    }
    // Read in the order in which they stand, not in which they were found.
    taken.sort_by_key(|passage| (passage.chunk.document, passage.chunk.number));
    for Passage { chunk, of_app, .. } in taken {
        let head = format!("[{} {}, {}]", chunk.document, Value::from(chunk.name.as_str()), chunk.place);
        let text = format!("{head}\n{}", chunk.text);
        let piece = match of_app {
            true => PromptPiece::new(fragment, store::source::of_knowledge(chunk.document), text),
            false => PromptPiece::new(fragment, chunk.document, text),
        };
        out.pieces.push(PromptPiece { suspicious: chunk.suspicious, ..piece });
        out.sources.push(Source {
            kind: "document".into(),
            id: chunk.document.to_string(),
            title: chunk.name,
            place: chunk.place,
        });
    }
    out
}

/// The warning about documents that were named and are neither the user's nor the app's, or gone.
async fn missing_documents(from: &Sources<'_>, named: &[DocumentId]) -> Result<Vec<Warning>, store::Error> {
    let mut warnings = Vec::new();
    for id in named {
        if from.world.store.chunks(from.scope, *id, 0, 1).await?.is_empty() {
            let message = format!("there is no document {id}; the answer is given without it");
            warnings.push(Warning { code: "document_unknown".into(), message });
        }
    }
    Ok(warnings)
}
