//! After the chaos: nothing goes wrong any more, and all has to come to rest by itself.

use std::time::Duration;

use protocol::{Clock, SystemClock};
use tokio::time::Instant;

use crate::database::TrialData;
use crate::server::ProcessUsage;
use crate::stage::TortureError;
use crate::world::TrialNode;

/// A job that is due within these milliseconds is under way; one that is due later is at rest.
const SOON_MS: i64 = 40_000;

/// How long a server may take to give back what it held.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the work that has not come to rest. A run that waits for a decision is at rest.
pub(crate) async fn under_way(data: &TrialData) -> Result<Vec<String>, TortureError> {
    let soon = SystemClock.now().as_millisecond() + SOON_MS;
    let looks = [
        ("runs", "SELECT count(*) FROM runs WHERE status IN ('queued', 'running')".to_owned()),
        (
            "jobs",
            format!(
                "SELECT count(*) FROM jobs
                    WHERE status = 'running' OR (status = 'ready' AND run_at <= {soon})"
            ),
        ),
        ("actions", "SELECT count(*) FROM actions WHERE status = 'started'".to_owned()),
    ];
    let mut left = Vec::new();
    for (what, statement) in looks {
        let count = data.number(statement).await?;
        if count > 0 {
            left.push(format!("{count} {what}"));
        }
    }
    Ok(left)
}

/// Whether a run is being worked at. One that waits for a client is not, nor are those behind it.
pub(crate) async fn is_running(data: &TrialData) -> Result<bool, TortureError> {
    Ok(data.number("SELECT count(*) FROM runs WHERE status = 'running'".into()).await? > 0)
}

/// Returns the usage of each node once it no longer gives anything back. There may be no baseline yet.
pub(crate) async fn usage_at_rest(nodes: &[TrialNode], baseline: &[ProcessUsage]) -> Vec<ProcessUsage> {
    let begun = Instant::now();
    loop {
        let usage: Vec<ProcessUsage> = nodes.iter().filter_map(|node| node.process.usage()).collect();
        let mut pairs = usage.iter().zip(baseline);
        if pairs.all(|(usage, baseline)| usage.open_files <= baseline.open_files)
            || begun.elapsed() > PATIENCE
        {
            return usage;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
