//! Reads everything that a plan has made, once it is over.

use std::collections::BTreeSet;

use protocol::{
    AppId, CallId, DocumentId, ImageId, JobId, KeyId, MemoryId, MemoryStatus, Principal, ProposalId,
    RecordId, RunId, Scope, SessionId, ThreadId,
};
use store::{ActionFilter, PageOf, RecordQuery, RunFilter, ThreadFilter, TimeCursor};

use super::generator::ComparedPlan;

/// More than a plan makes of anything.
const ALL: usize = 5_000;

fn all<I>() -> PageOf<TimeCursor<I>> {
    PageOf { after: None, limit: ALL }
}

fn counted() -> PageOf<u64> {
    PageOf { after: None, limit: ALL }
}

pub(super) async fn compare_everything(plan: &mut ComparedPlan) {
    let named: BTreeSet<(AppId, protocol::UserId)> = {
        let known = &plan.known;
        let of = |scope: &Scope| (scope.app.clone(), scope.user.clone());
        let threads = known.threads.iter().map(|(scope, _)| of(scope));
        threads.chain(known.memories.iter().map(|(scope, _)| of(scope))).collect()
    };
    for (app, user) in named {
        look_at_scope(plan, &Scope { app, user }).await;
    }
    look_at_threads(plan).await;
    ask!(plan, jobs(all::<JobId>()));
    ask!(plan, keys(None::<Vec<AppId>>, all::<KeyId>()));
    let now = plan.now();
    ask!(plan, sessions(None::<Vec<AppId>>, all::<SessionId>(), now));
    ask!(plan, admin_audit(None::<Vec<AppId>>, counted()));
    ask!(plan, runs_of_all(RunFilter::default(), all::<RunId>()));
    ask!(plan, verify_ledger());
}

async fn look_at_scope(plan: &mut ComparedPlan, scope: &Scope) {
    ask!(plan, threads(scope, ThreadFilter::default(), all::<ThreadId>()));
    ask!(plan, memories(scope, None::<MemoryStatus>, all::<MemoryId>()));
    ask!(plan, actions(scope, ActionFilter::default(), counted()));
    ask!(plan, proposals(scope, false, all::<ProposalId>()));
    ask!(plan, client_calls(scope, false, all::<CallId>()));
    ask!(plan, documents(scope, all::<DocumentId>()));
    ask!(plan, images(scope, all::<ImageId>()));
    ask!(plan, personas(scope, counted()));
    ask!(plan, pins(scope, None::<ThreadId>));
    ask!(plan, files(scope));
    ask!(plan, credentials(scope));
    plan.recall_changes(scope, Some("model")).await;
    ask!(plan, hidden_words(scope));
    ask!(plan, notices(&scope.user, Some(0)));
    for kind in ["note", "task", "it's odd"] {
        ask!(plan, records(scope, kind, RecordQuery::default(), all::<RecordId>()));
    }
}

async fn look_at_threads(plan: &mut ComparedPlan) {
    let threads: BTreeSet<_> = plan.known.threads.iter().map(|(_, id)| *id).collect();
    for id in threads {
        ask!(plan, all_messages(id, u64::from(u32::MAX), counted()));
        ask!(plan, summaries(id, true));
        let mut after = 0;
        while let Some(events) = ask!(plan, events(id, None::<RunId>, after)) {
            after = events.last().map_or(after, |event| event.seq);
            if events.is_empty() {
                break;
            }
        }
    }
    let runs: Vec<_> = plan.known.runs.clone();
    for (scope, id) in runs {
        ask!(plan, run(&Principal::authenticated(scope.user.clone()), id));
    }
}
