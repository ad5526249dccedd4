//! A SQLite store and a PostgreSQL store that begin empty, with one clock, and what each of them has published.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use protocol::{Clock, Ids, Stored, UserId};
use store::postgres::PostgresAddress;
use store::{Boundary, Coalesce, Moment, NewestNotice, Publish, Store, StoreOptions};
use tempfile::TempDir;
use testkit::still::SettableClock;
use uuid::Uuid;

/// The news of a store about its commits: events as text, and the newest notice of each user. How often a notice is
/// told depends on what shared a commit.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ToldParts {
    pub(super) events: Vec<String>,
    pub(super) newest: BTreeMap<UserId, u64>,
    /// Whether there is new work for the background.
    pub(super) has_work: bool,
}

#[derive(Default)]
pub(super) struct ToldCommits(Mutex<ToldParts>);

impl ToldCommits {
    /// Returns the news since the last call.
    pub(super) fn take(&self) -> ToldParts {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Publish for ToldCommits {
    fn publish(&self, events: &[Arc<Stored>]) {
        self.0.lock().unwrap().events.extend(events.iter().map(|event| format!("{event:?}")));
    }

    fn publish_notices(&self, newest: &[NewestNotice]) {
        let newest = newest.iter().map(|notice| (notice.user.clone(), notice.number));
        self.0.lock().unwrap().newest.extend(newest);
    }

    fn publish_work(&self) {
        self.0.lock().unwrap().has_work = true;
    }
}

/// Holds the writer of a store before a commit, so that what comes meanwhile shares the next one.
#[derive(Default)]
pub(super) struct CommitGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_closed: bool,
    has_waiting: bool,
}

impl CommitGate {
    pub(super) fn close(&self) {
        self.state.lock().unwrap().is_closed = true;
    }

    pub(super) fn wait_for_writer(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.has_waiting).unwrap());
    }

    pub(super) fn open(&self) {
        self.state.lock().unwrap().is_closed = false;
        self.changed.notify_all();
    }
}

impl Boundary for CommitGate {
    fn pass(&self, moment: Moment) -> bool {
        if moment == Moment::BeforeCommit {
            let mut state = self.state.lock().unwrap();
            state.has_waiting = true;
            self.changed.notify_all();
            let mut state = self.changed.wait_while(state, |state| state.is_closed).unwrap();
            state.has_waiting = false;
        }
        true
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
    pub(super) gates: [Arc<CommitGate>; 2],
    /// The stores on SQLite and on PostgreSQL. None while they are closed.
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
            told: Default::default(),
            gates: Default::default(),
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
        let options = |gate: &Arc<CommitGate>| StoreOptions {
            // The work that shares a commit depends on the moment, and so would the events.
            coalesce: Coalesce::Never,
            boot: Some(boot.to_owned()),
            boundary: Some(gate.clone()),
            ..StoreOptions::default()
        };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let [file, server] = self.told.clone();
        let [of_file, of_server] = &self.gates;
        let file = Store::open_sqlite(self.folder.path(), clock.clone(), file, options(of_file)).unwrap();
        let server = Store::open_postgres(&self.address, clock, server, options(of_server)).unwrap();
        self.stores = Some([file, server]);
    }
}
