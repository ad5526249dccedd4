//! Actions of tools: list them, read one, undo one or all of a run, and see before what that would do.

use axum::Json as Answer;
use protocol::{ActionView, Page, RunUndoPreview, UndoPreview, UndoReport};

use crate::auth::Caller;
use crate::idempotency::IdempotencyKey;
use crate::path::{ActionPath, AppPath, RunPath};
use crate::query::{ActionParams, PageParams, Params};
use crate::routes::JsonReply;

/// Lists the actions of tools for the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/actions",
    params(AppPath, ActionParams, PageParams),
    responses((status = 200, description = "A page of actions", body = Page<ActionView>))
)]
pub(super) async fn list_actions(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(query): Params<ActionParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ActionView>> {
    Ok(Answer(caller.service.actions(&caller.principal, &app, query.into(), page.into()).await?))
}

/// Returns an action.
#[utoipa::path(
    get,
    path = "/v1/actions/{action}",
    params(ActionPath),
    responses((status = 200, description = "The action", body = ActionView))
)]
pub(super) async fn get_action(caller: Caller, ActionPath { action }: ActionPath) -> JsonReply<ActionView> {
    Ok(Answer(caller.service.action(&caller.principal, action).await?))
}

/// Undoes an action, once, if nothing has changed its data since then.
#[utoipa::path(
    post,
    path = "/v1/actions/{action}/undo",
    params(ActionPath),
    responses((status = 200, description = "The action that undid the action", body = ActionView))
)]
pub(super) async fn undo_action(
    caller: Caller,
    ActionPath { action }: ActionPath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<ActionView> {
    Ok(Answer(caller.service.undo_action(&caller.principal, action, once).await?))
}

/// Returns a preview of the undo of an action. Nothing is changed.
#[utoipa::path(
    get,
    path = "/v1/actions/{action}/undo",
    params(ActionPath),
    responses((status = 200, description = "The preview, with the changes", body = UndoPreview))
)]
pub(super) async fn preview_undo(
    caller: Caller,
    ActionPath { action }: ActionPath,
) -> JsonReply<UndoPreview> {
    Ok(Answer(caller.service.preview_undo(&caller.principal, action).await?))
}

/// Returns a preview of the undo of the actions of a run. Nothing is changed.
#[utoipa::path(
    get,
    path = "/v1/runs/{run}/undo",
    params(RunPath),
    responses((status = 200, description = "The actions, newest first", body = RunUndoPreview))
)]
pub(super) async fn preview_run_undo(caller: Caller, RunPath { run }: RunPath) -> JsonReply<RunUndoPreview> {
    Ok(Answer(caller.service.preview_run_undo(&caller.principal, run).await?))
}

/// Undoes the actions of a run, newest first. The run must have ended.
#[utoipa::path(
    post,
    path = "/v1/runs/{run}/undo",
    params(RunPath),
    responses((status = 200, description = "The undone actions, and those that could not be undone", body = UndoReport))
)]
pub(super) async fn undo_run(
    caller: Caller,
    RunPath { run }: RunPath,
    IdempotencyKey(_): IdempotencyKey, // what is undone is not undone again, and is reported again
) -> JsonReply<UndoReport> {
    Ok(Answer(caller.service.undo_run(&caller.principal, run).await?))
}
