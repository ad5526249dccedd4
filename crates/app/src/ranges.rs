//! In which ranges the numbers of a request's settings must be.

use protocol::Settings;
use serde::{Deserialize, Deserializer};

use crate::source::bounds::{KEY, refusal};

/// The most tokens that a request can ask for.
const MAX_TOKENS: i32 = 10_000_000;

/// From one number to another, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Within {
    pub low: f64,
    pub high: f64,
}

/// `[ranges]`: an app's ranges.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ranges {
    #[serde(deserialize_with = "read_range::<0, 2, _>")]
    pub temperature: Within,
    #[serde(deserialize_with = "read_range::<1, MAX_TOKENS, _>")]
    pub max_tokens: Within,
    #[serde(deserialize_with = "read_range::<0, 1, _>")]
    pub top_p: Within,
    #[serde(deserialize_with = "read_range::<-2, 2, _>")]
    pub frequency_penalty: Within,
    #[serde(deserialize_with = "read_range::<-2, 2, _>")]
    pub presence_penalty: Within,
    #[serde(deserialize_with = "read_range::<0, 2, _>")]
    pub repeat_penalty: Within,
}

/// Two numbers in order, from `LOW` to `HIGH`.
fn read_range<'de, const LOW: i32, const HIGH: i32, D: Deserializer<'de>>(d: D) -> Result<Within, D::Error> {
    let [low, high] = <[f64; 2]>::deserialize(d)?;
    if f64::from(LOW) <= low && low <= high && high <= f64::from(HIGH) {
        return Ok(Within { low, high });
    }
    let remedy = format!("write the lowest and the highest number, from {LOW} to {HIGH}");
    Err(refusal(format!("{KEY} is [{low}, {high}]"), remedy))
}

impl Default for Ranges {
    /// Ranges that at least one provider takes.
    fn default() -> Self {
        Self {
            temperature: Within { low: 0.0, high: 2.0 },
            max_tokens: Within { low: 1.0, high: f64::from(MAX_TOKENS) },
            top_p: Within { low: 0.0, high: 1.0 },
            frequency_penalty: Within { low: -2.0, high: 2.0 },
            presence_penalty: Within { low: -2.0, high: 2.0 },
            repeat_penalty: Within { low: 0.0, high: 2.0 },
        }
    }
}

/// A setting that is outside of its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfRange {
    /// As requests name it.
    pub field: &'static str,
    pub value: f64,
    pub within: Within,
}

impl Ranges {
    /// Finds the first number that is out of its range; NaN always is.
    pub fn check(&self, settings: &Settings) -> Result<(), OutOfRange> {
        let fields = [
            ("temperature", settings.temperature, self.temperature),
            ("maxTokens", settings.max_tokens.map(f64::from), self.max_tokens),
            ("topP", settings.top_p, self.top_p),
            ("frequencyPenalty", settings.frequency_penalty, self.frequency_penalty),
            ("presencePenalty", settings.presence_penalty, self.presence_penalty),
            ("repeatPenalty", settings.repeat_penalty, self.repeat_penalty),
        ];
        for (field, value, within) in fields {
            if let Some(value) = value.filter(|value| !(within.low..=within.high).contains(value)) {
                return Err(OutOfRange { field, value, within });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_within_and_what_is_beyond_is_named() {
        let ranges = Ranges { temperature: Within { low: 0.1, high: 1.2 }, ..Ranges::default() };
        let at =
            |temperature| ranges.check(&Settings { temperature: Some(temperature), ..Settings::default() });
        assert_eq!((at(0.1), at(1.2)), (Ok(()), Ok(())));
        for outside in [0.09, 1.21, -1.0] {
            let error = at(outside).unwrap_err();
            assert_eq!((error.field, error.within.low, error.within.high), ("temperature", 0.1, 1.2));
        }
        assert!(at(f64::NAN).is_err());
        let none = Settings { max_tokens: Some(0), ..Settings::default() };
        assert_eq!(ranges.check(&none).unwrap_err().field, "maxTokens");
    }
}
