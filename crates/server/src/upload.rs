//! Uploads: a file as the whole body, the only file of a form, or files within a JSON object.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use futures_util::stream;
use hyper::body::Body as _;
use multer::Multipart;
use protocol::MAX_IMAGE_BYTES;
use serde::de::DeserializeOwned;
use service::{IdempotencyClaim, ImageUpload, Service};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use crate::auth::Access;
use crate::body::{read_json, read_slowly};
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::read_key;
use crate::query::{NameParams, read_params};
use crate::stream_permits::StreamPermit;
use crate::{Api, ServerLimits};

/// Uploads at once, of all users: each is held in memory until it is stored.
pub(crate) const MAX_UPLOADS: usize = 8;

/// Bytes of a JSON object with files in it, which are a third longer there. Larger files are uploaded before.
const MAX_JSON_BYTES: usize = 16 * 1024 * 1024;

/// Uploads of one user at once. So one user always leaves room for a JSON object with files of another.
const MAX_UPLOADS_PER_USER: usize = MAX_UPLOADS - JSON_SHARE as usize;

/// Uploads whose room such an object takes: it is held once as it came and once as it is read.
const JSON_SHARE: u32 = 2;

/// Seconds after which an upload that found no room may be sent again.
const RETRY_AFTER: u32 = 5;

/// An upload may take `PATIENCE` times as long as another body.
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
    /// The file. Its name is the name of the upload, unless the query has one.
    #[schema(value_type = String, format = Binary)]
    file: String,
}

/// Room for an upload; dropping it makes room for the next.
pub(crate) struct UploadRoom {
    _of_all: OwnedSemaphorePermit,
    _of_user: Vec<StreamPermit>,
}

/// An upload, and the key under which it is meant once.
pub(crate) struct Upload {
    pub(crate) name: String,
    /// The content type that the client declares.
    pub(crate) declared: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) once: Option<IdempotencyClaim>,
    /// Given back when the upload has been dealt with.
    pub(crate) room: UploadRoom,
}

impl FromRequest<Api> for Upload {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let too_large = Service::upload_too_large;
        let (file, room, parts) = read_file(request, api, (Service::MAX_UPLOAD_BYTES, too_large)).await?;
        let File { name, declared, bytes } = file;
        let missing = || ApiProblem::invalid("name", "is missing; give it in the address: ?name=notes.md");
        let name = name.ok_or_else(missing)?;
        let once = read_key(&parts, &upload_fingerprint(&name, &bytes))?;
        Ok(Self { name, declared, bytes: bytes.into(), once, room })
    }
}

/// An image, and the key under which it is meant once.
pub(crate) struct PostedImage {
    pub(crate) upload: ImageUpload,
    pub(crate) once: Option<IdempotencyClaim>,
    /// Given back when the image has been dealt with.
    pub(crate) room: UploadRoom,
}

impl FromRequest<Api> for PostedImage {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let too_large = Service::image_too_large;
        let (file, room, parts) = read_file(request, api, (MAX_IMAGE_BYTES, too_large)).await?;
        let File { name, declared, bytes } = file;
        let once = read_key(&parts, &upload_fingerprint(name.as_deref().unwrap_or_default(), &bytes))?;
        Ok(Self { upload: ImageUpload { name, declared, bytes: bytes.into() }, once, room })
    }
}

/// A JSON object that may hold files, and the key under which it is meant once.
pub(crate) struct JsonWithFiles<T> {
    pub(crate) value: T,
    pub(crate) once: Option<IdempotencyClaim>,
    /// Given back when the files have been dealt with. None for a body that is as small as any other.
    pub(crate) room: Option<UploadRoom>,
}

impl<T: DeserializeOwned> FromRequest<Api> for JsonWithFiles<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiProblem> {
        let usual = api.limits.max_body_bytes;
        let (mut parts, body) = request.into_parts();
        let size = body.size_hint();
        // A body of unknown size may be large; if there is no room for that, it must not be.
        let is_large = size.lower() > usual as u64;
        let room = if is_large {
            Some(take_room(api, &mut parts, JSON_SHARE).await?)
        } else if size.upper().is_none() {
            take_room(api, &mut parts, JSON_SHARE).await.ok()
        } else {
            None
        };
        let max_body_bytes = if room.is_some() { usual.max(MAX_JSON_BYTES) } else { usual };
        let body_timeout = api.limits.body_timeout * if is_large { PATIENCE } else { 1 };
        let limits = ServerLimits { max_body_bytes, body_timeout, ..api.limits };
        let (value, once) = read_json(Request::from_parts(parts, body), api, &limits).await?;
        Ok(Self { value, once, room })
    }
}

/// Room for an upload, or for one that takes the room of several.
async fn take_room(api: &Api, parts: &mut Parts, share: u32) -> Result<UploadRoom, ApiProblem> {
    let user = Access::from_request_parts(parts, api).await?.principal.user().clone();
    let refusal = |detail| ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(RETRY_AFTER);
    let of_user =
        (0..share).map(|_| api.uploading.permit(&user, MAX_UPLOADS_PER_USER)).collect::<Option<_>>();
    let of_user =
        of_user.ok_or_else(|| refusal("you have the maximum number of active uploads; try again later"))?;
    let of_all = api
        .uploads
        .clone()
        .try_acquire_many_owned(share)
        .map_err(|_| refusal("the server has the maximum number of active uploads; try again later"))?;
    Ok(UploadRoom { _of_all: of_all, _of_user: of_user })
}

/// The file of a request, at most so large. Its name is the one in the address, or else the one in the form.
async fn read_file(
    request: Request,
    api: &Api,
    (most, too_large): (usize, fn() -> service::Error),
) -> Result<(File, UploadRoom, Parts), ApiProblem> {
    let (mut parts, body) = request.into_parts();
    let NameParams { name } = read_params(&parts)?;
    let room = take_room(api, &mut parts, 1).await?;
    let limits = ServerLimits {
        max_body_bytes: most + MAX_FORM_BYTES,
        body_timeout: api.limits.body_timeout * PATIENCE,
        ..api.limits
    };
    let body = read_slowly(body, api, &limits, &mut parts).await.map_err(|problem| {
        let is_too_large = problem.code() == ProblemCode::BodyTooLarge;
        if is_too_large { too_large().into() } else { problem }
    })?;
    let declared = declared_type(&parts);
    let file = match declared.as_deref().filter(|declared| is_form(declared)) {
        Some(form) => of_form(body, form).await?,
        None => File { name: None, declared, bytes: body },
    };
    Ok((File { name: name.or(file.name), ..file }, room, parts))
}

struct File {
    name: Option<String>,
    declared: Option<String>,
    bytes: Bytes,
}

fn declared_type(parts: &Parts) -> Option<String> {
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

/// The file of a form that has one.
async fn of_form(body: Bytes, declared: &str) -> Result<File, ApiProblem> {
    let broken = |_| {
        ApiProblem::new(
            ProblemCode::InvalidRequest,
            "the form is not valid or ended too early; send it again",
        )
    };
    let boundary = multer::parse_boundary(declared).map_err(broken)?;
    let mut form = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let mut file = None;
    for _ in 0..MAX_PARTS {
        let Some(part) = form.next_field().await.map_err(broken)? else { break };
        let Some(name) = part.file_name().map(file_name) else { continue };
        if file.is_some() {
            return Err(ApiProblem::invalid("file", "is there twice; send one file in each request"));
        }
        let declared = part.content_type().map(ToString::to_string);
        file = Some(File { name: Some(name), declared, bytes: part.bytes().await.map_err(broken)? });
    }
    file.ok_or_else(|| ApiProblem::invalid("file", "is missing; send a form with one file in it"))
}

/// The name without the folders that some clients send along.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
