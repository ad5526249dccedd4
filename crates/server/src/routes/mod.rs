//! The routes, one file per thing they are about.

mod actions;
mod admin;
mod api_chat;
mod credentials;
mod documents;
mod files;
mod mcp;
mod me;
mod memories;
mod personas;
mod pins;
mod proposals;
mod records;
mod runs;
mod search;
mod stream;
mod summaries;
mod system;
mod threads;
mod usage;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use protocol::Principal;
use service::{Follower, Service};
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::doors::{Asking, Encoder};
use crate::error::{Code, Problem};
use crate::streams::{Permit, Streams};
use crate::{Api, Limits, Settings, Shutdown, doors, edge, openapi, sse, upload};

/// Answers a user may wait for at once for each stream they may follow. A thread alone takes twenty messages that wait,
/// each with its request; a message is not to be refused because of that.
const ANSWERS_PER_STREAM: usize = 4;

/// Seconds after which a user with too many streams may try again.
const STREAMS_RETRY_AFTER: u32 = 5;

pub(crate) fn router(service: Service, settings: Settings, bound: IpAddr, shutdown: Shutdown) -> Router {
    let (router, description) = described().split_for_parts();
    let (following, answering) = (Streams::default(), Streams::default());
    let uploads = Arc::new(Semaphore::new(upload::MAX_UPLOADS));
    let Settings { limits, chat_app, proxying } = settings;
    let document = openapi::encode(description, &proxying.public_urls);
    let (chat_app, proxying) = (chat_app.map(Arc::from), Arc::new(proxying));
    let api =
        Api { service, limits, chat_app, proxying, following, answering, uploads, shutdown, bound, document };
    router
        .fallback(async || Problem::new(Code::NotFound, "there is nothing at this address"))
        .method_not_allowed_fallback(async || {
            Problem::new(Code::MethodNotAllowed, "this address exists, but not for this method; see Allow")
        })
        .layer(from_fn_with_state(api.clone(), edge::pass))
        .with_state(api)
}

fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(system::apps))
        .routes(routes!(runs::create))
        .routes(routes!(runs::show))
        .routes(routes!(runs::events))
        .routes(routes!(runs::prompt))
        .routes(routes!(runs::cancel))
        .routes(routes!(threads::create, threads::list))
        .routes(routes!(threads::show, threads::change, threads::delete))
        .routes(routes!(threads::messages))
        .routes(routes!(threads::events))
        .merge(contracts())
        .routes(routes!(memories::create, memories::list))
        .routes(routes!(memories::search))
        .routes(routes!(memories::export))
        .routes(routes!(memories::import))
        .routes(routes!(memories::settings, memories::set))
        .routes(routes!(memories::show, memories::edit, memories::forget))
        .routes(routes!(memories::restore))
        .routes(routes!(memories::history))
        .routes(routes!(search::messages))
        .routes(routes!(personas::create, personas::list))
        .routes(routes!(personas::show, personas::change, personas::delete))
        .routes(routes!(pins::create, pins::list))
        .routes(routes!(pins::create_for_all, pins::list_for_all))
        .routes(routes!(pins::delete))
        .routes(routes!(summaries::list))
        .routes(routes!(documents::create, documents::list))
        .routes(routes!(documents::search))
        .routes(routes!(documents::show, documents::delete))
        .routes(routes!(documents::text))
        .routes(routes!(me::show, me::change))
        .routes(routes!(actions::list))
        .routes(routes!(actions::show))
        .routes(routes!(actions::undo))
        .routes(routes!(actions::undo_run))
        .routes(routes!(proposals::list))
        .routes(routes!(proposals::show))
        .routes(routes!(proposals::confirm))
        .routes(routes!(proposals::reject))
        .routes(routes!(records::create, records::list))
        .routes(routes!(records::show, records::replace, records::change, records::delete))
        .routes(routes!(files::list))
        .routes(routes!(files::show, files::put, files::delete))
        .routes(routes!(credentials::list))
        .routes(routes!(credentials::put, credentials::delete))
        .routes(routes!(usage::report))
        .routes(routes!(usage::models))
        .routes(routes!(admin::jobs))
        .routes(routes!(admin::ledger))
        .routes(routes!(admin::keys, admin::add_key))
        .routes(routes!(admin::revoke_key))
        .routes(routes!(mcp::list))
        .routes(routes!(mcp::show))
        .routes(routes!(mcp::refresh))
        .routes(routes!(mcp::approve))
        .routes(routes!(mcp::revoke))
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::openapi))
}

/// Chats as other front ends know them.
fn contracts() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(stream::create)).merge(api_chat::routes())
}

impl Api {
    /// The right to follow one more run or thread.
    fn may_follow(&self, principal: &Principal) -> Result<Permit, Problem> {
        permit(&self.following, principal, self.limits.max_streams_per_user)
    }

    /// The right to wait for one more answer, as a stream or not. Asked for before anything is stored, so that a refusal
    /// has no effect.
    fn may_be_answered(&self, principal: &Principal) -> Result<Permit, Problem> {
        permit(&self.answering, principal, ANSWERS_PER_STREAM * self.limits.max_streams_per_user)
    }

    fn stream(&self, follower: Follower, permit: Permit) -> Response {
        sse::response(follower, self.setting(permit))
    }

    /// The same in the words of another contract.
    fn encoded(
        &self,
        principal: &Principal,
        (follower, permit): (Follower, Permit),
        encoder: impl Encoder,
    ) -> Response {
        let asking = Asking { service: self.service.clone(), principal: principal.clone() };
        doors::response(follower, encoder, asking, self.setting(permit))
    }

    fn setting(&self, permit: Permit) -> sse::Setting {
        let Limits { heartbeat, .. } = self.limits;
        sse::Setting { heartbeat, shutdown: self.shutdown.streams.clone(), permit }
    }
}

fn permit(streams: &Streams, principal: &Principal, limit: usize) -> Result<Permit, Problem> {
    streams.permit(principal.user(), limit).ok_or_else(|| {
        let detail =
            format!("{limit} of your requests wait for events or answers already; close one and try again");
        Problem::new(Code::TooManyStreams, detail).retry_after(STREAMS_RETRY_AFTER)
    })
}

#[cfg(test)]
mod tests;
