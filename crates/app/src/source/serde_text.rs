//! Serde's error sentences, in words for someone who writes a configuration file.
//!
//! Serde and toml offer errors only as text. A sentence that is not recognised is passed on as it is, so a change of
//! theirs makes a message plainer, never wrong.

use strsim::osa_distance;

/// Letters of a name for each of the edits after which it is still the same name with a mistake.
const LETTERS_FOR_AN_EDIT: usize = 3;

/// The message and the remedy. `key` is the key whose value is at fault, where known.
pub(super) fn explain(sentence: &str, key: Option<&str>) -> (String, String) {
    let quoted: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((got, known)) if sentence.starts_with("unknown field") => {
            (format!("unknown key {got:?}"), suggest(got, known))
        }
        Some((got, known)) if sentence.starts_with("unknown variant") => {
            let known: Vec<String> = known.iter().map(|value| format!("{value:?}")).collect();
            (format!("{} is {got:?}", key.unwrap_or("the value")), format!("write {}", known.join(" or ")))
        }
        _ => explain_type(sentence, key),
    }
}

fn explain_type(sentence: &str, key: Option<&str>) -> (String, String) {
    let wrong = sentence.strip_prefix("invalid type: ").or_else(|| sentence.strip_prefix("invalid value: "));
    if let Some((got, expected)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) {
        let message = format!("{} is {}, of the wrong type", key.unwrap_or("the value"), with_article(got));
        return (message, format!("write {}", plain_type(expected)));
    }
    let (message, remedy) = match sentence.split_once(", expected ") {
        Some((message, expected)) => (message, format!("expected {expected}")),
        None => (sentence, String::from("correct the TOML here")),
    };
    (message.replace('`', "\""), remedy.replace('`', "\""))
}

fn with_article(got: &str) -> String {
    let article = if got.starts_with('i') { "an" } else { "a" };
    format!("{article} {}", got.replace('`', ""))
}

fn plain_type(expected: &str) -> &str {
    match expected {
        "i64" => "a whole number",
        "f64" => "a number",
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in square brackets",
        table if table.starts_with("struct ") => "a table",
        other => other,
    }
}

fn suggest(got: &str, known: &[&str]) -> String {
    match (did_you_mean(got, known), known) {
        (Some(question), _) => question,
        (None, []) => String::from("remove it"),
        (None, _) => format!("the keys here are {}", known.join(", ")),
    }
}

/// A question about the name that was probably meant, if one is near enough: one edit in three letters at most, or a
/// name that begins so. A wrong guess helps less than none.
pub fn did_you_mean(got: &str, known: &[&str]) -> Option<String> {
    let length = got.chars().count();
    let begins = |name: &str| length >= LETTERS_FOR_AN_EDIT && name.starts_with(got);
    let edits = known.iter().map(|name| (if begins(name) { 0 } else { osa_distance(got, name) }, *name));
    let (_, name) = edits.min().filter(|(edits, _)| *edits <= length / LETTERS_FOR_AN_EDIT)?;
    Some(format!("did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("max_step", "max_steps", 1),
            ("modle", "model", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((osa_distance(from, to), osa_distance(to, from)), (edits, edits), "{from} {to}");
        }
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let known = ["log", "model", "models", "id", "max_steps", "heartbeat_seconds"];
        let found = |got| did_you_mean(got, &known);
        for (got, meant) in
            [("lgo", "log"), ("modle", "model"), ("max_spets", "max_steps"), ("heart", "heartbeat_seconds")]
        {
            assert_eq!(found(got), Some(format!("did you mean {meant:?}?")), "{got}");
        }
        for got in ["", "m", "x", "ip", "foo", "bar", "motel_rooms", "steps", "ключ"] {
            assert_eq!(found(got), None, "{got}");
        }
    }

    #[test]
    fn an_unfamiliar_sentence_is_passed_on() {
        assert_eq!(explain("it broke", None), ("it broke".into(), "correct the TOML here".into()));
    }
}
