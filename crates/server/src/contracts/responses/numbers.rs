//! Sequence numbers of a response's events, and which of them a client is sent.
//!
//! Every event of a response has a number, from 0. Pieces of a step that began again keep their numbers, and so does the
//! error that told of it, so that a number never stands for two events. A client that resumes names the last number it has
//! seen. If that was one of the pieces that are void, or if numbers are no longer known, only the end of the response is
//! sent, which has all of its text.

use serde::Serialize;

/// An event with its name and number.
#[derive(Serialize)]
struct NumberedEvent<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: T,
    sequence_number: u64,
}

/// Whether an event is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventVoidness {
    Good,
    /// A piece of a step that began again.
    Void,
}

#[derive(Debug, Clone)]
pub(super) struct EventNumbers {
    next: u64,
    /// The last number that the client has seen.
    seen: Option<u64>,
    /// Whether what the client has seen last is void.
    saw_void: bool,
    /// Whether the client's number means nothing any more.
    is_stale: bool,
    out: Vec<u8>,
}

impl EventNumbers {
    pub(super) fn after_number(seen: Option<u64>) -> Self {
        Self { next: 0, seen, saw_void: false, is_stale: false, out: Vec::new() }
    }

    /// Sends nothing but the end from now on.
    pub(super) fn set_stale(&mut self) {
        self.is_stale = true;
    }

    pub(super) fn emit(&mut self, kind: &str, body: impl Serialize, voidness: EventVoidness) {
        let number = self.next;
        self.next += 1;
        let is_seen = self.seen.is_some_and(|seen| number <= seen);
        match voidness {
            EventVoidness::Void => self.saw_void |= is_seen,
            // A client that has a good number after void ones began to read after them.
            EventVoidness::Good if is_seen => self.saw_void = false,
            EventVoidness::Good if self.saw_void || self.is_stale => {}
            EventVoidness::Good => self.write(kind, body, number),
        }
    }

    /// The last event, which is sent in any case unless it was seen.
    pub(super) fn emit_end(&mut self, kind: &str, body: impl Serialize) {
        let number = match self.seen {
            Some(seen) if self.saw_void || self.is_stale => self.next.max(seen.saturating_add(1)),
            Some(_) | None => self.next,
        };
        self.next = number.saturating_add(1);
        if self.seen.is_none_or(|seen| number > seen) {
            self.write(kind, body, number);
        }
    }

    /// An error of the stream, not of the response. It has the number of the event before it, so that a client that
    /// resumes after it misses nothing.
    pub(super) fn emit_cut(&mut self, body: impl Serialize) {
        let number = self.next.saturating_sub(1).max(self.seen.unwrap_or(0));
        self.write("error", body, number);
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn write(&mut self, kind: &str, body: impl Serialize, sequence_number: u64) {
        let out = &mut self.out;
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        let written = serde_json::to_writer(&mut *out, &NumberedEvent { kind, body, sequence_number });
        debug_assert!(written.is_ok(), "a vector takes every byte");
        out.extend_from_slice(b"\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that a client gets which has seen `seen`, of two good events, two void ones, two good ones and the end.
    fn sent_after(seen: Option<u64>) -> Vec<u64> {
        let mut numbers = EventNumbers::after_number(seen);
        for voidness in [EventVoidness::Good, EventVoidness::Void, EventVoidness::Good] {
            for _ in 0..2 {
                numbers.emit("piece", serde_json::json!({}), voidness);
            }
        }
        numbers.emit_end("end", serde_json::json!({}));
        let text = String::from_utf8(numbers.take()).unwrap();
        let number = |line: &str| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["sequence_number"].as_u64().unwrap()
        };
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(number).collect()
    }

    #[test]
    fn who_has_seen_what_is_void_gets_the_end_and_others_get_the_rest() {
        assert_eq!(sent_after(None), [0, 1, 4, 5, 6]);
        assert_eq!(sent_after(Some(1)), [4, 5, 6]);
        assert_eq!(sent_after(Some(2)), [6]);
        assert_eq!(sent_after(Some(3)), [6]);
        assert_eq!(sent_after(Some(4)), [5, 6], "a client that began to read after them");
        assert!(sent_after(Some(6)).is_empty());
    }
}
