//! The current date where the user is. No time of day: the prompt would begin differently every minute.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// As the log keeps it.
pub(in crate::context) fn read(now: Timestamp, zone: &TimeZone) -> String {
    let name = zone.iana_name().unwrap_or("UTC");
    format!("{} ({name})", now.to_zoned(zone.clone()).strftime("%A, %-d %B %Y"))
}

pub(super) fn text(date: &str) -> String {
    format!("Today is {date}.")
}
