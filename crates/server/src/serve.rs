//! The accept loop: connections with a bound on their number, their time and their memory.
//!
//! It is our own because the usual one has no timer behind the header time-out, waits for ever on an open event
//! stream when it is asked to stop, and does nothing about a client that stops reading.

mod address_counts;
mod connection;
mod http2;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::address_counts::AddressCounts;
use self::connection::{ConnectionSetting, serve_encrypted, serve_plain};
use crate::peer::{IsTls, PeerAddress};
use crate::tls::ServerTls;
use crate::{BasePath, ServerLimits, ServerSettings, Shutdown, routes};

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
    let (bound, limits, tls) = (listener.local_addr()?.ip(), settings.limits, settings.tls.clone());
    let trusted_proxies = settings.proxying.trusted_proxies.clone();
    let addresses = AddressCounts::new(limits.max_connections_per_address, trusted_proxies);
    let base_path = settings.proxying.base_path.clone().map(Arc::new);
    let tasks = TaskTracker::new();
    let router = routes::router(service, settings, bound, (shutdown.clone(), tasks.clone()));
    let acceptor = ConnectionAcceptor { listener, limits, tls, addresses, base_path };
    acceptor.serve(router, shutdown.all).await;
    tasks.close();
    if timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::warn!("answers to MCP clients were still under way when the server stopped");
    }
    Ok(())
}

/// Serves any router in the same way, over plain HTTP. Its endless bodies must watch `shutdown` themselves.
pub async fn serve_router(
    listener: TcpListener,
    router: Router,
    limits: &ServerLimits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let addresses = AddressCounts::new(limits.max_connections_per_address, Vec::new());
    let acceptor = ConnectionAcceptor { listener, limits: *limits, tls: None, addresses, base_path: None };
    acceptor.serve(router, shutdown).await;
    Ok(())
}

/// The listening socket, and the rules for connections that arrive there.
struct ConnectionAcceptor {
    listener: TcpListener,
    limits: ServerLimits,
    /// None for plain HTTP.
    tls: Option<ServerTls>,
    addresses: Arc<AddressCounts>,
    base_path: Option<Arc<BasePath>>,
}

impl ConnectionAcceptor {
    async fn serve(self, router: Router, shutdown: CancellationToken) {
        let Self { listener, limits, tls, addresses, base_path } = self;
        let tasks = TaskTracker::new();
        let stop = StopSignals { begin: shutdown, now: CancellationToken::new() };
        let room = Arc::new(Semaphore::new(limits.max_connections));
        while let Some((accepted, permit)) = next(&listener, &room, &stop.begin).await {
            let Some(place) = addresses.permit(accepted.1.ip()) else { continue };
            let (router, base_path) = (router.clone(), base_path.clone());
            let setting = ConnectionSetting { router, limits, stop: stop.clone(), base_path };
            // Two kinds of tasks, so that a plain connection needs no memory for what TLS needs.
            match &tls {
                None => tasks.spawn(async move {
                    serve_plain(accepted, setting).await;
                    drop((permit, place));
                }),
                Some(tls) => {
                    let (tls, streams) = (tls.acceptor(), tasks.clone());
                    tasks.spawn(async move {
                        serve_encrypted(accepted, tls, setting, streams).await;
                        drop((permit, place));
                    })
                }
            };
        }
        drop(listener);
        tasks.close();
        if timeout(GRACE, tasks.wait()).await.is_err() {
            stop.now.cancel();
            tasks.wait().await;
        }
    }
}

/// The two moments of stopping: finish what you do, and drop what you have not finished.
#[derive(Clone)]
struct StopSignals {
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
