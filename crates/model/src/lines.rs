//! One JSON text a line, as some servers stream.

use crate::Error;

/// The longest line that is kept while its end has not come.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Cuts bytes into lines, wherever chunks end.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl LineSplitter {
    /// Takes a chunk in and hands out every line that it completes. Bytes that are not UTF-8 are replaced.
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len() + part.len() > MAX_LINE_BYTES {
                return Err(Error::Broken(format!("a line longer than {MAX_LINE_BYTES} bytes")));
            }
            self.rest.extend_from_slice(part);
            if parts.peek().is_some() {
                take(&String::from_utf8_lossy(&std::mem::take(&mut self.rest)))?;
            }
        }
        Ok(())
    }

    /// The bytes have ended: what is left is a line too.
    pub(crate) fn end(&mut self, mut take: impl FnMut(&str) -> Result<(), Error>) -> Result<(), Error> {
        take(&String::from_utf8_lossy(&std::mem::take(&mut self.rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        let mut take = |line: &str| {
            found.push(line.to_owned());
            Ok(())
        };
        chunks.iter().try_for_each(|chunk| lines.feed(chunk, &mut take)).unwrap();
        lines.end(&mut take).unwrap();
        found
    }

    #[test]
    fn lines_are_the_same_wherever_chunks_end() {
        let text = "{\"a\":\"é\"}\r\n\n{\"b\":1}".as_bytes();
        let whole = lines(&[text]);
        assert_eq!(whole, ["{\"a\":\"é\"}\r", "", "{\"b\":1}"]);
        for cut in 0..=text.len() {
            let (one, other) = text.split_at(cut);
            assert_eq!(lines(&[one, other]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = LineSplitter::default();
        let long = vec![b'x'; MAX_LINE_BYTES];
        assert!(lines.feed(&long, |_| Ok(())).is_ok());
        assert!(matches!(lines.feed(b"y", |_| Ok(())), Err(Error::Broken(_))));
    }
}
