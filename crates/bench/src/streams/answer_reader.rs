//! The client's view of a streamed answer: whether every token came, in order, and when.

use std::time::{Duration, Instant};

use memchr::memmem::Finder;

/// Every server sends its deltas in lines with this field.
const DELTA: &[u8] = b"\"delta\":";
/// A run, a step or a tool call that went wrong.
const FAILURE: &[u8] = b"\"status\":\"failed\"";
/// The part of a line that a failure shows.
const SHOWN_BYTES: usize = 200;

/// The times of one good turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnTimes {
    /// From the request to the first token.
    pub(super) first: Duration,
    pub(super) total: Duration,
    /// The longest time between two pieces with tokens.
    pub(super) gap: Duration,
}

pub(super) struct AnswerReader {
    delta: Finder<'static>,
    failure: Finder<'static>,
    begun: Instant,
    tokens: usize,
    first: Option<Instant>,
    last: Instant,
    gap: Duration,
}

impl AnswerReader {
    pub(super) fn new(begun: Instant) -> Self {
        let (delta, failure) = (Finder::new(DELTA), Finder::new(FAILURE));
        Self { delta, failure, begun, tokens: 0, first: None, last: begun, gap: Duration::ZERO }
    }

    /// Takes all complete lines from the front of what was received by now.
    pub(super) fn take(&mut self, received: &mut Vec<u8>, now: Instant) -> Result<(), String> {
        let (mut begin, before) = (0, self.tokens);
        while let Some(length) = memchr::memchr(b'\n', received.get(begin..).unwrap_or_default()) {
            self.take_line(received.get(begin..begin + length).unwrap_or_default())?;
            begin += length + 1;
        }
        received.drain(..begin);
        if self.tokens > before {
            match self.first {
                Some(_) => self.gap = self.gap.max(now - self.last),
                None => self.first = Some(now),
            }
            self.last = now;
        }
        Ok(())
    }

    /// Tokens that have come so far.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// The times of the turn, if all tokens came.
    pub(super) fn finish(&self, now: Instant, wanted: usize) -> Result<TurnTimes, String> {
        match self.first {
            Some(first) if self.tokens == wanted => {
                Ok(TurnTimes { first: first - self.begun, total: now - self.begun, gap: self.gap })
            }
            _ => Err(format!("{} of {wanted} tokens came", self.tokens)),
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), String> {
        let Some(at) = self.delta.find(line) else {
            return match self.failure.find(line) {
                Some(_) => Err(format!("failed: {}", line_text(line))),
                None => Ok(()),
            };
        };
        let mut rest = line.get(at + DELTA.len()..).unwrap_or_default();
        while let Some(at) = memchr::memchr(b'w', rest) {
            rest = rest.get(at + 1..).unwrap_or_default();
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(rest.get(..digits).unwrap_or_default()).unwrap_or_default();
            let Ok(number) = number.parse::<usize>() else { continue };
            if number != self.tokens {
                return Err(format!("token {number} came where {} was due", self.tokens));
            }
            self.tokens += 1;
        }
        Ok(())
    }
}

fn line_text(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..SHOWN_BYTES).unwrap_or(line)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str], wanted: usize) -> Result<(), String> {
        let (now, mut received) = (Instant::now(), Vec::new());
        let mut reader = AnswerReader::new(now);
        for piece in pieces {
            received.extend_from_slice(piece.as_bytes());
            reader.take(&mut received, now)?;
        }
        reader.finish(now, wanted).map(drop)
    }

    #[test]
    fn tokens_are_counted_in_deltas_only() {
        let rondo = [
            "event: text:delta\ndata: {\"step\":1,\"del",
            "ta\":\"w0 w1 \"}\n\ndata: {\"text\":\"w0 w1 \"}\n",
        ];
        assert_eq!(read(&rondo, 2), Ok(()));
        let proxy = ["data: {\"delta\":{\"content\":\"w0 \"},\"logprobs\":null}\n"];
        assert_eq!(read(&proxy, 1), Ok(()));
    }

    #[test]
    fn a_lost_and_a_repeated_token_are_noticed() {
        assert!(read(&["{\"delta\":\"w0 w2 \"}\n"], 2).is_err());
        assert!(read(&["{\"delta\":\"w0 \"}\n{\"delta\":\"w0 \"}\n"], 2).is_err());
        assert!(read(&["{\"delta\":\"w0 \"}\n"], 2).is_err());
        assert!(read(&["{\"delta\":\"w0 \"}\n{\"status\":\"failed\"}\n"], 1).is_err());
    }
}
