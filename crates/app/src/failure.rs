//! `failure_reply` of `[loop]`: the text a user reads when no model could answer. It is one text, or a table of texts by
//! cause.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::source::bounds::{self, KEY, refusal};

/// Why no model could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The provider has no such model.
    UnknownModel,
    /// The provider does not take the key.
    Key,
    /// The budget is used up, here or at the provider.
    Quota,
    /// The provider cannot be reached, is overloaded or breaks off.
    Outage,
    Other,
}

/// The replies of an app; none at all where a run is to fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailureReplies {
    #[serde(deserialize_with = "bounds::text")]
    pub unknown_model: Option<String>,
    #[serde(deserialize_with = "bounds::text")]
    pub key: Option<String>,
    #[serde(deserialize_with = "bounds::text")]
    pub quota: Option<String>,
    #[serde(deserialize_with = "bounds::text")]
    pub outage: Option<String>,
    /// For causes that have no reply of their own.
    #[serde(deserialize_with = "bounds::text")]
    pub default: Option<String>,
}

impl FailureReplies {
    /// One reply for all.
    pub fn one_for_all(text: impl Into<String>) -> Self {
        Self { default: Some(text.into()), ..Self::default() }
    }

    pub fn of(&self, cause: FailureCause) -> Option<&str> {
        let own = match cause {
            FailureCause::UnknownModel => &self.unknown_model,
            FailureCause::Key => &self.key,
            FailureCause::Quota => &self.quota,
            FailureCause::Outage => &self.outage,
            FailureCause::Other => &None,
        };
        own.as_deref().or(self.default.as_deref())
    }
}

pub(crate) fn text_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FailureReplies, D::Error> {
    deserializer.deserialize_any(TextOrTable)
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = FailureReplies;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, or a table of texts by cause")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FailureReplies, E> {
        bounds::non_empty(text.to_owned()).map(FailureReplies::one_for_all)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FailureReplies, A::Error> {
        let replies = FailureReplies::deserialize(MapAccessDeserializer::new(map))?;
        if replies == FailureReplies::default() {
            let remedy = "write default = \"…\", or one of unknown_model, key, quota and outage";
            return Err(refusal(format!("{KEY} has no text"), remedy));
        }
        Ok(replies)
    }
}
