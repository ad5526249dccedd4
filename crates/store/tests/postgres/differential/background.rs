//! Operations of the background and of admins: jobs, webhooks, notices, usage, reports, sweeps, and a restart.

use std::collections::HashMap;

use protocol::{AppId, Event, Ids as _, RunStatus, ThreadNamed, WebhookEvent};
use store::rules::statistics::{StatsKey, StatsQuery, UsageQuery};
use store::{NewJob, Retry, RunFilter, WatchedApps, WatchedWebhook, day};

use super::generator::ComparedPlan;
use super::recorded_runs::planned_call;

/// Seconds of a day.
const DAY: i64 = 86_400;

pub(super) async fn schedule(plan: &mut ComparedPlan) {
    let job = NewJob {
        id: plan.ids.job(),
        kind: plan.one_of(&["embed", "title"]),
        key: plan.name(),
        delay: std::time::Duration::from_millis(plan.random.u64(..5_000)),
    };
    if plan.random.bool() {
        ask!(plan, schedule(job.clone()));
    } else {
        let scope = plan.scope();
        ask!(plan, schedule_for(&scope, job.clone()));
    }
}

pub(super) async fn claim(plan: &mut ComparedPlan) {
    if let Some(Some(job)) = ask!(plan, claim()) {
        ask!(plan, webhook_message(job.id));
        plan.known.jobs.push(job);
    }
    ask!(plan, next_due());
}

pub(super) async fn end_job(plan: &mut ComparedPlan) {
    let Some(mut job) = plan.pick(|known| &known.jobs) else { return };
    if plan.once_in(10) {
        job.epoch += 1;
    }
    let spent = plan.spent();
    match plan.random.u32(..6) {
        0 | 1 => {
            let effect = job.thread.filter(|_| job.kind == "title" || plan.once_in(5));
            let effect = effect.map(|_| Event::ThreadNamed(ThreadNamed { title: plan.text() }));
            ask!(plan, complete(&job, effect.clone(), spent.clone()));
        }
        2 | 3 => {
            let at = plan.in_seconds(30);
            let retry = plan.one_of(&[Retry::At(at), Retry::Uncounted(at), Retry::Never]);
            let error = plan.text();
            ask!(plan, fail(&job, error.clone(), retry, spent.clone()));
        }
        4 => {
            let (call, bounds) = planned_call(plan);
            ask!(plan, reserve_for_job(&job, call, bounds));
        }
        _ => {
            let (apps, by) = (plan.maybe(|plan| vec![plan.app()]), plan.name());
            ask!(plan, retry_job(job.id, apps.clone(), by.clone()));
        }
    }
}

pub(super) async fn look_at_jobs(plan: &mut ComparedPlan) {
    let id = plan.pick(|known| &known.jobs).map(|job| job.id);
    let page = plan.page_from(id);
    if plan.random.bool() {
        ask!(plan, jobs(page));
    } else {
        let app = plan.app();
        ask!(plan, jobs_of_app(&app, page));
    }
}

/// Other webhooks from now on. Their jobs have ids that the stores draw.
pub(super) async fn watch_webhooks(plan: &mut ComparedPlan) {
    let webhook = WatchedWebhook { name: plan.name(), events: WebhookEvent::ALL.to_vec() };
    let webhooks: HashMap<AppId, Vec<WatchedWebhook>> =
        if plan.once_in(3) { HashMap::new() } else { HashMap::from([(plan.app(), vec![webhook])]) };
    plan.note("watch_webhooks", format!("{webhooks:?}"));
    let (file, server) = plan.stores();
    let [of_file, of_server] = plan.drawn_ids();
    file.watch_webhooks(WatchedApps { webhooks: webhooks.clone(), ids: of_file });
    server.watch_webhooks(WatchedApps { webhooks, ids: of_server });
}

pub(super) async fn look_at_notices(plan: &mut ComparedPlan) {
    let user = plan.user();
    let after = plan.maybe(|plan| plan.random.u64(..60));
    ask!(plan, notices(&user, after));
}

pub(super) async fn look_at_usage(plan: &mut ComparedPlan) {
    let scope = plan.scope();
    let principal = plan.principal_of(&scope);
    let (from_day, to_day) = (day(plan.in_seconds(-4 * DAY)), day(plan.now()));
    match plan.random.u32(..5) {
        0 => drop(ask!(plan, usage(&principal, from_day.clone(), to_day.clone()))),
        1 => drop(ask!(plan, usage_of_day(&scope, to_day.clone()))),
        2 => {
            let limits = protocol::UserLimits {
                runs_per_minute: Some(1),
                tokens_per_day: Some(1),
                max_running: Some(1),
                ..Default::default()
            };
            let at = plan.now();
            ask!(plan, used(&scope, limits, at));
        }
        3 => {
            let query = StatsQuery {
                from: plan.in_seconds(-2 * DAY),
                to: plan.in_seconds(DAY),
                step_ms: plan.one_of(&[1_000, 3_600_000, 1_000 * DAY]),
                by: plan.maybe(|plan| plan.one_of(&[StatsKey::App, StatsKey::Model, StatsKey::User])),
                apps: plan.maybe(|plan| vec![plan.app()]),
            };
            ask!(plan, run_stats(query.clone()));
        }
        _ => {
            let query = UsageQuery {
                from_day,
                to_day,
                by_day: plan.random.bool(),
                by_app: plan.random.bool(),
                by_user: plan.random.bool(),
                by_model: plan.random.bool(),
                apps: plan.maybe(|plan| vec![plan.app()]),
            };
            ask!(plan, usage_totals(query.clone()));
        }
    }
}

pub(super) async fn look_at_all_runs(plan: &mut ComparedPlan) {
    let statuses = [RunStatus::Running, RunStatus::Waiting, RunStatus::Completed, RunStatus::Failed];
    let filter = RunFilter {
        statuses: (0..plan.random.usize(..3)).map(|_| plan.one_of(&statuses)).collect(),
        apps: plan.maybe(|plan| vec![plan.app()]),
    };
    let id = plan.pick(|known| &known.runs).map(|(_, id)| id);
    let page = plan.page_from(id);
    ask!(plan, runs_of_all(filter.clone(), page));
}

/// Sweeps until nothing is left. With which of many things a sweep begins, and how many steps it takes, is up to a database.
macro_rules! sweep_until {
    ($plan:expr, $method:ident($($arg:expr),*)) => {{
        $plan.note(stringify!($method), format!("{:?}", ($(&$arg,)*)));
        let (file, server) = $plan.stores();
        while file.$method($($arg),*).await.unwrap() {}
        while server.$method($($arg),*).await.unwrap() {}
        $plan.compare(Ok(()), Ok(()));
    }};
}

/// Removes the rows that a server removes from time to time.
pub(super) async fn sweep(plan: &mut ComparedPlan) {
    let (deleted, forgotten) = (plan.some_moment(), plan.some_moment());
    match plan.random.u32(..6) {
        0 | 1 => sweep_until!(plan, purge(deleted, forgotten)),
        2 => sweep_until!(plan, prune(deleted)),
        3 => drop(ask!(plan, expire_waiting())),
        4 => sweep_until!(plan, erase(deleted)),
        _ => {
            let app = AppId::new(plan.name());
            ask!(plan, note_missing(&app));
            ask!(plan, missing_apps());
            if plan.random.bool() {
                ask!(plan, note_found(&app));
            }
            ask!(plan, note_served_revision(&app, "r"));
            ask!(plan, keep_revision(&app, "r", vec![1, 0, 255]));
            ask!(plan, note_served_revision(&app, "r"));
            ask!(plan, files_of_revision(&app, "r"));
            // Its answer is about the space of a file.
            let (file, server) = plan.stores();
            file.tidy().await.unwrap();
            server.tidy().await.unwrap();
        }
    }
    if plan.once_in(3) {
        ask!(plan, verify_ledger());
    }
}

/// The process ends and starts again, sometimes with the machine; then it takes over what was under way.
pub(super) async fn restart(plan: &mut ComparedPlan) {
    let boot = if plan.once_in(3) { "other boot" } else { "first boot" };
    plan.note("restart", boot);
    plan.open_again(boot);
    plan.known.jobs.clear();
    ask!(plan, adopt());
}

pub(super) async fn adopt(plan: &mut ComparedPlan) {
    ask!(plan, adopt());
}
