//! `rondo doctor`: what is configured, what can be reached, what is missing, and what to do about it.

mod database;
mod egress;
mod encryption;
mod issuers;
mod models;
mod nodes;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use app::{App, Apps};
use model::ModelRegistry;
use reqwest::StatusCode;
use tools::Catalog;

use crate::config::Config;
use crate::own_server::OwnServer;
use crate::{CommandResult, catalogue, discover, embedded_apps, http, model_limits, service_setup};

/// How long anything outside may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// One line of the report.
enum Diagnosis {
    Good(String),
    /// Works without it.
    Note(String),
    Bad(String),
}

pub(crate) async fn doctor(config: Config) -> CommandResult {
    let config = discover::complete(config).await;
    let from = config.file.as_ref().map_or_else(
        || "defaults and environment (`rondo config` prints a file to start from)".to_owned(),
        |file| file.display().to_string(),
    );
    let mut findings = vec![Diagnosis::Good(format!("configuration: {from}")), folder(&config.data)];
    findings.extend(database::check(&config));
    let (apps, of_apps) = find_apps(&config);
    findings.extend(of_apps);
    findings.extend(egress::check(&config, &apps).await);
    findings.extend(models::check(&config, &apps).await);
    findings.extend(models::catalogue_findings(&config, &apps, catalogue::today()));
    findings.extend(open_to_others(&config));
    findings.extend(encryption::check(&config));
    findings.extend(issuers::check(&config).await);
    findings.push(server(&config).await?);
    report(&findings)
}

/// A server that others reach starts only with a key.
fn open_to_others(config: &Config) -> Option<Diagnosis> {
    let is_open = !config.listen.ip().is_loopback() || config.server.proxying.is_for_others();
    let words = "other machines can reach this server, so it starts only if there is a key: `rondo keys \
        list` shows all keys, and `rondo keys add USER` makes one";
    is_open.then(|| Diagnosis::Note(words.to_owned()))
}

fn report(findings: &[Diagnosis]) -> CommandResult {
    let mut out = std::io::stdout().lock();
    let mut bad = 0;
    for finding in findings {
        match finding {
            Diagnosis::Good(text) => writeln!(out, "ok    {text}")?,
            Diagnosis::Note(text) => writeln!(out, "note  {text}")?,
            Diagnosis::Bad(text) => {
                bad += 1;
                writeln!(out, "BAD   {text}")?;
            }
        }
    }
    if bad == 0 { Ok(()) } else { Err(format!("{bad} of {} checks failed", findings.len()).into()) }
}

/// The room that a first start needs for the database and the built-in apps.
const NEEDED_BYTES: usize = 2 << 20;

/// Whether the folder can be written to, or made, has some room, and is closed to others. Nothing stays behind.
fn folder(data: &Path) -> Diagnosis {
    let shown = data.display();
    let there = data.is_dir();
    let probe = nearest_existing_folder(data).join(".rondo-doctor");
    let written = std::fs::write(&probe, vec![0; NEEDED_BYTES]);
    let removed = std::fs::remove_file(&probe);
    match written.and(removed) {
        Ok(()) if there => match store::sqlite::mode_for_others(data) {
            None => Diagnosis::Good(format!("data folder: {shown}")),
            Some(mode) => Diagnosis::Bad(format!(
                "data folder: {shown}: other users of this machine can read it (mode {mode:o}); run `chmod \
                 700 {shown}`"
            )),
        },
        Ok(()) => Diagnosis::Good(format!("data folder: {shown}, which is made at the first start")),
        Err(error) => {
            Diagnosis::Bad(format!("data folder: {shown}: {error}; choose another with RONDO_DATA"))
        }
    }
}

/// The folder itself, or the nearest one above it that is there.
fn nearest_existing_folder(data: &Path) -> &Path {
    let place = data.ancestors().find(|place| place.exists()).filter(|place| !place.as_os_str().is_empty());
    place.unwrap_or(Path::new("."))
}

/// The apps, and what is to say of them. Built-in apps are only named: to read them, they would have to be written first.
fn find_apps(config: &Config) -> (Apps, Vec<Diagnosis>) {
    if embedded_apps::are_used(config) {
        let (place, names) = (config.apps.display(), embedded_apps::names().join(", "));
        let text = format!(
            "apps: there is no folder {place}, so the built-in apps are served ({names}); `rondo init NAME` makes an app \
             of your own there"
        );
        return (Apps::new(), vec![Diagnosis::Note(text)]);
    }
    match app::load_all(&config.apps) {
        Ok(apps) => {
            let findings = check_apps(config, &apps);
            (apps, findings)
        }
        Err(problem) => (Apps::new(), vec![Diagnosis::Bad(format!("apps: {problem}"))]),
    }
}

fn check_apps(config: &Config, apps: &Apps) -> Vec<Diagnosis> {
    if apps.is_empty() {
        let place = config.apps.display();
        let text = format!("apps: there is no app in {place}; make one with `rondo init NAME`");
        return vec![Diagnosis::Bad(text)];
    }
    let catalog = match service_setup::catalog(config, apps) {
        Ok(catalog) => catalog,
        Err(trouble) => return vec![Diagnosis::Bad(format!("tools: {trouble}"))],
    };
    let models = service_setup::registry(config).unwrap_or_default(); // who cannot be asked is told of below
    apps.values().flat_map(|app| check_app(app, &catalog, &models)).collect()
}

fn check_app(app: &App, catalog: &Catalog, models: &ModelRegistry) -> Vec<Diagnosis> {
    let (tools, of_tools) = match catalog.registry(app, &[]) {
        Ok(tools) => (Some(tools), None),
        Err(problem) => (None, Some(problem)),
    };
    let first = match of_tools.or_else(|| service::model_problems(app, models).into_iter().next()) {
        None => Diagnosis::Good(format!("app {}: {}", app.id, app.name)),
        Some(problem) => Diagnosis::Bad(format!("app {}: {problem}", app.id)),
    };
    let learned = app::check_examples(app).map(|problem| problem.to_string());
    let off = tools.and_then(|tools| model_limits::app_note(app, &tools, models));
    let notes = learned.into_iter().chain(off).map(|note| Diagnosis::Note(format!("app {}: {note}", app.id)));
    std::iter::once(first).chain(notes).collect()
}

async fn server(config: &Config) -> CommandResult<Diagnosis> {
    let address = config.listen;
    let OwnServer { url, certificates } = OwnServer::of(config);
    let client = http::own_builder(&url, &certificates)?.timeout(PATIENCE).build()?;
    let answer = client.get(format!("{url}/readyz")).send().await;
    Ok(match answer.map(|response| response.status()) {
        Ok(StatusCode::OK) => Diagnosis::Good(format!("server: running on {address}")),
        Ok(StatusCode::SERVICE_UNAVAILABLE) => {
            Diagnosis::Note(format!("server: starting or stopping on {address}"))
        }
        Ok(status) => Diagnosis::Bad(format!(
            "server: another program uses {address} (it answers {status}); choose another address with \
             RONDO_LISTEN"
        )),
        Err(_) => Diagnosis::Note(format!("server: not running on {address}; start it with `rondo serve`")),
    })
}
