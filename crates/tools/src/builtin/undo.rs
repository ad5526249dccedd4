//! Undo: lists recent actions, and undoes one of them.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use protocol::{ActionId, Effect, ToolStatus};
use serde_json::{Value, json};
use store::{ActionFilter, ActionRow, ActionStatus, Write};

use super::{count, found_or_none, store_failure, text};
use crate::{Calling, Failed, Tool, ToolOutput};

const MAX_LISTED: usize = 50;
const DEFAULT_LISTED: usize = 20;
/// Characters of a call's arguments that a list shows.
const MAX_INPUT_CHARS: usize = 200;

pub(crate) struct ListRecentActions;
pub(crate) struct UndoAction;

#[async_trait]
impl Tool for ListRecentActions {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let limit = count(&calling.input, "limit").unwrap_or(DEFAULT_LISTED).min(MAX_LISTED);
        let filter =
            ActionFilter { tool: text(&calling.input, "tool").map(str::to_owned), ..ActionFilter::default() };
        // This call is an action too, and says nothing.
        let mut rows = store::newest_actions(calling.store, calling.scope, filter, limit + 1)
            .await
            .map_err(store_failure)?;
        let forgotten = calling.recall.forgotten_words(calling.scope).await.map_err(store_failure)?;
        for row in &mut rows {
            forgotten.clear_json(&mut row.input, row.started_at);
        }
        let own = ActionId::from(calling.id);
        let actions: Vec<Value> = rows.iter().filter(|row| row.id != own).take(limit).map(view).collect();
        Ok(json!({ "actions": actions }).into())
    }
}

fn view(row: &ActionRow) -> Value {
    let input = row.input.to_string();
    let shown: String = input.chars().take(MAX_INPUT_CHARS).collect();
    let more = if shown.len() < input.len() { "…" } else { "" };
    json!({
        "actionId": row.id,
        "tool": row.tool,
        "at": row.started_at,
        "status": row.status.name(),
        "undoable": obstacle(row).is_none(),
        "undone": row.undone_by.is_some(),
        "input": format!("{shown}{more}"),
    })
}

#[async_trait]
impl Tool for UndoAction {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        let action = find(calling).await?;
        match obstacle(&action) {
            None => Ok(()),
            Some(reason) => Err(Failed::new("cannot_undo", reason)),
        }
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let action = find(&calling).await?;
        let output = json!({ "actionId": action.id, "tool": action.tool, "undone": true });
        Ok(ToolOutput::with_write(output, Write::Undo { action: action.id }))
    }
}

/// Why an action cannot be undone, as far as it can be seen without trying.
fn obstacle(action: &ActionRow) -> Option<&'static str> {
    if action.undone_by.is_some() {
        Some("the action was undone already")
    } else if action.undo_of.is_some() {
        Some("the action is an undo, which cannot be undone; make the change again")
    } else if action.status == ActionStatus::Started {
        Some("the action is still running")
    } else if action.status != ActionStatus::Ended(ToolStatus::Complete) {
        Some("the action did not succeed, so it changed nothing")
    } else if action.changes.is_empty() && action.effect == Effect::Reversible {
        Some("the action changed an external system; only the user can undo it, in their list of actions")
    } else if action.changes.is_empty() {
        Some("the action changed nothing that can be undone")
    } else {
        None
    }
}

/// The action that a call names.
async fn find(calling: &Calling<'_>) -> Result<ActionRow, Failed> {
    let missing = || Failed::new("not_found", "there is no such action; listRecentActions shows the newest");
    let wanted: ActionId =
        text(&calling.input, "actionId").and_then(|id| id.parse().ok()).ok_or_else(missing)?;
    found_or_none(calling.store.action_of(calling.scope, wanted).await)?.ok_or_else(missing)
}
