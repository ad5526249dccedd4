//! Runs: start one, read it, follow it, cancel it.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use protocol::{NewRun, Principal, PromptView, RunId, RunResult, RunView};
use serde::Deserialize;
use service::{AcceptedRun, Follower, Once};
use utoipa::IntoParams;

use crate::Api;
use crate::body::Json;
use crate::doors::{Deltas, Encoder};
use crate::error::{Code, Problem};
use crate::once::Key;
use crate::query::{After, AfterParams, InPath, params};
use crate::streams::Permit;

/// Seconds after which a server that is stopping is likely to be back.
const RESTART_RETRY_AFTER: u32 = 2;

/// How an answer is streamed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FormatParams {
    /// `events` (when absent), or `delta` for `{delta, done?, tokenUsage?}`.
    format: Option<String>,
}

/// [`FormatParams`], read.
pub(super) enum Format {
    Events,
    Delta,
}

impl FromRequestParts<Api> for Format {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        match params::<FormatParams>(parts)?.format.as_deref() {
            None | Some("events") => Ok(Self::Events),
            Some("delta") => Ok(Self::Delta),
            Some(_) => Err(Problem::invalid("format", "must be events or delta")),
        }
    }
}

/// Starts a run and streams its events, or with `stream: false` answers once it has ended. A client that goes away
/// does not stop it.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/runs",
    tag = "runs",
    operation_id = "create_run",
    params(("app" = String, Path, description = "The app's name"), FormatParams),
    request_body = NewRun,
    responses((
        status = 200,
        description = "The run's events, or its result",
        content((String = "text/event-stream"), (RunResult = "application/json")),
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    format: Format,
    Json(new, once): Json<NewRun>,
) -> Response {
    let answer = match (new.stream, format) {
        (None | Some(true), Format::Events) => streamed(&api, &principal, &app, (new, once)).await,
        (None | Some(true), Format::Delta) => {
            encoded(&api, &principal, (&app, Deltas::default()), (new, once)).await
        }
        (Some(false), Format::Events | Format::Delta) => answered(&api, &principal, &app, (new, once)).await,
    };
    api.with_allowance(&principal, &app, answer).await
}

/// Starts a run and follows it from its first event.
pub(super) async fn streamed(
    api: &Api,
    principal: &Principal,
    app: &str,
    asked: (NewRun, Option<Once>),
) -> Result<Response, Problem> {
    follow(api, principal, (app, asked), |follower, permit| api.stream(follower, permit)).await
}

/// The same in the words of another contract.
pub(super) async fn encoded(
    api: &Api,
    principal: &Principal,
    (app, encoder): (&str, impl Encoder),
    asked: (NewRun, Option<Once>),
) -> Result<Response, Problem> {
    let stream = |follower, permit| api.encoded(principal, (follower, permit), encoder);
    follow(api, principal, (app, asked), stream).await
}

async fn follow(
    api: &Api,
    principal: &Principal,
    (app, (new, once)): (&str, (NewRun, Option<Once>)),
    stream: impl FnOnce(Follower, Permit) -> Response,
) -> Result<Response, Problem> {
    let permit = api.may_be_answered(principal)?;
    let submitted = api.service.submit(principal, app, new, once).await?;
    let follower = api.service.follow_run(principal, submitted.run, None).await?;
    let response = follower.map(|follower| stream(follower, permit));
    Ok(named(&submitted, response.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())))
}

async fn answered(
    api: &Api,
    principal: &Principal,
    app: &str,
    (new, once): (NewRun, Option<Once>),
) -> Result<Response, Problem> {
    let _permit = api.may_be_answered(principal)?;
    let submitted = api.service.submit(principal, app, new, once).await?;
    let response = tokio::select! {
        result = api.service.result(principal, submitted.run) => Answer(result?).into_response(),
        () = api.shutdown.all.cancelled() => {
            let detail = format!("the server is stopping; the run goes on, see /v1/runs/{}", submitted.run);
            Problem::new(Code::Unavailable, detail).retry_after(RESTART_RETRY_AFTER).into_response()
        }
    };
    Ok(named(&submitted, response))
}

fn named(submitted: &AcceptedRun, response: Response) -> Response {
    let headers = [("x-run-id", submitted.run.to_string()), ("x-thread-id", submitted.thread.to_string())];
    (headers, response).into_response()
}

/// A run and where it stands.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}",
    tag = "runs",
    operation_id = "get_run",
    params(("run" = RunId, Path)),
    responses((status = 200, description = "The run", body = RunView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(run): InPath<RunId>,
) -> Result<Answer<RunView>, Problem> {
    Ok(Answer(api.service.run(&principal, run).await?))
}

/// A run's events after the last one seen, then the ones to come, to the end of the run.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}/events",
    tag = "runs",
    operation_id = "run_events",
    params(
        ("run" = RunId, Path),
        AfterParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event seen")
    ),
    responses(
        (status = 200, description = "The run's events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended and all of it has been read: do not connect again")
    )
)]
pub(super) async fn events(
    State(api): State<Api>,
    principal: Principal,
    InPath(run): InPath<RunId>,
    After(after): After,
) -> Result<Response, Problem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_run(&principal, run, after).await?;
    let response = follower.map(|follower| api.stream(follower, permit));
    Ok(response.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response()))
}

/// Which step of a run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StepParams {
    /// From 1; the last one when absent.
    step: Option<u32>,
}

/// [`StepParams`].
pub(super) struct Step(Option<u32>);

impl FromRequestParts<Api> for Step {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        params::<StepParams>(parts).map(|params| Self(params.step))
    }
}

/// What the model saw in a step of a run, fragment by fragment, with what each took and what was left out.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}/prompt",
    tag = "runs",
    operation_id = "run_prompt",
    params(("run" = RunId, Path), StepParams),
    responses((status = 200, description = "The prompt as it was sent", body = PromptView))
)]
pub(super) async fn prompt(
    State(api): State<Api>,
    principal: Principal,
    InPath(run): InPath<RunId>,
    Step(step): Step,
) -> Result<Answer<PromptView>, Problem> {
    Ok(Answer(api.service.prompt(&principal, run, step).await?))
}

/// Asks a run to stop. What it said so far is kept; a run that has ended stays as it is.
#[utoipa::path(
    post,
    path = "/v1/runs/{run}/cancel",
    tag = "runs",
    operation_id = "cancel_run",
    params(("run" = RunId, Path)),
    responses((status = 202, description = "The run, asked to stop", body = RunView))
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    principal: Principal,
    InPath(run): InPath<RunId>,
    Key(once): Key,
) -> Result<(StatusCode, Answer<RunView>), Problem> {
    Ok((StatusCode::ACCEPTED, Answer(api.service.cancel(&principal, run, once).await?)))
}
