//! Operations on memories: their versions, what was forgotten, what is purged, and what jobs extract.

use protocol::{Ids as _, MemoryId, ThreadId};
use store::{
    JobUsage, MAX_MEMORY_BYTES, MemoryChange, MemoryEdit, MemoryExtraction, MemoryOrigin, MemoryPurge,
    MemoryStatus, NewMemoryRow, PurgedWords, SnapshotLine,
};

use super::generator::ComparedPlan;

const SOURCES: &[&str] = &["user", "asked", "extracted", "tool", "import"];
const STATUSES: &[MemoryStatus] = &[
    MemoryStatus::Active,
    MemoryStatus::Forgotten,
    MemoryStatus::Removed,
    MemoryStatus::Expired,
    MemoryStatus::Superseded,
];

impl ComparedPlan {
    pub(super) fn new_memory(&mut self, source: &'static str) -> NewMemoryRow {
        let id = if self.once_in(30) {
            self.thing(|known| &known.memories, |ids| ids.memory()).1
        } else {
            self.ids.memory()
        };
        NewMemoryRow {
            id,
            text: self.bounded_text(MAX_MEMORY_BYTES),
            kind: self.one_of(&["fact", "place", "family/child", "family/dog", "", "it's"]).to_owned(),
            source,
            sources: (0..self.random.usize(..3)).map(|_| self.origin()).collect(),
            valid_from: self.maybe(ComparedPlan::some_moment),
            created_at: if self.once_in(6) { Some(self.some_moment()) } else { None },
        }
    }

    fn origin(&mut self) -> MemoryOrigin {
        let (_, thread) = self.some_thread();
        let message = self.maybe(|plan| plan.message_in(thread));
        MemoryOrigin {
            thread: self.maybe(|_| thread),
            message,
            words: self.maybe(ComparedPlan::countable_text),
            at: self.maybe(ComparedPlan::some_moment),
        }
    }

    fn some_memory(&mut self) -> (protocol::Scope, MemoryId) {
        self.thing(|known| &known.memories, |ids| ids.memory())
    }

    pub(super) fn spent(&mut self) -> Option<JobUsage> {
        self.maybe(|plan| JobUsage { model: plan.model(), usage: plan.usage() })
    }

    fn extracted_change(&mut self, versions: &[(MemoryId, u64)]) -> MemoryChange {
        let version = |plan: &mut Self| {
            let (id, version) = plan.one_of(versions);
            (id, if plan.once_in(8) { version + 1 } else { version })
        };
        if versions.is_empty() || self.once_in(3) {
            return MemoryChange::Create(self.new_memory("extracted"));
        }
        let (text, kind) = (self.countable_text(), self.one_of(&["fact", "family/cat"]).to_owned());
        match self.random.u32(..3) {
            0 => {
                let (id, version) = version(self);
                MemoryChange::Update { id, version, text, kind, source: self.origin() }
            }
            1 => {
                let (into, from) = (version(self), vec![version(self)]);
                MemoryChange::Merge { into, from, text, kind, source: self.maybe(ComparedPlan::origin) }
            }
            _ => {
                let (id, version) = version(self);
                MemoryChange::Remove { id, version, source: self.origin() }
            }
        }
    }
}

pub(super) async fn add(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let source = plan.one_of(SOURCES);
    let (memory, once) = (plan.new_memory(source), plan.once());
    if plan.once_in(10)
        && let Some(once) = once.clone()
    {
        ask!(plan, begin_import(&scope, once.clone()));
    }
    if let Some(row) = ask!(plan, add_memory(&scope, memory.clone(), once.clone())) {
        plan.known.memories.push((scope, row.id));
    }
}

pub(super) async fn edit(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_memory();
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    let edit =
        MemoryEdit { text: plan.maybe(ComparedPlan::countable_text), kind: plan.maybe(ComparedPlan::name) };
    ask!(plan, edit_memory(&principal, id, edit.clone(), once.clone()));
}

pub(super) async fn forget_or_restore(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_memory();
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    if plan.random.bool() {
        ask!(plan, forget_memory(&principal, id, once.clone()));
        ask!(plan, words_of_memory(&principal, id));
    } else {
        ask!(plan, restore_memory(&principal, id, once.clone()));
    }
    if plan.once_in(6) {
        let (off, once) = (plan.random.bool(), plan.once());
        ask!(plan, set_memory_off(&scope, off, once.clone()));
        ask!(plan, memory_is_off(&scope));
    }
}

pub(super) async fn purge(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_memory();
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    let at = plan.now();
    let purge = MemoryPurge {
        shadows: (0..plan.random.usize(..3)).map(|_| PurgedWords { shadow: plan.bytes(8), at }).collect(),
        actions: plan.pick(|known| &known.actions).map(|(_, id)| id).into_iter().collect(),
    };
    if plan.random.bool() {
        ask!(plan, forget_memory(&principal, id, None::<store::IdempotencyClaim>));
    }
    ask!(plan, purge_memory(&principal, id, purge.clone(), once.clone()));
    ask!(plan, hidden_words(&scope));
    if plan.once_in(3) {
        let actions: Vec<_> = plan.pick(|known| &known.actions).map(|(_, id)| id).into_iter().collect();
        ask!(plan, erase_actions(&scope, actions.clone()));
        ask!(plan, erasures(&scope));
    }
}

/// Writes the findings of a job in messages. The job is one that was claimed.
pub(super) async fn extract(plan: &mut ComparedPlan) {
    let Some(job) = plan.pick(|known| &known.jobs) else { return };
    let page = store::PageOf { after: None, limit: 50 };
    let active = ask!(plan, memories(&job.scope, Some(MemoryStatus::Active), page))
        .map(|page| page.rows)
        .unwrap_or_default();
    let versions: Vec<(MemoryId, u64)> = active.iter().map(|row| (row.id, row.version)).collect();
    let messages = match job.thread {
        Some(thread) => ask!(plan, unextracted(thread, 5)).unwrap_or_default(),
        None => vec![],
    };
    let place = |message: Option<&store::MessageRow>| message.map_or(0, |message| message.seq);
    let heads = plan.recall_heads(&job.scope).await;
    let is_old = plan.once_in(5);
    let changes = (0..plan.random.usize(..4)).map(|_| plan.extracted_change(&versions)).collect();
    let extraction = MemoryExtraction {
        from: place(messages.first()),
        through: place(messages.last()),
        changes,
        limit: if plan.once_in(4) { Some(plan.random.usize(1..20)) } else { None },
        per_subject: plan.once_in(4),
        spent: plan.spent(),
        as_of: None,
    };
    plan.note("extract", format!("{:?}", (&job, &extraction, is_old)));
    let (file, server) = plan.stores();
    // Each side has its own numbers of changes.
    let [one, other] = heads.map(|head| {
        let as_of = Some(if is_old { 0 } else { head });
        MemoryExtraction { as_of, ..extraction.clone() }
    });
    let (one, other) = (file.extract(&job, one).await, server.extract(&job, other).await);
    if let Some(made) = plan.compare(one, other) {
        plan.known.memories.extend(made.created.into_iter().map(|id| (job.scope.clone(), id)));
    }
}

pub(super) async fn snapshot(plan: &mut ComparedPlan) {
    let (scope, thread): (_, ThreadId) = plan.some_thread();
    let scope = plan.near(scope);
    let line = |plan: &mut ComparedPlan| {
        let (_, memory) = plan.some_memory();
        SnapshotLine { source: memory.to_string(), at: plan.some_moment(), text: plan.text() }
    };
    let lines: Vec<SnapshotLine> = (0..plan.random.usize(..4)).map(|_| line(plan)).collect();
    ask!(plan, keep_snapshot(&scope, thread, lines.clone()));
    ask!(plan, snapshot(&scope, thread));
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_memory();
    let principal = plan.principal_of(&scope);
    let ids: Vec<MemoryId> = (0..4).map(|_| plan.some_memory().1).collect();
    match plan.random.u32(..8) {
        0 => drop(ask!(plan, memory(&principal, id))),
        1 => drop(ask!(plan, memory_history(&principal, id))),
        2 => {
            let status = plan.maybe(|plan| plan.one_of(STATUSES));
            let page = plan.page_from(Some(id));
            ask!(plan, memories(&scope, status, page));
        }
        3 => drop(ask!(plan, active_memories(&scope, 5))),
        4 => drop(ask!(plan, memories_by_id(&scope, &ids))),
        5 => drop(ask!(plan, forgotten_among(&scope, &ids))),
        6 => drop(ask!(plan, tombstones(&scope))),
        _ => drop(ask!(plan, words_of_memory(&principal, id))),
    }
}
