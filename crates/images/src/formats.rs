//! The formats that are taken, as the first bytes of an upload tell them.

use std::fmt;

use crate::ImageProblem;

/// A content type that says nothing of the content.
const UNKNOWN: &str = "application/octet-stream";

/// A format that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadFormat {
    Png,
    Jpeg,
    WebP,
    Gif,
}

impl UploadFormat {
    const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::WebP, Self::Gif];

    pub fn media_type(self) -> &'static str {
        match self {
            UploadFormat::Png => "image/png",
            UploadFormat::Jpeg => "image/jpeg",
            UploadFormat::WebP => "image/webp",
            UploadFormat::Gif => "image/gif",
        }
    }

    /// By the first bytes.
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    fn of_media_type(media_type: &str) -> Option<Self> {
        // A name that browsers of long ago had for it.
        let media_type = if media_type == "image/jpg" { Self::Jpeg.media_type() } else { media_type };
        Self::ALL.into_iter().find(|format| format.media_type() == media_type)
    }
}

impl fmt::Display for UploadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.media_type())
    }
}

/// A content type without its parameters, in lower case. None if it says nothing of the content.
fn media_type_of(declared: &str) -> Option<String> {
    let essence = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(essence).filter(|essence| !essence.is_empty() && essence != UNKNOWN)
}

/// Whether an upload is of a format that is taken, and of the content type that it is said to have.
pub fn check_type(upload: &[u8], declared: Option<&str>) -> Result<(), ImageProblem> {
    format_of(upload, declared).map(drop)
}

/// The format of an upload. Its declared content type, if there is one, must be the same.
pub(crate) fn format_of(upload: &[u8], declared: Option<&str>) -> Result<UploadFormat, ImageProblem> {
    let found = UploadFormat::of_bytes(upload).ok_or(ImageProblem::Unsupported)?;
    if found == UploadFormat::Jpeg && !is_whole_jpeg(upload) {
        return Err(ImageProblem::Broken);
    }
    let Some(declared) = declared.and_then(media_type_of) else { return Ok(found) };
    match UploadFormat::of_media_type(&declared) {
        Some(said) if said == found => Ok(found),
        Some(said) => Err(ImageProblem::OtherType { said, found }),
        None => Err(ImageProblem::NoImageType(found)),
    }
}

/// Whether a JPEG has its end. The decoder would fill a missing end with grey.
fn is_whole_jpeg(upload: &[u8]) -> bool {
    const END: u8 = 0xd9;
    const SCAN: u8 = 0xda;
    let mut rest = upload.get(2..).unwrap_or_default();
    while let Some((marker, after)) = next_marker(rest) {
        if marker == END {
            return true;
        }
        let [high, low, ..] = *after else { return false };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(next) = after.get(length.max(2)..) else { return false };
        rest = if marker == SCAN { after_scan(next) } else { next };
    }
    false
}

/// The next marker, and what comes after it.
fn next_marker(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let filled = bytes.strip_prefix(&[0xff])?;
    let at = filled.iter().position(|byte| *byte != 0xff)?;
    let (marker, after) = filled.get(at..)?.split_first()?;
    Some((*marker, after))
}

/// Returns the bytes after the compressed pixels. In the pixels, a marker of a restart or a stuffed zero comes after
/// each `ff`.
fn after_scan(bytes: &[u8]) -> &[u8] {
    let is_marker =
        |pair: &[u8]| matches!(pair, [0xff, marker] if !matches!(marker, 0x00 | 0xd0..=0xd7 | 0xff));
    let end = bytes.windows(2).position(is_marker).unwrap_or(bytes.len());
    bytes.get(end..).unwrap_or_default()
}
