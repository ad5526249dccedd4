//! Everything around the server: a folder with apps and data, the model and the tools it talks to, and its users.

mod apps;
mod nodes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tokio_util::sync::CancellationToken;

use self::apps::APPS;
pub(crate) use self::nodes::TrialNode;
use self::nodes::{NodeSetup, Surroundings};
use crate::balancer::Balancer;
use crate::database::{TrialData, TrialStore};
use crate::disk;
use crate::model::ScriptedModel;
use crate::postgres::TrialPostgres;
use crate::private_words::PrivateWords;
use crate::record::Book;
use crate::server::{Launch, ServerProcess};
use crate::stage::{Moments, Stage, Starts, TortureError, User};
use crate::tools::{Bench, ToolServer};

/// Bytes of the file system under the data, where there is one.
const DISK_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Seconds in which runs continue on a server that was asked to stop.
const DRAIN_SECONDS: u32 = 3;
/// Random letters of a secret, and of a user's word.
const SECRET_LETTERS: usize = 24;
const CANARY_LETTERS: usize = 8;
/// Hexadecimal digits of the key that encrypts credentials.
const VAULT_KEY_DIGITS: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct WorldSettings {
    pub(crate) seed: u64,
    /// For everything that is written; made if it is not there.
    pub(crate) out: PathBuf,
    /// The binary under test.
    pub(crate) server: PathBuf,
    pub(crate) users: usize,
    pub(crate) store: TrialStore,
    /// Server processes that share the database.
    pub(crate) nodes: usize,
    /// The library that puts the clock of one of several nodes ahead.
    pub(crate) faketime: Option<PathBuf>,
    /// The server of an older version, with which each node starts for the first time.
    pub(crate) older: Option<PathBuf>,
    /// Whether data and apps stay when the world ends.
    pub(crate) keep: bool,
}

pub(crate) struct TortureWorld {
    settings: WorldSettings,
    /// The data folder of the first node.
    pub(crate) data: PathBuf,
    /// Whether the data folder is a file system of its own, which can be filled.
    pub(crate) own_disk: bool,
    /// The database, unless it is a file in the data folder.
    pub(crate) postgres: Option<TrialPostgres>,
    pub(crate) users: Arc<[User]>,
    pub(crate) private_words: PrivateWords,
    pub(crate) model: ScriptedModel,
    pub(crate) book: Book,
    pub(crate) moments: Moments,
    pub(crate) starts: Starts,
    pub(crate) balancer: Balancer,
    /// How commands are started, with their own way to the database.
    launch: Launch,
    nodes: Vec<NodeSetup>,
    /// Its socket closes with the world.
    _tools: ToolServer,
}

impl TortureWorld {
    pub(crate) async fn build(settings: &WorldSettings) -> Result<Self, TortureError> {
        let mut rng = Rng::with_seed(settings.seed);
        let postgres = match settings.store {
            TrialStore::Sqlite => None,
            TrialStore::Postgres => Some(TrialPostgres::start().await?),
        };
        let places = Places::make(&settings.out, settings.store)?;
        let cast = Cast::draw(settings.users, &mut rng);
        let (book, moments, private_words) = (Book::open(&places.out)?, Moments::new(), cast.private_words());
        let key = &cast.model_key;
        let model = ScriptedModel::start(&book, &moments, &private_words, key, settings.nodes).await;
        let bench = Bench {
            book: book.clone(),
            moments: moments.clone(),
            private_words: private_words.clone(),
            secret: cast.tool_key.clone(),
        };
        let tools = ToolServer::start(bench).await;
        let address = tools.address().to_string();
        apps::write(&places.apps, &address)?;
        let surroundings = Surroundings {
            out: &places.out,
            apps: &places.apps,
            binary: std::path::absolute(&settings.server)?,
            cast: &cast,
            model: &model,
            tools: address,
            postgres: postgres.as_ref(),
            nodes: settings.nodes,
            faketime: settings.faketime.as_deref(),
            older: settings.older.as_ref().map(std::path::absolute).transpose()?,
        };
        let setups = (0..settings.nodes).map(|node| surroundings.set_up(node, &mut rng));
        let nodes: Vec<NodeSetup> = setups.collect::<Result<_, _>>()?;
        let first = nodes.first().ok_or("a trial needs a node")?;
        let launch = first.launch.with_database(postgres.as_ref().map(|database| database.url.as_str()));
        let mut users = Vec::with_capacity(cast.people.len());
        for user in cast.people {
            let key = launch.add_key(&[&user.name, "--app", &user.app]).await?;
            users.push(User { key, ..user });
        }
        Ok(Self {
            settings: settings.clone(),
            data: first.data.clone(),
            own_disk: places.own_disk,
            postgres,
            users: users.into(),
            private_words,
            model,
            book,
            moments,
            starts: Starts::default(),
            balancer: Balancer::new(nodes.iter().map(|node| node.launch.url.clone())),
            launch,
            nodes,
            _tools: tools,
        })
    }

    /// Returns the stage that actors have at hand.
    pub(crate) fn stage(&self) -> Stage {
        Stage {
            balancer: self.balancer.clone(),
            users: Arc::clone(&self.users),
            seed: self.settings.seed,
            book: self.book.clone(),
            moments: self.moments.clone(),
            starts: self.starts.clone(),
            curtain: CancellationToken::new(),
        }
    }

    /// The nodes of this world, which do not run yet.
    pub(crate) fn nodes(&self) -> Result<Vec<TrialNode>, TortureError> {
        let node = |(number, setup): (usize, &NodeSetup)| {
            let process = ServerProcess::new(setup.launch.clone(), self.starts.clone())?;
            Ok(TrialNode { number, process, link: setup.link.clone() })
        };
        self.nodes.iter().enumerate().map(node).collect()
    }

    /// Returns the output of each node.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.launch.log.clone()).collect()
    }

    /// How to start the binary in this world, such as for `rondo actions verify`.
    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn store(&self) -> TrialStore {
        self.settings.store
    }

    /// Returns the place of the server's data.
    pub(crate) fn stored(&self) -> TrialData {
        match &self.postgres {
            Some(database) => TrialData::Postgres(Box::new(database.address.clone())),
            None => TrialData::Folder(self.data.clone()),
        }
    }

    /// Copies the data somewhere else: a file system of its own is gone with this process.
    pub(crate) fn freeze(&self, to: &Path) -> Result<(), TortureError> {
        copy(&self.data, to)
    }
}

impl TortureWorld {
    /// Leaves what is to stay in the folder, on the disk that the folder is on.
    fn tidy(&self) -> Result<(), TortureError> {
        let folder = &self.launch.folder;
        let kept = folder.join("kept");
        if self.own_disk {
            if self.settings.keep {
                self.freeze(&kept)?;
            }
            disk::unmount(&self.data);
        }
        if !self.settings.keep {
            std::fs::remove_dir_all(folder.join("apps"))?;
            for node in &self.nodes {
                std::fs::remove_dir_all(&node.data)?;
            }
        } else if self.own_disk {
            std::fs::remove_dir(&self.data)?;
            std::fs::rename(&kept, &self.data)?;
        }
        Ok(())
    }
}

impl Drop for TortureWorld {
    fn drop(&mut self) {
        let _ = self.tidy(); // what cannot be removed is in a folder that the caller named
    }
}

/// The places of everything.
struct Places {
    out: PathBuf,
    apps: PathBuf,
    own_disk: bool,
}

impl Places {
    fn make(out: &Path, store: TrialStore) -> Result<Self, TortureError> {
        let out = std::path::absolute(out)?;
        let (data, apps) = (out.join("data"), out.join("apps"));
        std::fs::create_dir_all(&out)?;
        std::fs::write(out.join("rondo.toml"), format!("[server]\ndrain_seconds = {DRAIN_SECONDS}\n"))?;
        let own_disk = match store {
            TrialStore::Sqlite => {
                std::fs::create_dir_all(&data)?;
                disk::mount(&data, DISK_BYTES)
            }
            TrialStore::Postgres => false, // what is on it is hardly written to
        };
        Ok(Self { out, apps, own_disk })
    }
}

/// The users, and the secrets that must not reach any other user.
struct Cast {
    /// Without keys, which the server has to make first.
    people: Vec<User>,
    model_key: String,
    tool_key: String,
    /// Encrypts the credentials of users, where several nodes need the same key.
    vault_key: String,
}

impl Cast {
    fn draw(users: usize, rng: &mut Rng) -> Self {
        let people = (0..users).map(|at| draw_user(at, rng)).collect();
        let [model_key, tool_key] =
            ["sk-torture-", "tool-torture-"].map(|kind| format!("{kind}{}", draw_word(rng, SECRET_LETTERS)));
        let vault_key = std::iter::repeat_with(|| rng.digit(16)).take(VAULT_KEY_DIGITS).collect();
        Self { people, model_key, tool_key, vault_key }
    }

    fn private_words(&self) -> PrivateWords {
        let canaries = self.people.iter().map(|user| (user.name.clone(), user.canary.clone())).collect();
        let secrets = [&self.model_key, &self.tool_key, &self.vault_key];
        PrivateWords::new(canaries, secrets.map(String::clone).to_vec())
    }
}

/// Users go round the apps, so that each app has some who could be mistaken for each other.
fn draw_user(at: usize, rng: &mut Rng) -> User {
    let app = APPS.iter().copied().cycle().nth(at).unwrap_or_default();
    let canary = format!("canary{app}{}", draw_word(rng, CANARY_LETTERS));
    User { name: format!("user{at}"), app: app.to_owned(), key: String::new(), canary }
}

/// A word that occurs in no text by chance.
fn draw_word(rng: &mut Rng, length: usize) -> String {
    std::iter::repeat_with(|| rng.lowercase()).take(length).collect()
}

fn path(path: &Path) -> Result<String, TortureError> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is no UTF-8", path.display()).into())
}

fn copy(from: &Path, to: &Path) -> Result<(), TortureError> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let there = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &there)?;
        } else {
            std::fs::copy(entry.path(), &there)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_differ_and_are_spread_over_the_apps() {
        let mut rng = Rng::with_seed(1);
        let cast = Cast::draw(8, &mut rng);
        let of = |app: &str| cast.people.iter().filter(|user| user.app == app).count();
        assert_eq!(APPS.map(of), [3, 3, 2]);
        let words = cast.private_words();
        for user in &cast.people {
            assert_eq!(words.owners(&format!("so says {}.", user.canary)), [user.name.as_str()]);
        }
        for secret in words.secrets() {
            assert!(words.holds_secret(&format!("it is {secret}!")));
        }
        assert!(!words.holds_secret("it is sk-torture-"));
    }

    #[test]
    fn what_is_copied_is_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("deep")).unwrap();
        std::fs::write(from.join("deep/file"), "text").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("deep/file")).unwrap(), "text");
    }
}
