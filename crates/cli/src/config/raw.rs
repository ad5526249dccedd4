//! `rondo.toml` as it is written, and the way from there to checked values.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use app::Problem;
use app::source::{Source, Spanned, read_file};
use serde::Deserialize;
use tracing_subscriber::filter::LevelFilter;

use super::{Config, DEFAULT_MODEL, Environment, Log, LogFormat, OpenAi, Secret, Server, Timeouts};

const DEFAULT_KEY_VARIABLE: &str = "OPENAI_API_KEY";
const MAX_TIMEOUT_SECONDS: i64 = 3600;
const MAX_DRAIN_SECONDS: i64 = 600;
const MAX_HEARTBEAT_SECONDS: i64 = 60;
const MIN_BODY_BYTES: i64 = 1024;
const MAX_BODY_BYTES: i64 = 64 * 1024 * 1024;
const MAX_STREAMS_PER_USER: i64 = 1000;
/// Less than this holds no prompt worth sending.
const MIN_CONTEXT_TOKENS: i64 = 1024;
const MAX_CONTEXT_TOKENS: i64 = 100_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    listen: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    apps: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    providers: RawProviders,
    server: RawServer,
    log: RawLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawProviders {
    openai: RawOpenAi,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawOpenAi {
    base_url: Option<Spanned<String>>,
    api_key_env: Option<Spanned<String>>,
    api_key_file: Option<Spanned<String>>,
    context_window: Option<Spanned<i64>>,
    connect_timeout_seconds: Option<Spanned<i64>>,
    first_byte_timeout_seconds: Option<Spanned<i64>>,
    idle_timeout_seconds: Option<Spanned<i64>>,
    total_timeout_seconds: Option<Spanned<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawServer {
    max_body_bytes: Option<Spanned<i64>>,
    header_timeout_seconds: Option<Spanned<i64>>,
    body_timeout_seconds: Option<Spanned<i64>>,
    write_timeout_seconds: Option<Spanned<i64>>,
    max_streams_per_user: Option<Spanned<i64>>,
    heartbeat_seconds: Option<Spanned<i64>>,
    drain_seconds: Option<Spanned<i64>>,
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
    let openai = reader.openai(raw.providers.openai)?;
    let model = reader.choose("RONDO_MODEL", raw.model)?.map(|chosen| chosen.value);
    Ok(Config {
        file: None,
        listen: match reader.choose("RONDO_LISTEN", raw.listen)? {
            Some(chosen) => listen(&chosen)?,
            None => default.listen,
        },
        data: reader.choose("RONDO_DATA", raw.data)?.map_or(default.data, |chosen| chosen.value.into()),
        apps: reader.choose("RONDO_APPS", raw.apps)?.map_or(default.apps, |chosen| chosen.value.into()),
        model: model.or_else(|| openai.as_ref().map(|_| DEFAULT_MODEL.into())),
        openai,
        server: reader.server(raw.server)?,
        log: reader.log(raw.log)?,
    })
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

    fn openai(&self, raw: RawOpenAi) -> Result<Option<OpenAi>, Problem> {
        let source = &self.source;
        let default = OpenAi::default();
        let seconds = |field: &str, value| {
            source.seconds(
                &format!("providers.openai.{field}_timeout_seconds"),
                value,
                1..=MAX_TIMEOUT_SECONDS,
            )
        };
        let timeouts = Timeouts {
            connect: seconds("connect", raw.connect_timeout_seconds)?.unwrap_or(default.timeouts.connect),
            first_byte: seconds("first_byte", raw.first_byte_timeout_seconds)?
                .unwrap_or(default.timeouts.first_byte),
            idle: seconds("idle", raw.idle_timeout_seconds)?.unwrap_or(default.timeouts.idle),
            total: seconds("total", raw.total_timeout_seconds)?.unwrap_or(default.timeouts.total),
        };
        let tokens = MIN_CONTEXT_TOKENS..=MAX_CONTEXT_TOKENS;
        let context_window = source
            .whole("providers.openai.context_window", raw.context_window, tokens)?
            .unwrap_or(default.context_window);
        let api_key = self.api_key(raw.api_key_env, raw.api_key_file)?;
        let base_url =
            self.choose("OPENAI_BASE_URL", raw.base_url)?.map(|chosen| base_url(&chosen)).transpose()?;
        if api_key.is_none() && base_url.is_none() {
            return Ok(None);
        }
        let base_url = base_url.unwrap_or(default.base_url);
        Ok(Some(OpenAi { base_url, api_key, timeouts, context_window }))
    }

    /// The key from the variable, or else from the file. A variable that somebody chose by name must be set.
    fn api_key(
        &self,
        variable: Option<Spanned<String>>,
        file: Option<Spanned<String>>,
    ) -> Result<Option<Secret>, Problem> {
        let variable = self.in_file(variable)?;
        let name = variable.as_ref().map_or(DEFAULT_KEY_VARIABLE, |chosen| &chosen.value);
        if let Some(value) = self.variable(name) {
            return secret(Path::new(name), &value).map(Some);
        }
        if let Some(chosen) = self.in_file(file)? {
            let path = Path::new(&chosen.value);
            let text = read_file(path, "create it, or correct api_key_file")?;
            return secret(path, &text).map(Some);
        }
        match variable {
            Some(chosen) if chosen.value != DEFAULT_KEY_VARIABLE => {
                let message = format!("the environment variable {} is not set", chosen.value);
                Err(chosen.problem(message, "set it, or remove this line"))
            }
            _ => Ok(None),
        }
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
            heartbeat: source
                .seconds("server.heartbeat_seconds", raw.heartbeat_seconds, 1..=MAX_HEARTBEAT_SECONDS)?
                .unwrap_or(default.heartbeat),
            drain: source
                .seconds("server.drain_seconds", raw.drain_seconds, 0..=MAX_DRAIN_SECONDS)?
                .unwrap_or(default.drain),
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

fn base_url(chosen: &Chosen<'_>) -> Result<String, Problem> {
    let remedy = "write it as in https://api.openai.com/v1";
    let url = match reqwest::Url::parse(chosen.value.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(_) | Err(_) => return Err(chosen.problem("the base URL is not an http or https URL", remedy)),
    };
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(chosen.problem("the base URL holds more than a host and a path", remedy));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Never quotes the key.
fn secret(origin: &Path, text: &str) -> Result<Secret, Problem> {
    Secret::new(text).ok_or_else(|| {
        Problem::of(
            origin,
            "this is not one key: it is empty or holds spaces or line breaks",
            "put in the key alone",
        )
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
    Err(chosen.problem(message, "write error, warn, info, debug or trace, or as in \"info,engine=debug\""))
}
