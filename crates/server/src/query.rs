//! What paths, query strings and `Last-Event-ID` say, as types.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use engine::PageQuery;
use protocol::{KeyId, MemoryId, RunId, Seq, ThreadId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
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

/// An app's name; the engine knows which exist.
impl Named for String {
    const WHAT: &'static str = "app";
}

impl<T: Named> FromRequestParts<Api> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, api).await.ok();
        let name = text.and_then(|Path(text)| text.parse().ok());
        name.map(Self).ok_or_else(|| engine::Error::NotFound { what: T::WHAT }.into())
    }
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

/// [`PeriodParams`]; the engine knows which days are good.
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

/// Digits alone, and within what a database can count to.
fn digits(text: &str) -> Option<u64> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    number.and_then(|number| u64::try_from(number).ok())
}

fn params<T: DeserializeOwned>(parts: &Parts) -> Result<T, Problem> {
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
