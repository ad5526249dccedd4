//! An upload becomes an image that is safe to keep and to send to a model: its format is known by its bytes, its pixels
//! and bytes are bounded, and it is encoded anew, so that no metadata and no trailing data of the upload survive.
//!
//! Everything here is computation: it takes up to a second and a few hundred megabytes for the largest image, so callers
//! run it on a thread that may block, and few at a time.

mod formats;
mod pixels;

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::{JpegDecoder, JpegEncoder};
use image::codecs::png::{PngDecoder, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{ExtendedColorType, ImageDecoder, ImageEncoder, ImageError, Limits};

use pixels::{Decoded, Layout, Pixels};

pub use formats::{UploadFormat, check_type};

/// Pixels of an upload.
pub const MAX_PIXELS: u64 = 20_000_000;

/// Bytes of the decoded pixels: those of the largest image with eight bits a channel.
const MAX_DECODED_BYTES: u64 = MAX_PIXELS * 4;

/// Bytes that a decoder may allocate beside them.
const MAX_DECODER_BYTES: u64 = 2 * MAX_DECODED_BYTES;

/// Pixels of the longer side of a kept image. Providers scale larger ones down anyway.
pub const MAX_SIDE: u32 = 2048;

/// Bytes of a kept image. Twelve of them fit into a request that every provider takes.
pub const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024;

/// Times an image is made smaller because its bytes are too many, each time to three quarters of its sides.
const MAX_SHRINKS: usize = 8;

const JPEG_QUALITY: u8 = 85;

/// An image as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptImage {
    /// `image/png` if it has transparent parts, else `image/jpeg`.
    pub media_type: &'static str,
    pub width: u32,
    pub height: u32,
    pub bytes: Vec<u8>,
}

/// The reason why an upload is no image that can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    #[error("this is not a PNG, JPEG, WebP or GIF image; convert it to one of these, and send it again")]
    Unsupported,
    #[error(
        "the content type says {said}, but the bytes are {found}; send the image with its own content type"
    )]
    OtherType { said: UploadFormat, found: UploadFormat },
    #[error(
        "the content type is not that of a PNG, JPEG, WebP or GIF image, but the bytes are {0}; send the image with its own content type"
    )]
    NoImageType(UploadFormat),
    #[error("the image has {width} x {height} pixels, and at most {MAX_PIXELS} are taken; make it smaller")]
    TooManyPixels { width: u32, height: u32 },
    #[error("the image needs too much memory; save it with 8 bits a channel, or make it smaller")]
    TooMuchMemory,
    #[error("the image is broken or ends too early; save it again, and send it again")]
    Broken,
}

impl ImageProblem {
    /// A name for programs.
    pub fn code(self) -> &'static str {
        match self {
            ImageProblem::Unsupported => "image_unsupported",
            ImageProblem::OtherType { .. } | ImageProblem::NoImageType(_) => "image_type_mismatch",
            ImageProblem::TooManyPixels { .. } | ImageProblem::TooMuchMemory => "image_too_large",
            ImageProblem::Broken => "image_unreadable",
        }
    }
}

/// Checks an upload and encodes it anew. `declared` is the content type that came with it.
pub fn keep_image(upload: &[u8], declared: Option<&str>) -> Result<KeptImage, ImageProblem> {
    let limits = || {
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODER_BYTES);
        limits
    };
    let source = Cursor::new(upload);
    let image = match formats::format_of(upload, declared)? {
        UploadFormat::Png => read(PngDecoder::with_limits(source, limits()), limits()),
        UploadFormat::Jpeg => read(JpegDecoder::new(source), limits()),
        UploadFormat::WebP => read(WebPDecoder::new(source), limits()),
        UploadFormat::Gif => read(GifDecoder::new(source), limits()),
    }?;
    encode_within_limit(image)
}

/// The first frame, upright and not larger than it is kept.
fn read<D: ImageDecoder>(decoder: Result<D, ImageError>, limits: Limits) -> Result<Pixels, ImageProblem> {
    let mut decoder = decoder.map_err(|error| problem_of(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(ImageProblem::TooManyPixels { width, height });
    }
    let size = decoder.total_bytes();
    if size > MAX_DECODED_BYTES {
        return Err(ImageProblem::TooMuchMemory);
    }
    decoder.set_limits(limits).map_err(|error| problem_of(&error))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let layout = Layout::of(decoder.color_type()).ok_or(ImageProblem::Unsupported)?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| ImageProblem::TooMuchMemory)?];
    decoder.read_image(&mut bytes).map_err(|error| problem_of(&error))?;
    let decoded = Decoded { layout, width, height, bytes: &bytes };
    // Scaled before it is turned: what is turned is then small.
    let (width, height) = fitting_size(width, height, MAX_SIDE);
    let pixels = decoded.scaled(width, height).ok_or(ImageProblem::Broken)?;
    Ok(pixels.turned(orientation))
}

/// The sizes at which neither side is longer than `longest`.
fn fitting_size(width: u32, height: u32, longest: u32) -> (u32, u32) {
    let longer = width.max(height);
    if longer <= longest {
        return (width, height);
    }
    let scaled = |side: u32| u64::from(side) * u64::from(longest) / u64::from(longer);
    let side = |side| u32::try_from(scaled(side)).unwrap_or(longest).max(1);
    (side(width), side(height))
}

fn problem_of(error: &ImageError) -> ImageProblem {
    match error {
        ImageError::Limits(_) => ImageProblem::TooMuchMemory,
        ImageError::Unsupported(_) => ImageProblem::Unsupported,
        ImageError::Decoding(_)
        | ImageError::Encoding(_)
        | ImageError::Parameter(_)
        | ImageError::IoError(_) => ImageProblem::Broken,
    }
}

/// Encodes pixels, smaller and smaller ones until the bytes are few enough.
fn encode_within_limit(mut pixels: Pixels) -> Result<KeptImage, ImageProblem> {
    for _ in 0..=MAX_SHRINKS {
        let (width, height) = (pixels.width, pixels.height);
        let mut bytes = Vec::new();
        let (format, written) = if pixels.is_opaque() {
            let mut encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
            let written = encoder.encode(&pixels.without_alpha(), width, height, ExtendedColorType::Rgb8);
            (UploadFormat::Jpeg, written)
        } else {
            let encoder = PngEncoder::new(&mut bytes);
            let written = encoder.write_image(&pixels.rgba, width, height, ExtendedColorType::Rgba8);
            (UploadFormat::Png, written)
        };
        written.map_err(|error| problem_of(&error))?;
        if bytes.len() <= MAX_KEPT_BYTES {
            return Ok(KeptImage { media_type: format.media_type(), width, height, bytes });
        }
        let (smaller, lower) = fitting_size(width, height, width.max(height) * 3 / 4);
        pixels = pixels.as_decoded().scaled(smaller, lower).ok_or(ImageProblem::Broken)?;
    }
    Err(ImageProblem::TooMuchMemory)
}

#[cfg(test)]
mod tests;
