//! Serde's error sentences, in words for someone who writes a configuration file.
//!
//! Serde and toml offer errors only as text. A sentence that is not recognised is passed on as it is, so a change of
//! theirs makes a message plainer, never wrong.

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
        return (message, format!("write {}", plain(expected)));
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

fn plain(expected: &str) -> &str {
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
    match nearest(got, known) {
        Some(key) => format!("did you mean {key:?}?"),
        None if known.is_empty() => String::from("remove it"),
        None => format!("the keys here are {}", known.join(", ")),
    }
}

/// The name that was probably meant, if one is near enough.
pub fn nearest<'a>(got: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances =
        known.iter().map(|name| (if name.starts_with(got) { 0 } else { distance(got, name) }, *name));
    distances.min().filter(|(distance, _)| *distance <= got.len() / 3 + 1).map(|(_, name)| name)
}

/// Edits (insert, delete, replace) that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (pair, b) in row.windows(2).zip(to.chars()) {
            let &[diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, edits) in
            [("", "", 0), ("", "abc", 3), ("max_step", "max_steps", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (edits, edits), "{from} {to}");
        }
    }

    #[test]
    fn an_unfamiliar_sentence_is_passed_on() {
        assert_eq!(explain("it broke", None), ("it broke".into(), "correct the TOML here".into()));
    }
}
