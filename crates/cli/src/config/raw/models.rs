//! `[models.…]`, `[embeddings]` and the default model as they are written, and the way from there to checked listings.

use std::collections::BTreeMap;

use app::Problem;
use app::source::Spanned;
use app::source::bounds::{number, text, whole_number};
use model::{Capabilities, Listing, Price, ProviderKind, ProviderWire, SchemaSupport, Tokens, known_models};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::providers::{MAX_CONTEXT_TOKENS, MIN_CONTEXT_TOKENS, kind, read_schema_support};
use super::{Chosen, ConfigReader, non_empty, one_of};
use crate::config::{Config, Embeddings, ProviderConfig};
use crate::weights::{self, WeightsKind};

/// US dollars for a million tokens.
const MAX_PRICE: i32 = 10_000;
const MAX_DIMENSIONS: i64 = 65_536;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawModel {
    provider: Option<Spanned<String>>,
    #[serde(deserialize_with = "non_empty")]
    id: Option<String>,
    #[serde(deserialize_with = "kind")]
    kind: Option<ProviderKind>,
    streaming: Option<bool>,
    tools: Option<bool>,
    #[serde(deserialize_with = "read_schema_support")]
    structured: Option<SchemaSupport>,
    vision: Option<bool>,
    sampling: Option<bool>,
    thinking: Option<bool>,
    tool_calls_in_text: Option<bool>,
    #[serde(deserialize_with = "whole_number::<MIN_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS, _, _>")]
    context_window: Option<u32>,
    #[serde(deserialize_with = "whole_number::<1, MAX_CONTEXT_TOKENS, _, _>")]
    max_output: Option<u32>,
    #[serde(deserialize_with = "tokens")]
    tokens: Option<Tokens>,
    price: Option<RawPrice>,
    extra: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    #[serde(deserialize_with = "number::<0, MAX_PRICE, _, _>")]
    input: f64,
    #[serde(default, deserialize_with = "number::<0, MAX_PRICE, _, _>")]
    cached_input: Option<f64>,
    #[serde(deserialize_with = "number::<0, MAX_PRICE, _, _>")]
    output: f64,
}

pub(super) type RawModels = BTreeMap<Spanned<String>, RawModel>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEmbeddings {
    provider: Spanned<String>,
    #[serde(deserialize_with = "text")]
    model: String,
    #[serde(default, deserialize_with = "whole_number::<1, MAX_DIMENSIONS, _, _>")]
    dimensions: Option<u32>,
}

fn tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tokens>, D::Error> {
    one_of(deserializer, &Tokens::ALL, Tokens::name)
}

impl ConfigReader<'_> {
    /// A model that the file describes; what it does not say is what is known, or what its provider's models are like.
    pub(super) fn model(
        &self,
        config: &Config,
        name: &Spanned<String>,
        raw: RawModel,
    ) -> Result<Listing, Problem> {
        let provider = self.provider_of(config, name, raw.provider)?;
        let id = raw.id.unwrap_or_else(|| name.get_ref().clone());
        let kind = raw.kind.unwrap_or(provider.kind);
        let catalogue = &config.knowledge.catalogue;
        let usual = catalogue.describe(&provider.name, &id, &provider.capabilities).0;
        let usual_price = provider.prices().of(catalogue, &provider.name, &id);
        let is_here = provider.wire.is_none();
        let usual_tools = match config.pulled_model(&id).filter(|_| is_here) {
            Some(pulled) => pulled.is_offered_tools(),
            None if kind == provider.kind => usual.tools,
            None => Capabilities::of_kind(kind).tools,
        };
        let price = raw
            .price
            .map(|price| Price::flat(price.input, price.cached_input.unwrap_or(price.input), price.output));
        Ok(Listing {
            name: name.get_ref().clone(),
            provider: provider.name.clone(),
            id,
            kind,
            capabilities: Capabilities {
                streaming: raw.streaming.unwrap_or(usual.streaming),
                tools: raw.tools.unwrap_or(usual_tools),
                most_tools: usual.most_tools,
                structured: raw.structured.unwrap_or(usual.structured),
                vision: raw.vision.unwrap_or(usual.vision),
                sampling: raw.sampling.unwrap_or(usual.sampling),
                thinking: raw.thinking.unwrap_or(usual.thinking),
                calls_in_text: raw.tool_calls_in_text.unwrap_or(usual.calls_in_text),
                context_window: raw.context_window.unwrap_or(usual.context_window),
                max_output: raw.max_output.or(usual.max_output),
                tokens: raw.tokens.or(usual.tokens),
            },
            price: price.or(usual_price),
            extra: raw.extra.unwrap_or_default(),
        })
    }

    /// The provider of a described model: the provider it names, the one its name leads to, or the only one there is.
    fn provider_of<'c>(
        &self,
        config: &'c Config,
        name: &Spanned<String>,
        provider: Option<Spanned<String>>,
    ) -> Result<&'c ProviderConfig, Problem> {
        if let Some(provider) = provider {
            return self.configured_provider(config, &provider);
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
        let remote: Vec<&ProviderConfig> =
            config.providers.iter().filter(|provider| provider.wire.is_some()).collect();
        let remedy = match remote.as_slice() {
            [only] => return Ok(only),
            [] => "configure a provider first, such as with OPENAI_API_KEY".to_owned(),
            [_, _, ..] => format!("add provider = …, one of {}", names(config)),
        };
        let message = format!("the provider of the model {:?} is not named", name.get_ref());
        Err(self.source.problem(name.span(), message, remedy))
    }

    fn configured_provider<'c>(
        &self,
        config: &'c Config,
        name: &Spanned<String>,
    ) -> Result<&'c ProviderConfig, Problem> {
        config.provider(name.get_ref()).ok_or_else(|| {
            let message = format!("the provider {:?} is not configured", name.get_ref());
            let known = known_models::provider(name.get_ref()).and_then(|known| known.key_variable);
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

    pub(super) fn embeddings(&self, config: &Config, raw: RawEmbeddings) -> Result<Embeddings, Problem> {
        let provider = self.configured_provider(config, &raw.provider)?;
        if matches!(provider.wire, Some(ProviderWire::Anthropic(_))) {
            let message = format!("the provider {:?} has no embeddings", provider.name);
            return Err(self.source.problem(raw.provider.span(), message, "name another provider"));
        }
        let model = raw.model;
        let is_here =
            config.pulled.iter().any(|pulled| pulled.name == model && pulled.kind == WeightsKind::Embedding);
        if provider.wire.is_none() && !is_here {
            let message = format!("there are no weights of an embedding model called {model:?}");
            let remedy = "get them with `rondo models pull`";
            return Err(self.source.problem(raw.provider.span(), message, remedy));
        }
        Ok(Embeddings { provider: provider.name.clone(), model, dimensions: raw.dimensions })
    }

    /// The default that the operator named must be a model that can be used, if there is a provider.
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
