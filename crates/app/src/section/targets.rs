//! Target ranges of an app, as a filter for templates.

use std::sync::Arc;

use minijinja::{Environment, Value, context};

use super::filters::{get, items};
use super::record_value::{MAX_RECORD_DEPTH, record_value};
use crate::TargetRange;

/// Adds the filter `target("value")`: the first of the app's targets for that field that all records of a list fit, with
/// `low` and `high`; nothing where there is none, or no record.
pub(super) fn add(environment: &mut Environment<'_>, targets: Vec<TargetRange>) {
    let targets: Arc<[TargetRange]> = targets.into();
    environment.add_filter("target", move |list: Value, field: String| -> Value {
        let records: Vec<Value> = items(&list).collect();
        let fits = |target: &&TargetRange| {
            target.field == field
                && !records.is_empty()
                && records.iter().all(|record| is_for(target, record))
        };
        targets.iter().find(fits).map_or(Value::UNDEFINED, |target| {
            context! { low => limit_value(target.low), high => limit_value(target.high) }
        })
    });
}

fn is_for(target: &TargetRange, record: &Value) -> bool {
    let mut wanted = target.matching.iter();
    let is_same = |given: &Value, wanted: &Value| match (given.as_str(), wanted.as_str()) {
        (Some(given), Some(wanted)) => spelling(given) == spelling(wanted),
        _ => given == wanted,
    };
    wanted.all(|(field, wanted)| {
        get(record, field).is_some_and(|given| is_same(&given, &record_value(wanted, MAX_RECORD_DEPTH)))
    })
}

/// A word as it is compared: people write mmHg, mm Hg and mmhg, °F and F.
fn spelling(word: &str) -> String {
    word.chars().filter(|c| !c.is_whitespace() && *c != '°').flat_map(char::to_lowercase).collect()
}

fn limit_value(end: Option<f64>) -> Value {
    end.map_or(Value::UNDEFINED, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_same_however_it_is_spelt() {
        for (one, other) in [("mmHg", "mm Hg"), ("mg/dL", "mg/dl"), ("°F", "F"), ("AM", "am")] {
            assert_eq!(spelling(one), spelling(other));
        }
        assert_ne!(spelling("mg/dL"), spelling("mmol/L"));
    }
}
