//! What templates can do with records beyond what their language has: dates, ages, and readings over time.
//!
//! Every filter takes any value at all. What does not fit is left as it is, or left out.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime;
use jiff::{Span, Timestamp, Unit, Zoned};
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

const DATE: &str = "%b %-d, %Y";
const DATE_TIME: &str = "%b %-d, %Y at %-I:%M %p";
/// A day as in `2024-11-05`; anything longer has a time of day.
const DAY_CHARS: usize = 10;
/// Fewer readings than this say nothing about a trend.
const MIN_TREND_VALUES: usize = 3;
/// Means that differ by less than this share of the first are called stable.
const STABLE_SHARE: f64 = 0.03;

/// Adds every filter, with dates told from the time and zone of `now`.
pub(super) fn add(environment: &mut Environment<'_>, now: &Zoned) {
    let at = now.clone();
    environment.add_filter("date", move |value: Value, format: Option<String>| {
        date(value, format.as_deref().unwrap_or(DATE), &at)
    });
    let at = now.clone();
    environment.add_filter("datetime", move |value: Value| match Moment::of(&value, &at) {
        Some(Moment { is_day: false, .. }) => date(value, DATE_TIME, &at),
        Some(Moment { is_day: true, .. }) | None => date(value, DATE, &at),
    });
    let at = now.clone();
    environment.add_filter("age", move |born: Value| age(&born, &at));
    let at = now.clone();
    environment
        .add_filter("since", move |list: Value, field: String, days: i64| since(&list, &field, days, &at));
    let at = now.clone();
    environment.add_filter("upcoming", move |list: Value, field: String| {
        dated(&list, &field, &at, |moment| !moment.is_before(&at))
    });
    environment.add_filter("range", |list: Value, field: String| range(&list, &field));
    environment.add_filter("trend", |list: Value, field: String| trend(&list, &field));
    environment
        .add_filter("where", |list: Value, field: String, wanted: Value| matching(&list, &field, &wanted));
    environment
        .add_filter("pluck", |list: Value, field: String| -> Value { plucked(&list, &field).collect() });
    environment
        .add_filter("join", |list: Value, between: Option<String>| join(list, &between.unwrap_or_default()));
}

/// A day, as its first instant, or a time of day.
struct Moment {
    at: Zoned,
    is_day: bool,
}

impl Moment {
    /// What a text such as `2024-11-05`, `2024-11-05T10:00` or `2024-11-05T10:00:00Z` says; the zone is that of `now`
    /// where the text names none.
    fn of(value: &Value, now: &Zoned) -> Option<Self> {
        let text = value.as_str()?;
        let zone = now.time_zone();
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return Some(Self { at: timestamp.to_zoned(zone.clone()), is_day: false });
        }
        let is_day = text.len() == DAY_CHARS;
        let local = if is_day {
            text.parse::<Date>().ok()?.to_datetime(Time::midnight())
        } else {
            text.parse::<DateTime>().ok()?
        };
        Some(Self { at: local.to_zoned(zone.clone()).ok()?, is_day })
    }

    fn is_before(&self, other: &Zoned) -> bool {
        if self.is_day { self.at.date() < other.date() } else { self.at < *other }
    }

    fn is_after(&self, other: &Zoned) -> bool {
        if self.is_day { self.at.date() > other.date() } else { self.at > *other }
    }
}

/// Only the format can be wrong, whatever the value is.
fn date(value: Value, format: &str, now: &Zoned) -> Result<Value, Error> {
    let wrong = |error: jiff::Error| {
        Error::new(ErrorKind::InvalidOperation, format!("{format:?} is not a format of dates: {error}"))
    };
    strtime::format(format, now).map_err(wrong)?;
    match Moment::of(&value, now) {
        Some(moment) => strtime::format(format, &moment.at).map(Value::from).map_err(wrong),
        None => Ok(value),
    }
}

/// Whole years; nothing for what is not a day of the past.
fn age(born: &Value, now: &Zoned) -> Value {
    let born = Moment::of(born, now).filter(|moment| !moment.is_after(now));
    let lived = born.and_then(|moment| moment.at.date().until((Unit::Year, now.date())).ok());
    lived.map_or(Value::UNDEFINED, |span| Value::from(span.get_years()))
}

fn since(list: &Value, field: &str, days: i64, now: &Zoned) -> Value {
    let first =
        i32::try_from(days).ok().and_then(|days| now.checked_sub(Span::new().try_days(days).ok()?).ok());
    dated(list, field, now, |moment| {
        !moment.is_after(now) && first.as_ref().is_none_or(|first| !moment.is_before(first))
    })
}

/// The records whose date is one of the wanted, earliest first.
fn dated(list: &Value, field: &str, now: &Zoned, wanted: impl Fn(&Moment) -> bool) -> Value {
    let dated = items(list).filter_map(|record| {
        let moment = Moment::of(&get(&record, field)?, now)?;
        wanted(&moment).then_some((moment.at, record))
    });
    let mut dated: Vec<(Zoned, Value)> = dated.collect();
    dated.sort_by(|(one, _), (other, _)| one.cmp(other));
    dated.into_iter().map(|(_, record)| record).collect()
}

/// From the least to the greatest number, such as "145-148".
fn range(list: &Value, field: &str) -> String {
    let numbers = numbers(list, field);
    let Some(low) = numbers.iter().copied().reduce(f64::min) else { return String::new() };
    let high = numbers.iter().copied().fold(low, f64::max);
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

/// Whether the second half of the numbers is higher or lower than the first, on average.
fn trend(list: &Value, field: &str) -> &'static str {
    let numbers = numbers(list, field);
    if numbers.len() < MIN_TREND_VALUES {
        return "";
    }
    let half = numbers.len() / 2;
    let mean = |numbers: &mut dyn Iterator<Item = &f64>| numbers.sum::<f64>() / half as f64;
    let first = mean(&mut numbers.iter().take(half));
    let change = mean(&mut numbers.iter().rev().take(half)) - first;
    if change.abs() <= first.abs() * STABLE_SHARE {
        "stable"
    } else if change > 0.0 {
        "rising"
    } else {
        "falling"
    }
}

/// The records whose field has that value; with none for a value, those without the field.
fn matching(list: &Value, field: &str, wanted: &Value) -> Value {
    let absent = wanted.is_none() || wanted.is_undefined();
    let fits = |record: &Value| get(record, field).map_or(absent, |value| value == *wanted);
    items(list).filter(fits).collect()
}

fn plucked(list: &Value, field: &str) -> impl Iterator<Item = Value> {
    items(list).filter_map(move |record| get(&record, field))
}

/// Stands in for the filter of the language, which fails for what is not a list and takes texts apart.
fn join(list: Value, between: &str) -> Value {
    if !is_list(&list) {
        return list;
    }
    let parts: Vec<String> = items(&list).map(|item| item.to_string()).collect();
    Value::from(parts.join(between))
}

fn numbers(list: &Value, field: &str) -> Vec<f64> {
    let numbers = plucked(list, field).filter(|value| value.kind() == ValueKind::Number);
    numbers.filter_map(|value| f64::try_from(value).ok()).collect()
}

/// A field that is there.
fn get(record: &Value, field: &str) -> Option<Value> {
    record.get_attr(field).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// The items of a list; none of what is no list.
fn items(list: &Value) -> impl Iterator<Item = Value> {
    list.try_iter().ok().filter(|_| is_list(list)).into_iter().flatten()
}

/// Two lists put together with `+` are an iterable.
fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}
