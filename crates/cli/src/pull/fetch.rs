//! One file from the network to the disk. Bytes that have arrived stay there, and the next try goes on behind them.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use reqwest::{Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::PullError;
use super::progress::{Progress, say};
use super::request::{ask, without_secrets};
use crate::cause;

/// The largest file that is taken.
pub(super) const MAX_BYTES: u64 = 20_000_000_000;
/// How often a download that breaks off is gone on with, as long as each try brings something.
const MAX_TRIES: usize = 5;
const MAX_NOTE_BYTES: u64 = 64 << 10;
const READ_BYTES: usize = 1 << 20;

/// A file to download.
pub(super) struct Download<'a> {
    pub(super) url: &'a Url,
    pub(super) path: &'a Path,
    /// Beats what the server says.
    pub(super) sha256: Option<&'a str>,
    /// The text beside the progress.
    pub(super) label: &'a str,
    /// The place of a file that is one of several.
    pub(super) among: Option<PlaceInDownload>,
}

/// The place of a file among several, whose progress is shown together.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlaceInDownload {
    /// Bytes of the files before it.
    pub(super) before: u64,
    /// Bytes of all files.
    pub(super) all: u64,
}

/// The facts by which the download of a partial file goes on. They stand beside the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    url: String,
    etag: Option<String>,
    /// Bytes of the whole file, as far as the server says so.
    total: Option<u64>,
    sha256: Option<String>,
}

pub(super) async fn fetch(wanted: &Download<'_>) -> Result<(), PullError> {
    make_parent(wanted.path)?;
    let mut tries = 1;
    loop {
        let before = length_of(wanted.path);
        let ended = attempt(wanted).await;
        let broke_off = matches!(ended, Err(PullError::Broken { .. }));
        if !broke_off || length_of(wanted.path) <= before || tries >= MAX_TRIES {
            return ended;
        }
        tries += 1;
    }
}

async fn attempt(wanted: &Download<'_>) -> Result<(), PullError> {
    let note = Note::read(wanted);
    let there = note.as_ref().map_or(0, |_| length_of(wanted.path));
    let note = match note {
        Some(note) if there > 0 && note.total == Some(there) => note,
        note => download(wanted, note.filter(|_| there > 0), there).await?,
    };
    verify(wanted, &note)
}

/// Asks for what is missing behind the first `there` bytes, or for everything where that cannot be had.
async fn download(wanted: &Download<'_>, note: Option<Note>, there: u64) -> Result<Note, PullError> {
    let mut answer =
        ask(wanted.url, &note.as_ref().map_or_else(HeaderMap::new, |note| note.range(there))).await?;
    let mut from = there;
    if note.is_none() || begins_at(&answer.reply) != Some(there) {
        from = 0;
        if answer.reply.status() != StatusCode::OK {
            answer = ask(wanted.url, &HeaderMap::new()).await?;
        }
    }
    if !matches!(answer.reply.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
        return Err(PullError::Refused { url: without_secrets(wanted.url), status: answer.reply.status() });
    }
    let total = answer.reply.content_length().map(|rest| from.saturating_add(rest));
    if total.is_some_and(|total| total > MAX_BYTES) {
        return Err(too_large(wanted));
    }
    let etag = answer.reply.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
    let sha256 = answer.sha256.or_else(|| note.filter(|_| from > 0).and_then(|note| note.sha256));
    let mut note = Note { url: without_secrets(wanted.url), etag, total, sha256 };
    note.write(wanted.path)?;
    let written = save(wanted, answer.reply, from, total).await?;
    note.total = Some(written);
    note.write(wanted.path)?;
    Ok(note)
}

async fn save(
    wanted: &Download<'_>,
    mut reply: Response,
    from: u64,
    total: Option<u64>,
) -> Result<u64, PullError> {
    let trouble = PullError::file;
    let path = wanted.path;
    let opened = if from > 0 { OpenOptions::new().append(true).open(path) } else { File::create(path) };
    let mut file = opened.map_err(trouble(path))?;
    let before = wanted.among.map_or(0, |among| among.before);
    let whole = wanted.among.map(|among| among.all).or(total);
    let mut progress = Progress::start(wanted.label, before + from, whole);
    let mut written = from;
    let broken =
        |bytes, reason: String| PullError::Broken { url: without_secrets(wanted.url), bytes, reason };
    while let Some(chunk) = reply.chunk().await.map_err(|error| broken(written, cause(&error)))? {
        written += chunk.len() as u64;
        if written > MAX_BYTES {
            forget(path);
            return Err(too_large(wanted));
        }
        file.write_all(&chunk).map_err(trouble(path))?;
        progress.show_done(before + written);
    }
    file.sync_all().map_err(trouble(path))?;
    match total {
        Some(total) if total != written => Err(broken(written, format!("{total} bytes were expected"))),
        Some(_) | None => Ok(written),
    }
}

fn verify(wanted: &Download<'_>, note: &Note) -> Result<(), PullError> {
    let Some(expected) = wanted.sha256.or(note.sha256.as_deref()) else {
        say(&format!("{}: checked by its size only, because the server gives no SHA-256", wanted.label));
        return Ok(());
    };
    verify_whole(wanted.path, &without_secrets(wanted.url), expected)
}

impl Note {
    /// The note of the partial file, if one can go on with it: it has to come from the same place, and either
    /// the server can say that its file is still the same, or the hash of the whole will tell.
    fn read(wanted: &Download<'_>) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(note_path(wanted.path)).ok()?;
        file.take(MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
        let note: Self = serde_json::from_str(&text).ok()?;
        let safe = note.strong_etag().is_some() || wanted.sha256.or(note.sha256.as_deref()).is_some();
        (note.url == without_secrets(wanted.url) && safe).then_some(note)
    }

    fn write(&self, path: &Path) -> Result<(), PullError> {
        let path = note_path(path);
        let text = serde_json::to_vec(self).map_err(|error| PullError::unfit(&path, error.to_string()))?;
        fs::write(&path, text).map_err(PullError::file(&path))
    }

    /// A weak one does not promise the same bytes.
    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| etag.starts_with('"'))
    }

    fn range(&self, from: u64) -> HeaderMap {
        let range = HeaderValue::try_from(format!("bytes={from}-")).ok().map(|value| (RANGE, value));
        let etag = self.strong_etag().and_then(|etag| HeaderValue::from_str(etag).ok());
        range.into_iter().chain(etag.map(|etag| (IF_RANGE, etag))).collect()
    }
}

/// Returns the place at which the part that was sent begins; none when everything was sent, or nothing.
fn begins_at(reply: &Response) -> Option<u64> {
    let range =
        reply.headers().get(CONTENT_RANGE).filter(|_| reply.status() == StatusCode::PARTIAL_CONTENT)?;
    range.to_str().ok()?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

fn too_large(wanted: &Download<'_>) -> PullError {
    PullError::TooLarge { what: without_secrets(wanted.url), max: MAX_BYTES }
}

/// Makes the folder that a file is to be in.
pub(super) fn make_parent(path: &Path) -> Result<(), PullError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(PullError::file(folder))
}

/// Checks the hash of a file that was put together from several downloads. A file that does not match is deleted.
pub(super) fn verify_whole(path: &Path, source: &str, expected: &str) -> Result<(), PullError> {
    let found = hash_of(path)?;
    if found == expected {
        return Ok(());
    }
    forget(path);
    Err(PullError::Hash { url: source.to_owned(), expected: expected.to_owned(), found })
}

pub(super) fn note_path(path: &Path) -> PathBuf {
    path.with_added_extension("note")
}

/// Deletes a partial file and what was known of it. A file that cannot be deleted is found wrong again next time.
pub(super) fn forget(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(note_path(path));
}

pub(super) fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |facts| facts.len())
}

/// In hexadecimal digits.
pub(super) fn hash_of(path: &Path) -> Result<String, PullError> {
    let mut file = File::open(path).map_err(PullError::file(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut buffer).map_err(PullError::file(path))?;
        if count == 0 {
            break;
        }
        hash.update(buffer.get(..count).unwrap_or_default());
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
