//! Filters for records beyond those that the template language has: dates, ages, and readings over time.
//!
//! Every filter takes any value at all. A value that does not fit stays as it is, or is left out.

use jiff::fmt::strtime;
use jiff::{Span, Unit, Zoned};
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::moment::RecordDate;
use super::readings;

const DATE: &str = "%b %-d, %Y";
const DATE_TIME: &str = "%b %-d, %Y at %-I:%M %p";

/// Adds every filter, with dates told from the time and zone of `now`.
pub(super) fn add(environment: &mut Environment<'_>, now: &Zoned) {
    let at = now.clone();
    environment.add_filter("date", move |value: Value, format: Option<String>| {
        date(value, format.as_deref().unwrap_or(DATE), &at)
    });
    let at = now.clone();
    environment.add_filter("datetime", move |value: Value| date_time(value, &at));
    let at = now.clone();
    environment.add_filter("age", move |born: Value| age(&born, &at));
    let at = now.clone();
    environment
        .add_filter("since", move |list: Value, field: String, days: i64| since(&list, &field, days, &at));
    let at = now.clone();
    environment.add_filter("upcoming", move |list: Value, field: String| {
        records_by_date(&list, &field, &at, |moment| !moment.is_before(&at))
    });
    let at = now.clone();
    environment.add_filter("current", move |list: Value, first: String, last: String| {
        current(&list, &first, &last, &at)
    });
    environment.add_filter("range", |list: Value, field: String| readings::range(&numbers(&list, &field)));
    environment.add_filter("trend", |list: Value, field: String| readings::trend(&numbers(&list, &field)));
    environment.add_filter("against", |list: Value, field: String, low: Value, high: Value| {
        readings::compare_with_target(
            &numbers(&list, &field),
            f64::try_from(low).ok(),
            f64::try_from(high).ok(),
        )
    });
    environment
        .add_filter("where", |list: Value, field: String, wanted: Value| matching(&list, &field, &wanted));
    environment
        .add_filter("pluck", |list: Value, field: String| -> Value { field_values(&list, &field).collect() });
    environment
        .add_filter("join", |list: Value, between: Option<String>| join(list, &between.unwrap_or_default()));
}

/// Only the format can be wrong, not the value.
fn date(value: Value, format: &str, now: &Zoned) -> Result<Value, Error> {
    let wrong = |error: jiff::Error| {
        Error::new(ErrorKind::InvalidOperation, format!("{format:?} is not a format of dates: {error}"))
    };
    strtime::format(format, now).map_err(wrong)?;
    match RecordDate::of(&value, now) {
        Some(moment) => strtime::format(format, &moment.at).map(Value::from).map_err(wrong),
        None => Ok(value),
    }
}

/// A time of day as it was meant, with the zone it is told in; a day alone where there is no time.
fn date_time(value: Value, now: &Zoned) -> Result<Value, Error> {
    let Some(moment) = RecordDate::of(&value, now).filter(|moment| !moment.is_day) else {
        return date(value, DATE, now);
    };
    let zone = moment.zone();
    date(value, DATE_TIME, now).map(|told| Value::from(format!("{told} {zone}")))
}

/// Whole years; nothing for what is not a day of the past.
fn age(born: &Value, now: &Zoned) -> Value {
    let born = RecordDate::of(born, now).filter(|moment| !moment.is_after(now));
    let lived = born.and_then(|moment| moment.at.date().until((Unit::Year, now.date())).ok());
    lived.map_or(Value::UNDEFINED, |span| Value::from(span.get_years()))
}

fn since(list: &Value, field: &str, days: i64, now: &Zoned) -> Value {
    let first =
        i32::try_from(days).ok().and_then(|days| now.checked_sub(Span::new().try_days(days).ok()?).ok());
    records_by_date(list, field, now, |moment| {
        !moment.is_after(now) && first.as_ref().is_none_or(|first| !moment.is_before(first))
    })
}

/// The records whose date is one of the wanted, earliest first.
fn records_by_date(list: &Value, field: &str, now: &Zoned, wanted: impl Fn(&RecordDate) -> bool) -> Value {
    let dated = items(list).filter_map(|record| {
        let moment = RecordDate::of(&get(&record, field)?, now)?;
        wanted(&moment).then_some((moment.at, record))
    });
    let mut dated: Vec<(Zoned, Value)> = dated.collect();
    dated.sort_by(|(one, _), (other, _)| one.cmp(other));
    dated.into_iter().map(|(_, record)| record).collect()
}

/// The records that hold today: begun, and not over. A field that is missing or no date bounds nothing; the last day is
/// still one of them.
fn current(list: &Value, first: &str, last: &str, now: &Zoned) -> Value {
    let moment = |record: &Value, field: &str| RecordDate::of(&get(record, field)?, now);
    let holds = |record: &Value| {
        !moment(record, first).is_some_and(|first| first.is_after(now))
            && !moment(record, last).is_some_and(|last| last.is_before(now))
    };
    items(list).filter(holds).collect()
}

/// The records whose field has that value; with none for a value, those without the field.
fn matching(list: &Value, field: &str, wanted: &Value) -> Value {
    let absent = wanted.is_none() || wanted.is_undefined();
    let fits = |record: &Value| get(record, field).map_or(absent, |value| value == *wanted);
    items(list).filter(fits).collect()
}

fn field_values(list: &Value, field: &str) -> impl Iterator<Item = Value> {
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
    let numbers = field_values(list, field).filter(|value| value.kind() == ValueKind::Number);
    numbers.filter_map(|value| f64::try_from(value).ok()).collect()
}

/// A field that is there.
pub(super) fn get(record: &Value, field: &str) -> Option<Value> {
    record.get_attr(field).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// The items of a list; none of what is no list.
pub(super) fn items(list: &Value) -> impl Iterator<Item = Value> {
    list.try_iter().ok().filter(|_| is_list(list)).into_iter().flatten()
}

/// Two lists put together with `+` are an iterable.
fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}
