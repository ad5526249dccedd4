//! `rondo doctor`: what is configured, what can be reached, what is missing, and what to do about it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use app::{App, Apps};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;

use crate::config::{Config, OpenAi};
use crate::{Trouble, cause};

/// How long anything outside may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Model names listed when the one asked for is not among them.
const MAX_NAMES: usize = 8;

/// One line of the report.
enum Finding {
    Good(String),
    /// Works without it.
    Note(String),
    Bad(String),
}

pub(crate) async fn doctor(config: Config) -> Result<(), Trouble> {
    let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let from = config.file.as_ref().map_or_else(
        || "defaults and environment (`rondo config` prints a file to start from)".to_owned(),
        |file| file.display().to_string(),
    );
    let mut findings = vec![Finding::Good(format!("configuration: {from}")), folder(&config.data)];
    let apps = match app::load_all(&config.apps) {
        Ok(apps) => {
            findings.extend(check_apps(&config, &apps));
            apps
        }
        Err(problem) => {
            findings.push(Finding::Bad(format!("apps: {problem}")));
            Apps::new()
        }
    };
    findings.push(model(&config, &apps, &client).await);
    findings.push(server(&config, &client).await);
    report(&findings)
}

fn report(findings: &[Finding]) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    let mut bad = 0;
    for finding in findings {
        match finding {
            Finding::Good(text) => writeln!(out, "ok    {text}")?,
            Finding::Note(text) => writeln!(out, "note  {text}")?,
            Finding::Bad(text) => {
                bad += 1;
                writeln!(out, "BAD   {text}")?;
            }
        }
    }
    if bad == 0 { Ok(()) } else { Err(format!("{bad} of {} checks failed", findings.len()).into()) }
}

/// Whether the folder can be written to, or made. Nothing stays behind.
fn folder(data: &Path) -> Finding {
    let shown = data.display();
    let there = data.is_dir();
    let place = data.ancestors().find(|place| place.exists()).filter(|place| !place.as_os_str().is_empty());
    let probe = place.unwrap_or(Path::new(".")).join(".rondo-doctor");
    match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) if there => Finding::Good(format!("data folder: {shown}")),
        Ok(()) => Finding::Good(format!("data folder: {shown}, which the first start makes")),
        Err(error) => Finding::Bad(format!("data folder: {shown}: {error}; choose another with RONDO_DATA")),
    }
}

fn check_apps(config: &Config, apps: &Apps) -> Vec<Finding> {
    if apps.is_empty() {
        let place = config.apps.display();
        let text = format!("apps: there is none in {place}; add a folder with app.toml and instructions.md");
        return vec![Finding::Bad(text)];
    }
    let catalog = tools::Catalog::builtin(Arc::new(protocol::SystemClock));
    let check = |app: &Arc<App>| match catalog.registry(app) {
        Ok(_) => Finding::Good(format!("app {}: {}", app.id, app.name)),
        Err(problem) => Finding::Bad(format!("app {}: {problem}", app.id)),
    };
    apps.values().map(check).collect()
}

async fn model(config: &Config, apps: &Apps, client: &Client) -> Finding {
    let Some(openai) = &config.openai else {
        let remedy = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server that speaks the same API";
        return Finding::Bad(format!("model: none is configured; {remedy}"));
    };
    let base = &openai.base_url;
    let wanted = wanted(config, apps);
    let names = Vec::from_iter(wanted.iter().copied()).join(", ");
    match ask(openai, client).await {
        Ok(response) if response.status().is_success() => offered(&wanted, response, base).await,
        Ok(response) if is_refusal(response.status()) && openai.api_key.is_some() => {
            let remedy = "check OPENAI_API_KEY, or what rondo.toml names in its place";
            Finding::Bad(format!("model: {base} refused the key ({}); {remedy}", response.status()))
        }
        Ok(response) if is_refusal(response.status()) => {
            Finding::Bad(format!("model: {base} asks for a key ({}); set OPENAI_API_KEY", response.status()))
        }
        Ok(response) => {
            let status = response.status();
            Finding::Note(format!("model: {names} at {base}, which does not list its models ({status})"))
        }
        Err(error) => {
            let remedy = "is it running, and is OPENAI_BASE_URL right?";
            Finding::Bad(format!("model: {base} cannot be reached ({}); {remedy}", cause(&error)))
        }
    }
}

/// The models that apps will ask for.
fn wanted<'a>(config: &'a Config, apps: &'a Apps) -> BTreeSet<&'a str> {
    let default = config.model.as_deref();
    let of_apps = apps.values().filter_map(|app| app.model.as_deref().or(default));
    let wanted: BTreeSet<&str> = of_apps.collect();
    if wanted.is_empty() { default.into_iter().collect() } else { wanted }
}

fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Compares with the provider's list, which need not be complete.
async fn offered(wanted: &BTreeSet<&str>, response: Response, base: &str) -> Finding {
    let list: Value = response.json().await.unwrap_or_default();
    let listed = list.get("data").and_then(Value::as_array).into_iter().flatten();
    let listed: Vec<&str> = listed.filter_map(|model| model.get("id")?.as_str()).collect();
    let missing: Vec<&str> = wanted.iter().copied().filter(|name| !listed.contains(name)).collect();
    if listed.is_empty() || missing.is_empty() {
        let names = Vec::from_iter(wanted.iter().copied()).join(", ");
        return Finding::Good(format!("model: {names} at {base}"));
    }
    let some = listed.iter().copied().take(MAX_NAMES).collect::<Vec<_>>().join(", ");
    let more = if listed.len() > MAX_NAMES { ", …" } else { "" };
    let remedy = "choose one of them with RONDO_MODEL if it does not answer";
    Finding::Note(format!("model: {base} does not list {}, but {some}{more}; {remedy}", missing.join(", ")))
}

async fn ask(openai: &OpenAi, client: &Client) -> Result<Response, reqwest::Error> {
    let mut request = client.get(format!("{}/models", openai.base_url));
    if let Some(key) = &openai.api_key {
        request = request.bearer_auth(key.expose());
    }
    request.send().await
}

async fn server(config: &Config, client: &Client) -> Finding {
    let address = config.listen;
    match client.get(format!("http://{address}/readyz")).send().await.map(|response| response.status()) {
        Ok(StatusCode::OK) => Finding::Good(format!("server: running on {address}")),
        Ok(StatusCode::SERVICE_UNAVAILABLE) => {
            Finding::Note(format!("server: starting or stopping on {address}"))
        }
        Ok(status) => Finding::Bad(format!(
            "server: another program has {address} (it answers {status}); choose another address with RONDO_LISTEN"
        )),
        Err(_) => Finding::Note(format!("server: not running on {address}; start it with `rondo serve`")),
    }
}
