//! A SQLite store and a PostgreSQL store that begin empty, with one clock, and what each of them has published.

use std::path::Path;
use std::sync::{Arc, Mutex};

use protocol::{Clock, Ids, Stored};
use store::postgres::PostgresAddress;
use store::{Coalesce, NewestNotice, Publish, Store, StoreOptions};
use tempfile::TempDir;
use testkit::still::SettableClock;
use uuid::Uuid;

/// What a store tells of its commits, as text.
#[derive(Default)]
pub(super) struct ToldCommits(Mutex<Vec<String>>);

impl ToldCommits {
    /// What was told since this was asked last.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Publish for ToldCommits {
    fn publish(&self, events: &[Arc<Stored>]) {
        self.0.lock().unwrap().extend(events.iter().map(|event| format!("{event:?}")));
    }

    fn publish_notices(&self, newest: &[NewestNotice]) {
        self.0.lock().unwrap().extend(newest.iter().map(|notice| format!("{notice:?}")));
    }
}

/// Ids that count from a number on.
pub(super) struct IdsFrom(Mutex<u128>);

impl IdsFrom {
    pub(super) fn new(first: u128) -> Self {
        Self(Mutex::new(first))
    }
}

impl Ids for IdsFrom {
    fn fresh(&self) -> Uuid {
        let mut next = self.0.lock().unwrap();
        *next += 1;
        Uuid::from_u128(*next)
    }
}

/// Two stores that are asked the same.
pub(super) struct TwoStores {
    folder: TempDir,
    pub(super) address: PostgresAddress,
    pub(super) clock: Arc<SettableClock>,
    pub(super) told: [Arc<ToldCommits>; 2],
    /// The one on SQLite and the one on PostgreSQL. None while they are closed.
    stores: Option<[Store; 2]>,
}

impl TwoStores {
    pub(super) fn open(address: &str, name: &str) -> Self {
        let folder = crate::support::in_memory();
        let address: PostgresAddress = format!("{address}?schema={name}").parse().unwrap();
        let mut stores = Self {
            folder,
            address,
            clock: Arc::default(),
            told: [Arc::default(), Arc::default()],
            stores: None,
        };
        stores.open_again("first boot");
        stores
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn both(&self) -> [Store; 2] {
        self.stores.clone().unwrap()
    }

    pub(super) fn close(&mut self) {
        self.stores = None;
    }

    /// Closes both, and opens them again as after a start of the machine that has this name.
    pub(super) fn open_again(&mut self, boot: &str) {
        self.close();
        let options = || StoreOptions {
            // What shares a commit depends on the moment, and so would the events.
            coalesce: Coalesce::Never,
            boot: Some(boot.to_owned()),
            ..StoreOptions::default()
        };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let [file, server] = self.told.clone();
        let file = Store::open_sqlite_with(self.folder.path(), clock.clone(), file, options()).unwrap();
        let server = Store::open_postgres(&self.address, clock, server, options()).unwrap();
        self.stores = Some([file, server]);
    }
}
