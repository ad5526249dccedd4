//! Operations on threads and their messages.

use protocol::{Ids as _, MessageId, Seq, ThreadId, Usage};
use store::{
    EarlierAnswer, EarlierRun, NewThreadRow, PageOf, PageRows, ThreadEdit, ThreadFilter, ThreadImport,
    TreeRow,
};

use super::generator::ComparedPlan;
use super::recorded_runs::step_end;

impl ComparedPlan {
    /// A thread and its owner.
    pub(super) fn some_thread(&mut self) -> (protocol::Scope, ThreadId) {
        self.thing(|known| &known.threads, |ids| ids.thread())
    }

    /// A message of the thread if there is one, or sometimes another one.
    pub(super) fn message_in(&mut self, thread: ThreadId) -> MessageId {
        let of_thread: Vec<MessageId> =
            self.known.messages.iter().filter(|(of, _)| *of == thread).map(|(_, id)| *id).collect();
        if of_thread.is_empty() || self.once_in(15) {
            return self.pick(|known| &known.messages).map_or_else(|| self.ids.message(), |(_, id)| id);
        }
        self.one_of(&of_thread)
    }

    /// The tree of a thread. SQLite shows a text up to U+0000 there.
    pub(super) async fn tree(&mut self, thread: ThreadId, page: PageOf<Seq>) -> Vec<TreeRow> {
        self.note("tree", format!("{:?}", (thread, page)));
        let (file, server) = self.stores();
        let shortened = |mut page: PageRows<TreeRow>| {
            for row in &mut page.rows {
                let until_zero = |text: String| text.split(['\0', '\u{fffd}']).next().unwrap().to_owned();
                row.text = row.text.take().map(until_zero);
            }
            page
        };
        let one = file.tree(thread, page).await.map(shortened);
        let other = server.tree(thread, page).await.map(shortened);
        self.compare(one, other).map(|page| page.rows).unwrap_or_default()
    }

    fn thread_filter(&mut self) -> ThreadFilter {
        let archived = if self.once_in(3) { Some(self.random.bool()) } else { None };
        let pinned = if self.once_in(3) { Some(self.random.bool()) } else { None };
        ThreadFilter { archived, pinned }
    }
}

pub(super) async fn create(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let id = if plan.once_in(6) { plan.some_thread().1 } else { plan.ids.thread() };
    let title = plan.maybe(ComparedPlan::text);
    let persona = plan.maybe(ComparedPlan::name);
    let once = plan.once();
    let thread = NewThreadRow { id, title, persona };
    if let Some(row) = ask!(plan, create_thread(&scope, thread.clone(), once.clone())) {
        plan.known.threads.push((row.scope, row.id));
    }
}

pub(super) async fn import(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let id = if plan.once_in(4) { plan.some_thread().1 } else { plan.ids.thread() };
    let runs = (0..plan.random.usize(..4)).map(|_| earlier_run(plan)).collect::<Vec<_>>();
    let title = plan.maybe(ComparedPlan::text);
    let created_at = plan.maybe(ComparedPlan::some_moment);
    let actor = if plan.once_in(4) { Some(plan.name()) } else { None };
    let import = ThreadImport { id, title, created_at, runs, app_revision: "r".into(), actor };
    if ask!(plan, import_thread(&scope, import.clone())) == Some(true) {
        plan.known.threads.push((scope, id));
        for run in &import.runs {
            plan.known.messages.push((id, run.message));
        }
    }
}

/// A run that was made elsewhere.
pub(super) fn earlier_run(plan: &mut ComparedPlan) -> EarlierRun {
    let answer = plan.maybe(|plan| {
        let (mut step, _) = step_end(plan, 1, 0);
        step.usage = Usage::default();
        EarlierAnswer { message: plan.ids.message(), steps: vec![(step, vec![])] }
    });
    EarlierRun {
        id: plan.ids.run(),
        message: plan.ids.message(),
        text: plan.text(),
        parts: vec![],
        answer,
        at: plan.maybe(ComparedPlan::some_moment),
    }
}

pub(super) async fn change(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_thread();
    let principal = plan.principal_of(&scope);
    let change = ThreadEdit {
        title: plan.maybe(ComparedPlan::text),
        persona: plan.maybe(|plan| plan.maybe(ComparedPlan::name)),
        pinned: plan.maybe(|plan| plan.random.bool()),
        archived: plan.maybe(|plan| plan.random.bool()),
    };
    let once = plan.once();
    ask!(plan, change_thread(&principal, id, change.clone(), once.clone()));
}

pub(super) async fn delete(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_thread();
    let (principal, once) = (plan.principal_of(&scope), plan.once());
    ask!(plan, delete_thread(&principal, id, once.clone()));
    ask!(plan, is_deleted(id));
}

pub(super) async fn choose_head(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_thread();
    let (principal, message, once) = (plan.principal_of(&scope), plan.message_in(id), plan.once());
    ask!(plan, choose_head(&principal, id, message, once.clone()));
}

pub(super) async fn list(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_thread();
    let (filter, page) = (plan.thread_filter(), plan.page_from(Some(id)));
    match plan.random.u32(..4) {
        0 => drop(ask!(plan, threads(&scope, filter, page))),
        1 => {
            let principal = plan.principal_of(&scope);
            let apps = vec![scope.app.clone(), plan.app()];
            ask!(plan, threads_of_apps(&principal, apps.clone(), filter, page));
        }
        2 => {
            let ids: Vec<ThreadId> = (0..4).map(|_| plan.some_thread().1).collect();
            ask!(plan, threads_by_id(&scope, &ids));
        }
        _ => drop(ask!(plan, titles(&scope))),
    }
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (scope, id) = plan.some_thread();
    let principal = plan.principal_of(&scope);
    let Some(row) = ask!(plan, thread(&principal, id)) else { return };
    let leaf = row.head.unwrap_or_else(|| plan.message_in(id));
    let leaf = if plan.once_in(3) { plan.message_in(id) } else { leaf };
    let newest = plan.one_of(&[1, 3, 100]);
    let after = plan.maybe(|plan| plan.random.u64(..row.last_seq + 3));
    let page = plan.page(after);
    match plan.random.u32(..8) {
        0 => drop(ask!(plan, path(id, leaf, newest))),
        1 => drop(ask!(plan, messages(id, leaf, page))),
        2 => drop(ask!(plan, all_messages(id, row.last_seq, page))),
        3 => drop(plan.tree(id, page).await),
        4 => {
            ask!(plan, first_message(id));
            ask!(plan, is_named(id));
        }
        5 => {
            ask!(plan, head(id));
            let seq = plan.random.u64(..row.last_seq + 20_000);
            ask!(plan, is_skipped(id, seq));
        }
        6 => {
            ask!(plan, active_run(id));
            ask!(plan, queued_runs(id));
        }
        _ => drop(ask!(plan, unextracted(id, newest))),
    }
}
