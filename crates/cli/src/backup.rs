//! `rondo backup`: a copy of the data folder as it was at one moment, whether or not a server is using it. The copy is
//! made beside its place and moved there when it is complete, so every file with that name can be restored.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use indicatif::DecimalBytes;
use store::sqlite::{self, Audited};

use crate::config::Config;
use crate::pull::progress::Progress;
use crate::{CommandError, CommandResult, audit, print, vault};

/// The ending of a copy's name until the copy is complete.
const PARTIAL: &str = ".partial";
/// The command that makes the backup holds this lock.
const LOCK: &str = "lock";
/// Bytes of a page, for the progress alone.
const PAGE_BYTES: u64 = 4096;

#[derive(clap::Args)]
pub(crate) struct BackupOptions {
    /// The folder for the copy; it must be new or empty
    folder: PathBuf,
}

pub(crate) fn backup(config: &Config, options: &BackupOptions) -> CommandResult {
    audit::require_sqlite(config, "use pg_dump for a backup, and keep vault.key of the data folder with it")?;
    audit::require_database(&config.data)?;
    let place = Place::of(&config.data, &options.folder)?;
    let lock = place.clear()?;
    let audited = copy(&config.data, &place.partial)?;
    let key = vault::copy(&config.data, &place.partial)?;
    let bytes = fs::metadata(place.partial.join(sqlite::FILE))?.len();
    drop(lock);
    place.publish()?;
    report(&place.folder, &audited, bytes, key)
}

fn copy(data: &Path, partial: &Path) -> CommandResult<Audited> {
    let mut progress: Option<Progress> = None;
    let report = |done: u64, total: u64| {
        let progress = progress.get_or_insert_with(|| Progress::start("backup", 0, Some(total * PAGE_BYTES)));
        progress.show_done(done * PAGE_BYTES);
    };
    sqlite::backup(data, partial, report).map_err(|error| format!("{}: {error}", data.display()).into())
}

/// The place of the copy, and the place where it is made.
struct Place {
    parent: PathBuf,
    folder: PathBuf,
    partial: PathBuf,
}

impl Place {
    fn of(data: &Path, folder: &Path) -> CommandResult<Self> {
        let name =
            folder.file_name().ok_or_else(|| format!("{} is not the path of a folder", folder.display()))?;
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let parent = parent.canonicalize()?;
        let folder = parent.join(name);
        let is_inside = |folder: &Path| Ok::<_, CommandError>(folder.starts_with(data.canonicalize()?));
        if is_inside(&folder)? || (folder.exists() && is_inside(&folder.canonicalize()?)?) {
            return Err(format!(
                "{} is in the data folder; choose a folder outside it, best on another disk",
                folder.display()
            )
            .into());
        }
        if !is_free(&folder)? {
            return Err(
                format!("{} exists already and is not empty; choose a new folder", folder.display()).into()
            );
        }
        let mut partial = name.to_owned();
        partial.push(PARTIAL);
        Ok(Self { partial: parent.join(partial), folder, parent })
    }

    /// Makes an empty folder for the copy, where a backup that was cut may have left one.
    fn clear(&self) -> CommandResult<File> {
        let shown = self.partial.display();
        sqlite::make_private_folder(&self.partial).map_err(|error| format!("{shown}: {error}"))?;
        let lock = File::create(self.partial.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(format!("another backup is writing {shown}").into()),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        for left in fs::read_dir(&self.partial)? {
            let left = left?;
            if left.file_name() != LOCK {
                fs::remove_file(left.path())
                    .map_err(|error| format!("{}: {error}", left.path().display()))?;
            }
        }
        Ok(lock)
    }

    /// Gives the copy its name once all of it is on the disk.
    fn publish(&self) -> CommandResult {
        fs::remove_file(self.partial.join(LOCK))?;
        for file in fs::read_dir(&self.partial)? {
            File::open(file?.path())?.sync_all()?;
        }
        File::open(&self.partial)?.sync_all()?;
        fs::rename(&self.partial, &self.folder)
            .map_err(|error| format!("{}: {error}", self.folder.display()))?;
        Ok(File::open(&self.parent)?.sync_all()?)
    }
}

fn is_free(folder: &Path) -> CommandResult<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(format!("{}: {error}", folder.display()).into()),
    }
}

fn report(folder: &Path, audited: &Audited, bytes: u64, key: &str) -> CommandResult {
    let shown = folder.display();
    if !audited.findings.is_empty() {
        return Err(format!(
            "{shown} is a complete copy, but the data itself has faults:\n  {}",
            audited.findings.join("\n  ")
        )
        .into());
    }
    print(&format!(
        "{shown}: {}, {}, checked\n{key}\nnot in the backup: pulled models, the apps and rondo.toml\n\
         to restore it, start the server with RONDO_DATA={shown}, or with a copy of that folder\n",
        DecimalBytes(bytes),
        audit::count_report(audited)
    ))
}
