//! The definition of an MCP tool in lines that people can read: nothing in them is hidden, and changes are marked.

use std::time::{Duration, Instant};

use protocol::canonical;
use serde_json::Value;
use similar::{Algorithm, capture_diff_slices_deadline};

/// The fields that people read first, in this order; the rest follows by name.
const FIRST: &[&str] = &["name", "title", "description"];

/// How long two texts are compared. The rest of texts that take longer is shown one after the other.
const COMPARE_PATIENCE: Duration = Duration::from_secs(1);

/// A text with everything that a reader would not see, or that could command the terminal, spelt out.
pub(crate) fn reveal_hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// A definition in lines: texts as they are written, all else as JSON. The order in which a server says it is no change.
pub(super) fn lines(definition: &Value) -> Vec<String> {
    let sorted = serde_json::from_str(&canonical(definition)).unwrap_or_else(|_| definition.clone());
    let Value::Object(fields) = &sorted else { return json(&sorted) };
    let first = FIRST.iter().filter_map(|key| fields.get_key_value(*key));
    let rest = fields.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
    let mut lines = Vec::new();
    for (key, value) in first.chain(rest) {
        let key = reveal_hidden(key);
        let mut below = match value {
            Value::String(text) => text.split('\n').map(reveal_hidden).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                json(value)
            }
        };
        match below.as_mut_slice() {
            [only] => lines.push(format!("{key}: {only}")),
            many => {
                lines.push(format!("{key}:"));
                lines.extend(many.iter().map(|line| format!("  {line}")));
            }
        }
    }
    lines
}

fn json(value: &Value) -> Vec<String> {
    format!("{value:#}").split('\n').map(reveal_hidden).collect()
}

/// Both texts as one: lines that are gone after a minus, new ones after a plus.
pub(super) fn changes(old: &[String], new: &[String]) -> Vec<String> {
    let deadline = Instant::now() + COMPARE_PATIENCE;
    let operations = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline));
    let changes = operations.iter().flat_map(|operation| operation.iter_changes(old, new));
    changes.map(|change| format!("{} {}", change.tag(), change.value())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn what_a_reader_would_not_see_is_spelt_out() {
        assert_eq!(reveal_hidden("plain \"text\" with a \\ and é, 数"), "plain \"text\" with a \\ and é, 数");
        for (text, shown) in [
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{202e}txt", "\\u{202e}txt"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("x\u{e0041}", "x\\u{e0041}"),
            ("\u{fe0f}", "\\u{fe0f}"),
            ("a\r\nb", "a\\r\\nb"),
            ("\u{a0}", "\\u{a0}"),
        ] {
            assert_eq!(reveal_hidden(text), shown);
        }
    }

    #[test]
    fn a_definition_reads_from_its_name_down() {
        let definition = json!({
            "inputSchema": { "type": "object", "required": [] }, "description": "Adds.\nBoth\u{200b}.", "name": "add", "annotations": {},
        });
        let expected = [
            "name: add",
            "description:",
            "  Adds.",
            "  Both\\u{200b}.",
            "annotations: {}",
            "inputSchema:",
            "  {",
            "    \"required\": [],",
            "    \"type\": \"object\"",
            "  }",
        ];
        assert_eq!(lines(&definition), expected);
        assert_eq!(lines(&json!("x")), ["\"x\""]);
    }

    #[test]
    fn changes_are_marked_line_by_line() {
        for (old, new, expected) in [
            (vec!["a", "b", "c"], vec!["a", "x", "c"], vec!["  a", "- b", "+ x", "  c"]),
            (vec!["a"], vec!["a"], vec!["  a"]),
            (vec![], vec!["a"], vec!["+ a"]),
            (vec!["a"], vec![], vec!["- a"]),
            (
                vec!["a", "b", "c", "d", "e"],
                vec!["x", "b", "y", "d", "z"],
                vec!["- a", "+ x", "  b", "- c", "+ y", "  d", "- e", "+ z"],
            ),
        ] {
            assert_eq!(changes(&texts(&old), &texts(&new)), expected);
        }
    }

    #[test]
    fn texts_that_are_too_long_to_compare_stand_one_after_the_other() {
        let many = |word: &str| (0..2_001).map(|n| format!("{word}{n}")).collect::<Vec<_>>();
        let shown = changes(&many("a"), &many("b"));
        assert_eq!((shown.len(), shown[0].as_str(), shown[2_001].as_str()), (4_002, "- a0", "+ b0"));
    }
}
