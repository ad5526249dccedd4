//! In which order records are made that name each other by id, where no id may be named before its record is there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::UserRecord;

/// A record whose turn it is.
pub(super) struct RecordTurn<'a> {
    pub(super) record: &'a UserRecord,
    /// Its data without the ids of records that are made after it: there are some where records name each other in a
    /// circle.
    pub(super) data: Value,
}

impl RecordTurn<'_> {
    pub(super) fn is_incomplete(&self) -> bool {
        self.data != self.record.data
    }
}

/// Every record once, each after those it names as far as that can be. `fits` says whether a record may be made with
/// this data; it decides where a circle is opened.
pub(super) fn order<'a>(
    records: &'a [UserRecord],
    fits: &dyn Fn(&UserRecord, &Value) -> bool,
) -> Vec<RecordTurn<'a>> {
    let mut missing: BTreeSet<String> = records.iter().map(|record| record.id.to_string()).collect();
    let mut left: Vec<&UserRecord> = records.iter().collect();
    let mut turns: Vec<RecordTurn<'a>> = Vec::new();
    while !left.is_empty() {
        let possible =
            left.iter().map(|record| RecordTurn { record, data: without_missing(&record.data, &missing) });
        let (mut ready, waiting): (Vec<_>, Vec<_>) = possible.partition(|turn| !turn.is_incomplete());
        if ready.is_empty() {
            let opened = waiting.iter().position(|turn| fits(turn.record, &turn.data)).unwrap_or_default();
            ready.extend(waiting.into_iter().nth(opened));
        }
        for turn in ready {
            missing.remove(&turn.record.id.to_string());
            turns.push(turn);
        }
        left.retain(|record| missing.contains(&record.id.to_string()));
    }
    turns
}

/// The data without ids that are missing. An item of a list that names one goes as a whole: what is left of it would be
/// about nothing.
fn without_missing(data: &Value, missing: &BTreeSet<String>) -> Value {
    let is_there = |value: &Value| !value.as_str().is_some_and(|text| missing.contains(text));
    let is_complete =
        |item: &Value| is_there(item) && item.as_object().is_none_or(|fields| fields.values().all(is_there));
    match data {
        Value::Array(items) => {
            items.iter().filter(|item| is_complete(item)).map(|item| without_missing(item, missing)).collect()
        }
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| is_there(value));
            kept.map(|(name, value)| (name.clone(), without_missing(value, missing))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => data.clone(),
    }
}

/// The data with other ids in place of those it was written with. These are fresh, so no other text is one of them.
pub(super) fn with_new_ids(data: &Value, names: &BTreeMap<String, String>) -> Value {
    match data {
        Value::String(text) => Value::String(names.get(text).unwrap_or(text).clone()),
        Value::Array(items) => items.iter().map(|item| with_new_ids(item, names)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), with_new_ids(value, names))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::user_data::fresh_id;

    fn records(count: usize) -> Vec<UserRecord> {
        (0..count).map(|_| UserRecord { id: fresh_id(), kind: "part".into(), data: json!({}) }).collect()
    }

    /// The places of the records in their order, and whether each is incomplete.
    fn places(records: &[UserRecord], fits: &dyn Fn(&UserRecord, &Value) -> bool) -> Vec<(usize, bool)> {
        let place =
            |turn: &RecordTurn<'_>| records.iter().position(|record| record.id == turn.record.id).unwrap();
        order(records, fits).iter().map(|turn| (place(turn), turn.is_incomplete())).collect()
    }

    #[test]
    fn what_is_named_comes_first() {
        let mut all = records(3);
        all[0].data = json!({ "of": all[1].id, "text": "x" });
        all[1].data = json!({ "list": [{ "deep": all[2].id }] });
        assert_eq!(places(&all, &|_, _| false), [(2, false), (1, false), (0, false)]);
        assert!(order(&[], &|_, _| true).is_empty());
    }

    #[test]
    fn a_circle_is_opened_where_the_data_fits_without() {
        let mut all = records(3);
        all[0].data = json!({ "needs": all[2].id });
        all[1].data = json!({ "list": ["x", all[2].id] });
        all[2].data = json!({ "list": [all[1].id, all[2].id] });
        let fits = |_: &UserRecord, data: &Value| data.get("list").is_some();
        assert_eq!(places(&all, &fits), [(1, true), (2, true), (0, false)]);
        let turns = order(&all, &fits);
        assert_eq!(turns[0].data, json!({ "list": ["x"] }));
        assert_eq!(turns[1].data, json!({ "list": [all[1].id] }), "it names itself");
        all[1].data = json!({ "list": [{ "of": all[2].id, "how": "near" }, { "how": "far" }] });
        assert_eq!(order(&all, &fits)[0].data, json!({ "list": [{ "how": "far" }] }));
    }

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        let names = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let data = json!({ "a": "a", "list": ["a", "c", 1], "deep": { "x": "a" } });
        assert_eq!(
            with_new_ids(&data, &names),
            json!({ "a": "b", "list": ["b", "c", 1], "deep": { "x": "b" } })
        );
    }
}
