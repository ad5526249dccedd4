//! The models of a server by name: who serves each, what it can do, what it costs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use protocol::{Settings, Usage};
use serde_json::{Map, Value};

use crate::capabilities::{Capabilities, Price, ProviderKind, SchemaSupport};
use crate::health::ProviderHealth;
use crate::known_models::Catalogue;
use crate::prices::Prices;
use crate::rescue::Rescued;
use crate::retry_without_setting::SettingRetry;
use crate::tokens::{Counter, Counters};
use crate::tool_fit::fitting_tools;
use crate::{ChatModel, ModelRequest, PromptMessage, ProviderWire, ToolSpec};

/// The remedy when there is no model, for every message that says so.
pub const MODEL_CHOICES: &str = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL for a local server, or add \
    a provider to rondo.toml, or start Ollama, or get a small model for this process with `rondo models pull qwen2.5-coder-0.5b`";

/// A provider of models.
#[derive(Clone)]
pub struct ModelProvider {
    pub name: String,
    /// None when it runs in this process.
    pub wire: Option<ProviderWire>,
    pub kind: ProviderKind,
    pub chat: Arc<dyn ChatModel>,
    /// Whether it is asked for models that the configuration does not list.
    pub open: bool,
    /// Whether what is known of models by its name holds for those it serves: it is who everybody knows by that name.
    pub known: bool,
    /// The capabilities of its models that the configuration does not describe.
    pub capabilities: Capabilities,
    /// The prices of its models for which the configuration has no price.
    pub prices: Prices,
}

/// A model as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The name that apps and requests use.
    pub name: String,
    pub provider: String,
    /// The provider's own name for it.
    pub id: String,
    pub kind: ProviderKind,
    pub capabilities: Capabilities,
    pub price: Option<Price>,
    /// Fields of the provider's own, added to each request.
    pub extra: Map<String, Value>,
}

/// A model that can be asked.
#[derive(Clone)]
pub struct Model {
    pub listing: Listing,
    pub chat: Arc<dyn ChatModel>,
    /// Its provider's health.
    pub health: Arc<ProviderHealth>,
    tokens: Arc<Counter>,
    extra: Arc<Map<String, Value>>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("listing", &self.listing).finish_non_exhaustive()
    }
}

impl Model {
    fn new(
        listing: Listing,
        provider: &ModelProvider,
        health: &Arc<ProviderHealth>,
        tokens: Arc<Counter>,
    ) -> Self {
        let chat: Arc<dyn ChatModel> = match provider.wire {
            Some(wire) => Arc::new(SettingRetry::new(Arc::clone(&provider.chat), wire, Arc::clone(health))),
            None => Arc::clone(&provider.chat), // it runs in this process, and takes what it is given
        };
        let chat = if listing.capabilities.calls_in_text { Arc::new(Rescued(chat)) } else { chat };
        let mut extra = listing.extra.clone();
        if provider.wire == Some(ProviderWire::Ollama) {
            // Without it, Ollama cuts a long prompt to its own default and says nothing.
            extra.entry("num_ctx").or_insert_with(|| listing.capabilities.context_window.into());
        }
        Self { chat, health: Arc::clone(health), tokens, extra: Arc::new(extra), listing }
    }

    pub fn name(&self) -> &str {
        &self.listing.name
    }

    pub fn capabilities(&self) -> &Capabilities {
        &self.listing.capabilities
    }

    /// The counter of the tokens of its prompts.
    pub fn tokens(&self) -> &Counter {
        &self.tokens
    }

    /// A request as this model takes it: under its own name, and without what it cannot do.
    pub fn request(&self, system: String, messages: Vec<PromptMessage>, settings: &Settings) -> ModelRequest {
        let can = &self.listing.capabilities;
        let max_tokens = match (settings.max_tokens, can.max_output) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, _) => asked,
        };
        let reasoning_effort = settings.reasoning_effort.filter(|_| can.thinking);
        let settings = if can.sampling {
            Settings { max_tokens, reasoning_effort, ..settings.clone() }
        } else {
            let output_format = settings.output_format;
            Settings { max_tokens, output_format, reasoning_effort, ..Settings::default() }
        };
        ModelRequest {
            settings,
            stream: can.streaming,
            max_output: can.max_output,
            extra: Arc::clone(&self.extra),
            ..ModelRequest::new(self.listing.id.clone(), system, messages)
        }
    }

    /// The tools it can be offered: none, if it has no use for them.
    pub fn tools(&self, tools: &Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        if self.listing.capabilities.tools { Arc::clone(tools) } else { Arc::default() }
    }

    /// The tools it is offered for a message.
    pub fn tools_for(&self, tools: &Arc<[ToolSpec]>, message: &str) -> Arc<[ToolSpec]> {
        let can = self.tools(tools);
        let Some(most) = self.listing.capabilities.most_tools else { return can };
        let fits = fitting_tools(message, &can, most);
        fits.iter().filter_map(|fit| can.get(fit.index).cloned()).collect()
    }

    /// How it is held to a schema, as far as is known by now.
    pub fn schema_support(&self) -> SchemaSupport {
        let listed = self.listing.capabilities.structured;
        let refused = listed == SchemaSupport::WithTools && self.health.is_kept_apart();
        if refused { SchemaSupport::Alone } else { listed }
    }

    /// The usage with what it costs.
    pub fn with_cost(&self, usage: Usage) -> Usage {
        Usage { cost: self.listing.price.map_or(usage.cost, |price| price.cost(&usage)), ..usage }
    }
}

/// All models of a server.
#[derive(Clone, Default)]
pub struct ModelRegistry {
    providers: Vec<(ModelProvider, Arc<ProviderHealth>)>,
    models: BTreeMap<String, Arc<Model>>,
    default: Option<String>,
    counters: Arc<Counters>,
    /// The catalogue, for models that the configuration does not list.
    catalogue: Arc<Catalogue>,
}

impl ModelRegistry {
    /// Models of a provider that is not there are left out. `default` is the model that answers when a request names
    /// none.
    pub fn new(providers: Vec<ModelProvider>, listings: Vec<Listing>, default: Option<String>) -> Self {
        let providers: Vec<_> =
            providers.into_iter().map(|provider| (provider, Arc::<ProviderHealth>::default())).collect();
        let mut registry = Self {
            providers,
            models: BTreeMap::new(),
            default,
            counters: Arc::default(),
            catalogue: Catalogue::built_in(),
        };
        for listing in listings {
            if let Some(served) = registry.provider(&listing.provider) {
                let model = registry.model(listing, served);
                registry.models.insert(model.listing.name.clone(), Arc::new(model));
            }
        }
        registry
    }

    /// With another catalogue than the one that this program was built with.
    #[must_use]
    pub fn with_catalogue(self, catalogue: Arc<Catalogue>) -> Self {
        Self { catalogue, ..self }
    }

    /// The list price of a model, wherever it is served here.
    pub fn list_price(&self, provider: &str, id: &str) -> Option<Price> {
        self.catalogue.list_price(provider, id)
    }

    /// The name a request that names `wanted` will use.
    pub fn name(&self, wanted: Option<&str>) -> Option<String> {
        wanted.map(str::to_owned).or_else(|| self.default.clone())
    }

    /// The model of this name: a listed one, or one that an open provider is asked for. `provider/name` says which.
    pub fn find(&self, name: &str) -> Option<Arc<Model>> {
        if let Some(model) = self.models.get(name) {
            return Some(Arc::clone(model));
        }
        let (named, id) = match name.split_once('/') {
            Some((provider, id)) if self.provider(provider).is_some() => (Some(provider), id),
            _ => (self.catalogue.provider_of(name, |provider| self.provider(provider).is_some()), name),
        };
        let served = match named {
            Some(named) => self.provider(named)?,
            None => self.providers.iter().find(|(provider, _)| provider.open)?,
        };
        let provider = &served.0;
        let listing = || {
            let price = provider.prices.of(&self.catalogue, &provider.name, id);
            Listing { price, ..self.catalogue.listing(provider, name, id) }
        };
        provider.open.then(|| Arc::new(self.model(listing(), served)))
    }

    /// Whether its provider serves the model, as far as the provider says. For a model that the configuration lists,
    /// the configuration decides.
    pub async fn serves(&self, model: &Model) -> Option<bool> {
        if self.models.contains_key(model.name()) {
            return None;
        }
        let (provider, _) = self.provider(&model.listing.provider)?;
        provider.chat.serves(&model.listing.id).await
    }

    fn model(&self, listing: Listing, (provider, health): &(ModelProvider, Arc<ProviderHealth>)) -> Model {
        let tokens =
            self.counters.of((&provider.name, provider.wire), &listing.id, listing.capabilities.tokens);
        Model::new(listing, provider, health, tokens)
    }

    /// The listed models, by name.
    pub fn list(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values()
    }

    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// How many serve models.
    pub fn provider_count(&self) -> usize {
        self.providers.len()
    }

    fn provider(&self, name: &str) -> Option<&(ModelProvider, Arc<ProviderHealth>)> {
        self.providers.iter().find(|(provider, _)| provider.name == name)
    }
}

impl Catalogue {
    /// A model of a provider with its default facts.
    pub fn listing(&self, provider: &ModelProvider, name: &str, id: &str) -> Listing {
        let (capabilities, price) = if provider.known {
            self.describe(&provider.name, id, &provider.capabilities)
        } else {
            (provider.capabilities.clone(), None)
        };
        Listing {
            name: name.to_owned(),
            provider: provider.name.clone(),
            id: id.to_owned(),
            kind: provider.kind,
            capabilities,
            price,
            extra: Map::new(),
        }
    }
}
