//! PostgreSQL is restarted again and again while messages are written.

use testpg::{PostgresEnd, PostgresServer};

use crate::sent::{SentMessages, programs};

/// How PostgreSQL is stopped each time.
const ENDS: [PostgresEnd; 4] =
    [PostgresEnd::Fast, PostgresEnd::Immediate, PostgresEnd::Immediate, PostgresEnd::Fast];

/// Messages that are kept between two restarts, at least.
const MESSAGES: usize = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_survive_restarts_of_postgresql() {
    let mut server = PostgresServer::start(&programs(), &["fsync=off"]).unwrap();
    let address = server.url().parse().unwrap();
    let mut sent = SentMessages::to(&address);
    for end in ENDS {
        let restart = move || {
            server.stop(end);
            server.start_again().unwrap();
            server
        };
        server = sent.send_during(MESSAGES, restart).await;
    }
    assert!(!sent.refused.is_empty(), "a restart takes a moment");
    sent.check(&address).await;
}
