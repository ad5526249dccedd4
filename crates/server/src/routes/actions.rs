//! What tools did: list it, read it, take it back.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{ActionView, Page, Principal, UndoReport};

use crate::Api;
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{ActionPath, AppPath, RunPath};
use crate::query::{ActionParams, PageParams, Params};

/// What tools did for the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/actions",
    params(AppPath, ActionParams, PageParams),
    responses((status = 200, description = "A page of actions", body = Page<ActionView>))
)]
pub(super) async fn list_actions(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(query): Params<ActionParams>,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<ActionView>>, Problem> {
    Ok(Answer(api.engine.actions(&principal, &app, query.into(), page.into()).await?))
}

/// One action.
#[utoipa::path(
    get,
    path = "/v1/actions/{action}",
    params(ActionPath),
    responses((status = 200, description = "The action", body = ActionView))
)]
pub(super) async fn get_action(
    State(api): State<Api>,
    principal: Principal,
    ActionPath { action }: ActionPath,
) -> Result<Answer<ActionView>, Problem> {
    Ok(Answer(api.engine.action(&principal, action).await?))
}

/// Takes back what an action changed, once, if nothing has changed it since.
#[utoipa::path(
    post,
    path = "/v1/actions/{action}/undo",
    params(ActionPath),
    responses((status = 200, description = "The action that took it back", body = ActionView))
)]
pub(super) async fn undo_action(
    State(api): State<Api>,
    principal: Principal,
    ActionPath { action }: ActionPath,
    Key(once): Key,
) -> Result<Answer<ActionView>, Problem> {
    Ok(Answer(api.engine.undo_action(&principal, action, once).await?))
}

/// Takes back what the actions of a run changed, newest first. The run must have ended.
#[utoipa::path(
    post,
    path = "/v1/runs/{run}/undo",
    params(RunPath),
    responses((status = 200, description = "What was taken back, and what could not be", body = UndoReport))
)]
pub(super) async fn undo_run(
    State(api): State<Api>,
    principal: Principal,
    RunPath { run }: RunPath,
    Key(_): Key, // what is undone is not undone again, and is reported again
) -> Result<Answer<UndoReport>, Problem> {
    Ok(Answer(api.engine.undo_run(&principal, run).await?))
}
