//! `[egress]`, `[secrets.…]` and `[web_search]` as they are written, and the way from there to checked values.

use std::collections::BTreeMap;
use std::path::Path;

use app::Problem;
use app::source::{Spanned, read_file};
use serde::Deserialize;
use tools::{Allowed, NotAllowable};

use super::providers::{RawSecret, http_url, secret, without_slash};
use super::{Chosen, ConfigReader, Origin};
use crate::config::{ConfigSecret, EgressConfig, TavilyAccount};

const TAVILY_URL: &str = "https://api.tavily.com";
const SEARXNG_EXAMPLE: &str = "http://127.0.0.1:8888";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEgress {
    allow: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSearch {
    tavily_api_key_env: Option<Spanned<String>>,
    tavily_api_key_file: Option<Spanned<String>>,
    tavily_url: Option<Spanned<String>>,
    searxng_url: Option<Spanned<String>>,
}

pub(super) type RawSecrets = BTreeMap<Spanned<String>, RawSecret>;

impl ConfigReader<'_> {
    pub(super) fn egress(
        &self,
        egress: RawEgress,
        secrets: RawSecrets,
        search: RawSearch,
    ) -> Result<EgressConfig, Problem> {
        let (mut allow, opened) = self.allowed_hosts(egress)?;
        // The address of a search that the operator names may be reached, wherever it is.
        let mut open = |chosen: &Chosen<'_>, usual: &str| -> Result<String, Problem> {
            let url = without_slash(&http_url(chosen, chosen.value.trim(), usual)?);
            if url != TAVILY_URL {
                let wrong = |error: NotAllowable| chosen.problem(error.to_string(), "write a whole URL");
                allow.add_url(&url).map_err(wrong)?;
            }
            Ok(url)
        };
        let tavily_url = self.choose("TAVILY_BASE_URL", search.tavily_url)?;
        let tavily_url = tavily_url.map(|chosen| open(&chosen, TAVILY_URL)).transpose()?;
        let searxng = self.choose("SEARXNG_URL", search.searxng_url)?;
        let searxng = searxng.map(|chosen| open(&chosen, SEARXNG_EXAMPLE)).transpose()?;
        let key = RawSecret { env: search.tavily_api_key_env, file: search.tavily_api_key_file };
        let tavily = self
            .key(Some("TAVILY_API_KEY"), key)?
            .map(|key| TavilyAccount { base_url: tavily_url.unwrap_or_else(|| TAVILY_URL.to_owned()), key });
        Ok(EgressConfig { secrets: self.secrets(secrets)?, allow, opened, tavily, searxng })
    }

    /// Hosts that are open beside public ones, parsed and as written. The variable adds to the file.
    fn allowed_hosts(&self, egress: RawEgress) -> Result<(Allowed, Vec<String>), Problem> {
        let in_file = egress.allow.into_iter().map(|entry| {
            let origin = Origin::File(self.source, entry.span());
            (Chosen { value: entry.into_inner(), origin }, "correct it, or remove it")
        });
        let in_variable = self.variable_entries("RONDO_EGRESS_ALLOW").into_iter();
        let in_variable = in_variable.map(|entry| (entry, "separate entries with commas"));
        let (mut allow, mut opened) = (Allowed::default(), Vec::new());
        for (entry, remedy) in in_file.chain(in_variable) {
            allow.add(&entry.value).map_err(|error| entry.problem(error.to_string(), remedy))?;
            opened.push(entry.value.trim().to_owned());
        }
        Ok((allow, opened))
    }

    fn secrets(&self, raw: RawSecrets) -> Result<BTreeMap<String, ConfigSecret>, Problem> {
        let mut secrets = BTreeMap::new();
        for (name, raw) in raw {
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.get_ref().is_empty() || !name.get_ref().chars().all(letters) {
                let message = format!("a secret cannot be called {:?}", name.get_ref());
                let remedy = "write letters, digits and underscores";
                return Err(self.source.problem(name.span(), message, remedy));
            }
            let Some(value) = self.key(None, raw)? else {
                let message = format!("the secret {:?} has no value", name.get_ref());
                let remedy = "add env = \"THE_VARIABLE\" or file = \"the-file\"";
                return Err(self.source.problem(name.span(), message, remedy));
            };
            secrets.insert(name.into_inner(), value);
        }
        Ok(secrets)
    }

    /// The value from the variable, or else from the file. A variable that the operator chose by name must be set.
    pub(super) fn key(&self, usual: Option<&str>, raw: RawSecret) -> Result<Option<ConfigSecret>, Problem> {
        let chosen = self.in_file(raw.env)?;
        let name = chosen.as_ref().map(|chosen| chosen.value.as_str()).or(usual);
        if let Some((name, value)) = name.and_then(|name| Some((name, self.variable(name)?))) {
            return secret(Path::new(name), &value).map(Some);
        }
        if let Some(chosen) = self.in_file(raw.file)? {
            let path = Path::new(&chosen.value);
            let text = read_file(path, "create it, or correct the line that names it")?;
            return secret(path, &text).map(Some);
        }
        match chosen {
            Some(chosen) if Some(chosen.value.as_str()) != usual => {
                let message = format!("the environment variable {} is not set", chosen.value);
                Err(chosen.problem(message, "set it, or remove this line"))
            }
            _ => Ok(None),
        }
    }
}
