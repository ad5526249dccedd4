//! The server is killed under its readers, and all of them come back within a second of its restart.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::crowd::{self, Crowd, CrowdCounts, OpenedConnection};
use super::figures::{Figures, count};
use super::host::{LoadHost, LoadPlace};
use super::probe::percentile;
use crate::stage::TortureError;

const ARRIVED_WITHIN: Duration = Duration::from_secs(40);
/// The first attempts of all readers.
const SPREAD_MS: u64 = 1_000;
/// The time until the next attempt, when the server did not say how long to wait.
const RETRY_MS: std::ops::RangeInclusive<u64> = 250..=500;
const MAX_ATTEMPTS: usize = 100;
const GIVE_UP: Duration = Duration::from_secs(30);
const SECOND_MS: u64 = 1_000;

const BACK_WITHIN_SECONDS: f64 = 15.0;

pub(crate) async fn run(place: &LoadPlace<'_>, figures: &mut Figures) -> Result<(), TortureError> {
    let readers = place.readers;
    let mut host = LoadHost::start(place, readers, Vec::new()).await?;
    let channels = host.channels().await?;
    let crowd = Crowd::gather(host.address, &channels, readers);
    crowd.seen.all_served(readers, ARRIVED_WITHIN).await;
    let there = crowd.seen.open.load(Ordering::Relaxed);
    host.kill().await?;
    crowd.wait_until_gone().await;

    let (seen, tasks, leave) =
        (Arc::new(CrowdCounts::default()), TaskTracker::new(), CancellationToken::new());
    let (told, mut back) = tokio::sync::mpsc::unbounded_channel();
    let restart = Instant::now();
    for channel in channels.iter().cycle().take(readers) {
        let (request, address) = (crowd::request(host.address, channel), host.address);
        let (seen, leave, told) = (Arc::clone(&seen), leave.clone(), told.clone());
        tasks.spawn(async move {
            let comes_back = come_back(address, &request, &seen);
            let Ok(Ok(opened)) = tokio::time::timeout(GIVE_UP, comes_back).await else { return };
            let _ = told.send(restart.elapsed()); // there is no receiver once the experiment has failed
            crowd::read_until_left(Ok(opened), &seen, &leave).await;
        });
    }
    drop(told);
    tasks.close();
    let ready = host.serve().await?;
    let mut times = Vec::with_capacity(readers);
    while times.len() < readers {
        let Some(time) = back.recv().await else { break };
        times.push(time);
    }
    leave.cancel();
    tasks.wait().await;

    let mut sheet = figures.sheet_of("storm");
    sheet.expect_exactly("readers before the kill", (there, ""), readers);
    sheet.expect_exactly("readers that came back", (times.len(), ""), readers);
    sheet.note("the server was ready after", ready.as_secs_f64(), "s");
    sheet.note("half were back after", percentile(&mut times, 50) / 1000.0, "s");
    sheet.expect_at_most(
        "all were back after",
        (percentile(&mut times, 100) / 1000.0, "s"),
        BACK_WITHIN_SECONDS,
    );
    sheet.note("attempts that broke", count(seen.broken.load(Ordering::Relaxed)), "");
    sheet.note("asked to come again (503)", count(seen.refusals(|status| status == COME_AGAIN)), "");
    let wrong = seen.refusals(|status| status >= 500 && status != COME_AGAIN);
    sheet.expect_exactly("other answers of 500 and above", (wrong, ""), 0);
    sheet.expect_exactly(
        "answers of 400 to 499",
        (seen.refusals(|status| (400..500).contains(&status)), ""),
        0,
    );
    host.end().await
}

/// Stands for 503 that says when; 503 alone is a wrong answer.
const COME_AGAIN: u16 = 1_503;

/// Tries until the event that was missed has come.
async fn come_back(address: SocketAddr, request: &[u8], seen: &CrowdCounts) -> io::Result<OpenedConnection> {
    let mut wait = Duration::from_millis(fastrand::u64(0..SPREAD_MS));
    for _ in 0..MAX_ATTEMPTS {
        tokio::time::sleep(wait).await;
        wait = Duration::from_millis(fastrand::u64(RETRY_MS));
        match resume(address, request).await {
            Ok(opened) if opened.status == 200 => return Ok(opened),
            Ok(opened) => match opened.retry_after.filter(|_| opened.status == 503) {
                Some(seconds) => {
                    seen.count_refusal(COME_AGAIN);
                    wait = Duration::from_millis(seconds.saturating_mul(SECOND_MS) + fastrand::u64(RETRY_MS));
                }
                None => seen.count_refusal(opened.status),
            },
            Err(_) => crowd::count(&seen.broken),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// A stream from which an event has come, or an answer that is none.
async fn resume(address: SocketAddr, request: &[u8]) -> io::Result<OpenedConnection> {
    let mut opened = crowd::open(address, request).await?;
    while opened.status == 200 && !crowd::has_event(&opened.rest) {
        if opened.stream.read_buf(&mut opened.rest).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(opened)
}
