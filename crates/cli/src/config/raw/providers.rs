//! `[providers.…]` as it is written, and the way from there to checked providers.

use std::collections::BTreeMap;
use std::path::Path;

use app::Problem;
use app::source::Spanned;
use model::known::{KnownProvider, PROVIDERS};
use model::{Capabilities, Kind, Prices, Structured, Timeouts, Wire};
use serde::Deserialize;

use super::outside::RawSecret;
use super::{Chosen, Reader};
use crate::config::{Provider, Secret};
use crate::weights;

const MAX_TIMEOUT_SECONDS: i64 = 3600;
/// Less than this holds no prompt worth sending.
const MIN_CONTEXT_TOKENS: i64 = 1024;
pub(super) const MAX_CONTEXT_TOKENS: i64 = 100_000_000;
const OLLAMA_PORT: u16 = 11434;

const KINDS: [Kind; 2] = [Kind::Cloud, Kind::Local];
const STRUCTURED: [Structured; 3] = [Structured::WithTools, Structured::Alone, Structured::Prompt];

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProvider {
    wire: Option<Spanned<String>>,
    base_url: Option<Spanned<String>>,
    api_key_env: Option<Spanned<String>>,
    api_key_file: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    open: Option<bool>,
    prices: Option<Spanned<String>>,
    streaming: Option<bool>,
    tools: Option<bool>,
    structured: Option<Spanned<String>>,
    context_window: Option<Spanned<i64>>,
    max_output: Option<Spanned<i64>>,
    connect_timeout_seconds: Option<Spanned<i64>>,
    first_byte_timeout_seconds: Option<Spanned<i64>>,
    idle_timeout_seconds: Option<Spanned<i64>>,
    total_timeout_seconds: Option<Spanned<i64>>,
}

pub(super) type RawProviders = BTreeMap<Spanned<String>, RawProvider>;

impl<'a> Reader<'a> {
    /// The providers that are on: the well-known ones in their order, then the others by name.
    pub(super) fn providers(&self, mut raw: RawProviders) -> Result<Vec<Provider>, Problem> {
        let mut providers = Vec::new();
        for known in PROVIDERS {
            let section = raw.remove(known.name);
            providers.extend(self.known_provider(known, section)?);
        }
        for (name, section) in raw {
            providers.push(self.own_provider(&name, &section)?);
        }
        Ok(providers)
    }

    /// On when it has a key or a base URL. A section is enough where no key is asked for.
    fn known_provider(
        &self,
        known: &'static KnownProvider,
        section: Option<RawProvider>,
    ) -> Result<Option<Provider>, Problem> {
        let named = section.is_some();
        let raw = section.unwrap_or_default();
        let field = |key: &str| format!("providers.{}.{key}", known.name);
        let kind = self.kind(&field("kind"), raw.kind.clone())?.unwrap_or(known.kind);
        let expected = Capabilities { structured: known.structured, ..Capabilities::of_kind(kind) };
        let said = self.wire(&field("wire"), raw.wire.clone())?;
        let api_key = self.api_key(known.key_variable, &raw)?;
        let base_url = self.choose(known.url_variable, raw.base_url.clone())?;
        let elsewhere = said.unwrap_or(known.wire_elsewhere);
        let base_url = base_url.map(|chosen| base_url_of(&chosen, elsewhere)).transpose()?;
        let at_home = base_url.as_ref().is_none_or(|url| url == known.base_url);
        let wire = said.unwrap_or(if at_home { known.wire } else { known.wire_elsewhere });
        let provider = Provider {
            wire: Some(wire),
            kind,
            open: raw.open.unwrap_or(true),
            capabilities: self.expected(&field, &raw, &expected)?,
            timeouts: self.timeouts(&field, &raw)?,
            prices: self.prices(&field("prices"), raw.prices.clone())?,
            base_url: base_url.clone().unwrap_or_else(|| known.base_url.to_owned()),
            api_key,
            ..Provider::of(known)
        };
        let keyless = named && known.key_variable.is_none();
        Ok((keyless || base_url.is_some() || provider.api_key.is_some()).then_some(provider))
    }

    /// A provider that only the file knows.
    fn own_provider(&self, name: &Spanned<String>, raw: &RawProvider) -> Result<Provider, Problem> {
        let field = |key: &str| format!("providers.{name}.{key}");
        let taken = name.get_ref() == weights::PROVIDER;
        if taken || name.get_ref().trim().is_empty() || name.get_ref().contains('/') {
            let message = format!("a provider cannot be called {:?}", name.get_ref());
            let remedy = if taken {
                "that is this process; write another name"
            } else {
                "write a name without a slash"
            };
            return Err(self.source.problem(name.span(), message, remedy));
        }
        let Some(base_url) = self.in_file(raw.base_url.clone())? else {
            let known: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
            let message = format!("where the provider {:?} answers is not known", name.get_ref());
            let remedy = format!("add its base_url, or use one of {}", known.join(", "));
            return Err(self.source.problem(name.span(), message, remedy));
        };
        let wire = self.wire(&field("wire"), raw.wire.clone())?.unwrap_or(Wire::Chat);
        let usual = if wire == Wire::Ollama { Kind::Local } else { Kind::Cloud };
        let kind = self.kind(&field("kind"), raw.kind.clone())?.unwrap_or(usual);
        Ok(Provider {
            name: name.get_ref().clone(),
            wire: Some(wire),
            kind,
            base_url: base_url_of(&base_url, wire)?,
            api_key: self.api_key(None, raw)?,
            open: raw.open.unwrap_or(true),
            capabilities: self.expected(&field, raw, &Capabilities::of_kind(kind))?,
            timeouts: self.timeouts(&field, raw)?,
            prices: self.prices(&field("prices"), raw.prices.clone())?,
        })
    }

    fn wire(&self, field: &str, value: Option<Spanned<String>>) -> Result<Option<Wire>, Problem> {
        self.one_of(field, value, &Wire::ALL, Wire::name)
    }

    fn prices(&self, field: &str, value: Option<Spanned<String>>) -> Result<Option<Prices>, Problem> {
        self.one_of(field, value, &Prices::WRITTEN, Prices::name)
    }

    pub(super) fn kind(&self, field: &str, value: Option<Spanned<String>>) -> Result<Option<Kind>, Problem> {
        self.one_of(field, value, &KINDS, Kind::name)
    }

    pub(super) fn structured(
        &self,
        field: &str,
        value: Option<Spanned<String>>,
    ) -> Result<Option<Structured>, Problem> {
        self.one_of(field, value, &STRUCTURED, Structured::name)
    }

    pub(super) fn context_window(
        &self,
        field: &str,
        value: Option<Spanned<i64>>,
    ) -> Result<Option<u32>, Problem> {
        self.source.whole(field, value, MIN_CONTEXT_TOKENS..=MAX_CONTEXT_TOKENS)
    }

    fn expected(
        &self,
        field: &impl Fn(&str) -> String,
        raw: &RawProvider,
        usual: &Capabilities,
    ) -> Result<Capabilities, Problem> {
        let structured = self.structured(&field("structured"), raw.structured.clone())?;
        let window = self.context_window(&field("context_window"), raw.context_window.clone())?;
        let tokens = 1..=MAX_CONTEXT_TOKENS;
        let max_output = self.source.whole(&field("max_output"), raw.max_output.clone(), tokens)?;
        Ok(Capabilities {
            streaming: raw.streaming.unwrap_or(usual.streaming),
            tools: raw.tools.unwrap_or(usual.tools),
            structured: structured.unwrap_or(usual.structured),
            context_window: window.unwrap_or(usual.context_window),
            max_output: max_output.or(usual.max_output),
            ..*usual
        })
    }

    fn timeouts(&self, field: &impl Fn(&str) -> String, raw: &RawProvider) -> Result<Timeouts, Problem> {
        let default = Timeouts::default();
        let seconds = |key: &str, value: &Option<Spanned<i64>>, default| {
            let field = field(&format!("{key}_timeout_seconds"));
            let read = self.source.seconds(&field, value.clone(), 1..=MAX_TIMEOUT_SECONDS);
            read.map(|seconds| seconds.unwrap_or(default))
        };
        Ok(Timeouts {
            connect: seconds("connect", &raw.connect_timeout_seconds, default.connect)?,
            first_byte: seconds("first_byte", &raw.first_byte_timeout_seconds, default.first_byte)?,
            idle: seconds("idle", &raw.idle_timeout_seconds, default.idle)?,
            total: seconds("total", &raw.total_timeout_seconds, default.total)?,
        })
    }

    fn api_key(&self, usual: Option<&str>, raw: &RawProvider) -> Result<Option<Secret>, Problem> {
        self.key(usual, RawSecret { env: raw.api_key_env.clone(), file: raw.api_key_file.clone() })
    }
}

/// Checks a base URL and writes it the way the wire's adapter extends it.
fn base_url_of(chosen: &Chosen<'_>, wire: Wire) -> Result<String, Problem> {
    let text = chosen.value.trim();
    if wire == Wire::Ollama {
        return ollama_url(chosen, text);
    }
    let url = http_url(chosen, text, "https://api.openai.com/v1")?;
    match wire {
        // Anthropic's own tools take the URL without the version.
        Wire::Anthropic(_) if url.path() == "/" => Ok(format!("{}v1", url.as_str())),
        Wire::Anthropic(_) | Wire::Chat | Wire::Responses | Wire::Ollama => Ok(without_slash(&url)),
    }
}

/// What `OLLAMA_HOST` may be: a host, a host and a port, or a URL; also the address that a server is told to listen on.
fn ollama_url(chosen: &Chosen<'_>, text: &str) -> Result<String, Problem> {
    const EXAMPLE: &str = "http://127.0.0.1:11434";
    let mut url = if text.contains("://") {
        http_url(chosen, text, EXAMPLE)?
    } else {
        let mut url = http_url(chosen, &format!("http://{text}"), EXAMPLE)?;
        if url.port().is_none() {
            let _ = url.set_port(Some(OLLAMA_PORT)); // fails only for URLs without a host
        }
        url
    };
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        let _ = url.set_host(Some("127.0.0.1")); // a good address for any http URL
    }
    if url.path().trim_end_matches('/').ends_with("/v1") {
        let remedy = "leave out /v1, or write wire = \"chat\" in [providers.ollama]";
        return Err(chosen.problem("Ollama's own wire is not under /v1", remedy));
    }
    Ok(without_slash(&url))
}

pub(super) fn http_url(chosen: &Chosen<'_>, text: &str, example: &str) -> Result<reqwest::Url, Problem> {
    let remedy = format!("write it as in {example}");
    let url = match reqwest::Url::parse(text) {
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
    Ok(url)
}

pub(super) fn without_slash(url: &reqwest::Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Never quotes the key.
pub(super) fn secret(origin: &Path, text: &str) -> Result<Secret, Problem> {
    Secret::new(text).ok_or_else(|| {
        Problem::of(
            origin,
            "this is not one key: it is empty or holds spaces or line breaks",
            "put in the key alone",
        )
    })
}
