//! The files of a package in memory, and the archives made from them. Equal files make equal bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

/// The user and the group of files that only root may change.
pub(crate) const ROOT: u32 = 0;

/// The permissions of a program, and of a folder that everybody may read.
pub(crate) const OPEN: u32 = 0o755;

/// The permissions of a file that everybody may read.
pub(crate) const READABLE: u32 = 0o644;

/// Files and folders by their path, which begins without a slash.
#[derive(Default)]
pub(crate) struct FileTree {
    entries: BTreeMap<String, TreeEntry>,
}

struct TreeEntry {
    /// None for a folder.
    content: Option<Vec<u8>>,
    mode: u32,
    owner: u32,
}

impl FileTree {
    /// Adds a folder with its own permissions and owner.
    pub(crate) fn add_folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add_folders_above(path);
        self.entries.insert(path.to_owned(), TreeEntry { content: None, mode, owner });
    }

    /// Adds a file of root, and the folders above it.
    pub(crate) fn add_file(&mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) {
        self.add_folders_above(path);
        let entry = TreeEntry { content: Some(content.into()), mode, owner: ROOT };
        self.entries.insert(path.to_owned(), entry);
    }

    fn add_folders_above(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            let folder = path.get(..end).unwrap_or_default().to_owned();
            self.entries.entry(folder).or_insert(TreeEntry { content: None, mode: OPEN, owner: ROOT });
        }
    }

    /// The bytes of all files.
    pub(crate) fn size(&self) -> usize {
        self.entries.values().filter_map(|entry| entry.content.as_ref()).map(Vec::len).sum()
    }

    /// All entries as a tar archive. Every entry has the same time.
    pub(crate) fn tar(&self, epoch: u64) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::with_capacity(self.size()));
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_uid(entry.owner.into());
            header.set_gid(entry.owner.into());
            header.set_mtime(epoch);
            match &entry.content {
                Some(content) => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_size(u64::try_from(content.len()).unwrap_or(u64::MAX));
                    archive.append_data(&mut header, path, content.as_slice())?;
                }
                None => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_size(0);
                    archive.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
            }
        }
        archive.into_inner()
    }
}

/// Compresses bytes without a name and a time, so that equal bytes stay equal.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), level);
    writer.write_all(bytes)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn an_archive_is_sorted_and_the_same_each_time() {
        let mut tree = FileTree::default();
        tree.add_file("usr/bin/rondo", "program", OPEN);
        tree.add_folder("data", 0o700, 10_001);
        let tar = tree.tar(42).unwrap();
        let mut other = FileTree::default();
        other.add_folder("data", 0o700, 10_001);
        other.add_file("usr/bin/rondo", "program", OPEN);
        assert_eq!(tar, other.tar(42).unwrap(), "the order of additions makes no difference");
        let mut archive = tar::Archive::new(tar.as_slice());
        let read: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                let header = entry.header();
                let facts = (header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap());
                (String::from_utf8(entry.path_bytes().into_owned()).unwrap(), facts, text)
            })
            .collect();
        let root = |path: &str| (path.to_owned(), (0o755, 0, 42), String::new());
        let expected = [
            ("data/".to_owned(), (0o700, 10_001, 42), String::new()),
            root("usr/"),
            root("usr/bin/"),
            ("usr/bin/rondo".to_owned(), (0o755, 0, 42), "program".to_owned()),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn compression_writes_no_time() {
        let packed = gzip(b"text", Compression::best()).unwrap();
        assert_eq!(packed[4..8], [0; 4]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }
}
