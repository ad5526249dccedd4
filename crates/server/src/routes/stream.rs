//! `POST /{app}/stream`: the chat contract of a generic front end, which calls a thread a session.

use axum::extract::State;
use axum::response::Response;
use protocol::{NewRun, PersonaSettings, Settings, ThreadId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::StreamCaller;
use crate::body::Json;
use crate::path::AppPath;
use crate::routes::runs::{self, RunPost};

/// A message in a chat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChatMessage {
    message: String,
    /// The thread; a new thread when absent.
    session_id: Option<ThreadId>,
    /// The name of a model; the app's model when absent.
    model: Option<String>,
    /// The temperature, within the range of the app; the app's value when absent.
    temperature: Option<f64>,
}

impl From<ChatMessage> for NewRun {
    fn from(chat: ChatMessage) -> Self {
        Self {
            message: Some(chat.message),
            thread_id: chat.session_id,
            model: chat.model,
            settings: PersonaSettings {
                settings: Settings { temperature: chat.temperature, ..Settings::default() },
                model: None,
            },
            ..Self::default()
        }
    }
}

/// Sends a message and streams the answer. `sessionId` is the thread's id, which the response names in `x-thread-id`.
#[utoipa::path(
    post,
    path = "/{app}/stream",
    params(AppPath),
    request_body = ChatMessage,
    responses((
        status = 200,
        description = "The run's events",
        body = String,
        content_type = "text/event-stream",
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(super) async fn stream(
    State(api): State<Api>,
    caller: StreamCaller,
    AppPath { app }: AppPath,
    Json(chat, once): Json<ChatMessage>,
) -> Response {
    let principal = caller.principal.clone();
    let request = RunPost { app: &app, new: chat.into(), once, room: None };
    let started = runs::stream_events(&api, caller, request).await;
    let started = started.map_err(|problem| problem.rename_field(chat_field));
    api.with_allowance(&principal, &app, started).await
}

/// A run's field by the name it has in this contract.
fn chat_field(field: &str) -> Option<&'static str> {
    match field {
        "threadId" => Some("sessionId"),
        "settings.temperature" => Some("temperature"),
        _ => None,
    }
}
