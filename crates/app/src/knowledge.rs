//! `documents/` and `[knowledge]`: files that belong to the app, from which it answers all of its users.
//!
//! A file that cannot be served is a problem of its own, and the others are served. So the folder is read apart from the
//! rest of the app.

#[cfg(test)]
mod tests;

use std::fs::{self, File, FileType};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::context::MAX_FRAGMENT_TOKENS;
use crate::source::{Problem, bounds};

/// Files of one app.
pub const MAX_KNOWLEDGE_FILES: usize = 500;
/// Bytes of one file.
pub const MAX_KNOWLEDGE_FILE_BYTES: u64 = 20 * 1024 * 1024;
/// Bytes of all files of an app.
pub const MAX_KNOWLEDGE_BYTES: u64 = 200 * 1024 * 1024;
/// Bytes of a file's path in the folder.
const MAX_NAME_BYTES: usize = 200;
/// Entries of the folder that are looked at, and folders within folders.
const MAX_ENTRIES: usize = 5_000;
const MAX_DEPTH: usize = 8;
/// Problems that are listed. More problems are no help to the reader.
const MAX_PROBLEMS: usize = 100;

pub(crate) const DOCUMENTS_FOLDER: &str = "documents";
const DEFAULT_TOKENS: usize = 2_000;

/// `[knowledge]`: whether and how much of the app's documents is in a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeRules {
    /// Of an app: only where it has the folder.
    pub enabled: bool,
    /// Tokens that passages may take.
    #[serde(deserialize_with = "bounds::whole_number::<1, MAX_FRAGMENT_TOKENS, _, _>")]
    pub tokens: usize,
}

impl Default for KnowledgeRules {
    fn default() -> Self {
        Self { enabled: true, tokens: DEFAULT_TOKENS }
    }
}

impl KnowledgeRules {
    /// The rules of an app in this folder.
    pub(crate) fn where_folder_is(self, app: &Path) -> Self {
        Self { enabled: self.enabled && app.join(DOCUMENTS_FOLDER).is_dir(), ..self }
    }
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeFile {
    /// Its path in the folder, with slashes.
    pub name: String,
    pub path: PathBuf,
}

impl KnowledgeFile {
    pub fn read(&self) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(MAX_KNOWLEDGE_FILE_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Err(error) => Err(unreadable_file(&self.path, &error)),
            Ok(length) if length as u64 > MAX_KNOWLEDGE_FILE_BYTES => Err(too_large(&self.path)),
            Ok(_) => Ok(bytes),
        }
    }
}

/// The files of an app's folder as they are now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnowledgeFolder {
    /// By name.
    pub files: Vec<KnowledgeFile>,
    /// The files that are not served, and why.
    pub problems: Vec<Problem>,
    /// Whether a part of the folder could not be looked at. Then an absent file may still be there.
    pub is_partial: bool,
}

impl KnowledgeFolder {
    /// Looks through the folder of an app.
    pub fn of_app(app: &Path) -> Self {
        let folder = app.join(DOCUMENTS_FOLDER);
        let mut look = KnowledgeWalk { folder: Self::default(), root: PathBuf::new(), bytes: 0, entries: 0 };
        match (app.canonicalize(), folder.canonicalize()) {
            (Ok(app), Ok(root)) if root.starts_with(&app) => {
                look.root = root;
                look.add_folder(&folder, "", MAX_DEPTH);
            }
            (Ok(_), Ok(_)) => look.problem(leads_out(&folder)),
            (Ok(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            (_, Err(error)) | (Err(error), _) => look.mark_partial(unreadable_file(&folder, &error)),
        }
        look.folder.files.sort_by(|a, b| a.name.cmp(&b.name));
        look.folder
    }
}

struct KnowledgeWalk {
    folder: KnowledgeFolder,
    /// The folder's own path, without links.
    root: PathBuf,
    bytes: u64,
    entries: usize,
}

impl KnowledgeWalk {
    fn add_folder(&mut self, folder: &Path, inside: &str, depth: usize) {
        let entries: Result<Vec<fs::DirEntry>, io::Error> =
            folder.read_dir().and_then(|entries| entries.take(MAX_ENTRIES + 1).collect());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.mark_partial(unreadable_file(folder, &error)),
        };
        self.entries += entries.len();
        if self.entries > MAX_ENTRIES {
            // Which of them were seen is chance, so none counts as removed.
            let message = format!("the folder has more than {MAX_ENTRIES} entries");
            return self.mark_partial(Problem::of(folder, message, "remove those that are no documents"));
        }
        entries.sort_by_key(fs::DirEntry::file_name); // what is beyond a limit is the same each time
        for entry in entries {
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                self.add_entry(&entry, inside, depth);
            }
        }
    }

    fn add_entry(&mut self, entry: &fs::DirEntry, inside: &str, depth: usize) {
        let path = entry.path();
        let Some(name) = entry.file_name().to_str().map(|name| format!("{inside}{name}")) else {
            return self.problem(Problem::of(&path, "its name is not UTF-8", "rename it"));
        };
        match entry.file_type() {
            Err(error) => self.mark_partial(unreadable_file(&path, &error)),
            Ok(kind) if kind.is_dir() && depth > 0 => self.add_folder(&path, &format!("{name}/"), depth - 1),
            Ok(kind) if kind.is_dir() => {
                let message = format!("there are more than {MAX_DEPTH} folders within each other");
                self.problem(Problem::of(&path, message, "move its files up"));
            }
            Ok(kind) => self.add_file(path, name, kind),
        }
    }

    fn add_file(&mut self, path: PathBuf, name: String, kind: FileType) {
        let own = match path.canonicalize() {
            Ok(own) => own,
            Err(error) => return self.mark_partial(unreadable_file(&path, &error)),
        };
        if kind.is_symlink() && !own.starts_with(&self.root) {
            return self.problem(leads_out(&path));
        }
        let size = match own.metadata() {
            Ok(meta) if meta.is_file() => meta.len(),
            Ok(_) => return self.problem(Problem::of(&path, "it is no regular file", "remove it")),
            Err(error) => return self.mark_partial(unreadable_file(&path, &error)),
        };
        if name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let message = format!(
                "its path in the folder is longer than {MAX_NAME_BYTES} bytes or has no plain characters"
            );
            return self.problem(Problem::of(&path, message, "rename it"));
        }
        if size > MAX_KNOWLEDGE_FILE_BYTES {
            return self.problem(too_large(&path));
        }
        if self.folder.files.len() >= MAX_KNOWLEDGE_FILES {
            let message =
                format!("the app has more than {MAX_KNOWLEDGE_FILES} documents, so this one is not served");
            return self.problem(Problem::of(&path, message, "join some of them, or remove some"));
        }
        if self.bytes + size > MAX_KNOWLEDGE_BYTES {
            let message = format!(
                "the app's documents have more than {} MiB, so this one is not served",
                MAX_KNOWLEDGE_BYTES / (1024 * 1024)
            );
            return self.problem(Problem::of(&path, message, "remove some of them"));
        }
        self.bytes += size;
        self.folder.files.push(KnowledgeFile { name, path });
    }

    fn problem(&mut self, problem: Problem) {
        if self.folder.problems.len() < MAX_PROBLEMS {
            self.folder.problems.push(problem);
        }
    }

    fn mark_partial(&mut self, problem: Problem) {
        self.folder.is_partial = true;
        self.problem(problem);
    }
}

fn unreadable_file(path: &Path, error: &io::Error) -> Problem {
    Problem::of(path, format!("cannot be read: {error}"), "check the path and its permissions")
}

fn leads_out(path: &Path) -> Problem {
    Problem::of(
        path,
        "the symbolic link leads out of the documents folder",
        "copy what it leads to into the folder",
    )
}

fn too_large(path: &Path) -> Problem {
    let message = format!("the document is larger than {} MiB", MAX_KNOWLEDGE_FILE_BYTES / (1024 * 1024));
    Problem::of(path, message, "split it")
}
