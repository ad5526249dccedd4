//! A request of a client, checked: from here on it is a `Submission` or a page, and needs no further look.

use std::fmt::Display;
use std::str::FromStr;

use app::{OutOfRange, Ranges, Within};
use jiff::Timestamp;
use memory::secrets;
use protocol::{MessageId, NewRun, Page, Regenerate, Settings};
use store::{PageOf, PageRows, RunInput, TimeCursor};

use crate::Error;

/// Bytes of a user's message.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// Bytes of an addition to the system prompt.
const MAX_SYSTEM_PROMPT_BYTES: usize = 64 * 1024;

/// Bytes of a model's name.
const MAX_MODEL_BYTES: usize = 200;

/// Characters of what is looked for.
const MAX_QUERY_CHARS: usize = 1_000;

/// The default number of hits of a search, and the largest.
const DEFAULT_HITS: u32 = 10;
const MAX_HITS: u32 = 100;

/// Characters of a persona's id.
pub(crate) const MAX_PERSONA_CHARS: usize = 64;

/// Documents that one run may name.
const MAX_DOCUMENTS: usize = 50;

/// Bytes of a thread's title.
const MAX_TITLE_BYTES: usize = 500;

/// Bytes of a name.
const MAX_NAME_BYTES: usize = 200;

/// Entries of a page when the client does not say, and at most.
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: u32 = 1000;

/// Entries of a list that comes whole when the client does not say. None of those is longer.
const MAX_SHORT_LIST: usize = 2_000;

/// Which page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

impl PageQuery {
    fn limit(&self) -> Result<usize, Error> {
        match self.limit {
            None => Ok(DEFAULT_PAGE),
            Some(limit) if (1..=MAX_PAGE).contains(&limit) => Ok(limit as usize),
            Some(_) => Err(Error::invalid("limit", format!("must be between 1 and {MAX_PAGE}"))),
        }
    }

    /// A page of a list that is short enough to be asked for whole.
    pub(crate) fn of_short_list(&self) -> Result<PageOf<u64>, Error> {
        let limit = if self.limit.is_none() { MAX_SHORT_LIST } else { self.limit()? };
        Ok(PageOf { after: self.position()?, limit })
    }

    /// A page of a list by number.
    pub(crate) fn by_position(&self) -> Result<PageOf<u64>, Error> {
        Ok(PageOf { after: self.position()?, limit: self.limit()? })
    }

    /// A page of a list by time.
    pub(crate) fn by_time<I: FromStr>(&self) -> Result<PageOf<TimeCursor<I>>, Error> {
        let after = self.parse(|cursor| {
            let (millis, id) = cursor.split_once('.')?;
            let at = Timestamp::from_millisecond(millis.parse().ok()?).ok()?;
            Some(TimeCursor { at, id: id.parse().ok()? })
        })?;
        Ok(PageOf { after, limit: self.limit()? })
    }

    fn position(&self) -> Result<Option<u64>, Error> {
        self.parse(|cursor| cursor.parse().ok())
    }

    fn parse<C>(&self, parse: impl FnOnce(&str) -> Option<C>) -> Result<Option<C>, Error> {
        let invalid =
            || Error::invalid("cursor", "is not valid; send the `next` of the previous page, unchanged");
        self.cursor.as_deref().map(|cursor| parse(cursor).ok_or_else(invalid)).transpose()
    }
}

/// A page as it is shown, with the place of its last entry if there are more.
pub(crate) fn page<R, V>(
    page: PageRows<R>,
    cursor: impl FnOnce(&R) -> String,
    view: impl FnMut(R) -> V,
) -> Page<V> {
    let next = page.rows.last().filter(|_| page.more).map(cursor);
    Page { data: page.rows.into_iter().map(view).collect(), next }
}

/// A page of a list in which a place is how many rows come before it.
pub(crate) fn short_page<R, V>(page: PageRows<R>, asked: PageOf<u64>, view: impl FnMut(R) -> V) -> Page<V> {
    let seen = asked.after.unwrap_or(0).saturating_add(page.rows.len() as u64);
    self::page(page, |_| seen.to_string(), view)
}

/// The place of a row in a list that is sorted by time.
pub(crate) fn time_cursor(at: Timestamp, id: impl Display) -> String {
    format!("{}.{id}", at.as_millisecond())
}

/// The question to the model, once the request has been found in order.
pub(crate) fn ask(new: &NewRun, fresh: impl FnOnce() -> MessageId) -> Result<RunInput, Error> {
    match (&new.message, new.regenerate) {
        (Some(_), Some(Regenerate::Message(_) | Regenerate::Last(true))) => Err(Error::invalid(
            "regenerate",
            "answers an old message again; send `regenerate` or `message`, not both",
        )),
        (None, Some(again @ (Regenerate::Message(_) | Regenerate::Last(true)))) => {
            if !new.parts.is_empty() {
                let message = "the message that is answered again keeps its parts; send `regenerate` or `parts`, not both";
                return Err(Error::invalid("parts", message));
            }
            if new.thread_id.is_none() {
                return Err(Error::invalid("threadId", "is required with `regenerate`"));
            }
            let of = match again {
                Regenerate::Message(id) => Some(id),
                Regenerate::Last(_) => new.parent_id,
            };
            Ok(RunInput::Again { of })
        }
        (None, None | Some(Regenerate::Last(false))) if new.parts.is_empty() => {
            Err(Error::invalid("message", "is required"))
        }
        (text, None | Some(Regenerate::Last(false))) => {
            let text = text.clone().unwrap_or_default();
            message(&text, !new.parts.is_empty())?;
            if new.parent_id.is_some() && new.thread_id.is_none() {
                return Err(Error::invalid(
                    "parentId",
                    "names a message of a thread; send its `threadId`, too",
                ));
            }
            Ok(RunInput::Say { id: fresh(), text, parent: new.parent_id, parts: Vec::new() })
        }
    }
}

/// A text, which may be empty if parts go with it.
fn message(text: &str, has_parts: bool) -> Result<(), Error> {
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Error::TooLarge { field: "message", limit: MAX_MESSAGE_BYTES });
    }
    if text.trim().is_empty() && !has_parts {
        return Err(Error::invalid("message", "is empty; say something"));
    }
    Ok(())
}

pub(crate) fn options(new: &NewRun, ranges: &Ranges) -> Result<(), Error> {
    if new.system_prompt.as_ref().is_some_and(|prompt| prompt.len() > MAX_SYSTEM_PROMPT_BYTES) {
        return Err(Error::TooLarge { field: "systemPrompt", limit: MAX_SYSTEM_PROMPT_BYTES });
    }
    if new.document_ids.as_ref().is_some_and(|named| named.len() > MAX_DOCUMENTS) {
        return Err(Error::invalid("documentIds", format!("must name at most {MAX_DOCUMENTS} documents")));
    }
    if let Some(model) = &new.model {
        model_name("model", model)?;
    }
    if let Some(model) = &new.settings.model {
        model_name("settings.model", model)?;
    }
    settings(&new.settings.settings, ranges)
}

pub(crate) fn model_name(field: &'static str, model: &str) -> Result<(), Error> {
    let fits =
        !model.trim().is_empty() && model.len() <= MAX_MODEL_BYTES && !model.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(Error::invalid(field, format!("must be a model's name of 1 to {MAX_MODEL_BYTES} bytes")))
}

/// How a model is asked, within what the app allows.
pub(crate) fn settings(settings: &Settings, ranges: &Ranges) -> Result<(), Error> {
    ranges.check(settings).map_err(|outside| {
        let OutOfRange { field, within: Within { low, high }, .. } = outside;
        let message = format!("must be from {low} to {high}");
        Error::invalid(SETTINGS.iter().find(|name| name.ends_with(field)).unwrap_or(&"settings"), message)
    })
}

/// Settings by their place in a request.
const SETTINGS: [&str; 6] = [
    "settings.temperature",
    "settings.maxTokens",
    "settings.topP",
    "settings.frequencyPenalty",
    "settings.presencePenalty",
    "settings.repeatPenalty",
];

/// The words to look for.
pub(crate) fn question<'q>(field: &'static str, text: &'q str) -> Result<&'q str, Error> {
    if text.trim().is_empty() || text.chars().nth(MAX_QUERY_CHARS).is_some() {
        return Err(Error::invalid(
            field,
            format!("must be a search text of 1 to {MAX_QUERY_CHARS} characters"),
        ));
    }
    Ok(text)
}

/// How much to find.
pub(crate) fn hits(limit: Option<u32>) -> Result<usize, Error> {
    match limit.unwrap_or(DEFAULT_HITS) {
        limit @ 1..=MAX_HITS => Ok(limit as usize),
        _ => Err(Error::invalid("limit", format!("must be a number from 1 to {MAX_HITS}"))),
    }
}

/// A persona's id as a request gives it. Whether there is one is seen when it is to speak.
pub(crate) fn persona(id: String) -> Result<String, Error> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=MAX_PERSONA_CHARS).contains(&id.len()) && id.chars().all(letters) {
        return Ok(id);
    }
    let message = format!("must be 1 to {MAX_PERSONA_CHARS} letters, digits, underscores or dashes");
    Err(Error::invalid("personaId", message))
}

pub(crate) fn title(title: &str) -> Result<String, Error> {
    line("title", title, MAX_TITLE_BYTES)
}

/// Checks the name of a document or an image.
pub(crate) fn name(name: &str) -> Result<String, Error> {
    line("name", name, MAX_NAME_BYTES)
}

fn line(field: &'static str, text: &str, limit: usize) -> Result<String, Error> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.chars().any(char::is_control) {
        return Err(Error::invalid(field, "must be one line of text"));
    }
    if trimmed.len() > limit {
        return Err(Error::TooLarge { field, limit });
    }
    Ok(trimmed.to_owned())
}

/// A text that is kept for the user: without blanks around it, and no secret.
pub(crate) fn text_to_keep(text: &str, limit: usize, if_empty: &'static str) -> Result<String, Error> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Error::invalid("text", if_empty));
    }
    if trimmed.len() > limit {
        return Err(Error::TooLarge { field: "text", limit });
    }
    match secrets::find(trimmed) {
        Some(secret) => Err(Error::Secret { field: "text", kind: secret.kind }),
        None => Ok(trimmed.to_owned()),
    }
}
