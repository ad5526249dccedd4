//! `rondo.toml` as it is written, and the way from there to checked values.

mod models;
mod outside;
mod providers;
mod proxying;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use app::Problem;
use app::source::{Source, Spanned};
use engine::CallShares;
use serde::Deserialize;
use tracing_subscriber::filter::LevelFilter;

use self::models::{RawEmbeddings, RawModels};
use self::outside::{RawEgress, RawSearch, RawSecrets};
use self::providers::RawProviders;
use self::proxying::OneOrSeveral;
use super::{Config, Environment, Local, Log, LogFormat, Pull, Server};
use crate::model_knowledge::ModelKnowledge;

const MAX_TIMEOUT_SECONDS: i64 = 3600;
const MAX_DRAIN_SECONDS: i64 = 600;
const MAX_RETENTION_SECONDS: i64 = 10 * 365 * 24 * 60 * 60;
const MAX_HEARTBEAT_SECONDS: i64 = 60;
const MIN_BODY_BYTES: i64 = 1024;
const MAX_BODY_BYTES: i64 = 64 * 1024 * 1024;
const MAX_STREAMS_PER_USER: i64 = 100_000;
const MAX_MODEL_CALLS: i64 = 100_000;
const MIN_DOCUMENT_BYTES: i64 = 64 * 1024;
const MAX_DOCUMENT_BYTES: i64 = 8 * 1024 * 1024 * 1024;
const MAX_THREADS: i64 = 256;
const MIN_CONTEXT: i64 = 256;
const MAX_CONTEXT: i64 = 131_072;
const MAX_ANSWERS: i64 = 8;
const MAX_LOADED: i64 = 8;

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
    pull: RawPull,
    egress: RawEgress,
    secrets: RawSecrets,
    web_search: RawSearch,
    local: RawLocal,
    server: RawServer,
    log: RawLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawPull {
    huggingface_url: Option<Spanned<String>>,
    pypi_url: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLocal {
    threads: Option<Spanned<i64>>,
    context: Option<Spanned<i64>>,
    answers: Option<Spanned<i64>>,
    loaded: Option<Spanned<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawServer {
    max_body_bytes: Option<Spanned<i64>>,
    header_timeout_seconds: Option<Spanned<i64>>,
    body_timeout_seconds: Option<Spanned<i64>>,
    write_timeout_seconds: Option<Spanned<i64>>,
    max_streams_per_user: Option<Spanned<i64>>,
    max_model_calls: Option<Spanned<i64>>,
    max_model_calls_per_user: Option<Spanned<i64>>,
    max_document_bytes_per_user: Option<Spanned<i64>>,
    heartbeat_seconds: Option<Spanned<i64>>,
    drain_seconds: Option<Spanned<i64>>,
    retention_seconds: Option<Spanned<i64>>,
    undo_retention_seconds: Option<Spanned<i64>>,
    chat_app: Option<Spanned<String>>,
    public_url: Option<Spanned<OneOrSeveral>>,
    trusted_proxies: Option<Spanned<OneOrSeveral>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLog {
    level: Option<Spanned<String>>,
    format: Option<RawFormat>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawFormat {
    Text,
    Json,
}

/// Checks the text of a configuration file, with the environment over it.
pub(super) fn read(source: Source<'_>, environment: &Environment<'_>) -> Result<Config, Problem> {
    let raw: Raw = source.toml()?;
    let reader = Reader { source, environment };
    let default = Config::default();
    let mut config = Config {
        listen: match reader.choose("RONDO_LISTEN", raw.listen)? {
            Some(chosen) => listen(&chosen)?,
            None => default.listen,
        },
        data: reader.choose("RONDO_DATA", raw.data)?.map_or(default.data, |chosen| chosen.value.into()),
        apps: reader.choose("RONDO_APPS", raw.apps)?.map_or(default.apps, |chosen| chosen.value.into()),
        discover: reader.discover(raw.discover)?.unwrap_or(default.discover),
        providers: reader.providers(raw.providers)?,
        pull: reader.pull(raw.pull)?,
        outside: reader.outside(raw.egress, raw.secrets, raw.web_search)?,
        local: reader.local(raw.local)?,
        server: reader.server(raw.server)?,
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

struct Reader<'a> {
    source: Source<'a>,
    environment: &'a Environment<'a>,
}

/// A text that was given, and by whom.
struct Chosen<'a> {
    value: String,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Variable(&'a str),
    File(Source<'a>, Range<usize>),
}

impl Chosen<'_> {
    fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        match &self.origin {
            Origin::Variable(name) => Problem::of(Path::new(name), message, remedy),
            Origin::File(source, span) => source.problem(span.clone(), message, remedy),
        }
    }
}

impl<'a> Reader<'a> {
    /// An empty variable counts as none, as shells and compose files leave them behind.
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.trim().is_empty())
    }

    fn in_file(&self, value: Option<Spanned<String>>) -> Result<Option<Chosen<'a>>, Problem> {
        let Some(value) = value else { return Ok(None) };
        let origin = Origin::File(self.source, value.span());
        let chosen = Chosen { value: value.into_inner(), origin };
        if chosen.value.trim().is_empty() {
            return Err(
                chosen.problem("the text is empty", "write a value, or remove the line to get the default")
            );
        }
        Ok(Some(chosen))
    }

    /// What the variable says, or else the file.
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

    fn discover(&self, in_file: Option<bool>) -> Result<Option<bool>, Problem> {
        const NAME: &str = "RONDO_DISCOVER";
        let Some(text) = self.variable(NAME) else { return Ok(in_file) };
        text.trim().parse().map(Some).map_err(|_| {
            Problem::of(Path::new(NAME), format!("{text:?} is neither true nor false"), "write true or false")
        })
    }

    /// One of a few words.
    fn one_of<T: Copy>(
        &self,
        field: &str,
        value: Option<Spanned<String>>,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = value else { return Ok(None) };
        if let Some(found) = all.iter().find(|one| name(**one) == value.get_ref()) {
            return Ok(Some(*found));
        }
        let words: Vec<String> = all.iter().map(|one| format!("{:?}", name(*one))).collect();
        let message = format!("{field} is {:?}", value.get_ref());
        Err(self.source.problem(value.span(), message, format!("write {}", words.join(" or "))))
    }

    fn pull(&self, raw: RawPull) -> Result<Pull, Problem> {
        let default = Pull::default();
        let huggingface = self.choose("HF_ENDPOINT", raw.huggingface_url)?;
        let pypi = self.choose("PIP_INDEX_URL", raw.pypi_url)?;
        let text = |chosen: Option<Chosen<'_>>, default| chosen.map_or(default, |chosen| chosen.value);
        Ok(Pull {
            huggingface_url: text(huggingface, default.huggingface_url),
            pypi_url: text(pypi, default.pypi_url),
        })
    }

    fn local(&self, raw: RawLocal) -> Result<Local, Problem> {
        let (source, default) = (&self.source, Local::default());
        Ok(Local {
            threads: source.whole("local.threads", raw.threads, 1..=MAX_THREADS)?,
            context: source
                .whole("local.context", raw.context, MIN_CONTEXT..=MAX_CONTEXT)?
                .unwrap_or(default.context),
            answers: source.whole("local.answers", raw.answers, 1..=MAX_ANSWERS)?.unwrap_or(default.answers),
            loaded: source.whole("local.loaded", raw.loaded, 1..=MAX_LOADED)?.unwrap_or(default.loaded),
        })
    }

    /// More of one user than of all is a mistake: the larger number would never be reached.
    fn model_calls(
        &self,
        all: Option<Spanned<i64>>,
        of_one_user: Option<Spanned<i64>>,
    ) -> Result<CallShares, Problem> {
        let all = self.source.whole("server.max_model_calls", all, 1..=MAX_MODEL_CALLS)?;
        let shares = all.map_or_else(CallShares::default, CallShares::of);
        let most = i64::try_from(shares.all).unwrap_or(MAX_MODEL_CALLS);
        let of_one_user = self.source.whole("server.max_model_calls_per_user", of_one_user, 1..=most)?;
        Ok(CallShares { of_one_user: of_one_user.unwrap_or(shares.of_one_user), ..shares })
    }

    fn server(&self, raw: RawServer) -> Result<Server, Problem> {
        let source = &self.source;
        let default = Server::default();
        let seconds = |field: &str, value, default| {
            let read =
                source.seconds(&format!("server.{field}_timeout_seconds"), value, 1..=MAX_TIMEOUT_SECONDS);
            read.map(|seconds| seconds.unwrap_or(default))
        };
        Ok(Server {
            max_body_bytes: source
                .whole("server.max_body_bytes", raw.max_body_bytes, MIN_BODY_BYTES..=MAX_BODY_BYTES)?
                .unwrap_or(default.max_body_bytes),
            header_timeout: seconds("header", raw.header_timeout_seconds, default.header_timeout)?,
            body_timeout: seconds("body", raw.body_timeout_seconds, default.body_timeout)?,
            write_timeout: seconds("write", raw.write_timeout_seconds, default.write_timeout)?,
            max_streams_per_user: source
                .whole("server.max_streams_per_user", raw.max_streams_per_user, 1..=MAX_STREAMS_PER_USER)?
                .unwrap_or(default.max_streams_per_user),
            model_calls: self.model_calls(raw.max_model_calls, raw.max_model_calls_per_user)?,
            document_bytes: source
                .whole(
                    "server.max_document_bytes_per_user",
                    raw.max_document_bytes_per_user,
                    MIN_DOCUMENT_BYTES..=MAX_DOCUMENT_BYTES,
                )?
                .unwrap_or(default.document_bytes),
            heartbeat: source
                .seconds("server.heartbeat_seconds", raw.heartbeat_seconds, 1..=MAX_HEARTBEAT_SECONDS)?
                .unwrap_or(default.heartbeat),
            drain: source
                .seconds("server.drain_seconds", raw.drain_seconds, 0..=MAX_DRAIN_SECONDS)?
                .unwrap_or(default.drain),
            retention: source
                .seconds("server.retention_seconds", raw.retention_seconds, 1..=MAX_RETENTION_SECONDS)?
                .unwrap_or(default.retention),
            undo_retention: source
                .seconds(
                    "server.undo_retention_seconds",
                    raw.undo_retention_seconds,
                    1..=MAX_RETENTION_SECONDS,
                )?
                .unwrap_or(default.undo_retention),
            chat_app: self
                .choose("RONDO_CHAT_APP", raw.chat_app)?
                .map(|chosen| chosen.value.trim().to_owned()),
            proxying: self.proxying(raw.public_url, raw.trusted_proxies)?,
        })
    }

    fn log(&self, raw: RawLog) -> Result<Log, Problem> {
        let default = Config::default().log;
        let level = match self.choose("RONDO_LOG", raw.level)? {
            Some(chosen) => level(chosen)?,
            None => default.level,
        };
        let format = match raw.format {
            Some(RawFormat::Text) => LogFormat::Text,
            Some(RawFormat::Json) => LogFormat::Json,
            None => default.format,
        };
        Ok(Log { level, format })
    }
}

fn listen(chosen: &Chosen<'_>) -> Result<SocketAddr, Problem> {
    let Ok(address) = chosen.value.trim().parse::<SocketAddr>() else {
        let message = format!("{:?} is not an address", chosen.value);
        return Err(chosen.problem(message, "write an IP address and a port, such as 127.0.0.1:8787"));
    };
    Ok(address)
}

/// `tracing` would take a misspelt level for the name of a module and show everything; so each part is checked.
fn level(chosen: Chosen<'_>) -> Result<String, Problem> {
    let known =
        |part: &str| part.rsplit('=').next().is_some_and(|level| level.trim().parse::<LevelFilter>().is_ok());
    if chosen.value.split(',').all(known) {
        return Ok(chosen.value);
    }
    let message = format!("{:?} is not a log level", chosen.value);
    Err(chosen.problem(message, "write error, warn, info, debug or trace, or as in \"info,engine=debug\""))
}
