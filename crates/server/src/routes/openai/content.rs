//! Files in a message of a client, as parts of a message of a run.

use protocol::NewPart;

use crate::error::ApiProblem;

const DATA: &str = "data:";

const IMAGE_DATA: &str = "data:image/";

/// The name of a document that comes without one.
const UNNAMED_DOCUMENT: &str = "document";

/// Told to a client whose image is elsewhere.
const OTHER_ADDRESS: &str = "the server fetches no address; send the image as a data URL, such as \
    data:image/png;base64,…, or upload it with POST /v1/apps/{app}/images and send its id";

/// A file as a client sends it: its data, or the id of an upload.
#[derive(Debug, Default)]
pub(super) struct SentFile {
    /// A data URL.
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

/// An image by its address, which is a data URL, or by the id of an upload.
pub(super) fn image_part(field: &str, url: String) -> Result<NewPart, ApiProblem> {
    if let Ok(id) = url.parse() {
        return Ok(NewPart::Image { image_id: Some(id), url: None, name: None });
    }
    if !has_scheme(&url, DATA) {
        return Err(ApiProblem::invalid(field, OTHER_ADDRESS));
    }
    Ok(NewPart::Image { image_id: None, url: Some(url), name: None })
}

/// A file: an image by its content type or its id, else a document.
pub(super) fn file_part(field: &str, file: SentFile) -> Result<NewPart, ApiProblem> {
    let name = file.name.filter(|name| !name.trim().is_empty());
    match (file.data, file.id) {
        (Some(url), _) if has_scheme(&url, IMAGE_DATA) => {
            Ok(NewPart::Image { image_id: None, url: Some(url), name })
        }
        (Some(url), _) if has_scheme(&url, DATA) => {
            let name = name.unwrap_or_else(|| UNNAMED_DOCUMENT.to_owned());
            Ok(NewPart::Document { document_id: None, url: Some(url), name: Some(name) })
        }
        (Some(_), _) => {
            let message = "file_data must be a data URL, such as data:application/pdf;base64,…";
            Err(ApiProblem::invalid(field, message))
        }
        (None, Some(id)) => part_of_upload(field, &id),
        (None, None) => Err(ApiProblem::invalid(field, "the file has no file_data; send it as a data URL")),
    }
}

fn part_of_upload(field: &str, id: &str) -> Result<NewPart, ApiProblem> {
    if let Ok(id) = id.parse() {
        return Ok(NewPart::Document { document_id: Some(id), url: None, name: None });
    }
    if let Ok(id) = id.parse() {
        return Ok(NewPart::Image { image_id: Some(id), url: None, name: None });
    }
    let message =
        "file_id must be the id of a document (doc_…) or of an image (img_…) that was uploaded here";
    Err(ApiProblem::invalid(field, message))
}

fn has_scheme(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}
