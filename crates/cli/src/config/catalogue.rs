//! Which models are listed, which provider serves the others, and which model answers when a request names none.

use model::{Capabilities, Listing, ProviderKind, SchemaSupport, Timeouts};
use serde_json::Map;

use super::{Config, Local, ProviderConfig};
use crate::weights::{self, PulledModel, WeightsKind};

/// Tools that a model of this process is offered for a message.
const MOST_TOOLS: usize = 3;

impl Config {
    pub(crate) fn provider(&self, name: &str) -> Option<&ProviderConfig> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    pub(crate) fn listing(&self, name: &str) -> Option<&Listing> {
        self.models.iter().find(|listing| listing.name == name)
    }

    /// The default model that was chosen and that no provider serves, with the place where a pulled one would be.
    pub(crate) fn missing_default(&self) -> Option<String> {
        let model = self.model.as_deref().filter(|model| self.listing(model).is_none())?;
        let data = self.data.display();
        Some(format!(
            "the default model is {model:?}, but no provider serves it, and it is not downloaded into {data}"
        ))
    }

    /// The open provider that is asked for a model that is not listed, and the provider's name for it.
    fn serving_provider<'a>(&'a self, name: &'a str) -> Option<(&'a ProviderConfig, &'a str)> {
        let by_path = name.split_once('/').and_then(|(provider, id)| Some((self.provider(provider)?, id)));
        let by_name = || Some((self.provider(self.known_provider_of(name)?)?, name));
        let any = || Some((self.providers.iter().find(|provider| provider.open)?, name));
        by_path.or_else(by_name).or_else(any).filter(|(provider, _)| provider.open)
    }

    /// The configured provider that serves a model of this name, by the catalogue.
    pub(crate) fn known_provider_of(&self, name: &str) -> Option<&str> {
        self.knowledge.catalogue.provider_of(name, |provider| self.provider(provider).is_some())
    }

    /// The provider of a model, and its name for the model.
    pub(crate) fn provider_of_model<'a>(&'a self, name: &'a str) -> Option<(&'a ProviderConfig, &'a str)> {
        match self.listing(name) {
            Some(listing) => Some((self.provider(&listing.provider)?, &listing.id)),
            None => self.serving_provider(name),
        }
    }

    /// Whether a run may ask for this model.
    pub(crate) fn is_served(&self, name: &str) -> bool {
        self.listing(name).is_some() || self.serving_provider(name).is_some()
    }

    pub(crate) fn pulled_model(&self, name: &str) -> Option<&PulledModel> {
        self.pulled.iter().find(|model| model.name == name)
    }

    /// Whether a provider beside this process serves models.
    pub(crate) fn has_remote(&self) -> bool {
        self.providers.iter().any(|provider| provider.wire.is_some())
    }

    /// With weights in the data folder, this process is a provider as well: the last one, so that it is asked only for
    /// models that no other provider serves.
    pub(super) fn find_pulled(&mut self) {
        // A build without models of its own can run none of them.
        self.pulled = if cfg!(feature = "local") { weights::pulled_models(&self.data) } else { Vec::new() };
        if !self.pulled.is_empty() {
            self.providers.push(this_process(&self.local));
        }
    }

    /// Looks again what is in the data folder.
    pub(crate) fn take_in_pulled(&mut self) {
        self.providers.retain(|provider| provider.wire.is_some());
        self.find_pulled();
        self.list_pulled();
    }

    pub(super) fn list_pulled(&mut self) {
        let Some(provider) = self.provider(weights::PROVIDER).filter(|provider| provider.wire.is_none())
        else {
            return;
        };
        let chat = self.pulled.iter().filter(|model| model.kind == WeightsKind::Chat);
        let listings: Vec<_> = chat
            .map(|model| {
                let mut listing = self.undescribed_listing(provider, &model.name, &model.name);
                let window = &mut listing.capabilities.context_window;
                *window = model.context.map_or(*window, |trained| trained.min(*window));
                listing.capabilities.tools = model.is_offered_tools();
                listing
            })
            .collect();
        for listing in listings {
            self.list(listing);
        }
    }

    /// Lists a model, unless it is.
    pub(super) fn list(&mut self, listing: Listing) {
        if self.listing(&listing.name).is_none() {
            self.models.push(listing);
        }
    }

    /// Lists what is known of the providers that are where everybody knows them to be.
    pub(super) fn list_known(&mut self) {
        let catalogue = &self.knowledge.catalogue;
        let known = catalogue.current_models().filter_map(|model| {
            let provider = self.provider(&model.provider).filter(|provider| provider.is_at_its_own_url())?;
            Some(self.undescribed_listing(provider, &model.name, &model.name))
        });
        for listing in known.collect::<Vec<_>>() {
            self.list(listing);
        }
    }

    /// Lists what a provider says it has.
    pub(crate) fn list_found(&mut self, provider: &ProviderConfig, ids: &[String]) {
        for id in ids {
            self.list(self.undescribed_listing(provider, id, id));
        }
    }

    /// Chooses the model that answers when a request names none, if that is not decided yet, and lists it.
    pub(crate) fn settle_default(&mut self) {
        if self.model.is_none() {
            let catalogue = &self.knowledge.catalogue;
            let preferred =
                self.providers.iter().filter_map(|provider| catalogue.default_model(&provider.name));
            let served = preferred.into_iter().find(|name| self.is_served(name)).map(str::to_owned);
            self.model = served.or_else(|| self.models.first().map(|listing| listing.name.clone()));
        }
        let Some(name) = self.model.clone() else { return };
        if let Some(listing) =
            self.serving_provider(&name).map(|(provider, id)| self.undescribed_listing(provider, &name, id))
        {
            self.list(listing);
        }
    }

    /// A model that the configuration does not describe.
    fn undescribed_listing(&self, provider: &ProviderConfig, name: &str, id: &str) -> Listing {
        let catalogue = &self.knowledge.catalogue;
        let capabilities = if provider.serves_known_models() {
            catalogue.describe(&provider.name, id, &provider.capabilities).0
        } else {
            provider.capabilities.clone()
        };
        Listing {
            name: name.to_owned(),
            provider: provider.name.clone(),
            id: id.to_owned(),
            kind: provider.kind,
            capabilities,
            price: provider.prices().of(catalogue, &provider.name, id),
            extra: Map::new(),
        }
    }
}

/// Returns this process as a provider, which serves models.
fn this_process(local: &Local) -> ProviderConfig {
    ProviderConfig {
        name: weights::PROVIDER.to_owned(),
        wire: None,
        kind: ProviderKind::Local,
        base_url: "this process".to_owned(),
        api_key: None,
        open: false,
        capabilities: Capabilities {
            context_window: local.context,
            most_tools: Some(MOST_TOOLS),
            structured: SchemaSupport::WithTools,
            ..Capabilities::of_kind(ProviderKind::Local)
        },
        timeouts: Timeouts::default(),
        prices: None,
    }
}
