//! What tools did: list it, read it, take it back.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{ActionId, ActionView, Page, Principal, RunId, UndoReport};

use crate::Api;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{ActionParams, InPath, PageParams, Paging, WhichActions};

/// What tools did for the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/actions",
    tag = "actions",
    operation_id = "list_actions",
    params(("app" = String, Path, description = "The app's name"), ActionParams, PageParams),
    responses((status = 200, description = "A page of actions", body = Page<ActionView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    WhichActions(query): WhichActions,
    Paging(page): Paging,
) -> Result<Answer<Page<ActionView>>, Problem> {
    Ok(Answer(api.service.actions(&principal, &app, query, page).await?))
}

/// One action.
#[utoipa::path(
    get,
    path = "/v1/actions/{action}",
    tag = "actions",
    operation_id = "get_action",
    params(("action" = ActionId, Path)),
    responses((status = 200, description = "The action", body = ActionView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(action): InPath<ActionId>,
) -> Result<Answer<ActionView>, Problem> {
    Ok(Answer(api.service.action(&principal, action).await?))
}

/// Takes back what an action changed, once, if nothing has changed it since.
#[utoipa::path(
    post,
    path = "/v1/actions/{action}/undo",
    tag = "actions",
    operation_id = "undo_action",
    params(("action" = ActionId, Path)),
    responses((status = 200, description = "The action that took it back", body = ActionView))
)]
pub(super) async fn undo(
    State(api): State<Api>,
    principal: Principal,
    InPath(action): InPath<ActionId>,
    Key(once): Key,
) -> Result<Answer<ActionView>, Problem> {
    Ok(Answer(api.service.undo_action(&principal, action, once).await?))
}

/// Takes back what the actions of a run changed, newest first. The run must have ended.
#[utoipa::path(
    post,
    path = "/v1/runs/{run}/undo",
    tag = "actions",
    operation_id = "undo_run",
    params(("run" = RunId, Path)),
    responses((status = 200, description = "What was taken back, and what could not be", body = UndoReport))
)]
pub(super) async fn undo_run(
    State(api): State<Api>,
    principal: Principal,
    InPath(run): InPath<RunId>,
    Key(_): Key, // what is undone is not undone again, and is reported again
) -> Result<Answer<UndoReport>, Problem> {
    Ok(Answer(api.service.undo_run(&principal, run).await?))
}
