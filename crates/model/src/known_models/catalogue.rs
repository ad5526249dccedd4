//! The catalogue of models, as `known.toml` has it: read, checked, and asked for by provider and name.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::civil::Date;
use serde::Deserialize;

use crate::capabilities::{Capabilities, Price};

/// The catalogue that this program was built with.
const BUILT_IN: &str = include_str!("../known.toml");

/// Facts about models, as of a day.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// The form of the file; a later one cannot be read by this program.
    pub(super) format: u32,
    /// The day on which its author compared it with what the providers say.
    pub checked_on: Date,
    /// The source of the facts.
    pub source: String,
    /// The model of each provider when the configuration names none.
    pub(super) defaults: BTreeMap<String, String>,
    pub(super) models: Vec<KnownModel>,
    #[serde(default)]
    pub(super) families: Vec<ModelFamily>,
    #[serde(default)]
    pub(super) embeddings: Vec<KnownEmbedding>,
}

/// A model with its default facts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownModel {
    pub name: String,
    pub provider: String,
    /// Tokens, prompt and answer together.
    pub context_window: u32,
    /// Tokens of the longest answer, where there is a limit.
    pub max_output: Option<u32>,
    /// Takes temperature and its like.
    pub sampling: bool,
    pub vision: bool,
    pub thinking: bool,
    /// Every model has one that was not retired when the catalogue was checked.
    pub price: Option<Price>,
    /// The day from which it is no longer served.
    pub retires_on: Option<Date>,
    /// The model to choose when it is retired.
    pub instead: Option<String>,
    /// The source of this entry, if it is another than that of the others.
    pub source: Option<String>,
}

/// Facts about models of a provider of which nothing else is known, by the beginning of their names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFamily {
    /// The beginning of their names, and a star.
    pub pattern: String,
    pub provider: String,
    pub context_window: u32,
    pub max_output: Option<u32>,
    pub sampling: bool,
    pub vision: bool,
    pub thinking: bool,
}

/// A model that turns texts into vectors.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownEmbedding {
    pub name: String,
    pub provider: String,
    /// Tokens of the longest text.
    pub context_window: u32,
    /// US dollars for a million tokens.
    pub price: f64,
    pub retires_on: Option<Date>,
    pub instead: Option<String>,
}

impl ModelFamily {
    pub(super) fn name_beginning(&self) -> &str {
        self.pattern.strip_suffix('*').unwrap_or(&self.pattern)
    }
}

impl Catalogue {
    /// Returns the catalogue that this program was built with. A test holds that it can be read.
    pub fn built_in() -> Arc<Self> {
        static PARSED: LazyLock<Arc<Catalogue>> =
            LazyLock::new(|| Arc::new(Catalogue::parse(BUILT_IN).unwrap_or_default()));
        Arc::clone(&PARSED)
    }

    /// The models that were not retired when the catalogue was checked, in its order.
    pub fn current_models(&self) -> impl Iterator<Item = &KnownModel> {
        self.models.iter().filter(|model| model.retires_on.is_none_or(|day| day > self.checked_on))
    }

    /// The model of a provider when the configuration names none.
    pub fn default_model(&self, provider: &str) -> Option<&str> {
        self.defaults.get(provider).map(String::as_str)
    }

    /// Returns the provider that serves a model of this name, of those who are there.
    pub fn provider_of(&self, name: &str, is_there: impl Fn(&str) -> bool) -> Option<&str> {
        let by_model =
            self.models.iter().filter(|model| model.matches_name(name)).map(|model| &model.provider);
        let families = self.families.iter().filter(|family| name.starts_with(family.name_beginning()));
        let by_family = families.map(|family| &family.provider);
        by_model.chain(by_family).find(|provider| is_there(provider)).map(String::as_str)
    }

    /// The facts about a provider's model: of this very name, or of the one that a dated name continues.
    pub fn model(&self, provider: &str, id: &str) -> Option<&KnownModel> {
        self.models.iter().find(|model| model.provider == provider && model.matches_name(id))
    }

    pub(super) fn embedding(&self, provider: &str, id: &str) -> Option<&KnownEmbedding> {
        self.embeddings.iter().find(|known| known.provider == provider && known.name == id)
    }

    fn family(&self, provider: &str, id: &str) -> Option<&ModelFamily> {
        let fits =
            |family: &&ModelFamily| family.provider == provider && id.starts_with(family.name_beginning());
        self.families.iter().filter(fits).max_by_key(|family| family.pattern.len())
    }

    /// The capabilities and the price of a provider's model, as far as they are known; `expected` is for the rest.
    pub fn describe(
        &self,
        provider: &str,
        id: &str,
        expected: &Capabilities,
    ) -> (Capabilities, Option<Price>) {
        let model = self.model(provider, id).map(|model| {
            let KnownModel { sampling, vision, thinking, context_window, max_output, price, .. } = model;
            (*sampling, *vision, *thinking, *context_window, *max_output, *price)
        });
        let family = || {
            let family = self.family(provider, id)?;
            let ModelFamily { sampling, vision, thinking, context_window, max_output, .. } = family;
            Some((*sampling, *vision, *thinking, *context_window, *max_output, None))
        };
        let Some((sampling, vision, thinking, context_window, max_output, price)) = model.or_else(family)
        else {
            return (expected.clone(), None);
        };
        let max_output = max_output.or(expected.max_output);
        (Capabilities { sampling, vision, thinking, context_window, max_output, ..expected.clone() }, price)
    }
}

impl KnownModel {
    /// Whether the name is its own, or continues it by a date.
    fn matches_name(&self, name: &str) -> bool {
        name.strip_prefix(self.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_date))
    }
}

/// `20250514`, `2025-05-14` or `latest`.
fn is_date(text: &str) -> bool {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [year, month, day] => digits(year, 4) && digits(month, 2) && digits(day, 2),
        [day] => digits(day, 8) || *day == "latest",
        _ => false,
    }
}
