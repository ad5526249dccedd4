//! The files of an app folder as one value: kept with the runs that began with them, and made into a folder again
//! wherever such a run continues.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Component, Path};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::knowledge::DOCUMENTS_FOLDER;

/// Files of one app, the bytes in all of them, and folders within folders. A larger folder is not kept.
const MAX_APP_FILES: usize = 1_000;
const MAX_APP_BYTES: usize = 8 * 1024 * 1024;
const MAX_APP_DEPTH: usize = 8;

/// The files of an app folder by their paths inside it, with slashes. Hidden files and documents are left out: the app
/// is the same without them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Whether there is a folder of documents is part of the app.
    has_documents: bool,
}

impl AppFiles {
    /// Reads the files of a folder. It blocks.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut found = Self { has_documents: folder.join(DOCUMENTS_FOLDER).is_dir(), ..Self::default() };
        let mut bytes = 0;
        found.add(folder, "", (MAX_APP_DEPTH, &mut bytes))?;
        Ok(found)
    }

    fn add(&mut self, folder: &Path, prefix: &str, (depth, bytes): (usize, &mut usize)) -> Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let is_documents = prefix.is_empty() && name == DOCUMENTS_FOLDER;
            if name.starts_with('.') || is_documents {
                continue;
            }
            let (path, inside) = (entry.path(), format!("{prefix}{name}"));
            if !path.is_dir() {
                let room = MAX_APP_BYTES - *bytes;
                let mut content = Vec::new();
                fs::File::open(&path)?.take(room as u64 + 1).read_to_end(&mut content)?;
                if content.len() > room || self.files.len() >= MAX_APP_FILES {
                    return Err(too_large());
                }
                *bytes += content.len();
                self.files.insert(inside, content);
            } else if depth > 0 {
                self.add(&path, &format!("{inside}/"), (depth - 1, &mut *bytes))?;
            } else {
                return Err(too_large());
            }
        }
        Ok(())
    }

    /// Makes a folder of the files. It blocks.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        if self.has_documents {
            fs::create_dir_all(folder.join(DOCUMENTS_FOLDER))?;
        }
        for (inside, content) in &self.files {
            let inside = Path::new(inside);
            if !inside.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(unreadable());
            }
            let path = folder.join(inside);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, content)?;
        }
        Ok(())
    }

    /// The files as JSON text: a store keeps them so.
    pub fn to_bytes(&self) -> Vec<u8> {
        let of_file = |(inside, content): (&String, &Vec<u8>)| {
            (inside.clone(), Value::String(BASE64_STANDARD.encode(content)))
        };
        let files: Map<String, Value> = self.files.iter().map(of_file).collect();
        serde_json::json!({ "files": files, "hasDocuments": self.has_documents }).to_string().into_bytes()
    }

    /// The files that [`AppFiles::to_bytes`] made text of.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes).map_err(Error::other)?;
        let files = value.get("files").and_then(Value::as_object).ok_or_else(unreadable)?;
        let of_entry = |(inside, content): (&String, &Value)| {
            let content = content.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            Ok((inside.clone(), content.ok_or_else(unreadable)?))
        };
        let files = files.iter().map(of_entry).collect::<Result<_>>()?;
        let has_documents = value.get("hasDocuments").and_then(Value::as_bool).unwrap_or_default();
        Ok(Self { files, has_documents })
    }
}

fn too_large() -> Error {
    let limits = format!(
        "the folder has more than {MAX_APP_FILES} files, {} MiB or {MAX_APP_DEPTH} levels",
        MAX_APP_BYTES / 1024 / 1024
    );
    Error::new(ErrorKind::InvalidData, limits)
}

fn unreadable() -> Error {
    Error::new(ErrorKind::InvalidData, "the stored files of the app cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_back_as_the_same_app() {
        let root = tempfile::tempdir().unwrap();
        let (before, after) = (root.path().join("a/demo"), root.path().join("b/demo"));
        for (inside, content) in [
            ("app.toml", "name = \"Demo\""),
            ("instructions.md", "Be kind."),
            ("personas/muse.md", "You are the muse."),
            ("documents/facts.md", "Not part of the app."),
            (".env", "SECRET=1"),
        ] {
            let path = before.join(inside);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let files = AppFiles::read(&before).unwrap();
        let read = AppFiles::from_bytes(&files.to_bytes()).unwrap();
        assert_eq!(read, files);
        read.write(&after).unwrap();
        assert_eq!(crate::load(&after).unwrap().revision, crate::load(&before).unwrap().revision);
        assert!(!after.join(".env").exists() && !after.join("documents/facts.md").exists());
    }

    #[test]
    fn a_large_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("weights.bin"), vec![0; MAX_APP_BYTES + 1]).unwrap();
        let refused = AppFiles::read(root.path()).unwrap_err().to_string();
        assert_eq!(refused, "the folder has more than 1000 files, 8 MiB or 8 levels");
    }

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        let files = AppFiles { files: BTreeMap::from([("../x".into(), Vec::new())]), has_documents: false };
        let root = tempfile::tempdir().unwrap();
        assert!(files.write(&root.path().join("demo")).is_err());
        assert!(!root.path().join("x").exists());
    }
}
