//! Actions of tools as clients ask for them: the list, one action, and undo.

use agent::{CANNOT_UNDO, OutsideEffect, hide_in_action};
use protocol::{
    ActionId, ActionStatus, ActionView, Decision, Effect, Page, Principal, RunId, Scope, ThreadId,
    ToolStatus, UndoRefused, UndoReport,
};
use serde_json::{Value, json};
use store::{ActionFilter, ActionRow, IdempotencyClaim, NewAction, PageOf, ProposalRow, Verified};

use crate::checks::{self, PageQuery};
use crate::keys::check_all_apps;
use crate::{Error, Service, views};

/// The tool that an undo by the user is told under.
const UNDO: &str = "undoAction";

/// The field by which an action says which proposal it has made or changed.
const PROPOSAL: &str = "proposalId";

/// The message for an undo of a run that has not ended.
pub(crate) const RUN_ACTIVE: &str = "the run has not ended; wait for its end, or cancel it first";

/// The most actions of a run that one request undoes.
pub(crate) const MAX_UNDONE_AT_ONCE: usize = 4096;

/// Which actions to list. An absent field does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionQuery {
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub tool: Option<String>,
    pub status: Option<String>,
    pub effect: Option<String>,
    pub undone: Option<bool>,
}

impl Service {
    /// The actions of tools for the user in an app, newest first.
    pub async fn actions(
        &self,
        principal: &Principal,
        app: &str,
        query: ActionQuery,
        page: PageQuery,
    ) -> Result<Page<ActionView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let mut page = self.store().actions(&scope, filter(query)?, page.by_position()?).await?;
        let forgotten = self.recall().forgotten_words(&scope).await?;
        for row in &mut page.rows {
            hide_in_action(row, &forgotten);
        }
        Ok(checks::page(page, |row| row.position.to_string(), |row| self.view(row)))
    }

    pub async fn action(&self, principal: &Principal, action: ActionId) -> Result<ActionView, Error> {
        let mut row = self.action_row(principal, action).await?;
        let forgotten = self.recall().forgotten_words(&row.scope).await?;
        hide_in_action(&mut row, &forgotten);
        Ok(self.view(row))
    }

    /// Undoes the changes of an action. Returns the action of the undo.
    pub async fn undo_action(
        &self,
        principal: &Principal,
        action: ActionId,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionView, Error> {
        let row = self.action_row(principal, action).await?;
        self.undo_row(principal, row, once).await
    }

    /// Undoes one action, in the database or in an external system.
    async fn undo_row(
        &self,
        principal: &Principal,
        row: ActionRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionView, Error> {
        let by = self.new_undo(principal, row.id);
        Ok(self.view(self.agent.undo(principal, row, by, once).await?))
    }

    /// Undoes the actions of a run, newest first. The report also has the actions that were undone before, so a
    /// repeated request changes nothing and has the same answer.
    pub async fn undo_run(&self, principal: &Principal, run: RunId) -> Result<UndoReport, Error> {
        let row = agent::run_row(self.store(), principal, run).await?;
        if !row.status.is_terminal() {
            return Err(Error::Conflict { code: "run_active", message: RUN_ACTIVE.into() });
        }
        let (service, principal) = (self.clone(), principal.clone());
        self.world().tasks.finish(async move { service.undo_all(&principal, &row.scope, run).await }).await
    }

    /// Verifies every chain of the ledger, in all apps. An admin whose key is limited to one app is refused.
    pub async fn verify_ledger(&self, by: Option<&Principal>) -> Result<Verified, Error> {
        check_all_apps(by)?;
        Ok(self.store().verify_ledger().await?)
    }

    async fn undo_all(&self, principal: &Principal, scope: &Scope, run: RunId) -> Result<UndoReport, Error> {
        let mut report = UndoReport { undone: Vec::new(), refused: Vec::new(), proposals: Vec::new() };
        let (mut after, mut left) = (None, MAX_UNDONE_AT_ONCE);
        while left > 0 {
            let filter = ActionFilter { run: Some(run), ..ActionFilter::default() };
            let page = self.store().actions(scope, filter, PageOf { after, limit: left }).await?;
            left = if page.more { left.saturating_sub(page.rows.len()) } else { 0 };
            after = page.rows.last().map(|row| row.position);
            self.undo_page(principal, page.rows, &mut report).await?;
        }
        Ok(report)
    }

    /// Undoes a page of the actions of a run, and adds the outcome of each to the report.
    async fn undo_page(
        &self,
        principal: &Principal,
        rows: Vec<ActionRow>,
        report: &mut UndoReport,
    ) -> Result<(), Error> {
        for row in rows {
            let refusal = |reason| UndoRefused { action_id: row.id, tool: row.tool.clone(), reason };
            match standing(&row, OutsideEffect::of(&self.world().apps, &row)) {
                UndoStanding::Nothing => self.report_proposal(&row, report).await?,
                UndoStanding::Undone(by) => {
                    report.undone.push(self.view(self.store().action(principal, by).await?));
                }
                UndoStanding::Stays(reason) => report.refused.push(refusal(reason.into())),
                UndoStanding::Undoable => match self.undo_row(principal, row.clone(), None).await {
                    Err(Error::Conflict { code: CANNOT_UNDO, message }) => {
                        report.refused.push(refusal(message));
                    }
                    undone => report.undone.push(undone?),
                },
            }
        }
        Ok(())
    }

    /// Adds the proposal that an action has made or changed, as it stands now.
    async fn report_proposal(&self, row: &ActionRow, report: &mut UndoReport) -> Result<(), Error> {
        let named = row.output.get(PROPOSAL).and_then(Value::as_str).and_then(|id| id.parse().ok());
        let Some(id) = named.filter(|_| row.status == ActionStatus::Ended(ToolStatus::Complete)) else {
            return Ok(());
        };
        let proposal = match self.store().proposal_of(&row.scope, id).await {
            Err(store::Error::NotFound(_)) => return Ok(()),
            found => found?,
        };
        if let Some(reason) = decision_reason(&proposal, row) {
            report.refused.push(UndoRefused { action_id: row.id, tool: row.tool.clone(), reason });
        } else if proposal.decision.is_none() && report.proposals.iter().all(|known| known.id != id) {
            report.proposals.push(views::proposal(proposal));
        }
        Ok(())
    }

    fn new_undo(&self, principal: &Principal, action: ActionId) -> NewAction {
        NewAction {
            id: self.world().ids.action(),
            tool: UNDO.into(),
            effect: Effect::Idempotent,
            input: json!({ "actionId": action }),
            actor: principal.actor().map(str::to_owned),
        }
    }

    fn view(&self, row: ActionRow) -> ActionView {
        let elsewhere = OutsideEffect::of(&self.world().apps, &row);
        view(row, elsewhere)
    }

    pub(crate) async fn action_row(
        &self,
        principal: &Principal,
        action: ActionId,
    ) -> Result<ActionRow, Error> {
        let row = self.store().action(principal, action).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "action" }) }
    }
}

/// The standing of an action, as far as its row tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UndoStanding {
    /// The action changed nothing, or is an undo itself.
    Nothing,
    Undone(ActionId),
    Undoable,
    /// The action changed something, or may have, that cannot be undone here; with the reason.
    Stays(&'static str),
}

/// Whether an action can be undone. `elsewhere` says whether it changed an external system, and whether its tool has an
/// undo.
pub(crate) fn standing(row: &ActionRow, elsewhere: OutsideEffect) -> UndoStanding {
    let is = |status: ToolStatus| row.status == ActionStatus::Ended(status);
    if let Some(by) = row.undone_by {
        return UndoStanding::Undone(by);
    }
    if row.undo_of.is_some() {
        return UndoStanding::Nothing;
    }
    if row.undo_under_way {
        return UndoStanding::Stays(
            "an undo is running, or its result is not known; check the external system",
        );
    }
    match row.effect {
        Effect::Read => UndoStanding::Nothing,
        Effect::Idempotent | Effect::Reversible | Effect::Irreversible if is(ToolStatus::Unknown) => {
            UndoStanding::Stays(
                "it is not known whether the call took effect; check the external system, and revert the \
                 change there by hand",
            )
        }
        Effect::Irreversible if is(ToolStatus::Complete) => {
            UndoStanding::Stays("the tool is irreversible, so the action cannot be undone")
        }
        Effect::Idempotent | Effect::Reversible
            if is(ToolStatus::Complete) && (elsewhere == OutsideEffect::Undo || !row.changes.is_empty()) =>
        {
            UndoStanding::Undoable
        }
        Effect::Idempotent | Effect::Reversible
            if is(ToolStatus::Complete) && elsewhere == OutsideEffect::Stays =>
        {
            UndoStanding::Stays("the call may have changed an external system, and its tool has no undo")
        }
        Effect::Idempotent | Effect::Reversible | Effect::Irreversible => UndoStanding::Nothing,
    }
}

/// The reason for which an undo leaves a proposal as it is, although it undoes the action that made or withdrew it.
/// None if the proposal needs no such remark.
fn decision_reason(proposal: &ProposalRow, by: &ActionRow) -> Option<String> {
    let withdrew = by.output.get("status").and_then(Value::as_str) == Some(Decision::Withdrawn.name());
    match proposal.decision? {
        Decision::Confirmed => Some(proposal.action.map_or_else(
            || "the user has confirmed the proposal since then".to_owned(),
            |action| format!("the user has confirmed the proposal since then; undo {action} instead"),
        )),
        Decision::Withdrawn if withdrew => {
            Some("the action withdrew a proposal, which can be made again".into())
        }
        Decision::Withdrawn | Decision::Rejected | Decision::Expired | Decision::Superseded => None,
    }
}

fn view(row: ActionRow, elsewhere: OutsideEffect) -> ActionView {
    ActionView {
        undoable: standing(&row, elsewhere) == UndoStanding::Undoable,
        undone: row.undone_by.is_some(),
        id: row.id,
        tool: row.tool,
        input: row.input,
        output: row.output,
        status: row.status,
        effect: row.effect,
        started_at: row.started_at,
        duration_ms: row.duration_ms,
        user_id: row.scope.user.to_string(),
        actor: row.actor,
        app_id: row.scope.app.to_string(),
        thread_id: row.thread,
        run_id: row.run,
        step: row.step,
        undone_by: row.undone_by,
        undo_of: row.undo_of,
    }
}

fn filter(query: ActionQuery) -> Result<ActionFilter, Error> {
    let ActionQuery { run, thread, tool, status, effect, undone } = query;
    let effect = effect.map(|name| {
        let known = Effect::ALL.map(Effect::name);
        Effect::parse(&name).ok_or_else(|| one_of("effect", &known))
    });
    let status = status.map(|name| {
        let known = ActionStatus::ALL.map(ActionStatus::name);
        ActionStatus::parse(&name).ok_or_else(|| one_of("status", &known))
    });
    Ok(ActionFilter { run, thread, tool, status: status.transpose()?, effect: effect.transpose()?, undone })
}

fn one_of(field: &'static str, known: &[&str]) -> Error {
    Error::invalid(field, format!("must be one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{AppId, RecordId, UserId};
    use store::AppliedChange;
    use uuid::Uuid;

    use super::*;

    fn row() -> ActionRow {
        let id = RecordId::new(Uuid::from_u128(7));
        ActionRow {
            id: ActionId::new(Uuid::from_u128(1)),
            scope: Scope { app: AppId::new("test"), user: UserId::new("ann") },
            actor: None,
            thread: None,
            run: None,
            step: None,
            tool: "rename".into(),
            effect: Effect::Reversible,
            status: ActionStatus::Ended(ToolStatus::Complete),
            input: Value::Null,
            output: Value::Null,
            changes: vec![AppliedChange::Record {
                id,
                kind: "part".into(),
                before: None,
                was: 0,
                version: 1,
            }],
            started_at: Timestamp::UNIX_EPOCH,
            duration_ms: None,
            undone_by: None,
            undo_of: None,
            undo_under_way: false,
            position: 1,
        }
    }

    fn stands(row: &ActionRow) -> UndoStanding {
        standing(row, OutsideEffect::Nothing)
    }

    #[test]
    fn what_was_done_and_can_be_put_back_is_undoable() {
        assert_eq!(stands(&row()), UndoStanding::Undoable);
        assert!(view(row(), OutsideEffect::Nothing).undoable);
        for status in ["started", "failed", "denied", "cancelled"] {
            let status = ActionStatus::parse(status).unwrap();
            assert_eq!(stands(&ActionRow { status, ..row() }), UndoStanding::Nothing);
        }
        assert_eq!(stands(&ActionRow { changes: Vec::new(), ..row() }), UndoStanding::Nothing);
    }

    #[test]
    fn an_undo_is_not_undone_and_nothing_is_undone_twice() {
        let other = ActionId::new(Uuid::from_u128(2));
        assert_eq!(stands(&ActionRow { undo_of: Some(other), ..row() }), UndoStanding::Nothing);
        let undone = ActionRow { undone_by: Some(other), ..row() };
        assert_eq!(stands(&undone), UndoStanding::Undone(other));
        let view = view(undone, OutsideEffect::Nothing);
        assert_eq!((view.undone, view.undoable, view.undone_by), (true, false, Some(other)));
    }

    #[test]
    fn what_cannot_be_put_back_is_said_to_stay() {
        let sent = ActionRow { effect: Effect::Irreversible, ..row() };
        assert!(matches!(stands(&sent), UndoStanding::Stays(_)));
        let sent = ActionRow { changes: Vec::new(), ..sent };
        assert!(matches!(stands(&sent), UndoStanding::Stays(_)));
        assert_eq!(
            stands(&ActionRow { status: ActionStatus::Ended(ToolStatus::Denied), ..sent.clone() }),
            UndoStanding::Nothing
        );
        for (effect, stays) in
            [(Effect::Idempotent, true), (Effect::Irreversible, true), (Effect::Read, false)]
        {
            let cut = ActionRow { status: ActionStatus::Ended(ToolStatus::Unknown), effect, ..sent.clone() };
            assert_eq!(matches!(stands(&cut), UndoStanding::Stays(_)), stays, "{effect:?}");
        }
    }

    #[test]
    fn an_action_outside_is_undoable_only_if_its_tool_has_an_undo() {
        for effect in [Effect::Idempotent, Effect::Reversible] {
            let called = ActionRow { changes: Vec::new(), effect, ..row() };
            assert_eq!(standing(&called, OutsideEffect::Undo), UndoStanding::Undoable, "{effect:?}");
            assert!(matches!(standing(&called, OutsideEffect::Stays), UndoStanding::Stays(_)), "{effect:?}");
            assert_eq!(standing(&called, OutsideEffect::Nothing), UndoStanding::Nothing, "{effect:?}");
            let failed = ActionRow { status: ActionStatus::Ended(ToolStatus::Failed), ..called };
            assert_eq!(standing(&failed, OutsideEffect::Stays), UndoStanding::Nothing, "{effect:?}");
        }
    }

    #[test]
    fn a_filter_takes_the_words_there_are() {
        for status in ActionStatus::ALL {
            let query = ActionQuery { status: Some(status.name().into()), ..ActionQuery::default() };
            assert_eq!(filter(query).unwrap().status, Some(status));
        }
        let effect =
            |effect: &str| filter(ActionQuery { effect: Some(effect.into()), ..ActionQuery::default() });
        assert_eq!(effect("irreversible").unwrap().effect, Some(Effect::Irreversible));
        let message = effect("Read").unwrap_err().to_string();
        assert_eq!(message, "effect: must be one of read, idempotent, reversible, irreversible");
        let status = ActionQuery { status: Some("done".into()), ..ActionQuery::default() };
        assert!(matches!(filter(status), Err(Error::Invalid { field: "status", .. })));
    }
}
