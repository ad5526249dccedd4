//! The time of the source, which all files in packages have. So two builds of one commit make the same bytes.

use std::path::Path;
use std::process::Command;

const SECONDS_OF_A_DAY: u64 = 86_400;

/// The time in `SOURCE_DATE_EPOCH`, or else of the last commit: seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a convention of reproducible builds, not a setting of the server"
)]
pub(crate) fn epoch(root: &Path) -> Result<u64, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return given.trim().parse().map_err(|_| format!("SOURCE_DATE_EPOCH is {given:?}; write a number"));
    }
    let git = Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).output();
    let git = git.map_err(|error| format!("git does not start: {error}; set SOURCE_DATE_EPOCH"))?;
    let said = String::from_utf8_lossy(&git.stdout);
    said.trim().parse().map_err(|_| "git names no last commit; set SOURCE_DATE_EPOCH".to_owned())
}

/// A time as RFC 3339 writes it, in UTC.
pub(crate) fn rfc3339(epoch: u64) -> String {
    let (days, seconds) = (epoch / SECONDS_OF_A_DAY, epoch % SECONDS_OF_A_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day since 1970. Years begin in March here, so that a leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From the first of March in the year 0 to 1970.
    const BEFORE_1970: u64 = 719_468;
    let days = days + BEFORE_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        for (epoch, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_794_873_600, "2026-11-17T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(epoch), text);
        }
    }
}
