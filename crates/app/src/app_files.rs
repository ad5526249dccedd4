//! The files of an app folder as one value: kept with the runs that began with them, and made into a folder again
//! wherever such a run continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::knowledge::DOCUMENTS_FOLDER;

/// Files of one app, the bytes in all of them, and folders within folders. A larger folder is not kept.
const MAX_APP_FILES: usize = 1_000;
const MAX_APP_BYTES: usize = 8 * 1024 * 1024;
const MAX_APP_DEPTH: usize = 8;

/// A larger file is not a part of an app.
const MAX_APP_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The files of an app folder by their paths inside it, with slashes. Documents, and files that are hidden, large or
/// unreadable, are left out. A reader of the other files sees whether the app is the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// Folders in the folder, of which some may be empty.
    folders: BTreeSet<String>,
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
            // Opening a pipe would wait for the process that writes to it.
            let Ok(facts) = fs::metadata(&path) else { continue };
            if facts.is_dir() && depth > 0 {
                self.folders.insert(inside.clone());
                self.add(&path, &format!("{inside}/"), (depth - 1, &mut *bytes))?;
            } else if facts.is_dir() {
                return Err(too_large());
            }
            if !facts.is_file() || facts.len() > MAX_APP_FILE_BYTES {
                continue;
            }
            let Ok(content) = read_bounded(&path) else { continue };
            *bytes += content.len();
            if *bytes > MAX_APP_BYTES || self.files.len() >= MAX_APP_FILES {
                return Err(too_large());
            }
            self.files.insert(inside, content);
        }
        Ok(())
    }

    /// Makes a folder of the files. It blocks.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        if self.has_documents {
            fs::create_dir_all(folder.join(DOCUMENTS_FOLDER))?;
        }
        for inside in &self.folders {
            fs::create_dir_all(path_inside(folder, inside)?)?;
        }
        for (inside, content) in &self.files {
            fs::write(path_inside(folder, inside)?, content)?;
        }
        Ok(())
    }

    /// The files as JSON text: a store keeps them so.
    pub fn to_bytes(&self) -> Vec<u8> {
        let of_file = |(inside, content): (&String, &Vec<u8>)| {
            (inside.clone(), Value::String(BASE64_STANDARD.encode(content)))
        };
        let files: Map<String, Value> = self.files.iter().map(of_file).collect();
        let all = json!({ "files": files, "folders": self.folders, "hasDocuments": self.has_documents });
        all.to_string().into_bytes()
    }

    /// The files that [`AppFiles::to_bytes`] made text of.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes).map_err(Error::other)?;
        let files = value.get("files").and_then(Value::as_object).ok_or_else(unreadable_list)?;
        let of_entry = |(inside, content): (&String, &Value)| {
            let content = content.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            Ok((inside.clone(), content.ok_or_else(unreadable_list)?))
        };
        let files = files.iter().map(of_entry).collect::<Result<_>>()?;
        let folders = value.get("folders").and_then(Value::as_array).ok_or_else(unreadable_list)?;
        let folders = folders.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let has_documents = value.get("hasDocuments").and_then(Value::as_bool).unwrap_or_default();
        Ok(Self { files, folders, has_documents })
    }
}

fn path_inside(folder: &Path, inside: &str) -> Result<PathBuf> {
    let inside = Path::new(inside);
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain { Ok(folder.join(inside)) } else { Err(unreadable_list()) }
}

fn read_bounded(file: &Path) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(file)?.take(MAX_APP_FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_APP_FILE_BYTES { Err(too_large()) } else { Ok(content) }
}

fn too_large() -> Error {
    let limits = format!(
        "the folder has more than {MAX_APP_FILES} files, {} MiB or {MAX_APP_DEPTH} levels",
        MAX_APP_BYTES / 1024 / 1024
    );
    Error::new(ErrorKind::InvalidData, limits)
}

fn unreadable_list() -> Error {
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
            ("app.toml", "[mcp.notes]\ncommand = \"notes\"\ncwd = \"servers\""),
            ("instructions.md", "Be kind."),
            ("personas/muse.md", "You are the muse."),
            ("documents/facts.md", "Not part of the app."),
            (".env", "SECRET=1"),
            ("weights.bin", &"x".repeat(5 * 1024 * 1024)),
        ] {
            let path = before.join(inside);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::create_dir(before.join("servers")).unwrap();
        std::os::unix::fs::symlink("nowhere", before.join("dangling")).unwrap();
        std::os::unix::net::UnixListener::bind(before.join("socket")).unwrap();
        let files = AppFiles::read(&before).unwrap();
        let read = AppFiles::from_bytes(&files.to_bytes()).unwrap();
        assert_eq!(read, files);
        read.write(&after).unwrap();
        let (app, copy) = (crate::load(&before).unwrap(), crate::load(&after).unwrap());
        assert_eq!(copy.revision, app.revision);
        assert_ne!(copy.mcp, app.mcp, "processes would run in the copy");
        assert_eq!(copy.moved_to(&before).mcp, app.mcp);
        for left_out in [".env", "documents/facts.md", "weights.bin", "dangling", "socket"] {
            assert!(!after.join(left_out).exists(), "{left_out}");
        }
        assert!(after.join("servers").is_dir());
    }

    #[test]
    fn a_large_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..3 {
            fs::write(root.path().join(number.to_string()), vec![0; MAX_APP_BYTES / 2]).unwrap();
        }
        let refused = AppFiles::read(root.path()).unwrap_err().to_string();
        assert_eq!(refused, "the folder has more than 1000 files, 8 MiB or 8 levels");
    }

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        let files = AppFiles { files: BTreeMap::from([("../x".into(), Vec::new())]), ..AppFiles::default() };
        let root = tempfile::tempdir().unwrap();
        assert!(files.write(&root.path().join("demo")).is_err());
        assert!(!root.path().join("x").exists());
    }
}
