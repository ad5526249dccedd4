//! Backup and restore of PostgreSQL with its own programs, in the steps of `docs/postgres.md`.

use std::process::Command;

use protocol::Ids as _;
use store::inspection::{execute, number_of, postgres_log};
use store::postgres::{PostgresAddress, audit};
use store::{Store, Target};
use testpg::{PACKAGE_VARIABLE, PostgresPrograms, PostgresServer};

use crate::open;
use crate::support::Fixture;

#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
pub(crate) fn server() -> PostgresServer {
    let programs = PostgresPrograms::of_variable(std::env::var_os(PACKAGE_VARIABLE)).unwrap();
    PostgresServer::start(&programs, testpg::WITHOUT_SYNC).unwrap()
}

pub(crate) fn run(mut program: Command, arguments: &[&str]) {
    let done = program.args(arguments).output().unwrap();
    assert!(done.status.success(), "{program:?}: {}", String::from_utf8_lossy(&done.stderr));
}

async fn submit(store: &Store, fixture: &Fixture) {
    store.submit(fixture.submission(Target::New(fixture.ids.thread()))).await.unwrap();
}

#[tokio::test]
async fn a_dump_that_is_restored_goes_on() {
    let (server, fixture) = (server(), Fixture::new());
    let first: PostgresAddress = server.url().parse().unwrap();
    let store = open(&first);
    for _ in 0..10 {
        submit(&store, &fixture).await;
    }
    let url = server.url();
    // The server continues meanwhile.
    let dump = ["--format=custom", "--enable-row-security", "--schema=rondo", "--file=rondo.dump", &url];
    run(server.program("pg_dump"), &dump);
    submit(&store, &fixture).await;
    drop(store);

    server.run_as_admin("postgres", &["CREATE DATABASE restored OWNER rondo"]).unwrap();
    server.run_as_admin("restored", &["CREATE EXTENSION vector"]).unwrap();
    let url = format!("{}restored", url.strip_suffix("rondo").unwrap());
    run(server.program("pg_restore"), &["--exit-on-error", &format!("--dbname={url}"), "rondo.dump"]);
    let restored: PostgresAddress = url.parse().unwrap();
    assert_eq!(audit(&restored).unwrap().findings, [""; 0]);
    let events = postgres_log(&restored).unwrap();
    assert!(postgres_log(&first).unwrap().starts_with(&events[..1]) && !events.is_empty());
    assert_eq!(number_of(&restored, "SELECT count(*) FROM runs").unwrap(), 10);

    let mark = "INSERT INTO rondo.state (name, value) VALUES ('restored', '') ON CONFLICT DO NOTHING";
    execute(&restored, mark).unwrap();
    let store = open(&restored);
    assert_eq!(number_of(&restored, "SELECT count(*) FROM skipped").unwrap(), 10);
    submit(&store, &fixture).await;
    assert_eq!(audit(&restored).unwrap().findings, [""; 0]);
}
