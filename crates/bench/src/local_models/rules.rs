//! The rules by which an answer counts as right.

use serde_json::Value;

/// Whether an answer follows every part of its rule.
pub(super) fn holds(rule: &Value, answer: &str) -> bool {
    let Some(parts) = rule.as_object() else { return false };
    parts.iter().all(|(kind, value)| part_holds(kind, value, answer.trim()))
}

fn part_holds(kind: &str, value: &Value, answer: &str) -> bool {
    let small = answer.to_lowercase();
    let texts: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    match kind {
        "contains" => texts.iter().any(|text| small.contains(text)),
        "contains_case" => texts.iter().any(|text| answer.contains(text)),
        "all" => texts.iter().all(|text| small.contains(text)),
        "starts" => texts.iter().any(|text| small.starts_with(text)),
        "word" => answer.split(|sign: char| !sign.is_alphanumeric()).any(|word| texts.contains(&word)),
        "number" => last_number(answer) == value.as_f64(),
        "json" => has_keys(answer, &texts),
        "lines" => Some(answer.lines().filter(|line| !line.trim().is_empty()).count()) == count,
        "sentences" => Some(answer.matches(['.', '!', '?']).count().max(1)) == count,
        "order" => in_order(answer, &texts),
        _ => false,
    }
}

/// The last number of an answer, which is where results stand.
fn last_number(answer: &str) -> Option<f64> {
    let numbers = answer.split(|sign: char| !sign.is_ascii_digit() && sign != '.');
    numbers.filter_map(|text| text.trim_matches('.').parse().ok()).next_back()
}

fn has_keys(answer: &str, keys: &[&str]) -> bool {
    let text = answer.trim_start_matches("```json").trim_matches('`').trim();
    let object: Option<Value> = serde_json::from_str(text).ok();
    object.is_some_and(|object| keys.iter().all(|key| object.get(key).is_some()))
}

/// Whether the last of each text stand in this order.
fn in_order(answer: &str, texts: &[&str]) -> bool {
    let places: Option<Vec<usize>> = texts.iter().map(|text| answer.rfind(text)).collect();
    places.is_some_and(|places| places.is_sorted())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_judged_by_their_rules() {
        for (rule, right, wrong) in [
            (json!({ "contains": ["8", "eight"] }), "It has Eight legs.", "It has six."),
            (json!({ "number": 42 }), "17 + 25 = 42.", "42 is not 43"),
            (json!({ "word": ["Au"] }), "Au", "Aurum"),
            (json!({ "json": ["name"] }), "```json\n{\"name\": \"Bob\"}\n```", "name: Bob"),
            (json!({ "lines": 3 }), "a\nb\n\nc", "a, b, c"),
            (json!({ "order": ["2", "5", "9"] }), "9, 2, 5 become 2, 5, 9", "9, 5, 2"),
            (json!({ "all": ["cat"], "sentences": 1 }), "The cat sat.", "The cat sat. It slept."),
            (json!({ "starts": ["yes"] }), "Yes, it is.", "No, yes"),
        ] {
            assert!(holds(&rule, right), "{rule}: {right}");
            assert!(!holds(&rule, wrong), "{rule}: {wrong}");
        }
        assert!(!holds(&Value::Null, "anything"));
    }
}
