//! Server-sent events as bytes: what is hashed is what came, not what a parser made of it.

use sha2::{Digest, Sha256};

use crate::record::Seen;

/// An event larger than this is no event of ours, and is not waited for.
const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub(super) seq: u64,
    pub(super) event: String,
    /// As it came; several lines are joined by line breaks.
    pub(super) data: Vec<u8>,
}

impl Frame {
    pub(super) fn seen(&self) -> Seen {
        let hash = Sha256::digest(&self.data).iter().map(|byte| format!("{byte:02x}")).collect();
        Seen { seq: self.seq, event: self.event.clone(), hash }
    }
}

/// Makes events of bytes, wherever these are cut.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// What is not a whole block yet.
    rest: Vec<u8>,
    /// How much of it holds no end of a block.
    searched: usize,
}

/// The stream has a block that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Decoder {
    /// The events that these bytes complete. Comments and `retry:` are none.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        self.rest.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(end) = self.end_of_block() {
            let mut block: Vec<u8> = self.rest.drain(..end + 2).collect();
            block.truncate(end);
            self.searched = 0;
            frames.extend(frame(&block));
        }
        if self.rest.len() > MAX_FRAME_BYTES {
            return Err(TooLarge);
        }
        Ok(frames)
    }

    fn end_of_block(&mut self) -> Option<usize> {
        let unsearched = self.rest.get(self.searched..)?;
        let found = unsearched.windows(2).position(|pair| pair == b"\n\n").map(|place| self.searched + place);
        self.searched = self.rest.len().saturating_sub(1);
        found
    }
}

fn frame(block: &[u8]) -> Option<Frame> {
    let mut frame = Frame::default();
    let mut data: Option<Vec<u8>> = None;
    for line in block.split(|byte| *byte == b'\n') {
        if let Some(event) = line.strip_prefix(b"event: ") {
            frame.event = String::from_utf8_lossy(event).into_owned();
        } else if let Some(id) = line.strip_prefix(b"id: ") {
            frame.seq = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).unwrap_or_default();
        } else if let Some(line) = line.strip_prefix(b"data: ") {
            match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(line);
                }
                None => data = Some(line.to_vec()),
            }
        }
    }
    data.map(|data| Frame { data, ..frame })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 512\n\n\
        event: text:delta\nid: 7\ndata: {\"delta\":\"é: x\"}\n\n\
        : keep-alive\n\n\
        event: odd\nid: 8\ndata: one\ndata: two\n\n\
        event: run:end\nid: 9\ndata: \n\n\
        retry: 700\n\n\
        event: half\nid: 10\ndata: never";

    fn frame(seq: u64, event: &str, data: &str) -> Frame {
        Frame { seq, event: event.into(), data: data.as_bytes().to_vec() }
    }

    fn expected() -> Vec<Frame> {
        vec![
            frame(7, "text:delta", "{\"delta\":\"é: x\"}"),
            frame(8, "odd", "one\ntwo"),
            frame(9, "run:end", ""),
        ]
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for place in 0..=STREAM.len() {
            let (before, after) = STREAM.as_bytes().split_at(place);
            let mut decoder = Decoder::default();
            let mut frames = decoder.feed(before).unwrap();
            frames.extend(decoder.feed(after).unwrap());
            assert_eq!(frames, expected(), "cut at {place}");
        }
    }

    #[test]
    fn events_are_the_same_byte_by_byte() {
        let mut decoder = Decoder::default();
        let frames: Vec<Frame> = STREAM.bytes().flat_map(|byte| decoder.feed(&[byte]).unwrap()).collect();
        assert_eq!(frames, expected());
    }

    #[test]
    fn a_frame_is_known_by_the_hash_of_its_bytes() {
        let seen = frame(3, "run:end", "abc").seen();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(seen, Seen { seq: 3, event: "run:end".into(), hash: hash.into() });
    }

    #[test]
    fn a_block_without_end_is_given_up() {
        let mut decoder = Decoder::default();
        let megabyte = vec![b'x'; 1024 * 1024];
        for _ in 0..MAX_FRAME_BYTES / megabyte.len() {
            assert_eq!(decoder.feed(&megabyte), Ok(Vec::new()));
        }
        assert_eq!(decoder.feed(b"x"), Err(TooLarge));
    }
}
