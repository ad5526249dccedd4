//! A replica takes the place of its primary while a server works. The address names both of them.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use store::inspection::number_of;
use store::postgres::PostgresAddress;
use store::{Error, Target};
use testpg::{PostgresEnd, PostgresServer, WITHOUT_SYNC};

use crate::sent::{PATIENCE, SentMessages, programs};
use crate::support::principal;
use protocol::Ids as _;

/// Messages before the fail-over, and after it.
const MESSAGES: usize = 30;

/// The server that accepts writes, whichever of the two it is.
fn address_of(servers: [&PostgresServer; 2]) -> PostgresAddress {
    let [first, second] = servers.map(|server| server.folder().display());
    let text = format!("host={first},{second} user=rondo dbname=rondo target_session_attrs=read-write");
    text.parse().unwrap()
}

/// The primary stops at once, and the replica takes its place.
fn fail_over(primary: &mut PostgresServer, replica: &PostgresServer) {
    primary.stop(PostgresEnd::Immediate);
    replica.run_as_admin("postgres", &["SELECT pg_promote()"]).unwrap();
}

/// Waits until `count` replicas follow the primary.
async fn wait_for_replicas(primary: &PostgresServer, condition: &str, count: i64) {
    let address: PostgresAddress = primary.address().replace("user=rondo", "user=postgres").parse().unwrap();
    let statement = format!("SELECT count(*) FROM pg_stat_replication WHERE {condition}");
    let waiting = async {
        while number_of(&address, &statement).unwrap() != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_replica_has_everything_that_was_confirmed() {
    let mut primary = PostgresServer::start(&programs(), WITHOUT_SYNC).unwrap();
    let replica = primary.follow(WITHOUT_SYNC).unwrap();
    let wait_for_it = ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"];
    primary.run_as_admin("postgres", &wait_for_it).unwrap();
    wait_for_replicas(&primary, "sync_state = 'sync'", 1).await;
    let address = address_of([&primary, &replica]);
    let mut sent = SentMessages::to(&address);
    sent.send_until_kept(MESSAGES).await;
    let servers = sent.send_during(MESSAGES, move || {
        fail_over(&mut primary, &replica);
        (primary, replica)
    });
    let _servers = servers.await;
    sent.check(&address).await;
}

/// The lines that the server logs, in a file.
fn log_into(file: &Path) {
    let log = Mutex::new(File::create(file).unwrap());
    tracing_subscriber::fmt().with_writer(log).with_ansi(false).init();
}

/// A server that continues would give numbers out again that clients have seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lacks_confirmed_commits_ends_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    log_into(&folder.path().join("log"));
    let mut primary = PostgresServer::start(&programs(), WITHOUT_SYNC).unwrap();
    let replica = primary.follow(WITHOUT_SYNC).unwrap();
    wait_for_replicas(&primary, "state = 'streaming'", 1).await;
    let address = address_of([&primary, &replica]);
    let mut sent = SentMessages::to(&address);
    sent.send_until_kept(MESSAGES).await;
    wait_for_replicas(&primary, "replay_lsn = pg_current_wal_lsn()", 1).await;
    let cut_off = ["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"];
    replica.run_as_admin("postgres", &cut_off).unwrap();
    wait_for_replicas(&primary, "true", 0).await;
    let before = sent.kept.len();
    sent.send_until_kept(MESSAGES).await;
    assert_eq!(sent.refused, []);
    fail_over(&mut primary, &replica);

    // A caller that waits for a write is told, at once and from then on.
    let Err(first) = sent.fixture.store.submit(sent.fixture.submission(new_thread(&sent))).await else {
        panic!("a write that others follow is not confirmed");
    };
    assert!(!first.may_pass(), "{first}");
    for refusal in sent.try_send().await {
        assert!(matches!(refusal, Error::Closed), "{refusal}");
    }
    assert!(!sent.fixture.store.is_open());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("because the database has lost confirmed commits; check what is missing"), "{log}");
    assert!(!log.contains("the disk failed"), "{log}");

    // Nothing was written there, and what is left can be read.
    assert_eq!(number_of(&address, "SELECT count(*) FROM runs").unwrap(), i64::try_from(before).unwrap());
    sent.fixture.store.run(&principal("alice"), sent.kept[0]).await.unwrap();
    let lost = sent.fixture.store.run(&principal("alice"), sent.kept[before]).await;
    assert!(matches!(lost, Err(Error::NotFound(_))));
}

fn new_thread(sent: &SentMessages) -> Target {
    Target::New(sent.fixture.ids.thread())
}
