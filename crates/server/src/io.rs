//! A client's socket, on which nothing waits for ever.
//!
//! The timer of a blocked write has to live here: while a client takes no bytes, hyper does not poll the response
//! body, so a deadline inside the body would never be looked at.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// How much of what a client still sends is thrown away, and for how long, after we have said our last word.
const LINGER_BYTES: usize = 8 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// Fails a write that makes no progress for `limit`, and closes so that a refused client can read why.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    limit: Duration,
    /// Ends a stream whose write is blocked for too long. The client does not read the bytes that wait in the kernel,
    /// which would keep them for long.
    give_up: fn(&S),
    /// Runs while a write is blocked.
    blocked: Option<Pin<Box<Sleep>>>,
    linger: Option<Linger>,
    /// The server stops: do not linger.
    stopping: CancellationToken,
}

#[derive(Debug)]
struct Linger {
    bytes_left: usize,
    timer: Pin<Box<Sleep>>,
}

impl<S> Socket<S> {
    pub(crate) fn new(stream: S, (limit, give_up): (Duration, fn(&S)), stopping: CancellationToken) -> Self {
        Self { stream, limit, give_up, blocked: None, linger: None, stopping }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.blocked = None;
            return progress;
        }
        let limit = self.limit;
        let timer = self.blocked.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(cx).map(|()| {
            (self.give_up)(&self.stream);
            Err(io::ErrorKind::TimedOut.into())
        })
    }
}

impl<S: AsyncRead + Unpin> Socket<S> {
    /// Throws away what arrives until the client closes. Were the socket closed with bytes unread, the kernel would
    /// reset the connection, and a client whose body we refused half-way would not see our answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(linger) = &mut self.linger else { return Poll::Ready(()) };
        let mut space = [0; 8 * 1024];
        loop {
            let mut buf = ReadBuf::new(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Pending => return linger.timer.as_mut().poll(cx),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => match linger.bytes_left.checked_sub(buf.filled().len()) {
                    Some(left) if left < linger.bytes_left => linger.bytes_left = left,
                    Some(_) | None => return Poll::Ready(()),
                },
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A socket's flush is always ready, so watching it would stop the timer of a blocked write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if self.stopping.is_cancelled() {
                return Poll::Ready(Ok(()));
            }
            self.linger = Some(Linger { bytes_left: LINGER_BYTES, timer: Box::pin(sleep(LINGER)) });
        }
        self.poll_linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_stays_blocked_fails_after_the_limit() {
        let (ours, _theirs) = duplex(4);
        let mut stream = Socket::new(ours, (LIMIT, |_| {}), CancellationToken::new());
        let start = Instant::now();
        let error = stream.write_all(b"more than four bytes").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_but_moves_is_served() {
        let (ours, mut theirs) = duplex(1);
        let mut stream = Socket::new(ours, (LIMIT, |_| {}), CancellationToken::new());
        let read = async {
            let mut taken = Vec::new();
            for _ in 0..3 {
                tokio::time::advance(LIMIT / 2).await;
                taken.push(theirs.read_u8().await.unwrap());
            }
            taken
        };
        let (written, taken) = tokio::join!(stream.write_all(b"abc"), read);
        written.unwrap();
        assert_eq!(taken, b"abc");
    }
}
