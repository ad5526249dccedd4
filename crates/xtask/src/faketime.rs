//! A library that puts the clock of a program ahead, for a trial of nodes whose clocks differ: libfaketime, from Debian's
//! package.
//!
//! The package is fetched once and unpacked into the repository's `target`. Nothing is installed on the machine.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::debian;

/// The folder into which the package is unpacked.
const FOLDER: &str = "target/faketime";

/// The library in it, for programs with several threads. Its folder has the name of the machine's architecture.
const LIBRARY: &str = "libfaketimeMT.so.1";

/// Makes sure that it is there, and gives its path. The error says what is missing and what to do.
pub(crate) fn install(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER);
    if let Some(library) = find(&folder) {
        return Ok(library);
    }
    println!("fetching libfaketime, once, into target: 50 KB");
    let remedy = "name the library with --faketime FILE";
    debian::unpack("libfaketime", &folder, remedy)?;
    find(&folder).ok_or_else(|| format!("the package of libfaketime has no {LIBRARY}; {remedy}"))
}

fn find(folder: &Path) -> Option<PathBuf> {
    let entries = WalkDir::new(folder).into_iter().filter_map(Result::ok);
    entries.map(walkdir::DirEntry::into_path).find(|path| path.ends_with(LIBRARY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_wherever_the_package_has_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(folder.path()), None);
        let library = folder.path().join("usr/lib/some-machine/faketime").join(LIBRARY);
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "").unwrap();
        assert_eq!(find(folder.path()), Some(library));
        assert_eq!(find(&folder.path().join("none")), None);
    }
}
