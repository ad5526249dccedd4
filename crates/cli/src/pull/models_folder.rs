//! The folder of all models: each model is there as a whole or not at all.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::PullError;
use super::fetch::{hash_of, note_path};
use crate::weights::{MANIFEST, MODELS, PARTIAL, PulledModel, is_model_name, read_model};

const LOCK: &str = ".lock";

/// The folder of all models, held by this process alone.
pub(super) struct ModelsFolder {
    models: PathBuf,
    _lock: File,
}

impl ModelsFolder {
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

    pub(super) fn find(&self, name: &str) -> Option<PulledModel> {
        read_model(self.models.join(name))
    }

    /// Returns the folder in which the files of a model gather until it is whole. Files that an earlier try left are
    /// still there.
    pub(super) fn partial_folder(&self, name: &str) -> Result<PathBuf, PullError> {
        let folder = self.models.join(format!("{name}{PARTIAL}"));
        fs::create_dir_all(&folder).map_err(PullError::file(&folder))?;
        Ok(folder)
    }

    /// Moves the partial folder into place, with these of its files and nothing else.
    pub(super) fn finish(&self, mut model: PulledModel, files: &[&str]) -> Result<PulledModel, PullError> {
        let partial = self.partial_folder(&model.name)?;
        for file in files {
            let path = partial.join(file);
            model.bytes += fs::metadata(&path).map_err(PullError::file(&path))?.len();
            model.sha256.insert((*file).to_owned(), hash_of(&path)?);
        }
        let path = partial.join(MANIFEST);
        let text =
            serde_json::to_vec_pretty(&model).map_err(|error| PullError::unfit(&path, error.to_string()))?;
        fs::write(&path, text).map_err(PullError::file(&path))?;
        clean(&partial, files)?;
        let folder = self.models.join(&model.name);
        // A folder without a manifest is no model; it would only be in the way.
        remove_folder(&folder)?;
        for one in [&path, &partial] {
            File::open(one).and_then(|opened| opened.sync_all()).map_err(PullError::file(one))?;
        }
        fs::rename(&partial, &folder).map_err(PullError::file(&folder))?;
        File::open(&self.models).and_then(|opened| opened.sync_all()).map_err(PullError::file(&folder))?;
        Ok(PulledModel { folder, ..model })
    }

    /// Removes a model, and what was left of an unfinished pull of it.
    pub(super) fn remove(&self, name: &str) -> Result<(), PullError> {
        let missing = || PullError::Missing(name.to_owned());
        if !is_model_name(name) {
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
    use crate::weights::pulled_models;

    #[test]
    fn a_folder_that_is_not_finished_or_says_nonsense_is_no_model() {
        let data = tempfile::tempdir().unwrap();
        let place = ModelsFolder::hold(data.path()).unwrap();
        assert!(matches!(ModelsFolder::hold(data.path()), Err(PullError::Busy(_))));
        fs::write(place.partial_folder("half").unwrap().join("model.gguf"), "GGUF").unwrap();
        for (name, text) in [("wrong", "{"), ("strange", r#"{"name": "strange", "kind": "song"}"#)] {
            fs::create_dir(data.path().join("models").join(name)).unwrap();
            fs::write(data.path().join("models").join(name).join(MANIFEST), text).unwrap();
        }
        assert_eq!(pulled_models(data.path()), []);
        assert_eq!(pulled_models(&data.path().join("nowhere")), []);
    }
}
