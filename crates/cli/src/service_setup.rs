//! Configuration in, service out.

use std::fs::File;
use std::sync::Arc;

use app::Apps;
use memory::recall::Recall;
use model::{Embedder, Endpoint, HttpEmbeddings, InvalidEndpoint, ModelRegistry, ProviderKey, ProviderWire};
use protocol::{Clock, SystemClock, TimeOrderedIds};
use service::{AgentParts, Bus, Extractor, InProcess, Service, ServiceParts};
use store::{SharedClock, SharedStore, Store, StoreOptions};
use tools::{Catalog, Egress, ExternalAccess, McpHub, Secrets, TavilyConfig, WebSearchConfig};

use crate::config::{self, Config, Embeddings, ProviderConfig};
use crate::extract::ExtractorProcess;
use crate::{CommandError, CommandResult, embedded_apps, local, vault, weights};

/// Opens the data folder and reads the apps. Nothing runs until the service is started.
pub(crate) fn service(config: &Config) -> CommandResult<Service> {
    build(config, apps(config)?, StoreOptions::default()).map(|(service, _)| service)
}

/// Reads the apps.
pub(crate) fn apps(config: &Config) -> CommandResult<Apps> {
    Ok(app::load_all(&embedded_apps::apps_folder(config)?)?)
}

/// The service with the secrets of its tools, to which the secrets of later apps are added. Several servers can share a
/// database on PostgreSQL, if the key of their vaults comes from outside and is the same for all.
pub(crate) fn service_with_secrets(config: &Config, apps: Apps) -> CommandResult<(Service, Arc<Secrets>)> {
    if config.store.is_none() {
        return build(config, apps, StoreOptions::default());
    }
    let vault = vault::fingerprint(&vault::key(&config.data)?);
    if !vault::is_from_outside() {
        return build(config, apps, StoreOptions { vault: Some(vault), ..StoreOptions::default() });
    }
    let clock = Arc::new(SharedClock::new(Arc::new(SystemClock)));
    let shared = Some(SharedStore { clock, vault });
    build(config, apps, StoreOptions { shared, ..StoreOptions::default() })
}

/// Keeps other servers away from the data folder of a server on PostgreSQL, as long as what this gives is there. Commands
/// find the server by a file in its folder. On SQLite, the store has the folder.
pub(crate) fn hold_folder(config: &Config) -> CommandResult<Option<File>> {
    if config.store.is_none() {
        return Ok(None);
    }
    let folder_error = |error| unusable(config, store::Error::Folder(error));
    store::sqlite::make_private_folder(&config.data).map_err(folder_error)?;
    match store::sqlite::lock(&config.data) {
        Ok(lock) => Ok(Some(lock)),
        Err(store::Error::Locked(folder)) => Err(format!(
            "another server uses the data folder {folder}; each server needs a data folder of its own, also if several \
             share one PostgreSQL: choose another with RONDO_DATA"
        )
        .into()),
        Err(error) => Err(unusable(config, error)),
    }
}

fn build(config: &Config, apps: Apps, options: StoreOptions) -> CommandResult<(Service, Arc<Secrets>)> {
    let clock: Arc<dyn Clock> = match &options.shared {
        Some(shared) => Arc::clone(&shared.clock) as Arc<dyn Clock>,
        None => Arc::new(SystemClock),
    };
    let bus = Arc::new(Bus::default());
    let models = registry(config)?;
    let outside = egress(config, &apps)?;
    let secrets = Arc::clone(&outside.secrets);
    let options = StoreOptions { delta_pause: config.server.delta_pause, ..options };
    let store = open_store(config, Arc::clone(&clock), bus.clone(), options)?;
    let embedder = embedder(config)?.map(|(embedder, _)| embedder);
    let agent = AgentParts {
        recall: Arc::new(Recall::new(store.clone(), embedder)),
        store,
        bus,
        tools: Catalog::builtin(clock.clone()).with_external_access(outside),
        models,
        clock,
        ids: Arc::new(TimeOrderedIds),
        retention: config.server.retention,
        model_calls: config.server.model_calls,
        undo_retention: config.server.undo_retention,
        apps,
        app_revisions: Some(config.data.join(APP_REVISIONS)),
    };
    let parts = ServiceParts {
        agent,
        vault_key: vault::key(&config.data)?,
        extractor: extractor(),
        document_bytes: config.server.document_bytes,
        // Each stream of a user can have a run.
        max_running: config.server.limits.max_streams_per_user as u64,
    };
    Ok((Service::new(parts)?, secrets))
}

/// The folder in the data folder where files of earlier versions of apps are unpacked. Nothing is lost without it.
const APP_REVISIONS: &str = "app-revisions";

/// The tools that apps can have.
pub(crate) fn catalog(config: &Config, apps: &Apps) -> CommandResult<Catalog> {
    Ok(Catalog::builtin(Arc::new(SystemClock)).with_external_access(egress(config, apps)?))
}

/// The environment variables that the process of an MCP server gets; it gets no other of ours.
const SURROUNDINGS: &[&str] =
    &["PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM", "SystemRoot", "APPDATA"];

/// The way outside, with the secrets that the apps name.
fn egress(config: &Config, apps: &Apps) -> CommandResult<ExternalAccess> {
    let settings = &config.outside;
    let egress = Egress::new(settings.allow.clone());
    let (values, missing) = settings.secrets_for(apps, &config::process_environment)?;
    for problem in missing.into_iter().chain(settings.missing_searches(apps)) {
        tracing::warn!("{problem}");
    }
    let secrets = Arc::new(Secrets::new(values));
    let given = |name: &&str| Some(((*name).to_owned(), config::process_environment(name)?));
    let env = SURROUNDINGS.iter().filter_map(given).collect();
    let tavily = settings.tavily.as_ref().map(|account| TavilyConfig {
        base_url: account.base_url.clone(),
        key: account.key.expose().to_owned(),
    });
    let search = WebSearchConfig { tavily, searxng: settings.searxng.clone() };
    let mcp = Arc::new(McpHub::new(egress.clone(), Arc::clone(&secrets), env));
    Ok(ExternalAccess { egress, secrets, search, mcp })
}

/// Documents are read in processes of their own; in this one where that cannot be.
pub(crate) fn extractor() -> Arc<dyn Extractor> {
    match ExtractorProcess::new() {
        Some(apart) => Arc::new(apart),
        None => Arc::new(InProcess),
    }
}

/// Opens the database that the configuration names.
fn open_store(
    config: &Config,
    clock: Arc<dyn Clock>,
    bus: Arc<Bus>,
    options: StoreOptions,
) -> CommandResult<Store> {
    match &config.store {
        None => {
            Store::open_sqlite(&config.data, clock, bus, options).map_err(|error| unusable(config, error))
        }
        Some(address) => {
            store::sqlite::make_private_folder(&config.data)?;
            Store::open_postgres(address, clock, bus, options).map_err(|error| {
                if matches!(error, store::Error::InUse(_)) {
                    return error.into(); // a command then asks that server
                }
                format!("{address}: {error}; `rondo doctor` says more").into()
            })
        }
    }
}

/// Names the folder, where the error does not.
fn unusable(config: &Config, error: store::Error) -> CommandError {
    if matches!(error, store::Error::Locked(_)) {
        return error.into();
    }
    format!("{}: {error}; choose another data folder with RONDO_DATA", config.data.display()).into()
}

/// The models of this configuration. No provider is asked yet.
pub(crate) fn registry(config: &Config) -> CommandResult<ModelRegistry> {
    let providers: CommandResult<_> =
        config.providers.iter().map(|provider| connect_provider(config, provider)).collect();
    let registry = ModelRegistry::new(providers?, config.models.clone(), config.model.clone());
    Ok(registry.with_catalogue(Arc::clone(&config.knowledge.catalogue)))
}

fn connect_provider(config: &Config, provider: &ProviderConfig) -> CommandResult<model::ModelProvider> {
    let chat = match provider.wire {
        Some(wire) => {
            model::connect(wire, &endpoint(provider)).map_err(|error| unreachable(provider, error))?
        }
        None => local::chat(config)?,
    };
    Ok(model::ModelProvider {
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
fn unreachable(provider: &ProviderConfig, error: InvalidEndpoint) -> CommandError {
    let remedy = match error {
        InvalidEndpoint::Url | InvalidEndpoint::Credentials => format!("correct {}", provider.url_setting()),
        InvalidEndpoint::Key => format!("correct {}", provider.key_setting()),
        InvalidEndpoint::Tls => "install them, or use a base URL that begins with http://".to_owned(),
    };
    format!("provider {} at {}: {error}; {remedy}", provider.name, provider.base_url).into()
}

fn endpoint(provider: &ProviderConfig) -> Endpoint {
    Endpoint {
        provider: provider.name.clone(),
        base_url: provider.base_url.clone(),
        key: provider.api_key.as_ref().map(|key| ProviderKey::new(key.expose())),
        timeouts: provider.timeouts,
    }
}

/// An embedder, and whose it is.
pub(crate) type Embeds<'c> = (Arc<dyn Embedder>, &'c ProviderConfig);

/// Returns the embedder, and the provider it belongs to: as configured, or else a model in this process if there is
/// one.
pub(crate) fn embedder(config: &Config) -> CommandResult<Option<Embeds<'_>>> {
    let pulled = match &config.embeddings {
        None => local::preferred_embedder(config),
        Some(Embeddings { provider, model, .. }) if provider == weights::PROVIDER => {
            config.pulled_model(model)
        }
        Some(embeddings) => return remote_embedder(config, embeddings),
    };
    let Some((model, provider)) = pulled.zip(config.provider(weights::PROVIDER)) else { return Ok(None) };
    Ok(Some((local::embedder(config, model)?, provider)))
}

fn remote_embedder<'c>(config: &'c Config, embeddings: &Embeddings) -> CommandResult<Option<Embeds<'c>>> {
    let Some(provider) = config.provider(&embeddings.provider) else { return Ok(None) };
    let mut endpoint = endpoint(provider);
    if provider.wire == Some(ProviderWire::Ollama) {
        endpoint.base_url.push_str("/v1"); // where it speaks OpenAI's embeddings
    }
    let embedder = HttpEmbeddings::new(&endpoint, embeddings.model.clone(), embeddings.dimensions);
    Ok(Some((Arc::new(embedder.map_err(|error| unreachable(provider, error))?), provider)))
}
