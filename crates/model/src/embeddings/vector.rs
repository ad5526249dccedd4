//! A vector as servers write it: a list of numbers, or base64 of little-endian floats, asked for or not.

use serde::de::{Deserialize, Deserializer, Error};

/// Never holds anything but finite numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Vector(pub(super) Vec<f32>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Written {
    Numbers(Vec<f32>),
    Base64(String),
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = match Written::deserialize(deserializer)? {
            Written::Numbers(numbers) => Some(numbers),
            Written::Base64(text) => from_base64(&text).and_then(|bytes| floats(&bytes)),
        };
        let finite = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()));
        finite.map(Self).ok_or_else(|| D::Error::custom("not a vector"))
    }
}

fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (floats, rest) = bytes.as_chunks();
    rest.is_empty().then(|| floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// The bytes of a text in the standard alphabet, padded or not.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | value(*digit)?;
        }
        let missing = 4 - group.len();
        let whole = (bits << (6 * missing)).to_be_bytes();
        // A group of one digit holds no whole byte.
        let count = 3_usize.checked_sub(missing).filter(|count| *count > 0)?;
        bytes.extend(whole.get(1..=count)?);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length_is_read() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zg", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmE=", b"fooba"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes), "{text:?}");
        }
        for wrong in ["Z", "Zm9vY", "Zm9v!", "Zm 9v", "-_-_", "Zg==Zg==", "é"] {
            assert_eq!(from_base64(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn both_ways_of_writing_give_the_same_vector() {
        let read = |json: &str| serde_json::from_str::<Vector>(json).ok().map(|Vector(numbers)| numbers);
        assert_eq!(read("[1.0, -2, 0]"), Some(vec![1.0, -2.0, 0.0]));
        assert_eq!(read("\"AACAPwAAAMAAAAAA\""), Some(vec![1.0, -2.0, 0.0]));
        // Three bytes, not a number, infinity, and what is no number at all.
        for wrong in ["\"AACA\"", "\"AADAfw==\"", "[1e300]", "[null]", "[\"1\"]", "{}", "null", "7"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
