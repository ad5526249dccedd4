//! Clients that send a byte a second, or read one, so as to hold what they do not use.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::upstream::Gate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::crowd;
use super::figures::{Figures, count};
use super::host::{LoadChannel, LoadHost, LoadPlace};
use super::probe::{Probe, percentile};
use crate::stage::TortureError;

const ATTACKERS: usize = 4_000;
const OPENING: usize = 256;
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// A connection that is open for longer is not closed by the server.
const GIVE_UP: Duration = Duration::from_secs(50);
const ASKED: Duration = Duration::from_secs(25);
/// An answer that is far more than any buffer on its way, as pieces of this many bytes.
const PIECES: usize = 128;
const PIECE_BYTES: usize = 4 * 1024;

const HEALTHY_MS: f64 = 100.0;
/// Seconds in which an attacker notices that it is over: it looks once a second, beside thousands of others.
const SLACK: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LorisKind {
    Headers,
    Body,
    Read,
}

impl LorisKind {
    const ALL: [Self; 3] = [Self::Headers, Self::Body, Self::Read];

    fn name(self) -> &'static str {
        match self {
            Self::Headers => "slow headers",
            Self::Body => "a slow body",
            Self::Read => "slow reading",
        }
    }

    /// Seconds after which the server closes.
    fn limit(self) -> f64 {
        match self {
            Self::Headers => 10.0,
            Self::Body => 30.0,
            Self::Read => 20.0,
        }
    }
}

pub(crate) async fn run(place: &LoadPlace<'_>, figures: &mut Figures) -> Result<(), TortureError> {
    let attackers = ATTACKERS.min(place.readers);
    let open = Gate::new();
    open.open();
    let pieces = vec![(open, "x".repeat(PIECE_BYTES)); PIECES];
    let host = LoadHost::start(place, attackers, pieces).await?;
    let long = host.long_threads().await?;
    let probe = Probe::new(&host);
    let empty = host.process()?.resident_kib()?;
    let (opening, mut attacks) = (Arc::new(Semaphore::new(OPENING)), JoinSet::new());
    for (number, channel) in (0..attackers).zip(long.iter().cycle()) {
        let kind = LorisKind::ALL
            .into_iter()
            .cycle()
            .nth(number % LorisKind::ALL.len())
            .unwrap_or(LorisKind::Headers);
        let (address, channel, opening) = (host.address, channel.clone(), Arc::clone(&opening));
        attacks.spawn(async move { (kind, attack(address, kind, &channel, &opening).await) });
    }
    let mut healthy = probe.ask(ASKED).await;
    let full = host.process()?.resident_kib()?;
    let ended = attacks.join_all().await;

    let mut sheet = figures.sheet_of("loris");
    sheet.note("attackers", count(attackers), "");
    for kind in LorisKind::ALL {
        let of_kind = || ended.iter().filter(|(ended, _)| *ended == kind).map(|(_, time)| time);
        let mut closed: Vec<Duration> = of_kind().flatten().copied().collect();
        sheet.expect_exactly(
            format!("{}: closed by the server", kind.name()),
            (closed.len(), ""),
            of_kind().count(),
        );
        let longest = percentile(&mut closed, 100) / 1000.0;
        sheet.expect_at_most(
            format!("{}: the longest was open for", kind.name()),
            (longest, "s"),
            kind.limit() + SLACK,
        );
    }
    sheet.note(
        "memory at the end of the questions",
        count(usize::try_from(full.saturating_sub(empty))?) / 1024.0,
        "MiB",
    );
    sheet.expect_at_most("p99 of a run meanwhile", (healthy.run(99), "ms"), HEALTHY_MS);
    sheet.expect_at_most("p99 of a list of threads meanwhile", (healthy.read(99), "ms"), HEALTHY_MS);
    sheet.expect_exactly("questions that failed", (healthy.failures, ""), 0);
    host.end().await
}

/// How long the server bore it; none if it bore it for too long.
async fn attack(
    address: SocketAddr,
    kind: LorisKind,
    channel: &LoadChannel,
    opening: &Semaphore,
) -> Option<Duration> {
    let window = (kind == LorisKind::Read).then_some(crowd::WINDOW_BYTES);
    let permit = opening.acquire().await.ok()?;
    let mut stream = crowd::connect(address, window).await.ok()?;
    stream.write_all(&beginning(address, kind, channel)).await.ok()?;
    drop(permit);
    let start = Instant::now();
    let closed = async {
        match kind {
            LorisKind::Headers | LorisKind::Body => send_slowly(stream).await,
            LorisKind::Read => read_slowly(stream).await,
        }
    };
    tokio::time::timeout(GIVE_UP, closed).await.ok().map(|()| start.elapsed())
}

fn beginning(address: SocketAddr, kind: LorisKind, channel: &LoadChannel) -> Vec<u8> {
    let mut text = match kind {
        LorisKind::Read => return crowd::request(address, &LoadChannel { after: 0, ..channel.clone() }),
        LorisKind::Headers => format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\nx-slow: "),
        LorisKind::Body => {
            format!("POST /v1/apps/load/runs HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000\r\n")
        }
    };
    if kind == LorisKind::Body {
        let _ =
            write!(text, "authorization: Bearer {}\r\ncontent-type: application/json\r\n\r\n", channel.key);
    }
    text.into_bytes()
}

/// Sends a byte a second until the server closes.
async fn send_slowly(mut stream: TcpStream) {
    let (mut reader, mut writer) = stream.split();
    let send = async { while after_pause(writer.write_all(b" ")).await.is_ok() {} };
    let mut answer = [0; 256];
    let receive = async { while reader.read(&mut answer).await.is_ok_and(|bytes| bytes > 0) {} };
    tokio::select! {
        () = send => {}
        () = receive => {}
    }
}

/// Reads a byte a second until the server closes. Our own side holds more bytes than can be read in this way, so the
/// system is asked whether the connection is still open.
async fn read_slowly(mut stream: TcpStream) {
    while after_pause(stream.read_u8()).await.is_ok() && matches!(stream.take_error(), Ok(None)) {}
}

async fn after_pause<T>(what: impl Future<Output = T>) -> T {
    tokio::time::sleep(BYTE_EVERY).await;
    what.await
}
