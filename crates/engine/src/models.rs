//! Which model answers: names to models that can be asked.

use std::sync::Arc;

use model::ChatModel;

/// Told to users when a run needs a model and there is none.
pub(crate) const NOT_CONFIGURED: &str = "no model is configured: set OPENAI_API_KEY (and OPENAI_BASE_URL for another \
    OpenAI-compatible server, such as a local one), or add [providers.openai] to rondo.toml, then restart";

/// The models of this process.
#[derive(Clone, Default)]
pub struct Models {
    provider: Option<Provider>,
}

/// A provider that answers for every model name.
#[derive(Clone)]
pub struct Provider {
    pub chat: Arc<dyn ChatModel>,
    /// Asked when neither the request nor the app names a model.
    pub default_model: String,
    /// Tokens its models take, prompt and answer together.
    pub window: u32,
}

/// A model to ask.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) chat: Arc<dyn ChatModel>,
    pub(crate) window: u32,
}

impl Models {
    /// No model at all: everything but runs works.
    pub fn none() -> Self {
        Self::default()
    }

    pub fn of(provider: Provider) -> Self {
        Self { provider: Some(provider) }
    }

    /// The name a run that asks for `wanted` will use.
    pub(crate) fn name(&self, wanted: Option<&str>) -> Option<String> {
        wanted
            .map(str::to_owned)
            .or_else(|| self.provider.as_ref().map(|provider| provider.default_model.clone()))
    }

    pub(crate) fn choose(&self, name: &str) -> Option<Choice> {
        let provider = self.provider.as_ref()?;
        Some(Choice { name: name.to_owned(), chat: Arc::clone(&provider.chat), window: provider.window })
    }
}
