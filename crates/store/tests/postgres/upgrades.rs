//! Databases of earlier schemas, which this version opens: kept in `fixtures`, as they were dumped.

use protocol::RunStatus;
use store::inspection::{execute, number_of};
use store::postgres::{PostgresAddress, SCHEMA_VERSION, audit};
use store::{Error, Store, StoreOptions};
use testpg::PostgresServer;

use crate::dumps::{run, server};
use crate::open;

/// The versions of the schema of which there is a dump.
const EARLIER: [i64; 2] = [22, 23];

fn restored(version: i64) -> (PostgresServer, PostgresAddress) {
    let server = server();
    let dump =
        format!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres/fixtures/schema_{}.sql"), version);
    // The server is another user, who may not be able to read the file itself.
    let mut restore = server.program("psql");
    restore.stdin(std::fs::File::open(dump).unwrap());
    run(restore, &["--quiet", "--set=ON_ERROR_STOP=1", &server.url()]);
    let address = format!("{}?schema=old{version}", server.url()).parse().unwrap();
    (server, address)
}

#[tokio::test]
async fn a_database_of_an_earlier_schema_goes_on() {
    for version in EARLIER {
        goes_on(version).await;
    }
}

async fn goes_on(version: i64) {
    let (_server, address) = restored(version);
    let unread = audit(&address).map(drop).unwrap_err();
    assert!(matches!(unread, Error::TooOld { found, .. } if found == version), "{unread}");
    let store = open(&address);
    assert_eq!(number_of(&address, "SELECT version FROM schema_version").unwrap(), SCHEMA_VERSION);
    assert_eq!(number_of(&address, "SELECT count(*) FROM runs WHERE status = 'completed'").unwrap(), 2);
    let adopted = store.adopt().await.unwrap();
    let [unfinished] = adopted.as_slice() else { panic!("one run was under way: {adopted:?}") };
    assert_eq!((unfinished.status, unfinished.owner), (RunStatus::Running, None));
    let events = store.events(unfinished.thread, None, 0).await.unwrap();
    let deltas = events.iter().filter(|event| event.kind == "text:delta").count();
    assert!(deltas > 50, "what had streamed is there: {deltas}");
    assert_eq!(store.queued_runs(unfinished.thread).await.unwrap().len(), 1);
    assert_eq!(audit(&address).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn a_database_of_a_later_schema_is_refused_in_words() {
    let (_server, address) = restored(22);
    drop(open(&address));
    execute(&address, &format!("UPDATE schema_version SET version = {}", SCHEMA_VERSION + 1)).unwrap();
    let published = std::sync::Arc::new(crate::support::Published::default());
    let clock = std::sync::Arc::new(testkit::still::StandingClock);
    let refused = Store::open_postgres(&address, clock, published, StoreOptions::default()).map(drop);
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("made by a newer version of Rondo") && words.contains("use the newer"), "{words}");
}
