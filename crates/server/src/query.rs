//! Query strings, `If-Match` and `Last-Event-ID` as types: each type reads its parameters and describes them in OpenAPI.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::header;
use axum::http::request::Parts;
use protocol::{RunId, Seq, ThreadId};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use service::{ActionQuery, MessageQuery, PageQuery, RecordSearch, ThreadQuery};
use utoipa::IntoParams;

use crate::Api;
use crate::error::{ApiProblem, ProblemCode};

const MAX_PAGE: u32 = 1000;

/// How the refusals of this file's own readers begin; they name the parameter at fault.
const RULE: &str = "must ";

/// The parameters of a query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Params<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        read_params(parts).map(Self)
    }
}

pub(crate) fn read_params<T: DeserializeOwned>(parts: &Parts) -> Result<T, ApiProblem> {
    let parsed = Query::<T>::try_from_uri(&parts.uri);
    parsed.map(|Query(params)| params).map_err(|rejection| {
        broken_rule(&rejection).unwrap_or_else(|| {
            ApiProblem::new(
                ProblemCode::InvalidRequest,
                "the query string cannot be read; give each parameter once",
            )
        })
    })
}

/// The parameter that breaks a rule of this file, if that is why the query string was refused.
fn broken_rule(rejection: &dyn std::error::Error) -> Option<ApiProblem> {
    let mut source = rejection.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<serde_path_to_error::Error<serde::de::value::Error>>() {
            let rule = error.inner().to_string();
            return rule.starts_with(RULE).then(|| ApiProblem::invalid(error.path().to_string(), rule));
        }
        source = error.source();
    }
    None
}

/// The part of a list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// The number of items at most.
    #[serde(default, deserialize_with = "page_limit")]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

impl From<PageParams> for PageQuery {
    fn from(PageParams { limit, cursor }: PageParams) -> Self {
        Self { limit, cursor }
    }
}

/// The threads to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadParams {
    /// The archived threads: `false` (when absent) leaves them out, `true` lists only them, and `all` lists all
    /// threads.
    #[serde(default = "not_archived", deserialize_with = "yes_no_or_all")]
    #[param(value_type = Option<String>)]
    archived: Option<bool>,
    /// The pinned threads: `true` lists only them, `false` leaves them out.
    #[serde(default, deserialize_with = "yes_or_no")]
    pinned: Option<bool>,
}

impl From<ThreadParams> for ThreadQuery {
    fn from(ThreadParams { archived, pinned }: ThreadParams) -> Self {
        Self { archived, pinned }
    }
}

/// A search for threads. The service checks the values.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadSearchParams {
    /// The search words, in 1 to 1000 characters.
    #[serde(default)]
    #[param(required = true)]
    pub(crate) q: String,
    /// The number of threads at most; 10 when absent.
    #[serde(default, deserialize_with = "number_or_zero")]
    #[param(minimum = 1, maximum = 100)]
    pub(crate) limit: Option<u32>,
}

/// The format of the file of a thread.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadExportParams {
    /// The format: `json` (when absent) or `markdown`.
    pub(crate) format: Option<String>,
}

/// The actions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActionParams {
    /// The run to which the actions belong.
    #[serde(default, deserialize_with = "id")]
    run: Option<RunId>,
    /// The thread to which the actions belong.
    #[serde(default, deserialize_with = "id")]
    thread: Option<ThreadId>,
    tool: Option<String>,
    /// The status of the actions: `started`, `complete`, `failed`, `denied`, `cancelled` or `unknown`.
    status: Option<String>,
    /// The effect of the actions: `read`, `idempotent`, `reversible` or `irreversible`.
    effect: Option<String>,
    /// The undone actions: `true` lists only them, `false` leaves them out.
    #[serde(default, deserialize_with = "yes_or_no")]
    undone: Option<bool>,
}

impl From<ActionParams> for ActionQuery {
    fn from(params: ActionParams) -> Self {
        let ActionParams { run, thread, tool, status, effect, undone } = params;
        Self { run, thread, tool, status, effect, undone }
    }
}

/// The proposals or calls to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OpenParams {
    /// The open ones: `true` lists only them. All when absent.
    #[serde(default, deserialize_with = "yes_or_no")]
    pub(crate) open: Option<bool>,
}

/// The memories to list. The service checks the status.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MemoryParams {
    /// The status of the memories: `active` (when absent), `forgotten`, `removed`, `expired`, `superseded` or `all`.
    pub(crate) status: Option<String>,
}

/// Whether a memory is forgotten or removed for good.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PurgeParams {
    /// Whether the memory is deleted permanently. It cannot be restored then.
    #[serde(default, deserialize_with = "yes_or_no")]
    #[param(value_type = Option<String>)]
    pub(crate) purge: Option<bool>,
}

/// The app of a profile.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProfileParams {
    /// The profile in this app; without it, the common profile of all apps of the key.
    pub(crate) app: Option<String>,
}

/// The format of a file of memories.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// The format: `json` (when absent), `markdown` or `mem0`.
    pub(crate) format: Option<String>,
}

/// A search for past messages. The service checks the values.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessageParams {
    /// The search words, in 1 to 1000 characters.
    #[serde(default)]
    #[param(required = true)]
    q: String,
    /// The number of messages at most; 10 when absent.
    #[serde(default, deserialize_with = "number_or_zero")]
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The first day or moment (UTC).
    from: Option<String>,
    /// The last day or moment (UTC).
    to: Option<String>,
}

impl From<MessageParams> for MessageQuery {
    fn from(MessageParams { q, limit, from, to }: MessageParams) -> Self {
        Self { text: q, limit, from, to }
    }
}

/// The summaries to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SummaryParams {
    /// Whether to include summaries that a later summary has replaced.
    #[serde(default, deserialize_with = "yes_or_no")]
    pub(crate) all: Option<bool>,
}

/// The part of a document's text.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PieceParams {
    /// The piece to begin with: 0 when absent, then the `next` of the part before.
    #[serde(default, deserialize_with = "piece_number")]
    pub(crate) from: Option<u32>,
}

/// The name of an upload.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NameParams {
    /// The name of the file. Required unless the body is a form, whose file has a name.
    pub(crate) name: Option<String>,
}

/// `q` and `field.NAME`, as pairs; other parameters are left to other types.
pub(crate) struct RecordParams(pub(crate) RecordSearch);

impl FromRequestParts<Api> for RecordParams {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        let mut search = RecordSearch::default();
        for (name, value) in read_params::<Vec<(String, String)>>(parts)? {
            if name == "q" && search.words.replace(value.clone()).is_some() {
                return Err(ApiProblem::invalid("q", "give it once"));
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
    /// The expected version, as in `If-Match`, which has priority.
    #[serde(default, deserialize_with = "version_number")]
    version: Option<u64>,
}

/// The header beside [`VersionParams`].
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it describes the header, which `ExpectedVersion` reads")]
pub(crate) struct IfMatch {
    /// The expected version, such as "3"
    #[param(rename = "If-Match")]
    version: Option<String>,
}

/// The version that `If-Match` or [`VersionParams`] names.
pub(crate) struct ExpectedVersion(pub(crate) Option<u64>);

impl FromRequestParts<Api> for ExpectedVersion {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            return read_params::<VersionParams>(parts).map(|params| Self(params.version));
        };
        let tag = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
        let version = tag.and_then(digits);
        let invalid = || ApiProblem::invalid("If-Match", "must be a version in quotes, such as \"3\"");
        version.map(|version| Self(Some(version))).ok_or_else(invalid)
    }
}

/// The place in a log from which to continue.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AfterParams {
    /// The last seen event; `Last-Event-ID` has priority.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
}

/// The header beside [`AfterParams`].
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it describes the header, which `LastEvent` reads")]
pub(crate) struct LastEventId {
    /// The last event seen
    #[param(rename = "Last-Event-ID")]
    after: Option<u64>,
}

/// The last event that the client has seen, from `Last-Event-ID` or [`AfterParams`].
pub(crate) struct LastEvent(pub(crate) Option<Seq>);

impl FromRequestParts<Api> for LastEvent {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        match parts.headers.get("last-event-id") {
            Some(value) => event_number("Last-Event-ID", value.to_str().unwrap_or_default()).map(Some),
            None => {
                let after = read_params::<AfterParams>(parts)?.after;
                after.map(|text| event_number("after", &text)).transpose()
            }
        }
        .map(Self)
    }
}

/// The days of a report. The service checks the days.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PeriodParams {
    /// The first day (UTC), such as `2026-11-01`; 29 days before the last when absent.
    pub(crate) from: Option<String>,
    /// The last day (UTC), at most 365 days after the first; today when absent.
    pub(crate) to: Option<String>,
}

/// The number of an event or a notice.
pub(crate) fn place_number(text: &str) -> Option<Seq> {
    digits(text)
}

fn event_number(name: &str, text: &str) -> Result<Seq, ApiProblem> {
    digits(text).ok_or_else(|| {
        ApiProblem::new(
            ProblemCode::InvalidCursor,
            format!("{name} must be the id of an event, a number such as 42"),
        )
    })
}

fn page_limit<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(value)?;
    let limit = small_number(&text).filter(|limit| (1..=MAX_PAGE).contains(limit));
    limit.map(Some).ok_or_else(|| D::Error::custom(format!("{RULE}be a number from 1 to {MAX_PAGE}")))
}

/// A number that is none is refused as one that is out of bounds.
pub(crate) fn number_or_zero<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    Ok(Some(small_number(&String::deserialize(value)?).unwrap_or(0)))
}

fn piece_number<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    let from = small_number(&String::deserialize(value)?);
    from.map(Some).ok_or_else(|| D::Error::custom(format!("{RULE}be the number of a piece, such as 12")))
}

fn version_number<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    let version = digits(&String::deserialize(value)?);
    version.map(Some).ok_or_else(|| D::Error::custom(format!("{RULE}be a number such as 3")))
}

fn id<'de, T: FromStr, D: Deserializer<'de>>(value: D) -> Result<Option<T>, D::Error> {
    let id = String::deserialize(value)?.parse();
    id.map(Some).map_err(|_| D::Error::custom(format!("{RULE}be an id")))
}

fn yes_or_no<'de, D: Deserializer<'de>>(value: D) -> Result<Option<bool>, D::Error> {
    let answer = String::deserialize(value)?.parse();
    answer.map(Some).map_err(|_| D::Error::custom(format!("{RULE}be true or false")))
}

/// A list without this parameter leaves archived threads out.
#[expect(clippy::unnecessary_wraps, reason = "it is the value of a field that may be absent")]
fn not_archived() -> Option<bool> {
    Some(false)
}

fn yes_no_or_all<'de, D: Deserializer<'de>>(value: D) -> Result<Option<bool>, D::Error> {
    match String::deserialize(value)?.as_str() {
        "all" => Ok(None),
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(D::Error::custom(format!("{RULE}be true, false or all"))),
    }
}

fn small_number(text: &str) -> Option<u32> {
    digits(text).and_then(|number| u32::try_from(number).ok())
}

/// Digits alone, and within what a database can count to.
fn digits(text: &str) -> Option<u64> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    number.and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(query: &str) -> Result<T, ApiProblem> {
        let request = axum::http::Request::builder().uri(format!("/?{query}")).body(()).unwrap();
        read_params(&request.into_parts().0)
    }

    #[test]
    fn a_place_is_a_plain_number() {
        assert_eq!(event_number("after", "0"), Ok(0));
        assert_eq!(event_number("after", "42"), Ok(42));
        assert_eq!(event_number("after", "9223372036854775807"), Ok(i64::MAX as u64));
        for wrong in
            ["", " ", "-1", "+1", "1.0", "1e3", "0x10", "4 2", "٤", "9223372036854775808", "run:1", "null"]
        {
            assert_eq!(
                event_number("after", wrong).unwrap_err().code(),
                ProblemCode::InvalidCursor,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_page_has_one_to_a_thousand_items() {
        let limit = |text: &str| read::<PageParams>(&format!("limit={text}")).map(|page| page.limit);
        assert_eq!(limit("1"), Ok(Some(1)));
        assert_eq!(limit("1000"), Ok(Some(1000)));
        for wrong in ["0", "1001", "-1", "ten", "", "4294967297"] {
            let expected = ApiProblem::invalid("limit", "must be a number from 1 to 1000");
            assert_eq!(limit(wrong), Err(expected), "{wrong:?}");
        }
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        let expected = ApiProblem::new(
            ProblemCode::InvalidRequest,
            "the query string cannot be read; give each parameter once",
        );
        assert_eq!(read::<PageParams>("limit=1&limit=2").map(|page| page.limit), Err(expected));
    }
}
