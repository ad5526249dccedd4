//! Undo of actions. An action that acted outside is undone by another call of its tool, between an intent and an outcome
//! of its own.

use std::time::Duration;

use protocol::{CallId, Effect, Principal, ToolStatus};
use serde_json::Value;
use store::{ActionEnd, ActionRow, ActionStatus, IdempotencyClaim, NewAction};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::Calling;

use super::Agent;
use crate::Error;
use crate::apps::ServedApps;
use crate::run::{ExecutedCall, Executor};
use crate::world::World;

/// The code of an undo that may not be or did not succeed.
pub const CANNOT_UNDO: &str = "cannot_undo";

/// How the reason begins for which an undo outside did not succeed.
const UNDO_FAILED: &str = "the undo failed: ";

/// Whether an action changed an external system, and whether its tool can undo the change there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideEffect {
    /// The action changed nothing in an external system.
    Nothing,
    /// The tool of the action undoes it by another call.
    Undo,
    /// The tool of the action has no undo, so the change stays.
    Stays,
}

impl OutsideEffect {
    /// The effect outside of an action of one of these apps.
    pub fn of(apps: &ServedApps, action: &ActionRow) -> Self {
        let tools = apps.get(&action.scope.app).map(|serving| serving.tools());
        if outside_undo(apps, action).is_some() {
            Self::Undo
        } else if tools
            .is_some_and(|tools| tools.get(&action.tool).is_some_and(|tool| tool.facts().changes_elsewhere()))
        {
            Self::Stays
        } else {
            Self::Nothing
        }
    }
}

/// How long a repeated request waits for an undo that is running, and the pause between two looks at it.
const UNDO_PATIENCE: Duration = Duration::from_secs(10);
const UNDO_LOOK: Duration = Duration::from_millis(20);

/// The effect of the call that undoes an action in an external system. None if the action has no such call.
fn outside_undo(apps: &ServedApps, action: &ActionRow) -> Option<Effect> {
    let done =
        action.status == ActionStatus::Ended(ToolStatus::Complete) && action.effect == Effect::Reversible;
    let tools = apps.get(&action.scope.app).map(|serving| serving.tools());
    tools.filter(|_| done && action.changes.is_empty())?.get(&action.tool)?.undo_effect()
}

/// The request that an undo of an action outside would make, without secrets; or why it would fail.
pub async fn describe_undo(world: &World, action: &ActionRow) -> Result<Value, String> {
    let failed = |message: &str| format!("{UNDO_FAILED}{message}");
    let Some(serving) = world.apps.get(&action.scope.app) else {
        return Err(failed("the app of this call no longer exists"));
    };
    let tools = serving.tools();
    let tool = tools.find(&action.tool).map_err(|missing| failed(&missing.message))?;
    let stop = CancellationToken::new();
    let executor = Executor::new(world, &action.scope, serving.app.limits.tool_timeout, &stop);
    let id = CallId::new(action.id.uuid());
    let calling = Calling { thread: action.thread, ..executor.calling(id, action.input.clone()) };
    tool.describe_undo(calling, &action.output).await.map_err(|reason| failed(&reason.message))
}

impl Agent {
    /// Undoes an action, here or outside, once. Gives the action that did so. An undo that may not be, or that did not
    /// succeed, is a conflict with the code [`CANNOT_UNDO`].
    pub async fn undo(
        &self,
        principal: &Principal,
        undone: ActionRow,
        by: NewAction,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionRow, Error> {
        if outside_undo(&self.world.apps, &undone).is_none() {
            return self.world.store.undo(principal, undone.id, by, once).await.map_err(undo_error);
        }
        let by = self.undo_outside_once(principal, undone, by, once).await?;
        match outside_refusal(&by) {
            Some(message) => Err(Error::Conflict { code: CANNOT_UNDO, message }),
            None => Ok(by),
        }
    }

    /// Undoes an action in an external system, once. Returns the action of the undo, also if the undo failed.
    async fn undo_outside_once(
        &self,
        principal: &Principal,
        undone: ActionRow,
        by: NewAction,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionRow, Error> {
        let (agent, principal, fresh) = (self.clone(), principal.clone(), by.id);
        self.world
            .tasks
            .finish(async move {
                let begun = agent.world.store.begin_undo(&principal, undone.id, by, once).await;
                let begun = begun.map_err(undo_error)?;
                if begun.id == fresh {
                    return agent.undo_outside(begun, undone).await;
                }
                agent.wait_for_undo(begun).await
            })
            .await
    }

    /// Waits for the end of an undo that an earlier request began. That request still runs, or this process repeats the
    /// undo of an earlier process.
    async fn wait_for_undo(&self, mut by: ActionRow) -> Result<ActionRow, Error> {
        let until = Instant::now() + UNDO_PATIENCE;
        let mut look = tokio::time::interval(UNDO_LOOK);
        while by.status == ActionStatus::Started {
            if Instant::now() >= until {
                let message = "the undo is still running; send the request again".to_owned();
                return Err(Error::Unavailable { message, retry_after: 1 });
            }
            look.tick().await;
            by = self.world.store.action_of(&by.scope, by.id).await?;
        }
        Ok(by)
    }

    /// Ends an undo that an earlier process began before it died. The undo runs again if a repetition does no harm;
    /// else its result is `unknown`.
    pub(crate) async fn finish_undo(&self, by: ActionRow, undone: protocol::ActionId) -> Result<(), Error> {
        let undone = loop {
            match self.world.store.action_of(&by.scope, undone).await {
                Err(error) if error.is_away() && self.world.tasks.pause().await => {}
                found => break found?,
            }
        };
        match outside_undo(&self.world.apps, &undone) {
            Some(Effect::Read | Effect::Idempotent) => {
                let executed = self.execute_undo(&by, &undone).await.of_second_try();
                self.end_undo(&by, &executed).await.map(drop)
            }
            Some(Effect::Reversible | Effect::Irreversible) | None => self.end_unknown(by).await,
        }
    }

    async fn undo_outside(&self, by: ActionRow, undone: ActionRow) -> Result<ActionRow, Error> {
        let executed = self.execute_undo(&by, &undone).await;
        self.end_undo(&by, &executed).await
    }

    async fn end_undo(&self, by: &ActionRow, executed: &ExecutedCall) -> Result<ActionRow, Error> {
        let end = ActionEnd { writes: Vec::new(), ..executed.action_end() };
        Ok(self.end_action(&by.scope, by.id, end).await?)
    }

    async fn execute_undo(&self, by: &ActionRow, undone: &ActionRow) -> ExecutedCall {
        let Some(serving) = self.world.apps.get(&by.scope.app) else { return ExecutedCall::without_app() };
        let stop = CancellationToken::new();
        let executor = Executor::new(&self.world, &by.scope, serving.app.limits.tool_timeout, &stop);
        let id = CallId::new(by.id.uuid());
        let calling = Calling { thread: undone.thread, ..executor.calling(id, undone.input.clone()) };
        executor.undo(&serving.tools(), &undone.tool, calling, &undone.output).await
    }
}

/// Data that was changed since cannot be undone.
fn undo_error(error: store::Error) -> Error {
    if let store::Error::Changed(message) = error {
        return Error::Conflict { code: CANNOT_UNDO, message };
    }
    error.into()
}

/// The reason for which an undo in an external system did not succeed. None if it succeeded.
fn outside_refusal(by: &ActionRow) -> Option<String> {
    let said = || by.output.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
    if by.status == ActionStatus::Ended(ToolStatus::Complete) {
        None
    } else if by.status == ActionStatus::Ended(ToolStatus::Unknown) {
        Some(
            "it is not known whether the undo took effect; check the external system, and revert the change \
            there by hand"
                .into(),
        )
    } else {
        Some(format!("{UNDO_FAILED}{}", said()))
    }
}
