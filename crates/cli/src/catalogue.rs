//! What is known of models: the catalogue in the data folder if it is newer than the built-in one, what it says of models
//! that end, and `rondo models update`, which brings a newer one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use app::{ANY_MODEL, App, Apps};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::Catalogue;
use model::known_models::{CatalogueChange, MAX_CATALOGUE_BYTES, Retirement};
use protocol::{Clock, SystemClock};
use reqwest::Url;

use crate::config::Config;
use crate::{Trouble, cause, offers};

/// Its name in the data folder.
const FILE: &str = "catalogue.toml";
/// How long the whole catalogue may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// Changes that are told one by one.
const MAX_TOLD: usize = 100;
/// After so many days, a catalogue is said to be old.
const OLD_DAYS: i32 = 365;

const WHERE: &str = "say where the newer catalogue is: `rondo models update FILE`, or a URL that begins with https://; there \
                     is no public one yet, and docs/models.md says what it holds";

/// What is known of models, and from where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Knowledge {
    pub(crate) catalogue: Arc<Catalogue>,
    /// The file that it was read from; none if it is the built-in one.
    file: Option<PathBuf>,
    /// Why a file that is there is not used.
    pub(crate) problem: Option<String>,
}

impl Default for Knowledge {
    fn default() -> Self {
        Self { catalogue: Arc::new(Catalogue::built_in()), file: None, problem: None }
    }
}

impl Knowledge {
    /// The newer one of the catalogue in the data folder and the built-in one. A file that cannot be used is no reason
    /// not to start.
    pub(crate) fn of_folder(data: &Path) -> Self {
        let built_in = Self::default();
        let file = data.join(FILE);
        match read(&file) {
            Ok(None) => built_in,
            Ok(Some(catalogue)) if catalogue.checked_on > built_in.catalogue.checked_on => {
                Self { catalogue: Arc::new(catalogue), file: Some(file), problem: None }
            }
            Ok(Some(_)) => built_in,
            Err(reason) => {
                let problem = format!(
                    "{}: {reason}; the built-in catalogue is used until `rondo models update` brings another",
                    file.display()
                );
                Self { problem: Some(problem), ..built_in }
            }
        }
    }

    /// Which one it is, for people.
    pub(crate) fn origin(&self) -> String {
        let place =
            self.file.as_ref().map_or_else(|| "built in".to_owned(), |file| file.display().to_string());
        format!("as of {}, {place}", self.catalogue.checked_on)
    }

    /// Whether nobody has compared it with what providers say for long.
    pub(crate) fn is_old(&self, today: Date) -> bool {
        self.catalogue.checked_on.until(today).is_ok_and(|age| age.get_days() > OLD_DAYS)
    }
}

fn read(file: &Path) -> Result<Option<Catalogue>, String> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let text = bounded(opened)?;
    Catalogue::parse(&text).map(Some).map_err(|error| error.to_string())
}

/// As much of it as a catalogue may have, and a byte more, which the rules then find too long.
fn bounded(source: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = MAX_CATALOGUE_BYTES as u64 + 1;
    source.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}

/// The day it is.
pub(crate) fn today() -> Date {
    day(SystemClock.now())
}

fn day(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

/// The models that will be asked for and that have ended by `today`, or will soon.
pub(crate) fn ending(config: &Config, apps: &Apps, today: Date) -> Vec<Retirement> {
    let named = apps.values().flat_map(|app| named_by(app)).map(String::as_str);
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
pub(crate) fn named_by(app: &App) -> impl Iterator<Item = &String> {
    let background = app.history.summarise.as_ref().and_then(|how| how.model.as_ref());
    let memory = app.memory.extraction.as_ref().and_then(|how| how.model.as_ref());
    let personas = app.personas.values().filter_map(|persona| persona.settings.model.as_ref());
    let listed = app.models.iter().filter(|name| *name != ANY_MODEL);
    app.model.iter().chain(&app.fallbacks).chain(listed).chain(background).chain(memory).chain(personas)
}

/// Whether the model of this name ends. Of a server that is not the provider's own nobody knows.
pub(crate) fn end_of(config: &Config, name: &str, today: Date) -> Option<Retirement> {
    let (provider, id) =
        config.provider_of_model(name).filter(|(provider, _)| provider.is_at_its_own_url())?;
    let end = config.knowledge.catalogue.retirement(&provider.name, id, today)?;
    Some(Retirement { model: name.to_owned(), ..end })
}

/// Takes a newer catalogue into the data folder. Whatever is wrong with it, nothing has changed then.
pub(crate) async fn update(config: &Config, from: Option<&str>) -> Result<(), Trouble> {
    let from = from.ok_or(WHERE)?;
    let text = if from.contains("://") {
        fetched(from).await?
    } else {
        let file = File::open(from).map_err(|error| format!("{from}: {error}"))?;
        bounded(file).map_err(|reason| format!("{from}: {reason}"))?
    };
    let newer = Catalogue::parse(&text).map_err(|error| format!("{from}: {error}; nothing has changed"))?;
    let current = &config.knowledge.catalogue;
    if newer.checked_on <= current.checked_on {
        return Err(format!(
            "{from}: it is as of {}, and the one in use as of {}; nothing has changed",
            newer.checked_on, current.checked_on
        )
        .into());
    }
    if newer.checked_on > today().tomorrow().unwrap_or(Date::MAX) {
        return Err(format!(
            "{from}: it is as of {}, which is yet to come; nothing has changed",
            newer.checked_on
        )
        .into());
    }
    store(&config.data, &text)?;
    report(&current.changes(&newer), &newer)
}

/// Over https, or from this machine.
async fn fetched(from: &str) -> Result<String, Trouble> {
    let url = Url::parse(from).map_err(|error| format!("{from}: {error}"))?;
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here(&url)) {
        return Err(format!("{from}: give a URL that begins with https://, or a file").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not hold a user name or a password".into());
    }
    let unreachable = |error: reqwest::Error| format!("{from}: {}", cause(&error.without_url()));
    let client = offers::client(from, PATIENCE).map_err(unreachable)?;
    let mut response = client.get(url).send().await.map_err(unreachable)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(format!("{from}: it redirects elsewhere ({status}); give that URL").into());
    }
    if !status.is_success() {
        return Err(format!("{from}: it answers {status}; is the URL right?").into());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_CATALOGUE_BYTES {
            return Err(format!("{from}: it is longer than {MAX_CATALOGUE_BYTES} bytes").into());
        }
    }
    Ok(String::from_utf8(bytes).map_err(|_| format!("{from}: it is not text"))?)
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Written beside, and then put into its place: there as a whole or not at all.
fn store(data: &Path, text: &str) -> Result<(), Trouble> {
    let trouble =
        |error: std::io::Error| format!("{}: {error}; choose another with RONDO_DATA", data.display());
    let write = || {
        store::sqlite::make_private_folder(data)?;
        let beside = data.join(format!("{FILE}.{}.new", std::process::id()));
        let new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let written = new.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, data.join(FILE))
        });
        if written.is_err() {
            let _ = fs::remove_file(&beside); // half a file is of no use to anybody
        }
        written?;
        File::open(data)?.sync_all()
    };
    Ok(write().map_err(trouble)?)
}

fn report(changes: &[CatalogueChange], newer: &Catalogue) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    for change in changes.iter().take(MAX_TOLD) {
        writeln!(out, "{change}")?;
    }
    if let Some(more) = changes.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
        writeln!(out, "and {more} more")?;
    }
    writeln!(
        out,
        "the catalogue is now as of {}, from {}; a server uses it from its next start on",
        newer.checked_on, newer.source
    )?;
    Ok(())
}
