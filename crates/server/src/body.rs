//! Bodies, read within limits: JSON, refused with a sentence that names the field at fault, and plain text.

use std::fmt;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use protocol::{MAX_JSON_DEPTH, json_depth};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value};
use service::{IdempotencyClaim, MAX_IMPORT_BYTES};
use tokio::time::{Instant, timeout};

use crate::auth::Access;
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::read_key;
use crate::{Api, ServerLimits};

/// If a body takes longer than this, the access of its sender is checked again.
const SLOW_BODY: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";

/// Content types of texts.
const TEXTS: [&str; 2] = ["text/markdown", "text/plain"];

/// A body that must be there, and the key under which it is meant once.
pub(crate) struct Json<T>(pub(crate) T, pub(crate) Option<IdempotencyClaim>);

/// A body that may be empty, which is then the default value, and the key under which it is meant once.
pub(crate) struct OptionalJson<T>(pub(crate) T, pub(crate) Option<IdempotencyClaim>);

/// An object of any fields, none of them given twice.
pub(crate) struct ObjectFields(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for ObjectFields {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(ObjectFieldsVisitor)
    }
}

struct ObjectFieldsVisitor;

impl<'de> Visitor<'de> for ObjectFieldsVisitor {
    type Value = ObjectFields;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ObjectFields, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = fields.next_entry::<String, Value>()? {
            if map.contains_key(&name) {
                return Err(serde::de::Error::custom(format!("duplicate field `{name}`")));
            }
            map.insert(name, value);
        }
        Ok(ObjectFields(map))
    }
}

/// A text, such as a Markdown file, and the key under which it is meant once.
pub(crate) struct TextBody(pub(crate) String, pub(crate) Option<IdempotencyClaim>);

impl FromRequest<Api> for TextBody {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        check_content_type(request.headers(), &TEXTS, "text/markdown")?;
        read_text(request, api, &api.limits).await.map(|(text, once)| Self(text, once))
    }
}

/// A file of any form, which may be larger than other bodies, and the key under which it is meant once.
pub(crate) struct FileBody(pub(crate) String, pub(crate) Option<IdempotencyClaim>);

impl FromRequest<Api> for FileBody {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let [markdown, plain] = TEXTS;
        check_content_type(request.headers(), &[JSON, markdown, plain], "application/json or text/markdown")?;
        let limits = ServerLimits { max_body_bytes: MAX_IMPORT_BYTES, ..api.limits };
        read_text(request, api, &limits).await.map(|(text, once)| Self(text, once))
    }
}

async fn read_text(
    request: Request,
    api: &Api,
    limits: &ServerLimits,
) -> Result<(String, Option<IdempotencyClaim>), ApiProblem> {
    let (body, once) = read(request, api, limits).await?;
    Ok((utf8(&body)?.to_owned(), once))
}

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        read_json(request, api, &api.limits).await.map(|(value, once)| Self(value, once))
    }
}

/// A JSON object within these limits, and the key under which it is meant once.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request,
    api: &Api,
    limits: &ServerLimits,
) -> Result<(T, Option<IdempotencyClaim>), ApiProblem> {
    check_content_type(request.headers(), &[JSON], JSON)?;
    let (body, once) = read(request, api, limits).await?;
    Ok((parse(&body)?, once))
}

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalJson<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let (mut parts, body) = request.into_parts();
        if body.is_end_stream() {
            parts.headers.remove(header::CONTENT_TYPE); // there is nothing it could be the type of
        }
        check_content_type(&parts.headers, &[JSON], JSON)?;
        let (body, once) = read(Request::from_parts(parts, body), api, &api.limits).await?;
        let value = if body.is_empty() { T::default() } else { parse(&body)? };
        Ok(Self(value, once))
    }
}

async fn read(
    request: Request,
    api: &Api,
    limits: &ServerLimits,
) -> Result<(Bytes, Option<IdempotencyClaim>), ApiProblem> {
    let (mut parts, body) = request.into_parts();
    let body = read_slowly(body, api, limits, &mut parts).await?;
    let once = read_key(&parts, &body)?;
    Ok((body, once))
}

/// The whole body. The right to send it was checked when its headers came. A body that took long is checked again,
/// because the key may have been revoked meanwhile.
pub(crate) async fn read_slowly(
    body: Body,
    api: &Api,
    limits: &ServerLimits,
    parts: &mut Parts,
) -> Result<Bytes, ApiProblem> {
    let start = Instant::now();
    let body = read_bounded(body, limits).await?;
    if start.elapsed() > SLOW_BODY {
        Access::from_request_parts(parts, api).await?;
    }
    Ok(body)
}

/// The whole body, if it is as small and as fast as it must be.
async fn read_bounded(body: Body, limits: &ServerLimits) -> Result<Bytes, ApiProblem> {
    // A body that announces its size is refused before any of it is read.
    if body.size_hint().lower() > limits.max_body_bytes as u64 {
        return Err(too_large(limits.max_body_bytes));
    }
    collect(body, limits).await
}

async fn collect(body: Body, limits: &ServerLimits) -> Result<Bytes, ApiProblem> {
    let collected = timeout(limits.body_timeout, Limited::new(body, limits.max_body_bytes).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limits.max_body_bytes)),
        Ok(Err(_)) => {
            Err(ApiProblem::new(ProblemCode::InvalidJson, "the body ended too early; send the request again"))
        }
        Err(_) => {
            let seconds = limits.body_timeout.as_secs();
            Err(ApiProblem::new(
                ProblemCode::BodyTimeout,
                format!("the body must arrive within {seconds} seconds"),
            ))
        }
    }
}

fn too_large(limit: usize) -> ApiProblem {
    ApiProblem::new(ProblemCode::BodyTooLarge, format!("the body must be at most {limit} bytes"))
}

/// Refuses a content type, without its parameters, that is not one of these. None at all is good, too.
fn check_content_type(headers: &HeaderMap, good: &[&str], send_as: &str) -> Result<(), ApiProblem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().ok().and_then(|text| text.split(';').next()).unwrap_or_default();
    if good.contains(&essence.trim().to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let detail = format!("send the body as content-type: {send_as}");
    Err(ApiProblem::new(ProblemCode::UnsupportedMediaType, detail))
}

fn utf8(body: &[u8]) -> Result<&str, ApiProblem> {
    std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        let detail = format!("the byte at offset {at} is not UTF-8; encode the body as UTF-8");
        ApiProblem::new(ProblemCode::InvalidUtf8, detail)
    })
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiProblem> {
    let text = utf8(body)?;
    if text.trim().is_empty() {
        return Err(ApiProblem::new(ProblemCode::InvalidJson, "the body is empty; send a JSON object"));
    }
    if json_depth(text) > MAX_JSON_DEPTH {
        return Err(ApiProblem::new(
            ProblemCode::InvalidJson,
            format!("the JSON nests deeper than {MAX_JSON_DEPTH} levels"),
        ));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        refusal_at(&path, &error.into_inner())
    })?;
    reader.end().map_err(|error| refusal_at(".", &error))?;
    // Serde would also read a struct from a list of its fields in order, which no client intends.
    if !text.trim_start().starts_with('{') {
        return Err(not_an_object());
    }
    Ok(value)
}

/// `path` is where the parser stood, `.` at the top.
fn refusal_at(path: &str, error: &serde_json::Error) -> ApiProblem {
    let sentence = error.to_string();
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            ApiProblem::new(ProblemCode::InvalidJson, sentence)
        }
        Category::Data => {
            let message = sentence.rsplit_once(" at line ").map_or(sentence.as_str(), |(message, _)| message);
            match field(path, message) {
                Some(field) => ApiProblem::invalid(field, in_words(message)),
                None => not_an_object(),
            }
        }
    }
}

fn not_an_object() -> ApiProblem {
    ApiProblem::new(ProblemCode::InvalidRequest, "the body must be a JSON object")
}

/// The parser's message without the names of Rust's types.
fn in_words(message: &str) -> String {
    // Clients know a struct or an enum only as an object, so its name is left out.
    for kind in ["expected struct ", "expected internally tagged enum ", "expected adjacently tagged enum "] {
        if let Some((start, _)) = message.split_once(kind) {
            return format!("{start}expected an object");
        }
    }
    let types = [("f64", "a number"), ("u32", "a whole number from 0 to 4294967295")];
    types.iter().fold(message.to_owned(), |message, (name, words)| {
        let suffix = format!("expected {name}");
        message.strip_suffix(&suffix).map(|start| format!("{start}expected {words}")).unwrap_or(message)
    })
}

/// The field at fault. One that is missing, unknown or given twice is not in the path but quoted in the message.
fn field(path: &str, message: &str) -> Option<String> {
    let quoted = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split('`').next());
    match (path, quoted) {
        (".", None) => None,
        (".", Some(name)) => Some(name.to_owned()),
        (path, None) => Some(path.to_owned()),
        (path, Some(name)) if path == name || path.ends_with(&format!(".{name}")) => Some(path.to_owned()),
        (path, Some(name)) => Some(format!("{path}.{name}")),
    }
}

#[cfg(test)]
mod tests;
