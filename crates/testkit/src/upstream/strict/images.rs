//! Faults that providers refuse in an image: another type than it says, data that is not base64, or an image that is
//! none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{RequestCheck, refuse};

/// Bytes of an image that every provider takes.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// An image as a data URL.
pub(super) fn data_url(url: &str, place: &str) -> RequestCheck {
    let Some((media_type, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
    else {
        return refuse(format!(
            "Invalid '{place}': expected a base64-encoded data URL with an image MIME type."
        ));
    };
    check_image(media_type, data, place)
}

/// An image in base64, of this type.
pub(super) fn check_image(media_type: &str, data: &str, place: &str) -> RequestCheck {
    let found = image_type(data, place)?;
    if found != media_type {
        return refuse(format!(
            "{place}: Image does not match the provided media type {media_type}, it is {found}"
        ));
    }
    Ok(())
}

/// The type of an image in base64.
pub(super) fn image_type(data: &str, place: &str) -> Result<&'static str, super::Complaint> {
    let Ok(bytes) = STANDARD.decode(data) else {
        return refuse(format!("{place}: invalid base64 data"));
    };
    if bytes.len() > MAX_IMAGE_BYTES {
        return refuse(format!("{place}: image exceeds 5 MB maximum: {} bytes", bytes.len()));
    }
    match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => Ok("image/png"),
        [0xff, 0xd8, 0xff, ..] => Ok("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Ok("image/gif"),
        [b'R', b'I', b'F', b'F', ..] => Ok("image/webp"),
        _ => refuse(format!("{place}: Could not process image")),
    }
}
