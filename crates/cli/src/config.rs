//! The server's configuration: environment over `rondo.toml` over defaults, read once and passed on by value.
//!
//! The environment is an argument, so a test sets variables without touching the process. Everything that comes out
//! has been checked; what is wrong comes out as the same [`Problem`] that an app folder gives.

mod catalogue;
mod egress;
mod raw;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use app::Problem;
use app::source::bounds::whole_number;
use app::source::{FileText, read_file};
use identity::JwtIssuerConfig;
use model::known_models::KnownProvider;
use model::{Capabilities, Listing, Prices, ProviderKind, ProviderWire, Timeouts, known_models};
use serde::Deserialize;
use server::{Proxying, ServerLimits, TlsFiles};
use service::{CallShares, DEFAULT_DOCUMENT_BYTES};
use store::postgres::PostgresAddress;
use tools::Allowed;

use crate::model_knowledge::ModelKnowledge;
use crate::weights::PulledModel;

pub(crate) use secret::ConfigSecret;

/// Every key with its default and what it is for.
pub(crate) const DEFAULT_FILE: &str = include_str!("config/default.toml");

const DEFAULT_PATH: &str = "rondo.toml";

/// The apps folder that is used if none is configured.
pub(crate) const DEFAULT_APPS: &str = "./apps";

/// Variables by name. The real environment is [`process_environment`].
pub(crate) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The file that was read; none when everything is default or environment.
    pub(crate) file: Option<PathBuf>,
    /// `serve` refuses an address that others can reach, as long as there is no key.
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    /// The PostgreSQL that has the data of users; without one, SQLite in the data folder.
    pub(crate) store: Option<PostgresAddress>,
    pub(crate) apps: PathBuf,
    /// The model of apps that name none.
    pub(crate) model: Option<String>,
    /// The well-known ones first; each name once.
    pub(crate) providers: Vec<ProviderConfig>,
    /// Each name once, and each of a provider above.
    pub(crate) models: Vec<Listing>,
    pub(crate) embeddings: Option<Embeddings>,
    /// Whether to look for Ollama on this machine when there is no provider.
    pub(crate) discover: bool,
    pub(crate) outside: EgressConfig,
    pub(crate) pull: Pull,
    pub(crate) local: Local,
    /// Knowledge about models.
    pub(crate) knowledge: ModelKnowledge,
    /// The models whose weights are in the data folder, by name.
    pub(crate) pulled: Vec<PulledModel>,
    /// The certificate and the key of a server that speaks TLS.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) server: ServerConfig,
    /// The issuers of JWTs whose users may speak.
    pub(crate) issuers: Vec<JwtIssuerConfig>,
    pub(crate) log: LogConfig,
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderConfig {
    pub(crate) name: String,
    /// None when it runs in this process.
    pub(crate) wire: Option<ProviderWire>,
    pub(crate) kind: ProviderKind,
    /// Without a trailing slash.
    pub(crate) base_url: String,
    /// None for servers that ask for none.
    pub(crate) api_key: Option<ConfigSecret>,
    /// Whether requests can use models of this provider that are not listed.
    pub(crate) open: bool,
    /// Capabilities of its models that have no description.
    pub(crate) capabilities: Capabilities,
    pub(crate) timeouts: Timeouts,
    /// Prices of its models, where the operator states them.
    pub(crate) prices: Option<Prices>,
}

impl ProviderConfig {
    /// The provider with its default settings.
    pub(crate) fn of(known: &KnownProvider) -> Self {
        Self {
            name: known.name.to_owned(),
            wire: Some(known.wire),
            kind: known.kind,
            base_url: known.base_url.to_owned(),
            api_key: None,
            open: true,
            capabilities: known.capabilities(),
            timeouts: Timeouts::default(),
            prices: None,
        }
    }

    /// Prices of its models that have none of their own: nothing on this machine, list prices where everybody knows it
    /// to be. Elsewhere the operator has to say.
    pub(crate) fn prices(&self) -> Prices {
        let here = self.wire.is_none() || is_loopback(&self.base_url);
        match self.prices {
            Some(written) => written,
            None if self.kind == ProviderKind::Local && here => Prices::Free,
            None if self.is_at_its_own_url() => Prices::Known,
            None => Prices::Unknown,
        }
    }

    /// Whether it is where everybody knows it to be, so that what is known of its models holds.
    pub(crate) fn is_at_its_own_url(&self) -> bool {
        known_models::provider(&self.name).is_some_and(|known| known.base_url == self.base_url)
    }

    /// Whether the catalogue describes its models: it is at its own URL, or the operator says that list prices hold, and so
    /// that it hands the same models on.
    pub(crate) fn serves_known_models(&self) -> bool {
        self.is_at_its_own_url() || self.prices() == Prices::Known
    }

    /// The setting to change when its base URL is wrong.
    pub(crate) fn url_setting(&self) -> String {
        match known_models::provider(&self.name) {
            Some(known) => known.url_variable.to_owned(),
            None => format!("base_url in [providers.{}]", self.name),
        }
    }

    /// The setting to change when its key is missing or wrong.
    pub(crate) fn key_setting(&self) -> String {
        match known_models::provider(&self.name).and_then(|known| known.key_variable) {
            Some(variable) => variable.to_owned(),
            None => format!("api_key_env in [providers.{}]", self.name),
        }
    }
}

/// Whether a URL leads back to this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    match reqwest::Url::parse(url).as_ref().map(reqwest::Url::host_str) {
        Ok(Some("localhost")) => true,
        Ok(Some(host)) => {
            let address = host.trim_start_matches('[').trim_end_matches(']');
            address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Ok(None) | Err(_) => false,
    }
}

/// The model that turns texts into vectors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Embeddings {
    /// The name of a configured provider.
    pub(crate) provider: String,
    pub(crate) model: String,
    /// As many as the model has, when absent.
    pub(crate) dimensions: Option<u32>,
}

/// Hosts that tools may reach, and the secrets they use.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EgressConfig {
    /// Beside public hosts.
    pub(crate) allow: Allowed,
    /// Allowed hosts as the operator has written them, without the addresses of searches.
    pub(crate) opened: Vec<String>,
    /// By the names that apps know them by.
    pub(crate) secrets: BTreeMap<String, ConfigSecret>,
    pub(crate) tavily: Option<TavilyAccount>,
    pub(crate) searxng: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TavilyAccount {
    pub(crate) base_url: String,
    pub(crate) key: ConfigSecret,
}

/// The places in which `rondo models pull` looks. Other programs use the same variables for more than Rondo
/// takes, so these are checked where they are used, not when another command starts.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Pull {
    #[serde(deserialize_with = "raw::non_empty")]
    pub(crate) huggingface_url: String,
    /// May hold a name and a password.
    #[serde(deserialize_with = "raw::non_empty")]
    pub(crate) pypi_url: String,
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").finish_non_exhaustive()
    }
}

const MAX_THREADS: i64 = 256;
const MIN_CONTEXT: i64 = 256;
const MAX_CONTEXT: i64 = 131_072;
const MAX_ANSWERS: i64 = 8;
const MAX_LOADED: i64 = 8;

/// `[local]`: how models in this process are run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Local {
    /// Threads that compute; one for each processor when absent.
    #[serde(deserialize_with = "whole_number::<1, MAX_THREADS, _, _>")]
    pub(crate) threads: Option<usize>,
    /// Tokens of the longest prompt with its answer, if the model can do that many.
    #[serde(deserialize_with = "whole_number::<MIN_CONTEXT, MAX_CONTEXT, _, _>")]
    pub(crate) context: u32,
    /// Answers of one model that are written side by side; each takes memory for its context.
    #[serde(deserialize_with = "whole_number::<1, MAX_ANSWERS, _, _>")]
    pub(crate) answers: usize,
    /// Models that are held in memory; the model that was used longest ago makes room.
    #[serde(deserialize_with = "whole_number::<1, MAX_LOADED, _, _>")]
    pub(crate) loaded: usize,
    /// Tokens of the longest answer, where neither the request nor the app names a limit.
    #[serde(deserialize_with = "whole_number::<1, MAX_CONTEXT, _, _>")]
    pub(crate) answer_tokens: u32,
}

/// The bounds of the HTTP side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerConfig {
    pub(crate) limits: ServerLimits,
    pub(crate) model_calls: CallShares,
    /// Of text, that one user's documents in one app may have.
    pub(crate) document_bytes: u64,
    /// How long runs may go on once the server was asked to stop.
    pub(crate) drain: Duration,
    /// How long runs resume exactly after their end.
    pub(crate) retention: Duration,
    /// How long what a tool deleted can be brought back.
    pub(crate) undo_retention: Duration,
    /// The shortest time between two commits of text that streams.
    pub(crate) delta_pause: Option<Duration>,
    /// The app of `rondo chat` and `/api/chat`; the only one, or the usual one, when absent.
    pub(crate) chat_app: Option<String>,
    /// Settings for proxies in front of the server.
    pub(crate) proxying: Proxying,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogConfig {
    /// Level, or levels by module, as `tracing` filters are written.
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8787)),
            data: "./data".into(),
            store: None,
            apps: DEFAULT_APPS.into(),
            model: None,
            providers: Vec::new(),
            models: Vec::new(),
            embeddings: None,
            discover: true,
            outside: EgressConfig::default(),
            pull: Pull::default(),
            local: Local::default(),
            knowledge: ModelKnowledge::default(),
            pulled: Vec::new(),
            tls: None,
            server: ServerConfig::default(),
            issuers: Vec::new(),
            log: LogConfig { level: "info".into(), format: LogFormat::Text },
        }
    }
}

impl Default for Pull {
    fn default() -> Self {
        Self { huggingface_url: "https://huggingface.co".into(), pypi_url: "https://pypi.org/simple".into() }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self { threads: None, context: 8192, answers: 2, loaded: 1, answer_tokens: 400 }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            limits: ServerLimits::default(),
            model_calls: CallShares::default(),
            document_bytes: DEFAULT_DOCUMENT_BYTES,
            drain: Duration::from_secs(25),
            retention: Duration::from_hours(7 * 24),
            undo_retention: Duration::from_hours(30 * 24),
            delta_pause: None,
            chat_app: None,
            proxying: Proxying::default(),
        }
    }
}

/// Reads the configuration. `named` is the file given on the command line; it beats `RONDO_CONFIG`. A file that is
/// named must exist, `./rondo.toml` need not.
pub(crate) fn load(named: Option<&Path>, environment: &Environment<'_>) -> Result<Config, Problem> {
    let variable = environment("RONDO_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = || Some(PathBuf::from(DEFAULT_PATH)).filter(|path| path.exists());
    let file = named.map(Path::to_path_buf).or(variable).or_else(usual);
    let text = match &file {
        Some(file) => read_file(file, "create it, or name another with --config or RONDO_CONFIG")?,
        None => String::new(),
    };
    let path = file.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    Ok(Config { file: file.clone(), ..raw::read(FileText { file: path, text: &text }, environment)? })
}

/// Returns the path of this program.
pub(crate) fn this_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// The environment of this process.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn process_environment(name: &str) -> Option<String> {
    // A value that is not Unicode is kept, so that it is refused where it is used rather than silently unset.
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
