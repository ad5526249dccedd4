//! The data folder and its files are for the user who runs the server, and for no other user of the machine.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{FILE, LOCK};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The bits of what users other than the owner may do.
const OTHERS: u32 = 0o077;

/// A folder with this bit is shared by all users on purpose, as `/tmp` is.
const SHARED: u32 = 0o1000;

/// The files of the store in its folder, as endings of the database's name.
const ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// How the names of all files and folders begin that a server and its commands put into a data folder.
const OWN_NAMES: [&str; 8] =
    [FILE, LOCK, "vault.key", "control.json", "catalogue.toml", "models", "built-in-apps", "app-revisions"];

/// Makes a folder that only its owner can look into, if it is not there. Folders above it are made as usual.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

/// Opens a file for writing, and makes it for its owner alone if it is not there. The contents of the file stay.
pub(super) fn open_private_file(file: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(file)
}

/// Returns the rights that others than its owner have on a file or a folder, as its mode says; none if that is nothing,
/// or if it is not there.
pub fn mode_for_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    Some(mode).filter(|mode| mode & OTHERS != 0)
}

/// Closes to others what an earlier version, or another program, has left open. A folder that is shared, or that holds
/// something of others, may not be ours alone and stays as it is.
pub(super) fn close_to_others(folder: &Path) {
    let mut closed = 0;
    for ending in ENDINGS {
        closed += usize::from(close(&folder.join(format!("{FILE}{ending}")), FILE_MODE));
    }
    closed += usize::from(close(&folder.join(LOCK), FILE_MODE));
    if is_ours(folder) {
        closed += usize::from(close(folder, FOLDER_MODE));
    }
    if closed > 0 {
        tracing::warn!(
            folder = %folder.display(),
            "other users of this machine could read the data folder; from now on only the user who runs the \
             server can"
        );
    }
}

/// Whether the folder holds nothing but what a server and its commands put there.
fn is_ours(folder: &Path) -> bool {
    let is_shared = fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & SHARED != 0);
    let holds_others = || {
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !OWN_NAMES.iter().any(|own| name.starts_with(own))
        })
    };
    !is_shared && !holds_others()
}

/// True if others had a right that they have no longer.
fn close(path: &Path, mode: u32) -> bool {
    if mode_for_others(path).is_none() {
        return false;
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => true,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "other users of this machine may read this file, and its permissions cannot be changed; run `chmod go=` on it");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_may_be_somebody_elses_keeps_its_mode_and_our_files_in_it_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, database) = (folder.path(), folder.path().join(FILE));
        fs::write(folder.join("theirs"), "").unwrap();
        set(folder, 0o755);
        close_to_others(folder);
        assert_eq!(mode(folder), 0o755, "it is not ours alone");
        fs::write(&database, "").unwrap();
        set(&database, 0o644);
        set(&folder.join("theirs"), 0o644);
        set(folder, 0o1777);
        close_to_others(folder);
        let modes = [folder, &database, &folder.join("theirs")].map(mode);
        assert_eq!(modes, [0o1777, 0o600, 0o644], "it is shared on purpose");
        set(folder, 0o755);
        close_to_others(folder);
        assert_eq!(mode(folder), 0o755, "somebody else's file is in it");
        fs::rename(folder.join("theirs"), folder.join("catalogue.toml")).unwrap();
        close_to_others(folder);
        assert_eq!(mode(folder), 0o700, "all of it is ours");
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone_and_those_above_it_as_usual() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("a/b");
        make_private_folder(&folder).unwrap();
        make_private_folder(&folder).unwrap();
        assert_eq!((mode(&folder), mode_for_others(&folder)), (0o700, None));
        fs::write(outer.path().join("file"), "").unwrap();
        assert!(make_private_folder(&outer.path().join("file")).is_err());
    }
}
