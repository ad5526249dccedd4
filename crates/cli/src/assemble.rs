//! Configuration in, engine out.

use std::sync::Arc;

use engine::{Bus, Engine, Models, Parts, Provider};
use model::openai::ChatCompletions;
use model::{Endpoint, Secret, Timeouts};
use protocol::{SystemClock, TimeOrderedIds};
use store::Sqlite;
use tools::Catalog;

use crate::Trouble;
use crate::config::{Config, OpenAi};

/// Opens the data folder and reads the apps. Nothing runs until the engine is started.
pub(crate) fn engine(config: &Config) -> Result<Engine, Trouble> {
    let clock = Arc::new(SystemClock);
    let bus = Arc::new(Bus::default());
    let apps = app::load_all(&config.apps)?;
    let models = models(config)?;
    let store =
        Sqlite::open(&config.data, clock.clone(), bus.clone()).map_err(|error| unusable(config, error))?;
    let parts = Parts {
        store: Arc::new(store),
        bus,
        apps,
        tools: Catalog::builtin(clock.clone()),
        models,
        clock,
        ids: Arc::new(TimeOrderedIds),
    };
    Ok(Engine::new(parts)?)
}

/// Names the folder, where the error does not.
fn unusable(config: &Config, error: store::Error) -> Trouble {
    if matches!(error, store::Error::Locked(_)) {
        return error.into();
    }
    format!("{}: {error}; choose another data folder with RONDO_DATA", config.data.display()).into()
}

fn models(config: &Config) -> Result<Models, Trouble> {
    let Some(openai) = &config.openai else { return Ok(Models::none()) };
    let chat = ChatCompletions::new(&endpoint(openai)).map_err(|error| {
        format!("{}: {error}; mend OPENAI_BASE_URL or [providers.openai]", openai.base_url)
    })?;
    let provider = Provider {
        chat: Arc::new(chat),
        default_model: config.model.clone().unwrap_or_default(),
        window: openai.context_window,
    };
    Ok(Models::of(provider))
}

pub(crate) fn endpoint(openai: &OpenAi) -> Endpoint {
    Endpoint {
        provider: "openai".into(),
        base_url: openai.base_url.clone(),
        key: openai.api_key.as_ref().map(|key| Secret::new(key.expose())),
        timeouts: Timeouts {
            connect: openai.timeouts.connect,
            first_byte: openai.timeouts.first_byte,
            idle: openai.timeouts.idle,
            total: openai.timeouts.total,
        },
    }
}

pub(crate) fn limits(config: &Config) -> server::Limits {
    server::Limits {
        max_body_bytes: config.server.max_body_bytes,
        header_timeout: config.server.header_timeout,
        body_timeout: config.server.body_timeout,
        write_timeout: config.server.write_timeout,
        max_streams_per_user: config.server.max_streams_per_user,
        heartbeat: config.server.heartbeat,
        ..server::Limits::default()
    }
}
