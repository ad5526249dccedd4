//! `[providers.…]` as it is written, and the way from there to checked providers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use app::Problem;
use app::source::Spanned;
use app::source::bounds::whole_number;
use model::known_models::{KnownProvider, PROVIDERS};
use model::{Capabilities, Prices, ProviderKind, ProviderWire, SchemaSupport, Timeouts};
use serde::{Deserialize, Deserializer};

use super::{Chosen, ConfigReader, one_of};
use crate::config::{ConfigSecret, ProviderConfig};
use crate::weights;

const MAX_TIMEOUT_SECONDS: i64 = 3600;
/// Less than this holds no prompt worth sending.
pub(super) const MIN_CONTEXT_TOKENS: i64 = 1024;
pub(super) const MAX_CONTEXT_TOKENS: i64 = 100_000_000;
const OLLAMA_PORT: u16 = 11434;

const KINDS: [ProviderKind; 2] = [ProviderKind::Cloud, ProviderKind::Local];
const STRUCTURED: [SchemaSupport; 3] =
    [SchemaSupport::WithTools, SchemaSupport::Alone, SchemaSupport::Prompt];

/// The place of a secret: a variable or a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSecret {
    pub(super) env: Option<Spanned<String>>,
    pub(super) file: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProvider {
    #[serde(deserialize_with = "wire")]
    wire: Option<ProviderWire>,
    base_url: Option<Spanned<String>>,
    api_key_env: Option<Spanned<String>>,
    api_key_file: Option<Spanned<String>>,
    #[serde(deserialize_with = "kind")]
    kind: Option<ProviderKind>,
    open: Option<bool>,
    #[serde(deserialize_with = "prices")]
    prices: Option<Prices>,
    streaming: Option<bool>,
    tools: Option<bool>,
    #[serde(deserialize_with = "read_schema_support")]
    structured: Option<SchemaSupport>,
    #[serde(deserialize_with = "whole_number::<MIN_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS, _, _>")]
    context_window: Option<u32>,
    #[serde(deserialize_with = "whole_number::<1, MAX_CONTEXT_TOKENS, _, _>")]
    max_output: Option<u32>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    connect_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    first_byte_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    idle_timeout_seconds: Option<Duration>,
    #[serde(deserialize_with = "whole_number::<1, MAX_TIMEOUT_SECONDS, _, _>")]
    total_timeout_seconds: Option<Duration>,
}

pub(super) type RawProviders = BTreeMap<Spanned<String>, RawProvider>;

impl<'a> ConfigReader<'a> {
    /// The providers that are on: the well-known ones in their order, then the others by name.
    pub(super) fn providers(&self, mut raw: RawProviders) -> Result<Vec<ProviderConfig>, Problem> {
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
    ) -> Result<Option<ProviderConfig>, Problem> {
        let named = section.is_some();
        let raw = section.unwrap_or_default();
        let kind = raw.kind.unwrap_or(known.kind);
        let expected = Capabilities { structured: known.structured, ..Capabilities::of_kind(kind) };
        let said = raw.wire;
        let api_key = self.api_key(known.key_variable, &raw)?;
        let base_url = self.choose(known.url_variable, raw.base_url.clone())?;
        let elsewhere = said.unwrap_or(known.wire_elsewhere);
        let base_url = base_url.map(|chosen| base_url_of(&chosen, elsewhere)).transpose()?;
        let at_home = base_url.as_ref().is_none_or(|url| url == known.base_url);
        let wire = said.unwrap_or(if at_home { known.wire } else { known.wire_elsewhere });
        let provider = ProviderConfig {
            wire: Some(wire),
            kind,
            open: raw.open.unwrap_or(true),
            capabilities: raw.capabilities(&expected),
            timeouts: raw.timeouts(),
            prices: raw.prices,
            base_url: base_url.clone().unwrap_or_else(|| known.base_url.to_owned()),
            api_key,
            ..ProviderConfig::of(known)
        };
        let keyless = named && known.key_variable.is_none();
        Ok((keyless || base_url.is_some() || provider.api_key.is_some()).then_some(provider))
    }

    /// A provider that only the file knows.
    fn own_provider(&self, name: &Spanned<String>, raw: &RawProvider) -> Result<ProviderConfig, Problem> {
        let taken = name.get_ref() == weights::PROVIDER;
        if taken || name.get_ref().trim().is_empty() || name.get_ref().contains('/') {
            let message = format!("a provider cannot be called {:?}", name.get_ref());
            let remedy = if taken {
                "this name is reserved for models in this process; write another name"
            } else {
                "write a name without a slash"
            };
            return Err(self.source.problem(name.span(), message, remedy));
        }
        let Some(base_url) = self.in_file(raw.base_url.clone())? else {
            let known: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
            let message = format!("the base URL of the provider {:?} is not known", name.get_ref());
            let remedy = format!("add its base_url, or use one of {}", known.join(", "));
            return Err(self.source.problem(name.span(), message, remedy));
        };
        let wire = raw.wire.unwrap_or(ProviderWire::Chat);
        let usual = if wire == ProviderWire::Ollama { ProviderKind::Local } else { ProviderKind::Cloud };
        let kind = raw.kind.unwrap_or(usual);
        Ok(ProviderConfig {
            name: name.get_ref().clone(),
            wire: Some(wire),
            kind,
            base_url: base_url_of(&base_url, wire)?,
            api_key: self.api_key(None, raw)?,
            open: raw.open.unwrap_or(true),
            capabilities: raw.capabilities(&Capabilities::of_kind(kind)),
            timeouts: raw.timeouts(),
            prices: raw.prices,
        })
    }

    fn api_key(&self, usual: Option<&str>, raw: &RawProvider) -> Result<Option<ConfigSecret>, Problem> {
        self.key(usual, RawSecret { env: raw.api_key_env.clone(), file: raw.api_key_file.clone() })
    }
}

impl RawProvider {
    fn capabilities(&self, usual: &Capabilities) -> Capabilities {
        Capabilities {
            streaming: self.streaming.unwrap_or(usual.streaming),
            tools: self.tools.unwrap_or(usual.tools),
            structured: self.structured.unwrap_or(usual.structured),
            context_window: self.context_window.unwrap_or(usual.context_window),
            max_output: self.max_output.or(usual.max_output),
            ..*usual
        }
    }

    fn timeouts(&self) -> Timeouts {
        let default = Timeouts::default();
        Timeouts {
            connect: self.connect_timeout_seconds.unwrap_or(default.connect),
            first_byte: self.first_byte_timeout_seconds.unwrap_or(default.first_byte),
            idle: self.idle_timeout_seconds.unwrap_or(default.idle),
            total: self.total_timeout_seconds.unwrap_or(default.total),
        }
    }
}

fn wire<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProviderWire>, D::Error> {
    one_of(deserializer, &ProviderWire::ALL, ProviderWire::name)
}

fn prices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Prices>, D::Error> {
    one_of(deserializer, &Prices::WRITTEN, Prices::name)
}

pub(super) fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProviderKind>, D::Error> {
    one_of(deserializer, &KINDS, ProviderKind::name)
}

pub(super) fn read_schema_support<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SchemaSupport>, D::Error> {
    one_of(deserializer, &STRUCTURED, SchemaSupport::name)
}

/// Checks a base URL and writes it the way the wire's adapter extends it.
fn base_url_of(chosen: &Chosen<'_>, wire: ProviderWire) -> Result<String, Problem> {
    let text = chosen.value.trim();
    if wire == ProviderWire::Ollama {
        return ollama_url(chosen, text);
    }
    let url = http_url(chosen, text, "https://api.openai.com/v1")?;
    // Anthropic's own tools take the URL without the version.
    if matches!(wire, ProviderWire::Anthropic(_)) && url.path() == "/" {
        return Ok(format!("{url}v1"));
    }
    Ok(without_slash(&url))
}

/// The forms of `OLLAMA_HOST`: a host, a host and a port, or a URL; also the address that a server is told to listen on.
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
        return Err(chosen.problem("Ollama's own API is not under /v1", remedy));
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
        return Err(chosen.problem("the base URL contains more than a host and a path", remedy));
    }
    Ok(url)
}

pub(super) fn without_slash(url: &reqwest::Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// Never quotes the key.
pub(super) fn secret(origin: &Path, text: &str) -> Result<ConfigSecret, Problem> {
    ConfigSecret::new(text).ok_or_else(|| {
        Problem::of(
            origin,
            "this is not a key: it is empty, or contains spaces or line breaks",
            "write only the key",
        )
    })
}
