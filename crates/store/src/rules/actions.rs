//! Actions: the row of a tool call as it begins and as it ends.

use jiff::Timestamp;
use protocol::{ActionId, Effect, Scope, ToolComplete, ToolStart, ToolStatus, canonical};
use serde_json::Value;

use crate::{ActionEnd, ActionRow, ActionStatus, AppliedChange, Error, NewAction, Write};

/// Changes that the writes of a call came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppliedWrites {
    pub changes: Vec<AppliedChange>,
    /// The action that was undone.
    pub undo_of: Option<ActionId>,
}

/// An action that has begun, and of which nothing else is known yet.
pub fn new_action(id: ActionId, scope: Scope, tool: String, started_at: Timestamp) -> ActionRow {
    ActionRow {
        id,
        scope,
        actor: None,
        thread: None,
        run: None,
        step: None,
        tool,
        effect: Effect::Read,
        status: ActionStatus::Started,
        input: Value::Null,
        output: Value::Null,
        changes: Vec::new(),
        started_at,
        duration_ms: None,
        undone_by: None,
        undo_of: None,
        undo_under_way: false,
        position: 0,
    }
}

/// An action that no run calls.
pub fn begun_action(scope: &Scope, new: NewAction, started_at: Timestamp) -> ActionRow {
    let NewAction { id, tool, effect, input, actor } = new;
    ActionRow { actor, effect, input, ..new_action(id, scope.clone(), tool, started_at) }
}

/// The action of a call that is about to be made, for the first time or again.
pub fn started_action(action: ActionRow, start: &ToolStart) -> ActionRow {
    ActionRow { effect: start.effect, input: start.input.clone(), ..action }
}

/// How a call of a run ended. Its output is in its event.
pub fn call_end(result: &ToolComplete, writes: &[Write]) -> ActionEnd {
    ActionEnd {
        status: result.status,
        output: Value::Null,
        duration_ms: result.duration_ms,
        writes: writes.to_vec(),
    }
}

/// The action as it ended, and the action that it has undone.
pub fn ended_action(
    action: ActionRow,
    end: ActionEnd,
    applied: AppliedWrites,
) -> Result<(ActionRow, Option<ActionId>), Error> {
    let undone = match (applied.undo_of, action.undo_of) {
        // An undo that acts outside the store has happened once its call is complete.
        (None, begun) => begun.filter(|_| end.status == ToolStatus::Complete),
        (Some(own), None) => Some(own),
        (Some(own), Some(begun)) if own == begun => Some(own),
        (Some(_), Some(_)) => return Err(second_undo()),
    };
    let ended = ActionRow {
        status: ActionStatus::Ended(end.status),
        output: end.output,
        duration_ms: Some(end.duration_ms),
        changes: applied.changes,
        undo_of: action.undo_of.or(undone),
        ..action
    };
    Ok((ended, undone))
}

/// Why a call that undoes one action does not undo another.
pub fn second_undo() -> Error {
    Error::Changed("a call undoes one action at most".into())
}

/// The output that is stored with an action; none while it is under way.
pub fn stored_output(action: &ActionRow) -> Option<String> {
    (action.status != ActionStatus::Started).then(|| canonical(&action.output))
}

/// The changes that are stored with an action; none where nothing can be put back.
pub fn stored_changes(action: &ActionRow) -> Result<Option<String>, Error> {
    let changes = (!action.changes.is_empty()).then(|| serde_json::to_string(&action.changes));
    changes.transpose().map_err(|_| Error::Aborted)
}

/// The output in the body of a `tool:complete`; null where it cannot be read.
pub fn output_in(body: &str) -> Value {
    serde_json::from_str::<ToolComplete>(body).map(|result| result.output).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, UserId};
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> ActionId {
        ActionId::new(Uuid::from_u128(number))
    }

    fn begun(undo_of: Option<ActionId>) -> ActionRow {
        let scope = Scope { app: AppId::new("app"), user: UserId::new("alice") };
        ActionRow { undo_of, ..new_action(id(1), scope, "t".into(), Timestamp::UNIX_EPOCH) }
    }

    fn end(status: ToolStatus) -> ActionEnd {
        ActionEnd { status, output: Value::Null, duration_ms: 5, writes: Vec::new() }
    }

    #[test]
    fn an_undo_outside_the_store_counts_once_its_call_is_complete() {
        let undone = |status| {
            let ended = ended_action(begun(Some(id(2))), end(status), AppliedWrites::default()).unwrap();
            assert_eq!((ended.0.status, ended.0.undo_of), (ActionStatus::Ended(status), Some(id(2))));
            ended.1
        };
        assert_eq!(undone(ToolStatus::Complete), Some(id(2)));
        assert_eq!([undone(ToolStatus::Failed), undone(ToolStatus::Unknown)], [None, None]);
    }

    #[test]
    fn a_call_undoes_one_action() {
        let applied = || AppliedWrites { undo_of: Some(id(3)), ..AppliedWrites::default() };
        let ended = ended_action(begun(None), end(ToolStatus::Complete), applied()).unwrap();
        assert_eq!((ended.0.undo_of, ended.1), (Some(id(3)), Some(id(3))));
        assert!(ended_action(begun(Some(id(2))), end(ToolStatus::Complete), applied()).is_err());
    }

    #[test]
    fn nothing_is_stored_as_output_while_a_call_is_under_way() {
        assert_eq!(stored_output(&begun(None)), None);
        assert_eq!(stored_changes(&begun(None)).unwrap(), None);
        let ended = ActionRow { status: ActionStatus::Ended(ToolStatus::Failed), ..begun(None) };
        assert_eq!(stored_output(&ended).unwrap(), "null");
    }
}
