//! A handler without its types.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use crate::Api;

type PendingResponse = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler whose own types are hidden from the router. axum puts several services around each handler. If their types
/// name the handler, the compiler proves for each of them again that the whole future of the handler is `Send`, which took
/// half of its time for this crate.
#[derive(Clone)]
pub(super) struct BoxedHandler(Arc<dyn Fn(Request, Api) -> PendingResponse + Send + Sync>);

impl BoxedHandler {
    pub(super) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, Api, Future = PendingResponse>,
    {
        Self(Arc::new(move |request, api| handler.clone().call(request, api)))
    }
}

impl Handler<(), Api> for BoxedHandler {
    type Future = PendingResponse;

    fn call(self, request: Request, api: Api) -> PendingResponse {
        (self.0)(request, api)
    }
}
