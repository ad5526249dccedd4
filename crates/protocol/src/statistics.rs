//! Statistics about runs and usage, as admins read them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Failure, RunId, RunStatus, ThreadId, Usage};

/// Runs over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsReport {
    /// The points by time, then by key. Times without a run are left out.
    pub data: Vec<StatsPoint>,
    /// The cursor, which is always null: a report is one page.
    pub next: Option<String>,
}

/// The runs that were requested within one step of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsPoint {
    /// The beginning of the step.
    pub at: Timestamp,
    /// The app, the model or the user, if the report is by one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The number of all runs. Runs without an end are in no other number.
    pub runs: u64,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub interrupted: u64,
    #[serde(flatten)]
    pub usage: Usage,
    pub latency_ms: Latencies,
    /// Failed runs by the code of their error.
    pub errors: BTreeMap<String, u64>,
}

/// Milliseconds from the request of a completed run to its end: the time that so many percent of the runs did not
/// exceed. Null without a completed run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
}

/// The usage of all users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageTotals {
    /// The entries by day, app, user and model, as far as the report is by these.
    pub data: Vec<UsageTotal>,
    /// The cursor, which is always null: a report is one page.
    pub next: Option<String>,
    /// The sum of all entries.
    pub total: Usage,
}

/// The usage of all model calls with the same values of these fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotal {
    /// The day (UTC), such as `2026-11-15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of model calls.
    pub calls: u64,
    #[serde(flatten)]
    pub usage: Usage,
}

/// A run of any user, without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdminRunView {
    pub id: RunId,
    pub thread_id: ThreadId,
    pub app_id: String,
    pub user_id: String,
    /// The holder of the acting key that spoke for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    pub status: RunStatus,
    pub model: Option<String>,
    pub error: Option<Failure>,
    pub usage: Usage,
    pub cancel_requested: bool,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}
