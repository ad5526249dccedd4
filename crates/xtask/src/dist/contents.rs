//! The files of each package.

use std::path::Path;

use super::certificates;
use super::file_tree::{FileTree, OPEN, READABLE, ROOT};
use super::image::USER;
use super::machine::DistMachine;

/// A file of the machine that a dynamic binary needs, by its path. A static binary needs none.
pub(crate) type SharedLibrary = (String, Vec<u8>);

const SERVICE: &str = include_str!("../../../../packaging/rondo.service");
const CONFIGURATION: &str = include_str!("../../../../packaging/rondo.toml");
const COPYRIGHT: &str = include_str!("../../../../packaging/deb/copyright");

/// Documents of the repository that packages contain.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The binary and the documents, by their names.
pub(crate) struct PackedProgram {
    pub(crate) machine: DistMachine,
    pub(crate) program: Vec<u8>,
    /// None for a static binary.
    pub(crate) libraries: Vec<SharedLibrary>,
    documents: Vec<(&'static str, Vec<u8>)>,
}

impl PackedProgram {
    /// Reads the binary, and the documents of the repository.
    pub(crate) fn read(root: &Path, machine: DistMachine, program: &Path) -> Result<Self, String> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let documents: Result<Vec<_>, String> =
            DOCUMENTS.iter().map(|name| Ok((*name, read(&root.join(name))?))).collect();
        Ok(Self { machine, program: read(program)?, libraries: Vec::new(), documents: documents? })
    }

    /// The files of the archive that `install.sh` downloads.
    pub(crate) fn archive_files(&self) -> FileTree {
        let folder = self.machine.archive_name();
        let mut files = FileTree::default();
        files.add_file(&format!("{folder}/rondo"), self.program.clone(), OPEN);
        files.add_file(&format!("{folder}/rondo.service"), SERVICE, READABLE);
        for (name, text) in &self.documents {
            files.add_file(&format!("{folder}/{name}"), text.clone(), READABLE);
        }
        files
    }

    /// The files of the Debian package.
    pub(crate) fn deb_files(&self) -> FileTree {
        let mut files = FileTree::default();
        files.add_file("usr/bin/rondo", self.program.clone(), OPEN);
        files.add_file("usr/lib/systemd/system/rondo.service", SERVICE, READABLE);
        files.add_file("etc/rondo/rondo.toml", CONFIGURATION, READABLE);
        files.add_file("usr/share/doc/rondo/copyright", COPYRIGHT, READABLE);
        for (name, text) in &self.documents {
            files.add_file(&format!("usr/share/doc/rondo/{name}"), text.clone(), READABLE);
        }
        files
    }

    /// The root file system of the container image.
    pub(crate) fn image_files(&self) -> FileTree {
        let mut files = FileTree::default();
        files.add_file("usr/bin/rondo", self.program.clone(), OPEN);
        files.add_file("etc/ssl/certs/ca-certificates.crt", certificates::bundle(), READABLE);
        let passwd =
            format!("root:x:0:0:root:/:/sbin/nologin\nrondo:x:{USER}:{USER}:rondo:/data:/sbin/nologin\n");
        files.add_file("etc/passwd", passwd, READABLE);
        files.add_file("etc/group", format!("root:x:0:\nrondo:x:{USER}:\n"), READABLE);
        files.add_folder("etc/rondo", OPEN, ROOT);
        // A new volume takes over the owner of the folder that it is mounted on.
        files.add_folder("data", 0o700, USER);
        files.add_folder("tmp", 0o1777, ROOT);
        files.add_folder("proc", 0o555, ROOT);
        files.add_folder("dev", OPEN, ROOT);
        for (name, text) in self.documents.iter().filter(|(name, _)| name.starts_with("LICENSE")) {
            files.add_file(&format!("usr/share/doc/rondo/{name}"), text.clone(), READABLE);
        }
        for (path, content) in &self.libraries {
            files.add_file(path.trim_start_matches('/'), content.clone(), OPEN);
        }
        files
    }
}
