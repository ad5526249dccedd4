//! Arguments that a call is expected to have, so that a slip is noticed before a record is written.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Within;

/// One kind of arguments that is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct Plausible {
    /// Arguments that must be so or, where it is a list, one of these; texts in capital or small letters.
    pub when: Map<String, Value>,
    /// Numbers that must be from one to another where they are given.
    pub within: BTreeMap<String, Within>,
}

impl Plausible {
    pub fn fits(&self, input: &Value) -> bool {
        let is_so = |(name, wanted): (&String, &Value)| match (input.get(name), wanted) {
            (Some(given), Value::Array(choices)) => choices.iter().any(|choice| is_same(given, choice)),
            (Some(given), wanted) => is_same(given, wanted),
            (None, _) => false,
        };
        let is_within = |(name, within): (&String, &Within)| match input.get(name) {
            None | Some(Value::Null) => true,
            Some(given) => given.as_f64().is_some_and(|number| (within.low..=within.high).contains(&number)),
        };
        self.when.iter().all(is_so) && self.within.iter().all(is_within)
    }
}

fn is_same(given: &Value, wanted: &Value) -> bool {
    match (given.as_str(), wanted.as_str()) {
        (Some(given), Some(wanted)) => given.trim().to_lowercase() == wanted.trim().to_lowercase(),
        _ => given == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_fits_if_its_words_are_the_same_and_its_numbers_lie_within() {
        let plausible = Plausible {
            when: json!({ "type": "weight", "unit": ["lb", "lbs"] }).as_object().unwrap().clone(),
            within: BTreeMap::from([("value".to_owned(), Within { low: 60.0, high: 450.0 })]),
        };
        for (input, fits) in [
            (json!({ "type": "weight", "unit": "lbs", "value": 145 }), true),
            (json!({ "type": "weight", "unit": " LB ", "value": 60 }), true),
            (json!({ "type": "weight", "unit": "lbs", "value": 450.5 }), false),
            (json!({ "type": "weight", "unit": "lbs", "value": 999 }), false),
            (json!({ "type": "weight", "unit": "kg", "value": 80 }), false),
            (json!({ "type": "pain", "unit": "lbs", "value": 145 }), false),
            (json!({ "type": "weight", "unit": "lbs", "value": "145" }), false),
            (json!({ "type": "weight", "unit": "lbs" }), true),
            (json!({}), false),
        ] {
            assert_eq!(plausible.fits(&input), fits, "{input}");
        }
    }
}
