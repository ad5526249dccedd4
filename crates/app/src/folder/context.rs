//! `[context]`, `[history]` and `summarise.md`: what a prompt is made of, and how the conversation is shown in it.

use std::path::Path;

use serde::Deserialize;

use crate::source::{Problem, Source, Spanned};
use crate::{ContextRules, DocumentUse, Fragment, History, HistoryStyle, Summarise};

use super::{MAX_TOKENS, optional_text};

/// Below this not even the newest message has room.
const MIN_HISTORY_TOKENS: i64 = 256;
/// A summary of less would not be shorter.
const MIN_SUMMARISED_TOKENS: i64 = 100;
const MAX_FRAGMENT_TOKENS: i64 = 1_000_000;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawContext {
    order: Vec<Spanned<String>>,
    domain_tokens: Option<Spanned<i64>>,
    document_tokens: Option<Spanned<i64>>,
    pin_tokens: Option<Spanned<i64>>,
    documents: Option<RawDocuments>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawDocuments {
    Named,
    All,
    None,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawHistory {
    style: Option<RawStyle>,
    budget: Option<Spanned<i64>>,
    summarise: Option<bool>,
    summarise_model: Option<Spanned<String>>,
    summarise_after: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawStyle {
    Plain,
    Reference,
}

pub(super) fn context(source: &Source<'_>, raw: RawContext) -> Result<ContextRules, Problem> {
    let default = ContextRules::default();
    let tokens =
        |field: &str, value| source.whole(&format!("context.{field}"), value, 1..=MAX_FRAGMENT_TOKENS);
    Ok(ContextRules {
        order: order(source, &raw.order)?,
        domain_tokens: tokens("domain_tokens", raw.domain_tokens)?.unwrap_or(default.domain_tokens),
        document_tokens: tokens("document_tokens", raw.document_tokens)?.unwrap_or(default.document_tokens),
        pin_tokens: tokens("pin_tokens", raw.pin_tokens)?.unwrap_or(default.pin_tokens),
        documents: match raw.documents {
            Some(RawDocuments::Named) => DocumentUse::Named,
            Some(RawDocuments::All) => DocumentUse::All,
            Some(RawDocuments::None) => DocumentUse::None,
            None => default.documents,
        },
    })
}

fn order(source: &Source<'_>, raw: &[Spanned<String>]) -> Result<Vec<Fragment>, Problem> {
    let mut named = Vec::new();
    for name in raw {
        let Some(fragment) = Fragment::parse(name.get_ref()) else {
            let message = format!("context.order names {:?}", name.get_ref());
            let names = Fragment::ALL.map(Fragment::name).join(", ");
            return Err(source.problem(name.span(), message, format!("write some of {names}")));
        };
        if named.contains(&fragment) {
            let message = format!("context.order names {:?} twice", name.get_ref());
            let names = Fragment::ALL.map(Fragment::name).join(", ");
            return Err(source.problem(name.span(), message, format!("write each of {names} once at most")));
        }
        named.push(fragment);
    }
    Ok(ContextRules::complete(&named))
}

/// How the conversation is shown, and the text of `summarise.md` if there is one.
pub(super) fn history(
    source: &Source<'_>,
    dir: &Path,
    raw: RawHistory,
) -> Result<(History, Option<String>), Problem> {
    let default = History::default();
    let prompt = optional_text(&dir.join("summarise.md"), "say how to summarise a conversation")?;
    let budget = source.whole("history.budget", raw.budget, MIN_HISTORY_TOKENS..=MAX_TOKENS)?;
    let budget: u32 = budget.unwrap_or(default.budget);
    let after = source.whole(
        "history.summarise_after",
        raw.summarise_after,
        MIN_SUMMARISED_TOKENS..=i64::from(budget),
    )?;
    let summarise = Summarise {
        prompt: prompt.clone(),
        model: source.text("history.summarise_model", raw.summarise_model)?,
        after: after.unwrap_or(Summarise::default_after(budget)),
    };
    let history = History {
        style: match raw.style {
            Some(RawStyle::Plain) => HistoryStyle::Plain,
            Some(RawStyle::Reference) => HistoryStyle::Reference,
            None => default.style,
        },
        budget,
        summarise: raw.summarise.unwrap_or(true).then_some(summarise),
    };
    Ok((history, prompt))
}
