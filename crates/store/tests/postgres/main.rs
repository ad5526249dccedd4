//! The fate of a store whose connections to PostgreSQL are lost. `RONDO_TEST_POSTGRES` is the address of a server.
//! `cargo xtask test postgres` fetches and starts one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "what goes wrong fails the test"
)]

mod copying;
mod crash;
mod crowded;
mod delta_commits;
mod differential;
mod dumps;
mod failover;
mod full_disk;
mod nodes;
mod policies;
mod proxy;
mod restarts;
mod sent;
#[expect(dead_code, reason = "the other tests of the store use the rest of it")]
#[path = "../it/support.rs"]
mod support;
mod upgrades;

use std::sync::Arc;

use protocol::Ids as _;
use proxy::CutProxy;
use store::inspection::execute;
use store::postgres::{PostgresAddress, audit};
use store::{Error, Store, StoreOptions, Target};
use support::{Fixture, Published, principal};
use testkit::database::postgres_of;
use testkit::still::StandingClock;

/// Messages that are sent while connections are cut.
const MESSAGES: usize = 600;

/// More pieces than a new connection and a message take.
const MAX_PIECES: usize = 120;

/// The address of the tests, whose folder is that of a socket.
#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
fn address() -> String {
    std::env::var("RONDO_TEST_POSTGRES").expect("run `cargo xtask test postgres`, which sets it")
}

fn open(address: &PostgresAddress) -> Store {
    let published = Arc::new(Published::default());
    Store::open_postgres(address, Arc::new(StandingClock), published, StoreOptions::default()).unwrap()
}

/// Each message is there once if its sender was told so, and not there if the sender was told to try again: also if the
/// connection was lost during the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_loses_nothing_and_doubles_nothing() {
    let ids = Fixture::new();
    let proxy = CutProxy::start(&address());
    let through: PostgresAddress =
        format!("{}?schema=cut_{}", proxy.address(), std::process::id()).parse().unwrap();
    let store = open(&through);
    let (mut kept, mut refused) = (vec![], vec![]);
    for number in 0..MESSAGES {
        if proxy.has_cut() {
            proxy.cut_after(proxy.cuts() * 37 % MAX_PIECES + 1, number % 2 == 0);
        }
        let submission = ids.submission(Target::New(ids.ids.thread()));
        let run = submission.run;
        match store.submit(submission).await {
            Ok(_) => kept.push(run),
            Err(error) if error.may_pass() => refused.push(run),
            Err(error) => panic!("{error}"),
        }
    }
    proxy.cut_no_more();
    println!("{} cuts: {} messages kept, {} refused", proxy.cuts(), kept.len(), refused.len());
    assert!(proxy.cuts() > MESSAGES / 20 && !kept.is_empty() && !refused.is_empty());
    for run in kept {
        found_again(&store, run).await.unwrap();
    }
    for run in refused {
        assert!(matches!(found_again(&store, run).await, Err(Error::NotFound(_))), "{run}");
    }
    assert_eq!(audit(&through).unwrap().findings, [""; 0]);
}

/// A run as it is read once there is a connection again: the first readers may still have a lost one.
async fn found_again(store: &Store, run: protocol::RunId) -> Result<(), Error> {
    loop {
        match store.run(&principal("alice"), run).await {
            Err(Error::Disconnected(_)) => tokio::task::yield_now().await,
            found => return found.map(drop),
        }
    }
}

/// The answers to statements that were sent ahead may arrive in any pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_come_in_small_pieces_hold_nothing_up() {
    let ids = Fixture::new();
    let proxy = CutProxy::start_with(&address(), 3);
    let through: PostgresAddress =
        format!("{}?schema=pieces_{}", proxy.address(), std::process::id()).parse().unwrap();
    let work = async {
        let store = open(&through);
        for _ in 0..5 {
            store.submit(ids.submission(Target::New(ids.ids.thread()))).await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), work).await.expect("nothing waits for ever");
}

#[tokio::test]
async fn connections_that_the_server_ends_are_made_again() {
    let ids = Fixture::new();
    let name = format!("ended_{}", std::process::id());
    let named: PostgresAddress =
        format!("{} application_name={name}?schema={name}", address()).parse().unwrap();
    let store = open(&named);
    let first = ids.submission(Target::New(ids.ids.thread()));
    let run = first.run;
    store.submit(first).await.unwrap();
    let end_all = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = '{name}' AND pid <> pg_backend_pid()"
    );
    for _ in 0..5 {
        execute(&named, &end_all).unwrap();
        found_again(&store, run).await.unwrap();
        // It is sent again until it is taken, as a client would.
        while let Err(error) = store.submit(ids.submission(Target::New(ids.ids.thread()))).await {
            assert!(error.may_pass(), "{error}");
        }
    }
    assert_eq!(audit(&named).unwrap().findings, [""; 0]);
}

#[tokio::test]
async fn a_second_server_on_the_same_tables_is_refused() {
    let fixture = Fixture::new();
    let address = postgres_of(fixture.folder.path()).unwrap();
    let published = Arc::new(Published::default());
    let second = Store::open_postgres(&address, Arc::new(StandingClock), published, StoreOptions::default());
    let refused = second.err().unwrap().to_string();
    assert!(refused.contains("another server uses the schema"), "{refused}");
}

#[test]
fn addresses_that_cannot_be_used_say_why() {
    for (text, why) in [
        ("postgres://u:secret@h/d?schema=Bad-Name", "lower-case letters"),
        ("postgres://u:secret@h/d?schema=pg_mine", "pg_"),
        ("postgres://u:x@secret@h/d", "%40"),
        ("postgres://u:x?schema=secret@h/d", "lower-case letters"),
        ("postgres://u:secret@h/d?nonsense=1", "cannot be read"),
    ] {
        let refused = text.parse::<PostgresAddress>().unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains("secret"), "{refused}");
    }
    let address: PostgresAddress = "postgres://u:secret@h/d?schema=mine&sslmode=verify-full".parse().unwrap();
    assert_eq!(address.to_string(), "PostgreSQL d on h (schema mine)");
    let address: PostgresAddress =
        "postgres://u:p@one,two/d?target_session_attrs=read-write".parse().unwrap();
    assert_eq!(address.to_string(), "PostgreSQL d on one, two (schema rondo)");
}
