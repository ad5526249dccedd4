//! Images as clients ask for them: uploaded, checked and encoded anew, listed, shown, deleted.

use std::sync::Arc;
use std::time::Duration;

use images::{ImageProblem, KeptImage, check_type, keep_image};
use protocol::{ImageId, ImageView, MAX_IMAGE_BYTES, Page, Principal, Scope};
use sha2::{Digest, Sha256};
use store::{IdempotencyClaim, ImageRow, NewImage};

use crate::checks::{self, PageQuery, time_cursor};
use crate::{Error, Service};

/// How long an image waits for those before it to be decoded.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

/// Seconds after which an image that found no turn may be sent again.
const TURN_RETRY_AFTER: u32 = 10;

/// An image as a client sends it.
pub struct ImageUpload {
    pub name: Option<String>,
    /// The content type that the client declares.
    pub declared: Option<String>,
    pub bytes: Vec<u8>,
}

impl Service {
    /// The error for an image of too many bytes.
    pub fn image_too_large() -> Error {
        let message = format!("an image has at most {MAX_IMAGE_BYTES} bytes; make it smaller");
        Error::Conflict { code: "image_too_large", message }
    }

    /// Checks an upload and keeps it. Equal bytes are the same image.
    pub async fn add_image(
        &self,
        principal: &Principal,
        app: &str,
        upload: ImageUpload,
        once: Option<IdempotencyClaim>,
    ) -> Result<ImageView, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(view(self.keep_upload(&scope, upload, once).await?))
    }

    pub(crate) async fn keep_upload(
        &self,
        scope: &Scope,
        upload: ImageUpload,
        once: Option<IdempotencyClaim>,
    ) -> Result<ImageRow, Error> {
        let ImageUpload { name, declared, bytes } = upload;
        let name = name.map(|name| checks::name(&name)).transpose()?;
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(Self::image_too_large());
        }
        check_type(&bytes, declared.as_deref()).map_err(image_refusal)?;
        let hash: [u8; 32] = Sha256::digest(&bytes).into();
        if let Some(known) = self.store().known_image(scope, hash, once.clone()).await? {
            return Ok(known);
        }
        let KeptImage { media_type, width, height, bytes: content } =
            self.encoded_anew(bytes, declared).await?;
        let id = self.world().ids.image();
        let image = NewImage { id, hash, media_type, width, height, name, content };
        match self.store().add_image(scope, image, once).await {
            // An image in order is refused only where there is no room.
            Err(store::Error::Changed(message)) => Err(Error::Conflict { code: "images_full", message }),
            added => Ok(added?),
        }
    }

    /// Waits for its turn, then decodes and encodes on a thread of its own.
    async fn encoded_anew(&self, bytes: Vec<u8>, declared: Option<String>) -> Result<KeptImage, Error> {
        let turn = tokio::time::timeout(TURN_PATIENCE, self.shared.decoding_images.clone().acquire_owned());
        let Ok(Ok(turn)) = turn.await else {
            return Err(Error::Unavailable {
                message: "the server is still reading other images; send this one again later".into(),
                retry_after: TURN_RETRY_AFTER,
            });
        };
        let work = move || {
            let _turn = turn; // held to the end, even if the client has gone away
            keep_image(&bytes, declared.as_deref())
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(kept) => kept.map_err(image_refusal),
            Err(error) => {
                tracing::error!(%error, "the decoder of images panicked");
                Err(image_refusal(ImageProblem::Broken))
            }
        }
    }

    /// Newest first.
    pub async fn images(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<ImageView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let page = self.store().images(&scope, page.by_time()?).await?;
        Ok(checks::page(page, |row| time_cursor(row.created_at, row.id), view))
    }

    /// An image with its content.
    pub async fn image(
        &self,
        principal: &Principal,
        image: ImageId,
    ) -> Result<(ImageView, Arc<[u8]>), Error> {
        let row = self.image_row(principal, image).await?;
        let mut contents = self.store().image_contents(&row.scope, vec![image]).await?;
        let content = contents.pop().flatten().ok_or(Error::NotFound { what: "image" })?;
        Ok((view(row), content))
    }

    /// Deletes an image that no message shows.
    pub async fn delete_image(
        &self,
        principal: &Principal,
        image: ImageId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        if let Ok(row) = self.store().image(principal, image).await
            && !principal.may_use(&row.scope.app)
        {
            return Err(Error::NotFound { what: "image" });
        }
        let (service, principal) = (self.clone(), principal.clone());
        self.world()
            .tasks
            .finish(async move {
                match service.store().delete_image(&principal, image, once).await {
                    Err(store::Error::Changed(message)) => {
                        return Err(Error::Conflict { code: "image_in_use", message });
                    }
                    deleted => deleted?,
                }
                service.world().sweeper.sweep();
                Ok(())
            })
            .await
    }

    pub(crate) async fn image_row(&self, principal: &Principal, image: ImageId) -> Result<ImageRow, Error> {
        let row = self.store().image(principal, image).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "image" }) }
    }
}

fn image_refusal(problem: ImageProblem) -> Error {
    Error::Conflict { code: problem.code(), message: problem.to_string() }
}

fn view(row: ImageRow) -> ImageView {
    ImageView {
        id: row.id,
        app_id: row.scope.app.to_string(),
        media_type: row.media_type,
        width: row.width,
        height: row.height,
        bytes: row.bytes,
        name: row.name,
        created_at: row.created_at,
    }
}
