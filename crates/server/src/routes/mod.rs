//! The routes, one file per thing they are about.

mod actions;
mod admin;
mod ag_ui;
mod api_chat;
mod boxed_handler;
mod branches;
mod calls;
mod console;
mod credentials;
mod documents;
mod events;
mod files;
mod images;
mod mcp;
mod mcp_server;
mod memories;
mod openai;
mod other_apis;
mod personas;
mod pins;
mod profile;
mod proposals;
mod records;
mod runs;
mod search;
mod session;
mod statistics;
mod stream;
mod summaries;
mod system;
mod threads;
mod usage;
mod waiting_run;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodFilter, any, delete, get, on};
use axum::{Json, Router};
use boxed_handler::BoxedHandler;
use identity::JwtIssuers;
use openai::{chat_completions, conversations, embeddings, models, responses};
use protocol::{Principal, Stored, SystemClock};
use service::{Follower, Service, StreamAccess};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use utoipa_axum::PathItemExt;

use crate::auth::FailedAttempts;
use crate::contracts::{ContractWriter, Encoder, VoidPieces};
use crate::error::{ApiProblem, ProblemCode};
use crate::event_stream::{EventWriter, StreamSetting};
use crate::mcp_server::McpSessions;
use crate::sse::LogFrames;
use crate::stream_permits::{StreamPermit, StreamPermits};
use crate::{Api, ServerSettings, Shutdown, event_stream, middleware, openapi, upload};

/// Answers a user may wait for at once for each stream they may follow. A thread alone takes twenty messages that wait,
/// each with its request; a message is not to be refused because of that.
const ANSWERS_PER_STREAM: usize = 4;

/// Seconds after which a user with too many streams may try again.
const STREAMS_RETRY_AFTER: u32 = 5;

/// The answer of a handler: a JSON body, or a problem.
type JsonReply<T> = Result<Json<T>, ApiProblem>;

/// The answer of a handler that made something.
type Created<T> = Result<(StatusCode, Json<T>), ApiProblem>;

fn created<T>(made: T) -> (StatusCode, Json<T>) {
    (StatusCode::CREATED, Json(made))
}

pub(crate) fn router(
    service: Service,
    settings: ServerSettings,
    bound: IpAddr,
    (shutdown, tasks): (Shutdown, TaskTracker),
) -> Router {
    let shared = |name| StreamPermits::shared(service.held_by_users(), name);
    let (following, answering, asking) = (shared("following"), shared("answering"), shared("asking"));
    let uploads = Arc::new(Semaphore::new(upload::MAX_UPLOADS));
    let ServerSettings { limits, chat_app, proxying, control_user, issuers, tls: _ } = settings;
    let issuers = issuers.unwrap_or_else(|| Arc::new(JwtIssuers::none(Arc::new(SystemClock))));
    let attempts = Arc::new(FailedAttempts::new(limits.failed_attempts_per_minute));
    let document = Arc::new(openapi::document(&proxying));
    let (chat_app, control_user) = (chat_app.map(Arc::from), control_user.map(Arc::from));
    let proxying = Arc::new(proxying);
    let mcp_sessions = Arc::new(McpSessions::new(shutdown.all.clone(), tasks));
    let api = Api {
        service,
        limits,
        chat_app,
        control_user,
        proxying,
        issuers,
        attempts,
        following,
        answering,
        asking,
        uploads,
        uploading: StreamPermits::default(),
        mcp_sessions,
        shutdown,
        bound,
        document,
    };
    // The description leaves these out: they are for browsers, for our own commands, and for MCP clients, which read
    // what there is by their own protocol.
    DESCRIBED
        .clone()
        .route("/", get(console::page))
        .route(console::HASHED, get(console::hashed_file))
        .route("/favicon.ico", get(console::favicon))
        .route(admin::CONTROL_KEYS, delete(admin::remove_keys))
        .route(mcp_server::MCP, any(mcp_server::mcp))
        .route(mcp_server::MCP_OF_APP, any(mcp_server::mcp_of_app))
        .route(mcp_server::PROTECTED_RESOURCE, get(mcp_server::protected_resource))
        .route(
            &format!("{}/{{*resource}}", mcp_server::PROTECTED_RESOURCE),
            get(mcp_server::protected_resource),
        )
        .fallback(other_apis::answer_unknown_path)
        .method_not_allowed_fallback(async || {
            ApiProblem::new(
                ProblemCode::MethodNotAllowed,
                "this path does not support this method; see the Allow header",
            )
        })
        .layer(from_fn_with_state(api.clone(), middleware::pass))
        .with_state(api)
}

/// Gives the handlers of all described routes, by their tags, to another macro. The router and the description are made
/// of this one list: an attribute on each handler has its path, its method and its description.
macro_rules! for_described_routes {
    ($receiver:ident) => {
        $receiver! {
            "apps": system::list_apps;
            "runs": runs::create_run, runs::get_run, runs::run_events, runs::run_prompt, runs::cancel_run,
                stream::stream;
            "chat": api_chat::chat, api_chat::resume_chat, api_chat::stop_chat;
            "ag-ui": ag_ui::run_agent;
            "threads": threads::create_thread, threads::list_threads, threads::import_thread,
                threads::list_all_threads, threads::get_thread, threads::change_thread,
                threads::delete_thread, branches::list_messages, branches::list_queued_messages,
                branches::thread_tree, branches::choose_head, branches::export_thread, threads::thread_events,
                events::user_events, search::search_messages, search::search_threads,
                summaries::list_summaries;
            "memories": memories::create_memory, memories::list_memories, memories::search_memories,
                memories::export_memories, memories::import_memories, memories::get_memory_settings,
                memories::put_memory_settings, memories::get_memory, memories::edit_memory,
                memories::forget_memory, memories::restore_memory, memories::memory_history;
            "personas": personas::create_persona, personas::list_personas, personas::get_persona,
                personas::change_persona, personas::delete_persona;
            "pins": pins::create_pin, pins::list_pins, pins::create_pin_for_all, pins::list_pins_for_all,
                pins::delete_pin;
            "documents": documents::create_document, documents::list_documents, documents::search_documents,
                documents::get_document, documents::delete_document, documents::get_document_text,
                documents::list_knowledge;
            "images": images::create_image, images::list_images, images::get_image, images::delete_image;
            "me": profile::get_profile, profile::change_profile;
            "actions": actions::list_actions, actions::get_action, actions::preview_undo,
                actions::undo_action, actions::preview_run_undo, actions::undo_run;
            "proposals": proposals::list_proposals, proposals::get_proposal, proposals::confirm_proposal,
                proposals::reject_proposal;
            "calls": calls::list_calls, calls::get_call, calls::answer_call;
            "records": records::list_record_types, records::create_record, records::list_records,
                records::get_record, records::replace_record, records::change_record, records::delete_record,
                records::record_versions;
            "files": files::list_files, files::get_file, files::put_file, files::delete_file,
                files::file_versions;
            "credentials": credentials::list_credentials, credentials::put_credential,
                credentials::delete_credential;
            "openai": chat_completions::create_chat_completion, embeddings::create_embeddings,
                models::list_openai_models, models::get_openai_model, responses::create_response,
                responses::get_response, responses::delete_response, responses::cancel_response,
                responses::list_input_items, conversations::create_conversation,
                conversations::get_conversation, conversations::delete_conversation,
                conversations::list_conversation_items;
            "usage": usage::get_usage, usage::list_models;
            "session": session::get_session, session::create_session, session::delete_session;
            "admin": admin::list_jobs, admin::verify_ledger, admin::list_keys, admin::add_key,
                admin::revoke_key, admin::rotate_key, admin::list_sessions, admin::end_session,
                admin::list_audit, statistics::run_stats, statistics::usage_totals, statistics::list_all_runs,
                statistics::cancel_any_run, statistics::retry_job, mcp::list_mcp_servers, mcp::get_mcp_server,
                mcp::refresh_mcp_server, mcp::approve_mcp_tools, mcp::revoke_mcp_tools;
            "system": system::healthz, system::readyz, system::openapi;
        }
    };
}

macro_rules! described_router {
    ($($tag:literal: $($module:ident::$handler:ident),+;)+) => {
        pastey::paste! {{
            let router = Router::new();
            $($(
                let handler = BoxedHandler::new($module::$handler);
                let router = with_handler::<$module::[<__path_ $handler>]>(router, handler);
            )+)+
            router
        }}
    };
}

/// The described routes. They are made once in a process.
static DESCRIBED: LazyLock<Router<Api>> = LazyLock::new(|| for_described_routes!(described_router));

/// The router with one more handler, at the path and for the method in the handler's attribute. The rest of the
/// attribute is read by tests only, so the linker leaves it out.
fn with_handler<P: utoipa::Path>(router: Router<Api>, handler: BoxedHandler) -> Router<Api> {
    let filters = P::methods().into_iter().map(|method| method.to_method_filter());
    match filters.reduce(MethodFilter::or) {
        Some(filter) => router.route(&P::path(), on(filter, handler)),
        None => router,
    }
}

/// Events that a client follows, and the access by which it does so.
struct FollowedEvents {
    follower: Follower,
    permit: StreamPermit,
    access: StreamAccess,
}

impl Api {
    /// The right to follow one more run or thread.
    pub(crate) fn may_follow(&self, principal: &Principal) -> Result<StreamPermit, ApiProblem> {
        // Alone, it tells the client when to come back. With others, a proxy can ask one of them at once.
        if self.service.is_node() && self.shutdown.streams.is_cancelled() {
            let detail = "this node is stopping; another node answers the same request";
            return Err(ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(1));
        }
        permit(&self.following, principal, self.limits.max_streams_per_user)
    }

    /// The right to wait for one more answer, as a stream or not. Asked for before anything is stored, so that a refusal
    /// has no effect.
    pub(crate) fn may_be_answered(&self, principal: &Principal) -> Result<StreamPermit, ApiProblem> {
        permit(&self.answering, principal, ANSWERS_PER_STREAM * self.limits.max_streams_per_user)
    }

    /// The right to wait for one more answer through an MCP client. The wait can outlive its connection while the user
    /// thinks about an approval, so these waits take nothing from other requests.
    pub(crate) fn may_ask(&self, principal: &Principal) -> Result<StreamPermit, ApiProblem> {
        permit(&self.asking, principal, self.limits.max_streams_per_user)
    }

    /// The answer, unless the access ends before it is there.
    async fn while_allowed<T>(
        &self,
        access: &StreamAccess,
        answer: impl Future<Output = Result<T, ApiProblem>>,
    ) -> Result<T, ApiProblem> {
        let over = async {
            event_stream::access_end(access).await;
            // A caller that waits is told of a server that stops elsewhere.
            if self.shutdown.streams.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = over => {
                let detail = "the key, the JWT or the session has ended while the answer was made; the run continues";
                Err(ApiProblem::new(ProblemCode::Unauthorized, detail))
            }
        }
    }

    /// The events of a run or a thread as they are stored.
    fn stream(&self, followed: FollowedEvents) -> Response {
        self.respond(followed, LogFrames)
    }

    /// The events of the principal's run in the words of another contract.
    fn encoded_response(
        &self,
        principal: &Principal,
        encoder: impl Encoder,
        followed: FollowedEvents,
    ) -> Response {
        self.encoded_late(principal, encoder, VoidPieces::default(), followed)
    }

    /// The events of the principal's run, which may have begun before, in the words of another contract, without pieces
    /// that are void by now.
    fn encoded_late(
        &self,
        principal: &Principal,
        encoder: impl Encoder,
        void: VoidPieces,
        followed: FollowedEvents,
    ) -> Response {
        let (service, principal) = (self.service.clone(), principal.clone());
        let writer = ContractWriter { encoder, service, principal, void };
        self.respond(FollowedEvents { follower: followed.follower.by_facts(), ..followed }, writer)
    }

    fn respond(
        &self,
        FollowedEvents { follower, permit, access }: FollowedEvents,
        writer: impl EventWriter<Event = Arc<Stored>>,
    ) -> Response {
        let (heartbeat, shutdown) = (self.limits.heartbeat, self.shutdown.streams.clone());
        event_stream::response(follower, writer, StreamSetting { heartbeat, shutdown, access, permit })
    }
}

fn permit(streams: &StreamPermits, principal: &Principal, limit: usize) -> Result<StreamPermit, ApiProblem> {
    streams.permit(principal.user(), limit).ok_or_else(|| {
        let detail =
            format!("{limit} of your requests wait for events or answers already; close one and try again");
        ApiProblem::new(ProblemCode::TooManyStreams, detail).retry_after(STREAMS_RETRY_AFTER)
    })
}

#[cfg(test)]
mod tests;
