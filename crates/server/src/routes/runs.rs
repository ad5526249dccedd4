//! Runs: start one, read it, follow it, cancel it.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{NewRun, Principal, PromptView, RunResult, RunView};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use service::{AcceptedRun, IdempotencyClaim};
use utoipa::IntoParams;

use crate::Api;
use crate::auth::{Caller, StreamCaller};
use crate::contracts::{DeltaEncoder, Encoder};
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, RunPath};
use crate::query::{AfterParams, LastEvent, LastEventId, Params};
use crate::routes::{Created, FollowedEvents, JsonReply};
use crate::upload::{JsonWithFiles, UploadRoom};

/// Seconds after which a server that is stopping is likely to be back.
const RESTART_RETRY_AFTER: u32 = 2;

/// The form of a streamed answer.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AnswerParams {
    /// The form of the stream: `events` (when absent), or `delta` for `{delta, done?, tokenUsage?}`.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    format: RunFormat,
}

#[derive(Default)]
enum RunFormat {
    #[default]
    Events,
    Delta,
}

impl<'de> Deserialize<'de> for RunFormat {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        match String::deserialize(value)?.as_str() {
            "events" => Ok(Self::Events),
            "delta" => Ok(Self::Delta),
            _ => Err(D::Error::custom("must be events or delta")),
        }
    }
}

/// Starts a run and streams its events. With `stream: false`, the server responds when the run has ended. A client that
/// disconnects does not stop the run.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/runs",
    params(AppPath, AnswerParams),
    request_body = NewRun,
    responses((
        status = 200,
        description = "The run's events, or its result",
        content((String = "text/event-stream"), (RunResult = "application/json")),
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(super) async fn create_run(
    State(api): State<Api>,
    caller: StreamCaller,
    AppPath { app }: AppPath,
    Params(AnswerParams { format }): Params<AnswerParams>,
    JsonWithFiles { value: new, once, room }: JsonWithFiles<NewRun>,
) -> Response {
    let (streams, principal) = (new.stream.unwrap_or(true), caller.principal.clone());
    let request = RunPost { app: &app, new, once, room };
    let answer = match (streams, format) {
        (true, RunFormat::Events) => stream_events(&api, caller, request).await,
        (true, RunFormat::Delta) => stream_encoded(&api, caller, request, DeltaEncoder::default()).await,
        (false, RunFormat::Events | RunFormat::Delta) => await_result(&api, caller, request).await,
    };
    api.with_allowance(&principal, &app, answer).await
}

/// A message to an app, and the key under which it is meant once.
pub(super) struct RunPost<'a> {
    pub(super) app: &'a str,
    pub(super) new: NewRun,
    pub(super) once: Option<IdempotencyClaim>,
    /// Room for files that came along, given back once the message is stored.
    pub(super) room: Option<UploadRoom>,
}

/// Starts a run and follows it from its first event.
pub(super) async fn stream_events(
    api: &Api,
    caller: StreamCaller,
    request: RunPost<'_>,
) -> Result<Response, ApiProblem> {
    follow(api, caller, request, |_, followed| api.stream(followed)).await
}

/// Starts a run and follows it in the words of another contract.
pub(super) async fn stream_encoded(
    api: &Api,
    caller: StreamCaller,
    request: RunPost<'_>,
    encoder: impl Encoder,
) -> Result<Response, ApiProblem> {
    follow(api, caller, request, |principal, followed| api.encoded_response(principal, encoder, followed))
        .await
}

async fn follow(
    api: &Api,
    StreamCaller { principal, access }: StreamCaller,
    RunPost { app, new, once, room }: RunPost<'_>,
    stream: impl FnOnce(&Principal, FollowedEvents) -> Response,
) -> Result<Response, ApiProblem> {
    let principal = &principal;
    let permit = api.may_be_answered(principal)?;
    let (submitted, follower) = api.service.submit_and_follow(principal, app, new, once).await?;
    drop(room);
    let response = follower.map(|follower| stream(principal, FollowedEvents { follower, permit, access }));
    let mut response = response.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response());
    if let Some(start) = &submitted.start {
        response.headers_mut().extend(api.allowance_with(principal, app, &start.used));
    }
    Ok(with_ids(&submitted, response))
}

async fn await_result(
    api: &Api,
    StreamCaller { principal, access }: StreamCaller,
    RunPost { app, new, once, room }: RunPost<'_>,
) -> Result<Response, ApiProblem> {
    let principal = &principal;
    let _permit = api.may_be_answered(principal)?;
    let submitted = api.service.submit(principal, app, new, once).await?;
    drop(room);
    let response = tokio::select! {
        result = api.while_allowed(&access, async { Ok(api.service.result(principal, submitted.run).await?) }) => {
            Answer(result?).into_response()
        }
        () = api.shutdown.all.cancelled() => {
            let detail = format!("the server is stopping; the run continues after the restart, see \
                /v1/runs/{}", submitted.run);
            ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(RESTART_RETRY_AFTER).into_response()
        }
    };
    Ok(with_ids(&submitted, response))
}

fn with_ids(submitted: &AcceptedRun, response: Response) -> Response {
    let headers = [("x-run-id", submitted.run.to_string()), ("x-thread-id", submitted.thread.to_string())];
    (headers, response).into_response()
}

/// Returns a run and its status.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}",
    params(RunPath),
    responses((status = 200, description = "The run", body = RunView))
)]
pub(super) async fn get_run(caller: Caller, RunPath { run }: RunPath) -> JsonReply<RunView> {
    Ok(Answer(caller.service.run(&caller.principal, run).await?))
}

/// Streams the events of a run after the last seen event, until the run ends.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}/events",
    params(RunPath, AfterParams, LastEventId),
    responses(
        (status = 200, description = "The run's events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended and all events have been read; do not reconnect")
    )
)]
pub(super) async fn run_events(
    State(api): State<Api>,
    StreamCaller { principal, access }: StreamCaller,
    RunPath { run }: RunPath,
    LastEvent(after): LastEvent,
) -> Result<Response, ApiProblem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_run(&principal, run, after).await?;
    let response = follower.map(|follower| api.stream(FollowedEvents { follower, permit, access }));
    Ok(response.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response()))
}

/// A step of a run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StepParams {
    /// The number of the step, from 1; the last step when absent.
    step: Option<u32>,
}

/// Returns the prompt of a step of a run: all fragments with their tokens, and the items that were left out.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}/prompt",
    params(RunPath, StepParams),
    responses((status = 200, description = "The prompt as it was sent", body = PromptView))
)]
pub(super) async fn run_prompt(
    caller: Caller,
    RunPath { run }: RunPath,
    Params(StepParams { step }): Params<StepParams>,
) -> JsonReply<PromptView> {
    Ok(Answer(caller.service.prompt(&caller.principal, run, step).await?))
}

/// Cancels a run. The text so far is kept. A run that has ended does not change.
#[utoipa::path(
    post,
    path = "/v1/runs/{run}/cancel",
    params(RunPath),
    responses((status = 202, description = "The run, which is being cancelled", body = RunView))
)]
pub(super) async fn cancel_run(
    caller: Caller,
    RunPath { run }: RunPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Created<RunView> {
    Ok((StatusCode::ACCEPTED, Answer(caller.service.cancel(&caller.principal, run, once).await?)))
}
