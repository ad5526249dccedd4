//! `server.public_url`, `server.base_path`, `server.trusted_proxies` and `server.allow_origins` as they are written, and the
//! way from there to checked values.

use std::net::IpAddr;

use app::Problem;
use app::source::Spanned;
use ipnet::IpNet;
use serde::Deserialize;
use server::{BasePath, Proxying, PublicUrl};

use super::{Chosen, ConfigReader, Origin};

const MAX_PUBLIC_URLS: usize = 16;
const MAX_TRUSTED_PROXIES: usize = 64;
const MAX_ALLOWED_ORIGINS: usize = 64;

/// A text or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(super) enum OneOrSeveral {
    One(String),
    Several(Vec<String>),
}

impl OneOrSeveral {
    pub(super) fn into_list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        }
    }
}

impl<'a> ConfigReader<'a> {
    pub(super) fn proxying(
        &self,
        public_url: Option<Spanned<OneOrSeveral>>,
        trusted_proxies: Option<Spanned<OneOrSeveral>>,
        allow_origins: Option<Spanned<OneOrSeveral>>,
        behind_proxy: Option<bool>,
    ) -> Result<Proxying, Problem> {
        let public = self.entries("RONDO_PUBLIC_URL", public_url, MAX_PUBLIC_URLS)?;
        let trusted = self.entries("RONDO_TRUSTED_PROXIES", trusted_proxies, MAX_TRUSTED_PROXIES)?;
        let allowed = self.entries("RONDO_ALLOW_ORIGINS", allow_origins, MAX_ALLOWED_ORIGINS)?;
        Ok(Proxying {
            behind_proxy: self.bool_setting("RONDO_BEHIND_PROXY", behind_proxy)?.unwrap_or_default(),
            allow_origins: allowed.iter().map(origin_of).collect::<Result<_, _>>()?,
            public_urls: public.iter().map(public_url_of).collect::<Result<_, _>>()?,
            trusted_proxies: trusted.iter().map(network).collect::<Result<_, _>>()?,
            base_path: None,
        })
    }

    /// The path below which browsers reach the server.
    pub(super) fn base_path(&self, in_file: Option<Spanned<String>>) -> Result<Option<BasePath>, Problem> {
        let Some(chosen) = self.choose("RONDO_BASE_PATH", in_file)? else { return Ok(None) };
        BasePath::parse(chosen.value.trim()).map(Some).map_err(|reason| {
            let message = format!("{:?} is not a path: {reason}", chosen.value);
            chosen.problem(message, "write the path at which the proxy serves Rondo, such as /agents")
        })
    }

    /// The entries of the variable, separated by commas, or else of the file.
    fn entries(
        &self,
        variable: &'a str,
        in_file: Option<Spanned<OneOrSeveral>>,
        most: usize,
    ) -> Result<Vec<Chosen<'a>>, Problem> {
        let mut entries = self.variable_entries(variable);
        if let Some(texts) = in_file.filter(|_| self.variable(variable).is_none()) {
            let span = texts.span();
            let chosen = |value| Chosen { value, origin: Origin::File(self.source, span.clone()) };
            entries.extend(texts.into_inner().into_list().into_iter().map(chosen));
        }
        match entries.get(most) {
            Some(entry) => Err(entry.problem(format!("there are more than {most} entries"), "remove some")),
            None => Ok(entries),
        }
    }
}

fn public_url_of(chosen: &Chosen<'_>) -> Result<PublicUrl, Problem> {
    PublicUrl::parse(chosen.value.trim()).map_err(|reason| {
        let message = format!("{:?} is not a web address: {reason}", chosen.value);
        chosen.problem(message, "write where browsers reach the proxy, such as https://agents.example")
    })
}

fn origin_of(chosen: &Chosen<'_>) -> Result<PublicUrl, Problem> {
    let text = chosen.value.trim();
    let origin = PublicUrl::parse(text).ok().filter(|url| url.is_origin_itself());
    origin.ok_or_else(|| {
        let message = format!("{text:?} is not an origin");
        chosen.problem(message, "write scheme, host and port only, such as https://app.example")
    })
}

fn network(chosen: &Chosen<'_>) -> Result<IpNet, Problem> {
    let text = chosen.value.trim();
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical())));
    let Ok(network) = network else {
        let message = format!("{text:?} is neither an IP address nor a network");
        return Err(chosen.problem(message, "write the proxy's address, such as 127.0.0.1 or 10.0.0.0/8"));
    };
    if network.prefix_len() == 0 {
        let message = format!("{text} is every address, so any client could claim another client's address");
        return Err(chosen.problem(message, "write only the addresses of your proxies"));
    }
    Ok(network)
}
