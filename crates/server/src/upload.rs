//! Uploads: a file as the whole body, or the first file of a form.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::http::request::Parts;
use futures_util::stream;
use multer::Multipart;
use service::{Once, Service};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use crate::body::read_slowly;
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::read_key;
use crate::query::{NameParams, read_params};
use crate::{Api, ServerLimits};

/// Uploads at once, of all users: each is held in memory until it is stored.
pub(crate) const MAX_UPLOADS: usize = 8;

/// Seconds after which an upload that found no room may be sent again.
const RETRY_AFTER: u32 = 5;

/// An upload may take so many times as long as another body.
const PATIENCE: u32 = 4;

/// Bytes of a form beside its file.
const MAX_FORM_BYTES: usize = 64 * 1024;

/// Parts of a form that are looked at.
const MAX_PARTS: usize = 32;

const FORM: &str = "multipart/form-data";

/// A form with a file in it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what the form holds; the form is read part by part")]
pub(crate) struct UploadForm {
    /// Its name is the document's, unless the address gives one.
    #[schema(value_type = String, format = Binary)]
    file: String,
}

/// An upload, and the key under which it is meant once.
pub(crate) struct Upload {
    pub(crate) name: String,
    /// The content type that the client declares.
    pub(crate) declared: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) once: Option<Once>,
    /// Given back when the upload has been dealt with.
    pub(crate) room: OwnedSemaphorePermit,
}

impl FromRequest<Api> for Upload {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let (mut parts, body) = request.into_parts();
        let NameParams { name } = read_params(&parts)?;
        let room = api.uploads.clone().try_acquire_owned().map_err(|_| {
            let detail = format!("{MAX_UPLOADS} uploads are active already; send this one again later");
            ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(RETRY_AFTER)
        })?;
        let limits = ServerLimits {
            max_body_bytes: Service::MAX_UPLOAD_BYTES + MAX_FORM_BYTES,
            body_timeout: api.limits.body_timeout * PATIENCE,
            ..api.limits
        };
        let body = read_slowly(body, api, &limits, &mut parts).await.map_err(|problem| {
            let is_too_large = problem.code() == ProblemCode::BodyTooLarge;
            if is_too_large { Service::upload_too_large().into() } else { problem }
        })?;
        let declared = declared(&parts);
        let file = match declared.as_deref().filter(|declared| is_form(declared)) {
            Some(form) => of_form(body, form).await?,
            None => File { name: None, declared, bytes: body },
        };
        let File { name: own, declared, bytes } = file;
        let missing = || ApiProblem::invalid("name", "is missing; give it in the address: ?name=notes.md");
        let name = name.or(own).ok_or_else(missing)?;
        let once = read_key(&parts, &upload_fingerprint(&name, &bytes))?;
        Ok(Self { name, declared, bytes: bytes.into(), once, room })
    }
}

struct File {
    name: Option<String>,
    declared: Option<String>,
    bytes: Bytes,
}

fn declared(parts: &Parts) -> Option<String> {
    let value = parts.headers.get(header::CONTENT_TYPE)?;
    value.to_str().ok().map(str::to_owned)
}

fn is_form(declared: &str) -> bool {
    declared.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM)
}

/// The bytes that tell one upload from another. A form that is sent again has other marks between its parts, but the same file.
fn upload_fingerprint(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut asked = Sha256::digest(bytes).to_vec();
    asked.extend_from_slice(name.as_bytes());
    asked
}

/// The first file of a form.
async fn of_form(body: Bytes, declared: &str) -> Result<File, ApiProblem> {
    let broken = |_| {
        ApiProblem::new(
            ProblemCode::InvalidRequest,
            "the form is not valid or ended too early; send it again",
        )
    };
    let boundary = multer::parse_boundary(declared).map_err(broken)?;
    let mut form = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    for _ in 0..MAX_PARTS {
        let Some(part) = form.next_field().await.map_err(broken)? else { break };
        let Some(name) = part.file_name().map(file_name) else { continue };
        let declared = part.content_type().map(ToString::to_string);
        return Ok(File { name: Some(name), declared, bytes: part.bytes().await.map_err(broken)? });
    }
    Err(ApiProblem::invalid("file", "is missing; send a form with one file in it"))
}

/// The name without the folders that some clients send along.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
