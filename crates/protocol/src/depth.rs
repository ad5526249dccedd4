//! The depth of JSON. One limit holds wherever JSON enters, so that it can still be read after it is wrapped in events,
//! ledger entries and answers.

use serde_json::Value;

/// Levels of arrays and objects in JSON that comes from outside: bodies, tool arguments, tool results, imports, answers
/// of providers.
pub const MAX_JSON_DEPTH: usize = 64;

/// Levels in the body of a stored event. The JSON reader takes 127; JSON that enters is wrapped a few times before it
/// is stored and a few times more before it is sent.
pub const MAX_STORED_DEPTH: usize = 100;

/// A scanner that reads JSON byte by byte and counts open brackets outside strings. The parser judges whether they
/// match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonScanner {
    /// The scanner after one more byte.
    #[must_use]
    pub fn after_byte(self, byte: u8) -> Self {
        let Self { depth, in_string, escaped } = self;
        match byte {
            _ if escaped => Self { escaped: false, ..self },
            b'\\' => Self { escaped: in_string, ..self },
            b'"' => Self { in_string: !in_string, ..self },
            b'[' | b'{' if !in_string => Self { depth: depth + 1, ..self },
            b']' | b'}' if !in_string => Self { depth: depth.saturating_sub(1), ..self },
            _ => self,
        }
    }

    /// Levels of arrays and objects that are open.
    pub fn depth(self) -> usize {
        self.depth
    }
}

/// The depth of the brackets of a text.
pub fn json_depth(text: &str) -> usize {
    let mut scanner = JsonScanner::default();
    let depths = text.bytes().map(|byte| {
        scanner = scanner.after_byte(byte);
        scanner.depth()
    });
    depths.max().unwrap_or_default()
}

/// The depth of the arrays and objects of a value.
pub fn value_depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut left = vec![(value, 1)];
    while let Some((value, level)) = left.pop() {
        match value {
            Value::Array(items) => {
                deepest = deepest.max(level);
                left.extend(items.iter().map(|item| (item, level + 1)));
            }
            Value::Object(fields) => {
                deepest = deepest.max(level);
                left.extend(fields.values().map(|value| (value, level + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_nest_equally_deep() {
        for (json, depth) in
            [("7", 0), (r#""[[[""#, 0), ("[]", 1), (r#"{"a":[{"b":"]\"["}],"c":[]}"#, 3), ("[[],[[]],[]]", 3)]
        {
            assert_eq!(json_depth(json), depth, "{json}");
            assert_eq!(value_depth(&serde_json::from_str(json).unwrap()), depth, "{json}");
        }
    }

    #[test]
    fn what_enters_can_be_read_after_it_is_wrapped() {
        let wrapped = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(serde_json::from_str::<Value>(&wrapped(MAX_STORED_DEPTH)).is_ok());
        const { assert!(MAX_JSON_DEPTH + 16 <= MAX_STORED_DEPTH) };
        assert!(
            serde_json::from_str::<Value>(&wrapped(MAX_STORED_DEPTH + 20)).is_ok(),
            "sent in a list of a page"
        );
    }
}
