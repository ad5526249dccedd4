//! Which records of an import the user has already: those of the same type and data, where the id of a record stands for
//! all that it says, and a date that is told from the day of the import for any other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use app::RecordType;
use protocol::{RecordId, canonical};
use serde_json::Value;

use super::{Moved, each_reference};
use crate::user_data::UserRecord;

/// How far from a record a difference is still seen, in records that name each other.
const MAX_ROUNDS: usize = 100;

/// A record without the ids in it, and those ids, in an order that its fields do not change.
struct Plain {
    said: String,
    names: Vec<String>,
}

impl Plain {
    fn of(record: &UserRecord, types: &BTreeMap<String, RecordType>, moved: &Moved) -> Self {
        let mut data: Value = serde_json::from_str(&canonical(&record.data)).unwrap_or_default();
        for place in moved.get(&record.kind).into_iter().flatten() {
            if let Some(date) = data.pointer_mut(place) {
                *date = Value::Null;
            }
        }
        let mut names = Vec::new();
        if let Some(kind) = types.get(&record.kind) {
            each_reference(&kind.schema, &mut data, &mut |_, name| names.push(std::mem::take(name)));
        }
        Self { said: format!("{} {data}", record.kind), names }
    }
}

/// By its id, each new record that the user has already, with the id that it has there. Of two that say the same, each
/// needs one of its own.
pub(super) fn existing_records(
    new: &[UserRecord],
    there: &[UserRecord],
    types: &BTreeMap<String, RecordType>,
    moved: &Moved,
) -> BTreeMap<RecordId, RecordId> {
    let all: Vec<&UserRecord> = new.iter().chain(there).collect();
    let plain: Vec<Plain> = all.iter().map(|record| Plain::of(record, types, moved)).collect();
    let places: HashMap<String, usize> =
        all.iter().enumerate().map(|(place, record)| (record.id.to_string(), place)).collect();
    let classes = classes(&plain, &places);
    let mut free: HashMap<usize, VecDeque<RecordId>> = HashMap::new();
    let (new_classes, their_classes) = classes.split_at_checked(new.len()).unwrap_or_default();
    for (record, class) in there.iter().zip(their_classes) {
        free.entry(*class).or_default().push_back(record.id);
    }
    let taken = new.iter().zip(new_classes);
    taken.filter_map(|(record, class)| Some((record.id, free.get_mut(class)?.pop_front()?))).collect()
}

/// The class of a record so far, what it says, and whom it names: a record that is compared by its class, another by its
/// id.
type ClassKey<'a> = (usize, &'a str, Vec<Result<usize, &'a str>>);

/// Puts records into the same class that say the same and name records of the same classes: all are in one class at
/// first, and each round tells more of them apart, by what they say and by whom they name.
fn classes(plain: &[Plain], places: &HashMap<String, usize>) -> Vec<usize> {
    let (mut classes, mut count) = (vec![0; plain.len()], 1);
    for _ in 0..MAX_ROUNDS {
        let mut found: HashMap<ClassKey<'_>, usize> = HashMap::new();
        let mut finer = Vec::with_capacity(plain.len());
        for (record, class) in plain.iter().zip(&classes) {
            let named = |name: &'_ String| places.get(name).and_then(|place| classes.get(*place)).copied();
            let names = record.names.iter().map(|name| named(name).ok_or(name.as_str()));
            let next = found.len();
            finer.push(*found.entry((*class, record.said.as_str(), names.collect())).or_insert(next));
        }
        let is_stable = found.len() == count;
        (count, classes) = (found.len(), finer);
        if is_stable {
            break;
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: u128) -> RecordId {
        format!("rec_{number:032x}").parse().unwrap()
    }

    fn types() -> BTreeMap<String, RecordType> {
        let schema = json!({ "properties": {
            "of": { "type": "string", "format": "record:part" },
            "many": { "items": { "type": "string", "format": "record:part" } },
        } });
        BTreeMap::from([("part".to_owned(), RecordType { name: "part".into(), schema })])
    }

    fn part(number: u128, data: Value) -> UserRecord {
        UserRecord { id: id(number), kind: "part".into(), data }
    }

    fn pairs(new: &[UserRecord], there: &[UserRecord]) -> Vec<(u128, u128)> {
        let number =
            |id: &RecordId| u128::from_str_radix(id.to_string().trim_start_matches("rec_"), 16).unwrap();
        existing_records(new, there, &types(), &Moved::new())
            .iter()
            .map(|(new, there)| (number(new), number(there)))
            .collect()
    }

    #[test]
    fn the_same_data_in_any_order_of_its_fields_is_known() {
        let there = [part(11, json!({ "b": 2, "a": [1] })), part(12, json!({ "a": [2] }))];
        let new = [part(1, json!({ "a": [1], "b": 2 })), part(2, json!({ "a": [1] })), part(3, json!({}))];
        assert_eq!(pairs(&new, &there), [(1, 11)]);
        let other = UserRecord { kind: "other".into(), ..part(4, json!({ "a": [2] })) };
        assert_eq!(pairs(&[other], &there), []);
    }

    #[test]
    fn a_date_that_is_told_from_the_day_of_the_import_stands_for_any_other() {
        let moved = Moved::from([("part".to_owned(), ["/on".to_owned()].into())]);
        let there = [part(11, json!({ "on": "2026-01-01", "a": 1 }))];
        let new =
            [part(1, json!({ "on": "2026-02-02", "a": 1 })), part(2, json!({ "on": "2026-01-01", "a": 2 }))];
        let found = existing_records(&new, &there, &types(), &moved);
        assert_eq!(found, BTreeMap::from([(id(1), id(11))]));
        assert_eq!(pairs(&new, &there), []);
    }

    #[test]
    fn two_that_say_the_same_need_two_that_are_there() {
        let twice = [part(1, json!({ "a": 1 })), part(2, json!({ "a": 1 }))];
        assert_eq!(pairs(&twice, &[part(11, json!({ "a": 1 }))]), [(1, 11)]);
        assert_eq!(
            pairs(&twice, &[part(11, json!({ "a": 1 })), part(12, json!({ "a": 1 }))]),
            [(1, 11), (2, 12)]
        );
    }

    #[test]
    fn ids_count_for_what_they_name_in_circles_too() {
        let circle = |first: u128, word: &str| {
            [
                part(first, json!({ "a": 1, "of": id(first + 1) })),
                part(first + 1, json!({ "a": 2, "many": [id(first), id(first + 2)] })),
                part(first + 2, json!({ "a": word })),
            ]
        };
        assert_eq!(pairs(&circle(1, "x"), &circle(11, "x")), [(1, 11), (2, 12), (3, 13)]);
        // One that was changed since is another record, and so are those that name it, from near or far.
        assert_eq!(pairs(&circle(1, "x"), &circle(11, "y")), []);
    }

    #[test]
    fn an_id_of_a_record_that_is_there_is_that_record() {
        let there = [part(11, json!({ "a": 1 })), part(12, json!({ "of": id(11) }))];
        assert_eq!(pairs(&[part(1, json!({ "of": id(11) }))], &there), [(1, 12)]);
        assert_eq!(pairs(&[part(1, json!({ "of": id(99) }))], &there), []);
    }
}
