//! Images for messages: uploaded, listed, shown and deleted.

use axum::Json as Answer;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{ImageView, Page};

use crate::auth::Caller;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, ImagePath};
use crate::query::{NameParams, PageParams, Params};
use crate::routes::{Created, JsonReply, created};
use crate::upload::{PostedImage, UploadForm};

/// An image never changes, and is its user's alone. A browser shows it and does nothing else with it.
const IMAGE_HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (header::CACHE_CONTROL, "private, max-age=3600, immutable"),
    (header::CONTENT_DISPOSITION, "inline"),
];

/// Uploads an image for a message: PNG, JPEG, WebP or GIF, up to 10 MiB and 20 megapixels, as the whole body or as the
/// only file of a form. The server encodes the image anew, without metadata. A second upload of the same bytes gives
/// the same image.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/images",
    params(AppPath, NameParams),
    request_body(content(
        (Vec<u8> = "image/png"),
        (Vec<u8> = "image/jpeg"),
        (Vec<u8> = "image/webp"),
        (Vec<u8> = "image/gif"),
        (UploadForm = "multipart/form-data")
    )),
    responses((status = 201, description = "The image", body = ImageView))
)]
pub(super) async fn create_image(
    caller: Caller,
    AppPath { app }: AppPath,
    PostedImage { upload, once, room }: PostedImage,
) -> Created<ImageView> {
    let made = caller.service.add_image(&caller.principal, &app, upload, once).await;
    drop(room);
    Ok(created(made?))
}

/// Lists the images of the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/images",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page of images", body = Page<ImageView>))
)]
pub(super) async fn list_images(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ImageView>> {
    Ok(Answer(caller.service.images(&caller.principal, &app, page.into()).await?))
}

/// Returns an image as the server stores it.
#[utoipa::path(
    get,
    path = "/v1/images/{image}",
    params(ImagePath),
    responses((
        status = 200,
        description = "The image",
        content((Vec<u8> = "image/jpeg"), (Vec<u8> = "image/png"))
    ))
)]
pub(super) async fn get_image(
    caller: Caller,
    ImagePath { image }: ImagePath,
) -> Result<Response, ApiProblem> {
    let (view, content) = caller.service.image(&caller.principal, image).await?;
    Ok((IMAGE_HEADERS, [(header::CONTENT_TYPE, view.media_type)], content.to_vec()).into_response())
}

/// Deletes an image that no message shows.
#[utoipa::path(
    delete,
    path = "/v1/images/{image}",
    params(ImagePath),
    responses((status = 204, description = "The image is deleted"))
)]
pub(super) async fn delete_image(
    caller: Caller,
    ImagePath { image }: ImagePath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_image(&caller.principal, image, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
