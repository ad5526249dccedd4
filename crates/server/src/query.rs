//! What paths, query strings and `Last-Event-ID` say, as types.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::header;
use axum::http::request::Parts;
use protocol::{ActionId, DocumentId, KeyId, MemoryId, PinId, ProposalId, RunId, Seq, ThreadId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use service::{
    ActionQuery, ExportFormat, FilePlace, MessageQuery, PageQuery, RecordPlace, RecordSearch, RecordsPlace,
};
use utoipa::IntoParams;

use crate::Api;
use crate::error::{Code, Problem};

const MAX_PAGE: u32 = 1000;

/// The one name in the path. One that cannot exist is answered like one that does not.
pub(crate) struct InPath<T>(pub(crate) T);

/// What a name in a path names.
pub(crate) trait Named: FromStr {
    const WHAT: &'static str;
}

impl Named for RunId {
    const WHAT: &'static str = "run";
}

impl Named for ThreadId {
    const WHAT: &'static str = "thread";
}

impl Named for KeyId {
    const WHAT: &'static str = "key";
}

impl Named for MemoryId {
    const WHAT: &'static str = "memory";
}

impl Named for ActionId {
    const WHAT: &'static str = "action";
}

impl Named for ProposalId {
    const WHAT: &'static str = "proposal";
}

impl Named for PinId {
    const WHAT: &'static str = "pin";
}

impl Named for DocumentId {
    const WHAT: &'static str = "document";
}

/// An app's name; the service knows which exist.
impl Named for String {
    const WHAT: &'static str = "app";
}

impl<T: Named> FromRequestParts<Api> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, api).await.ok();
        let name = text.and_then(|Path(text)| text.parse().ok());
        name.map(Self).ok_or_else(|| service::Error::NotFound { what: T::WHAT }.into())
    }
}

/// A place of several names. The service knows which apps, types and paths there are.
pub(crate) struct At<T>(pub(crate) T);

impl FromRequestParts<Api> for At<RecordsPlace> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let names = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((app, kind)) = names.map_err(|_| nothing("type of records"))?;
        Ok(Self(RecordsPlace { app, kind }))
    }
}

impl FromRequestParts<Api> for At<RecordPlace> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let names = Path::<(String, String, String)>::from_request_parts(parts, api).await;
        let Path((app, kind, id)) = names.map_err(|_| nothing("record"))?;
        let id = id.parse().map_err(|_| nothing("record"))?;
        Ok(Self(RecordPlace { of: RecordsPlace { app, kind }, id }))
    }
}

impl FromRequestParts<Api> for At<FilePlace> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let names = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((app, path)) = names.map_err(|_| nothing("file"))?;
        Ok(Self(FilePlace { app, path }))
    }
}

/// A persona by its app and id.
pub(crate) struct PersonaPlace {
    pub(crate) app: String,
    pub(crate) id: String,
}

impl FromRequestParts<Api> for At<PersonaPlace> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let names = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((app, id)) = names.map_err(|_| nothing("persona"))?;
        Ok(Self(PersonaPlace { app, id }))
    }
}

fn nothing(what: &'static str) -> Problem {
    service::Error::NotFound { what }.into()
}

/// Which part of a list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// How many items at most.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// [`PageParams`], read.
pub(crate) struct Paging(pub(crate) PageQuery);

impl FromRequestParts<Api> for Paging {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let PageParams { limit, cursor } = params(parts)?;
        let limit = limit.as_deref().map(page_limit).transpose()?;
        Ok(Self(PageQuery { limit, cursor }))
    }
}

fn page_limit(text: &str) -> Result<u32, Problem> {
    let limit = digits(text).and_then(|limit| u32::try_from(limit).ok());
    limit
        .filter(|limit| (1..=MAX_PAGE).contains(limit))
        .ok_or_else(|| Problem::invalid("limit", format!("must be a number from 1 to {MAX_PAGE}")))
}

/// Which actions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActionParams {
    /// Those of one run.
    #[param(value_type = Option<RunId>)]
    run: Option<String>,
    /// Those of one thread.
    #[param(value_type = Option<ThreadId>)]
    thread: Option<String>,
    tool: Option<String>,
    /// `started`, `complete`, `failed`, `denied`, `cancelled` or `unknown`.
    status: Option<String>,
    /// `read`, `idempotent`, `reversible` or `irreversible`.
    effect: Option<String>,
    /// Only those that were taken back, or only those that were not.
    #[param(value_type = Option<bool>)]
    undone: Option<String>,
}

/// [`ActionParams`], read.
pub(crate) struct WhichActions(pub(crate) ActionQuery);

impl FromRequestParts<Api> for WhichActions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let ActionParams { run, thread, tool, status, effect, undone } = params(parts)?;
        let run = run.map(|text| id("run", &text)).transpose()?;
        let thread = thread.map(|text| id("thread", &text)).transpose()?;
        let undone = undone.map(|text| yes_or_no("undone", &text)).transpose()?;
        Ok(Self(ActionQuery { run, thread, tool, status, effect, undone }))
    }
}

/// Which proposals to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OpenParams {
    /// `true` for those that can still be decided; all when absent.
    #[param(value_type = Option<bool>)]
    open: Option<String>,
}

/// Whether only what is open is asked for.
pub(crate) struct OnlyOpen(pub(crate) bool);

impl FromRequestParts<Api> for OnlyOpen {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let open = params::<OpenParams>(parts)?.open.map(|text| yes_or_no("open", &text)).transpose()?;
        Ok(Self(open.unwrap_or(false)))
    }
}

/// Which memories to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MemoryParams {
    /// `active` (when absent), `forgotten`, `removed`, `expired`, `superseded` or `all`.
    status: Option<String>,
}

/// [`MemoryParams`]; the service knows which there are.
pub(crate) struct OfStatus(pub(crate) Option<String>);

impl FromRequestParts<Api> for OfStatus {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        Ok(Self(params::<MemoryParams>(parts)?.status))
    }
}

/// How a memory goes.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PurgeParams {
    /// `true` removes it from the disk for good, so that it cannot be restored.
    purge: Option<String>,
}

/// [`PurgeParams`]: whether it goes for good.
pub(crate) struct ForGood(pub(crate) bool);

impl FromRequestParts<Api> for ForGood {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let purge = params::<PurgeParams>(parts)?.purge.map(|text| yes_or_no("purge", &text)).transpose()?;
        Ok(Self(purge.unwrap_or(false)))
    }
}

/// To whom a profile speaks.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProfileParams {
    /// What this app alone is told; without it, what all apps of the key are told.
    app: Option<String>,
}

/// [`ProfileParams`]: the app that alone is told.
pub(crate) struct ToldTo(pub(crate) Option<String>);

impl FromRequestParts<Api> for ToldTo {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        Ok(Self(params::<ProfileParams>(parts)?.app))
    }
}

/// Which form a file is to have.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FormatParams {
    /// `json` (when absent), `markdown` or `mem0`.
    format: Option<String>,
}

/// [`FormatParams`], read.
pub(crate) struct InFormat(pub(crate) ExportFormat);

impl FromRequestParts<Api> for InFormat {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let format = params::<FormatParams>(parts)?.format;
        Ok(Self(format.map(|name| name.parse::<ExportFormat>()).transpose()?.unwrap_or_default()))
    }
}

/// Which past messages to look for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessageParams {
    /// What to look for, in 1 to 1000 characters.
    #[param(required = true, value_type = String)]
    q: Option<String>,
    /// How many at most; 10 when absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Option<String>,
    /// The first day or moment (UTC).
    from: Option<String>,
    /// The last day or moment (UTC).
    to: Option<String>,
}

/// [`MessageParams`], read; the service knows which are good.
pub(crate) struct WhichMessages(pub(crate) MessageQuery);

impl FromRequestParts<Api> for WhichMessages {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let MessageParams { q, limit, from, to } = params(parts)?;
        // A number that is none is refused as one that is out of bounds.
        let number = |text: String| digits(&text).and_then(|limit| u32::try_from(limit).ok()).unwrap_or(0);
        Ok(Self(MessageQuery { text: q.unwrap_or_default(), limit: limit.map(number), from, to }))
    }
}

/// Which summaries to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AllParams {
    /// `true` for those, too, that a later one took the place of.
    #[param(value_type = Option<bool>)]
    all: Option<String>,
}

/// Whether everything is asked for.
pub(crate) struct All(pub(crate) bool);

impl FromRequestParts<Api> for All {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let all = params::<AllParams>(parts)?.all.map(|text| yes_or_no("all", &text)).transpose()?;
        Ok(Self(all.unwrap_or(false)))
    }
}

/// Which part of a document's text.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PieceParams {
    /// The piece to begin with: 0 when absent, then the `next` of the part before.
    #[param(value_type = Option<u32>)]
    from: Option<String>,
}

/// [`PieceParams`], read.
pub(crate) struct FromPiece(pub(crate) u32);

impl FromRequestParts<Api> for FromPiece {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let Some(text) = params::<PieceParams>(parts)?.from else { return Ok(Self(0)) };
        let from = digits(&text).and_then(|from| u32::try_from(from).ok());
        let invalid = || Problem::invalid("from", "must be the number of a piece, such as 12");
        from.map(Self).ok_or_else(invalid)
    }
}

/// What an upload is called.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NameParams {
    /// Required unless the body is a form, whose file has a name.
    pub(crate) name: Option<String>,
}

/// `q` and `field.NAME`, as pairs; the rest is for others.
pub(crate) struct WhichRecords(pub(crate) RecordSearch);

impl FromRequestParts<Api> for WhichRecords {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let mut search = RecordSearch::default();
        for (name, value) in params::<Vec<(String, String)>>(parts)? {
            if name == "q" && search.words.replace(value.clone()).is_some() {
                return Err(Problem::invalid("q", "give it once"));
            }
            if let Some(field) = name.strip_prefix("field.") {
                search.fields.push((field.to_owned(), value));
            }
        }
        Ok(Self(search))
    }
}

/// The version that a change is meant for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionParams {
    /// The same as `If-Match`, which wins over it.
    #[param(value_type = Option<u64>)]
    version: Option<String>,
}

/// [`VersionParams`] or `If-Match`, read.
pub(crate) struct Expected(pub(crate) Option<u64>);

impl FromRequestParts<Api> for Expected {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            let version = params::<VersionParams>(parts)?.version;
            let read = |text: String| {
                digits(&text).ok_or_else(|| Problem::invalid("version", "must be a number such as 3"))
            };
            return version.map(read).transpose().map(Self);
        };
        let tag = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let version = tag.and_then(digits);
        let invalid = || Problem::invalid("If-Match", "must be a version in quotes, such as \"3\"");
        version.map(|version| Self(Some(version))).ok_or_else(invalid)
    }
}

/// Where to go on in a log.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AfterParams {
    /// The last event seen; `Last-Event-ID` wins over it.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
}

/// The last event the client has seen.
pub(crate) struct After(pub(crate) Option<Seq>);

impl FromRequestParts<Api> for After {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        match parts.headers.get("last-event-id") {
            Some(value) => place("Last-Event-ID", value.to_str().unwrap_or_default()).map(Some),
            None => params::<AfterParams>(parts)?.after.map(|text| place("after", &text)).transpose(),
        }
        .map(Self)
    }
}

/// Which days of a report.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PeriodParams {
    /// The first day (UTC), such as `2026-11-01`; 29 days before the last when absent.
    pub(crate) from: Option<String>,
    /// The last day (UTC), at most 365 days after the first; today when absent.
    pub(crate) to: Option<String>,
}

/// [`PeriodParams`]; the service knows which days are good.
pub(crate) struct Period(pub(crate) PeriodParams);

impl FromRequestParts<Api> for Period {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        params(parts).map(Self)
    }
}

fn place(name: &str, text: &str) -> Result<Seq, Problem> {
    digits(text).ok_or_else(|| {
        Problem::new(Code::InvalidCursor, format!("{name} must be the id of an event, a number such as 42"))
    })
}

fn id<T: FromStr>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::invalid(name, "must be an id"))
}

fn yes_or_no(name: &str, text: &str) -> Result<bool, Problem> {
    text.parse().map_err(|_| Problem::invalid(name, "must be true or false"))
}

/// Digits alone, and within what a database can count to.
fn digits(text: &str) -> Option<u64> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    number.and_then(|number| u64::try_from(number).ok())
}

pub(crate) fn params<T: DeserializeOwned>(parts: &Parts) -> Result<T, Problem> {
    let parsed = Query::<T>::try_from_uri(&parts.uri);
    parsed.map(|Query(params)| params).map_err(|_| {
        Problem::new(Code::InvalidRequest, "the query string cannot be read; give each parameter once")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_plain_number() {
        assert_eq!(place("after", "0"), Ok(0));
        assert_eq!(place("after", "42"), Ok(42));
        assert_eq!(place("after", "9223372036854775807"), Ok(i64::MAX as u64));
        for wrong in
            ["", " ", "-1", "+1", "1.0", "1e3", "0x10", "4 2", "٤", "9223372036854775808", "run:1", "null"]
        {
            assert_eq!(place("after", wrong).unwrap_err().code(), Code::InvalidCursor, "{wrong:?}");
        }
    }

    #[test]
    fn a_page_has_one_to_a_thousand_items() {
        assert_eq!(page_limit("1"), Ok(1));
        assert_eq!(page_limit("1000"), Ok(1000));
        for wrong in ["0", "1001", "-1", "ten", "", "4294967297"] {
            let expected = Problem::invalid("limit", "must be a number from 1 to 1000");
            assert_eq!(page_limit(wrong), Err(expected), "{wrong:?}");
        }
    }
}
