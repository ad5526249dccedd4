//! Session patterns: how often the user comes, when, for how long, and what comes up again and again.
//!
//! Only counts are told of conversations, and of records their names, so that nothing of a conversation that is deleted
//! later is left over here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Zoned;
use protocol::ThreadId;
use serde_json::Value;
use store::{ActionFilter, PageOf, SnapshotLine, ThreadFilter, ThreadRow};

use super::line;
use crate::context::gather::Sources;

/// Conversations that are looked at, the newest; fewer than the least are no pattern.
const MAX_SESSIONS: usize = 30;
const MIN_SESSIONS: usize = 3;
/// Calls among which those about a record are looked for.
const MAX_ACTIONS: usize = 300;
/// A record recurs if it came up in this number of conversations.
const MIN_RECURRING: usize = 2;
const MAX_RECURRING: usize = 5;
/// A time of day, or a day of the week, is usual if at least 1/`USUAL` of the conversations began then.
const USUAL: usize = 2;

/// A line for each pattern; none before there are enough conversations.
pub(super) async fn read(
    from: &Sources<'_>,
    records: &[(String, String)],
) -> Result<Vec<SnapshotLine>, store::Error> {
    let page = PageOf { after: None, limit: MAX_SESSIONS + 1 };
    let mut rows = from.world.store.threads(from.scope, ThreadFilter::default(), page).await?.rows;
    rows.retain(|row| row.id != from.thread && row.message_count > 0);
    rows.truncate(MAX_SESSIONS);
    if rows.len() < MIN_SESSIONS {
        return Ok(Vec::new());
    }
    let told = [frequency_line(from, &rows), usual_time(from, &rows), Some(length(&rows))];
    let mut lines: Vec<SnapshotLine> =
        told.into_iter().flatten().map(|text| line(from.thread, from.now, format!("- {text}"))).collect();
    lines.extend(recurring_records(from, &rows, records).await?);
    Ok(lines)
}

/// How often, as the middle one of the gaps between conversations, and how long ago the last one was.
fn frequency_line(from: &Sources<'_>, rows: &[ThreadRow]) -> Option<String> {
    let mut begun: Vec<i64> = rows.iter().map(|row| row.created_at.as_second() / SECONDS_PER_DAY).collect();
    begun.sort_unstable();
    let gaps = begun.iter().zip(begun.iter().skip(1)).map(|(one, next)| next - one);
    let gap = middle(gaps.collect())?;
    let newest = rows.iter().map(|row| row.updated_at).max()?;
    let days = from.now.duration_since(newest).as_hours() / 24;
    let pace = match gap {
        0 => "several a day".to_owned(),
        1 => "about one a day".to_owned(),
        gap => format!("about one every {gap} days"),
    };
    Some(format!("Comes back: {} conversations, {pace}; the last one {days} days ago", rows.len()))
}

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// The time of day and the day of the week at which most conversations begin, where there is one.
fn usual_time(from: &Sources<'_>, rows: &[ThreadRow]) -> Option<String> {
    let begun: Vec<Zoned> = rows.iter().map(|row| row.created_at.to_zoned(from.zone.clone())).collect();
    let time = most_frequent(begun.iter().map(|at| time_of_day(at.hour()).to_owned()));
    let day = most_frequent(begun.iter().map(|at| at.strftime("%A").to_string()));
    let usual: Vec<String> = [time, day]
        .into_iter()
        .flatten()
        .map(|(name, count)| format!("{name} ({count} of {})", rows.len()))
        .collect();
    (!usual.is_empty()).then(|| format!("Usual time: {}", usual.join(", ")))
}

fn time_of_day(hour: i8) -> &'static str {
    match hour {
        5..=11 => "in the morning",
        12..=16 => "in the afternoon",
        17..=21 => "in the evening",
        _ => "at night",
    }
}

/// The most frequent one, and how many there are.
fn most_frequent(names: impl Iterator<Item = String>) -> Option<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = 0;
    for name in names {
        *counts.entry(name).or_default() += 1;
        all += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| count * USUAL > all)
}

fn length(rows: &[ThreadRow]) -> String {
    let counts = rows.iter().filter_map(|row| i64::try_from(row.message_count).ok()).collect();
    format!("Usual length: {} messages", middle(counts).unwrap_or_default())
}

fn middle(mut numbers: Vec<i64>) -> Option<i64> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

/// Records that calls were about in several conversations, most often first.
async fn recurring_records(
    from: &Sources<'_>,
    rows: &[ThreadRow],
    records: &[(String, String)],
) -> Result<Vec<SnapshotLine>, store::Error> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let sessions: BTreeSet<ThreadId> = rows.iter().map(|row| row.id).collect();
    let actions =
        store::newest_actions(&from.world.store, from.scope, ActionFilter::default(), MAX_ACTIONS).await?;
    let mut counts: Vec<(usize, &(String, String))> = Vec::new();
    for record in records {
        let about = actions.iter().filter(|action| names(&action.input, &record.0));
        let threads: BTreeSet<ThreadId> =
            about.filter_map(|action| action.thread).filter(|thread| sessions.contains(thread)).collect();
        counts.push((threads.len(), record));
    }
    counts.sort_by_key(|(count, _)| Reverse(*count));
    let often = counts.into_iter().filter(|(count, _)| *count >= MIN_RECURRING).take(MAX_RECURRING);
    let text = |(count, (id, name)): (usize, &(String, String))| {
        let name = Value::from(name.as_str());
        line(id, from.now, format!("- Comes up again: {name}, in {count} of {} conversations", rows.len()))
    };
    Ok(often.map(text).collect())
}

/// Whether a call's input names a record, at any depth.
fn names(input: &Value, id: &str) -> bool {
    match input {
        Value::String(text) => text == id,
        Value::Array(items) => items.iter().any(|item| names(item, id)),
        Value::Object(fields) => fields.values().any(|value| names(value, id)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_most_are_is_usual_and_no_tie_is() {
        let of = |names: &[&str]| most_frequent(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(of(&["a", "b", "a"]), Some(("a".into(), 2)));
        assert_eq!(of(&["a", "b"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_middle_one_is_no_outlier() {
        assert_eq!(middle(vec![1, 90, 2]), Some(2));
        assert_eq!(middle(Vec::new()), None);
    }

    #[test]
    fn a_record_is_named_at_any_depth() {
        assert!(names(&json!({ "relationships": [{ "partId": "rec_1" }] }), "rec_1"));
        assert!(!names(&json!({ "text": "about rec_1" }), "rec_1"));
    }
}
