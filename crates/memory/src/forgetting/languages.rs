//! How people ask to forget something, say yes and no, and are answered, in each language.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::phrases::{PhraseList, read_data};

/// Data files of the languages; the first is the one that others fall back to.
pub(super) const FILES: [&str; 4] = [
    include_str!("languages/en.toml"),
    include_str!("languages/de.toml"),
    include_str!("languages/es.toml"),
    include_str!("languages/fr.toml"),
];

pub(super) static FORGET_LANGUAGES: LazyLock<[ForgetLanguage; FILES.len()]> =
    LazyLock::new(|| FILES.map(read_data));

/// One language.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetLanguage {
    pub(super) code: String,
    /// Words that may come before a request: greetings, "please".
    pub(super) leads: PhraseList,
    /// Words that make a question of the request: "can you".
    pub(super) asking: PhraseList,
    pub(super) verbs: PhraseList,
    /// Verbs that stand at the end of such a question.
    pub(super) last_verbs: PhraseList,
    /// Words for the thing that was said last.
    pub(super) last: PhraseList,
    /// Words that lead to a topic: "what I said about".
    pub(super) about: PhraseList,
    /// Words that lead to a statement: "that".
    pub(super) clauses: PhraseList,
    /// Words that begin a thing of the user's: "my".
    pub(super) own: PhraseList,
    /// Words that end a topic and do not belong to it.
    pub(super) tails: PhraseList,
    /// Words that say nothing by themselves, at an end or in an answer.
    pub(super) courtesies: PhraseList,
    pub(super) yes: PhraseList,
    pub(super) no: PhraseList,
    /// Answers; `{}` stands for the memories that are meant.
    pub(super) ask_one: String,
    pub(super) ask_several: String,
    pub(super) forgotten: String,
    pub(super) kept: String,
    pub(super) nothing_of_last: String,
    pub(super) nothing_about: String,
    /// Requests to forget all.
    pub(super) everything: PhraseList,
    pub(super) too_much: String,
}
