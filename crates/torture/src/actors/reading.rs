//! Following runs and threads, and coming back after every break: each connection is written down as it was.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use testkit::{EventDecoder, StreamedEvent};
use tokio::time::{Instant, timeout};

use super::Actor;
use super::client::{ClientRequest, INSISTENCE, OpenedStream, Pauses, text};
use crate::balancer::Balancer;
use crate::record::{End, Micros, ReceivedEvent, StreamReading, Trigger};

/// How long a run may have nothing to say before its reader leaves.
const RUN_SILENCE: Duration = Duration::from_secs(10);
/// The longest silence of a run that waits for a decision before its reader leaves.
const WAITING_SILENCE: Duration = Duration::from_secs(2);
/// How long a thread, which has no end, may have nothing to say before its reader leaves.
const THREAD_SILENCE: Duration = Duration::from_secs(1);
/// How long the server may take to close a stream after `run:end`.
const CLOSING: Duration = Duration::from_secs(5);
/// No run of ours has more events.
const MAX_FRAMES: usize = 20_000;

/// The stream that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FollowedStream {
    Run(String),
    Thread(String),
}

impl FollowedStream {
    fn path(&self) -> String {
        match self {
            Self::Run(run) => format!("/v1/runs/{run}/events"),
            Self::Thread(thread) => format!("/v1/threads/{thread}/events"),
        }
    }
}

/// The conduct of a reader whose run waits for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    Decide,
    Leave,
    Stay,
}

/// How long a reader stays.
#[derive(Debug, Clone)]
pub(super) struct ReadingPlan {
    /// The number of events after which the reader leaves.
    pub(super) frames: usize,
    silence: Duration,
    waiting: Waiting,
}

impl ReadingPlan {
    /// To the end of a run.
    pub(super) fn to_the_end(rng: &mut Rng) -> Self {
        let waiting = match rng.u8(0..10) {
            0..=4 => Waiting::Decide,
            5..=7 => Waiting::Leave,
            _ => Waiting::Stay,
        };
        Self { frames: MAX_FRAMES, silence: RUN_SILENCE, waiting }
    }

    pub(super) fn part(most: usize, rng: &mut Rng) -> Self {
        Self { frames: rng.usize(1..=most), ..Self::to_the_end(rng) }
    }

    /// Of a thread's channel.
    pub(super) fn channel(most: usize, rng: &mut Rng) -> Self {
        Self { frames: rng.usize(1..=most), silence: THREAD_SILENCE, waiting: Waiting::Stay }
    }
}

/// The outcome of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// There is no more to read, or the reader has left.
    Over,
    /// The rest is still to be had.
    Broken,
}

/// A stream while it is read.
struct OpenReading {
    opened: OpenedStream,
    decoder: EventDecoder,
    ready: VecDeque<StreamedEvent>,
    reading: StreamReading,
}

enum Next {
    Frame(StreamedEvent),
    /// The server ended the body.
    Ended,
    Broken,
    Silent,
}

impl OpenReading {
    /// The next event. A node that is out of service is not waited for.
    async fn next(&mut self, silence: Duration, balancer: &Balancer) -> Next {
        let deadline = Instant::now() + silence;
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Next::Frame(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let chunk = tokio::select! {
                chunk = timeout(left, self.opened.response.chunk()) => match chunk {
                    Ok(Ok(Some(chunk))) => chunk,
                    Ok(Ok(None)) => return Next::Ended,
                    Ok(Err(_)) => return Next::Broken,
                    Err(_) => return Next::Silent,
                },
                () = balancer.give_up(self.opened.node) => return Next::Broken,
            };
            match self.decoder.feed(&chunk) {
                Ok(frames) => self.ready.extend(frames),
                Err(_) => return Next::Broken,
            }
        }
    }
}

impl Actor {
    /// Follows from after an event, and comes back after every break, until the plan or the stream is at its end.
    /// Gives the events it saw.
    pub(super) async fn follow(
        &self,
        place: &FollowedStream,
        from: Option<u64>,
        plan: &mut ReadingPlan,
        rng: &mut Rng,
    ) -> Vec<u64> {
        let Ok(_permit) = self.streams.acquire().await else { return Vec::new() };
        let (mut seen, mut after) = (Vec::new(), from);
        let (mut deadline, mut pauses) = (Instant::now() + INSISTENCE, Pauses::default());
        while Instant::now() < deadline {
            let before = seen.len();
            if self.connect(place, after, (plan, &mut seen), rng).await == Came::Over {
                break;
            }
            if seen.len() > before {
                after = seen.last().copied();
                deadline = Instant::now() + INSISTENCE;
                pauses = Pauses::default();
            }
            pauses.wait(rng).await;
        }
        seen
    }

    /// One connection.
    async fn connect(
        &self,
        place: &FollowedStream,
        after: Option<u64>,
        (plan, seen): (&mut ReadingPlan, &mut Vec<u64>),
        rng: &mut Rng,
    ) -> Came {
        let (began, start) = (self.stage.book.now(), self.stage.starts.number());
        let Some(opened) = self.open(&ClientRequest::get(place.path()).after_event(after)).await else {
            self.stage.book.note_reading(StreamReading {
                ended: self.stage.book.now(),
                ..self.new_reading(place, after, (began, start))
            });
            return Came::Broken;
        };
        let status = opened.response.status().as_u16();
        if status == 200 {
            return self.read(opened, place, (after, plan, seen), rng).await;
        }
        self.stage.book.note_reading(StreamReading {
            ended: self.stage.book.now(),
            status,
            node: Some(opened.node),
            ..self.new_reading(place, after, (began, start))
        });
        match status {
            429 | 500..=599 => Came::Broken,
            404 => {
                self.forget(place);
                Came::Over
            }
            _ => Came::Over,
        }
    }

    /// Reads an open stream for as long as planned, and continues with another if it breaks.
    pub(super) async fn read_stream(
        &self,
        opened: OpenedStream,
        run: &str,
        mut plan: ReadingPlan,
        rng: &mut Rng,
    ) -> Vec<u64> {
        let (place, mut seen) = (FollowedStream::Run(run.to_owned()), Vec::new());
        let came = self.read(opened, &place, (None, &mut plan, &mut seen), rng).await;
        if came == Came::Broken {
            let last = seen.last().copied();
            seen.extend(self.follow(&place, last, &mut plan, rng).await);
        }
        seen
    }

    async fn read(
        &self,
        opened: OpenedStream,
        place: &FollowedStream,
        (after, plan, seen): (Option<u64>, &mut ReadingPlan, &mut Vec<u64>),
        rng: &mut Rng,
    ) -> Came {
        let (status, node) = (opened.response.status().as_u16(), Some(opened.node));
        let reading = self.new_reading(place, after, (opened.began, opened.start));
        let reading = StreamReading { status, node, ..reading };
        let mut open =
            OpenReading { opened, decoder: EventDecoder::default(), ready: VecDeque::new(), reading };
        let (end, came) = self.receive(&mut open, place, plan, rng).await;
        let OpenReading { opened, mut reading, .. } = open;
        drop(opened);
        reading.ended = self.stage.book.now();
        reading.end = end;
        let places: Vec<u64> = reading.frames.iter().map(|frame| frame.seq).collect();
        if let FollowedStream::Run(run) = place {
            self.pool.learn_places(run, &places);
        }
        seen.extend(places);
        self.stage.book.note_reading(reading);
        came
    }

    async fn receive(
        &self,
        open: &mut OpenReading,
        place: &FollowedStream,
        plan: &mut ReadingPlan,
        rng: &mut Rng,
    ) -> (End, Came) {
        let mut finished = false;
        loop {
            let silence = if finished { CLOSING } else { plan.silence };
            let frame = match open.next(silence, &self.stage.balancer).await {
                Next::Frame(frame) => frame,
                // A server that stops ends its streams too; then the rest is still to be had.
                Next::Ended => return (End::Whole, came_at_end(finished)),
                Next::Broken => return (End::Cut, came_at_end(finished)),
                Next::Silent => return (End::Left, Came::Over),
            };
            self.note(open, &frame, place);
            plan.frames = plan.frames.saturating_sub(1);
            finished |= is_last(&frame, place);
            if plan.frames == 0 && !finished {
                return (End::Left, Came::Over);
            }
            if frame.event == "proposal:open" {
                plan.silence = plan.silence.min(WAITING_SILENCE);
                if !self.keeps_reading(&frame, plan.waiting, rng).await {
                    return (End::Left, Came::Over);
                }
            }
        }
    }

    fn note(&self, open: &mut OpenReading, frame: &StreamedEvent, place: &FollowedStream) {
        open.reading.first.get_or_insert(self.stage.book.now());
        if frame.event == "run:end" {
            self.stage.moments.note(Trigger::RunEnded, open.opened.node);
        }
        open.reading.frames.push(ReceivedEvent::of(frame));
        self.look_for_leaks(&place.path(), &frame.data);
    }

    /// Whether a reader who sees that a run waits continues to read.
    async fn keeps_reading(&self, frame: &StreamedEvent, waiting: Waiting, rng: &mut Rng) -> bool {
        match waiting {
            Waiting::Stay => true,
            Waiting::Leave => false,
            Waiting::Decide => {
                let data: Value = serde_json::from_slice(&frame.data).unwrap_or_default();
                if let Some(proposal) = text(&data, "proposalId") {
                    Box::pin(self.decide(&proposal, rng)).await;
                }
                true
            }
        }
    }

    /// Returns the record of a connection without an answer.
    fn new_reading(
        &self,
        place: &FollowedStream,
        after: Option<u64>,
        (began, start): (Micros, u32),
    ) -> StreamReading {
        let (run, thread) = match place {
            FollowedStream::Run(run) => (Some(run.clone()), None),
            FollowedStream::Thread(thread) => (None, Some(thread.clone())),
        };
        StreamReading {
            actor: self.number,
            user: self.user.name.clone(),
            run,
            thread,
            after,
            began,
            first: None,
            ended: began,
            status: 0,
            frames: Vec::new(),
            end: End::None,
            start,
            node: None,
        }
    }

    fn forget(&self, place: &FollowedStream) {
        match place {
            FollowedStream::Run(run) => self.pool.forget_run(run),
            FollowedStream::Thread(thread) => self.pool.forget_thread(thread),
        }
    }

    /// A whole run from its beginning, whether it is under way or long over.
    pub(super) async fn open_stream(&self, rng: &mut Rng) {
        let Some(known) = self.pool.run(rng) else { return Box::pin(self.send(rng)).await };
        self.follow(&FollowedStream::Run(known.run), None, &mut ReadingPlan::to_the_end(rng), rng).await;
    }

    /// Leaves in the middle and comes back, to the last event or an earlier one.
    pub(super) async fn drop_and_resume(&self, rng: &mut Rng) {
        const MOST_FRAMES: usize = 25;
        const MOST_DROPS: usize = 3;
        let Some(known) = self.pool.run(rng) else { return Box::pin(self.send(rng)).await };
        let (place, mut seen) = (FollowedStream::Run(known.run), known.places);
        let mut from = rng.choice(&seen).copied();
        for _ in 0..rng.usize(1..=MOST_DROPS) {
            let mut plan = ReadingPlan::part(MOST_FRAMES, rng);
            let frames = plan.frames;
            let received = self.follow(&place, from, &mut plan, rng).await;
            let (all, last) = (received.len() < frames, received.last().copied());
            seen.extend(received);
            from = if rng.bool() { last.or(from) } else { rng.choice(&seen).copied() };
            if all {
                break;
            }
        }
        self.follow(&place, from, &mut ReadingPlan::to_the_end(rng), rng).await;
    }

    /// Two connections at once to the same run, or to the channel of a thread.
    pub(super) async fn second_reader(&self, rng: &mut Rng) {
        const MOST_FRAMES: usize = 120;
        let mut other = rng.fork();
        let thread = self.pool.thread(rng).filter(|_| rng.bool());
        let run = self.pool.run(rng);
        let (place, mut plans) = match (thread, run) {
            (Some(thread), _) => {
                let plans = [ReadingPlan::channel(MOST_FRAMES, rng), ReadingPlan::channel(MOST_FRAMES, rng)];
                (FollowedStream::Thread(thread), plans)
            }
            (None, Some(known)) => {
                (FollowedStream::Run(known.run), [ReadingPlan::to_the_end(rng), ReadingPlan::to_the_end(rng)])
            }
            (None, None) => return Box::pin(self.send(rng)).await,
        };
        let [first, second] = &mut plans;
        tokio::join!(self.follow(&place, None, first, rng), self.follow(&place, None, second, &mut other));
    }
}

fn came_at_end(finished: bool) -> Came {
    if finished { Came::Over } else { Came::Broken }
}

/// Whether a run has nothing more to say after this.
fn is_last(frame: &StreamedEvent, place: &FollowedStream) -> bool {
    match (place, frame.event.as_str()) {
        (FollowedStream::Run(_), "run:end") => true,
        // In place of the log, for a reader who was further than it.
        (FollowedStream::Run(_), "snapshot") => {
            let data: Value = serde_json::from_slice(&frame.data).unwrap_or_default();
            !matches!(text(&data, "status").as_deref(), Some("queued" | "running" | "waiting"))
        }
        (FollowedStream::Run(_) | FollowedStream::Thread(_), _) => false,
    }
}
