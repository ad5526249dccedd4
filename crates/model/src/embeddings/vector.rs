//! A vector as servers write it: a list of numbers, or base64 of little-endian floats, asked for or not.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize, Deserializer, Error};

/// Never holds anything but finite numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Vector(pub(super) Vec<f32>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum WrittenVector {
    Numbers(Vec<f32>),
    Base64(String),
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = match WrittenVector::deserialize(deserializer)? {
            WrittenVector::Numbers(numbers) => Some(numbers),
            WrittenVector::Base64(text) => from_base64(&text).and_then(|bytes| floats(&bytes)),
        };
        let finite = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()));
        finite.map(Self).ok_or_else(|| D::Error::custom("not a vector"))
    }
}

fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (floats, rest) = bytes.as_chunks();
    rest.is_empty().then(|| floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// The standard alphabet, padded or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
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
