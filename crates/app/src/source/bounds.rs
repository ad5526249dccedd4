//! Bounds of configuration values, for `#[serde(deserialize_with = "…")]`.
//!
//! A value out of its bounds fails with the full name of its key, such as `loop.max_steps`, and with a remedy. Serde
//! carries errors as text only, so a refusal travels as one text and is taken apart in [`FileText::toml`](super::FileText::toml).

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Stands in a message for the full name of the key.
pub const KEY: &str = "\u{1a}";
/// Stands between the parts of a refusal. TOML allows it in no text, unless it is escaped.
const BETWEEN: &str = "\u{1f}";

/// A refused value, as far as the error says.
pub(super) struct RefusedValue {
    /// Of one entry of a list; otherwise the error's own span holds.
    pub(super) span: Option<Range<usize>>,
    pub(super) message: String,
    pub(super) remedy: String,
}

/// An error about the value that is being read.
pub fn refusal<E: de::Error>(message: impl Into<String>, remedy: impl Into<String>) -> E {
    E::custom([String::new(), message.into(), remedy.into()].join(BETWEEN))
}

/// An error about one entry of the list that is being read.
pub fn refusal_at<E: de::Error>(
    span: &Range<usize>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> E {
    E::custom([span.start.to_string(), message.into(), remedy.into()].join(BETWEEN))
}

pub(super) fn refusal_in(error: &toml::de::Error) -> Option<RefusedValue> {
    let mut parts = error.message().splitn(3, BETWEEN);
    let (at, message, remedy) = (parts.next()?, parts.next()?, parts.next()?);
    let span = at.parse().ok().map(|start: usize| start..start);
    Some(RefusedValue { span, message: message.replace(KEY, &full_key(error)), remedy: remedy.to_owned() })
}

/// The keys that lead to the value, which the error only shows where it cannot show the text.
fn full_key(error: &toml::de::Error) -> String {
    let mut error = error.clone();
    error.set_input(None);
    let shown = error.to_string();
    let keys = shown.trim_end().rsplit_once("\nin `").map(|(_, keys)| keys.trim_end_matches('`'));
    keys.unwrap_or("the value").to_owned()
}

/// A type that a whole number of a configuration file becomes.
pub trait WholeNumber: Sized {
    /// None when the type cannot hold it.
    fn from_whole(number: i64) -> Option<Self>;
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {
        $(impl WholeNumber for $number {
            fn from_whole(number: i64) -> Option<Self> {
                Self::try_from(number).ok()
            }
        })*
    };
}

whole_numbers!(u8, u16, u32, u64, usize);

impl WholeNumber for Duration {
    /// A duration is written in seconds.
    fn from_whole(number: i64) -> Option<Self> {
        u64::try_from(number).ok().map(Self::from_secs)
    }
}

impl<N: WholeNumber> WholeNumber for Option<N> {
    fn from_whole(number: i64) -> Option<Self> {
        N::from_whole(number).map(Some)
    }
}

/// A whole number from `LOW` to `HIGH`.
pub fn whole_number<'de, const LOW: i64, const HIGH: i64, N: WholeNumber, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<N, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let within = Some(number).filter(|number| (LOW..=HIGH).contains(number));
    within.and_then(N::from_whole).ok_or_else(|| {
        refusal(format!("{KEY} is {number}"), format!("write a whole number from {LOW} to {HIGH}"))
    })
}

/// A number from `LOW` to `HIGH`, which NaN never is.
pub fn number<'de, const LOW: i32, const HIGH: i32, N: From<f64>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<N, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if (f64::from(LOW)..=f64::from(HIGH)).contains(&number) {
        return Ok(number.into());
    }
    Err(refusal(format!("{KEY} is {number}"), format!("write a number from {LOW} to {HIGH}")))
}

/// A text that says something.
pub fn text<'de, T: From<String>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    non_empty(String::deserialize(deserializer)?).map(T::from)
}

/// The text, unless it says nothing.
pub(crate) fn non_empty<E: de::Error>(text: String) -> Result<String, E> {
    if text.trim().is_empty() { Err(refusal(format!("{KEY} is empty"), EMPTY_REMEDY)) } else { Ok(text) }
}

/// The remedy for a text that says nothing.
pub(super) const EMPTY_REMEDY: &str = "write a text, or remove the line to get the default";
