//! Server-sent events, read incrementally.
//!
//! Chunks may be cut anywhere: inside a character, between CR and LF, inside the byte order mark. The events do not
//! depend on where. Lines are collected as bytes and become text only when their event is whole, so a character is
//! never torn; bytes that are not UTF-8 become U+FFFD and the stream goes on.

use std::borrow::Cow;

use memchr::memchr2;

/// The longest line that is read, without its end.
pub const MAX_LINE_BYTES: usize = 4 << 20;
/// The most data one event may carry over all its lines.
pub const MAX_EVENT_BYTES: usize = 4 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event. `name` is empty when the stream gave none.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
}

/// The part of a stream that is too long to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseTooLong {
    #[error("a line longer than {MAX_LINE_BYTES} bytes")]
    Line,
    #[error("an event longer than {MAX_EVENT_BYTES} bytes")]
    Event,
}

impl From<SseTooLong> for crate::Error {
    fn from(error: SseTooLong) -> Self {
        crate::Error::Broken(error.to_string())
    }
}

/// Turns chunks of bytes into events. Its buffers are kept from event to event, so a steady stream allocates nothing.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    event: Pending,
    /// A line was seen, so a byte order mark can no longer come.
    begun: bool,
    /// The last byte was CR; an LF that follows belongs to it.
    after_cr: bool,
}

/// The event that is being collected.
#[derive(Debug, Default)]
struct Pending {
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl SseParser {
    /// Reads a chunk and hands over each event that it completes. A block that is left unfinished when the stream
    /// ends is no event, as the standard has it.
    pub fn feed<E: From<SseTooLong>>(
        &mut self,
        chunk: &[u8],
        mut on_event: impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = chunk;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (head, tail) = rest.split_at(end);
            rest = self.skip_line_end(tail);
            self.line_end(head, &mut on_event)?;
        }
        if self.line.len() + rest.len() > MAX_LINE_BYTES {
            return Err(SseTooLong::Line.into());
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    fn skip_line_end<'a>(&mut self, tail: &'a [u8]) -> &'a [u8] {
        match tail {
            [b'\r', b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                &[]
            }
            [_, rest @ ..] => rest,
            [] => &[],
        }
    }

    /// A line is complete: what was kept of it, and `head`.
    fn line_end<E: From<SseTooLong>>(
        &mut self,
        head: &[u8],
        on_event: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line.len() + head.len() > MAX_LINE_BYTES {
            return Err(SseTooLong::Line.into());
        }
        let line = if self.line.is_empty() {
            head
        } else {
            self.line.extend_from_slice(head);
            self.line.as_slice()
        };
        let line = if self.begun { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            self.event.dispatch(on_event)?;
        } else {
            self.event.field(line)?;
        }
        self.line.clear();
        Ok(())
    }
}

impl Pending {
    fn field(&mut self, line: &[u8]) -> Result<(), SseTooLong> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let (name, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or(value);
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match name {
            b"data" => self.data(value)?,
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {} // comments have no name; `id` and `retry` mean nothing to a POST
        }
        Ok(())
    }

    fn data(&mut self, value: &[u8]) -> Result<(), SseTooLong> {
        if self.data.len() + value.len() + 1 > MAX_EVENT_BYTES {
            return Err(SseTooLong::Event);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }

    fn dispatch<E>(&mut self, on_event: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        let outcome = if self.has_data {
            on_event(&SseEvent {
                name: String::from_utf8_lossy(&self.name),
                data: String::from_utf8_lossy(&self.data),
            })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        outcome
    }
}

#[cfg(test)]
mod tests;
