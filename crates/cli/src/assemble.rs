//! Configuration in, engine out.

use std::sync::Arc;

use app::Apps;
use engine::{Bus, Engine, Extractor, InProcess, Parts};
use memory::recall::Recall;
use model::{Embedder, Endpoint, HttpEmbeddings, InvalidEndpoint, Registry, Secret, Wire};
use protocol::{SystemClock, TimeOrderedIds};
use store::Store;
use tools::{Catalog, Egress, Hub, Outside, Search, Secrets, Tavily};

use crate::config::{self, Config, Embeddings, Provider};
use crate::extract::Apart;
use crate::{Trouble, local, vault};

/// Opens the data folder and reads the apps. Nothing runs until the engine is started.
pub(crate) fn engine(config: &Config) -> Result<Engine, Trouble> {
    served(config).map(|(engine, _)| engine)
}

/// The same, with the secrets of its tools, to which those of apps that come later are added.
pub(crate) fn served(config: &Config) -> Result<(Engine, Arc<Secrets>), Trouble> {
    let clock = Arc::new(SystemClock);
    let bus = Arc::new(Bus::default());
    let apps = app::load_all(&config.apps)?;
    let models = registry(config)?;
    let outside = outside(config, &apps)?;
    let secrets = Arc::clone(&outside.secrets);
    let store = open(config, bus.clone())?;
    let embedder = embedder(config)?.map(|(embedder, _)| embedder);
    let parts = Parts {
        recall: Arc::new(Recall::new(store.clone(), embedder)),
        store,
        bus,
        tools: Catalog::builtin(clock.clone()).reaching(outside),
        vault_key: vault::key(&config.data)?,
        models,
        extractor: extractor(),
        clock,
        ids: Arc::new(TimeOrderedIds),
        retention: config.server.retention,
        model_calls: config.server.model_calls,
        document_bytes: config.server.document_bytes,
        undo_retention: config.server.undo_retention,
        apps,
    };
    Ok((Engine::new(parts)?, secrets))
}

/// The tools that apps can have.
pub(crate) fn catalog(config: &Config, apps: &Apps) -> Result<Catalog, Trouble> {
    Ok(Catalog::builtin(Arc::new(SystemClock)).reaching(outside(config, apps)?))
}

/// What a process that serves tools is told of its surroundings; nothing else of ours is its business.
const SURROUNDINGS: &[&str] =
    &["PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM", "SystemRoot", "APPDATA"];

/// The way outside, with the secrets that the apps name.
fn outside(config: &Config, apps: &Apps) -> Result<Outside, Trouble> {
    let settings = &config.outside;
    let untrusted = |error| format!("tools cannot reach anybody: {error}; install the root certificates");
    let egress = Egress::new(settings.allow.clone()).map_err(untrusted)?;
    let (values, missing) = settings.secrets_for(apps, &config::process_environment)?;
    for problem in missing.into_iter().chain(settings.missing_searches(apps)) {
        tracing::warn!("{problem}");
    }
    let secrets = Arc::new(Secrets::new(values));
    let given = |name: &&str| Some(((*name).to_owned(), config::process_environment(name)?));
    let env = SURROUNDINGS.iter().filter_map(given).collect();
    let tavily = settings
        .tavily
        .as_ref()
        .map(|account| Tavily { base_url: account.base_url.clone(), key: account.key.expose().to_owned() });
    let search = Search { tavily, searxng: settings.searxng.clone() };
    let mcp = Arc::new(Hub::new(egress.clone(), Arc::clone(&secrets), env));
    Ok(Outside { egress, secrets, search, mcp })
}

/// Uploads are read in processes of their own; in this one where that cannot be.
fn extractor() -> Arc<dyn Extractor> {
    match Apart::new() {
        Some(apart) => Arc::new(apart),
        None => Arc::new(InProcess),
    }
}

/// The data folder alone, for who neither runs nor serves anything.
pub(crate) fn store(config: &Config) -> Result<Store, Trouble> {
    open(config, Arc::new(Bus::default()))
}

fn open(config: &Config, bus: Arc<Bus>) -> Result<Store, Trouble> {
    Store::open_sqlite(&config.data, Arc::new(SystemClock), bus).map_err(|error| unusable(config, error))
}

/// Names the folder, where the error does not.
fn unusable(config: &Config, error: store::Error) -> Trouble {
    if matches!(error, store::Error::Locked(_)) {
        return error.into();
    }
    format!("{}: {error}; choose another data folder with RONDO_DATA", config.data.display()).into()
}

/// The models of this configuration. Nobody is asked anything yet.
pub(crate) fn registry(config: &Config) -> Result<Registry, Trouble> {
    let providers: Result<_, Trouble> =
        config.providers.iter().map(|provider| connected(config, provider)).collect();
    let registry = Registry::new(providers?, config.models.clone(), config.model.clone());
    Ok(registry.with_catalogue(Arc::clone(&config.knowledge.catalogue)))
}

fn connected(config: &Config, provider: &Provider) -> Result<model::Provider, Trouble> {
    let chat = match provider.wire {
        Some(wire) => {
            model::connect(wire, &endpoint(provider)).map_err(|error| unreachable(provider, error))?
        }
        None => local::chat(config),
    };
    Ok(model::Provider {
        name: provider.name.clone(),
        wire: provider.wire,
        kind: provider.kind,
        chat,
        open: provider.open,
        known: provider.serves_known_models(),
        capabilities: provider.capabilities.clone(),
        prices: provider.prices(),
    })
}

/// Names the provider and what to mend.
fn unreachable(provider: &Provider, error: InvalidEndpoint) -> Trouble {
    let remedy = match error {
        InvalidEndpoint::Url | InvalidEndpoint::Credentials => format!("mend {}", provider.url_setting()),
        InvalidEndpoint::Key => format!("mend {}", provider.key_setting()),
        InvalidEndpoint::Tls => "install them, or use a base URL that begins with http://".to_owned(),
    };
    format!("provider {} at {}: {error}; {remedy}", provider.name, provider.base_url).into()
}

fn endpoint(provider: &Provider) -> Endpoint {
    Endpoint {
        provider: provider.name.clone(),
        base_url: provider.base_url.clone(),
        key: provider.api_key.as_ref().map(|key| Secret::new(key.expose())),
        timeouts: provider.timeouts,
    }
}

/// An embedder, and whose it is.
pub(crate) type Embeds<'c> = (Arc<dyn Embedder>, &'c Provider);

/// Who turns texts into vectors, and whose it is: as configured, or else a model in this process if there is one.
pub(crate) fn embedder(config: &Config) -> Result<Option<Embeds<'_>>, Trouble> {
    let pulled = match &config.embeddings {
        None => local::preferred_embedder(config),
        Some(Embeddings { provider, model, .. }) if provider == local::NAME => config.pulled_model(model),
        Some(embeddings) => return remote_embedder(config, embeddings),
    };
    let here = pulled.zip(config.provider(local::NAME));
    Ok(here.map(|(model, provider)| (local::embedder(config, model), provider)))
}

fn remote_embedder<'c>(config: &'c Config, embeddings: &Embeddings) -> Result<Option<Embeds<'c>>, Trouble> {
    let Some(provider) = config.provider(&embeddings.provider) else { return Ok(None) };
    let mut endpoint = endpoint(provider);
    if provider.wire == Some(Wire::Ollama) {
        endpoint.base_url.push_str("/v1"); // where it speaks OpenAI's embeddings
    }
    let embedder = HttpEmbeddings::new(&endpoint, embeddings.model.clone(), embeddings.dimensions);
    Ok(Some((Arc::new(embedder.map_err(|error| unreachable(provider, error))?), provider)))
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
