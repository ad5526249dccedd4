//! Connections of the floor and of the proxy: the server side, and reused ones to the upstream.

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use super::upstream::listen;

/// The error of a body of either kind.
pub(super) type BoxedError = Box<dyn Error + Send + Sync>;

/// Connections to the upstream that can be used again.
pub(super) struct UpstreamPool<B> {
    pub(super) address: SocketAddr,
    senders: RefCell<Vec<SendRequest<B>>>,
    connections: TaskTracker,
}

impl<B> UpstreamPool<B>
where
    B: Body<Data: Send, Error: Into<BoxedError>> + 'static,
{
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, senders: RefCell::default(), connections: TaskTracker::new() }
    }

    /// Sends a request over a connection whose last answer has been read, or over a new one.
    pub(super) async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, String> {
        let mut sender = match self.take_ready() {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        self.senders.borrow_mut().push(sender);
        Ok(answer)
    }

    fn take_ready(&self) -> Option<SendRequest<B>> {
        let mut senders = self.senders.borrow_mut();
        senders.retain(|sender| !sender.is_closed());
        let ready = senders.iter().rposition(SendRequest::is_ready)?;
        Some(senders.swap_remove(ready))
    }

    async fn connect(&self) -> Result<SendRequest<B>, String> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        self.connections.spawn_local(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// Serves until the process is killed.
pub(super) async fn serve_http<S, F, B>(port: u16, service: S) -> std::io::Result<()>
where
    S: Fn(Request<Incoming>) -> F + Clone + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + 'static,
    B: Body<Data = Bytes, Error: Into<BoxedError>> + 'static,
{
    let listener = listen(port)?;
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(service.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that goes away is no error of the server.
        connections.spawn_local(async move { drop(connection.await) });
    }
}
