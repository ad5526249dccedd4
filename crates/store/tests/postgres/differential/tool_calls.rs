//! Operations on the calls of runs: their results and writes, proposals, calls of the client, actions and undo.

use protocol::{
    CallId, CallOpen, ContextLoaded, Decision, Effect, Event, Ids as _, Part, ProposalClosed, ProposalOpen,
    RunStatus, Scope, ToolComplete, ToolStart, ToolStatus,
};
use serde_json::json;
use store::{
    ActionEnd, ActionFilter, ActionStatus, CallAnswer, NewAction, NewPinRow, NewProposal, NewText, RunRow,
    UndoPlace, Write,
};

use super::generator::ComparedPlan;

const EFFECTS: &[Effect] = &[Effect::Read, Effect::Idempotent, Effect::Reversible, Effect::Irreversible];
const STATUSES: &[ToolStatus] = &[
    ToolStatus::Complete,
    ToolStatus::Complete,
    ToolStatus::Complete,
    ToolStatus::Failed,
    ToolStatus::Unknown,
];

pub(super) fn result(plan: &mut ComparedPlan, call_id: CallId) -> Event {
    Event::ToolComplete(ToolComplete {
        call_id,
        name: plan.name(),
        status: plan.one_of(STATUSES),
        output: plan.json(),
        duration_ms: plan.random.u64(..10_000),
        outside: plan.random.bool(),
        suspicious: plan.once_in(5),
        by: None,
    })
}

impl ComparedPlan {
    /// A run under way with a call that has no result, or sometimes any other call of the run.
    async fn run_with_call(&mut self) -> Option<(RunRow, CallId)> {
        let mut found = None;
        for _ in 0..6 {
            let run = self.run_under_way().await?;
            let calls = self.known.places.entry(run.id).or_default().calls.clone();
            if !calls.is_empty() {
                found = Some((run, self.one_of(&calls)));
                break;
            }
        }
        let (run, call) = found?;
        if !self.once_in(20) {
            return Some((run, call));
        }
        let of_run = self.known.calls.iter().filter(|(of, _)| *of == run.id).map(|(_, id)| *id);
        let other = of_run.chain([self.ids.call()]).collect::<Vec<_>>();
        let other = self.one_of(&other);
        Some((run, other))
    }

    fn take_call(&mut self, run: &RunRow, call: CallId) {
        self.known.places.entry(run.id).or_default().calls.retain(|other| *other != call);
    }

    /// Changes that a call makes.
    async fn writes(&mut self, scope: &Scope) -> Vec<Write> {
        let mut writes = Vec::new();
        for _ in 0..self.random.usize(..4) {
            let write = match self.random.u32(..10) {
                0..=2 => self.record_write(scope).await,
                3..=5 => self.file_write(scope).await,
                6 => Write::Propose(self.new_proposal(scope)),
                7 => self.proposal_write(),
                8 => Write::Remember(self.new_memory("tool")),
                _ => Write::Profile(self.next_profile(scope).await),
            };
            writes.push(write);
        }
        writes
    }

    /// Seconds until an answer comes too late. A day passes now and then.
    fn lifetime(&mut self) -> i64 {
        let most = if self.once_in(3) { 20_000 } else { 2_000_000 };
        self.random.i64(1..most)
    }

    pub(super) fn new_proposal(&mut self, scope: &Scope) -> NewProposal {
        let id = self.ids.proposal();
        self.known.proposals.push((scope.clone(), id));
        let seconds = self.lifetime();
        let (tool, input, note) = (self.loose_name(), self.json(), self.maybe(ComparedPlan::text));
        NewProposal { id, tool, input, note, expires_at: self.in_seconds(seconds) }
    }

    fn proposal_write(&mut self) -> Write {
        let (_, id) = self.thing(|known| &known.proposals, |ids| ids.proposal());
        match self.random.u32(..3) {
            0 => Write::Withdraw { id },
            1 => Write::Undo { action: self.thing(|known| &known.actions, |ids| ids.action()).1 },
            _ => {
                let (input, note) = (self.maybe(ComparedPlan::json), self.maybe(ComparedPlan::text));
                Write::Reword { id, input, note }
            }
        }
    }

    pub(super) fn new_action(&mut self) -> NewAction {
        NewAction {
            id: self.ids.action(),
            tool: self.loose_name(),
            effect: self.one_of(EFFECTS),
            input: self.json(),
            actor: if self.once_in(5) { Some(self.loose_name()) } else { None },
        }
    }
}

/// The intent of a call, its result with its writes, or both.
pub(super) async fn call(plan: &mut ComparedPlan) {
    let Some((run, call_id)) = plan.run_with_call().await else { return };
    let logs = plan.logs(&run);
    let start = ToolStart {
        call_id,
        name: plan.loose_name(),
        input: plan.json(),
        effect: plan.one_of(EFFECTS),
        marker: plan.maybe(ComparedPlan::text),
    };
    if !plan.once_in(5) {
        plan.record(&logs, vec![Event::ToolStart(start)], vec![], vec![]).await;
    }
    if plan.once_in(5) {
        return;
    }
    let (ended, writes) = (result(plan, call_id), plan.writes(&run.scope).await);
    if plan.record(&logs, vec![ended], vec![], writes).await.is_some() {
        plan.take_call(&run, call_id);
        plan.known.actions.push((run.scope.clone(), call_id.into()));
    }
    if plan.once_in(10) {
        let late = result(plan, call_id);
        plan.record(&logs, vec![late], vec![], vec![]).await;
    }
}

/// Writes the events with which a run begins.
pub(super) async fn load_context(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let (_, memory) = plan.thing(|known| &known.memories, |ids| ids.memory());
    let source = match plan.random.u32(..4) {
        0 => memory.to_string(),
        1 => store::source::of_profile(plan.random.u64(..3)),
        2 => store::source::of_file(&run.scope, &plan.name()),
        _ => store::source::of_app(&plan.name()),
    };
    let text = plan.text();
    let hash = [plan.random.u8(..); 16];
    plan.known.texts.push((run.scope.clone(), (source.clone(), hash)));
    let part = Part { fragment: "f".into(), source: source.clone(), hash: plan.name(), suspicious: false };
    let loaded = ContextLoaded {
        memories: vec![memory.to_string()],
        date: "today".into(),
        parts: vec![part],
        ..ContextLoaded::default()
    };
    let mut writes = vec![Write::Keep(NewText { source, hash, text })];
    match plan.random.u32(..4) {
        0 => writes.push(Write::Remember(plan.new_memory("asked"))),
        1 => writes.push(Write::Forget { memory }),
        2 => {
            let thread = plan.maybe(|_| run.thread);
            let pin = NewPinRow { id: plan.ids.pin(), thread, text: plan.text() };
            plan.known.pins.push((run.scope.clone(), pin.id));
            writes.push(Write::Pin(pin));
        }
        _ => {}
    }
    let events = vec![Event::ContextLoaded(loaded)];
    plan.record(&logs, events, vec![], writes).await;
}

/// A call that needs the user's yes, or that the client makes.
pub(super) async fn ask_user(plan: &mut ComparedPlan) {
    let Some((run, call_id)) = plan.run_with_call().await else { return };
    let logs = plan.logs(&run);
    let seconds = plan.lifetime();
    let (name, input, expires_at) = (plan.name(), plan.json(), plan.in_seconds(seconds));
    let event = if plan.random.bool() {
        plan.known.client_calls.push((run.scope.clone(), call_id));
        Event::CallOpen(CallOpen { call_id, name, input, effect: plan.one_of(EFFECTS), expires_at })
    } else {
        let proposal_id = plan.ids.proposal();
        plan.known.proposals.push((run.scope.clone(), proposal_id));
        Event::ProposalOpen(ProposalOpen { proposal_id, call_id, name, input, expires_at })
    };
    plan.record(&logs, vec![event], vec![], vec![]).await;
}

pub(super) async fn decide(plan: &mut ComparedPlan) {
    let (scope, id) = plan.thing(|known| &known.proposals, |ids| ids.proposal());
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    let decision = plan.one_of(&[Decision::Confirmed, Decision::Rejected, Decision::Withdrawn]);
    match plan.random.u32(..6) {
        0 => {
            let Some(row) = ask!(plan, proposal(&principal, id)) else { return };
            let (Some(run), Some(call_id)) = (row.run, row.call) else { return };
            let owner = protocol::Principal::authenticated(scope.user.clone());
            let Some(run) = ask!(plan, run(&owner, run)) else { return };
            let logs = plan.logs(&run);
            let closed = ProposalClosed { proposal_id: id, call_id, decision, by: None };
            plan.record(&logs, vec![Event::ProposalClosed(closed)], vec![], vec![]).await;
        }
        1 | 2 => {
            let (scope, mut action) = (plan.near(scope), plan.new_action());
            // It must be what was proposed.
            if let Some(row) = ask!(plan, proposal_of(&scope, id)).filter(|_| !plan.once_in(6)) {
                (action.tool, action.input) = (row.tool, row.input);
            }
            if let Some(row) = ask!(plan, begin_action(&scope, id, action.clone(), once.clone())) {
                plan.known.actions.push((scope, row.id));
            }
        }
        _ => drop(ask!(plan, decide(&principal, id, decision, once.clone()))),
    }
}

pub(super) async fn answer_call(plan: &mut ComparedPlan) {
    let (scope, id) = plan.thing(|known| &known.client_calls, |ids| ids.call());
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    let answer = CallAnswer {
        status: plan.one_of(STATUSES),
        output: plan.json(),
        outside: plan.random.bool(),
        suspicious: plan.random.bool(),
    };
    ask!(plan, answer_call(&principal, id, answer.clone(), once.clone()));
    ask!(plan, client_call(&principal, id));
}

pub(super) async fn undo(plan: &mut ComparedPlan) {
    let (scope, id) = plan.thing(|known| &known.actions, |ids| ids.action());
    let (principal, by, once) = (plan.principal_of(&scope), plan.new_action(), plan.once());
    let undone = if plan.once_in(4) {
        ask!(plan, begin_undo(&principal, id, by.clone(), once.clone()))
    } else {
        ask!(plan, undo(&principal, id, by.clone(), once.clone()))
    };
    if let Some(row) = undone {
        plan.known.actions.push((scope, row.id));
    }
}

/// Ends an action that no run has, such as one that a proposal became.
pub(super) async fn end_action(plan: &mut ComparedPlan) {
    let begun = ask!(plan, begun_actions()).unwrap_or_default();
    let (scope, id) = match begun.first() {
        Some(row) if !plan.once_in(5) => (row.scope.clone(), row.id),
        Some(_) | None => plan.thing(|known| &known.actions, |ids| ids.action()),
    };
    let scope = plan.near(scope);
    let end = ActionEnd {
        status: plan.one_of(STATUSES),
        output: plan.json(),
        duration_ms: plan.random.u64(..1_000),
        writes: plan.writes(&scope).await,
    };
    ask!(plan, end_action(&scope, id, end.clone()));
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (scope, id) = plan.thing(|known| &known.actions, |ids| ids.action());
    let principal = plan.principal_of(&scope);
    match plan.random.u32(..7) {
        0 => drop(ask!(plan, action(&principal, id))),
        1 => {
            let scope = plan.near(scope);
            ask!(plan, action_of(&scope, id));
        }
        2 | 3 => {
            let filter = ActionFilter {
                run: if plan.once_in(4) { Some(plan.some_run().1) } else { None },
                thread: if plan.once_in(4) { Some(plan.some_thread().1) } else { None },
                tool: if plan.once_in(4) { Some(plan.name()) } else { None },
                status: if plan.once_in(4) { Some(plan.one_of(&ActionStatus::ALL)) } else { None },
                effect: if plan.once_in(4) { Some(plan.one_of(EFFECTS)) } else { None },
                undone: if plan.once_in(4) { Some(plan.random.bool()) } else { None },
            };
            let after = plan.maybe(|plan| plan.random.u64(..50));
            let page = plan.page(after);
            let Some(found) = ask!(plan, actions(&scope, filter.clone(), page)) else { return };
            let place = plan.one_of(&[UndoPlace::Store, UndoPlace::Outside]);
            let rows: Vec<_> = found.rows.into_iter().map(|row| (row, place)).collect();
            undo_plans(plan, rows).await;
        }
        4 => {
            let (open, page) = (plan.random.bool(), plan.page_from(None));
            ask!(plan, proposals(&scope, open, page));
            let page = plan.page_from(None);
            ask!(plan, client_calls(&scope, open, page));
        }
        5 => {
            let (scope, id) = plan.thing(|known| &known.proposals, |ids| ids.proposal());
            let (principal, scope) = (plan.principal_of(&scope), plan.near(scope));
            ask!(plan, proposal(&principal, id));
            ask!(plan, proposal_of(&scope, id));
        }
        _ => drop(ask!(plan, next_expiry())),
    }
}

/// The things that are put back have no order, so only the plans are compared.
async fn undo_plans(plan: &mut ComparedPlan, rows: Vec<(store::ActionRow, UndoPlace)>) {
    plan.note("undo_plans", format!("{rows:?}"));
    let (file, server) = plan.stores();
    let one = file.undo_plans(rows.clone(), Default::default()).await.map(|(plans, _)| plans);
    let other = server.undo_plans(rows, Default::default()).await.map(|(plans, _)| plans);
    plan.compare(one, other);
}

/// A result of a call that does not exist, with a status that no run can have.
pub(super) async fn misplaced_result(plan: &mut ComparedPlan) {
    let Some(run) = plan.run_under_way().await else { return };
    let logs = plan.logs(&run);
    let call = plan.ids.call();
    let event = match plan.random.u32(..3) {
        0 => result(plan, call),
        1 => Event::RunEnd(protocol::RunEnd {
            run_id: run.id,
            status: RunStatus::Waiting,
            error: None,
            message_id: None,
        }),
        _ => Event::ThreadNamed(protocol::ThreadNamed { title: plan.text() }),
    };
    let writes = if plan.once_in(3) {
        vec![Write::Record { id: plan.ids.record(), kind: "note".into(), data: Some(json!({})), expected: 0 }]
    } else {
        vec![]
    };
    plan.record(&logs, vec![event], vec![], writes).await;
}
