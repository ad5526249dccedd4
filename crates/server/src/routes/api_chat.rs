//! `/api/chat`: the chat contract of the AI SDK, as its `useChat` speaks it.
//!
//! The client names its chats and sends everything that was said; the thread knows that already, so only the last
//! message counts. An answer's id there is the id of its run here.

mod request;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{NewRun, Principal, Regenerate, RunId, ThreadId, ThreadView};
use serde::Deserialize;
use utoipa::IntoParams;

use self::request::{ChatAsk, NewChat};
use crate::Api;
use crate::auth::StreamCaller;
use crate::contracts::{ChatKey, UI_MESSAGE_STREAM, UiMessageEncoder};
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::ChatPath;
use crate::query::read_params;
use crate::routes::FollowedEvents;
use crate::routes::runs::{self, RunPost};
use crate::routes::waiting_run::{GivenAnswers, WaitingRun};
use crate::upload::JsonWithFiles;

/// Says which major version of the AI SDK the client is, as far as it is known. It is not sent by itself.
const SDK_VERSION: &str = "x-ai-sdk-version";

/// The first version whose client can drop what it was sent of a step that begins again.
const RESETTING_VERSION: u32 = 7;

/// Told to a client without the `id` of a chat. Ollama has a path of this name, and its clients send no `id`.
const NOT_OLLAMA: &str = "this is the endpoint of the AI SDK (useChat), which sends an id, and not the one of Ollama; \
    without the AI SDK, send the message to POST /v1/apps/{app}/runs, see /openapi.json";

/// The app that answers.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ChatAppParams {
    /// The app's name; `server.chat_app` when absent, or else the only app.
    app: Option<String>,
}

/// The query and headers of a request.
pub(super) struct ChatExtras {
    app: Option<String>,
    /// Whether the client can take a step back.
    resets: bool,
    /// The name by which the client has reached the server.
    host: Option<String>,
}

impl ChatExtras {
    fn is_host(&self, host: &str) -> bool {
        self.host.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(host))
    }
}

impl FromRequestParts<Api> for ChatExtras {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        let ChatAppParams { app } = read_params(parts)?;
        let version = parts.headers.get(SDK_VERSION).and_then(|value| value.to_str().ok());
        let major = version.and_then(|version| version.split('.').next()?.trim().parse::<u32>().ok());
        let host = parts.headers.get(header::HOST).and_then(|value| value.to_str().ok());
        let host = host.or(parts.uri.authority().map(Authority::as_str)).map(str::to_owned);
        Ok(Self { app, host, resets: major.is_some_and(|major| major >= RESETTING_VERSION) })
    }
}

/// Sends a message in a chat, regenerates an answer, decides an approval or answers a call of the client, and streams
/// the answer.
#[utoipa::path(
    post,
    path = "/api/chat",
    params(ChatAppParams, ("x-ai-sdk-version" = Option<String>, Header, description = "The major version of the AI SDK, if it is 7 or newer")),
    request_body = NewChat,
    responses((
        status = 200,
        description = "A UI message stream of the AI SDK",
        body = String,
        content_type = "text/event-stream",
        headers(("x-run-id" = String), ("x-thread-id" = String), ("x-vercel-ai-ui-message-stream" = String))
    ))
)]
pub(super) async fn chat(
    State(api): State<Api>,
    caller: StreamCaller,
    extras: ChatExtras,
    body: Result<JsonWithFiles<NewChat>, ApiProblem>,
) -> Result<Response, ApiProblem> {
    let JsonWithFiles { value: mut chat, once, room } =
        body.map_err(|problem| problem.explain_missing("id", NOT_OLLAMA))?;
    let is_own = |host: &str| extras.is_host(host) || api.proxying.is_host(host);
    let (ask, principal) = (chat.ask(is_own)?, caller.principal.clone());
    let place = place(&api, &principal, chat.app.clone().or(extras.app.clone()), &chat).await?;
    let encoder = UiMessageEncoder::new(extras.resets);
    let request = RunPost { app: &place.app, new: place.run(&chat), once, room };
    let asked = AskedChat { ask, thread: place.thread, encoder };
    let answer = Box::pin(answer(&api, caller, asked, request)).await;
    let answer = answer.map(|stream| ([UI_MESSAGE_STREAM], stream).into_response());
    let answer = answer.map_err(|problem| problem.rename_field(chat_field));
    Ok(api.with_allowance(&principal, &place.app, answer).await)
}

/// The question of a chat, and the writer of its answer.
struct AskedChat {
    ask: ChatAsk,
    thread: ThreadId,
    encoder: UiMessageEncoder,
}

async fn answer(
    api: &Api,
    caller: StreamCaller,
    AskedChat { ask, thread, encoder }: AskedChat,
    RunPost { app, new, once, room }: RunPost<'_>,
) -> Result<Response, ApiProblem> {
    let new = match ask {
        ChatAsk::GoOn(given) => return stream_on(api, caller, (thread, given), encoder).await,
        ChatAsk::Say { text, parts, parent } => {
            NewRun { message: Some(text), parts, parent_id: parent, ..new }
        }
        ChatAsk::Again(None) => NewRun { regenerate: Some(Regenerate::Last(true)), ..new },
        ChatAsk::Again(Some(answer)) => {
            let message = answer.message(api, &caller).await?;
            NewRun { regenerate: Some(Regenerate::Message(message)), ..new }
        }
    };
    runs::stream_encoded(api, caller, RunPost { app, new, once, room }, encoder).await
}

/// A run's field by the name it has in this contract.
fn chat_field(field: &str) -> Option<&'static str> {
    match field {
        "message" | "parts" => Some("messages"),
        "threadId" => Some("id"),
        "parentId" | "regenerate" => Some("messageId"),
        _ => None,
    }
}

/// Takes the decisions and results that the run waits for, and streams what follows from them.
async fn stream_on(
    api: &Api,
    StreamCaller { principal, access }: StreamCaller,
    (thread, given): (ThreadId, GivenAnswers),
    encoder: UiMessageEncoder,
) -> Result<Response, ApiProblem> {
    let principal = &principal;
    let permit = api.may_be_answered(principal)?;
    // All are looked at before any is taken, so that a refusal has no effect.
    let waits = WaitingRun::find(api, principal, thread, given).await?;
    let encoder = encoder.after_answers(waits.awaited_answers());
    let run = waits.run;
    waits.take(api, principal).await?;
    let follower = api.service.follow_run(principal, run, None).await?;
    let stream = follower.map(|follower| {
        api.encoded_response(principal, encoder, FollowedEvents { follower, permit, access })
    });
    let headers = [("x-run-id", run.to_string()), ("x-thread-id", thread.to_string())];
    Ok((headers, stream.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())).into_response())
}

/// Streams the current answer of a chat from its beginning.
#[utoipa::path(
    get,
    path = "/api/chat/{chat}/stream",
    params(ChatPath, ChatAppParams),
    responses(
        (status = 200, description = "A UI message stream of the AI SDK", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The chat has no active run")
    )
)]
pub(super) async fn resume_chat(
    State(api): State<Api>,
    StreamCaller { principal, access }: StreamCaller,
    ChatPath { chat }: ChatPath,
    extras: ChatExtras,
) -> Result<Response, ApiProblem> {
    let nothing = || StatusCode::NO_CONTENT.into_response();
    let Some(run) = under_way(&api, &principal, extras.app, &chat).await? else { return Ok(nothing()) };
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_run(&principal, run, None).await?;
    let encoder = UiMessageEncoder::new(extras.resets);
    let stream = follower.map(|follower| {
        api.encoded_response(&principal, encoder, FollowedEvents { follower, permit, access })
    });
    let response = stream.map(|stream| ([UI_MESSAGE_STREAM], stream).into_response());
    Ok(response.unwrap_or_else(nothing))
}

/// Stops the current answer of a chat. Closing the stream does not stop it.
#[utoipa::path(
    post,
    path = "/api/chat/{chat}/stop",
    params(ChatPath, ChatAppParams),
    responses((status = 204, description = "The chat has no active run, or its run is stopping"))
)]
pub(super) async fn stop_chat(
    State(api): State<Api>,
    principal: Principal,
    ChatPath { chat }: ChatPath,
    extras: ChatExtras,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    if let Some(run) = under_way(&api, &principal, extras.app, &chat).await? {
        api.service.cancel(&principal, run, once).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The place of a chat.
struct ChatPlace {
    app: String,
    thread: ThreadId,
    /// Whether its thread is there. One that is not is made with its first run, or not at all.
    is_there: bool,
}

impl ChatPlace {
    /// A run there, as far as it does not depend on what is asked.
    fn run(&self, chat: &NewChat) -> NewRun {
        NewRun {
            thread_id: Some(self.thread).filter(|_| self.is_there),
            chat: Some(self.thread),
            model: chat.model.clone(),
            persona_id: chat.persona_id.clone(),
            document_ids: chat.document_ids.clone(),
            tools: chat.tools(),
            on_busy: chat.on_busy,
            ..NewRun::default()
        }
    }
}

/// The thread of a chat: the one it names, the one its answers name, or the one that is made for it. Makes nothing.
async fn place(
    api: &Api,
    principal: &Principal,
    app: Option<String>,
    chat: &NewChat,
) -> Result<ChatPlace, ApiProblem> {
    for named in [chat.id.parse().ok(), chat.thread()].into_iter().flatten() {
        if let Some(thread) = thread(api, principal, app.as_deref(), named).await? {
            return Ok(ChatPlace { app: thread.app_id, thread: thread.id, is_there: true });
        }
    }
    let app = app_of(api, principal, app)?;
    let of = ChatKey::new(principal, &app, &chat.id).thread();
    let is_there = thread(api, principal, Some(&app), of).await?.is_some();
    Ok(ChatPlace { app, thread: of, is_there })
}

/// The run under way in a chat, if one is. Makes nothing.
async fn under_way(
    api: &Api,
    principal: &Principal,
    app: Option<String>,
    chat: &str,
) -> Result<Option<RunId>, ApiProblem> {
    if let Ok(named) = chat.parse()
        && let Some(thread) = thread(api, principal, app.as_deref(), named).await?
    {
        return Ok(thread.active_run_id);
    }
    let app = app_of(api, principal, app)?;
    let thread = thread(api, principal, Some(&app), ChatKey::new(principal, &app, chat).thread()).await?;
    Ok(thread.and_then(|thread| thread.active_run_id))
}

/// The thread, if it is there and belongs to the app that was named.
pub(super) async fn thread(
    api: &Api,
    principal: &Principal,
    app: Option<&str>,
    id: ThreadId,
) -> Result<Option<ThreadView>, ApiProblem> {
    match api.service.thread(principal, id).await {
        Ok(thread) => Ok(Some(thread).filter(|thread| app.is_none_or(|app| app == thread.app_id))),
        Err(service::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The app that was named, the configured one, the only one, or the usual one.
pub(super) fn app_of(api: &Api, principal: &Principal, named: Option<String>) -> Result<String, ApiProblem> {
    if let Some(app) = named {
        return Ok(app);
    }
    let may_use = |app: &String| principal.may_use(&protocol::AppId::new(app.as_str()));
    let apps: Vec<String> = api.service.apps().into_iter().map(|app| app.id).filter(may_use).collect();
    service::default_app(api.chat_app.as_deref(), &apps).map(str::to_owned).ok_or_else(|| {
        ApiProblem::invalid(
            "app",
            "is required, because there are several apps and server.chat_app is not set",
        )
    })
}
