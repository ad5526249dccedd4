//! `/` for somebody who opens the server's address in a browser: a static page that says which apps there are and how to
//! send a message. It has no script, loads nothing, and names nothing that its reader may not see.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{AppId, AppView, ModelView, Principal};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Api;
use crate::auth::is_secure;
use crate::error::ApiProblem;

const TEMPLATE: &str = include_str!("home.html");

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The provider of models that run in this process.
const LOCAL: &str = "local";

/// Tools of an app that the page names at most.
const MAX_NAMED_TOOLS: usize = 5;

/// The app in the example of a reader who may see none.
const ANY_APP: &str = "APP";

const KEY_NEEDED: &str = "<p>This server needs an API key or a JWT. Send it as <code>Authorization: Bearer …</code> with every \
    request; <code>rondo keys add USER</code> makes a key. <code>/v1/apps</code> lists your apps.</p>";

/// A request for the page. It may come without a key.
pub(super) struct HomeVisit {
    /// Nobody without a valid key, where one is needed.
    principal: Option<Principal>,
    headers: HeaderMap,
    is_secure: bool,
}

impl FromRequestParts<Api> for HomeVisit {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let principal = Principal::from_request_parts(parts, api).await.ok();
        Ok(Self { principal, headers: parts.headers.clone(), is_secure: is_secure(api, parts) })
    }
}

/// The page, or a short JSON object for who accepts no page.
pub(super) async fn home(State(api): State<Api>, visit: HomeVisit) -> Response {
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    if wants_json(&visit.headers) {
        let body = json!({ "name": "Rondo", "version": VERSION, "openapi": "/openapi.json" });
        return (no_store, Json(body)).into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, content_policy()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin".to_owned()),
    ];
    (no_store, headers, page(&api, &visit)).into_response()
}

/// Nothing at all: browsers ask for it beside every page.
pub(super) async fn favicon() -> StatusCode {
    StatusCode::NO_CONTENT
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("application/json") && !accepted.contains("text/html") && !accepted.contains("*/*")
}

/// Nothing may be loaded or run, and the page's own style is known by its hash.
fn content_policy() -> String {
    let style = TEMPLATE.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    let hash = STANDARD.encode(Sha256::digest(style.map_or("", |(style, _)| style).as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

fn page(api: &Api, visit: &HomeVisit) -> String {
    let (mut apps, models) = (api.service.apps(), api.service.models());
    apps.retain(|app| {
        visit.principal.as_ref().is_some_and(|principal| principal.may_use(&AppId::new(app.id.as_str())))
    });
    let needs_key = visit.principal.is_none() || api.service.has_keys();
    let names: Vec<String> = apps.iter().map(|app| app.id.clone()).collect();
    let usual = service::default_app(api.chat_app.as_deref(), &names)
        .filter(|app| names.iter().any(|name| name == app));
    let example = usual.or(names.first().map(String::as_str)).unwrap_or(ANY_APP);
    let list: String = apps.iter().map(|app| entry(app, &models)).collect();
    let list = match (&visit.principal, list.as_str()) {
        (None, _) => String::new(),
        (Some(_), "") => "<p>There is no app yet; <code>rondo init NAME</code> makes one.</p>".to_owned(),
        (Some(_), list) => format!("<h2>Apps</h2>\n<dl>\n{list}</dl>"),
    };
    let curl = escape(&curl(&base_url(api, visit), example, needs_key));
    let key = if needs_key { KEY_NEEDED } else { "" };
    fill(TEMPLATE, &[("version", VERSION), ("apps", &list), ("curl", &curl), ("key", key)])
}

fn entry(app: &AppView, models: &[ModelView]) -> String {
    let (id, name) = (escape(&app.id), escape(&app.name));
    let (description, model) = (escape(&app.description), escape(&model_note(app, models)));
    format!("<dt>{name} <small>{id}</small></dt>\n<dd>{description}</dd>\n<dd><small>{model}</small></dd>\n")
}

/// The model that answers, and what it is not offered.
fn model_note(app: &AppView, models: &[ModelView]) -> String {
    let Some(name) = &app.model else {
        return "No model is configured, so it cannot answer; `rondo doctor` says what to set.".to_owned();
    };
    let model = models.iter().find(|model| model.id == *name);
    let kind = match model {
        Some(model) if model.provider == LOCAL => "the local model ",
        Some(_) | None => "",
    };
    let mut note = format!("Answers with {kind}{name}.");
    if model.is_some_and(|model| !model.tools) && !app.tools.is_empty() {
        note += " This model is not offered the tools of the app, so it cannot use them: ";
        note += &app.tools.iter().take(MAX_NAMED_TOOLS).map(String::as_str).collect::<Vec<_>>().join(", ");
        match app.tools.len().saturating_sub(MAX_NAMED_TOOLS) {
            0 => note.push('.'),
            more => note += &format!(" and {more} more."),
        }
    }
    note
}

fn curl(base: &str, app: &str, needs_key: bool) -> String {
    let key = if needs_key { " \\\n  -H 'Authorization: Bearer YOUR_KEY'" } else { "" };
    format!(
        "curl -N {base}/v1/apps/{app}/runs{key} \\\n  -H 'Content-Type: application/json' \\\n  \
         -d '{{\"message\": \"Hello\"}}'"
    )
}

/// The address by which the reader came. A name with characters that mean something to a shell is left out.
fn base_url(api: &Api, visit: &HomeVisit) -> String {
    let host = visit.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Some(url) = api.proxying.public_urls.iter().find(|_| api.proxying.is_host(host)) {
        return url.to_string();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
    let known = host.parse::<Authority>().is_ok_and(|authority| authority.as_str().chars().all(is_plain));
    let scheme = if visit.is_secure { "https" } else { "http" };
    format!("{scheme}://{}", if known { host } else { "localhost" })
}

/// The template with a value for each `{{name}}`. Values are not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for (name, rest) in parts.filter_map(|part| part.split_once("}}")) {
        page += values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
        page += rest;
    }
    page
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(model: Option<&str>, tools: &[&str]) -> AppView {
        AppView {
            id: "garden".into(),
            name: "Garden".into(),
            description: String::new(),
            model: model.map(Into::into),
            models: Vec::new(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            problem: None,
        }
    }

    fn small(provider: &str) -> ModelView {
        ModelView {
            id: "small".into(),
            provider: provider.into(),
            kind: "local".into(),
            default: true,
            streaming: true,
            tools: false,
            structured: "none".into(),
            vision: false,
            context_window: 2048,
            max_output: Some(400),
            price: None,
            available: true,
        }
    }

    #[test]
    fn a_local_model_is_named_with_the_first_tools_it_does_not_get() {
        let note = model_note(&app(Some("small"), &["addPlant", "listPlants"]), &[small(LOCAL)]);
        let expected = "Answers with the local model small. This model is not offered the tools of the app, \
                        so it cannot use them: addPlant, listPlants.";
        assert_eq!(note, expected);
        let note = model_note(&app(Some("small"), &["a", "b", "c", "d", "e", "f", "g"]), &[small(LOCAL)]);
        assert!(note.ends_with(": a, b, c, d, e and 2 more."), "{note}");
        let other = model_note(&app(Some("small"), &[]), &[small("ollama")]);
        assert_eq!(other, "Answers with small.");
        assert!(model_note(&app(None, &[]), &[]).contains("rondo doctor"));
    }

    #[test]
    fn values_are_put_in_once_and_as_text() {
        assert_eq!(fill("a {{x}} {{y}}{{z}} b", &[("x", "{{y}}"), ("y", "2")]), "a {{y}} 2 b");
        assert_eq!(escape(r#"<a href="x">'&"#), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }
}
