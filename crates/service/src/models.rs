//! Models as clients ask for them: those that there are, and those that a request may choose.

use std::sync::Arc;

use agent::check_price;
use app::App;
use model::Model;
use protocol::{ModelView, NewRun, PriceView};

use crate::{Error, Service};

impl Service {
    /// The models, sorted by name. The default model is among them, and marked.
    pub fn models(&self) -> Vec<ModelView> {
        let models = &self.world().models;
        let default = models.name(None);
        let is_default = |model: &Model| default.as_deref() == Some(model.name());
        let mut all: Vec<Arc<Model>> = models.list().map(Arc::clone).collect();
        if !all.iter().any(|model| is_default(model)) {
            all.extend(default.as_deref().and_then(|name| models.find(name)));
        }
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all.iter().map(|model| model_view(model, is_default(model))).collect()
    }

    /// The models that a request may choose in this app.
    pub(crate) fn choosable_models(&self, app: &App) -> Vec<String> {
        let default = self.world().models.name(None);
        app.choosable_models(default.as_deref()).into_iter().map(str::to_owned).collect()
    }

    /// Whether a request, a persona or a thread of this app may choose the model: the app allows it, a provider serves
    /// it, and it has a price if the app's budget is in dollars. Without any model at all, runs say so.
    pub(crate) fn check_model(
        &self,
        app: &App,
        field: &'static str,
        wanted: Option<&str>,
    ) -> Result<(), Error> {
        let Some(name) = wanted.filter(|_| !self.world().models.is_empty()) else { return Ok(()) };
        self.check_allowed(app, field, name)?;
        let models = &self.world().models;
        let Some(model) = models.find(name) else {
            let known: Vec<&str> = models.list().map(|model| model.name()).collect();
            let message = format!("no provider serves {name:?}; there are {}", known.join(", "));
            return Err(Error::invalid(field, message));
        };
        check_price(app, field, &model, models)
    }

    /// Whether the model that a request names can be used: as [`Self::check_model`] says, and its provider serves it, where
    /// the provider's list can be had.
    pub(crate) async fn check_wanted(&self, app: &App, new: &NewRun) -> Result<(), Error> {
        let field = if new.model.is_some() { "model" } else { "settings.model" };
        self.check_model(app, field, new.wanted_model())?;
        match new.wanted_model() {
            Some(name) if !self.world().models.is_empty() && !self.is_served(name).await => {
                Err(Error::invalid(field, format!("no provider serves {name:?}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a provider serves a model of this name. True also if its provider does not say which models it serves.
    pub(crate) async fn is_served(&self, name: &str) -> bool {
        let models = &self.world().models;
        match models.find(name) {
            Some(model) => models.serves(&model).await != Some(false),
            None => false,
        }
    }

    /// Whether the app allows the choice of a model. Its provider does not matter.
    pub(crate) fn check_allowed(&self, app: &App, field: &'static str, name: &str) -> Result<(), Error> {
        let default = self.world().models.name(None);
        if app.allows_model(name, default.as_deref()) {
            return Ok(());
        }
        let choices = app.choosable_models(default.as_deref());
        let message = format!("this app does not allow the model {name:?}; it allows {}", choices.join(", "));
        Err(Error::invalid(field, message))
    }
}

fn model_view(model: &Model, default: bool) -> ModelView {
    let (listing, can) = (&model.listing, model.capabilities());
    ModelView {
        id: listing.name.clone(),
        provider: listing.provider.clone(),
        kind: listing.kind.name().to_owned(),
        default,
        streaming: can.streaming,
        tools: can.tools,
        structured: can.structured.name().to_owned(),
        vision: can.vision,
        context_window: can.context_window,
        max_output: can.max_output,
        price: listing.price.map(|price| PriceView {
            input: price.input,
            cached_input: price.cached_input,
            output: price.output,
        }),
        available: model.health.is_closed(),
    }
}
