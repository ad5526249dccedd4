//! Messages of webhooks: each is a row and a job, in the transaction of its event.

use crate::sql::params;
use jiff::Timestamp;
use protocol::{JobId, ProposalId, ProposalStatus, RunId, RunStatus, Scope, ThreadId};

use super::SqlStore;
use super::append::Batch;
use super::read::{find_first, maybe_id, text};
use crate::rules::notices::NewNotice;
use crate::rules::webhooks::WebhookNews;
use crate::{Error, WEBHOOK_JOB, WatchedApps, WebhookMessageRow};

impl SqlStore {
    pub(crate) async fn webhook_message(&self, job: JobId) -> Result<Option<WebhookMessageRow>, Error> {
        let statement = "SELECT webhook, body FROM webhook_messages WHERE job = ?1";
        let row =
            |row: &super::SqlRow<'_>| Ok(WebhookMessageRow { webhook: text(row, 0)?, body: text(row, 1)? });
        self.readers.read(move |conn| find_first(conn, statement, [job.bytes()], row)).await
    }
}

/// A notice that was written, as far as webhooks look at it.
pub(super) struct NoticedNews<'a> {
    pub(super) notice: &'a NewNotice,
    pub(super) scope: Scope,
    pub(super) number: u64,
    pub(super) status: Option<String>,
}

/// Adds a message and its job for each webhook that wants to hear of it.
pub(super) fn tell(batch: &Batch<'_>, watched: &WatchedApps, noticed: &NoticedNews<'_>) -> Result<(), Error> {
    let Some(webhooks) = watched.webhooks.get(&noticed.scope.app) else { return Ok(()) };
    let Some(news) = webhook_event(batch, noticed)? else { return Ok(()) };
    let (scope, event) = (&noticed.scope, news.event());
    for webhook in webhooks.iter().filter(|webhook| webhook.events.contains(&event)) {
        let job = watched.ids.job();
        let key = news.job_key(scope, &webhook.name);
        let statement =
            "INSERT INTO jobs (id, kind, key, app, user, thread, status, run_at, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'ready', ?7, ?7, ?7) ON CONFLICT (kind, key) DO NOTHING";
        let thread = news.thread();
        let added = batch.count_changed(
            statement,
            params![
                job.bytes(),
                WEBHOOK_JOB,
                key,
                scope.app.as_str(),
                scope.user.as_str(),
                thread.as_ref().map(ThreadId::bytes),
                batch.at()
            ],
        )?;
        if added > 0 {
            let at = Timestamp::from_millisecond(batch.at()).unwrap_or_default();
            let statement = "INSERT INTO webhook_messages (job, webhook, body) VALUES (?1, ?2, ?3)";
            batch.execute(statement, params![job.bytes(), webhook.name, news.body(scope, at)])?;
            batch.adds_work();
        }
    }
    Ok(())
}

/// The event that a notice is, if it is one.
fn webhook_event(batch: &Batch<'_>, noticed: &NoticedNews<'_>) -> Result<Option<WebhookNews>, Error> {
    let status = noticed.status.as_deref();
    Ok(match noticed.notice {
        NewNotice::Run { run, thread, .. } => status
            .and_then(RunStatus::parse)
            .filter(|status| status.is_terminal())
            .map(|status| WebhookNews::RunEnded { run: *run, thread: *thread, status }),
        NewNotice::Proposal(approval) if status == Some(ProposalStatus::Open.name()) => {
            approval_event(batch, *approval)?
        }
        NewNotice::Memories { memories, change, .. } => Some(WebhookNews::MemoryChanged {
            memories: memories.clone(),
            change: *change,
            number: noticed.number,
        }),
        NewNotice::Proposal(_)
        | NewNotice::Thread { .. }
        | NewNotice::Call(_)
        | NewNotice::Document { .. } => None,
    })
}

fn approval_event(batch: &Batch<'_>, approval: ProposalId) -> Result<Option<WebhookNews>, Error> {
    let statement = "SELECT run, thread, tool FROM proposals WHERE id = ?1";
    find_first(batch.conn(), statement, [approval.bytes()], |row| {
        let (run, thread) = (maybe_id::<RunId>(row, 0)?, maybe_id::<ThreadId>(row, 1)?);
        Ok(WebhookNews::ApprovalOpen { approval, run, thread, tool: text(row, 2)? })
    })
}
