//! Parts of a message beside its text: images and documents.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DocumentId, ImageId};

/// Images of one message.
pub const MAX_IMAGES_PER_MESSAGE: usize = 8;

/// Documents of one message.
pub const MAX_DOCUMENTS_PER_MESSAGE: usize = 8;

/// Bytes of an image as a client sends it.
pub const MAX_IMAGE_BYTES: usize = 10 * 1024 * 1024;

/// A part of a new message: an upload by its id, or a file as a data URL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum NewPart {
    Image {
        /// An image that was uploaded before.
        #[serde(rename = "imageId")]
        image_id: Option<ImageId>,
        /// A data URL, such as `data:image/png;base64,…`.
        url: Option<String>,
        /// The name of an image that comes as a data URL.
        name: Option<String>,
    },
    Document {
        /// A document that was uploaded before.
        #[serde(rename = "documentId")]
        document_id: Option<DocumentId>,
        /// A data URL, such as `data:application/pdf;base64,…`.
        url: Option<String>,
        /// The name of a document that comes as a data URL.
        name: Option<String>,
    },
}

/// A part of a message as it is stored and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum MessagePart {
    Image {
        #[serde(rename = "imageId")]
        image_id: ImageId,
        #[serde(rename = "mediaType")]
        media_type: String,
        width: u32,
        height: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Document {
        #[serde(rename = "documentId")]
        document_id: DocumentId,
        name: String,
    },
}

impl MessagePart {
    /// The image of the part, if it is an image.
    pub fn image(&self) -> Option<ImageId> {
        match self {
            MessagePart::Image { image_id, .. } => Some(*image_id),
            MessagePart::Document { .. } => None,
        }
    }

    /// The document of the part, if it is a document.
    pub fn document(&self) -> Option<DocumentId> {
        match self {
            MessagePart::Document { document_id, .. } => Some(*document_id),
            MessagePart::Image { .. } => None,
        }
    }

    /// The part in words, for readers who cannot see it.
    pub fn placeholder(&self) -> String {
        match self {
            MessagePart::Image { width, height, name: Some(name), .. } => {
                format!("[image: {name}, {width}x{height}]")
            }
            MessagePart::Image { width, height, name: None, .. } => format!("[image: {width}x{height}]"),
            MessagePart::Document { name, document_id } => format!("[document: {name}, {document_id}]"),
        }
    }
}

/// An image that a user has uploaded, as the server keeps it: re-encoded, without metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    pub id: ImageId,
    pub app_id: String,
    /// The media type: `image/jpeg`, or `image/png` for an image with transparent parts.
    pub media_type: String,
    pub width: u32,
    pub height: u32,
    /// Bytes of the image as the server keeps it.
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const IMAGE: &str = "img_0192f3a1c4e27d3a8b5f6c7d8e9fa0b1";

    #[test]
    fn a_part_has_the_form_that_the_documentation_shows() {
        let written = json!({
            "type": "image", "imageId": IMAGE, "mediaType": "image/png", "width": 8, "height": 6, "name": "a.png",
        });
        let part: MessagePart = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&part).unwrap(), written);
        assert_eq!(part.placeholder(), "[image: a.png, 8x6]");
        assert_eq!((part.image(), part.document()), (IMAGE.parse().ok(), None));
        let unknown = json!({ "type": "image", "imageid": IMAGE });
        assert!(serde_json::from_value::<NewPart>(unknown).is_err(), "a typing error is reported");
        let video = json!({ "type": "video", "url": "data:video/mp4;base64,AA==" });
        assert!(serde_json::from_value::<NewPart>(video).is_err());
    }
}
