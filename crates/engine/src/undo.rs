//! Taking back what acted outside: its tool makes another call, between an intent and an outcome of its own.

use protocol::{CallId, Effect, Principal, ToolStatus};
use store::{ActionEnd, ActionRow, ActionStatus, NewAction, Once};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Calling, Outcome};

use crate::{Engine, Error};

/// What an action did outside, as far as it can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// It did nothing there.
    Nothing,
    /// Its tool takes it back by another call.
    Undo,
    /// Nobody here can take it back.
    Stays,
}

impl Engine {
    pub(crate) fn elsewhere(&self, action: &ActionRow) -> Elsewhere {
        let tools = self.shared.apps.get(&action.scope.app).map(|serving| serving.tools());
        if self.outside_undo(action).is_some() {
            Elsewhere::Undo
        } else if tools.is_some_and(|tools| tools.changes_elsewhere(&action.tool)) {
            Elsewhere::Stays
        } else {
            Elsewhere::Nothing
        }
    }

    /// Whether an action is taken back by a call of its tool: what the call does, if so.
    pub(crate) fn outside_undo(&self, action: &ActionRow) -> Option<Effect> {
        let done =
            action.status == ActionStatus::Ended(ToolStatus::Complete) && action.effect == Effect::Reversible;
        let tools = self.shared.apps.get(&action.scope.app).map(|serving| serving.tools());
        tools.filter(|_| done && action.changes.is_empty())?.undo_effect(&action.tool)
    }

    /// Takes an action back outside, once. Gives the action that did so or was to, or why none may.
    pub(crate) async fn undo_outside(
        &self,
        principal: &Principal,
        undone: ActionRow,
        by: NewAction,
        once: Option<Once>,
    ) -> Result<Result<ActionRow, String>, Error> {
        let (engine, principal, fresh) = (self.clone(), principal.clone(), by.id);
        self.to_the_end(async move {
            match engine.store().begin_undo(&principal, undone.id, by, once).await {
                Ok(begun) if begun.id == fresh => Ok(Ok(engine.take_back(begun, undone).await?)),
                Ok(begun) => Ok(Ok(begun)),
                Err(store::Error::Changed(reason)) => Ok(Err(reason)),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Ends an undo that a process which died had begun: made again where that does no harm.
    pub(crate) async fn finish_undo(&self, by: ActionRow, undone: protocol::ActionId) -> Result<(), Error> {
        let undone = self.store().action_of(&by.scope, undone).await?;
        match self.outside_undo(&undone) {
            Some(Effect::Read | Effect::Idempotent) => self.take_back(by, undone).await.map(drop),
            Some(Effect::Reversible | Effect::Irreversible) | None => self.end_unknown(by).await,
        }
    }

    async fn take_back(&self, by: ActionRow, undone: ActionRow) -> Result<ActionRow, Error> {
        let began = Instant::now();
        let Outcome { status, output, .. } = self.outcome_of_undo(&by, &undone).await;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let end = ActionEnd { status, output, duration_ms, writes: Vec::new() };
        Ok(self.end_action(&by.scope, by.id, end).await?)
    }

    async fn outcome_of_undo(&self, by: &ActionRow, undone: &ActionRow) -> Outcome {
        let Some(serving) = self.shared.apps.get(&by.scope.app) else {
            return tools::Failed::new("app_gone", "the app of this call is no longer there").into();
        };
        let (stop, vault) = (CancellationToken::new(), self.vault());
        let id = CallId::new(by.id.uuid());
        let calling = Calling {
            thread: undone.thread,
            ..self.calling((id, &by.scope), undone.input.clone(), (&vault, &stop))
        };
        let timeout = serving.app.limits.tool_timeout;
        serving.tools().undo(&undone.tool, calling, &undone.output, timeout).await
    }
}
