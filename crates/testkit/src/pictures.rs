//! Pictures to upload: good ones of every format, and bad ones.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

/// The place of the width and the height in a PNG, and of the chunk that holds them.
const PNG_SIZE: std::ops::Range<usize> = 16..24;
const PNG_HEADER: std::ops::Range<usize> = 12..29;
const PNG_HEADER_SUM: std::ops::Range<usize> = 29..33;

/// A picture of some colours, in a format.
pub fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let colours = |x: u32, y: u32| Rgb([(x % 256) as u8, (y % 256) as u8, 120]);
    encode(&RgbImage::from_fn(width, height, colours).into(), format)
}

pub fn png(width: u32, height: u32) -> Vec<u8> {
    picture(width, height, ImageFormat::Png)
}

pub fn jpeg(width: u32, height: u32) -> Vec<u8> {
    picture(width, height, ImageFormat::Jpeg)
}

/// A PNG that one can see through on its left.
pub fn clear_png(width: u32, height: u32) -> Vec<u8> {
    let clear = |x: u32, _: u32| Rgba([10, 90, 200, if x == 0 { 0 } else { 255 }]);
    encode(&RgbaImage::from_fn(width, height, clear).into(), ImageFormat::Png)
}

fn encode(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.write_to(&mut Cursor::new(&mut bytes), format).expect("a picture is written");
    bytes
}

/// A small PNG whose header says that it has these sides.
pub fn boasting_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = png(4, 4);
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    bytes.splice(PNG_SIZE, size);
    let sum = checksum(bytes.get(PNG_HEADER).unwrap_or_default());
    bytes.splice(PNG_HEADER_SUM, sum.to_be_bytes());
    bytes
}

/// The checksum of a chunk (CRC-32).
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    let add = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(u32::MAX, add)
}

/// A file as a data URL.
pub fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}
