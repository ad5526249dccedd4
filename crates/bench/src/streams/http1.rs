//! The little of HTTP/1.1 that the upstream and the load generator need. A library would cost more for each event than the
//! event itself, and both share one core with 5,000 streams.

use memchr::memmem;

/// A longer head is an error of the server, not a head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Hexadecimal digits of the size of a chunk; more would be a chunk of gigabytes.
const MAX_SIZE_DIGITS: u32 = 7;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The first line of a message, and how its body is framed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpHead {
    pub(super) first_line: String,
    pub(super) body: BodyPlace,
    /// How many bytes the head itself has.
    pub(super) bytes: usize,
}

/// The place of a reader within a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyPlace {
    /// Bytes of a body with a known length that are still to come.
    Length(usize),
    /// In the line with the size of a chunk.
    Size {
        size: usize,
        digits: u32,
    },
    /// Bytes of a chunk that are still to come.
    Chunk(usize),
    /// In the line end behind a chunk.
    ChunkEnd,
    /// Behind the last chunk; `blank` while the line has no character.
    Trailer {
        blank: bool,
    },
    Done,
}

/// Reads a head if all of it is there.
pub(super) fn read_head(bytes: &[u8]) -> Result<Option<HttpHead>, String> {
    let Some(end) = memmem::find(bytes, HEAD_END) else {
        if bytes.len() > MAX_HEAD_BYTES {
            return Err(format!("the head has more than {MAX_HEAD_BYTES} bytes"));
        }
        return Ok(None);
    };
    let text = std::str::from_utf8(bytes.get(..end).unwrap_or_default());
    let mut lines = text.map_err(|_| "the head is not UTF-8".to_owned())?.split("\r\n");
    let first_line = lines.next().unwrap_or_default().to_owned();
    let mut body = BodyPlace::Length(0);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no header: {line}"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|_| format!("no length: {value}"))?;
            body = BodyPlace::Length(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            body = BodyPlace::Size { size: 0, digits: 0 };
        }
    }
    Ok(Some(HttpHead { first_line, body, bytes: end + HEAD_END.len() }))
}

impl BodyPlace {
    pub(super) fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Length(0))
    }

    /// Takes the bytes of the body from the front of `input`, and adds their content to `content`. Says how many it took.
    pub(super) fn decode(&mut self, input: &[u8], content: &mut Vec<u8>) -> Result<usize, String> {
        let mut at = 0;
        while let Some((&byte, rest)) = input.get(at..).and_then(<[u8]>::split_first) {
            at += 1;
            *self = match *self {
                Self::Done | Self::Length(0) => return Ok(at - 1),
                Self::Length(left) | Self::Chunk(left) => {
                    let taken = left.min(rest.len() + 1);
                    content.extend_from_slice(input.get(at - 1..at - 1 + taken).unwrap_or_default());
                    at += taken - 1;
                    self.place_after(left - taken)
                }
                Self::Size { size, digits } => size_line(byte, size, digits)?,
                Self::ChunkEnd if byte == b'\n' => Self::Size { size: 0, digits: 0 },
                Self::ChunkEnd => Self::ChunkEnd,
                Self::Trailer { blank: true } if byte == b'\n' => Self::Done,
                Self::Trailer { blank } => Self::Trailer { blank: byte == b'\n' || (blank && byte == b'\r') },
            };
        }
        Ok(at)
    }

    /// The place after some bytes of a body or of a chunk, of which `left` bytes remain.
    fn place_after(self, left: usize) -> Self {
        match self {
            Self::Chunk(_) if left == 0 => Self::ChunkEnd,
            Self::Chunk(_) => Self::Chunk(left),
            Self::Length(_) | Self::Size { .. } | Self::ChunkEnd | Self::Trailer { .. } | Self::Done => {
                Self::Length(left)
            }
        }
    }
}

fn size_line(byte: u8, size: usize, digits: u32) -> Result<BodyPlace, String> {
    if byte == b'\r' {
        return Ok(BodyPlace::Size { size, digits });
    }
    if byte == b'\n' {
        return match (size, digits) {
            (_, 0) => Err("a chunk without a size".into()),
            (0, _) => Ok(BodyPlace::Trailer { blank: true }),
            _ => Ok(BodyPlace::Chunk(size)),
        };
    }
    let digit = char::from(byte).to_digit(16).and_then(|digit| usize::try_from(digit).ok());
    let digit = digit.ok_or("the size of a chunk is not hexadecimal")?;
    if digits == MAX_SIZE_DIGITS {
        return Err("a chunk is too large".into());
    }
    Ok(BodyPlace::Size { size: size * 16 + digit, digits: digits + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_the_same_however_it_is_cut() {
        let head = read_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.body, BodyPlace::Size { size: 0, digits: 0 });
        let body = b"5\r\nhello\r\nc\r\n, the world!\r\n0\r\n\r\nnext";
        for step in 1..body.len() {
            let (mut place, mut content, mut taken) = (head.body, Vec::new(), 0);
            for piece in body.chunks(step) {
                taken += place.decode(piece, &mut content).unwrap();
            }
            assert_eq!(
                (place, content, taken),
                (BodyPlace::Done, b"hello, the world!".to_vec(), body.len() - "next".len())
            );
        }
    }

    #[test]
    fn a_body_of_known_length_ends_there() {
        let text = b"POST /v1 HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcd";
        let head = read_head(text).unwrap().unwrap();
        assert_eq!(head.first_line, "POST /v1 HTTP/1.1");
        let (mut place, mut content) = (head.body, Vec::new());
        assert_eq!(place.decode(&text[head.bytes..], &mut content), Ok(3));
        assert!(place.is_done());
        assert_eq!(read_head(b"POST / HTTP/1.1\r\n"), Ok(None));
    }

    #[test]
    fn a_size_that_is_no_number_is_refused() {
        let mut place = BodyPlace::Size { size: 0, digits: 0 };
        assert!(place.decode(b"x\r\n", &mut Vec::new()).is_err());
        let mut place = BodyPlace::Size { size: 0, digits: 0 };
        assert!(place.decode(b"ffffffff\r\n", &mut Vec::new()).is_err());
    }
}
