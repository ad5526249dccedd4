//! The accept loop: connections with a bound on their number, their time and their memory.
//!
//! It is our own because the usual one has no timer behind the header time-out, waits for ever on an open event
//! stream when it is asked to stop, and does nothing about a client that stops reading.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::io::Socket;
use crate::{ServerLimits, ServerSettings, Shutdown, routes};

/// Bytes that we hold for one connection in each direction before we take no more; what was taken last may come on top. The
/// log is the buffer, so more would be pointless.
const MAX_BUFFER_BYTES: usize = 32 * 1024;
/// Bytes that the kernel holds for a client beyond what the network takes. Without it, that would be megabytes for a reader
/// that has stopped.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 16 * 1024;
/// Pause after an accept that failed for want of a resource, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// How long requests under way may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(1);
/// How long sent bytes may stay unacknowledged, and how long a silent peer may stay unheard, before the kernel gives up.
const DEAD_PEER: Duration = Duration::from_secs(45);
const KEEPALIVE_PROBES: u32 = 3;

/// Serves the service's API until `shutdown` says that all is over; requests under way then have a second.
pub async fn serve(
    listener: TcpListener,
    service: service::Service,
    settings: impl Into<ServerSettings>,
    shutdown: impl Into<Shutdown>,
) -> io::Result<()> {
    let (settings, shutdown) = (settings.into(), shutdown.into());
    let (bound, limits) = (listener.local_addr()?.ip(), settings.limits);
    let router = routes::router(service, settings, bound, shutdown.clone());
    serve_router(listener, router, &limits, shutdown.all).await
}

/// Serves any router in the same way. Its endless bodies must watch `shutdown` themselves.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    limits: &ServerLimits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let connections = TaskTracker::new();
    let stop = Stop { begin: shutdown, now: CancellationToken::new() };
    let room = Arc::new(Semaphore::new(limits.max_connections));
    while let Some((accepted, permit)) = next(&listener, &room, &stop.begin).await {
        let served = connection(accepted, router.clone(), *limits, stop.clone());
        connections.spawn(async move {
            served.await;
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    if timeout(GRACE, connections.wait()).await.is_err() {
        stop.now.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// The two moments of stopping: finish what you do, and drop what you have not finished.
#[derive(Clone)]
struct Stop {
    begin: CancellationToken,
    now: CancellationToken,
}

/// The next connection, once there is room for one; none when the server stops.
async fn next(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(Accepted, OwnedSemaphorePermit)> {
    let accepted = async {
        let permit = Arc::clone(room).acquire_owned().await.ok()?;
        Some((accept(listener).await, permit))
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        accepted = accepted => accepted,
    }
}

/// A connection and who is at its other end.
type Accepted = (TcpStream, SocketAddr);

/// Who is at the other end of a request's connection: the client, or a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

async fn accept(listener: &TcpListener) -> Accepted {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The peer was gone before we looked; the next one may be waiting already.
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

async fn connection((stream, peer): Accepted, router: Router, limits: ServerLimits, stop: Stop) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%error, "cannot set socket options");
    }
    let io = TokioIo::new(Socket::new(stream, (limits.write_timeout, reset), stop.begin.clone()));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        router.call(request)
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(io, service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.begin.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.now.cancelled() => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended early");
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let interval = DEAD_PEER / (KEEPALIVE_PROBES + 1);
    let keepalive = TcpKeepalive::new().with_time(interval).with_interval(interval);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(DEAD_PEER))?;
        socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
    }
    Ok(())
}

/// Has the connection end without a farewell once it is dropped, and what waits in the kernel thrown away.
fn reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::debug!(%error, "cannot reset a connection");
    }
}

#[cfg(test)]
mod tests;
