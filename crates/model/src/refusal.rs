//! The meaning of a provider's error for the caller.
//!
//! Providers agree on little: the object may be nested, at the top or in a list, and codes may be words or numbers. Of
//! what they write, only a code that looks like a code is passed on; their message is looked at and dropped, because it
//! may quote the prompt or the key. Only the message on a rate limit or a quota is logged, short and without anything that
//! looks like a key: it is about the account, and says which limit is meant.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::Error;
use crate::setting::{self, Unsupported};

/// The longest wait a provider can ask for; a longer one is cut to this.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_CODE_BYTES: usize = 64;
/// Characters of a provider's message in the log.
const MAX_LOGGED_CHARS: usize = 240;
/// Letters and digits of a word from which on it may be a key.
const MIN_KEY_CHARS: usize = 16;
/// Details of one error that are looked at.
const MAX_PLACES: usize = 8;

/// A provider's error, as far as it could be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `code`, then `type`, where they look like codes.
    codes: Vec<String>,
    /// A `code` that is a number, as some put the status into a stream.
    status: Option<u16>,
    /// In lower case, to be searched and never shown to a client.
    message: String,
    /// Names of fields that it points at, to be compared and never shown.
    places: Vec<String>,
}

impl Refusal {
    /// Reads an error's body, in any form.
    pub(crate) fn read(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(value) => Self::from_json(&value),
            Err(_) => Self { message: String::from_utf8_lossy(body).to_lowercase(), ..Self::default() },
        }
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, the inner object itself, or a list of one of these.
    pub(crate) fn from_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").unwrap_or(value);
        let text = |name| error.get(name).and_then(Value::as_str);
        let code = error.get("code");
        Self {
            codes: ["code", "type"]
                .into_iter()
                .filter_map(text)
                .filter(|code| is_code(code))
                .map(Into::into)
                .collect(),
            status: code
                .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
                .and_then(status_of),
            message: text("message")
                .or(error.as_str())
                .map_or_else(|| details_text(error), str::to_lowercase),
            places: places(error),
        }
    }

    /// The error for a status other than 200.
    pub(crate) fn error(&self, status: u16, headers: &HeaderMap, provider: &str) -> Error {
        match (self.classify(status, retry_after(headers), provider), self.unsupported_setting()) {
            (Error::Rejected { status: status @ (400 | 422), summary }, Some(refused)) => {
                Error::Unsupported { status, summary, refused }
            }
            (error, _) => error,
        }
    }

    fn unsupported_setting(&self) -> Option<Unsupported> {
        setting::find_complaint(&self.places, &self.codes, &self.message)
    }

    /// The error for a notice inside a stream that began with status 200.
    pub(crate) fn in_stream(&self, provider: &str) -> Error {
        let status = self.status.or_else(|| match self.codes.last()?.as_str() {
            _ if self.is_quota() || self.codes.iter().any(|code| code.contains("rate_limit")) => Some(429),
            "invalid_request_error" | "invalid_prompt" | "not_found_error" => Some(400),
            "authentication_error" | "permission_error" => Some(401),
            _ => None,
        });
        match status {
            Some(status) => self.classify(status, None, provider),
            None if self.is_context_length() => Error::ContextLength,
            None => Error::Unavailable {
                reason: self.with_code("an error inside the stream".into()),
                after: None,
            },
        }
    }

    fn classify(&self, status: u16, after: Option<Duration>, provider: &str) -> Error {
        let error = self.kind_of(status, after, provider);
        if matches!(error, Error::Quota | Error::RateLimited { .. }) && !self.message.is_empty() {
            tracing::warn!(provider, status, provider_message = loggable(&self.message), "{error}");
        }
        error
    }

    fn kind_of(&self, status: u16, after: Option<Duration>, provider: &str) -> Error {
        match status {
            402 => Error::Quota,
            429 if self.is_quota() || (after.is_none() && self.speaks_of_money()) => Error::Quota,
            429 => Error::RateLimited { after },
            401 | 403 => Error::Auth { status, provider: provider.to_owned() },
            408 | 409 | 425 | 500.. => {
                Error::Unavailable { reason: self.with_code(format!("status {status}")), after }
            }
            400..500 if self.is_context_length() => Error::ContextLength,
            // Some providers say so with the status of any bad request.
            400 | 422 if self.codes.iter().any(|code| code == "model_not_found") => {
                Error::Rejected { status: 404, summary: self.with_code(summary(404).to_owned()) }
            }
            _ => Error::Rejected { status, summary: self.with_code(summary(status).to_owned()) },
        }
    }

    fn with_code(&self, text: String) -> String {
        match self.codes.first() {
            Some(code) => format!("{text}, {code}"),
            None => text,
        }
    }

    fn is_quota(&self) -> bool {
        self.codes.iter().any(|code| code == "insufficient_quota" || code.starts_with("billing_"))
    }

    /// Weaker than a code: some providers call a limit per minute a quota, but they say when to come back.
    fn speaks_of_money(&self) -> bool {
        const PHRASES: &str = "insufficient_quota|exceeded your current quota|billing|spend limit|spending limit|\
            credit balance|insufficient balance";
        PHRASES.split('|').any(|phrase| self.message.contains(phrase))
    }

    fn is_context_length(&self) -> bool {
        const CODES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
        const PHRASES: &str = "context length|context limit|context window|context size|prompt is too long|\
            input is too long|maximum number of tokens allowed|reduce the length of";
        self.codes.iter().any(|code| CODES.contains(&code.as_str()))
            || PHRASES.split('|').any(|phrase| self.message.contains(phrase))
    }
}

/// Returns the places that a refusal points at: OpenAI's `param`, and the `loc` of each detail, as servers in Python
/// write it.
fn places(error: &Value) -> Vec<String> {
    let param = error.get("param").and_then(Value::as_str).map(str::to_owned);
    let located = details(error).filter_map(|detail| {
        let names = detail.get("loc")?.as_array()?.iter().filter_map(Value::as_str);
        Some(names.collect::<Vec<_>>().join("."))
    });
    param.into_iter().chain(located).take(MAX_PLACES).map(|place| place.to_lowercase()).collect()
}

/// The text of the details, where there is no message beside them.
fn details_text(error: &Value) -> String {
    let texts = details(error).filter_map(|detail| detail.get("msg")?.as_str());
    texts.collect::<Vec<_>>().join("; ").to_lowercase()
}

fn details(error: &Value) -> impl Iterator<Item = &Value> {
    let list = error.get("detail").or_else(|| error.pointer("/message/detail")).and_then(Value::as_array);
    list.into_iter().flatten().take(MAX_PLACES)
}

/// A message of a provider without words that may be keys, in one line.
fn loggable(message: &str) -> String {
    let words = message.split_whitespace().map(|word| if may_be_key(word) { "[hidden]" } else { word });
    let line = words.collect::<Vec<_>>().join(" ");
    let plain = line.chars().filter(|c| !c.is_control());
    if line.chars().count() <= MAX_LOGGED_CHARS {
        return plain.collect();
    }
    plain.take(MAX_LOGGED_CHARS).chain(['…']).collect()
}

/// Keys are long, and most have digits; words about limits and names of models are shorter or have none. The words of an
/// address say nothing about a limit that is worth the risk.
fn may_be_key(word: &str) -> bool {
    let longest = word.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or_default();
    let marks = ["sk-", "key-", "bearer", "://", "*"];
    let hex = word.chars().filter(char::is_ascii_hexdigit).count();
    let is_id =
        hex >= MIN_KEY_CHARS && word.chars().all(|c| c.is_ascii_hexdigit() || c.is_ascii_punctuation());
    is_id || longest >= MIN_KEY_CHARS || marks.iter().any(|mark| word.contains(mark))
}

fn summary(status: u16) -> &'static str {
    match status {
        300..400 => "it answers with a redirect; check the base URL",
        404 => "no such model or address",
        413 => "the request is too large",
        _ => "the provider found the request invalid",
    }
}

fn is_code(text: &str) -> bool {
    (1..=MAX_CODE_BYTES).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
}

fn status_of(code: u64) -> Option<u16> {
    u16::try_from(code).ok().filter(|status| (400..600).contains(status))
}

/// How long the provider asks us to wait: milliseconds, seconds, or a date. A date is measured against the provider's
/// own `Date`, so our clock need not agree with theirs.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |value: Option<&reqwest::header::HeaderValue>| Some(value?.to_str().ok()?.trim().to_owned());
    let wait = if let Some(wait) = text(headers.get("retry-after-ms")).and_then(|ms| ms.parse().ok()) {
        Duration::from_millis(wait)
    } else {
        let value = text(headers.get(RETRY_AFTER))?;
        match value.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                date(&value)?.duration_since(date(&text(headers.get(DATE))?)?).try_into().unwrap_or_default()
            }
        }
    };
    Some(wait.min(MAX_WAIT))
}

fn date(text: &str) -> Option<jiff::Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests;
