//! How an operation is authorised: which secrets it needs, and where they are sent.

use serde_json::{Map, Value};

use super::document::OpenApiDocument;
use super::words;

/// Headers that say how a message is sent or what it is.
const OWN_HEADERS: &[&str] = &["host", "content-length", "content-type", "transfer-encoding", "connection"];

/// A secret, and the place in a request that it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credential {
    /// The secret's name.
    pub(super) name: String,
    /// The template of its value.
    pub(super) holds: String,
    pub(super) place: CredentialLocation,
    /// The name there, and the template of the value.
    pub(super) entry: (String, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialLocation {
    Header,
    Query,
}

/// The credentials of the first way to be authorised that can be declared; none where none is needed. Secrets are called
/// by where they go, so that no description can ask for those of another service.
pub(super) fn credentials(
    document: &OpenApiDocument,
    operation: &Value,
    owner: &str,
) -> Result<Vec<Credential>, String> {
    let ways = operation.get("security").or_else(|| document.get("security")).and_then(Value::as_array);
    let ways: Vec<&Map<String, Value>> = ways.into_iter().flatten().filter_map(Value::as_object).collect();
    if ways.is_empty() || ways.iter().any(|way| way.is_empty()) {
        return Ok(Vec::new());
    }
    let mut reason = String::new();
    for way in ways {
        let taken: Result<Vec<Credential>, String> =
            way.keys().map(|scheme| credential(document, scheme, owner)).collect();
        match taken {
            Ok(taken) if is_one_each(&taken) => return Ok(taken),
            Ok(_) => reason = "two of its secrets go to the same place".into(),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

fn is_one_each(taken: &[Credential]) -> bool {
    let place = |Credential { place, entry: (name, _), .. }: &Credential| match place {
        CredentialLocation::Header => format!("header {}", name.to_ascii_lowercase()),
        CredentialLocation::Query => format!("query {name}"),
    };
    let mut places: Vec<String> = taken.iter().map(place).collect();
    places.sort_unstable();
    places.dedup();
    places.len() == taken.len()
}

fn credential(document: &OpenApiDocument, scheme: &str, owner: &str) -> Result<Credential, String> {
    let schemes = document.get("components").and_then(|components| components.get("securitySchemes"));
    let Some(raw) = schemes.and_then(|schemes| schemes.get(scheme)) else {
        return Err(format!("the security scheme {scheme:?} is not in the description"));
    };
    let raw = document.follow(raw)?;
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = words::variable(&format!("{owner}_{scheme}")).to_lowercase();
    let header = |name: &str, value: String| (CredentialLocation::Header, (name.to_owned(), value));
    let secret = format!("{{{{ secret.{name} }}}}");
    let is_token = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    let is_own = |text: &str| OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(text));
    let (kind, of, key) = (text("type"), text("scheme").to_ascii_lowercase(), text("name"));
    let holds_key = format!("the value of {key}");
    let (holds, (place, entry)) = match (kind, of.as_str(), text("in")) {
        ("http", "bearer", _) => ("a token".to_owned(), header("Authorization", format!("Bearer {secret}"))),
        ("http", "basic", _) => {
            let holds = "\"user:password\" in base64 (printf 'user:password' | base64)".to_owned();
            (holds, header("Authorization", format!("Basic {secret}")))
        }
        ("oauth2" | "openIdConnect", _, _) => {
            ("an access token".to_owned(), header("Authorization", format!("Bearer {secret}")))
        }
        ("apiKey", _, "query") if is_token(key) => {
            (holds_key, (CredentialLocation::Query, (key.to_owned(), secret)))
        }
        ("apiKey", _, "cookie") if is_token(key) => (holds_key, header("Cookie", format!("{key}={secret}"))),
        ("apiKey", _, "header") if is_token(key) && !is_own(key) => (holds_key, header(key, secret)),
        _ => return Err(format!("it is authorised by {scheme:?} ({kind} {of}), which cannot be declared")),
    };
    Ok(Credential { name, holds, place, entry })
}
