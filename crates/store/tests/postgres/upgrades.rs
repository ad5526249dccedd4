//! A database of the schema before, which this version opens: kept in `fixtures`, as it was dumped.

use protocol::RunStatus;
use store::postgres::{PostgresAddress, SCHEMA_VERSION, audit, execute, number_of};
use store::{Error, Store, StoreOptions};
use testpg::PostgresServer;

use crate::dumps::{run, server};
use crate::open;

const DUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres/fixtures/schema_22.sql");

fn restored() -> (PostgresServer, PostgresAddress) {
    let server = server();
    // The server is another user, who may not be able to read the file itself.
    let mut restore = server.program("psql");
    restore.stdin(std::fs::File::open(DUMP).unwrap());
    run(restore, &["--quiet", "--set=ON_ERROR_STOP=1", &server.url()]);
    let address = format!("{}?schema=old22", server.url()).parse().unwrap();
    (server, address)
}

#[tokio::test]
async fn a_database_of_the_schema_before_goes_on() {
    let (_server, address) = restored();
    let unread = audit(&address).map(drop).unwrap_err();
    assert!(matches!(unread, Error::TooOld { found: 22, .. }), "{unread}");
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
    let (_server, address) = restored();
    drop(open(&address));
    execute(&address, &format!("UPDATE schema_version SET version = {}", SCHEMA_VERSION + 1)).unwrap();
    let published = std::sync::Arc::new(crate::support::Published::default());
    let clock = std::sync::Arc::new(testkit::still::StandingClock);
    let refused = Store::open_postgres(&address, clock, published, StoreOptions::default()).map(drop);
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("made by a newer version of Rondo") && words.contains("use the newer"), "{words}");
}
