//! Where weights are kept: a folder for each model, which is there as a whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::PullError;
use super::fetch::{hash_of, note_path};

const MODELS: &str = "models";
const MANIFEST: &str = "model.json";
const PARTIAL: &str = ".partial";
const LOCK: &str = ".lock";
const MAX_NAME_BYTES: usize = 64;
const MAX_MODELS: usize = 1000;
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Chat,
    Embedding,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
        }
    }
}

/// What `model.json` says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// A URL, a package or a path; only for people, and to tell models of the same name apart.
    pub(super) source: String,
    /// Of all files together.
    pub(super) bytes: u64,
    /// The SHA-256 of each file.
    pub(super) sha256: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quantisation: Option<String>,
    /// Tokens that a chat model was trained with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<u32>,
}

/// A model whose weights are on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) folder: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) quantisation: Option<String>,
    pub(crate) context: Option<u32>,
    pub(super) source: String,
}

/// The models in a data folder, by name.
pub(crate) fn pulled(data: &Path) -> Vec<Pulled> {
    let Ok(entries) = fs::read_dir(data.join(MODELS)) else { return Vec::new() };
    let folders = entries.take(MAX_MODELS).filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<Pulled> = folders.filter_map(read).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn read(folder: PathBuf) -> Option<Pulled> {
    let name = folder.file_name()?.to_str().filter(|name| is_name(name))?.to_owned();
    let mut text = String::new();
    let file = File::open(folder.join(MANIFEST)).ok()?;
    file.take(MAX_MANIFEST_BYTES).read_to_string(&mut text).ok()?;
    match serde_json::from_str::<Manifest>(&text) {
        Ok(Manifest { kind, source, bytes, quantisation, context, .. }) => {
            Some(Pulled { name, kind, folder, bytes, quantisation, context, source })
        }
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the manifest of a pulled model cannot be read");
            None
        }
    }
}

/// Names are folders, so they must not lead elsewhere or look like something that is not finished.
pub(super) fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(good)
        && !name.starts_with(['.', '-'])
        && !name.ends_with(PARTIAL)
}

/// The folder of all models, held by this process alone.
pub(super) struct Place {
    models: PathBuf,
    _lock: File,
}

impl Place {
    pub(super) fn hold(data: &Path) -> Result<Self, PullError> {
        let models = data.join(MODELS);
        store::sqlite::make_private_folder(data).map_err(PullError::file(data))?;
        fs::create_dir_all(&models).map_err(PullError::file(&models))?;
        let path = models.join(LOCK);
        let lock = File::create(&path).map_err(PullError::file(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { models, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(PullError::Busy(models)),
            Err(fs::TryLockError::Error(error)) => Err(PullError::file(&path)(error)),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Pulled> {
        read(self.models.join(name))
    }

    /// Where the files of a model gather until it is whole. What an earlier try left is still there.
    pub(super) fn partial(&self, name: &str) -> Result<PathBuf, PullError> {
        let folder = self.models.join(format!("{name}{PARTIAL}"));
        fs::create_dir_all(&folder).map_err(PullError::file(&folder))?;
        Ok(folder)
    }

    /// Moves the partial folder into place, with these of its files and nothing else.
    pub(super) fn finish(&self, mut manifest: Manifest, files: &[&str]) -> Result<PathBuf, PullError> {
        let partial = self.partial(&manifest.name)?;
        for file in files {
            let path = partial.join(file);
            manifest.bytes += fs::metadata(&path).map_err(PullError::file(&path))?.len();
            manifest.sha256.insert((*file).to_owned(), hash_of(&path)?);
        }
        let path = partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| PullError::unfit(&path, error.to_string()))?;
        fs::write(&path, text).map_err(PullError::file(&path))?;
        clean(&partial, files)?;
        let folder = self.models.join(&manifest.name);
        // A folder without a manifest is no model; it would only be in the way.
        remove_folder(&folder)?;
        for one in [&path, &partial] {
            File::open(one).and_then(|opened| opened.sync_all()).map_err(PullError::file(one))?;
        }
        fs::rename(&partial, &folder).map_err(PullError::file(&folder))?;
        File::open(&self.models).and_then(|opened| opened.sync_all()).map_err(PullError::file(&folder))?;
        Ok(folder)
    }

    /// Removes a model, and what was left of an unfinished pull of it.
    pub(super) fn remove(&self, name: &str) -> Result<(), PullError> {
        let missing = || PullError::Missing(name.to_owned());
        if !is_name(name) {
            return Err(missing());
        }
        let folders = [self.models.join(name), self.models.join(format!("{name}{PARTIAL}"))];
        let mut found = false;
        for folder in folders {
            found |= remove_folder(&folder)?;
        }
        if found { Ok(()) } else { Err(missing()) }
    }
}

/// `false` when there was none.
fn remove_folder(folder: &Path) -> Result<bool, PullError> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(PullError::file(folder)(error)),
    }
}

fn clean(partial: &Path, files: &[&str]) -> Result<(), PullError> {
    let keeps =
        |name: &str| name == MANIFEST || files.iter().any(|file| file.split('/').next() == Some(name));
    for entry in fs::read_dir(partial).map_err(PullError::file(partial))? {
        let path = entry.map_err(PullError::file(partial))?.path();
        let is_kept = path.file_name().and_then(|name| name.to_str()).is_some_and(keeps);
        if is_kept {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(PullError::file(&path))?;
    }
    for file in files {
        let _ = fs::remove_file(note_path(&partial.join(file))); // most have none any more
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_nothing_more() {
        let (longest, too_long) = ("x".repeat(64), "x".repeat(65));
        for good in ["a", "smollm2-135m", "Qwen3_8B.Q4_K_M", &longest] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", ".hidden", "-x", "a b", "x.partial", "ü", &too_long] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_folder_that_is_not_finished_or_says_nonsense_is_no_model() {
        let data = tempfile::tempdir().unwrap();
        let place = Place::hold(data.path()).unwrap();
        assert!(matches!(Place::hold(data.path()), Err(PullError::Busy(_))));
        fs::write(place.partial("half").unwrap().join("model.gguf"), "GGUF").unwrap();
        for (name, text) in [("wrong", "{"), ("strange", r#"{"name": "strange", "kind": "song"}"#)] {
            fs::create_dir(data.path().join("models").join(name)).unwrap();
            fs::write(data.path().join("models").join(name).join(MANIFEST), text).unwrap();
        }
        assert_eq!(pulled(data.path()), []);
        assert_eq!(pulled(&data.path().join("nowhere")), []);
    }
}
