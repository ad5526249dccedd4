//! Ids: one type for each kind of thing, a version 7 UUID inside, `prefix_hex` on the wire.
//!
//! Ids are `Copy` and sixteen bytes, so the hot path passes them around freely. `lower(hex(id))` in a database shell
//! gives the wire form without its prefix.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Position of an event in its thread's log, from 1.
pub type Seq = u64;

/// The reason why a text is not an id of the expected type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError {
    prefix: &'static str,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected an id of the form {}_ and 32 hexadecimal digits", self.prefix)
    }
}

impl std::error::Error for ParseIdError {}

fn parse(prefix: &'static str, text: &str) -> Result<Uuid, ParseIdError> {
    let hex = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    // One spelling per id: similar texts in upper case or with dashes are no ids.
    let canonical =
        hex.filter(|hex| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    canonical.and_then(|hex| Uuid::try_parse(hex).ok()).ok_or(ParseIdError { prefix })
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of the wire form.
            pub const PREFIX: &'static str = $prefix;

            pub fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub fn uuid(self) -> Uuid {
                self.0
            }

            pub fn bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse($prefix, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-9a-f]{32}$")))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )*};
}

ids! {
    /// A conversation.
    ThreadId = "thr",
    /// The work of answering one user message.
    RunId = "run",
    /// A message of the user or the assistant.
    MessageId = "msg",
    /// One tool call. The server makes this id, which is not the provider's id of the call.
    CallId = "call",
    /// A background job.
    JobId = "job",
    /// A user's key, by its public name.
    KeyId = "key",
    /// A browser's session.
    SessionId = "sess",
    /// A durable fact about the user.
    MemoryId = "mem",
    /// An action in the ledger. A call of a run and its action have the same number.
    ActionId = "act",
    /// A call that waits for the user's approval.
    ProposalId = "prop",
    /// A typed object of an app.
    RecordId = "rec",
    /// A text that the user marked as important.
    PinId = "pin",
    /// A summary of a part of a conversation.
    SummaryId = "sum",
    /// A document of a user or of an app.
    DocumentId = "doc",
    /// An image that was uploaded.
    ImageId = "img",
    /// A piece of a document.
    ChunkId = "chk",
}

impl From<CallId> for ActionId {
    fn from(call: CallId) -> Self {
        Self(call.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_exactly_one_spelling() {
        let id: RunId = "run_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1".parse().unwrap();
        assert_eq!(id.to_string(), "run_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1");
        for wrong in [
            "",
            "run_",
            "run_0192F3A1C4E27D3A8B5F6C7D8E9FA0B1",
            "run_0192f3a1-c4e2-7d3a-8b5f-6c7d8e9fa0b1",
            "thr_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1",
            "0192f3a1c4e27d3a8b5f6c7d8e9fa0b1",
            "run_0192f3a1c4e27d3a8b5f6c7d8e9fa0b",
            "run_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1 ",
        ] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong:?} was taken");
        }
    }
}
