//! Hot reload: changes in the apps folder are taken up while the server runs. Each look compares names, sizes and times, which works on every
//! file system. A change is taken up once it has been quiet for a look; what is broken is read again before it is said to be.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use app::{Apps, Problem};
use service::Service;
use tokio::time::{MissedTickBehavior, interval};
use tools::Secrets;

use crate::config::{self, Config};

const LOOK: Duration = Duration::from_secs(1);

/// How often a folder is read before it counts as broken, or looked for before it counts as gone.
const TRIES: u32 = 2;

/// Looks in a row that may find something new before it is taken up all the same, as when a tool writes into the folder
/// all the time.
const MAX_UNQUIET: u32 = 5;

/// Files of one app that are looked at, and folders within folders.
const MAX_FILES: usize = 5_000;
const MAX_DEPTH: usize = 8;

/// The facts of a file that are compared: its path, its size, which file it is, and when it was changed.
type Print = (PathBuf, u64, u64, [i64; 4]);

/// The apps folder at one moment.
type FolderPrints = BTreeMap<PathBuf, Vec<Print>>;

/// The state of one app folder.
#[derive(Default)]
struct Known {
    prints: Vec<Print>,
    /// Reads of this state that failed.
    tries: u32,
    /// Nothing is to be done until something changes.
    settled: bool,
    /// Looks in a row that found something new.
    unquiet: u32,
    /// Looks that did not find the folder.
    missed: u32,
}

pub(crate) struct AppWatch<'a> {
    config: &'a Config,
    service: Service,
    secrets: Arc<Secrets>,
    known: BTreeMap<PathBuf, Known>,
    /// The apps that are served, as far as they were read here.
    apps: Apps,
}

impl<'a> AppWatch<'a> {
    pub(crate) fn new(config: &'a Config, service: Service, secrets: Arc<Secrets>) -> Self {
        Self { config, service, secrets, known: BTreeMap::new(), apps: Apps::new() }
    }

    /// Takes up changes for as long as it is polled.
    pub(crate) async fn run(mut self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let folder = self.config.apps.clone();
            // A folder that cannot be read for a moment is no reason to serve nothing.
            if let Ok(Some(look)) = tokio::task::spawn_blocking(move || read_prints(&folder)).await {
                self.compare(look).await;
            }
        }
    }

    async fn compare(&mut self, look: FolderPrints) {
        let gone: Vec<PathBuf> =
            self.known.keys().filter(|path| !look.contains_key(*path)).cloned().collect();
        for folder in gone {
            self.note_missing_folder(&folder);
        }
        for (folder, prints) in look {
            let known = self.known.entry(folder.clone()).or_default();
            known.missed = 0;
            let quiet = known.prints == prints;
            if !quiet {
                *known = Known { prints, unquiet: known.unquiet + 1, ..Known::default() };
            }
            if (quiet && !known.settled) || known.unquiet > MAX_UNQUIET {
                known.unquiet = 0;
                self.take_up(&folder).await;
            }
        }
    }

    fn note_missing_folder(&mut self, folder: &Path) {
        let Some(known) = self.known.get_mut(folder) else { return };
        known.missed += 1;
        if known.missed < TRIES {
            return;
        }
        self.known.remove(folder);
        if let Ok(id) = app::id(folder)
            && self.service.revision(&id).is_ok()
        {
            self.apps.remove(&id);
            self.service.remove_app(&id);
            tracing::info!(app = %id, "hot reload: the app's folder was removed, so the app is no longer served");
        }
    }

    async fn take_up(&mut self, folder: &Path) {
        let path = folder.to_owned();
        let Ok(read) = tokio::task::spawn_blocking(move || app::check(&path)).await else { return };
        let taken = match read {
            Ok(app) => self.replace(Arc::new(app)).await.map_err(|problem| vec![problem]),
            Err(problems) => Err(problems),
        };
        let Some(known) = self.known.get_mut(folder) else { return };
        known.tries += 1;
        known.settled = taken.is_ok() || known.tries >= TRIES;
        if let (Err(problems), true) = (taken, known.settled) {
            self.report(folder, &problems);
        }
    }

    async fn replace(&mut self, app: Arc<app::App>) -> Result<(), Problem> {
        let (id, revision) = (app.id.clone(), app.revision.clone());
        self.apps.insert(id.clone(), Arc::clone(&app));
        if self.service.revision(&id).ok().as_ref() == Some(&revision) {
            self.service.note_problem(&id, None);
            self.service.update_knowledge(&id); // its revision does not speak of documents
            return Ok(());
        }
        self.give_secrets();
        self.service.replace_app(app).await?;
        tracing::info!(app = %id, revision, "hot reload: the new version of the app is served");
        Ok(())
    }

    /// Adds the secrets that the apps name now.
    fn give_secrets(&self) {
        match self.config.outside.secrets_for(&self.apps, &config::process_environment) {
            Ok((values, missing)) => {
                self.secrets.add(values);
                missing.iter().for_each(|problem| tracing::warn!("{problem}"));
            }
            Err(problem) => tracing::warn!("{problem}"),
        }
    }

    fn report(&self, folder: &Path, problems: &[Problem]) {
        let Some(first) = problems.first() else { return };
        let more = match problems.len() {
            1 => String::new(),
            count => format!(" (and {} more: see `rondo apps check`)", count - 1),
        };
        let Ok(id) = app::id(folder) else {
            tracing::error!("a folder is not served: {first}{more}");
            return;
        };
        if self.service.revision(&id).is_err() {
            tracing::error!(app = %id, "the app is not served: {first}{more}");
            return;
        }
        tracing::error!(app = %id, "hot reload: the app's folder has a problem, so the previous version is still served: {first}{more}");
        self.service.note_problem(&id, Some(format!("{}{more}", self.with_relative_path(first))));
    }

    /// Users of the app need not know where it is on this machine.
    fn with_relative_path(&self, problem: &Problem) -> Problem {
        let file = problem.file.strip_prefix(&self.config.apps).unwrap_or(&problem.file);
        Problem { file: file.to_owned(), ..problem.clone() }
    }
}

/// All app folders as they are; none if the folder cannot be read.
fn read_prints(apps: &Path) -> Option<FolderPrints> {
    let folders = app::folders(apps).ok()?;
    Some(folders.into_iter().map(|folder| (folder.clone(), prints(&folder))).collect())
}

fn prints(folder: &Path) -> Vec<Print> {
    let mut prints = Vec::new();
    add_prints(folder, MAX_DEPTH, &mut prints);
    prints.sort();
    prints
}

fn add_prints(folder: &Path, depth: usize, prints: &mut Vec<Print>) {
    let Ok(entries) = folder.read_dir() else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(meta) = fs::metadata(&path) else { continue };
        if prints.len() >= MAX_FILES {
            return;
        }
        if !meta.is_dir() {
            let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
            prints.push((path, meta.len(), meta.ino(), times));
        } else if depth > 0 {
            add_prints(&path, depth - 1, prints);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_is_seen() {
        let apps = tempfile::tempdir().unwrap();
        let folder = apps.path().join("demo");
        fs::create_dir_all(folder.join("records")).unwrap();
        fs::write(folder.join("app.toml"), "a").unwrap();
        let mut last = read_prints(apps.path()).unwrap();
        assert_eq!(read_prints(apps.path()).unwrap(), last);
        let mut changed = |what: &str| {
            let next = read_prints(apps.path()).unwrap();
            assert_ne!(next, last, "{what}");
            last = next;
        };
        fs::write(folder.join("app.toml"), "ab").unwrap();
        changed("a size");
        fs::write(folder.join("new.toml"), "cd").unwrap();
        changed("a new file");
        fs::rename(folder.join("new.toml"), folder.join("app.toml")).unwrap();
        changed("another file of the same size");
        fs::write(folder.join("records/x.json"), "{}").unwrap();
        changed("a file in a folder");
        fs::remove_file(folder.join("records/x.json")).unwrap();
        changed("a file that is gone");
        fs::create_dir(apps.path().join("second")).unwrap();
        changed("a new folder");
        assert_eq!(read_prints(&apps.path().join("absent")), None);
    }

    #[test]
    fn folders_that_lead_in_circles_are_left_in_time() {
        let apps = tempfile::tempdir().unwrap();
        let folder = apps.path().join("demo");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("app.toml"), "").unwrap();
        std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
        assert_eq!(prints(&folder).len(), MAX_DEPTH + 1);
    }
}
