//! Methods to which chance comes too seldom: each plan asks them for an answer and for a refusal.

use protocol::{
    ActionId, AppId, Decision, Effect, Event, Failure, Ids as _, KeyId, Principal, RunId, RunStatus, Scope,
    ToolStart, ToolStatus, UserId, UserLimits,
};
use serde_json::json;
use store::rules::statistics::UsageQuery;
use store::{
    ActionEnd, ForcedEnd, IdempotencyClaim, MAX_MCP_NAME_BYTES, McpOffer, NewChunk, NewDocument,
    NewKeyRotation, PageOf, RunInput, Target, ThreadImport, TimeCursor, Write,
};

use super::generator::ComparedPlan;
use super::recorded_runs::step_end;
use super::threads::earlier_run;
use super::tool_calls::result;

/// The first runs of a plan, whose deltas may be pruned.
const OLD_RUNS: usize = 30;

/// Things of a kind that are looked at.
const FEW: usize = 3;
const MANY: usize = 40;

/// More than a plan makes.
const ALL_KEYS: usize = 5_000;

pub(super) async fn ask_all(plan: &mut ComparedPlan) {
    let scope = Scope { app: AppId::new("app"), user: UserId::new("alice") };
    use_key_twice(plan, &scope).await;
    name_unknown_things(plan, &scope).await;
    approve_tools(plan, &scope.app).await;
    put_wrong_things_first(plan, &scope).await;
    change_keys(plan).await;
    change_and_propose(plan, &scope).await;
    confirm_proposals(plan).await;
    end_by_force(plan, &scope).await;
    ask!(plan, tombstones(&scope));
    let query = UsageQuery { to_day: "9999-12-31".to_owned(), ..UsageQuery::default() };
    ask!(plan, usage_totals(query.clone()));
    let ids = plan.known.keys.iter().map(|id| id.uuid());
    let ids: Vec<_> = ids.chain(plan.known.sessions.iter().map(|id| id.uuid())).collect();
    ask!(plan, access_ends(ids.clone()));
    ask!(plan, told_to_stop());
    ask!(plan, catch_up());
    read_old_runs(plan).await;
}

/// An idempotency key stands for one request.
async fn use_key_twice(plan: &mut ComparedPlan, scope: &Scope) {
    let first = IdempotencyClaim { key: "a rare key".into(), fingerprint: [1; 32] };
    let reused = IdempotencyClaim { fingerprint: [2; 32], ..first.clone() };
    ask!(plan, put_credential(scope, "rare", vec![1], Some(first.clone())));
    ask!(plan, delete_credential(scope, "rare", None::<IdempotencyClaim>));
    ask!(plan, delete_credential(scope, "rare", None::<IdempotencyClaim>));
    let image = plan.new_image([9; 32]);
    let added = ask!(plan, add_image(scope, image.clone(), None::<IdempotencyClaim>));
    ask!(plan, add_image(scope, image.clone(), Some(reused.clone())));
    ask!(plan, known_image(scope, [9; 32], None::<IdempotencyClaim>));
    ask!(plan, known_image(scope, [9; 32], Some(reused.clone())));
    if let Some(row) = added {
        let owner = Principal::authenticated(scope.user.clone());
        ask!(plan, image(&owner, row.id));
        ask!(plan, delete_image(&owner, row.id, None::<IdempotencyClaim>));
    }
    ask!(plan, begin_import(scope, IdempotencyClaim { key: "another".into(), fingerprint: [1; 32] }));
    ask!(plan, begin_import(scope, reused.clone()));
    ask!(plan, set_memory_off(scope, false, None::<IdempotencyClaim>));
    ask!(plan, set_memory_off(scope, true, Some(reused.clone())));
}

async fn name_unknown_things(plan: &mut ComparedPlan, scope: &Scope) {
    let (memory, alice) = (plan.ids.memory(), Principal::authenticated(scope.user.clone()));
    ask!(plan, memory(&alice, memory));
    ask!(plan, memory_history(&alice, memory));
    let document = NewDocument { quota: 100_000_000, chunks: vec![], ..plan.new_document() };
    ask!(plan, add_document(scope, document.clone(), None::<IdempotencyClaim>));
    ask!(plan, document(&alice, document.id));
    if let Some((of, known)) = plan.known.memories.last().cloned() {
        ask!(plan, memory(&Principal::authenticated(of.user.clone()), known));
    }
    for (of, id) in plan.known.personas.iter().take(FEW).cloned().collect::<Vec<_>>() {
        ask!(plan, persona(&of, &id));
    }
}

async fn approve_tools(plan: &mut ComparedPlan, app: &AppId) {
    let offer = |tool: &str| McpOffer { tool: tool.into(), definition: json!({}), hash: "h".into() };
    ask!(plan, put_mcp_tools(app, "rare", vec![offer("tool")]));
    ask!(plan, approve_mcp_tools(app, "rare", vec![(String::from("tool"), String::from("h"))], "admin"));
    ask!(
        plan,
        approve_mcp_tools(app, "rare", vec![(String::from("tool"), String::from("another"))], "admin")
    );
    ask!(plan, revoke_mcp_tools(app, "rare", vec![String::from("tool")], "admin"));
    ask!(plan, put_mcp_tools(app, "rare", vec![offer(&"x".repeat(MAX_MCP_NAME_BYTES + 1))]));
}

async fn put_wrong_things_first(plan: &mut ComparedPlan, scope: &Scope) {
    let mut document = plan.new_document();
    document.chunks.push(NewChunk {
        id: plan.ids.chunk(),
        text: String::new(),
        place: String::new(),
        suspicious: false,
    });
    ask!(plan, put_knowledge(&scope.app, [9; 32], document.clone()));
    // Two runs cannot have one id.
    let (run, id) = (earlier_run(plan), plan.ids.thread());
    let (runs, app_revision) = (vec![run.clone(), run.clone()], String::from("r"));
    let mut import = ThreadImport { id, title: None, created_at: None, runs, app_revision, actor: None };
    ask!(plan, import_thread(scope, import.clone()));
    import.runs.pop();
    ask!(plan, import_thread(scope, import.clone()));
    let owner = Principal::authenticated(scope.user.clone());
    ask!(plan, choose_head(&owner, id, run.message, None::<IdempotencyClaim>));
}

async fn change_keys(plan: &mut ComparedPlan) {
    let (mut old, hash) = plan.new_key();
    old.expires_at = None;
    ask!(plan, add_key(old.clone(), hash, None::<(Scope, IdempotencyClaim)>));
    let ((new, hash), old_ends_at) = (plan.new_key(), plan.in_seconds(60));
    let rotation = NewKeyRotation { old: old.id, only_apps: None, new, hash, old_ends_at, once: None };
    ask!(plan, rotate_key(rotation.clone()));
    let all = PageOf { after: None::<TimeCursor<KeyId>>, limit: ALL_KEYS };
    ask!(plan, keys(None::<Vec<AppId>>, all));
    ask!(plan, remove_keys(String::from("admin")));
}

/// Proposals that still wait: those without a call become actions, the others are decided.
async fn confirm_proposals(plan: &mut ComparedPlan) {
    let known: Vec<_> = plan.known.proposals.iter().rev().take(MANY).cloned().collect();
    for (scope, id) in known {
        let Some(row) = ask!(plan, proposal_of(&scope, id)).filter(|row| row.decision.is_none()) else {
            continue;
        };
        if row.call.is_some() {
            let owner = Principal::authenticated(scope.user.clone());
            ask!(plan, decide(&owner, id, Decision::Confirmed, None::<IdempotencyClaim>));
            continue;
        }
        let mut action = plan.new_action();
        (action.tool, action.input) = (row.tool, row.input);
        if let Some(begun) = ask!(plan, begin_action(&scope, id, action.clone(), None::<IdempotencyClaim>)) {
            let (status, output) = (ToolStatus::Complete, json!("done"));
            let end = ActionEnd { status, output, duration_ms: 1, writes: vec![] };
            ask!(plan, end_action(&scope, begun.id, end.clone()));
        }
    }
}

/// A run whose calls change something and propose more: there is something to confirm and to undo.
async fn change_and_propose(plan: &mut ComparedPlan, scope: &Scope) {
    let (mut submission, message) = (plan.submission(), plan.ids.message());
    (submission.scope, submission.thread) = (scope.clone(), Target::New(plan.ids.thread()));
    (submission.once, submission.replay_only, submission.limits) = (None, false, UserLimits::default());
    submission.request.ask = RunInput::Say { id: message, text: "rare".into(), parent: None, parts: vec![] };
    let Some((made, _)) = ask!(plan, submit(submission.clone())) else { return };
    let owner = Principal::authenticated(scope.user.clone());
    let Some(run) = ask!(plan, run(&owner, made.run)) else { return };
    let (file, server) = plan.stores();
    let logs = (file.log(&run), server.log(&run));
    let (step, calls) = step_end(plan, 1, 2);
    plan.record(&logs, vec![Event::StepEnd(step)], vec![], vec![]).await;
    for call_id in &calls {
        let (call_id, name, effect) = (*call_id, String::from("rare"), Effect::Reversible);
        let start = ToolStart { call_id, name, input: json!({}), effect, marker: None };
        plan.record(&logs, vec![Event::ToolStart(start)], vec![], vec![]).await;
        let mut done = result(plan, call_id);
        if let Event::ToolComplete(done) = &mut done {
            done.status = ToolStatus::Complete;
        }
        let (path, content) = (format!("rare-{call_id}"), Some(String::from("text")));
        let proposal = Write::Propose(plan.new_proposal(scope));
        let writes = vec![Write::File { path, content, expected: 0 }, proposal];
        plan.record(&logs, vec![done], vec![], writes).await;
    }
    let [here, outside] = [plan.new_action(), plan.new_action()];
    ask!(plan, undo(&owner, ActionId::from(calls[0]), here.clone(), None::<IdempotencyClaim>));
    ask!(plan, begin_undo(&owner, ActionId::from(calls[1]), outside.clone(), None::<IdempotencyClaim>));
}

/// A run that no process can drive ends from its rows alone.
async fn end_by_force(plan: &mut ComparedPlan, scope: &Scope) {
    let (mut submission, id) = (plan.submission(), plan.ids.message());
    (submission.scope, submission.thread) = (scope.clone(), Target::New(plan.ids.thread()));
    (submission.once, submission.replay_only, submission.limits) = (None, false, UserLimits::default());
    submission.request.ask = RunInput::Say { id, text: "rare".into(), parent: None, parts: vec![] };
    let Some((made, _)) = ask!(plan, submit(submission.clone())) else { return };
    let owner = Principal::authenticated(scope.user.clone());
    let Some(run) = ask!(plan, run(&owner, made.run)) else { return };
    let end = ForcedEnd {
        status: RunStatus::Failed,
        error: Failure { code: plan.name(), message: plan.text() },
        message: plan.ids.message(),
        cancelled: json!("cancelled"),
        unknown: json!("unknown"),
    };
    ask!(plan, force_end(&run, end.clone()));
}

/// The deltas of a run that was pruned cannot be told.
async fn read_old_runs(plan: &mut ComparedPlan) {
    let runs: Vec<(Scope, RunId)> = plan.known.runs.iter().take(OLD_RUNS).cloned().collect();
    for (scope, id) in runs {
        let owner = Principal::authenticated(scope.user.clone());
        if let Some(row) = ask!(plan, run(&owner, id)) {
            ask!(plan, events(row.thread, Some(id), 0));
        }
    }
}
