//! The user's word on proposals: yes, no, or nothing in time.
//!
//! A proposal of a run is decided in its log, and the run goes on from there. One that outlives its run becomes an action
//! of its own when it is confirmed.

use std::sync::Arc;

use jiff::tz::TimeZone;
use protocol::{CallId, Decision, Effect, Page, Principal, ProposalId, ProposalView, Scope, ToolStatus};
use serde_json::{Value, json};
use store::{ActionEnd, ActionRow, NewAction, Once, PageOf, ProposalRow};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Calling, Outcome, Taint, Vault};

use crate::request::{self, PageQuery};
use crate::{Engine, Error, profile, views};

impl Engine {
    /// Newest first; only the open ones if so asked.
    pub async fn proposals(
        &self,
        principal: &Principal,
        app: &str,
        open: bool,
        page: PageQuery,
    ) -> Result<Page<ProposalView>, Error> {
        let scope = principal.scope(self.serving(principal, app)?.app.id.clone());
        let (after, limit) = (page.by_time()?, page.limit()?);
        let page = self.store().proposals(&scope, open, PageOf { after, limit }).await?;
        Ok(request::page(page, |row| request::time_cursor(row.created_at, row.id), views::proposal))
    }

    pub async fn proposal(&self, principal: &Principal, id: ProposalId) -> Result<ProposalView, Error> {
        Ok(views::proposal(self.proposal_row(principal, id).await?))
    }

    /// The user says yes: the call is made, once.
    pub async fn confirm_proposal(
        &self,
        principal: &Principal,
        id: ProposalId,
        once: Option<Once>,
    ) -> Result<ProposalView, Error> {
        let row = self.proposal_row(principal, id).await?;
        if row.run.is_some() {
            return self.decide(principal, id, Decision::Confirmed, once).await;
        }
        if row.decision.is_none() {
            self.serving(principal, row.scope.app.as_str())?; // a yes is not spent on an app that is missing
        }
        let (engine, owner) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            let effect = engine.effect_of(&row.scope, &row.tool);
            let action =
                NewAction { id: engine.shared.ids.action(), tool: row.tool, effect, input: row.input };
            let fresh = action.id;
            let begun = engine.store().begin_action(&row.scope, id, action, once).await?;
            if begun.id == fresh {
                engine.perform(begun).await?;
            }
            engine.proposal(&owner, id).await
        })
        .await
    }

    /// The user says no.
    pub async fn reject_proposal(
        &self,
        principal: &Principal,
        id: ProposalId,
        once: Option<Once>,
    ) -> Result<ProposalView, Error> {
        self.proposal_row(principal, id).await?;
        self.decide(principal, id, Decision::Rejected, once).await
    }

    async fn decide(
        &self,
        principal: &Principal,
        id: ProposalId,
        decision: Decision,
        once: Option<Once>,
    ) -> Result<ProposalView, Error> {
        let (engine, principal) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            let row = engine.store().decide(&principal, id, decision, once).await?;
            if let (Some(_), Some(thread)) = (row.run, row.thread) {
                engine.take_up(thread).await?;
            }
            Ok(views::proposal(row))
        })
        .await
    }

    async fn proposal_row(&self, principal: &Principal, id: ProposalId) -> Result<ProposalRow, Error> {
        let row = self.store().proposal(principal, id).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "proposal" }) }
    }

    /// Denies what nobody has said yes to in time, and lets the runs that waited go on.
    pub(crate) async fn expire_proposals(&self) -> Result<(), store::Error> {
        // A look first: this runs whenever a run ends, and writing would cost every one of them.
        if self.store().next_expiry().await?.is_none_or(|due| due > self.now()) {
            return Ok(());
        }
        for thread in self.store().expire_proposals().await? {
            self.take_up(thread).await?;
        }
        Ok(())
    }

    /// Ends the actions without a run that a process which died had begun: ours are done now, since nothing of them was
    /// written, and those that act elsewhere are unknown.
    pub(crate) async fn finish_begun_actions(self) {
        let begun = self.store().begun_actions().await.unwrap_or_else(|error| {
            tracing::error!(%error, "confirmed proposals that were cut short could not be read");
            Vec::new()
        });
        for action in begun {
            if !self.action_waits_for_app(&action).await {
                self.finish_begun(action).await;
            }
        }
    }

    pub(crate) async fn finish_begun(&self, action: ActionRow) {
        let id = action.id;
        if let Err(error) = self.end_begun(action).await {
            tracing::error!(action = %id, %error, "an action was not ended; the next start tries again");
        }
    }

    async fn end_begun(&self, action: ActionRow) -> Result<(), Error> {
        if let Some(undone) = action.undo_of {
            return self.finish_undo(action, undone).await;
        }
        let tools = self.shared.apps.get(&action.scope.app).map(|serving| serving.tools());
        if !tools.is_some_and(|tools| tools.is_beyond_knowing(&action.tool)) {
            return self.perform(action).await;
        }
        self.end_unknown(action).await
    }

    /// Commits the outcome of an action. What was done cannot be done again just to be written down, so a full disk is
    /// waited for.
    pub(crate) async fn end_action(
        &self,
        scope: &Scope,
        id: protocol::ActionId,
        end: ActionEnd,
    ) -> Result<ActionRow, store::Error> {
        loop {
            match self.store().end_action(scope, id, end.clone()).await {
                Err(store::Error::Full) if self.pause().await => {}
                Ok(row) => {
                    if let Some(thread) = row.thread {
                        self.sweep_if_deleted(thread).await;
                    }
                    return Ok(row);
                }
                refused => return refused,
            }
        }
    }

    /// Ends an action of which nobody knows what became.
    pub(crate) async fn end_unknown(&self, action: ActionRow) -> Result<(), Error> {
        let Outcome { status, output, writes, .. } = Outcome::unknown();
        let end = ActionEnd { status, output, duration_ms: 0, writes };
        self.end_action(&action.scope, action.id, end).await?;
        Ok(())
    }

    fn effect_of(&self, scope: &Scope, tool: &str) -> Effect {
        let tools = self.shared.apps.get(&scope.app).map(|serving| serving.tools());
        tools.and_then(|tools| tools.effect(tool)).unwrap_or_default()
    }

    /// Makes the call of an action whose intent is committed, and commits its outcome.
    async fn perform(&self, action: ActionRow) -> Result<(), Error> {
        let began = Instant::now();
        let (scope, id) = (action.scope.clone(), action.id);
        let Outcome { status, output, writes, .. } = self.outcome_of(action).await;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let end = ActionEnd { status, output, duration_ms, writes };
        match self.end_action(&scope, id, end).await {
            Err(store::Error::Changed(reason)) => {
                let output = json!({ "error": "conflict", "message": reason });
                let end = ActionEnd { status: ToolStatus::Failed, output, duration_ms, writes: Vec::new() };
                self.end_action(&scope, id, end).await?;
            }
            Err(store::Error::Known(memory)) => {
                let output = tools::known_already(memory);
                let end = ActionEnd { status, output, duration_ms, writes: Vec::new() };
                self.end_action(&scope, id, end).await?;
            }
            ended => drop(ended?),
        }
        Ok(())
    }

    async fn outcome_of(&self, action: ActionRow) -> Outcome {
        let Some(serving) = self.shared.apps.get(&action.scope.app) else {
            return tools::Failed::new("app_gone", "the app of this call is no longer there").into();
        };
        let (stop, vault, tools) = (CancellationToken::new(), self.vault(), serving.tools());
        let id = CallId::new(action.id.uuid());
        let calling = Calling {
            thread: action.thread,
            zone: profile::zone_in_app(self.store(), &action.scope, &serving.app).await,
            ..self.calling((id, &action.scope), action.input, (&vault, &stop))
        };
        if let Err(failed) = tools.prepare(&action.tool, &calling, &Taint::new()).await {
            return failed.into();
        }
        tools.run(&action.tool, calling, serving.app.limits.tool_timeout).await
    }

    /// A call that no run makes.
    pub(crate) fn calling<'a>(
        &'a self,
        (id, scope): (CallId, &'a Scope),
        input: Value,
        (vault, stop): (&'a Arc<dyn Vault>, &'a CancellationToken),
    ) -> Calling<'a> {
        Calling {
            id,
            input,
            scope,
            thread: None,
            run: None,
            store: self.store(),
            vault,
            recall: self.recall(),
            ids: &self.shared.ids,
            now: self.now(),
            zone: TimeZone::UTC,
            stop,
        }
    }
}
