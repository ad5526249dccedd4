//! Other servers on the same database: what they change that this one has to look at.
//!
//! The commits of other nodes say what they have changed, so nothing is lost as long as this node takes commits in.
//! Changes that a node did not announce before it died are found by looking from time to time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol::ThreadId;
use store::NodeNews;
use tokio::time::MissedTickBehavior;

use super::Agent;
use crate::mcp;

/// How often runs that were told to stop, threads that were deleted, and jobs that other nodes left are looked for. A job is
/// for the node that adds it, as long as that has room: if all looked at once, all but one would do so in vain.
const LOOK: Duration = Duration::from_secs(2);

/// Follows the other nodes until the task is abandoned at shutdown.
pub(super) async fn follow_nodes(agent: Agent) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_jobs = false;
    loop {
        let news = tokio::select! {
            news = agent.world.bus.node_news() => news,
            _ = look.tick() => {
                if std::mem::take(&mut has_jobs) {
                    agent.world.notice_jobs();
                }
                agent.read_missed_news().await
            }
        };
        has_jobs |= news.work;
        if let Err(error) = agent.apply_node_news(news).await {
            tracing::warn!(%error, "the changes of other nodes could not be read; the next look reads them");
        }
    }
}

impl Agent {
    /// News that this node may have missed: runs of this node that were told to stop, and threads that were deleted.
    async fn read_missed_news(&self) -> NodeNews {
        let mut threads = self.world.store.told_to_stop().await.unwrap_or_default();
        threads.extend(self.closing_threads().iter().copied());
        NodeNews { threads, ..NodeNews::default() }
    }

    async fn apply_node_news(&self, news: NodeNews) -> Result<(), store::Error> {
        let NodeNews { threads, access, mcp, work: _, orphans } = news;
        if access {
            self.world.access_changed.send_modify(|changes| *changes += 1);
        }
        for thread in BTreeSet::from_iter(threads) {
            self.look_at(thread).await?;
        }
        if orphans && self.world.is_ready() {
            self.take_over().await?;
            self.world.notice_jobs();
        }
        if mcp {
            let world = Arc::clone(&self.world);
            self.world.tasks.spawn(async move {
                if let Err(error) = mcp::read_pinned_tools(&world).await {
                    tracing::error!(%error, "the approved tools of MCP servers could not be read");
                }
            });
        }
        Ok(())
    }

    /// Looks at a thread whose run was told to stop or can go on, or that was deleted.
    async fn look_at(&self, thread: ThreadId) -> Result<(), store::Error> {
        let active = self.world.store.active_run(thread).await?;
        if let Some(row) = &active
            && row.owner == self.world.store.node()
        {
            if let Some(stop) = row.stop {
                self.stop(row.id, stop);
            }
            self.take_up(thread).await?;
        }
        if self.world.store.is_deleted(thread).await? {
            self.close_when_ended(thread);
        }
        // Its rows may be gone by now.
        if active.is_none() {
            self.close_if_deleted(thread);
        }
        Ok(())
    }
}
