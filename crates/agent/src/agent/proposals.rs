//! Decisions on proposals, the calls of those that outlive their run, and results from the client.
//!
//! The decision on a proposal of a run is an event of its log, and the run continues from there. A proposal that
//! outlives its run becomes an action of its own when it is confirmed.

use protocol::{ActionId, CallId, Decision, Effect, Principal, Scope};
use store::{ActionEnd, ActionRow, ClientCallRow, IdempotencyClaim, NewAction, ProposalRow};
use tokio_util::sync::CancellationToken;
use tools::{CallOutcome, Calling};

use super::Agent;
use crate::run::{ExecutedCall, Executor};
use crate::{Error, profile};

impl Agent {
    /// Decides a proposal for its user, once. A confirmed call is made by the run that waits for it; without a run, it is
    /// made here.
    pub async fn decide_proposal(
        &self,
        principal: &Principal,
        proposal: ProposalRow,
        decision: Decision,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProposalRow, Error> {
        let (agent, principal) = (self.clone(), principal.clone());
        self.world
            .tasks
            .finish(async move {
                if decision == Decision::Confirmed && proposal.run.is_none() {
                    return agent.confirm_without_run(&principal, proposal, once).await;
                }
                let row = agent.world.store.decide(&principal, proposal.id, decision, once).await?;
                if let (Some(_), Some(thread)) = (row.run, row.thread) {
                    agent.take_up(thread).await?;
                }
                Ok(row)
            })
            .await
    }

    /// Makes the call of a proposal that has outlived its run.
    async fn confirm_without_run(
        &self,
        principal: &Principal,
        row: ProposalRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProposalRow, Error> {
        let (id, effect) = (row.id, self.effect_of(&row.scope, &row.tool));
        let action = NewAction {
            id: self.world.ids.action(),
            tool: row.tool,
            effect,
            input: row.input,
            actor: principal.actor().map(str::to_owned),
        };
        let fresh = action.id;
        let begun = self.world.store.begin_action(&row.scope, id, action, once).await?;
        if begun.id == fresh {
            self.perform(begun).await?;
        }
        Ok(self.world.store.proposal(principal, id).await?)
    }

    /// Answers the client's call for its user, once. The run that waits for the result goes on.
    pub async fn answer_call(
        &self,
        principal: &Principal,
        call: CallId,
        outcome: CallOutcome,
        once: Option<IdempotencyClaim>,
    ) -> Result<ClientCallRow, Error> {
        let (agent, principal) = (self.clone(), principal.clone());
        let answer = ExecutedCall { outcome, duration_ms: 0 }.answer();
        self.world
            .tasks
            .finish(async move {
                let row = agent.world.store.answer_call(&principal, call, answer, once).await?;
                agent.take_up(row.thread).await?;
                Ok(row)
            })
            .await
    }

    /// Closes expired proposals and client calls as denied, and resumes their runs.
    pub(crate) async fn expire_waiting(&self) -> Result<(), store::Error> {
        // A read comes first: this runs at every look for jobs, and a write each time would cost too much.
        if self.world.store.next_expiry().await?.is_none_or(|due| due > self.world.now()) {
            return Ok(());
        }
        for thread in self.world.store.expire_waiting().await? {
            self.take_up(thread).await?;
        }
        Ok(())
    }

    /// Ends the actions without a run that an earlier process began before it died. An internal action runs again,
    /// because nothing of it was stored. An external one that cannot be repeated gets the result `unknown`.
    pub(crate) async fn finish_begun_actions(self) {
        let begun = loop {
            match self.world.store.begun_actions().await {
                Ok(begun) => break begun,
                Err(error) if error.is_away() && self.world.tasks.pause().await => {}
                Err(error) => {
                    tracing::error!(%error, "interrupted calls of confirmed proposals could not be read");
                    return;
                }
            }
        };
        for action in begun {
            if !self.action_waits_for_app(&action).await {
                self.finish_begun(action).await;
            }
        }
    }

    pub(crate) async fn finish_begun(&self, action: ActionRow) {
        let id = action.id;
        if let Err(error) = self.end_begun(action).await {
            tracing::error!(action = %id, %error, "an interrupted action got no result; the next start of the server tries again");
        }
    }

    async fn end_begun(&self, action: ActionRow) -> Result<(), Error> {
        if let Some(undone) = action.undo_of {
            return self.finish_undo(action, undone).await;
        }
        let tools = self.world.apps.get(&action.scope.app).map(|serving| serving.tools());
        let facts = tools.as_ref().and_then(|tools| Some(tools.get(&action.tool)?.facts()));
        if facts.is_some_and(|facts| facts.is_beyond_knowing()) {
            return self.end_unknown(action).await;
        }
        let unsure = facts.is_none_or(|facts| facts.changes_elsewhere());
        let (scope, id) = (action.scope.clone(), action.id);
        let executed = self.execute(action).await;
        self.end_call(&scope, id, if unsure { executed.of_second_try() } else { executed }).await
    }

    /// Commits the outcome of an action. An action cannot be done again just to be written down, so a full disk, or a
    /// database that is away, is waited for.
    pub(crate) async fn end_action(
        &self,
        scope: &Scope,
        id: ActionId,
        end: ActionEnd,
    ) -> Result<ActionRow, store::Error> {
        loop {
            match self.world.store.end_action(scope, id, end.clone()).await {
                Err(error) if error.lasts() && self.world.tasks.pause().await => {}
                Ok(row) => {
                    if let Some(thread) = row.thread {
                        self.world.sweeper.sweep_if_deleted(thread).await;
                    }
                    return Ok(row);
                }
                refused => return refused,
            }
        }
    }

    /// Ends an action with the result `unknown`.
    pub(crate) async fn end_unknown(&self, action: ActionRow) -> Result<(), Error> {
        let CallOutcome { status, output, writes, .. } = CallOutcome::unknown();
        let end = ActionEnd { status, output, duration_ms: 0, writes };
        self.end_action(&action.scope, action.id, end).await?;
        Ok(())
    }

    fn effect_of(&self, scope: &Scope, tool: &str) -> Effect {
        let tools = self.world.apps.get(&scope.app).map(|serving| serving.tools());
        tools.and_then(|tools| Some(tools.get(tool)?.facts().effect)).unwrap_or_default()
    }

    /// Makes the call of an action whose intent is committed, and commits its outcome.
    async fn perform(&self, action: ActionRow) -> Result<(), Error> {
        let (scope, id) = (action.scope.clone(), action.id);
        let executed = self.execute(action).await;
        self.end_call(&scope, id, executed).await
    }

    /// Commits the outcome of an action with what its call writes, or without if the store refuses that.
    async fn end_call(&self, scope: &Scope, id: ActionId, executed: ExecutedCall) -> Result<(), Error> {
        if let Err(error) = self.end_action(scope, id, executed.action_end()).await {
            let without = executed.without_writes(error)?;
            self.end_action(scope, id, without.action_end()).await?;
        }
        Ok(())
    }

    async fn execute(&self, action: ActionRow) -> ExecutedCall {
        let Some(serving) = self.world.apps.get(&action.scope.app) else {
            return ExecutedCall::without_app();
        };
        let stop = CancellationToken::new();
        let executor = Executor::new(&self.world, &action.scope, serving.app.limits.tool_timeout, &stop);
        let calling = Calling {
            thread: action.thread,
            zone: profile::zone_in_app(&self.world.store, &action.scope, &serving.app).await,
            ..executor.calling(CallId::new(action.id.uuid()), action.input)
        };
        executor.call_approved(&serving.tools(), &action.tool, calling).await
    }
}
