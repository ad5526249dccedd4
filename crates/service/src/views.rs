//! Rows as the API shows them.

use protocol::{
    AdminRunView, ClientCallView, JobView, MemoryHistoryView, MemorySource, MemoryStatus, MemoryView,
    ProposalStatus, ProposalView, RunView, SaidView, ThreadView,
};
use store::{
    ClientCallRow, JobRow, MemoryHistory, MemoryOrigin, MemoryRow, ProposalRow, RunRow, Stop, ThreadRow,
};

/// The note about a source that was deleted.
const DELETED: &str = "deleted conversation";

pub(crate) fn thread(row: ThreadRow) -> ThreadView {
    ThreadView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        title: row.title,
        head_id: row.head,
        message_count: row.message_count,
        model: row.model,
        persona_id: row.persona,
        active_run_id: row.active_run,
        pinned: row.pinned,
        archived: row.archived,
        last_seq: row.last_seq,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

pub(crate) fn run(row: RunRow) -> RunView {
    RunView {
        id: row.id,
        thread_id: row.thread,
        app_id: row.scope.app.to_string(),
        message_id: row.message,
        status: row.status,
        model: row.model,
        error: row.error,
        usage: row.usage,
        cancel_requested: row.stop == Some(Stop::Cancelled),
        created_at: row.created_at,
        ended_at: row.ended_at,
    }
}

pub(crate) fn run_for_admin(row: RunRow) -> AdminRunView {
    AdminRunView {
        id: row.id,
        thread_id: row.thread,
        app_id: row.scope.app.to_string(),
        user_id: row.scope.user.to_string(),
        actor: row.actor,
        status: row.status,
        model: row.model,
        error: row.error,
        usage: row.usage,
        cancel_requested: row.stop == Some(Stop::Cancelled),
        created_at: row.created_at,
        ended_at: row.ended_at,
    }
}

pub(crate) fn job(row: JobRow) -> JobView {
    JobView {
        id: row.id,
        kind: row.kind,
        status: row.status,
        attempts: row.attempts,
        app_id: row.scope.app.to_string(),
        user_id: row.scope.user.to_string(),
        thread_id: row.thread,
        run_at: row.run_at,
        error: row.error,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

pub(crate) fn proposal(row: ProposalRow) -> ProposalView {
    ProposalView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        tool: row.tool,
        input: row.input,
        note: row.note,
        status: row.decision.map_or(ProposalStatus::Open, ProposalStatus::Decided),
        thread_id: row.thread,
        run_id: row.run,
        call_id: row.call,
        action_id: row.action,
        expires_at: row.expires_at,
        created_at: row.created_at,
        decided_at: row.decided_at,
    }
}

pub(crate) fn client_call(row: ClientCallRow) -> ClientCallView {
    ClientCallView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        name: row.tool,
        input: row.input,
        status: row.status,
        thread_id: row.thread,
        run_id: row.run,
        expires_at: row.expires_at,
        created_at: row.created_at,
        answered_at: row.answered_at,
    }
}

pub(crate) fn memory(row: MemoryRow) -> MemoryView {
    let written = || MemoryOrigin { at: Some(row.created_at), ..MemoryOrigin::default() };
    let said = match row.first_source.clone() {
        Some(source) => said_view(source, &row),
        None => SaidView { note: None, ..said_view(written(), &row) },
    };
    MemoryView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        text: row.text,
        kind: row.kind,
        status: row.status,
        version: row.version,
        access_count: row.access_count,
        last_accessed_at: row.last_accessed_at,
        created_at: row.created_at,
        updated_at: row.updated_at,
        valid_from: row.valid_from,
        valid_until: row.valid_until,
        superseded_by: row.superseded_by,
        source: MemorySource { by: row.source, said },
    }
}

/// The words that a memory rests on are forgotten with it; its own text stays, so that it can be restored.
fn said_view(source: MemoryOrigin, of: &MemoryRow) -> SaidView {
    let MemoryOrigin { thread, message, words, at } = source;
    let is_deleted = thread.is_none() && message.is_none() && words.is_none();
    SaidView {
        thread_id: thread,
        message_id: message,
        words: words.filter(|_| of.status != MemoryStatus::Forgotten),
        at,
        note: is_deleted.then(|| DELETED.to_owned()),
    }
}

pub(crate) fn memory_history(history: MemoryHistory) -> MemoryHistoryView {
    let MemoryHistory { memory: row, versions, sources } = history;
    MemoryHistoryView {
        versions,
        sources: sources.into_iter().map(|source| said_view(source, &row)).collect(),
        memory: memory(row),
    }
}
