//! Runs of days: weeks, months, seasons and years.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::TimeSpan;
use crate::words;

/// From a day to just before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Days {
    pub(super) start: Date,
    pub(super) end: Date,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Weekend,
    Week,
    Month,
    Year,
}

/// Each season by the number of its first month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Season {
    Spring = 3,
    Summer = 6,
    Autumn = 9,
    Winter = 12,
}

/// Days by which "two weeks ago" can be earlier or later.
const DAYS_ABOUT_A_WEEK: i64 = 3;

impl Days {
    pub(super) fn new(start: Date, end: Date) -> Self {
        Self { start, end }
    }

    pub(super) fn day(day: Date) -> Self {
        Self::new(day, day_after(day))
    }

    pub(super) fn year(year: i16) -> Option<Self> {
        let start = Date::new(year, 1, 1).ok()?;
        Some(Self::new(start, start.saturating_add(1.years())))
    }

    /// A day or, without one, a whole month. Without a year, it is the last one that has begun.
    pub(super) fn of(year: Option<i16>, month: i8, day: Option<i8>, today: Date) -> Option<Self> {
        let in_year = |year: i16| {
            let first = Date::new(year, month, day.unwrap_or(1)).ok()?;
            Some(if day.is_some() {
                Self::day(first)
            } else {
                Self::new(first, first.saturating_add(1.months()))
            })
        };
        match year {
            Some(year) => in_year(year),
            None => {
                let this = in_year(today.year()).filter(|days| days.start <= today);
                this.or_else(|| in_year(today.year() - 1))
            }
        }
    }

    /// The unit that the day is in, or as many of them before it as `back` says.
    pub(super) fn unit_around(day: Date, unit: Unit, back: i64) -> Self {
        let then = day_before(day, back, unit);
        let monday = |day: Date| day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days());
        match unit {
            Unit::Day => Self::day(then),
            Unit::Week => Self::new(monday(then), monday(then).saturating_add(7.days())),
            Unit::Weekend => {
                Self::new(monday(then).saturating_add(5.days()), monday(then).saturating_add(7.days()))
            }
            Unit::Month => {
                let first = then.first_of_month();
                Self::new(first, first.saturating_add(1.months()))
            }
            Unit::Year => {
                let first = then.first_of_year();
                Self::new(first, first.saturating_add(1.years()))
            }
        }
    }

    /// The days that "ago" means when it is counted in this unit.
    pub(super) fn days_about(day: Date, unit: Unit) -> Self {
        match unit {
            Unit::Day | Unit::Weekend | Unit::Month | Unit::Year => Self::unit_around(day, unit, 0),
            Unit::Week => Self::new(
                day.saturating_sub(DAYS_ABOUT_A_WEEK.days()),
                day_after(day).saturating_add(DAYS_ABOUT_A_WEEK.days()),
            ),
        }
    }

    /// Both, and what is between them.
    pub(super) fn through(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Returns the date of this day of the week among the days.
    pub(super) fn weekday(self, weekday: Weekday) -> Option<Date> {
        self.start.saturating_sub(1.days()).nth_weekday(1, weekday).ok().filter(|day| *day < self.end)
    }

    pub(super) fn span(self, zone: &TimeZone) -> Option<TimeSpan> {
        let instant = |day: Date| day.to_zoned(zone.clone()).map(|midnight| midnight.timestamp());
        let start = if self.start == Date::MIN { Timestamp::MIN } else { instant(self.start).ok()? };
        let end = instant(self.end).ok()?;
        (start < end).then_some(TimeSpan { start, end })
    }
}

impl Unit {
    pub(super) fn read(word: &str) -> Option<Self> {
        Some(match word.strip_suffix('s').unwrap_or(word) {
            "day" => Self::Day,
            "weekend" => Self::Weekend,
            "week" => Self::Week,
            "month" => Self::Month,
            "year" => Self::Year,
            _ => return None,
        })
    }
}

impl Season {
    pub(super) fn read(word: &str) -> Option<Self> {
        Some(match word {
            "spring" => Self::Spring,
            "summer" => Self::Summer,
            "autumn" | "fall" => Self::Autumn,
            "winter" => Self::Winter,
            _ => return None,
        })
    }

    /// The season that begins in this year.
    pub(super) fn of(self, year: i16) -> Option<Days> {
        let start = Date::new(year, self as i8, 1).ok()?;
        Some(Days::new(start, start.saturating_add(3.months())))
    }

    /// The last one that is over.
    pub(super) fn last_finished(self, today: Date) -> Option<Days> {
        self.latest_where(today, |days| days.end <= today)
    }

    /// The last one that has begun.
    pub(super) fn last_begun(self, today: Date) -> Option<Days> {
        self.latest_where(today, |days| days.start <= today)
    }

    fn latest_where(self, today: Date, is_meant: impl Fn(&Days) -> bool) -> Option<Days> {
        (0..=2).filter_map(|back| self.of(today.year() - back)).find(is_meant)
    }
}

pub(super) fn weekday(word: &str) -> Option<Weekday> {
    let at = words::weekdays().iter().position(|weekday| weekday == word)?;
    Weekday::from_monday_zero_offset(i8::try_from(at).ok()?).ok()
}

pub(super) fn day_after(day: Date) -> Date {
    day.saturating_add(1.days())
}

pub(super) fn day_before(day: Date, count: i64, unit: Unit) -> Date {
    match unit {
        Unit::Day => day.saturating_sub(count.days()),
        Unit::Week | Unit::Weekend => day.saturating_sub(count.weeks()),
        Unit::Month => day.saturating_sub(count.months()),
        Unit::Year => day.saturating_sub(count.years()),
    }
}
