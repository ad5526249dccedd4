//! After the chaos: nothing goes wrong any more, and all has to come to rest by itself.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::database::open_database;
use crate::server::{ProcessUsage, ServerProcess};
use crate::stage::TortureError;

/// What may be under way, and how many there are of it. A run that waits for somebody's yes is at rest.
const UNDER_WAY: [(&str, &str); 3] = [
    ("runs", "SELECT count(*) FROM runs WHERE status IN ('queued', 'running')"),
    (
        "jobs",
        "SELECT count(*) FROM jobs WHERE status = 'running' OR (status = 'ready' AND run_at <= unixepoch('subsec') * 1000 + 40000)",
    ),
    ("actions", "SELECT count(*) FROM actions WHERE status = 'started'"),
];

/// How long a server may take to give back what it held.
const PATIENCE: Duration = Duration::from_secs(10);

/// What has not come to rest.
pub(crate) fn under_way(data: &Path) -> Result<Vec<String>, TortureError> {
    let conn = open_database(data)?;
    let mut left = Vec::new();
    for (what, query) in UNDER_WAY {
        let count: i64 = conn.query_row(query, [], |row| row.get(0))?;
        if count > 0 {
            left.push(format!("{count} {what}"));
        }
    }
    Ok(left)
}

/// Whether a run is being worked at. One that waits for somebody is not, nor are those behind it.
pub(crate) fn is_running(data: &Path) -> Result<bool, TortureError> {
    Ok(open_database(data)?.query_row(
        "SELECT EXISTS (SELECT 1 FROM runs WHERE status = 'running')",
        [],
        |row| row.get(0),
    )?)
}

/// What the server holds once it no longer gives anything back.
pub(crate) async fn settled(server: &ServerProcess, baseline: Option<ProcessUsage>) -> Option<ProcessUsage> {
    let begun = Instant::now();
    loop {
        let usage = server.usage()?;
        if baseline.is_none_or(|baseline| usage.open_files <= baseline.open_files)
            || begun.elapsed() > PATIENCE
        {
            return Some(usage);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
