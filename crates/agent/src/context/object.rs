//! An answer that is an object: its text streams while the rest is still arriving, and in the end all of it is checked.

use protocol::{MAX_JSON_DEPTH, Structured, json_depth};
use serde_json::Value;

use super::AnswerShape;

/// The field whose text people read.
pub(crate) const TEXT_FIELD: &str = "response";

/// The field that names memories.
pub(crate) const MEMORIES_FIELD: &str = "memoriesReferenced";

/// Takes a JSON object in, as it arrives, and gives out the text of its field [`TEXT_FIELD`]. A text that is no object
/// at all is given out as it is, since a model that ignores the schema has still said something.
#[derive(Debug, Default)]
pub(crate) struct TextOf {
    place: Place,
    /// Objects and lists that are open.
    depth: usize,
    /// The key that was read last at the top level.
    key: String,
    /// Half of a character that comes in two escapes.
    high: Option<u16>,
    /// Characters of an escape that has begun, without its backslash.
    escape: Option<String>,
}

/// The place in the object at which the reader stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nothing but white space so far.
    #[default]
    Before,
    /// Not an object.
    Words,
    /// Between tokens.
    Between,
    /// In a string at the top level that is a key.
    Key,
    /// After the colon of a key at the top level.
    Value,
    /// In a string that is of no interest.
    Skipped,
    /// In the text that people read.
    Text,
    /// The text has ended.
    FinishedStep,
}

impl TextOf {
    /// The text that `delta` adds.
    pub(crate) fn feed(&mut self, delta: &str) -> String {
        let mut out = String::new();
        for c in delta.chars() {
            self.take(c, &mut out);
        }
        out
    }

    fn take(&mut self, c: char, out: &mut String) {
        match self.place {
            Place::Before if c.is_whitespace() => {}
            Place::Before if c == '{' => (self.place, self.depth) = (Place::Between, 1),
            Place::Before | Place::Words => {
                self.place = Place::Words;
                out.push(c);
            }
            Place::Between | Place::Value => self.read_between(c),
            Place::Key => {
                if let Some(c) = self.character(c, Place::Between) {
                    self.key.push(c);
                }
            }
            Place::Skipped => {
                self.character(c, Place::Between);
            }
            Place::Text => out.extend(self.character(c, Place::FinishedStep)),
            Place::FinishedStep => {}
        }
    }

    fn read_between(&mut self, c: char) {
        match c {
            '"' if self.place == Place::Value && self.key == TEXT_FIELD => self.place = Place::Text,
            '"' if self.place == Place::Value || self.depth > 1 => self.place = Place::Skipped,
            '"' => {
                self.key.clear();
                self.place = Place::Key;
            }
            ':' if self.depth == 1 => self.place = Place::Value,
            ',' if self.depth == 1 => self.place = Place::Between,
            '{' | '[' => {
                self.depth += 1;
                self.place = Place::Between;
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                self.place = if self.depth == 0 { Place::FinishedStep } else { Place::Between };
            }
            _ => {}
        }
    }

    /// The character that `c` completes, if any; the end of the string leads to `after`.
    fn character(&mut self, c: char, after: Place) -> Option<char> {
        let Some(mut escape) = self.escape.take() else {
            return match c {
                '\\' => {
                    self.escape = Some(String::new());
                    None
                }
                '"' => {
                    self.place = after;
                    None
                }
                _ => Some(c),
            };
        };
        escape.push(c);
        match escape.as_str() {
            "n" => Some('\n'),
            "t" => Some('\t'),
            "r" => Some('\r'),
            "b" => Some('\u{8}'),
            "f" => Some('\u{c}'),
            code if code.starts_with('u') && code.len() < 5 => {
                self.escape = Some(escape);
                None
            }
            code if code.starts_with('u') => self.code(code),
            _ => Some(c),
        }
    }

    /// A character by its number. Characters beyond the first plane come as two.
    fn code(&mut self, code: &str) -> Option<char> {
        let unit = code.get(1..).and_then(|hex| u16::from_str_radix(hex, 16).ok())?;
        let units = [self.high.take(), Some(unit)];
        if (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
            return None;
        }
        char::decode_utf16(units.into_iter().flatten()).last()?.ok()
    }
}

impl AnswerShape {
    /// Checks a whole object. None if it is none, or not one that the schema describes.
    pub(crate) fn read(&self, json: &str) -> Option<Structured> {
        if json_depth(json) > MAX_JSON_DEPTH {
            return None;
        }
        let object: Value = serde_json::from_str(json.trim()).ok().filter(Value::is_object)?;
        if let Some(data) = &self.own {
            let valid = data.is_valid(&object);
            let structured = Structured { memories_referenced: Vec::new(), dropped: 0, data: Some(object) };
            return valid.then_some(structured);
        }
        let mut named: Vec<&str> = Vec::new();
        let mut dropped = 0;
        for id in object.get(MEMORIES_FIELD).and_then(Value::as_array).into_iter().flatten() {
            match id.as_str().filter(|id| self.memories.iter().any(|known| known == id)) {
                Some(id) if named.contains(&id) => {}
                Some(id) => named.push(id),
                None => dropped += 1,
            }
        }
        let memories_referenced = named.into_iter().map(str::to_owned).collect();
        Some(Structured { memories_referenced, dropped, data: None })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The text that comes out when the JSON comes in parts of this number of characters.
    fn text(json: &str, characters: usize) -> String {
        let mut reader = TextOf::default();
        let all: Vec<char> = json.chars().collect();
        all.chunks(characters).map(|part| reader.feed(&String::from_iter(part))).collect()
    }

    #[test]
    fn only_the_text_at_the_top_streams() {
        for (json, expected) in [
            (
                r#"{"memoriesReferenced":["mem_1"],"response":"Hi \"you\"\n\u00e9 \ud83c\udfb5"}"#,
                "Hi \"you\"\né 🎵",
            ),
            (r#" {"response": "first", "memoriesReferenced": []} "#, "first"),
            (r#"{"inner":{"response":"no"},"list":["response",{"response":"no"}],"response":"yes"}"#, "yes"),
            (r#"{"other":"\"response\":\"no","response":"yes"}"#, "yes"),
            (r#"{"n":1.5e3,"t":true,"z":null,"response":"yes"}"#, "yes"),
            (r#"{"response":42}"#, ""),
            (r#"{"response":"cut in the mid"#, "cut in the mid"),
            ("{}", ""),
            ("Just words, {not} an object", "Just words, {not} an object"),
        ] {
            for characters in 1..=json.chars().count() {
                assert_eq!(text(json, characters), expected, "{json} in parts of {characters}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_streams_is_what_the_object_says(said in "\\PC{0,40}", id in "[a-z\"\\\\]{0,8}", part in 1usize..9) {
            let json = json!({"memoriesReferenced": [id], "response": said}).to_string();
            prop_assert_eq!(&text(&json, part), &said);
            let ascii = json.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }).collect::<String>();
            prop_assert_eq!(&text(&ascii, part), &said);
        }

        #[test]
        fn nothing_breaks_it(said in "[\\[\\]{}\":,\\\\u0-9a-f ]{0,60}") {
            let _ = text(&said, 1);
        }
    }

    #[test]
    fn foreign_memories_are_dropped_and_counted() {
        let shape = AnswerShape::of_memories(vec!["mem_a".into(), "mem_b".into()]);
        let json = r#"{"memoriesReferenced":["mem_b","mem_x",7,"mem_b"],"response":"ok"}"#;
        let structured = shape.read(json).unwrap();
        assert_eq!((structured.memories_referenced, structured.dropped), (vec!["mem_b".to_owned()], 2));
        assert_eq!(shape.read("[]"), None);
        assert_eq!(shape.read("{\"response\":"), None);
    }
}
