//! `rondo apps`: which apps there are, and everything that is wrong with them.

mod learn;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use app::{App, Apps, Problem, Webhook};
use clap::Subcommand;
use model::ModelRegistry;
use serde_json::{Value, json};

use crate::config::{self, Config};
use crate::terminal_text::{columns, printable};
use crate::{CommandResult, catalogue, discover, embedded_apps, print, service_setup};

#[derive(Subcommand)]
pub(crate) enum AppsCommand {
    /// List the apps of the apps folder
    List,
    /// Check the apps, and print every problem with its file, line and remedy; the exit code is 1 if there is a problem
    Check {
        /// The app; the default is all apps
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Train the classifier that chooses the sections of an app from its examples, and print its accuracy
    Learn {
        /// The app
        name: String,
    },
}

/// One app folder, checked.
struct Found {
    id: String,
    app: Option<Arc<App>>,
    problems: Vec<Problem>,
}

pub(crate) async fn apps(config: Config, command: AppsCommand) -> CommandResult {
    match command {
        AppsCommand::List => list(&config),
        AppsCommand::Check { name, json } => {
            let config = discover::complete(config).await;
            check(&config, name.as_deref(), json).await
        }
        AppsCommand::Learn { name } if embedded_apps::are_used(&config) => Err(format!(
            "built-in apps cannot be changed; copy the app first with `rondo init --from {name}`"
        )
        .into()),
        AppsCommand::Learn { name } => {
            let config = discover::complete(config).await;
            let folder = choose_folders(&config, Some(&name))?.into_iter().next().unwrap_or_default();
            learn::learn(&config, &folder).await
        }
    }
}

fn list(config: &Config) -> CommandResult {
    let row = |folder: &PathBuf| {
        let Found { id, app, .. } = check_folder(folder);
        match app {
            Some(app) => {
                vec![id, printable(&app.name).into_owned(), printable(&app.description).into_owned()]
            }
            None => {
                let remedy = format!("see `rondo apps check {id}`");
                vec![id, "BROKEN".to_owned(), remedy]
            }
        }
    };
    let rows: Vec<Vec<String>> =
        app::folders(&embedded_apps::apps_folder(config)?)?.iter().map(row).collect();
    print(&columns(&rows))
}

async fn check(config: &Config, name: Option<&str>, as_json: bool) -> CommandResult {
    let all: Vec<Found> = choose_folders(config, name)?.iter().map(|folder| check_folder(folder)).collect();
    let mut all = with_surroundings(config, all)?;
    let extractor = service_setup::extractor();
    for Found { app, problems, .. } in &mut all {
        if let Some(app) = app {
            problems.extend(service::knowledge_problems(app, &*extractor).await);
        }
    }
    let mut out = std::io::stdout().lock();
    if as_json {
        let app = |Found { id, problems, .. }: &Found| json!({ "id": id, "ok": problems.is_empty(), "problems": problems });
        let apps: Vec<Value> = all.iter().map(app).collect();
        writeln!(out, "{}", json!({ "apps": apps }))?;
    } else {
        for Found { id, problems, .. } in &all {
            if problems.is_empty() {
                writeln!(out, "ok    {id}")?;
            }
            for problem in problems {
                writeln!(out, "BAD   {id}: {}", printable(&problem.to_string()))?;
            }
        }
    }
    match all.iter().map(|found| found.problems.len()).sum::<usize>() {
        0 => Ok(()),
        1 => Err("1 problem was found".into()),
        count => Err(format!("{count} problems were found").into()),
    }
}

/// The folders to look at.
fn choose_folders(config: &Config, name: Option<&str>) -> CommandResult<Vec<PathBuf>> {
    let folders = app::folders(&embedded_apps::apps_folder(config)?)?;
    let Some(name) = name else { return Ok(folders) };
    let one: Vec<PathBuf> = folders.iter().filter(|folder| id(folder) == name).cloned().collect();
    if one.is_empty() {
        let names: Vec<String> = folders.iter().map(|folder| id(folder)).collect();
        let place = config.apps.display();
        return Err(format!("there is no app {name:?} in {place}; there are: {}", names.join(", ")).into());
    }
    Ok(one)
}

fn check_folder(folder: &Path) -> Found {
    let (app, problems) = match app::check(folder) {
        Ok(app) => (Some(Arc::new(app)), Vec::new()),
        Err(problems) => (None, problems),
    };
    Found { id: id(folder), app, problems }
}

fn id(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Adds what only the server's surroundings show: tools and models that are not there, and models that the app may not use.
fn with_surroundings(config: &Config, mut all: Vec<Found>) -> CommandResult<Vec<Found>> {
    let good: Apps =
        all.iter().filter_map(|found| found.app.clone()).map(|app| (app.id.clone(), app)).collect();
    let (catalog, models) = (service_setup::catalog(config, &good)?, service_setup::registry(config)?);
    let (secrets, _) = config.outside.secrets_for(&good, &config::process_environment)?;
    for found in &mut all {
        let Some(app) = &found.app else { continue };
        found.problems.extend(app.webhooks.iter().filter_map(|webhook| webhook_problem(webhook, &secrets)));
        found.problems.extend(catalog.registry(app, &[]).err());
        found.problems.extend(unknown_models(app, &models));
        found.problems.extend(service::model_problems(app, &models));
        found.problems.extend(app::check_examples(app));
    }
    Ok(all)
}

/// Why messages of a webhook could not be signed.
fn webhook_problem(webhook: &Webhook, secrets: &BTreeMap<String, String>) -> Option<Problem> {
    let Webhook { name, secret, .. } = webhook;
    let remedy = format!(
        "set RONDO_SECRET_{} to whsec_ and a key in base64, or add [secrets.{secret}] to rondo.toml",
        secret.to_uppercase()
    );
    match secrets.get(secret) {
        Some(value) if value.starts_with("whsec_") => None,
        Some(_) => Some(name.problem(format!("the secret {secret:?} does not begin with whsec_"), remedy)),
        None => Some(name.problem(format!("the secret {secret:?} is not set"), remedy)),
    }
}

fn unknown_models(app: &App, models: &ModelRegistry) -> Vec<Problem> {
    if models.is_empty() {
        return Vec::new(); // no model is set up; `rondo doctor` says so
    }
    let toml = app.folder.join("app.toml");
    let in_toml = catalogue::models_in_toml(app).map(|model| (toml.clone(), model));
    let in_personas = app.personas.iter().filter_map(|(id, persona)| {
        Some((app.folder.join(format!("personas/{id}.md")), persona.settings.model.as_ref()?))
    });
    let known: Vec<&str> = models.list().map(|model| model.name()).collect();
    let remedy = format!("use one of {}, or add it to rondo.toml", known.join(", "));
    let unknown = in_toml.chain(in_personas).filter(|(_, model)| models.find(model).is_none());
    unknown
        .map(|(file, model)| Problem {
            line: line_of(&file, model),
            ..Problem::of(&file, format!("no provider serves the model {model:?}"), remedy.clone())
        })
        .collect()
}

/// The first line, from 1, that says so.
fn line_of(file: &Path, words: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let says = |line: &str| !line.trim_start().starts_with('#') && line.contains(words);
    text.lines().position(says).map(|index| index + 1)
}
