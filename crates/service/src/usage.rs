//! Usage of users by day.

use jiff::civil::Date;
use jiff::{Span, ToSpan};
use protocol::{AppId, Principal, Usage, UsageReport};

use crate::{Error, Service};

/// The default number of days of a report, and the largest.
const DEFAULT_DAYS: i32 = 30;
const MAX_DAYS: i32 = 366;

/// Characters of a day such as `2026-11-15`.
const DAY_LENGTH: usize = 10;

impl Service {
    /// The usage of the user from one day (UTC) to another, both included, in all apps they may use.
    pub async fn usage_report(
        &self,
        principal: &Principal,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<UsageReport, Error> {
        let today = jiff::tz::Offset::UTC.to_datetime(self.now()).date();
        let (from, to) = days(from, to, today)?;
        let mut rows = self.store().usage(principal, from.to_string(), to.to_string()).await?;
        rows.retain(|row| principal.may_use(&AppId::new(row.app_id.as_str())));
        let mut total = Usage::default();
        for row in &rows {
            total += row.usage;
        }
        Ok(UsageReport { data: rows, next: None, total })
    }
}

/// The first and the last day of a report; where the client is silent, the thirty days up to the last or to today.
pub(crate) fn days(from: Option<&str>, to: Option<&str>, today: Date) -> Result<(Date, Date), Error> {
    let to = to.map(|text| day("to", text)).transpose()?.unwrap_or(today);
    let from = match from {
        Some(text) => day("from", text)?,
        None => to.saturating_sub((DEFAULT_DAYS - 1).days()),
    };
    if from > to {
        return Err(Error::invalid("from", format!("must not be after the last day, {to}")));
    }
    let span: Span = to - from;
    if span.get_days() >= MAX_DAYS {
        return Err(Error::invalid("from", format!("a report covers at most {MAX_DAYS} days")));
    }
    Ok((from, to))
}

fn day(field: &'static str, text: &str) -> Result<Date, Error> {
    let date = text.parse::<Date>().ok().filter(|date| text.len() == DAY_LENGTH && date.to_string() == text);
    date.ok_or_else(|| Error::invalid(field, "must be a day such as 2026-11-15"))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    const TODAY: Date = date(2026, 3, 1);

    fn of(from: Option<&str>, to: Option<&str>) -> Result<(String, String), String> {
        let found = days(from, to, TODAY).map_err(|error| error.to_string())?;
        Ok((found.0.to_string(), found.1.to_string()))
    }

    fn both(from: &str, to: &str) -> Result<(String, String), String> {
        Ok((from.to_owned(), to.to_owned()))
    }

    #[test]
    fn silence_means_the_last_thirty_days() {
        assert_eq!(of(None, None), both("2026-01-31", "2026-03-01"));
        assert_eq!(of(Some("2026-02-28"), None), both("2026-02-28", "2026-03-01"));
        assert_eq!(of(None, Some("2024-03-01")), both("2024-02-01", "2024-03-01"));
        assert_eq!(of(None, Some("0000-01-01")), both("-000001-12-03", "0000-01-01"));
    }

    #[test]
    fn a_report_covers_a_leap_year_and_no_more() {
        assert_eq!(of(Some("2026-03-01"), Some("2026-03-01")), both("2026-03-01", "2026-03-01"));
        assert_eq!(of(Some("2024-01-01"), Some("2024-12-31")), both("2024-01-01", "2024-12-31"));
        let longer = of(Some("2024-01-01"), Some("2025-01-01"));
        assert_eq!(longer, Err("from: a report covers at most 366 days".to_owned()));
        let backwards = of(Some("2026-03-02"), None);
        assert_eq!(backwards, Err("from: must not be after the last day, 2026-03-01".to_owned()));
    }

    #[test]
    fn a_day_has_one_spelling() {
        for wrong in ["", "2026", "2026-3-1", "20260301", "2026-02-29", "2026-03-01T00:00", " 2026-03-01"] {
            let expected = Err("to: must be a day such as 2026-11-15".to_owned());
            assert_eq!(of(None, Some(wrong)), expected, "{wrong:?}");
        }
    }
}
