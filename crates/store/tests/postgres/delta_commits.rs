//! The statements of a commit of deltas on PostgreSQL: the same few, however many runs it is for.

use std::sync::Arc;
use std::time::Duration;

use store::postgres::PostgresAddress;
use store::{RunLog, Store, StoreOptions, Target};
use testkit::still::StandingClock;
use testpg::{PostgresPrograms, PostgresServer, WITHOUT_SYNC};

use crate::support::{Fixture, Published, principal, text};
use protocol::Ids as _;

const RUNS: usize = 40;
const ROUNDS: usize = 5;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The statements of a commit of deltas, as the server logs them. The table is one of two.
const STATEMENTS: [&str; 4] = ["BEGIN", "INSERT INTO delta_log_", "UPDATE commits", "COMMIT"];

/// The server's words before the text of a prepared statement.
const EXECUTES: &str = "LOG:  execute ";

#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
fn start_server() -> PostgresServer {
    let programs = PostgresPrograms::of_variable(std::env::var_os(testpg::PACKAGE_VARIABLE)).unwrap();
    PostgresServer::start(&programs, &[WITHOUT_SYNC, &["log_statement=all"]].concat()).unwrap()
}

/// Lets each run say something, and waits until all of it is published.
async fn say(logs: &[RunLog], published: &Published) {
    let before = published.all().len();
    for log in logs {
        log.push(text("so ")).unwrap();
    }
    let all = async {
        while published.all().len() < before + logs.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

/// The statements that the server has logged, from one on.
fn executed(server: &PostgresServer, from: usize) -> Vec<String> {
    let log = std::fs::read_to_string(server.log()).unwrap();
    let texts = log.lines().filter_map(|line| line.split_once(EXECUTES)?.1.split_once(": "));
    texts.map(|(_, text)| text.to_owned()).skip(from).collect()
}

#[tokio::test]
async fn a_commit_of_deltas_is_one_row_however_many_runs_have_some() {
    let server = start_server();
    let (ids, published) = (Fixture::new(), Arc::new(Published::default()));
    let address: PostgresAddress = server.url().parse().unwrap();
    let options = StoreOptions::default();
    let store = Store::open_postgres(&address, Arc::new(StandingClock), published.clone(), options).unwrap();
    let mut logs = Vec::new();
    for _ in 0..RUNS {
        let submission = ids.submission(Target::New(ids.ids.thread()));
        let run = submission.run;
        store.submit(submission).await.unwrap();
        logs.push(store.log(&store.run(&principal("alice"), run).await.unwrap()));
    }
    // The first deltas of a run ask whether it may still write.
    say(&logs, &published).await;
    let before = executed(&server, 0).len();
    for _ in 0..ROUNDS {
        say(&logs, &published).await;
    }
    let statements = executed(&server, before);
    let is_known = |text: &String| STATEMENTS.iter().any(|known| text.starts_with(known));
    assert!(statements.iter().all(is_known), "{statements:?}");
    let commits = statements.iter().filter(|text| *text == "COMMIT").count();
    assert_eq!(statements.len(), commits * STATEMENTS.len(), "{statements:?}");
    println!("{} deltas of {RUNS} runs took {commits} commits", RUNS * ROUNDS);
    assert!(commits < RUNS * ROUNDS / 2, "deltas of several runs share a commit: {commits}");
}
