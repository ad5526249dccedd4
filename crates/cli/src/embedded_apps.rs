//! The apps that are part of the binary. They are served if no apps folder is configured and `./apps` does not exist.
//!
//! Everything that reads apps reads folders. So the files are written into the data folder first, once for each version.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use flate2::bufread::DeflateDecoder;

use crate::CommandResult;
use crate::config::{Config, DEFAULT_APPS};

/// All files of all apps in order: the path, which begins with the name of the app, and the compressed content.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/apps.rs"));

/// The version of these files, which their content names.
const REVISION: &str = include!(concat!(env!("OUT_DIR"), "/apps_revision.rs"));

/// The folder in the data folder that the apps are written into.
const FOLDER: &str = "built-in-apps";

/// Threads that write the apps.
const WRITERS: usize = 8;

/// The drafts that killed processes with one process id may leave behind, at most.
const MAX_DRAFTS: usize = 64;

/// Whether this configuration uses the embedded apps.
pub(crate) fn are_used(config: &Config) -> bool {
    config.apps == Path::new(DEFAULT_APPS) && !config.apps.exists()
}

/// The folder of the apps that this configuration serves.
pub(crate) fn apps_folder(config: &Config) -> CommandResult<PathBuf> {
    if !are_used(config) {
        return Ok(config.apps.clone());
    }
    unpack(&config.data).map_err(|error| {
        let data = config.data.display();
        format!("{data}: cannot write the built-in apps: {error}; choose another data folder with RONDO_DATA")
            .into()
    })
}

/// The names of the embedded apps.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = FILES.iter().filter_map(|(path, _)| Some(path.split_once('/')?.0)).collect();
    names.dedup();
    names
}

/// The files of one app by their paths inside the app folder; none if there is no such app.
pub(crate) fn files_of(app: &str) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let of_app = |(path, compressed): &(&'static str, &'static [u8])| {
        let (name, inside) = path.split_once('/')?;
        (name == app).then(|| Ok((inside, expand(compressed)?)))
    };
    FILES.iter().filter_map(of_app).collect()
}

fn expand(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    DeflateDecoder::new(compressed).read_to_end(&mut content)?;
    Ok(content)
}

/// Writes the apps into the data folder, as far as files of this version are missing there. Other versions stay, because a
/// server of another version may be running on them. Several processes may do this at the same moment.
fn unpack(data: &Path) -> io::Result<PathBuf> {
    let versions = data.join(FOLDER);
    let folder = versions.join(REVISION);
    if is_whole(&folder) {
        return Ok(folder);
    }
    store::sqlite::make_private_folder(data)?;
    fs::create_dir_all(&versions)?;
    let draft = new_draft(&versions)?;
    let moved = write_all(&draft).and_then(|()| move_files(&draft, &folder));
    if is_whole(&folder) {
        // Also drafts of processes that were killed. A process that still writes one finds the folder complete.
        remove_drafts(&versions);
        File::open(&versions)?.sync_all()?;
        return Ok(folder);
    }
    let _the_first_error_counts = fs::remove_dir_all(&draft);
    moved.and(Err(io::Error::other("files of the built-in apps disappear while they are written")))
}

fn is_whole(folder: &Path) -> bool {
    FILES.iter().all(|(path, _)| folder.join(path).is_file())
}

/// A folder that no other process writes into. The process id alone is not unique: in containers, it is often 1.
fn new_draft(versions: &Path) -> io::Result<PathBuf> {
    let process = std::process::id();
    for number in 0..MAX_DRAFTS {
        let draft = versions.join(format!(".{process}-{number}"));
        match fs::create_dir(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| draft),
        }
    }
    Err(io::Error::other(format!("{} has too many unfinished folders; delete it", versions.display())))
}

/// Moves the whole draft into its place. If a folder is there, only the files that it lacks are moved.
fn move_files(draft: &Path, folder: &Path) -> io::Result<()> {
    match fs::rename(draft, folder) {
        Err(_) if folder.is_dir() => {}
        outcome => return outcome,
    }
    for (path, _) in FILES.iter().filter(|(path, _)| !folder.join(path).exists()) {
        let place = folder.join(path);
        fs::create_dir_all(place.parent().unwrap_or(folder))?;
        fs::rename(draft.join(path), place)?;
    }
    Ok(())
}

fn remove_drafts(versions: &Path) {
    let entries = fs::read_dir(versions).into_iter().flatten().flatten();
    for draft in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".")) {
        let _another_process_may_be_faster = fs::remove_dir_all(draft.path());
    }
}

/// Writes all files and waits until they are on the disk. Several threads write, because a file system syncs files together
/// if several threads wait for it at the same time.
fn write_all(draft: &Path) -> io::Result<()> {
    let write_part = |files: &[(&str, &[u8])]| files.iter().try_for_each(|file| write_file(draft, file));
    thread::scope(|scope| {
        let parts = FILES.chunks(FILES.len().div_ceil(WRITERS));
        let writers: Vec<_> = parts.map(|files| scope.spawn(move || write_part(files))).collect();
        let mut joined = writers.into_iter().map(ScopedJoinHandle::join);
        joined.try_for_each(|written| written.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

fn write_file(draft: &Path, (path, compressed): &(&str, &[u8])) -> io::Result<()> {
    let path = draft.join(path);
    fs::create_dir_all(path.parent().unwrap_or(draft))?;
    let mut file = File::create(path)?;
    file.write_all(&expand(compressed)?)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_apps_of_the_repository_are_embedded_whole() {
        assert_eq!(names(), ["companion", "kalito", "studio", "trailhead", "tutor"]);
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        for (path, compressed) in FILES {
            assert_eq!(fs::read(apps.join(path)).unwrap(), expand(compressed).unwrap(), "{path}");
        }
        let kalito: Vec<&str> = files_of("kalito").unwrap().into_iter().map(|(path, _)| path).collect();
        assert!(kalito.contains(&"app.toml") && kalito.contains(&"records/patient.json"), "{kalito:?}");
        assert!(files_of("kali").unwrap().is_empty());
    }

    #[test]
    fn they_are_written_once_for_each_version_and_can_be_read() {
        let data = tempfile::tempdir().unwrap();
        let versions = data.path().join(FOLDER);
        let old = versions.join("0123456789ab");
        fs::create_dir_all(&old).unwrap();
        let killed = versions.join(format!(".{}/stray", std::process::id()));
        fs::create_dir_all(&killed).unwrap();
        let folder = unpack(data.path()).unwrap();
        assert!(old.exists(), "a server of an older version may be running on it");
        assert!(!folder.join("stray").exists(), "nothing of a process that was killed is taken over");
        let apps: Vec<String> = app::load_all(&folder).unwrap().keys().map(ToString::to_string).collect();
        assert_eq!(apps, names());
        fs::write(folder.join("studio/title.md"), "Mine.").unwrap();
        assert_eq!(unpack(data.path()).unwrap(), folder);
        assert_eq!(fs::read_to_string(folder.join("studio/title.md")).unwrap(), "Mine.", "written once");
        assert_eq!(fs::read_dir(versions).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn files_that_are_missing_are_written_again_and_others_stay() {
        let data = tempfile::tempdir().unwrap();
        let folder = unpack(data.path()).unwrap();
        fs::remove_dir_all(folder.join("kalito")).unwrap();
        fs::remove_file(folder.join("studio/app.toml")).unwrap();
        fs::write(folder.join("studio/title.md"), "Mine.").unwrap();
        assert_eq!(unpack(data.path()).unwrap(), folder);
        assert!(is_whole(&folder));
        assert_eq!(fs::read_to_string(folder.join("studio/title.md")).unwrap(), "Mine.");
        assert_eq!(fs::read_dir(data.path().join(FOLDER)).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn many_processes_can_write_them_at_the_same_moment() {
        let data = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(|| unpack(data.path()).unwrap())).collect();
            assert!(all.into_iter().all(|one| is_whole(&one.join().unwrap())));
        });
    }

    #[test]
    fn a_failure_leaves_no_draft() {
        let data = tempfile::tempdir().unwrap();
        let versions = data.path().join(FOLDER);
        fs::create_dir_all(&versions).unwrap();
        fs::write(versions.join(REVISION), "a file, where the folder belongs").unwrap();
        unpack(data.path()).unwrap_err();
        assert_eq!(fs::read_dir(versions).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_configured_is_used_as_it_is() {
        let config = Config { apps: "no/such/folder".into(), ..Config::default() };
        assert!(!are_used(&config));
        assert_eq!(apps_folder(&config).unwrap(), Path::new("no/such/folder"));
    }
}
