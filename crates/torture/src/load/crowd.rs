//! Many readers that cost the harness next to nothing: a socket and a small task each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::LoadChannel;

/// Connections that are being opened at once; more would overflow the queue in which the server finds them.
const OPENING: usize = 256;
/// A head that is longer is not one of ours.
const MAX_HEAD_BYTES: usize = 8 * 1024;
const CHUNK_BYTES: usize = 1024;
/// The buffer of the system for a client that does not read: as small as it can be.
pub(crate) const WINDOW_BYTES: u32 = 2_304;
const HEARTBEAT: &[u8] = b": keep-alive\n";
const EVENT: &[u8] = b"\nid: ";
const LOOK: Duration = Duration::from_millis(20);

/// The counts of all readers together.
#[derive(Default)]
pub(crate) struct CrowdCounts {
    /// Streams that are open now.
    pub(crate) open: AtomicUsize,
    /// Readers that have received an event.
    pub(crate) served: AtomicUsize,
    pub(crate) heartbeats: AtomicUsize,
    /// Connections that could not be opened, or broke before an answer.
    pub(crate) broken: AtomicUsize,
    /// Answers that were no stream, by their status; 503 counts here only without a word on when to come again.
    refused: Mutex<BTreeMap<u16, usize>>,
}

impl CrowdCounts {
    pub(crate) fn count_refusal(&self, status: u16) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }

    pub(crate) fn refusals(&self, of: impl Fn(u16) -> bool) -> usize {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().filter(|(status, _)| of(**status)).map(|(_, count)| count).sum()
    }

    /// Waits until `count` readers have received an event. False if they have not in time.
    pub(crate) async fn all_served(&self, count: usize, patience: Duration) -> bool {
        wait_until(patience, || self.served.load(Ordering::Relaxed) >= count).await
    }
}

/// Looks again and again. False if it did not come true in time.
pub(crate) async fn wait_until(patience: Duration, mut come_true: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !come_true() {
        if start.elapsed() > patience {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

/// Readers that read all events until they are told to leave.
pub(crate) struct Crowd {
    pub(crate) seen: Arc<CrowdCounts>,
    tasks: TaskTracker,
    leave: CancellationToken,
}

impl Crowd {
    /// Makes `count` readers, spread evenly over the channels.
    pub(crate) fn gather(address: SocketAddr, channels: &[LoadChannel], count: usize) -> Self {
        let crowd = Self { seen: Arc::default(), tasks: TaskTracker::new(), leave: CancellationToken::new() };
        let opening = Arc::new(Semaphore::new(OPENING));
        for channel in channels.iter().cycle().take(count) {
            let request = request(address, channel);
            let (seen, leave, opening) = (Arc::clone(&crowd.seen), crowd.leave.clone(), Arc::clone(&opening));
            crowd.tasks.spawn(async move {
                let permit = opening.acquire().await;
                let opened = open(address, &request).await;
                drop(permit);
                read_until_left(opened, &seen, &leave).await;
            });
        }
        crowd.tasks.close();
        crowd
    }

    /// Waits until all have been sent away by the server.
    pub(crate) async fn wait_until_gone(self) {
        self.tasks.wait().await;
    }

    pub(crate) async fn leave(self) {
        self.leave.cancel();
        self.tasks.wait().await;
    }
}

/// Reads to the end of a stream, or until told to leave.
pub(crate) async fn read_until_left(
    opened: io::Result<OpenedConnection>,
    seen: &CrowdCounts,
    leave: &CancellationToken,
) {
    let Ok(OpenedConnection { mut stream, status: 200, rest, .. }) =
        opened.inspect_err(|_| count(&seen.broken))
    else {
        return;
    };
    count(&seen.open);
    let mut served = note(seen, &rest, false);
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            read = stream.read(&mut chunk) => read.unwrap_or(0),
            () = leave.cancelled() => 0,
        };
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        served = note(seen, bytes, served);
    }
    seen.open.fetch_sub(1, Ordering::Relaxed);
}

fn note(seen: &CrowdCounts, bytes: &[u8], served: bool) -> bool {
    let heartbeats = bytes.windows(HEARTBEAT.len()).filter(|window| *window == HEARTBEAT).count();
    seen.heartbeats.fetch_add(heartbeats, Ordering::Relaxed);
    let event = has_event(bytes);
    if event && !served {
        count(&seen.served);
    }
    served || event
}

/// Whether there is an event in what was received. The number of one stands on a line after its name.
pub(crate) fn has_event(bytes: &[u8]) -> bool {
    bytes.windows(EVENT.len()).any(|window| window == EVENT)
}

pub(crate) fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A connection whose answer has begun.
pub(crate) struct OpenedConnection {
    pub(crate) stream: TcpStream,
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    /// The bytes after the head so far.
    pub(crate) rest: Vec<u8>,
}

/// Follows a channel from where it was left.
pub(crate) fn request(address: SocketAddr, channel: &LoadChannel) -> Vec<u8> {
    let LoadChannel { path, key, after } = channel;
    format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nlast-event-id: {after}\r\n\r\n"
    )
    .into_bytes()
}

/// Sends a request and reads the head of its answer.
pub(crate) async fn open(address: SocketAddr, request: &[u8]) -> io::Result<OpenedConnection> {
    let mut stream = connect(address, None).await?;
    stream.write_all(request).await?;
    let mut read = Vec::with_capacity(CHUNK_BYTES);
    loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            let head = String::from_utf8_lossy(&read).to_ascii_lowercase();
            return Ok(OpenedConnection {
                status: status(&head),
                retry_after: retry_after(&head),
                stream,
                rest,
            });
        }
        if read.len() > MAX_HEAD_BYTES || stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn retry_after(head: &str) -> Option<u64> {
    head.lines().find_map(|line| line.strip_prefix("retry-after: "))?.trim().parse().ok()
}

/// A connection that is reset when it is dropped, so that its port is free again at once. `window` is how many bytes
/// the system takes from the server while the client does not read.
pub(crate) async fn connect(address: SocketAddr, window: Option<u32>) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = window {
        socket.set_recv_buffer_size(bytes)?;
    }
    SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
    socket.connect(address).await
}

/// Connections that asked and then never read, and the ports they have. They come one by one, `apart` from each other.
pub(crate) async fn silent_connections(
    address: SocketAddr,
    channels: &[LoadChannel],
    (number, apart): (usize, Duration),
) -> io::Result<(Vec<TcpStream>, BTreeSet<u16>)> {
    let mut clock = tokio::time::interval(apart);
    let (mut streams, mut ports) = (Vec::with_capacity(number), BTreeSet::new());
    for channel in channels.iter().cycle().take(number) {
        clock.tick().await;
        let mut stream = connect(address, Some(WINDOW_BYTES)).await?;
        stream.write_all(&request(address, channel)).await?;
        ports.insert(stream.local_addr()?.port());
        streams.push(stream);
    }
    Ok((streams, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_for_its_status_and_when_to_come_again() {
        let head = "http/1.1 503 service unavailable\r\nretry-after: 2\r\n\r\n";
        assert_eq!((status(head), retry_after(head)), (503, Some(2)));
        assert_eq!((status("nonsense"), retry_after("nonsense")), (0, None));
    }

    #[test]
    fn an_event_is_told_from_a_heartbeat() {
        assert!(has_event(b"event: run:start\nid: 2\ndata: {}\n\n"));
        assert!(!has_event(b"retry: 700\n\n: keep-alive\n\n"));
    }
}
