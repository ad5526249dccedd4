//! A limit on how deep the lines of an MCP process nest.
//!
//! The reader of MCP messages leaves out a line that it cannot parse, without a word. The call that waits for the answer in
//! that line would wait until its time is over. So the output of the process ends in an error there, and the call fails at
//! once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use protocol::JsonScanner;
use tokio::io::{AsyncRead, ReadBuf};

/// Levels of arrays and objects in a line that its reader takes.
const MAX_LINE_DEPTH: usize = 126;

/// The output of a process, which fails at a line that nests too deep.
pub(super) struct DepthLimited<R> {
    from: R,
    line: JsonScanner,
}

impl<R> DepthLimited<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, line: JsonScanner::default() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for DepthLimited<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.from).poll_read(context, into))?;
        let new = into.filled().get(before..).unwrap_or_default();
        let fits = new.iter().all(|byte| {
            self.line = if *byte == b'\n' { JsonScanner::default() } else { self.line.after_byte(*byte) };
            self.line.depth() <= MAX_LINE_DEPTH
        });
        if fits {
            return Poll::Ready(Ok(()));
        }
        into.set_filled(before);
        tracing::warn!(
            "an MCP server has sent JSON that is nested deeper than {MAX_LINE_DEPTH} levels; the server is \
             restarted"
        );
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "its JSON is nested too deep")))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(text: &str) -> io::Result<String> {
        let mut all = String::new();
        DepthLimited::new(text.as_bytes()).read_to_string(&mut all).await.map(|_| all)
    }

    #[tokio::test]
    async fn a_line_that_nests_too_deep_ends_it_and_others_pass() {
        let nested = |levels: usize| format!("{}{}\n", "[".repeat(levels), "]".repeat(levels));
        let fine = [nested(MAX_LINE_DEPTH), "a log line ([{ \"\n".into(), nested(MAX_LINE_DEPTH)].concat();
        assert_eq!(read(&fine).await.unwrap(), fine);
        let words = format!("\"{}\\\"{}\"\n", "[".repeat(500), "{".repeat(500));
        assert_eq!(read(&words).await.unwrap(), words, "brackets in a string nest nothing");
        assert!(read(&[fine, nested(MAX_LINE_DEPTH + 1)].concat()).await.is_err());
    }
}
