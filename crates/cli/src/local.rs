//! Models that run in this process, from weights that were pulled.

#[cfg(not(feature = "local"))]
mod absent;
#[cfg(feature = "local")]
mod chat;
#[cfg(feature = "local")]
mod embedder;
#[cfg(feature = "local")]
mod speed;

use std::path::Path;

use model::{Capabilities, ProviderKind, Timeouts};

use crate::config::{Config, Local, ProviderConfig};
use crate::pull::{self, Pulled};

#[cfg(not(feature = "local"))]
pub(crate) use absent::{chat, embedder, measure, speed, trained_context};
#[cfg(feature = "local")]
pub(crate) use {
    chat::{chat, trained_context},
    embedder::embedder,
    speed::{measure, speed},
};

/// The provider of all models in this process.
pub(crate) const NAME: &str = "local";

/// Who makes vectors when nobody says who, the best first.
const PREFERRED_EMBEDDERS: [&str; 3] = ["bge-base", "bge-small", "minilm"];

/// The models that this program can run from a data folder.
pub(crate) fn found(data: &Path) -> Vec<Pulled> {
    if cfg!(feature = "local") { pull::pulled(data) } else { Vec::new() }
}

/// This process, as one that serves models.
pub(crate) fn provider(local: &Local) -> ProviderConfig {
    ProviderConfig {
        name: NAME.to_owned(),
        wire: None,
        kind: ProviderKind::Local,
        base_url: "this process".to_owned(),
        api_key: None,
        open: false,
        capabilities: Capabilities {
            context_window: local.context,
            ..Capabilities::of_kind(ProviderKind::Local)
        },
        timeouts: Timeouts::default(),
        prices: None,
    }
}

pub(crate) fn preferred_embedder(config: &Config) -> Option<&Pulled> {
    let embeds = |model: &&Pulled| model.kind == pull::Kind::Embedding;
    let preferred = PREFERRED_EMBEDDERS.iter().filter_map(|name| config.pulled_model(name)).find(embeds);
    preferred.or_else(|| config.pulled.iter().find(embeds))
}
