//! Reports about all users, and runs and jobs of all users, as admins ask for them.

use agent::RunCanceller;
use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use protocol::{
    AdminRunView, AppId, JobId, JobView, Page, Principal, RunId, RunStatus, StatsReport, Usage, UsageTotals,
};
use store::RunFilter;
use store::rules::statistics::{
    MAX_STATS_POINTS, MAX_STATS_RUNS, MAX_USAGE_GROUPS, MAX_USAGE_ROWS_ADDED, StatsKey, StatsQuery, TooLarge,
    UsageQuery,
};

use crate::checks::{self, PageQuery};
use crate::keys::name_of;
use crate::{Error, Service, usage, views};

/// The shortest and the longest step of a report, in seconds.
const MIN_STEP: i64 = 60;
const MAX_STEP: i64 = 24 * 60 * 60;

/// The default step and length of a report, in seconds.
const DEFAULT_STEP: i64 = 60 * 60;
const DEFAULT_RANGE: i64 = 24 * 60 * 60;

/// A report of runs, as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsRequest {
    pub from: Option<String>,
    pub to: Option<String>,
    /// In seconds.
    pub step: Option<u32>,
    pub by: Option<String>,
}

/// A report of usage, as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRequest {
    pub from: Option<String>,
    pub to: Option<String>,
    pub by: Option<String>,
}

/// A list of runs, as it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunsRequest {
    pub status: Option<String>,
    pub app: Option<String>,
}

impl Service {
    /// Runs by time, in the apps of the admin `by`.
    pub async fn run_stats(
        &self,
        request: StatsRequest,
        by: Option<&Principal>,
    ) -> Result<StatsReport, Error> {
        let query = StatsQuery { apps: only_apps(by), ..stats_query(&request, self.now())? };
        // One after the other: the readers of the database are for users.
        let _turn = self.report_turn().await?;
        let data = self.store().run_stats(query).await?.map_err(|too_large| match too_large {
            TooLarge::Points => Error::invalid(
                "step",
                format!(
                    "the report would have more than {MAX_STATS_POINTS} points; choose a longer step, a shorter \
                     time, or no `by`"
                ),
            ),
            TooLarge::Rows => Error::invalid(
                "from",
                format!("the server had more than {MAX_STATS_RUNS} runs in this time; choose a shorter time"),
            ),
        })?;
        Ok(StatsReport { data, next: None })
    }

    /// Usage of all users, in the apps of the admin `by`.
    pub async fn usage_totals(
        &self,
        request: UsageRequest,
        by: Option<&Principal>,
    ) -> Result<UsageTotals, Error> {
        let today = Offset::UTC.to_datetime(self.now()).date();
        let query = UsageQuery { apps: only_apps(by), ..usage_query(&request, today)? };
        let _turn = self.report_turn().await?;
        let data = self.store().usage_totals(query).await?.map_err(|too_large| match too_large {
            TooLarge::Points => Error::invalid(
                "by",
                format!(
                    "the report would have more than {MAX_USAGE_GROUPS} entries; name fewer fields in `by`"
                ),
            ),
            TooLarge::Rows => Error::invalid(
                "from",
                format!(
                    "more than {MAX_USAGE_ROWS_ADDED} rows of usage are in these days; choose fewer days"
                ),
            ),
        })?;
        let mut total = Usage::default();
        for row in &data {
            total += row.usage;
        }
        Ok(UsageTotals { data, next: None, total })
    }

    async fn report_turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Error> {
        self.shared.reporting.acquire().await.map_err(|_| Error::Internal)
    }

    /// Runs of all users, newest first, in the apps of the admin `by`.
    pub async fn runs_of_all(
        &self,
        request: RunsRequest,
        page: PageQuery,
        by: Option<&Principal>,
    ) -> Result<Page<AdminRunView>, Error> {
        let statuses = request.status.as_deref().map(run_statuses).transpose()?.unwrap_or_default();
        let apps = match (request.app, only_apps(by)) {
            (None, apps) => apps,
            (Some(app), None) => Some(vec![AppId::new(app)]),
            // An app outside the key of the admin is treated as missing.
            (Some(app), Some(apps)) => Some(apps.into_iter().filter(|own| own.as_str() == app).collect()),
        };
        let found = self.store().runs_of_all(RunFilter { statuses, apps }, page.by_time()?).await?;
        let next = found.next.map(|place| checks::time_cursor(place.at, place.id));
        Ok(Page { data: found.runs.into_iter().map(views::run_for_admin).collect(), next })
    }

    /// Cancels a run of any user, in the apps of the admin `by`. A run that has ended stays as it is.
    pub async fn cancel_as_admin(&self, run: RunId, by: Option<&Principal>) -> Result<AdminRunView, Error> {
        let by = RunCanceller::Admin { only_apps: only_apps(by), by: name_of(by) };
        Ok(views::run_for_admin(self.agent.cancel(run, by).await?))
    }

    /// Makes a dead job of any user ready, in the apps of the admin `by`.
    pub async fn retry_job(&self, job: JobId, by: Option<&Principal>) -> Result<JobView, Error> {
        let row = self.store().retry_job(job, only_apps(by), name_of(by)).await?;
        row.map(views::job).ok_or(Error::NotFound { what: "job" })
    }
}

fn only_apps(by: Option<&Principal>) -> Option<Vec<AppId>> {
    by.and_then(Principal::apps).map(<[AppId]>::to_vec)
}

fn stats_query(request: &StatsRequest, now: Timestamp) -> Result<StatsQuery, Error> {
    let step = i64::from(request.step.unwrap_or(DEFAULT_STEP as u32));
    if !(MIN_STEP..=MAX_STEP).contains(&step) {
        return Err(Error::invalid("step", format!("must be from {MIN_STEP} to {MAX_STEP} seconds")));
    }
    let to = request.to.as_deref().map(|text| moment("to", text)).transpose()?.unwrap_or(now);
    let from = match &request.from {
        Some(text) => moment("from", text)?,
        None => to.checked_sub(SignedDuration::from_secs(DEFAULT_RANGE)).unwrap_or(Timestamp::MIN),
    };
    if from >= to {
        return Err(Error::invalid("from", format!("must be before the end, {to}")));
    }
    let steps = (to.as_second() - from.as_second()) / step;
    if steps > MAX_STATS_POINTS as i64 {
        return Err(Error::invalid(
            "step",
            format!("the time has {steps} steps, and {MAX_STATS_POINTS} are allowed; choose a longer step"),
        ));
    }
    let by = request.by.as_deref().map(stats_key).transpose()?;
    Ok(StatsQuery { from, to, step_ms: step * 1_000, by, apps: None })
}

fn stats_key(name: &str) -> Result<StatsKey, Error> {
    match name {
        "app" => Ok(StatsKey::App),
        "model" => Ok(StatsKey::Model),
        "user" => Ok(StatsKey::User),
        _ => Err(Error::invalid("by", "must be app, model or user")),
    }
}

/// A moment such as `2026-11-15T08:00:00Z`, or the beginning of a day (UTC) such as `2026-11-15`.
fn moment(field: &'static str, text: &str) -> Result<Timestamp, Error> {
    let day = || {
        Offset::UTC.to_timestamp(text.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight())).ok()
    };
    text.parse::<Timestamp>().ok().or_else(day).ok_or_else(|| {
        Error::invalid(field, "must be a moment such as 2026-11-15T08:00:00Z, or a day such as 2026-11-15")
    })
}

fn usage_query(request: &UsageRequest, today: Date) -> Result<UsageQuery, Error> {
    let (from, to) = usage::days(request.from.as_deref(), request.to.as_deref(), today)?;
    let (from_day, to_day) = (from.to_string(), to.to_string());
    let mut query = UsageQuery { from_day, to_day, ..UsageQuery::default() };
    for part in request.by.as_deref().unwrap_or("app").split(',') {
        let is_wanted = match part.trim() {
            "day" => &mut query.by_day,
            "app" => &mut query.by_app,
            "user" => &mut query.by_user,
            "model" => &mut query.by_model,
            _ => {
                let message = "must name some of day, app, user and model, with commas between them";
                return Err(Error::invalid("by", message));
            }
        };
        *is_wanted = true;
    }
    Ok(query)
}

/// A status, or `active` for those that have not ended.
fn run_statuses(name: &str) -> Result<Vec<RunStatus>, Error> {
    if name == "active" {
        return Ok(vec![RunStatus::Queued, RunStatus::Running, RunStatus::Waiting]);
    }
    RunStatus::parse(name).map(|status| vec![status]).ok_or_else(|| {
        Error::invalid(
            "status",
            "must be active, queued, running, waiting, completed, failed, cancelled or interrupted",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(from: &str, to: &str, step: u32) -> Result<StatsQuery, String> {
        let request = StatsRequest {
            from: Some(from.into()),
            to: Some(to.into()),
            step: Some(step),
            by: Some("model".into()),
        };
        stats_query(&request, Timestamp::UNIX_EPOCH).map_err(|error| error.to_string())
    }

    #[test]
    fn silence_means_the_last_day_by_the_hour() {
        let now = Timestamp::from_second(200_000).unwrap();
        let query = stats_query(&StatsRequest::default(), now).unwrap();
        assert_eq!((query.from.as_second(), query.to), (200_000 - 86_400, now));
        assert_eq!((query.step_ms, query.by), (3_600_000, None));
    }

    #[test]
    fn a_report_has_a_bounded_number_of_steps_of_a_bounded_length() {
        let query = asked("2026-11-01", "2026-11-02T12:30:00Z", 3600).unwrap();
        assert_eq!(query.from.to_string(), "2026-11-01T00:00:00Z");
        assert_eq!(query.by, Some(StatsKey::Model));
        for step in [0, 59, 86_401, u32::MAX] {
            assert_eq!(
                asked("2026-11-01", "2026-11-02", step),
                Err("step: must be from 60 to 86400 seconds".into())
            );
        }
        let long = asked("2026-01-01", "2026-11-02", 60).unwrap_err();
        assert!(long.contains("2000 are allowed; choose a longer step"), "{long}");
        let backwards = asked("2026-11-02", "2026-11-02", 60).unwrap_err();
        assert!(backwards.contains("must be before the end"), "{backwards}");
        for wrong in ["", "yesterday", "2026-13-01", "1700000000"] {
            assert!(
                asked(wrong, "2026-11-02", 60).unwrap_err().starts_with("from: must be a moment"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn usage_is_told_apart_by_names() {
        let today = jiff::civil::date(2026, 3, 1);
        let by =
            |by: &str| usage_query(&UsageRequest { by: Some(by.into()), ..UsageRequest::default() }, today);
        let query = by("user,model").unwrap();
        assert_eq!((query.by_day, query.by_app, query.by_user, query.by_model), (false, false, true, true));
        assert_eq!((query.from_day.as_str(), query.to_day.as_str()), ("2026-01-31", "2026-03-01"));
        assert!(usage_query(&UsageRequest::default(), today).unwrap().by_app);
        for wrong in ["", "users", "app;user"] {
            assert!(by(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_status_is_one_of_a_run_or_all_that_are_active() {
        assert_eq!(run_statuses("failed").unwrap(), [RunStatus::Failed]);
        assert_eq!(run_statuses("active").unwrap().len(), 3);
        assert!(run_statuses("Failed").is_err());
    }
}
