//! Dates of sample records that are told from the day of the import, so that what is recent or upcoming stays so.
//!
//! ```text
//! today        today-30d        today+2w                 a day
//! today-2d 08:00                now-3h                   a time
//! ```
//! After the sign stand a whole number and `h` (only after `now`), `d`, `w`, `m` for months or `y`.

use jiff::civil::Time;
use jiff::{Span, Zoned};
use serde_json::Value;

/// The largest distance, in any unit.
const MAX_DISTANCE: i64 = 10_000;
const HOW_TO: &str = "write a day as in today-30d, a time as in today-2d 08:00 or now-3h; units are h (after now), d, w, m and y";

/// Puts dates in place of all that is told from today, in the fields that a schema says are dates or times. Gives the
/// places of those, such as `/measuredAt`, or says what cannot be read.
pub fn resolve(schema: &Value, data: &mut Value, now: &Zoned) -> Result<Vec<String>, String> {
    let mut places = Vec::new();
    walk(schema, data, now, "", &mut places)?;
    Ok(places)
}

/// The data nests no deeper than what is stored may.
fn walk(
    schema: &Value,
    data: &mut Value,
    now: &Zoned,
    place: &str,
    places: &mut Vec<String>,
) -> Result<(), String> {
    match data {
        Value::String(text) => {
            let format = schema.get("format").and_then(Value::as_str);
            let told = match format.filter(|_| is_relative(text)) {
                Some("date") => day(text, now),
                Some("date-time") => time(text, now),
                Some(_) | None => return Ok(()),
            };
            *text = told.ok_or_else(|| format!("{place} is {text:?}; {HOW_TO}"))?;
            places.push(place.to_owned());
        }
        Value::Array(list) => {
            let Some(schema) = schema.get("items") else { return Ok(()) };
            for (index, item) in list.iter_mut().enumerate() {
                walk(schema, item, now, &format!("{place}/{index}"), places)?;
            }
        }
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties") else { return Ok(()) };
            for (name, value) in fields {
                if let Some(schema) = properties.get(name) {
                    walk(schema, value, now, &format!("{place}/{name}"), places)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn is_relative(text: &str) -> bool {
    text.starts_with("today") || text.starts_with("now")
}

fn day(text: &str, now: &Zoned) -> Option<String> {
    let date = now.date().checked_add(distance(text.strip_prefix("today")?, false)?).ok()?;
    Some(date.to_string())
}

fn time(text: &str, now: &Zoned) -> Option<String> {
    let at = if let Some(rest) = text.strip_prefix("now") {
        now.checked_add(distance(rest, true)?).ok()?
    } else {
        let (day, time) = text.strip_prefix("today")?.split_once(' ')?;
        let date = now.date().checked_add(distance(day, false)?).ok()?;
        let time: Time = time.trim().parse().ok()?;
        date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?
    };
    Some(at.strftime("%Y-%m-%dT%H:%M:00%:z").to_string())
}

/// The distance after the day or the time: nothing, or a sign, a number and a unit.
fn distance(text: &str, of_time: bool) -> Option<Span> {
    if text.is_empty() {
        return Some(Span::new());
    }
    let (signed, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_signed = signed.starts_with(['+', '-']);
    let count: i64 = signed
        .parse()
        .ok()
        .filter(|count: &i64| is_signed && (-MAX_DISTANCE..=MAX_DISTANCE).contains(count))?;
    let span = Span::new();
    match unit {
        "h" if of_time => span.try_hours(count).ok(),
        "d" => span.try_days(count).ok(),
        "w" => span.try_weeks(count).ok(),
        "m" => span.try_months(count).ok(),
        "y" => span.try_years(count).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(data: Value) -> Result<Value, String> {
        let day = json!({ "type": "string", "format": "date" });
        let time = json!({ "type": "string", "format": "date-time" });
        let schema = json!({ "properties": {
            "day": day, "time": time, "days": { "items": day }, "note": { "type": "string" },
        } });
        let now: Zoned = "2026-03-09T01:30:20-04:00[America/New_York]".parse().unwrap();
        let mut data = data;
        resolve(&schema, &mut data, &now).map(|_| data)
    }

    #[test]
    fn dates_are_told_from_the_day_of_the_import() {
        for (field, written, expected) in [
            ("day", "today", "2026-03-09"),
            ("day", "today-9d", "2026-02-28"),
            ("day", "today+2w", "2026-03-23"),
            ("day", "today-1m", "2026-02-09"),
            ("day", "today-84y", "1942-03-09"),
            ("day", "1942-03-14", "1942-03-14"),
            ("time", "today+1d 10:00", "2026-03-10T10:00:00-04:00"),
            ("time", "today-2d 08:05", "2026-03-07T08:05:00-05:00"),
            ("time", "now", "2026-03-09T01:30:00-04:00"),
            ("time", "now-3h", "2026-03-08T22:30:00-04:00"),
            ("note", "today-2x", "today-2x"),
        ] {
            assert_eq!(resolved(json!({ field: written })).unwrap(), json!({ field: expected }), "{written}");
        }
        let several = json!({ "days": ["today", "today-1d"], "other": "today" });
        assert_eq!(
            resolved(several).unwrap(),
            json!({ "days": ["2026-03-09", "2026-03-08"], "other": "today" })
        );
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        for (field, written) in [
            ("day", "today-2"),
            ("day", "today 08:00"),
            ("day", "today2d"),
            ("day", "today-20000d"),
            ("day", "today-2h"),
            ("day", "now"),
            ("time", "today"),
            ("time", "today-1d 25:00"),
            ("time", "today-1é 10:00"),
            ("time", "now-"),
        ] {
            let problem = resolved(json!({ field: written })).unwrap_err();
            assert!(problem.starts_with(&format!("/{field} is {written:?}; write a day")), "{problem}");
        }
    }
}
