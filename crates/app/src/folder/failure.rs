//! `failure_reply` of `[loop]`: one text, or a table of texts by cause.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::failure::FailureReplies;
use crate::source::{Problem, Source, Spanned};

/// The name of the key, for messages.
const KEY: &str = "loop.failure_reply";

pub(super) enum RawFailureReply {
    Text(String),
    Table(RawReplies),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawReplies {
    unknown_model: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    quota: Option<Spanned<String>>,
    outage: Option<Spanned<String>>,
    default: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for RawFailureReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = RawFailureReply;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, or a table of texts by cause")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RawFailureReply, E> {
        Ok(RawFailureReply::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawFailureReply, A::Error> {
        RawReplies::deserialize(MapAccessDeserializer::new(map)).map(RawFailureReply::Table)
    }
}

pub(super) fn failure_replies(
    source: &Source<'_>,
    raw: Option<Spanned<RawFailureReply>>,
) -> Result<FailureReplies, Problem> {
    let Some(raw) = raw else { return Ok(FailureReplies::default()) };
    let span = raw.span();
    let replies = match raw.into_inner() {
        RawFailureReply::Text(text) if text.trim().is_empty() => {
            let remedy = "write a text, or remove the line to get the default";
            return Err(source.problem(span, format!("{KEY} is empty"), remedy));
        }
        RawFailureReply::Text(text) => return Ok(FailureReplies::always(text)),
        RawFailureReply::Table(replies) => replies,
    };
    let text = |cause: &str, value| source.text(&format!("{KEY}.{cause}"), value);
    let replies = FailureReplies {
        unknown_model: text("unknown_model", replies.unknown_model)?,
        key: text("key", replies.key)?,
        quota: text("quota", replies.quota)?,
        outage: text("outage", replies.outage)?,
        default: text("default", replies.default)?,
    };
    if replies == FailureReplies::default() {
        let remedy = "write default = \"…\", or one of unknown_model, key, quota and outage";
        return Err(source.problem(span, format!("{KEY} has no text"), remedy));
    }
    Ok(replies)
}
