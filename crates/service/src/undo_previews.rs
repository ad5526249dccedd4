//! Previews of an undo that was not requested yet. The store plans it by the rules of the undo itself.

use agent::OutsideEffect;
use protocol::{ActionId, Principal, RunId, RunUndoPreview, UndoChange, UndoPreview};
use serde_json::Value;
use store::rules::undo::UndoneThings;
use store::{ActionFilter, ActionRow, AppliedChange, PageOf, PlannedChange, UndoPlace, UndoPlan};

use crate::actions::{MAX_UNDONE_AT_ONCE, RUN_ACTIVE, UndoStanding, standing};
use crate::{Error, Service};

impl Service {
    /// Returns the changes that an undo of an action would make now.
    pub async fn preview_undo(&self, principal: &Principal, action: ActionId) -> Result<UndoPreview, Error> {
        let row = self.action_row(principal, action).await?;
        let place = self.undo_place(&row);
        let (mut plans, _) =
            self.store().undo_plans(vec![(row.clone(), place)], UndoneThings::default()).await?;
        self.preview(row, place, plans.pop().unwrap_or_default()).await
    }

    /// Returns the changes that an undo of all actions of a run would make now, newest first. An action can be undone
    /// after a newer one of the run that changed the same thing.
    pub async fn preview_run_undo(&self, principal: &Principal, run: RunId) -> Result<RunUndoPreview, Error> {
        let row = agent::run_row(self.store(), principal, run).await?;
        if !row.status.is_terminal() {
            let reason = Some(RUN_ACTIVE.to_owned());
            return Ok(RunUndoPreview { possible: false, reason, actions: Vec::new() });
        }
        let mut actions = Vec::new();
        let (mut after, mut left, mut undone) = (None, MAX_UNDONE_AT_ONCE, UndoneThings::default());
        while left > 0 {
            let filter = ActionFilter { run: Some(run), ..ActionFilter::default() };
            let page = self.store().actions(&row.scope, filter, PageOf { after, limit: left }).await?;
            left = if page.more { left.saturating_sub(page.rows.len()) } else { 0 };
            after = page.rows.last().map(|row| row.position);
            undone = self.preview_page(page.rows, undone, &mut actions).await?;
        }
        let possible = actions.iter().any(|preview| preview.possible);
        Ok(RunUndoPreview { possible, reason: None, actions })
    }

    /// Adds the previews of some actions of a run, without those that changed nothing.
    async fn preview_page(
        &self,
        rows: Vec<ActionRow>,
        undone: UndoneThings,
        previews: &mut Vec<UndoPreview>,
    ) -> Result<UndoneThings, Error> {
        let mut undone = undone;
        for row in rows {
            match standing(&row, OutsideEffect::of(&self.world().apps, &row)) {
                UndoStanding::Nothing => {}
                UndoStanding::Stays(reason) => previews.push(impossible_preview(row, reason.to_owned())),
                UndoStanding::Undone(_) | UndoStanding::Undoable => {
                    let place = self.undo_place(&row);
                    let planned = self.store().undo_plans(vec![(row.clone(), place)], undone).await?;
                    let (mut plans, now_undone) = planned;
                    undone = now_undone;
                    previews.push(self.preview(row, place, plans.pop().unwrap_or_default()).await?);
                }
            }
        }
        Ok(undone)
    }

    fn undo_place(&self, row: &ActionRow) -> UndoPlace {
        match OutsideEffect::of(&self.world().apps, row) {
            OutsideEffect::Undo => UndoPlace::Outside,
            OutsideEffect::Nothing | OutsideEffect::Stays => UndoPlace::Store,
        }
    }

    async fn preview(&self, row: ActionRow, place: UndoPlace, plan: UndoPlan) -> Result<UndoPreview, Error> {
        if let Some(reason) = plan.refusal {
            return Ok(impossible_preview(row, reason));
        }
        let changes = match place {
            UndoPlace::Store => plan.changes.into_iter().map(change_view).collect(),
            UndoPlace::Outside => match agent::describe_undo(self.world(), &row).await {
                Err(reason) => return Ok(impossible_preview(row, reason)),
                Ok(mut request) => {
                    let forgotten = self.recall().forgotten_words(&row.scope).await?;
                    forgotten.clear_json(&mut request, row.started_at);
                    vec![call_view(&row, request)]
                }
            },
        };
        Ok(UndoPreview { action_id: row.id, tool: row.tool, possible: true, reason: None, changes })
    }
}

fn impossible_preview(row: ActionRow, reason: String) -> UndoPreview {
    let (possible, reason) = (false, Some(reason));
    UndoPreview { action_id: row.id, tool: row.tool, possible, reason, changes: Vec::new() }
}

/// A change in the store.
fn change_view(planned: PlannedChange) -> UndoChange {
    let (kind, id, label) = match planned.change {
        AppliedChange::Record { id, kind, .. } => ("record", id.to_string(), Some(kind)),
        AppliedChange::File { path, .. } => ("file", path, None),
        AppliedChange::Memory { id, .. } => ("memory", id.to_string(), None),
        AppliedChange::Profile { .. } => ("profile", "profile".to_owned(), None),
    };
    UndoChange {
        kind: kind.to_owned(),
        id,
        label,
        before: planned.now.unwrap_or_default(),
        after: planned.then.unwrap_or_default(),
        contents_left_out: planned.left_out,
    }
}

/// A call to an external system.
fn call_view(row: &ActionRow, request: Value) -> UndoChange {
    let part = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or_default();
    UndoChange {
        kind: "external".to_owned(),
        id: row.tool.clone(),
        label: Some(format!("{} {}", part("method"), part("url"))),
        before: Value::Null,
        after: request,
        contents_left_out: false,
    }
}
