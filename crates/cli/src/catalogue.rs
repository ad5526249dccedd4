//! Models that end, as the catalogue says, and `rondo models update`, which brings a newer catalogue.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use app::{ANY_MODEL, App, Apps};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::Catalogue;
use model::known_models::{CatalogueChange, MAX_CATALOGUE_BYTES, Retirement};
use protocol::{Clock, SystemClock};
use reqwest::Url;

use crate::config::{Config, is_loopback};
use crate::model_knowledge::{CATALOGUE_FILE, read_catalogue};
use crate::replace_file::{PRIVATE, replace_file};
use crate::terminal_text::first_lines;
use crate::{CommandResult, cause, http};

/// How long the whole catalogue may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// Changes that are told one by one.
const MAX_TOLD: usize = 100;

const WHERE: &str = "name the newer catalogue: `rondo models update FILE`, or a URL that begins with \
    https://; there is no public catalogue yet, and docs/models.md describes the format";

/// The day it is.
pub(crate) fn today() -> Date {
    SystemClock.now().to_zoned(TimeZone::UTC).date()
}

/// The models that will be asked for and that have ended by `today`, or will soon.
pub(crate) fn ending_models(config: &Config, apps: &Apps, today: Date) -> Vec<Retirement> {
    let named = apps.values().flat_map(|app| models_of_app(app)).map(String::as_str);
    let names: BTreeSet<&str> = named.chain(config.model.as_deref()).collect();
    let mut ending: Vec<_> = names.into_iter().filter_map(|name| end_of(config, name, today)).collect();
    let vectors = config.embeddings.as_ref().and_then(|embeddings| {
        let provider =
            config.provider(&embeddings.provider).filter(|provider| provider.is_at_its_own_url())?;
        config.knowledge.catalogue.retirement(&provider.name, &embeddings.model, today)
    });
    ending.extend(vectors);
    ending
}

/// Every model that an app names.
pub(crate) fn models_of_app(app: &App) -> impl Iterator<Item = &String> {
    let personas = app.personas.values().filter_map(|persona| persona.settings.model.as_ref());
    models_in_toml(app).chain(personas)
}

/// Every model that an app names in its `app.toml`.
pub(crate) fn models_in_toml(app: &App) -> impl Iterator<Item = &String> {
    let memory = app.memory.extraction.as_ref().and_then(|how| how.model.as_ref());
    let background = app.history.summarise.as_ref().and_then(|how| how.model.as_ref());
    let listed = app.models.iter().filter(|name| *name != ANY_MODEL);
    app.model.iter().chain(&app.fallbacks).chain(listed).chain(memory).chain(background)
}

/// Whether the model of this name ends. None for a server that is not the provider's own, because its models are not
/// known.
pub(crate) fn end_of(config: &Config, name: &str, today: Date) -> Option<Retirement> {
    let (provider, id) =
        config.provider_of_model(name).filter(|(provider, _)| provider.is_at_its_own_url())?;
    let end = config.knowledge.catalogue.retirement(&provider.name, id, today)?;
    Some(Retirement { model: name.to_owned(), ..end })
}

/// Takes a newer catalogue into the data folder. An error of any kind leaves all as it was.
pub(crate) async fn update(config: &Config, from: Option<&str>) -> CommandResult {
    let from = from.ok_or(WHERE)?;
    let text = if from.contains("://") {
        fetch_catalogue(from).await?
    } else {
        let file = File::open(from).map_err(|error| format!("{from}: {error}"))?;
        read_catalogue(file).map_err(|reason| format!("{from}: {reason}"))?
    };
    let newer = Catalogue::parse(&text).map_err(|error| format!("{from}: {error}; nothing was changed"))?;
    let current = &config.knowledge.catalogue;
    if newer.checked_on <= current.checked_on {
        return Err(format!(
            "{from}: its date is {}, and the catalogue in use has the date {}; nothing was changed",
            newer.checked_on, current.checked_on
        )
        .into());
    }
    if newer.checked_on > today().tomorrow().unwrap_or(Date::MAX) {
        return Err(
            format!("{from}: its date, {}, is in the future; nothing was changed", newer.checked_on).into()
        );
    }
    store(&config.data, &text)?;
    report(&current.changes(&newer), &newer)
}

/// Over https, or from this machine.
async fn fetch_catalogue(from: &str) -> CommandResult<String> {
    let url = Url::parse(from).map_err(|error| format!("{from}: {error}"))?;
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(from)) {
        return Err(format!("{from}: give a URL that begins with https://, or a file").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not hold a user name or a password".into());
    }
    let unreachable = |error: reqwest::Error| format!("{from}: {}", cause(&error.without_url()));
    let client = http::client(from, PATIENCE).map_err(unreachable)?;
    let response = client.get(url).send().await.map_err(unreachable)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(
            format!("{from}: it answers with a redirect ({status}); give the URL of the target").into()
        );
    }
    if !status.is_success() {
        return Err(format!("{from}: it answers {status}; is the URL right?").into());
    }
    let bytes = http::read_body(response, MAX_CATALOGUE_BYTES).await.map_err(unreachable)?;
    let bytes = bytes.ok_or_else(|| format!("{from}: it is longer than {MAX_CATALOGUE_BYTES} bytes"))?;
    Ok(String::from_utf8(bytes).map_err(|_| format!("{from}: it is not text"))?)
}

fn store(data: &Path, text: &str) -> CommandResult {
    let trouble =
        |error: std::io::Error| format!("{}: {error}; choose another with RONDO_DATA", data.display());
    let made = store::sqlite::make_private_folder(data);
    let written = made.and_then(|()| replace_file(&data.join(CATALOGUE_FILE), text.as_bytes(), PRIVATE));
    Ok(written.map_err(trouble)?)
}

fn report(changes: &[CatalogueChange], newer: &Catalogue) -> CommandResult {
    let mut out = std::io::stdout().lock();
    for line in first_lines(changes.iter().map(ToString::to_string).collect(), MAX_TOLD) {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "the catalogue in use now has the date {}, from {}; a running server uses it after a restart",
        newer.checked_on, newer.source
    )?;
    Ok(())
}
