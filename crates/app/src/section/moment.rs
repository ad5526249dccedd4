//! A date or a time as a record has it, and the zone that it is told in.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use minijinja::Value;

/// A day as in `2024-11-05`; anything longer has a time of day.
const DAY_CHARS: usize = 10;

/// A day, as its first instant, or a time of day.
pub(super) struct RecordDate {
    pub(super) at: Zoned,
    pub(super) is_day: bool,
}

impl RecordDate {
    /// The date of a text such as `2024-11-05`, `2024-11-05T10:00` or `2024-11-05T10:00:00-05:00` says. A time with an
    /// offset of its own keeps it, because it means that hour of that place. One without, or in UTC, is told in the
    /// zone of `now`.
    pub(super) fn of(value: &Value, now: &Zoned) -> Option<Self> {
        let text = value.as_str()?;
        let zone = now.time_zone();
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            let here = timestamp.to_zoned(zone.clone());
            let at = match own_offset(text) {
                Some(offset) if offset != here.offset() => timestamp.to_zoned(TimeZone::fixed(offset)),
                Some(_) | None => here,
            };
            return Some(Self { at, is_day: false });
        }
        let is_day = text.len() == DAY_CHARS;
        let local = if is_day {
            text.parse::<Date>().ok()?.to_datetime(Time::midnight())
        } else {
            text.parse::<DateTime>().ok()?
        };
        Some(Self { at: local.to_zoned(zone.clone()).ok()?, is_day })
    }

    /// The name of the zone at that time, such as `EST`; where it has no name, its distance from UTC.
    pub(super) fn zone(&self) -> String {
        let short = self.at.strftime("%Z").to_string();
        if short.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return short;
        }
        self.at.strftime("UTC%:z").to_string()
    }

    pub(super) fn is_before(&self, other: &Zoned) -> bool {
        if self.is_day { self.at.date() < other.date() } else { self.at < *other }
    }

    pub(super) fn is_after(&self, other: &Zoned) -> bool {
        if self.is_day { self.at.date() > other.date() } else { self.at > *other }
    }
}

/// The offset that a text gives, unless it is that of UTC, which says nothing of a place.
fn own_offset(text: &str) -> Option<Offset> {
    let PiecesOffset::Numeric(numeric) = Pieces::parse(text).ok()?.offset()? else { return None };
    Some(numeric.offset()).filter(|offset| *offset != Offset::UTC)
}
