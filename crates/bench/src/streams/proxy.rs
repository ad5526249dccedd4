//! The least pass-through proxy: it forwards the request, and streams back the bytes of the answer as they come.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response, StatusCode};

use super::pool::{BoxedError, UpstreamPool, serve_http};

/// Serves until the process is killed.
pub(super) async fn serve(port: u16, upstream: SocketAddr) -> std::io::Result<()> {
    let pool = Rc::new(UpstreamPool::<Incoming>::new(upstream));
    serve_http(port, move |request| forward(request, pool.clone())).await
}

async fn forward(
    request: Request<Incoming>,
    pool: Rc<UpstreamPool<Incoming>>,
) -> Result<Response<impl Body<Data = Bytes, Error = BoxedError>>, Infallible> {
    Ok(match pool.send(request).await {
        Ok(answer) => answer.map(Either::Left),
        Err(why) => {
            let mut answer = Response::new(Either::Right(Full::from(why)));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    })
}
