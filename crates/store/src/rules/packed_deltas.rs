//! Deltas packed one after the other in a few bytes each, and unpacked to what they were.
//!
//! A delta is a number, twice the length of its text, and the text. If the number is odd, the delta belongs to something
//! else than the one before: its kind and its step come first, and of a tool's input the call and the tool's name.

use std::sync::Arc;

use protocol::{CallId, Delta};
use uuid::Uuid;

const TEXT: u8 = 1;
const REASONING: u8 = 2;
const TOOL_INPUT: u8 = 3;

/// The topic that a delta is a piece of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DeltaTopic {
    Text { step: u32 },
    Reasoning { step: u32 },
    ToolInput { step: u32, call: CallId, name: Arc<str> },
}

impl DeltaTopic {
    /// The topic of a delta, and its text.
    fn of(delta: &Delta) -> (Self, &str) {
        match delta {
            Delta::Text { step, delta } => (Self::Text { step: *step }, delta),
            Delta::Reasoning { step, delta } => (Self::Reasoning { step: *step }, delta),
            Delta::ToolInput { step, call, name, delta } => {
                (Self::ToolInput { step: *step, call: *call, name: Arc::clone(name) }, delta)
            }
        }
    }

    fn with_text(&self, delta: String) -> Delta {
        match self.clone() {
            Self::Text { step } => Delta::Text { step, delta },
            Self::Reasoning { step } => Delta::Reasoning { step, delta },
            Self::ToolInput { step, call, name } => Delta::ToolInput { step, call, name, delta },
        }
    }

    fn write(&self, into: &mut Vec<u8>) {
        let (kind, step) = match self {
            Self::Text { step } => (TEXT, step),
            Self::Reasoning { step } => (REASONING, step),
            Self::ToolInput { step, .. } => (TOOL_INPUT, step),
        };
        into.push(kind);
        write_number(into, u64::from(*step));
        if let Self::ToolInput { call, name, .. } = self {
            into.extend_from_slice(call.bytes());
            write_bytes(into, name.as_bytes());
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let step = u32::try_from(read_number(bytes)?).ok()?;
        match *kind {
            TEXT => Some(Self::Text { step }),
            REASONING => Some(Self::Reasoning { step }),
            TOOL_INPUT => {
                let call = CallId::from(Uuid::from_bytes(read_id(bytes)?));
                let name = Arc::from(std::str::from_utf8(read_bytes(bytes)?).ok()?);
                Some(Self::ToolInput { step, call, name })
            }
            _ => None,
        }
    }
}

/// Deltas in the making.
#[derive(Debug, Default)]
pub struct DeltaPacker {
    bytes: Vec<u8>,
    topic: Option<DeltaTopic>,
}

impl DeltaPacker {
    pub fn push(&mut self, delta: &Delta) {
        let (topic, text) = DeltaTopic::of(delta);
        let is_new = self.topic.as_ref() != Some(&topic);
        write_number(&mut self.bytes, text.len() as u64 * 2 + u64::from(is_new));
        if is_new {
            topic.write(&mut self.bytes);
            self.topic = Some(topic);
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The deltas in these bytes, in order. Bytes after broken ones are left out.
pub fn unpacked_deltas(mut bytes: &[u8]) -> impl Iterator<Item = Delta> {
    let mut topic = None;
    std::iter::from_fn(move || {
        let number = read_number(&mut bytes)?;
        if number % 2 == 1 {
            topic = Some(DeltaTopic::read(&mut bytes)?);
        }
        let (text, rest) = bytes.split_at_checked(usize::try_from(number / 2).ok()?)?;
        bytes = rest;
        Some(topic.as_ref()?.with_text(std::str::from_utf8(text).ok()?.to_owned()))
    })
}

/// Returns these deltas in fewer bytes, where some were packed apart from others.
pub fn repacked_deltas(bytes: &[u8]) -> Vec<u8> {
    let mut packer = DeltaPacker::default();
    unpacked_deltas(bytes).for_each(|delta| packer.push(&delta));
    packer.bytes()
}

/// Seven bits in each byte, the lowest first; the eighth says that another byte follows.
pub fn write_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

pub fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A number of bytes, and they themselves.
pub fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    write_number(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

pub fn read_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read_number(bytes)?).ok()?;
    let (found, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(found)
}

pub fn read_id(bytes: &mut &[u8]) -> Option<[u8; 16]> {
    let (id, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(step: u32, delta: &str) -> Delta {
        Delta::Text { step, delta: delta.into() }
    }

    fn packed<'a>(deltas: impl IntoIterator<Item = &'a Delta>) -> Vec<u8> {
        let mut packer = DeltaPacker::default();
        deltas.into_iter().for_each(|delta| packer.push(delta));
        packer.bytes()
    }

    fn deltas() -> impl Strategy<Value = Vec<Delta>> {
        let one = (0..3u8, 0..4u32, ".{0,80}", 0..3u128).prop_map(|(kind, step, delta, call)| match kind {
            0 => Delta::Text { step, delta },
            1 => Delta::Reasoning { step, delta },
            _ => {
                let call = CallId::from(Uuid::from_u128(call));
                Delta::ToolInput { step, call, name: "search".into(), delta }
            }
        });
        prop::collection::vec(one, 0..40)
    }

    #[test]
    fn two_hundred_short_pieces_take_little_more_than_their_text() {
        let pieces: Vec<Delta> = (0..200).map(|_| text(1, " word")).collect();
        assert_eq!(packed(&pieces).len(), 200 * 6 + 2);
    }

    #[test]
    fn broken_bytes_end_the_deltas_and_nothing_else() {
        let mut bytes = packed(&[text(1, "one"), text(1, "two")]);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(unpacked_deltas(&bytes).collect::<Vec<_>>(), [text(1, "one")]);
        assert_eq!(unpacked_deltas(&[0xff; 12]).count(), 0);
        assert_eq!(unpacked_deltas(&[0]).count(), 0, "it belongs to nothing");
    }

    proptest! {
        #[test]
        fn deltas_are_what_they_were(deltas in deltas()) {
            prop_assert_eq!(unpacked_deltas(&packed(&deltas)).collect::<Vec<_>>(), deltas);
        }

        #[test]
        fn deltas_that_were_packed_apart_become_as_short_as_together(one in deltas(), other in deltas()) {
            let apart = [packed(&one), packed(&other)].concat();
            let all: Vec<Delta> = one.into_iter().chain(other).collect();
            prop_assert_eq!(repacked_deltas(&apart), packed(&all));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            unpacked_deltas(&bytes).for_each(drop);
        }
    }
}
