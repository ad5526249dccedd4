//! Parts of a new message: checked, and what comes along with it is kept before the message is.
//!
//! An image that came along and is shown by no message is swept after a day, as any other upload. A document that came
//! along is deleted again if the message is refused.

mod data_url;

use app::{App, DocumentUse, WithoutVision};
use memory::documents::MAX_DOCUMENT_BYTES;
use protocol::{
    DocumentId, DocumentView, ImageId, MAX_DOCUMENTS_PER_MESSAGE, MAX_IMAGE_BYTES, MAX_IMAGES_PER_MESSAGE,
    MessagePart, NewPart, Principal, Scope,
};
use store::{IdempotencyClaim, ImageRow};

use crate::images::ImageUpload;
use crate::{Error, Service};
use data_url::DataUrl;

/// The field of a request that has the parts.
const FIELD: &str = "parts";

/// A part, once its form has been found in order.
enum AskedPart {
    Image(ImageId),
    NewImage { data: DataUrl, name: Option<String> },
    Document(DocumentId),
    NewDocument { data: DataUrl, name: String },
}

/// The parts of a message, and the documents that were made for it.
#[derive(Default)]
pub(crate) struct KeptParts {
    pub(crate) parts: Vec<MessagePart>,
    made: Vec<DocumentId>,
}

impl KeptParts {
    /// Takes over the documents that were made for another message of the same request. Gives the parts of that one.
    pub(crate) fn join(&mut self, other: Self) -> Vec<MessagePart> {
        self.made.extend(other.made);
        other.parts
    }
}

/// The parts of a request are not too many, and none of them is for an app that has no use for it.
pub(crate) fn check_parts(app: &App, parts: &[NewPart]) -> Result<(), Error> {
    let images = parts.iter().filter(|part| is_image(part)).count();
    if images > MAX_IMAGES_PER_MESSAGE {
        let message =
            format!("a message has at most {MAX_IMAGES_PER_MESSAGE} images, and this one has {images}");
        return Err(Error::invalid(FIELD, message));
    }
    let documents = parts.len() - images;
    if documents > MAX_DOCUMENTS_PER_MESSAGE {
        let message = format!(
            "a message has at most {MAX_DOCUMENTS_PER_MESSAGE} documents, and this one has {documents}"
        );
        return Err(Error::invalid(FIELD, message));
    }
    if documents > 0 && app.context.documents == DocumentUse::None {
        return Err(Error::invalid(FIELD, "this app does not answer from documents; leave them out"));
    }
    Ok(())
}

fn is_image(part: &NewPart) -> bool {
    match part {
        NewPart::Image { .. } => true,
        NewPart::Document { .. } => false,
    }
}

impl Service {
    /// Whether the model can be sent images, if there are any; or the app says that words will do.
    pub(crate) fn check_vision(
        &self,
        app: &App,
        parts: &[NewPart],
        model: Option<&str>,
    ) -> Result<(), Error> {
        if !parts.iter().any(is_image) || app.images.without_vision == WithoutVision::Text {
            return Ok(());
        }
        let models = &self.world().models;
        // Without any model, the run says so.
        let Some(model) = model.and_then(|name| models.find(name)) else { return Ok(()) };
        if model.capabilities().vision {
            return Ok(());
        }
        let message = format!(
            "the model {:?} has no vision; choose a model that sees images, or, if this one does, set vision = true for it in rondo.toml",
            model.name()
        );
        Err(Error::Conflict { code: "no_vision", message })
    }

    /// Keeps what comes along with a message. A request that was accepted before under its key needs none of it.
    pub(crate) async fn keep_parts(
        &self,
        principal: &Principal,
        scope: &Scope,
        new: Vec<NewPart>,
        once: Option<&IdempotencyClaim>,
    ) -> Result<KeptParts, Error> {
        if new.is_empty() {
            return Ok(KeptParts::default());
        }
        if let Some(once) = once
            && self.store().is_made(scope, once.clone()).await?
        {
            return Ok(KeptParts::default());
        }
        let asked: Vec<AskedPart> = new.into_iter().map(checked_part).collect::<Result<_, _>>()?;
        let mut kept: Vec<Option<MessagePart>> = Vec::with_capacity(asked.len());
        let mut documents = Vec::new();
        for (place, part) in asked.into_iter().enumerate() {
            kept.push(match part {
                AskedPart::Image(id) => {
                    let row = self.image_row(principal, id).await?;
                    Some(image_part(of_scope(row.scope == *scope, "image", row)?))
                }
                AskedPart::NewImage { data: DataUrl { media_type, bytes }, name } => {
                    let upload = ImageUpload { name, declared: media_type, bytes };
                    Some(image_part(self.keep_upload(scope, upload, None).await?))
                }
                AskedPart::Document(id) => {
                    let row = self.document_row(principal, id).await?;
                    let row = of_scope(row.scope == *scope, "document", row)?;
                    Some(MessagePart::Document { document_id: id, name: row.name })
                }
                AskedPart::NewDocument { data, name } => {
                    documents.push((place, data, name));
                    None
                }
            });
        }
        self.keep_documents(principal, scope, kept, documents).await
    }

    /// Adds the documents last, when nothing else can be refused.
    async fn keep_documents(
        &self,
        principal: &Principal,
        scope: &Scope,
        mut kept: Vec<Option<MessagePart>>,
        documents: Vec<(usize, DataUrl, String)>,
    ) -> Result<KeptParts, Error> {
        let mut made = Vec::new();
        for (place, DataUrl { media_type, bytes }, name) in documents {
            let upload = (name, media_type, bytes);
            match self.add_document(principal, scope.app.as_str(), upload, None).await {
                Ok(DocumentView { id, name, .. }) => {
                    made.push(id);
                    if let Some(part) = kept.get_mut(place) {
                        *part = Some(MessagePart::Document { document_id: id, name });
                    }
                }
                Err(refusal) => {
                    self.delete_refused_documents(principal, KeptParts { parts: Vec::new(), made }).await;
                    return Err(refusal);
                }
            }
        }
        Ok(KeptParts { parts: kept.into_iter().flatten().collect(), made })
    }

    /// Deletes the documents that were made for a message that was refused.
    pub(crate) async fn delete_refused_documents(&self, principal: &Principal, kept: KeptParts) {
        for document in kept.made {
            if let Err(error) = self.delete_document(principal, document, None).await {
                tracing::warn!(%document, %error, "a document of a refused message stays");
            }
        }
    }
}

/// A thing of another app is as one that is not there.
fn of_scope<T>(is_of_scope: bool, what: &'static str, row: T) -> Result<T, Error> {
    if is_of_scope { Ok(row) } else { Err(Error::NotFound { what }) }
}

fn image_part(row: ImageRow) -> MessagePart {
    MessagePart::Image {
        image_id: row.id,
        media_type: row.media_type,
        width: row.width,
        height: row.height,
        name: row.name,
    }
}

/// A part by its id, or by the data that comes along.
fn checked_part(part: NewPart) -> Result<AskedPart, Error> {
    match part {
        NewPart::Image { image_id: Some(id), url: None, name: None } => Ok(AskedPart::Image(id)),
        NewPart::Image { image_id: None, url: Some(url), name } => {
            let data = DataUrl::parse(&url, MAX_IMAGE_BYTES, Service::image_too_large)?;
            Ok(AskedPart::NewImage { data, name })
        }
        NewPart::Image { .. } => {
            Err(Error::invalid(FIELD, "an image has either an imageId alone, or a url and perhaps a name"))
        }
        NewPart::Document { document_id: Some(id), url: None, name: None } => Ok(AskedPart::Document(id)),
        NewPart::Document { document_id: None, url: Some(url), name: Some(name) } => {
            let data = DataUrl::parse(&url, MAX_DOCUMENT_BYTES, Service::upload_too_large)?;
            Ok(AskedPart::NewDocument { data, name })
        }
        NewPart::Document { document_id: None, url: Some(_), name: None } => {
            Err(Error::invalid(FIELD, "a document that comes as a data URL needs a name, such as notes.pdf"))
        }
        NewPart::Document { .. } => {
            Err(Error::invalid(FIELD, "a document has either a documentId alone, or a url and a name"))
        }
    }
}
