//! HTTP/2 on one connection, where each stream has bounds of its own.
//!
//! The library has no time-out for a client that reads its connection but gives one stream no room, and none for a
//! connection without requests. Both are here: hyper lets us run the streams, so we see when one of them stalls.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::HOST;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::StopSignals;
use crate::ServerLimits;

/// Requests of one connection at once.
const MAX_STREAMS: u32 = 100;
/// Bytes of a response that wait in one stream for the client to take them; one piece may come on top.
const MAX_SEND_BYTES: usize = 16 * 1024;
/// Bytes of a response that are handed to a stream at once.
const MAX_PIECE_BYTES: usize = 16 * 1024;
/// Bytes of a request's body that a client may send before we have read them: of one stream, and of all together.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Silence after which a client is asked for a sign of life, and the time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The connection itself refuses headers above `HEADER_SLACK` times the allowed size. Below, the server's own check
/// refuses them, and says why.
const HEADER_SLACK: usize = 2;

/// Serves until the client leaves, the server stops, or no request comes. `streams` owns the tasks of requests.
pub(super) async fn serve_http2<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: S,
    (limits, stop): (ServerLimits, StopSignals),
    streams: TaskTracker,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>,
{
    let over = CancellationToken::new();
    let _ends_streams = over.clone().drop_guard();
    let streams = StreamTasks::new(streams, over, limits.write_timeout);
    let activity = Arc::clone(&streams.activity);
    let begun = streams.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        name_host(&mut request);
        let delivery = begun.begin();
        let response = service.call(request);
        async move {
            let response = response.await?;
            Ok::<_, Infallible>(response.map(|body| DeliveredBody::new(body, delivery)))
        }
    });
    let builder = builder(&limits, streams);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let longest = tokio::select! {
        ended = connection.as_mut() => return log_end(ended),
        () = stop.begin.cancelled() => None,
        () = activity.idle(limits.header_timeout) => Some(limits.write_timeout),
    };
    connection.as_mut().graceful_shutdown();
    let too_long = async {
        let Some(longest) = longest else { return std::future::pending().await };
        sleep(longest).await;
        activity.idle(longest).await; // a request may have come before the client heard of the end
    };
    tokio::select! {
        ended = connection.as_mut() => log_end(ended),
        () = stop.now.cancelled() => {}
        () = too_long => {}
    }
}

fn builder(limits: &ServerLimits, streams: StreamTasks) -> http2::Builder<StreamTasks> {
    let max_headers = u32::try_from(limits.max_header_bytes.saturating_mul(HEADER_SLACK));
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(max_headers.unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// HTTP/2 has the name of the server in `:authority`, and a `Host` beside it counts for nothing. The checks of requests
/// read `Host` only.
fn name_host(request: &mut Request<Incoming>) {
    let authority = request.uri().authority().and_then(|name| HeaderValue::from_str(name.as_str()).ok());
    if let Some(authority) = authority {
        request.headers_mut().insert(HOST, authority);
    }
}

/// Runs the streams of one connection.
#[derive(Clone)]
struct StreamTasks {
    tracker: TaskTracker,
    /// The connection is over, and its streams with it.
    over: CancellationToken,
    /// How long a client may take nothing of a stream.
    limit: Duration,
    activity: Arc<Activity>,
    /// The delivery of the request whose task comes next. hyper calls the service and hands over the task at once after it.
    begun: Arc<Mutex<Option<Arc<Delivery>>>>,
}

impl StreamTasks {
    fn new(tracker: TaskTracker, over: CancellationToken, limit: Duration) -> Self {
        Self { tracker, over, limit, activity: Arc::new(Activity::new()), begun: Arc::default() }
    }

    fn begin(&self) -> Arc<Delivery> {
        let delivery = Arc::new(Delivery::default());
        *lock(&self.begun) = Some(Arc::clone(&delivery));
        delivery
    }
}

impl<F> hyper::rt::Executor<F> for StreamTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let delivery = lock(&self.begun).take().unwrap_or_default();
        let (active, over, limit) = (ActiveStream::new(&self.activity), self.over.clone(), self.limit);
        self.tracker.spawn(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = run_stream(stream, &delivery, limit) => {}
            }
            drop(active);
        });
    }
}

/// Runs a stream until its end, or until the client has taken nothing of it for too long. The stream is then dropped, which
/// resets it and leaves the others alone.
async fn run_stream(stream: impl Future<Output = ()>, delivery: &Delivery, limit: Duration) {
    let mut stream = std::pin::pin!(stream);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(since) = delivery.waiting_since() else {
            timer = None;
            return Poll::Pending;
        };
        let deadline = since + limit;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    })
    .await;
}

/// Since when a piece of a response waits for the client to take it; none while we make the next piece.
#[derive(Debug, Default)]
struct Delivery {
    since: Mutex<Option<Instant>>,
}

impl Delivery {
    fn waiting_since(&self) -> Option<Instant> {
        *lock(&self.since)
    }

    fn wait(&self, waits: bool) {
        *lock(&self.since) = waits.then(Instant::now);
    }
}

/// A response in pieces of bounded size. A stream asks for a piece only after it has got rid of the one before.
struct DeliveredBody {
    body: Body,
    /// The part of a large chunk that has not been asked for yet.
    rest: Bytes,
    delivery: Arc<Delivery>,
}

impl DeliveredBody {
    fn new(body: Body, delivery: Arc<Delivery>) -> Self {
        Self { body, rest: Bytes::new(), delivery }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) if data.len() > MAX_PIECE_BYTES => self.rest = data,
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(MAX_PIECE_BYTES));
        // A copy, because a piece that the client does not read would keep the whole chunk.
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&piece)))))
    }
}

impl hyper::body::Body for DeliveredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let piece = self.poll_piece(cx);
        self.delivery.wait(matches!(piece, Poll::Ready(Some(Ok(_)))));
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), u64::try_from(self.rest.len()).unwrap_or(u64::MAX));
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

/// How many streams a connection has open, and since when.
#[derive(Debug)]
struct Activity {
    state: Mutex<(usize, Instant)>,
}

impl Activity {
    fn new() -> Self {
        Self { state: Mutex::new((0, Instant::now())) }
    }

    /// Returns once there was no stream for `limit`.
    async fn idle(&self, limit: Duration) {
        loop {
            let (open, since) = *lock(&self.state);
            let begin = if open == 0 { since } else { Instant::now() };
            if begin.elapsed() >= limit {
                return;
            }
            sleep_until(begin + limit).await;
        }
    }
}

/// A stream that is open; dropping it ends it.
struct ActiveStream {
    activity: Arc<Activity>,
}

impl ActiveStream {
    fn new(activity: &Arc<Activity>) -> Self {
        lock(&activity.state).0 += 1;
        Self { activity: Arc::clone(activity) }
    }
}

impl Drop for ActiveStream {
    fn drop(&mut self) {
        let mut state = lock(&self.activity.state);
        *state = (state.0.saturating_sub(1), Instant::now());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
