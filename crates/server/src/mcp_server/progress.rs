//! Progress notifications of a call that waits for a run.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Event, ProposalId, RunId, Seq, Stored};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use service::Service;
use tokio::time::Instant;

use super::McpCaller;
use super::report::beginning;

/// The shortest time between two notifications about text.
const TEXT_PAUSE: Duration = Duration::from_millis(250);

/// Bytes of text in a notification.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Tells a client how its run goes on, if it wants to know.
pub(super) struct RunProgress {
    token: Option<ProgressToken>,
    /// Notifications so far; each one's number.
    count: u32,
    /// The last event that was looked at.
    seen: Option<Seq>,
    /// Text that was not told yet.
    text: String,
    told_at: Option<Instant>,
}

impl RunProgress {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { token, count: 0, seen: None, text: String::new(), told_at: None }
    }

    /// Tells one thing.
    pub(super) async fn tell(&mut self, context: &RequestContext<RoleServer>, message: &str) {
        let Some(token) = &self.token else { return };
        self.count += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.count));
        let message = beginning(message, MAX_MESSAGE_BYTES);
        // A client that has gone reads its run later.
        drop(context.peer.notify_progress(progress.with_message(message)).await);
    }

    /// Tells what the run does, for as long as it is waited for. Never ends by itself.
    pub(super) async fn follow(
        &mut self,
        (service, caller): (&Service, &McpCaller),
        run: RunId,
        context: &RequestContext<RoleServer>,
    ) {
        if self.token.is_some()
            && let Ok(Some(follower)) = service.follow_run(&caller.principal, run, self.seen).await
        {
            let mut follower = follower.by_facts();
            while let Ok(Some(batch)) = follower.next().await {
                for event in batch {
                    self.tell_event(&event, context).await;
                }
            }
        }
        std::future::pending().await
    }

    async fn tell_event(&mut self, stored: &Arc<Stored>, context: &RequestContext<RoleServer>) {
        self.seen = Some(stored.seq);
        match Event::read(&stored.kind, &stored.body) {
            Ok(Event::TextDelta(piece)) => {
                self.text.push_str(&piece.delta);
                let is_due = self.told_at.is_none_or(|told| told.elapsed() >= TEXT_PAUSE);
                if is_due || self.text.len() >= MAX_MESSAGE_BYTES {
                    let text = std::mem::take(&mut self.text);
                    self.told_at = Some(Instant::now());
                    self.tell(context, &text).await;
                }
            }
            Ok(Event::ToolStart(call)) => self.tell(context, &format!("calls the tool {}", call.name)).await,
            Ok(Event::StepReset(_)) => {
                self.text.clear();
                self.tell(context, "begins the answer again").await;
            }
            Ok(Event::ProposalOpen(open)) => {
                self.tell(context, &format!("waits for an approval of the tool {}", open.name)).await;
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Waits until an approval of a run is decided, by whomever.
pub(super) async fn until_decided(
    (service, caller): (&Service, &McpCaller),
    run: RunId,
    proposal: ProposalId,
) {
    if let Ok(Some(follower)) = service.follow_run(&caller.principal, run, None).await {
        let mut follower = follower.by_facts();
        while let Ok(Some(batch)) = follower.next().await {
            let is_decided = |stored: &Arc<Stored>| match Event::read(&stored.kind, &stored.body) {
                Ok(Event::ProposalClosed(closed)) => closed.proposal_id == proposal,
                Ok(_) | Err(_) => false,
            };
            if batch.iter().any(is_decided) {
                return;
            }
        }
    }
    std::future::pending().await
}
