//! The fate of deltas when PostgreSQL crashes: their commits do not wait for its log, so the crash loses the last of
//! them, though clients have seen them.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Ids as _, Seq, Stored};
use store::inspection::{number_of, postgres_log};
use store::postgres::{PostgresAddress, audit};
use store::{Coalesce, RunLog, Store, StoreOptions, Target};
use testkit::still::CountingIds;
use testpg::{PACKAGE_VARIABLE, PostgresEnd, PostgresPrograms, PostgresServer};

use crate::support::{Fixture, Forward, Published, principal, step_end, text};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A commit that does not wait for the log stays out of it for as long as PostgreSQL allows.
const FORGETFUL: &[&str] = &["fsync=off", "wal_writer_delay=10s"];

/// A store on a PostgreSQL of its own.
struct Crashing {
    server: PostgresServer,
    address: PostgresAddress,
    clock: Arc<Forward>,
    fixture: Fixture,
}

impl Crashing {
    #[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
    fn start() -> Self {
        let programs = PostgresPrograms::of_variable(std::env::var_os(PACKAGE_VARIABLE)).unwrap();
        let server = PostgresServer::start(&programs, FORGETFUL).unwrap();
        let address = server.url().parse().unwrap();
        let (clock, published) = (Arc::<Forward>::default(), Arc::<Published>::default());
        let store = open(&address, &clock, &published);
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture { store, published, ids: CountingIds::default(), folder };
        Self { server, address, clock, fixture }
    }

    /// PostgreSQL stops at once, and starts again.
    fn crash(&mut self) {
        self.server.stop(PostgresEnd::Immediate);
        self.server.start_again().unwrap();
    }

    /// The process ends, and the next one opens the database.
    fn start_again(self) -> Self {
        let Self { server, address, clock, fixture } = self;
        let Fixture { store, published, ids, folder } = fixture;
        drop(store);
        // It waits until the old one has given the right to write back.
        let store = open(&address, &clock, &published);
        Self { server, address, clock, fixture: Fixture { store, published, ids, folder } }
    }

    /// Pushes deltas and waits until they are published.
    async fn say(&self, log: &RunLog, deltas: &[&str]) {
        let before = self.fixture.published.all().len();
        for delta in deltas {
            log.push(text(delta)).unwrap();
        }
        let published = async {
            while self.fixture.published.all().len() < before + deltas.len() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, published).await.unwrap();
    }

    /// Each event that was published has its number and its content in the log.
    fn has_all(&self) {
        let key = |event: &Stored| (event.thread, event.seq, event.kind.clone(), Arc::clone(&event.body));
        let log: Vec<_> = postgres_log(&self.address).unwrap().iter().map(|row| key(&row.event)).collect();
        for event in self.fixture.published.all() {
            assert!(log.contains(&key(&event)), "{event:?} is not in the log: {log:#?}");
        }
        assert_eq!(audit(&self.address).unwrap().findings, [""; 0]);
    }
}

fn options() -> StoreOptions {
    StoreOptions { coalesce: Coalesce::Never, delta_pause: Some(Duration::ZERO), ..StoreOptions::default() }
}

fn open(address: &PostgresAddress, clock: &Arc<Forward>, published: &Arc<Published>) -> Store {
    Store::open_postgres(address, clock.clone(), published.clone(), options()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deltas_that_a_crash_has_lost_are_written_with_the_next_fact() {
    let mut crashing = Crashing::start();
    let (_, log) = crashing.fixture.run().await;
    crashing.say(&log, &["one ", "two "]).await;
    crashing.crash();
    assert_eq!(postgres_log(&crashing.address).unwrap().len(), 2, "the crash has lost the deltas");
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    crashing.has_all();
}

/// A process that lives through a crash and ends later leaves nothing to be guessed: what it had in memory is in the
/// log by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deltas_that_a_crash_has_lost_are_written_with_the_next_deltas() {
    let mut crashing = Crashing::start();
    let (_, log) = crashing.fixture.run().await;
    let other = crashing.fixture.run().await.1;
    crashing.say(&log, &["one ", "two "]).await;
    crashing.crash();
    crashing.say(&other, &["ein "]).await;
    drop((log, other));
    let crashing = crashing.start_again();
    crashing.has_all();
    let left_out = number_of(&crashing.address, "SELECT count(*) FROM skipped").unwrap();
    assert_eq!(left_out, 0, "nothing is lost, so no number is left out");
}

/// A table of the delta log is emptied once its deltas are packed. A crash must not lose the packed ones, of which this
/// process then has no copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deltas_that_were_packed_survive_a_crash() {
    let mut crashing = Crashing::start();
    let (_, log) = crashing.fixture.run().await;
    for (seconds, delta) in [(0, "one "), (31, "two "), (62, "three ")] {
        crashing.clock.to(seconds);
        crashing.say(&log, &[delta]).await;
    }
    crashing.crash();
    log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    crashing.has_all();
}

/// If both end, the numbers of what is lost are not used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_both_leaves_numbers_out() {
    let mut crashing = Crashing::start();
    let (run, log) = crashing.fixture.run().await;
    crashing.say(&log, &["one ", "two "]).await;
    let seen: Vec<Seq> = crashing.fixture.published.of(run.thread).iter().map(|event| event.seq).collect();
    crashing.crash();
    drop(log);
    let crashing = crashing.start_again();
    let row = crashing.fixture.store.thread(&principal("alice"), run.thread).await.unwrap();
    assert!(seen.iter().all(|seq| *seq < row.last_seq), "{seen:?} {}", row.last_seq);
    crashing.fixture.submit(Target::New(crashing.fixture.ids.thread())).await;
    assert_eq!(audit(&crashing.address).unwrap().findings, [""; 0]);
}
