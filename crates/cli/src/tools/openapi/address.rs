//! The addresses of the operations of a description: its servers, or the address that was given instead.

use reqwest::Url;
use serde_json::Value;

use super::document::OpenApiDocument;
use super::words;

/// Variables of one server's address.
const MAX_VARIABLES: usize = 20;

/// The URL that an operation's path is added to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseAddress {
    pub(super) url: String,
    /// Scheme, host and port.
    pub(super) origin: String,
    /// The prefix of the names of secrets that are sent there.
    pub(super) owner: String,
}

impl BaseAddress {
    pub(super) fn new(url: &str, owner: Option<&str>) -> Result<Self, String> {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some((parsed, host)) = parsed.as_ref().and_then(|url| Some((url, url.host_str()?))) else {
            return Err(format!("the server's address is {url:?}; give the whole one with --base-url URL"));
        };
        if parsed.query().is_some() || parsed.fragment().is_some() || url.contains(['{', '}']) {
            return Err(format!(
                "the server's address {url:?} has more than a path; give another with --base-url URL"
            ));
        }
        let owner = words::variable(owner.unwrap_or(host)).to_lowercase();
        Ok(Self { url: url.to_owned(), origin: parsed.origin().ascii_serialization(), owner })
    }
}

/// The first server of the operation, of its path or of the description, whichever says one first.
pub(super) fn server(document: &OpenApiDocument, item: &Value, operation: &Value) -> String {
    let of = |value: Option<&Value>| value.and_then(|servers| servers.get(0)).cloned();
    let server = of(operation.get("servers"))
        .or_else(|| of(item.get("servers")))
        .or_else(|| of(document.get("servers")));
    let Some(server) = server else { return "/".into() };
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or("/").to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten().take(MAX_VARIABLES) {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), default);
    }
    url
}
