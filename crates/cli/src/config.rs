//! The server's configuration: environment over `rondo.toml` over defaults, read once and passed on by value.
//!
//! The environment is an argument, so a test sets variables without touching the process. Everything that comes out
//! has been checked; what is wrong comes out as the same [`Problem`] that an app folder gives.

mod raw;
mod secret;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use app::Problem;
use app::source::{Source, read_file};

pub(crate) use secret::Secret;

/// Every key with its default and what it is for.
pub(crate) const DEFAULT_FILE: &str = include_str!("config/default.toml");

const DEFAULT_PATH: &str = "rondo.toml";
const DEFAULT_MODEL: &str = "gpt-4.1-mini";

/// Variables by name. What the process really has is [`process_environment`].
pub(crate) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The file that was read; none when everything is default or environment.
    pub(crate) file: Option<PathBuf>,
    /// `serve` refuses an address that others can reach, as long as there is no key.
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) apps: PathBuf,
    /// The model of apps that name none. Always there when a provider is.
    pub(crate) model: Option<String>,
    /// None when neither a key nor a base URL is given.
    pub(crate) openai: Option<OpenAi>,
    pub(crate) server: Server,
    pub(crate) log: Log,
}

/// A provider that speaks OpenAI Chat Completions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenAi {
    /// Without a trailing slash.
    pub(crate) base_url: String,
    /// None for servers that ask for none.
    pub(crate) api_key: Option<Secret>,
    pub(crate) timeouts: Timeouts,
    /// In tokens.
    pub(crate) context_window: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    /// Between two bytes of an answer.
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
}

/// The bounds of the HTTP side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub(crate) max_body_bytes: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    /// How long a reader may take nothing.
    pub(crate) write_timeout: Duration,
    pub(crate) max_streams_per_user: usize,
    pub(crate) heartbeat: Duration,
    /// How long runs may go on once the server was asked to stop.
    pub(crate) drain: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    /// Level, or levels by module, as `tracing` filters are written.
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8787)),
            data: "./data".into(),
            apps: "./apps".into(),
            model: None,
            openai: None,
            server: Server::default(),
            log: Log { level: "info".into(), format: LogFormat::Text },
        }
    }
}

impl Default for OpenAi {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".into(),
            api_key: None,
            timeouts: Timeouts {
                connect: Duration::from_secs(10),
                first_byte: Duration::from_secs(60),
                idle: Duration::from_secs(60),
                total: Duration::from_secs(600),
            },
            context_window: 128_000,
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            max_body_bytes: 2 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(20),
            max_streams_per_user: 16,
            heartbeat: Duration::from_secs(15),
            drain: Duration::from_secs(25),
        }
    }
}

/// Reads the configuration. `named` is the file given on the command line; it beats `RONDO_CONFIG`. A file that is
/// named must exist, `./rondo.toml` need not.
pub(crate) fn load(named: Option<&Path>, environment: &Environment<'_>) -> Result<Config, Problem> {
    let variable = environment("RONDO_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    let file = match named.map(Path::to_path_buf).or(variable) {
        Some(named) => Some(named),
        None => Some(PathBuf::from(DEFAULT_PATH)).filter(|path| path.exists()),
    };
    let text = match &file {
        Some(file) => read_file(file, "create it, or name another with --config or RONDO_CONFIG")?,
        None => String::new(),
    };
    let path = file.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    Ok(Config { file: file.clone(), ..raw::read(Source { file: path, text: &text }, environment)? })
}

/// The environment of this process.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn process_environment(name: &str) -> Option<String> {
    // A value that is not Unicode is kept, so that it is refused where it is used rather than silently unset.
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
