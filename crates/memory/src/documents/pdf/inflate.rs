//! Refuses a PDF whose compressed streams would become too large, before any parser inflates them.

use std::io::{BufReader, Read};

use flate2::bufread::ZlibDecoder;

use crate::documents::DocumentProblem;

/// The most one stream may become, in bytes. Pictures of whole pages are large.
const MAX_STREAM_BYTES: usize = 128 * 1024 * 1024;
/// The most all streams may become, in bytes.
const MAX_ALL_STREAMS_BYTES: usize = 1024 * 1024 * 1024;
/// The most compressed streams a document may have.
const MAX_STREAMS: usize = 200_000;
/// How often a stream may be compressed.
const MAX_LAYERS: usize = 3;
const BUFFER_BYTES: usize = 64 * 1024;
const WORD: &[u8] = b"stream";

pub(super) fn check(bytes: &[u8]) -> Result<(), DocumentProblem> {
    let large = |what, limit| Err(DocumentProblem::TooLarge { what, limit });
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut all = 0;
    let mut streams = 0;
    let mut rest = bytes;
    while let Some(data) = next_stream(&mut rest) {
        streams += 1;
        if streams > MAX_STREAMS {
            return large("compressed streams", MAX_STREAMS);
        }
        for layers in 1..=MAX_LAYERS {
            let inflated = inflated_bytes(data, layers, &mut buffer);
            all += inflated;
            if inflated > MAX_STREAM_BYTES {
                return large("bytes in a compressed stream", MAX_STREAM_BYTES);
            }
            if all > MAX_ALL_STREAMS_BYTES {
                return large("bytes in all compressed streams", MAX_ALL_STREAMS_BYTES);
            }
            if inflated == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// The data after the next beginning of a stream.
fn next_stream<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    loop {
        let at = memchr::memmem::find(rest, WORD)?;
        let after = rest.get(at + WORD.len()..)?;
        *rest = after;
        let data = after
            .strip_prefix(b"\r\n")
            .or_else(|| after.strip_prefix(b"\n"))
            .or_else(|| after.strip_prefix(b"\r"));
        if let Some(data) = data
            && is_compressed(data)
        {
            return Some(data);
        }
    }
}

/// Whether data begins like what zlib writes.
fn is_compressed(data: &[u8]) -> bool {
    match data {
        [first, second, ..] => first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0,
        [] | [_] => false,
    }
}

/// How many bytes remain when `layers` layers are removed. Zero if there are fewer layers.
fn inflated_bytes(data: &[u8], layers: usize, buffer: &mut [u8]) -> usize {
    let mut reader: Box<dyn Read + '_> = Box::new(data);
    for _ in 0..layers {
        reader = Box::new(ZlibDecoder::new(BufReader::new(reader)));
    }
    let mut bytes = 0;
    // A stream that is cut off counts as far as it goes.
    while bytes <= MAX_STREAM_BYTES
        && let Ok(read @ 1..) = reader.read(buffer)
    {
        bytes += read;
    }
    bytes
}
