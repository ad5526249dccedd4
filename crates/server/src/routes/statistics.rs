//! Reports over all users, and runs and jobs of all users. For holders of an admin key, within its app if it is for one.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{AdminRunView, JobView, Page, StatsReport, UsageTotals};
use serde::Deserialize;
use service::{RunsRequest, StatsRequest, UsageRequest};
use utoipa::IntoParams;

use crate::auth::Admin;
use crate::idempotency::IdempotencyKey;
use crate::path::{JobPath, RunPath};
use crate::query::{PageParams, Params, PeriodParams, number_or_zero};
use crate::routes::{Created, JsonReply};

/// The runs of a report.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsParams {
    /// The first moment or day (UTC); a day before the end when absent.
    from: Option<String>,
    /// The end, a moment or a day (UTC); now when absent.
    to: Option<String>,
    /// The seconds of one point, 60 to 86400; an hour when absent. A report has at most 2000 points.
    #[serde(default, deserialize_with = "number_or_zero")]
    #[param(minimum = 60, maximum = 86400)]
    step: Option<u32>,
    /// The grouping of the runs: `app`, `model` or `user`; all runs together when absent.
    by: Option<String>,
}

/// Counts runs by the time of their request, with their ends, usage, durations and errors.
#[utoipa::path(
    get,
    path = "/v1/admin/stats",
    params(StatsParams),
    responses((status = 200, description = "The points of the report", body = StatsReport))
)]
pub(super) async fn run_stats(
    Admin(caller): Admin,
    Params(params): Params<StatsParams>,
) -> JsonReply<StatsReport> {
    let StatsParams { from, to, step, by } = params;
    let request = StatsRequest { from, to, step, by };
    Ok(Answer(caller.service.run_stats(request, Some(&caller.principal)).await?))
}

/// The grouping of a report of usage.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageByParams {
    /// The grouping of the usage: some of `day`, `app`, `user` and `model`, with commas between them; `app` when
    /// absent.
    by: Option<String>,
}

/// Adds up the usage of all users.
#[utoipa::path(
    get,
    path = "/v1/admin/usage",
    params(PeriodParams, UsageByParams),
    responses((status = 200, description = "The report", body = UsageTotals))
)]
pub(super) async fn usage_totals(
    Admin(caller): Admin,
    Params(PeriodParams { from, to }): Params<PeriodParams>,
    Params(UsageByParams { by }): Params<UsageByParams>,
) -> JsonReply<UsageTotals> {
    let request = UsageRequest { from, to, by };
    Ok(Answer(caller.service.usage_totals(request, Some(&caller.principal)).await?))
}

/// The runs to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RunsParams {
    /// The status of the runs: `queued`, `running`, `waiting`, `completed`, `failed`, `cancelled`, `interrupted`, or
    /// `active` for the first three; all when absent.
    status: Option<String>,
    /// The app of the runs; all apps when absent.
    app: Option<String>,
}

/// Lists the runs of all users, newest first, without their messages. A page can be short, because the server reads a
/// bounded number of runs for it. The list ends where `next` is null.
#[utoipa::path(
    get,
    path = "/v1/admin/runs",
    params(RunsParams, PageParams),
    responses((status = 200, description = "A page of runs", body = Page<AdminRunView>))
)]
pub(super) async fn list_all_runs(
    Admin(caller): Admin,
    Params(RunsParams { status, app }): Params<RunsParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<AdminRunView>> {
    let request = RunsRequest { status, app };
    Ok(Answer(caller.service.runs_of_all(request, page.into(), Some(&caller.principal)).await?))
}

/// Cancels a run of any user. A run that has ended stays as it is.
#[utoipa::path(
    post,
    path = "/v1/admin/runs/{run}/cancel",
    params(RunPath),
    responses((status = 202, description = "The run, which is being cancelled", body = AdminRunView))
)]
pub(super) async fn cancel_any_run(
    Admin(caller): Admin,
    RunPath { run }: RunPath,
    IdempotencyKey(_): IdempotencyKey, // cancelling twice is cancelling once
) -> Created<AdminRunView> {
    Ok((StatusCode::ACCEPTED, Answer(caller.service.cancel_as_admin(run, Some(&caller.principal)).await?)))
}

/// Retries a dead job, from its first attempt on. A job that waits or runs stays as it is.
#[utoipa::path(
    post,
    path = "/v1/admin/jobs/{job}/retry",
    params(JobPath),
    responses((status = 200, description = "The job", body = JobView))
)]
pub(super) async fn retry_job(
    Admin(caller): Admin,
    JobPath { job }: JobPath,
    IdempotencyKey(_): IdempotencyKey, // a job that is ready stays so
) -> JsonReply<JobView> {
    Ok(Answer(caller.service.retry_job(job, Some(&caller.principal)).await?))
}
