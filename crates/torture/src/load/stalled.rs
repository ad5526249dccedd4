//! Readers that ask for the stream of a run under way and then read nothing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use testkit::upstream::Gate;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::crowd::{self, OpenedConnection};
use super::figures::{Figures, count};
use super::host::{LoadHost, LoadPlace};
use super::probe::{Probe, percentile};
use super::process::{self, HeldConnections, Process};
use crate::stage::TortureError;

const STALLED: usize = 1_000;
const RUNS: usize = 100;
/// The readers come one after the other: what is measured is that they stay, not that they come.
const APART: Duration = Duration::from_millis(5);
/// Each run says a piece at a time.
const PIECE_EVERY: Duration = Duration::from_millis(200);
/// At first large ones, which together are more than any buffer on the way takes; then small ones, so that what grows
/// is what is held for readers.
const LARGE_PIECES: usize = 20;
const LARGE_BYTES: usize = 8 * 1024;
const SMALL_BYTES: usize = 256;
const PIECES: usize = 300;
const ASKED: Duration = Duration::from_secs(9);
const LOOK: Duration = Duration::from_millis(250);
const GIVE_UP: Duration = Duration::from_secs(50);

const GROWTH_MIB: f64 = 128.0;
const CLOSED_WITHIN_SECONDS: f64 = 30.0;

/// When each piece was released, and how long it took to reach each reader.
#[derive(Default)]
struct SpokenPieces {
    said: Mutex<Vec<Instant>>,
    /// By the number of the piece.
    heard: Mutex<Vec<(usize, Duration)>>,
}

pub(crate) async fn run(place: &LoadPlace<'_>, figures: &mut Figures) -> Result<(), TortureError> {
    let number = STALLED.min(place.readers);
    let gates: Vec<Gate> = std::iter::repeat_with(Gate::new).take(PIECES).collect();
    let script = gates.iter().enumerate().map(|(number, gate)| (gate.clone(), piece(number))).collect();
    let host = LoadHost::start(place, number + RUNS, script).await?;
    let runs = host.speakers(RUNS).await?;
    let (probe, process) = (Probe::new(&host), host.process()?);
    let (pieces, tasks, over) =
        (Arc::new(SpokenPieces::default()), TaskTracker::new(), CancellationToken::new());
    for channel in &runs {
        let (request, address) = (crowd::request(host.address, channel), host.address);
        let (pieces, over) = (Arc::clone(&pieces), over.clone());
        tasks.spawn(async move {
            let opened = crowd::open(address, &request).await;
            tokio::select! {
                () = listen(opened, &pieces) => {}
                () = over.cancelled() => {}
            }
        });
    }
    let speaking = tasks.spawn(speak(gates, Arc::clone(&pieces), over.clone()));
    crowd::wait_until(GIVE_UP, || pieces.count_said() > LARGE_PIECES).await;
    let without = probe.ask(ASKED).await;
    let early = LARGE_PIECES..pieces.count_said();

    let before = process.resident_kib()?;
    let stalled = crowd::silent_connections(host.address, &runs, (number, APART)).await?;
    let late = pieces.count_said()..PIECES;
    let (mut with, watched) = tokio::join!(probe.ask(ASKED), watch(host.address.port(), stalled, process));
    let WatchedReaders { most_kib, most_queued, closed_after, left } = watched?;
    let after = probe.ask(ASKED).await;
    over.cancel();
    tasks.close();
    tasks.wait().await;
    drop(speaking);

    let mut sheet = figures.sheet_of("stalled");
    sheet.expect_exactly("readers that the server kept", (left.open, ""), 0);
    sheet.expect_at_most("all were closed after", (closed_after.as_secs_f64(), "s"), CLOSED_WITHIN_SECONDS);
    sheet.expect_exactly("closed, but held by the system", (left.closing, ""), 0);
    let growth = count(usize::try_from(most_kib.saturating_sub(before))?) / 1024.0;
    sheet.expect_at_most("memory, at most", (growth, "MiB"), GROWTH_MIB);
    sheet.note("most that the system held for one", count(usize::try_from(most_queued)?) / 1024.0, "KiB");
    let (mut early, mut late) = (pieces.delays(early), pieces.delays(late));
    sheet.expect_unchanged(
        "p99 until a piece is heard",
        percentile(&mut late, 99),
        percentile(&mut early, 99),
    );
    with.compare(&mut sheet, &mut [without, after]);
    host.end().await
}

struct WatchedReaders {
    most_kib: u64,
    most_queued: u64,
    closed_after: Duration,
    left: HeldConnections,
}

/// Looks at connections that never read until the server has closed them all.
async fn watch(
    port: u16,
    (streams, ports): (Vec<TcpStream>, BTreeSet<u16>),
    process: Process,
) -> Result<WatchedReaders, TortureError> {
    let start = Instant::now();
    let (mut most_kib, mut most_queued) = (0, 0);
    loop {
        let left = process::count_connections(port, &ports)?;
        most_kib = most_kib.max(process.resident_kib()?);
        most_queued = most_queued.max(left.most_queued);
        if left.open == 0 || start.elapsed() > GIVE_UP {
            drop(streams);
            return Ok(WatchedReaders { most_kib, most_queued, closed_after: start.elapsed(), left });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lets all runs say their next piece, again and again.
async fn speak(gates: Vec<Gate>, pieces: Arc<SpokenPieces>, over: CancellationToken) {
    for gate in gates {
        pieces.say(&gate);
        tokio::select! {
            () = tokio::time::sleep(PIECE_EVERY) => {}
            () = over.cancelled() => return,
        }
    }
}

/// Reads the pieces as they come.
async fn listen(opened: std::io::Result<OpenedConnection>, pieces: &SpokenPieces) {
    let Ok(OpenedConnection { mut stream, rest: mut read, .. }) = opened else { return };
    let mut next = 0;
    loop {
        while let Some(end) = find(&read, mark(next).as_bytes()) {
            read.drain(..end);
            pieces.note_piece(next);
            next += 1;
        }
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Returns the end of the first of these.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted).map(|at| at + wanted.len())
}

fn piece(number: usize) -> String {
    let bytes = if number < LARGE_PIECES { LARGE_BYTES } else { SMALL_BYTES };
    format!("{}{}", "x".repeat(bytes), mark(number))
}

fn mark(number: usize) -> String {
    format!("@{number}@")
}

impl SpokenPieces {
    fn say(&self, gate: &Gate) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        gate.open();
    }

    fn count_said(&self) -> usize {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn note_piece(&self, number: usize) {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied();
        if let Some(said) = said {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push((number, said.elapsed()));
        }
    }

    /// How long these took to be heard.
    fn delays(&self, which: Range<usize>) -> Vec<Duration> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|(number, _)| which.contains(number)).map(|(_, time)| *time).collect()
    }
}
