//! Server-sent events as bytes: what is hashed is what came, not what a parser made of it.

/// An event larger than this is no event of ours, and is not waited for.
const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamedEvent {
    /// None if there is none, or if it is no number.
    pub id: Option<u64>,
    /// Empty if there is none.
    pub event: String,
    /// As it came; several lines are joined by line breaks.
    pub data: Vec<u8>,
}

/// Makes events of bytes, wherever these are cut.
#[derive(Debug, Default)]
pub struct EventDecoder {
    /// The bytes that are not a whole block yet.
    rest: Vec<u8>,
    /// How much of it holds no end of a block.
    searched: usize,
}

/// The stream has a block that is too large.
#[derive(Debug, PartialEq, Eq)]
pub struct EventTooLarge;

impl EventDecoder {
    /// The events that these bytes complete. Comments and `retry:` are none.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<StreamedEvent>, EventTooLarge> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.end_of_block() {
            let mut block: Vec<u8> = self.rest.drain(..end + 2).collect();
            block.truncate(end);
            self.searched = 0;
            events.extend(event(&block));
        }
        if self.rest.len() > MAX_FRAME_BYTES {
            return Err(EventTooLarge);
        }
        Ok(events)
    }

    fn end_of_block(&mut self) -> Option<usize> {
        let unsearched = self.rest.get(self.searched..)?;
        let found = unsearched.windows(2).position(|pair| pair == b"\n\n").map(|place| self.searched + place);
        self.searched = self.rest.len().saturating_sub(1);
        found
    }
}

/// None if the block holds neither a name nor data, as comments and `retry:` do not.
fn event(block: &[u8]) -> Option<StreamedEvent> {
    let (mut id, mut name, mut data) = (None, None, None::<Vec<u8>>);
    for line in block.split(|byte| *byte == b'\n') {
        if let Some(event) = line.strip_prefix(b"event: ") {
            name = Some(String::from_utf8_lossy(event).into_owned());
        } else if let Some(text) = line.strip_prefix(b"id: ") {
            id = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
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
    if name.is_none() && data.is_none() {
        return None;
    }
    Some(StreamedEvent { id, event: name.unwrap_or_default(), data: data.unwrap_or_default() })
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

    fn raw(id: u64, event: &str, data: &str) -> StreamedEvent {
        StreamedEvent { id: Some(id), event: event.into(), data: data.as_bytes().to_vec() }
    }

    fn expected() -> Vec<StreamedEvent> {
        vec![raw(7, "text:delta", "{\"delta\":\"é: x\"}"), raw(8, "odd", "one\ntwo"), raw(9, "run:end", "")]
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for place in 0..=STREAM.len() {
            let (before, after) = STREAM.as_bytes().split_at(place);
            let mut decoder = EventDecoder::default();
            let mut frames = decoder.feed(before).unwrap();
            frames.extend(decoder.feed(after).unwrap());
            assert_eq!(frames, expected(), "cut at {place}");
        }
    }

    #[test]
    fn events_are_the_same_byte_by_byte() {
        let mut decoder = EventDecoder::default();
        let frames: Vec<StreamedEvent> =
            STREAM.bytes().flat_map(|byte| decoder.feed(&[byte]).unwrap()).collect();
        assert_eq!(frames, expected());
    }

    #[test]
    fn a_block_without_end_is_given_up() {
        let mut decoder = EventDecoder::default();
        let megabyte = vec![b'x'; 1024 * 1024];
        for _ in 0..MAX_FRAME_BYTES / megabyte.len() {
            assert_eq!(decoder.feed(&megabyte), Ok(Vec::new()));
        }
        assert_eq!(decoder.feed(b"x"), Err(EventTooLarge));
    }
}
