//! `rondo.toml` as it is written, and the way from there to checked values.

mod auth;
mod egress;
mod models;
mod providers;
mod proxying;
mod tls;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use app::Problem;
use app::source::bounds::{KEY, refusal, whole_number};
use app::source::{FileText, Spanned};
use serde::{Deserialize, Deserializer};
use server::{Proxying, ServerLimits};
use service::CallShares;
use store::postgres::PostgresAddress;
use tracing_subscriber::filter::LevelFilter;

use self::auth::RawAuth;
use self::egress::{RawEgress, RawSearch, RawSecrets};
use self::models::{RawEmbeddings, RawModels};
use self::providers::RawProviders;
use self::proxying::OneOrSeveral;
use self::tls::RawTls;
use super::{Config, Environment, Local, LogConfig, LogFormat, Pull, ServerConfig};
use crate::model_knowledge::ModelKnowledge;

const EMPTY: &str = "the text is empty";
const EMPTY_REMEDY: &str = "write a value, or remove the line to get the default";
const MAX_TIMEOUT_SECONDS: i64 = 3600;
const MAX_DRAIN_SECONDS: i64 = 600;
const MAX_DELTA_PAUSE_MS: i64 = 1_000;
const MAX_RETENTION_SECONDS: i64 = 10 * 365 * 24 * 60 * 60;
const MAX_HEARTBEAT_SECONDS: i64 = 60;
const MAX_FAILED_ATTEMPTS: i64 = 1_000_000;
const MIN_BODY_BYTES: i64 = 1024;
const MAX_BODY_BYTES: i64 = 64 * 1024 * 1024;
const MAX_STREAMS_PER_USER: i64 = 100_000;
const MAX_CONNECTIONS_PER_ADDRESS: i64 = 1_000_000;
const MAX_MODEL_CALLS: i64 = 100_000;
const MIN_DOCUMENT_BYTES: i64 = 64 * 1024;
const MAX_DOCUMENT_BYTES: i64 = 8 * 1024 * 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    listen: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    apps: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    discover: Option<bool>,
    providers: RawProviders,
    models: RawModels,
    embeddings: Option<RawEmbeddings>,
    pull: Pull,
    egress: RawEgress,
    secrets: RawSecrets,
    web_search: RawSearch,
    local: Local,
    tls: RawTls,
    server: RawServerTable,
    auth: RawAuth,
    log: RawLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawServerTable {
    #[serde(deserialize_with = "whole_number::<MIN_BODY_BYTES, MAX_BODY_BYTES, _, _>")]
    max_body_bytes: Option<usize>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    header_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    body_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    write_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_STREAMS_PER_USER, _, _>")]
    max_streams_per_user: Option<usize>,
    #[serde(deserialize_with = "whole_number::<1, MAX_MODEL_CALLS, _, _>")]
    max_model_calls: Option<usize>,
    max_model_calls_per_user: Option<Spanned<i64>>,
    #[serde(deserialize_with = "whole_number::<MIN_DOCUMENT_BYTES, MAX_DOCUMENT_BYTES, _, _>")]
    max_document_bytes_per_user: Option<u64>,
    #[serde(deserialize_with = "whole_number::<1, MAX_HEARTBEAT_SECONDS, _, _>")]
    heartbeat_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<0, MAX_DRAIN_SECONDS, _, _>")]
    drain_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_RETENTION_SECONDS, _, _>")]
    retention_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_RETENTION_SECONDS, _, _>")]
    undo_retention_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<0, MAX_DELTA_PAUSE_MS, _, _>")]
    delta_pause_ms: Option<u64>,
    chat_app: Option<Spanned<String>>,
    public_url: Option<Spanned<OneOrSeveral>>,
    base_path: Option<Spanned<String>>,
    trusted_proxies: Option<Spanned<OneOrSeveral>>,
    allow_origins: Option<Spanned<OneOrSeveral>>,
    #[serde(deserialize_with = "whole_number::<1, MAX_FAILED_ATTEMPTS, _, _>")]
    max_failed_attempts_per_minute: Option<u32>,
    behind_proxy: Option<bool>,
    #[serde(deserialize_with = "whole_number::<1, MAX_CONNECTIONS_PER_ADDRESS, _, _>")]
    max_connections_per_address: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLog {
    level: Option<Spanned<String>>,
    format: LogFormat,
}

/// Checks the text of a configuration file, with the environment over it.
pub(super) fn read(source: FileText<'_>, environment: &Environment<'_>) -> Result<Config, Problem> {
    let raw: Raw = source.toml()?;
    let reader = ConfigReader { source, environment };
    let default = Config::default();
    let mut config = Config {
        listen: match reader.choose("RONDO_LISTEN", raw.listen)? {
            Some(chosen) => listen(&chosen)?,
            None => default.listen,
        },
        data: reader.choose("RONDO_DATA", raw.data)?.map_or(default.data, |chosen| chosen.value.into()),
        store: reader.store()?,
        apps: reader.choose("RONDO_APPS", raw.apps)?.map_or(default.apps, |chosen| chosen.value.into()),
        discover: reader.bool_setting("RONDO_DISCOVER", raw.discover)?.unwrap_or(default.discover),
        providers: reader.providers(raw.providers)?,
        pull: reader.pull(raw.pull),
        outside: reader.egress(raw.egress, raw.secrets, raw.web_search)?,
        local: raw.local,
        tls: reader.tls(raw.tls)?,
        server: reader.server(raw.server)?,
        issuers: reader.issuers(raw.auth)?,
        log: reader.log(raw.log)?,
        ..Config::default()
    };
    config.knowledge = ModelKnowledge::of_folder(&config.data);
    config.find_pulled();
    for (name, entry) in raw.models {
        let listing = reader.model(&config, &name, entry)?;
        config.list(listing);
    }
    config.list_known();
    config.list_pulled();
    config.embeddings = raw.embeddings.map(|raw| reader.embeddings(&config, raw)).transpose()?;
    let model = reader.choose("RONDO_MODEL", raw.model)?;
    config.model = model.map(|chosen| reader.default_model(&config, chosen)).transpose()?;
    if config.has_remote() {
        config.settle_default(); // else it waits for whom the machine has beside this process
    }
    Ok(config)
}

struct ConfigReader<'a> {
    source: FileText<'a>,
    environment: &'a Environment<'a>,
}

/// A text that was given, and by whom.
struct Chosen<'a> {
    value: String,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Variable(&'a str),
    File(FileText<'a>, Range<usize>),
}

impl Chosen<'_> {
    fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        match &self.origin {
            Origin::Variable(name) => Problem::of(Path::new(name), message, remedy),
            Origin::File(source, span) => source.problem(span.clone(), message, remedy),
        }
    }
}

impl<'a> ConfigReader<'a> {
    /// An empty variable counts as none, as shells and compose files leave them behind.
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.trim().is_empty())
    }

    /// The entries of a variable, which are separated by commas.
    fn variable_entries(&self, name: &'a str) -> Vec<Chosen<'a>> {
        let text = self.variable(name).unwrap_or_default();
        let given = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        given.map(|entry| Chosen { value: entry.to_owned(), origin: Origin::Variable(name) }).collect()
    }

    fn in_file(&self, value: Option<Spanned<String>>) -> Result<Option<Chosen<'a>>, Problem> {
        let Some(value) = value else { return Ok(None) };
        let origin = Origin::File(self.source, value.span());
        let chosen = Chosen { value: value.into_inner(), origin };
        if chosen.value.trim().is_empty() {
            return Err(chosen.problem(EMPTY, EMPTY_REMEDY));
        }
        Ok(Some(chosen))
    }

    /// The value of the variable, or else of the file.
    fn choose(
        &self,
        variable: &'a str,
        value: Option<Spanned<String>>,
    ) -> Result<Option<Chosen<'a>>, Problem> {
        let in_file = self.in_file(value)?;
        let in_variable =
            self.variable(variable).map(|value| Chosen { value, origin: Origin::Variable(variable) });
        Ok(in_variable.or(in_file))
    }

    /// The address has a password, so it is in no file.
    fn store(&self) -> Result<Option<PostgresAddress>, Problem> {
        let Some(address) = self.variable("RONDO_STORE") else { return Ok(None) };
        let is_known = address.starts_with("postgres://") || address.starts_with("postgresql://");
        let read = if is_known {
            address.parse().map_err(|error: store::Error| error.to_string())
        } else {
            Err("the address does not begin with postgres://".to_owned())
        };
        read.map(Some).map_err(|problem| {
            let remedy = "write postgres://USER:PASSWORD@HOST/DATABASE, or leave RONDO_STORE out for SQLite";
            Problem::of(Path::new("RONDO_STORE"), problem, remedy)
        })
    }

    fn bool_setting(&self, variable: &str, in_file: Option<bool>) -> Result<Option<bool>, Problem> {
        let Some(text) = self.variable(variable) else { return Ok(in_file) };
        text.trim().parse().map(Some).map_err(|_| {
            Problem::of(
                Path::new(variable),
                format!("{text:?} is neither true nor false"),
                "write true or false",
            )
        })
    }

    fn pull(&self, in_file: Pull) -> Pull {
        Pull {
            huggingface_url: self.variable("HF_ENDPOINT").unwrap_or(in_file.huggingface_url),
            pypi_url: self.variable("PIP_INDEX_URL").unwrap_or(in_file.pypi_url),
        }
    }

    /// More of one user than of all is a mistake: the larger number would never be reached.
    fn model_calls(
        &self,
        all: Option<usize>,
        of_one_user: Option<Spanned<i64>>,
        streams_per_user: usize,
    ) -> Result<CallShares, Problem> {
        let shares = all.map_or_else(CallShares::default, CallShares::of);
        // A stream is of no use if its run waits for other model calls of the same user.
        let usual = shares.of_one_user.max(streams_per_user.min(shares.all / 2));
        let most = i64::try_from(shares.all).unwrap_or(MAX_MODEL_CALLS);
        let of_one_user =
            self.source.whole_number("server.max_model_calls_per_user", of_one_user, 1..=most)?;
        Ok(CallShares { of_one_user: of_one_user.unwrap_or(usual), ..shares })
    }

    fn server(&self, raw: RawServerTable) -> Result<ServerConfig, Problem> {
        let default = ServerConfig::default();
        let limits = default.limits;
        let max_streams_per_user = raw.max_streams_per_user.unwrap_or(limits.max_streams_per_user);
        let chat_app = self.choose("RONDO_CHAT_APP", raw.chat_app)?;
        Ok(ServerConfig {
            limits: ServerLimits {
                max_body_bytes: raw.max_body_bytes.unwrap_or(limits.max_body_bytes),
                header_timeout: raw.header_timeout_seconds.unwrap_or(limits.header_timeout),
                body_timeout: raw.body_timeout_seconds.unwrap_or(limits.body_timeout),
                write_timeout: raw.write_timeout_seconds.unwrap_or(limits.write_timeout),
                max_connections_per_address: raw.max_connections_per_address,
                max_streams_per_user,
                heartbeat: raw.heartbeat_seconds.unwrap_or(limits.heartbeat),
                failed_attempts_per_minute: raw
                    .max_failed_attempts_per_minute
                    .and_then(NonZeroU32::new)
                    .unwrap_or(limits.failed_attempts_per_minute),
                ..limits
            },
            model_calls: self.model_calls(
                raw.max_model_calls,
                raw.max_model_calls_per_user,
                max_streams_per_user,
            )?,
            document_bytes: raw.max_document_bytes_per_user.unwrap_or(default.document_bytes),
            drain: raw.drain_seconds.unwrap_or(default.drain),
            retention: raw.retention_seconds.unwrap_or(default.retention),
            undo_retention: raw.undo_retention_seconds.unwrap_or(default.undo_retention),
            delta_pause: raw.delta_pause_ms.map(Duration::from_millis),
            chat_app: chat_app.map(|chosen| chosen.value.trim().to_owned()),
            proxying: Proxying {
                base_path: self.base_path(raw.base_path)?,
                ..self.proxying(raw.public_url, raw.trusted_proxies, raw.allow_origins, raw.behind_proxy)?
            },
        })
    }

    fn log(&self, raw: RawLog) -> Result<LogConfig, Problem> {
        let level = self.choose("RONDO_LOG", raw.level)?.map(level).transpose()?;
        Ok(LogConfig { level: level.unwrap_or_else(|| Config::default().log.level), format: raw.format })
    }
}

/// One of a few words.
fn one_of<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<Option<T>, D::Error> {
    let word = String::deserialize(deserializer)?;
    if let Some(found) = all.iter().find(|one| name(**one) == word) {
        return Ok(Some(*found));
    }
    let words: Vec<String> = all.iter().map(|one| format!("{:?}", name(*one))).collect();
    Err(refusal(format!("{KEY} is {word:?}"), format!("write {}", words.join(" or "))))
}

/// A text of the file that says something.
pub(super) fn non_empty<'de, T: From<String>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() { Err(refusal(EMPTY, EMPTY_REMEDY)) } else { Ok(text.into()) }
}

fn listen(chosen: &Chosen<'_>) -> Result<SocketAddr, Problem> {
    chosen.value.trim().parse().map_err(|_| {
        let message = format!("{:?} is not an address", chosen.value);
        chosen.problem(message, "write an IP address and a port, such as 127.0.0.1:8787")
    })
}

/// `tracing` would take a misspelt level for the name of a module and show everything; so each part is checked.
fn level(chosen: Chosen<'_>) -> Result<String, Problem> {
    let known =
        |part: &str| part.rsplit('=').next().is_some_and(|level| level.trim().parse::<LevelFilter>().is_ok());
    if chosen.value.split(',').all(known) {
        return Ok(chosen.value);
    }
    let message = format!("{:?} is not a log level", chosen.value);
    Err(chosen.problem(message, "write error, warn, info, debug or trace, or as in \"info,agent=debug\""))
}
