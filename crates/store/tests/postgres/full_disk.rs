//! The disk of PostgreSQL is full: writes are refused as such, reads continue, and writes succeed once there is space.

use store::Error;
use testpg::{PostgresServer, SmallDisk, WITHOUT_SYNC};

use crate::found_again;
use crate::sent::{PATIENCE, SentMessages, programs};

const DISK: SmallDisk = SmallDisk { megabytes: 32 };

/// Messages that are kept before and after.
const MESSAGES: usize = 30;

/// Refusals that are seen on a full disk.
const REFUSALS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_until_there_is_space() {
    let programs = programs();
    if let Some(why) = SmallDisk::obstacle(&programs) {
        println!("NOT RUN: a full disk of PostgreSQL, because {why}");
        return;
    }
    let server = PostgresServer::start_with(&programs, WITHOUT_SYNC, DISK).unwrap();
    let address = server.url().parse().unwrap();
    let mut sent = SentMessages::to(&address);
    sent.send_until_kept(MESSAGES).await;
    server.fill_small_disk().unwrap();
    // Pages that have been there before still take some messages.
    let filling = async {
        while sent.refused.len() < REFUSALS {
            for refusal in sent.send().await {
                assert!(matches!(refusal, Error::Full), "{refusal}");
            }
        }
    };
    tokio::time::timeout(PATIENCE, filling).await.unwrap();
    println!("{} messages are kept when the disk is full", sent.kept.len());
    for run in &sent.kept {
        found_again(&sent.fixture.store, *run).await.unwrap();
    }
    server.empty_small_disk().unwrap();
    sent.send_until_kept(MESSAGES).await;
    sent.check(&address).await;
}
