//! `[models.…]`, `[embeddings]` and the default model as they are written, and the way from there to checked listings.

use std::collections::BTreeMap;
use std::ops::Bound;

use app::Problem;
use app::source::Spanned;
use model::{Capabilities, Listing, Price, Tokens, Wire, known};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::providers::MAX_CONTEXT_TOKENS;
use super::{Chosen, Reader};
use crate::config::{Config, Embeddings, Provider};
use crate::weights::{self, WeightsKind};

/// US dollars for a million tokens.
const MAX_PRICE: f64 = 10_000.0;
const MAX_DIMENSIONS: i64 = 65_536;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawModel {
    provider: Option<Spanned<String>>,
    id: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    streaming: Option<bool>,
    tools: Option<bool>,
    structured: Option<Spanned<String>>,
    vision: Option<bool>,
    sampling: Option<bool>,
    thinking: Option<bool>,
    tool_calls_in_text: Option<bool>,
    context_window: Option<Spanned<i64>>,
    max_output: Option<Spanned<i64>>,
    tokens: Option<Spanned<String>>,
    price: Option<RawPrice>,
    extra: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    input: Spanned<f64>,
    cached_input: Option<Spanned<f64>>,
    output: Spanned<f64>,
}

pub(super) type RawModels = BTreeMap<Spanned<String>, RawModel>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEmbeddings {
    provider: Spanned<String>,
    model: Spanned<String>,
    dimensions: Option<Spanned<i64>>,
}

impl Reader<'_> {
    /// A model that the file describes; what it does not say is what is known, or what its provider's models are like.
    pub(super) fn model(
        &self,
        config: &Config,
        name: &Spanned<String>,
        raw: RawModel,
    ) -> Result<Listing, Problem> {
        let field = |key: &str| format!("models.{name}.{key}");
        let provider = self.provider_of(config, name, raw.provider)?;
        let id = self.in_file(raw.id)?.map_or_else(|| name.get_ref().clone(), |chosen| chosen.value);
        let kind = self.kind(&field("kind"), raw.kind)?.unwrap_or(provider.kind);
        let catalogue = &config.knowledge.catalogue;
        let usual = catalogue.describe(&provider.name, &id, &provider.capabilities).0;
        let usual_price = provider.prices().of(catalogue, &provider.name, &id);
        let usual_tools = if kind == provider.kind { usual.tools } else { Capabilities::of_kind(kind).tools };
        let structured = self.structured(&field("structured"), raw.structured)?;
        let window = self.context_window(&field("context_window"), raw.context_window)?;
        let max_output = self.source.whole(&field("max_output"), raw.max_output, 1..=MAX_CONTEXT_TOKENS)?;
        let tokens = self.one_of(&field("tokens"), raw.tokens, &Tokens::ALL, Tokens::name)?;
        let price = raw.price.map(|price| self.price(&field("price"), price)).transpose()?;
        Ok(Listing {
            name: name.get_ref().clone(),
            provider: provider.name.clone(),
            id,
            kind,
            capabilities: Capabilities {
                streaming: raw.streaming.unwrap_or(usual.streaming),
                tools: raw.tools.unwrap_or(usual_tools),
                structured: structured.unwrap_or(usual.structured),
                vision: raw.vision.unwrap_or(usual.vision),
                sampling: raw.sampling.unwrap_or(usual.sampling),
                thinking: raw.thinking.unwrap_or(usual.thinking),
                calls_in_text: raw.tool_calls_in_text.unwrap_or(usual.calls_in_text),
                context_window: window.unwrap_or(usual.context_window),
                max_output: max_output.or(usual.max_output),
                tokens: tokens.or(usual.tokens),
            },
            price: price.or(usual_price),
            extra: raw.extra.unwrap_or_default(),
        })
    }

    /// Who serves a described model: the provider it names, the one its name leads to, or the only one there is.
    fn provider_of<'c>(
        &self,
        config: &'c Config,
        name: &Spanned<String>,
        provider: Option<Spanned<String>>,
    ) -> Result<&'c Provider, Problem> {
        if let Some(provider) = provider {
            return self.configured(config, &provider);
        }
        if let Some(provider) =
            config.known_provider_of(name.get_ref()).and_then(|known| config.provider(known))
        {
            return Ok(provider);
        }
        if config.pulled_model(name.get_ref()).is_some()
            && let Some(provider) = config.provider(weights::PROVIDER)
        {
            return Ok(provider);
        }
        let remote: Vec<&Provider> =
            config.providers.iter().filter(|provider| provider.wire.is_some()).collect();
        match remote.as_slice() {
            [only] => Ok(only),
            [] | [_, _, ..] => {
                let message = format!("who serves the model {:?} is not said", name.get_ref());
                let remedy = match remote.as_slice() {
                    [] => "configure a provider first, such as with OPENAI_API_KEY".to_owned(),
                    [_, ..] => format!("add provider = …, one of {}", names(config)),
                };
                Err(self.source.problem(name.span(), message, remedy))
            }
        }
    }

    fn configured<'c>(&self, config: &'c Config, name: &Spanned<String>) -> Result<&'c Provider, Problem> {
        config.provider(name.get_ref()).ok_or_else(|| {
            let message = format!("the provider {:?} is not configured", name.get_ref());
            let known = known::provider(name.get_ref()).and_then(|known| known.key_variable);
            let mend = match known {
                _ if name.get_ref() == weights::PROVIDER => "get weights with `rondo models pull`".to_owned(),
                Some(variable) => format!("set {variable}"),
                None => format!("add [providers.{}]", name.get_ref()),
            };
            let remedy = match config.providers.as_slice() {
                [] => mend,
                [_, ..] => format!("{mend}, or name one of {}", names(config)),
            };
            self.source.problem(name.span(), message, remedy)
        })
    }

    fn price(&self, field: &str, raw: RawPrice) -> Result<Price, Problem> {
        let number = |key: &str, value: Spanned<f64>| {
            let field = format!("{field}.{key}");
            let read = self.source.number(&field, Some(value), Bound::Included(0.0), MAX_PRICE)?;
            Ok(read.unwrap_or_default())
        };
        let input = number("input", raw.input)?;
        let cached_input = raw.cached_input.map(|cached| number("cached_input", cached)).transpose()?;
        Ok(Price::flat(input, cached_input.unwrap_or(input), number("output", raw.output)?))
    }

    pub(super) fn embeddings(&self, config: &Config, raw: RawEmbeddings) -> Result<Embeddings, Problem> {
        let provider = self.configured(config, &raw.provider)?;
        if matches!(provider.wire, Some(Wire::Anthropic(_))) {
            let message = format!("the provider {:?} has no embeddings", provider.name);
            return Err(self.source.problem(raw.provider.span(), message, "name another provider"));
        }
        let dimensions = self.source.whole("embeddings.dimensions", raw.dimensions, 1..=MAX_DIMENSIONS)?;
        let model = self.source.text("embeddings.model", Some(raw.model))?.unwrap_or_default();
        let is_here =
            config.pulled.iter().any(|pulled| pulled.name == model && pulled.kind == WeightsKind::Embedding);
        if provider.wire.is_none() && !is_here {
            let message = format!("there are no weights of an embedding model called {model:?}");
            return Err(self.source.problem(
                raw.provider.span(),
                message,
                "get them with `rondo models pull`",
            ));
        }
        Ok(Embeddings { provider: provider.name.clone(), model, dimensions })
    }

    /// The default that somebody named must be one that can be asked, once there is anybody to ask.
    pub(super) fn default_model(&self, config: &Config, chosen: Chosen<'_>) -> Result<String, Problem> {
        if !config.has_remote() || config.is_served(&chosen.value) {
            return Ok(chosen.value);
        }
        let message = format!("no provider serves the model {:?}", chosen.value);
        let listed: Vec<&str> = config.models.iter().map(|listing| listing.name.as_str()).collect();
        let remedy = if listed.is_empty() {
            format!("add [models.{:?}], or open = true to its provider", chosen.value)
        } else {
            format!("add [models.{:?}], or choose one of {}", chosen.value, listed.join(", "))
        };
        Err(chosen.problem(message, remedy))
    }
}

fn names(config: &Config) -> String {
    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    names.join(", ")
}
