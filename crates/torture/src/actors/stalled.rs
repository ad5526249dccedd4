//! Readers that ask for a stream and then read nothing, as a laptop does whose lid was closed.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::record::{OperationOutcome, Trial, What};
use crate::stage::{Stage, TortureError, User};

/// How long they stay if the server does not close them.
const STALL: Duration = Duration::from_secs(40);
/// So small that the server soon has nowhere to write.
const RECEIVE_BUFFER_BYTES: u32 = 4096;

/// Opens `how_many` streams of known runs and threads and reads nothing, until the server closes or forty seconds are
/// over.
pub(crate) async fn stalled_readers(stage: Stage, how_many: usize) -> Result<(), TortureError> {
    let places = places(&stage, how_many);
    let mut tasks = JoinSet::new();
    let asked = places.iter().cycle().take(if places.is_empty() { 0 } else { how_many });
    for (number, (path, key)) in asked.enumerate() {
        let Some(node) = stage.balancer.order(number).first().copied() else { continue };
        let address: SocketAddr = stage.balancer.url(node).trim_start_matches("http://").parse()?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\naccept: text/event-stream\r\n\r\n"
        );
        // A server that is down has no slow readers.
        tasks.spawn(async move { stall(address, &request).await.unwrap_or_default() });
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

async fn stall(address: SocketAddr, request: &str) -> std::io::Result<()> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    let mut stream = socket.connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let _ = timeout(STALL, closed(&stream)).await;
    Ok(())
}

/// Waits for the other side's end without taking a byte.
async fn closed(stream: &TcpStream) -> std::io::Result<()> {
    loop {
        let ready = stream.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_read_closed() || ready.is_error() {
            return Ok(());
        }
        // Says that what came was looked at, so that the next wait is for something new.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }
}

/// The newest streams of every user: paths and the keys they are open to.
fn places(stage: &Stage, how_many: usize) -> Vec<(String, String)> {
    let mut places = Vec::new();
    stage.book.count(|trial| {
        places = newest_streams(trial, &stage.users, how_many);
        places.len()
    });
    places
}

fn newest_streams(trial: &Trial, users: &[User], how_many: usize) -> Vec<(String, String)> {
    let mut places = Vec::new();
    for op in trial.ops.iter().rev().filter(|op| op.outcome == OperationOutcome::Ok) {
        let What::Send { runs, threads, .. } = &op.what else { continue };
        let Some(user) = users.iter().find(|user| user.name == op.user && user.app == op.app) else {
            continue;
        };
        let runs = runs.iter().map(|run| format!("/v1/runs/{run}/events"));
        let threads = threads.iter().map(|thread| format!("/v1/threads/{thread}/events"));
        places.extend(threads.chain(runs).map(|path| (path, user.key.clone())));
        if places.len() >= how_many {
            break;
        }
    }
    places.truncate(how_many);
    places
}
