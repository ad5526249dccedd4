//! One connection from its first byte to its last: plain HTTP/1, or TLS with HTTP/1 or HTTP/2 inside.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;

use super::http2::serve_http2;
use super::{Accepted, IsTls, PeerAddress, StopSignals, reset, tune};
use crate::io::Socket;
use crate::tls::HTTP2;
use crate::{BasePath, ServerLimits};

/// Bytes that we hold for one connection in each direction before we take no more; what was taken last may come on top. The
/// log is the buffer, so more would be pointless.
const MAX_BUFFER_BYTES: usize = 32 * 1024;

/// The first byte of a TLS connection: its record is a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// For a client that speaks plain HTTP on the port of TLS. The length is that of the text.
const PLAIN_REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\
    content-length: 69\r\n\r\nthis server speaks HTTPS on this port; write https:// in the address\n";

/// Everything that connections have in common.
#[derive(Clone)]
pub(super) struct ConnectionSetting {
    pub(super) router: Router,
    pub(super) limits: ServerLimits,
    pub(super) stop: StopSignals,
    /// Removed from the path of each request.
    pub(super) base_path: Option<Arc<BasePath>>,
}

/// A service for the requests of one connection: the router, told where the request comes from.
pub(super) fn request_service(
    router: Router,
    base_path: Option<Arc<BasePath>>,
    peer: SocketAddr,
    is_tls: IsTls,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + 'static> + use<>
{
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        request.extensions_mut().insert(is_tls);
        if let Some(base_path) = &base_path {
            base_path.remove_from(request.uri_mut());
        }
        router.call(request)
    })
}

pub(super) async fn serve_plain((stream, peer): Accepted, setting: ConnectionSetting) {
    let socket = socket(stream, &setting);
    let service = request_service(setting.router, setting.base_path, peer, IsTls(false));
    serve_http1(socket, service, setting.limits, setting.stop).await;
}

/// `streams` owns the tasks of the requests of HTTP/2.
pub(super) async fn serve_encrypted(
    (stream, peer): Accepted,
    tls: TlsAcceptor,
    setting: ConnectionSetting,
    streams: TaskTracker,
) {
    let begun = tokio::select! {
        biased;
        () = setting.stop.begin.cancelled() => return,
        begun = timeout(setting.limits.header_timeout, handshake(stream, tls, &setting)) => begun,
    };
    let stream = match begun {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "no TLS connection"),
        Err(_) => return tracing::debug!(%peer, "the TLS handshake took too long"),
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
    let service = request_service(setting.router, setting.base_path, peer, IsTls(true));
    if is_http2 {
        serve_http2(stream, service, (setting.limits, setting.stop), streams).await;
    } else {
        serve_http1(stream, service, setting.limits, setting.stop).await;
    }
}

/// The time-out of blocked writes is below TLS, where a client takes bytes or does not.
async fn handshake(
    stream: TcpStream,
    tls: TlsAcceptor,
    setting: &ConnectionSetting,
) -> io::Result<TlsStream<Socket<TcpStream>>> {
    let mut first = [0];
    let is_tls = stream.peek(&mut first).await? > 0 && first == [TLS_HANDSHAKE];
    let mut socket = socket(stream, setting);
    if is_tls {
        return tls.accept_with(socket, |session| session.set_buffer_limit(Some(MAX_BUFFER_BYTES))).await;
    }
    if first.iter().all(u8::is_ascii_uppercase) {
        socket.write_all(PLAIN_REFUSAL).await?;
    }
    socket.shutdown().await?;
    Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"))
}

fn socket(stream: TcpStream, setting: &ConnectionSetting) -> Socket<TcpStream> {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%error, "cannot set socket options");
    }
    Socket::new(stream, (setting.limits.write_timeout, reset), setting.stop.begin.clone())
}

async fn serve_http1<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: S,
    limits: ServerLimits,
    stop: StopSignals,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
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
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_of_plain_http_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAIN_REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head} but {}", body.len());
    }
}
