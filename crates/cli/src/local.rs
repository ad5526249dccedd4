//! Models that run in this process, from weights that were pulled.

#[cfg(feature = "local")]
mod chat;
#[cfg(feature = "local")]
mod embedder;
#[cfg(feature = "local")]
mod speed;
#[cfg(not(feature = "local"))]
mod without_local_models;

#[cfg(feature = "local")]
use model::Error;

use crate::config::Config;
use crate::weights::{PulledModel, WeightsKind};

#[cfg(not(feature = "local"))]
pub(crate) use without_local_models::{chat, embedder, measure, speed, trained_context};
#[cfg(feature = "local")]
pub(crate) use {
    chat::{chat, trained_context},
    embedder::embedder,
    speed::{measure, speed},
};

/// The models that make vectors when the configuration names none, the best first.
const PREFERRED_EMBEDDERS: [&str; 3] = ["bge-base", "bge-small", "minilm"];

pub(crate) fn preferred_embedder(config: &Config) -> Option<&PulledModel> {
    let embeds = |model: &&PulledModel| model.kind == WeightsKind::Embedding;
    let preferred = PREFERRED_EMBEDDERS.iter().filter_map(|name| config.pulled_model(name)).find(embeds);
    preferred.or_else(|| config.pulled.iter().find(embeds))
}

/// Loads a model on a thread that may block.
#[cfg(feature = "local")]
async fn load<M: Send + 'static, E: std::fmt::Display + Send + 'static>(
    name: &str,
    load: impl FnOnce() -> Result<M, E> + Send + 'static,
) -> Result<M, Error> {
    let reason = match tokio::task::spawn_blocking(load).await {
        Ok(Ok(model)) => return Ok(model),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "loading it was interrupted".to_owned(),
    };
    Err(Error::Rejected { status: 500, summary: format!("{name} cannot be run: {reason}") })
}
