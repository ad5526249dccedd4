//! The seam between the log and live events, in every order in which the steps of a writer and of a reader can fall.
//!
//! A schedule is a list of choices: who moves next, and whether the reader drops what it waits for. Nothing else is left
//! to chance, so all schedules are tried one after the other, and one that fails can be tried again. The readers that
//! are wrong on purpose are in `mistakes`: the search must find each of them out.

mod mistakes;
mod slow;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use async_trait::async_trait;
use store::{MAX_BYTES_PER_READ, Publish, RawEvent};
use uuid::Uuid;

use super::*;
use crate::live::bus::Bus;

/// Schedules of one case, far above what the cases here have: a search that does not end is a mistake in the search.
const MAX_SCHEDULES: usize = 2_000_000;

/// Moves of one schedule: a reader that goes round in circles is found out here.
const MAX_MOVES: usize = 200;

/// The ring holds one of these and not two, and none of the others.
const LARGE_BYTES: usize = 5 * MAX_BYTES_PER_READ;
const HUGE_BYTES: usize = 9 * MAX_BYTES_PER_READ;

fn thread() -> ThreadId {
    ThreadId::new(Uuid::nil())
}

fn ours() -> RunId {
    RunId::new(Uuid::from_u128(1))
}

fn theirs() -> RunId {
    RunId::new(Uuid::from_u128(2))
}

/// The choices of one schedule, and so the way to the next.
#[derive(Default)]
struct Choices {
    /// The choices that were made, each with the number of possible ones.
    taken: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.taken.len() {
            self.taken.push((0, of));
        }
        let (chosen, had) = self.taken[self.at];
        assert_eq!(had, of, "the same choices lead to the same place");
        self.at += 1;
        chosen
    }

    /// Changes the last choice that had another way to go. False when all have been gone.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, of)) = self.taken.pop() {
            if chosen + 1 < of {
                self.taken.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// Is pending once: the place where others may move.
#[derive(Default)]
struct Pause {
    passed: bool,
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.passed, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The events that have been committed, read as a database is: at one moment, which is neither when it was asked
/// nor when it answers.
#[derive(Default)]
struct Committed {
    events: Mutex<Vec<Arc<Stored>>>,
    per_read: usize,
}

impl Committed {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Stored>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EventLog for Committed {
    async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, store::Error> {
        Pause::default().await;
        let wanted = |event: &&Arc<Stored>| event.thread == thread && event.seq > after && is_of(event, run);
        let found = self.lock().iter().filter(wanted).take(self.per_read).cloned().collect();
        Pause::default().await;
        Ok(found)
    }

    async fn facts(&self, _: RunId) -> Result<Vec<RawEvent>, store::Error> {
        Ok(Vec::new())
    }
}

fn is_of(event: &Stored, run: Option<RunId>) -> bool {
    run.is_none() || event.run == run
}

/// Whether the reader was told that it may go on.
#[derive(Default)]
struct Told(AtomicBool);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether the thread is deleted at some moment, and what is then still in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Never,
    LogStays,
    LogIsPurged,
}

/// The events that are written, and the part of them that a reader wants.
#[derive(Debug, Clone)]
struct Case {
    /// Each is committed at once and then published at once.
    batches: Vec<Vec<Arc<Stored>>>,
    run: Option<RunId>,
    after: Seq,
    /// Events the log gives at most in one read.
    per_read: usize,
    closing: Closing,
    /// Times the reader may drop what it waits for and ask anew.
    drops: usize,
    /// The number of looks that no notification caused.
    needless_looks: usize,
    /// Whether another reader has followed the thread from the beginning, so that the ring is there before the reader.
    company: bool,
}

impl Case {
    /// The events that a reader gets: the log after its cursor, as far as it is for it.
    fn expected(&self) -> Vec<Arc<Stored>> {
        let all = self.batches.iter().flatten();
        all.filter(|event| event.seq > self.after && is_of(event, self.run)).cloned().collect()
    }
}

/// The writer's side: each batch is committed, then published; or the thread is deleted.
struct Writer<'a> {
    case: &'a Case,
    log: Arc<Committed>,
    bus: Arc<Bus>,
    /// How many commits and publications have been made.
    made: usize,
    /// Whether there is a reader. A reader that looks for a thread that is gone is refused before.
    is_read: bool,
    closed: bool,
}

impl Writer<'_> {
    fn can_write(&self) -> bool {
        !self.closed && self.made < 2 * self.case.batches.len()
    }

    fn write(&mut self) {
        let batch = &self.case.batches[self.made / 2];
        if self.made.is_multiple_of(2) {
            self.log.lock().extend(batch.iter().cloned());
        } else {
            self.bus.publish(batch);
        }
        self.made += 1;
    }

    fn can_close(&self) -> bool {
        self.is_read && !self.closed && self.case.closing != Closing::Never
    }

    fn close(&mut self) {
        if self.case.closing == Closing::LogIsPurged {
            self.log.lock().clear();
        }
        self.bus.close(thread());
        self.closed = true;
    }
}

/// A reader under test, correct or with a planted mistake.
trait Reading {
    fn begin(log: &Arc<Committed>, bus: &Arc<Bus>, case: &Case) -> Self;
    fn next(&mut self) -> impl Future<Output = Option<Vec<Arc<Stored>>>>;
}

impl Reading for Follower {
    fn begin(log: &Arc<Committed>, bus: &Arc<Bus>, case: &Case) -> Self {
        let log = Arc::clone(log) as Arc<dyn EventLog>;
        Follower::new(log, bus.subscribe(thread()), (thread(), case.run), case.after)
    }

    async fn next(&mut self) -> Option<Vec<Arc<Stored>>> {
        Follower::next(self).await.expect("the log can be read")
    }
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Write,
    Close,
    /// The reader begins, or is polled.
    Read,
    /// The reader drops what it waits for and asks anew.
    Drop,
}

/// One schedule. An error says what a reader would have noticed.
struct Schedule<'a> {
    choices: &'a mut Choices,
    writer: Writer<'a>,
    told: Arc<Told>,
    expected: &'a [Arc<Stored>],
    got: usize,
    ended: bool,
    drops: usize,
    needless_looks: usize,
    moves: usize,
}

impl Schedule<'_> {
    /// Lets the chosen party move. None when no party can. `waits` says that the reader was polled and is pending.
    fn choose(&mut self, waits: bool) -> Result<Option<Move>, String> {
        self.moves += 1;
        if self.moves > MAX_MOVES {
            return Err("the reader goes round in circles".into());
        }
        let told = self.told.0.load(Ordering::Acquire);
        let mut can = Vec::with_capacity(4);
        if self.writer.can_write() {
            can.push(Move::Write);
        }
        if self.writer.can_close() {
            can.push(Move::Close);
        }
        if told || self.needless_looks > 0 && self.writer.can_write() {
            can.push(Move::Read);
        }
        if waits && self.drops > 0 {
            can.push(Move::Drop);
        }
        if can.is_empty() {
            return Ok(None);
        }
        let chosen = can[self.choices.choose(can.len())];
        match chosen {
            Move::Write => self.writer.write(),
            Move::Close => self.writer.close(),
            Move::Read if told => {}
            Move::Read => self.needless_looks -= 1,
            Move::Drop => self.drops -= 1,
        }
        Ok(Some(chosen))
    }

    fn take(&mut self, events: Option<Vec<Arc<Stored>>>) -> Result<(), String> {
        let Some(events) = events else {
            self.ended = true;
            return Ok(());
        };
        if self.ended {
            return Err("something came after the end".into());
        }
        if events.is_empty() {
            return Err("nothing was given out as something".into());
        }
        for event in events {
            let due = self.expected.get(self.got);
            if due.map(|due| due.seq) != Some(event.seq) {
                return Err(format!("{} came where {:?} was due", event.seq, due.map(|due| due.seq)));
            }
            self.got += 1;
        }
        Ok(())
    }

    /// Checks the conditions that hold once no party can move any more.
    fn check(&self) -> Result<(), String> {
        let run_ended = self.expected.last().is_some_and(|event| event.kind == Kind::RunEnd.name());
        let must_end = self.writer.closed || self.writer.case.run.is_some() && run_ended;
        if !self.writer.closed && self.got < self.expected.len() {
            return Err(format!("{} of {} came, and then nothing", self.got, self.expected.len()));
        }
        if self.ended != must_end {
            return Err(format!("it ended: {}, and should have: {must_end}", self.ended));
        }
        Ok(())
    }

    fn follow<R: Reading>(&mut self) -> Result<(), String> {
        let waker = Waker::from(Arc::clone(&self.told));
        let mut cx = Context::from_waker(&waker);
        self.told.0.store(true, Ordering::Release);
        while !matches!(self.choose(false)?, Some(Move::Read)) {} // what happens before it begins
        self.writer.is_read = true;
        let mut reader = R::begin(&self.writer.log, &self.writer.bus, self.writer.case);
        while !self.ended {
            let mut next = pin!(reader.next());
            let mut waits = false;
            self.told.0.store(true, Ordering::Release);
            loop {
                match self.choose(waits)? {
                    Some(Move::Write | Move::Close) => continue,
                    Some(Move::Read) => {}
                    Some(Move::Drop) => break,
                    None => return self.check(),
                }
                self.told.0.store(false, Ordering::Release);
                match next.as_mut().poll(&mut cx) {
                    Poll::Ready(events) => {
                        self.take(events)?;
                        break;
                    }
                    Poll::Pending => waits = true,
                }
            }
        }
        let again = pin!(reader.next()).poll(&mut cx);
        if again != Poll::Ready(None) {
            return Err("it ended, and then did not".into());
        }
        self.check()
    }
}

/// Tries every schedule. Gives how many there were, or what was wrong with which.
fn search<R: Reading>(case: &Case) -> Result<usize, String> {
    let expected = case.expected();
    let mut choices = Choices::default();
    for tried in 1..=MAX_SCHEDULES {
        let log = Arc::new(Committed { per_read: case.per_read, ..Committed::default() });
        let bus = Arc::new(Bus::default());
        let _company = case.company.then(|| bus.subscribe(thread()));
        let writer = Writer { case, log, bus, made: 0, is_read: false, closed: false };
        let mut schedule = Schedule {
            choices: &mut choices,
            writer,
            told: Arc::default(),
            expected: &expected,
            got: 0,
            ended: false,
            drops: case.drops,
            needless_looks: case.needless_looks,
            moves: 0,
        };
        if let Err(wrong) = schedule.follow::<R>() {
            return Err(format!("{wrong}; schedule {tried}: {:?}", choices.taken));
        }
        if !choices.next() {
            return Ok(tried);
        }
    }
    Err("the search does not end".into())
}

fn event(seq: Seq, run: Option<RunId>, kind: Kind, bytes: usize) -> Arc<Stored> {
    let body = "x".repeat(bytes).into();
    Arc::new(Stored { thread: thread(), seq, run, kind: Cow::Borrowed(kind.name()), body })
}

fn delta(seq: Seq, run: RunId) -> Arc<Stored> {
    event(seq, Some(run), Kind::TextDelta, 4)
}

fn end(seq: Seq, run: RunId) -> Arc<Stored> {
    event(seq, Some(run), Kind::RunEnd, 4)
}

/// Two runs, one after the other, and what is the thread's own; ours ends before the last batch.
fn two_runs() -> Vec<Vec<Arc<Stored>>> {
    vec![
        vec![delta(1, theirs())],
        vec![end(2, theirs()), delta(3, ours())],
        vec![end(4, ours())],
        vec![event(5, None, Kind::ThreadNamed, 4)],
    ]
}

fn case(batches: Vec<Vec<Arc<Stored>>>, run: Option<RunId>, after: Seq) -> Case {
    Case {
        batches,
        run,
        after,
        per_read: 512,
        closing: Closing::Never,
        drops: 0,
        needless_looks: 0,
        company: false,
    }
}

/// Searches all of them, and prints how many schedules that were.
fn search_all(cases: impl IntoIterator<Item = Case>) -> usize {
    let mut schedules = 0;
    for case in cases {
        match search::<Follower>(&case) {
            Ok(tried) => schedules += tried,
            Err(wrong) => panic!("{wrong}\n{:?}, after {}, {:?}", case.run, case.after, case.closing),
        }
    }
    println!("{schedules} schedules");
    schedules
}

fn readers() -> [Option<RunId>; 3] {
    [None, Some(ours()), Some(theirs())]
}

#[test]
fn a_reader_gets_the_log_once_and_in_order_wherever_it_begins() {
    let of = |run| (0..=5).map(move |after| case(two_runs(), run, after));
    assert!(search_all(readers().into_iter().flat_map(of)) > 100_000);
}

#[test]
fn a_log_that_is_read_in_pieces_and_a_ring_that_was_there_before_make_no_difference() {
    let of = |run| Case { per_read: 1, company: true, ..case(two_runs().split_off(1), run, 0) };
    assert!(search_all(readers().map(of)) > 20_000);
}

#[test]
fn a_reader_may_drop_what_it_waits_for_at_any_moment() {
    let last = |count| two_runs().split_off(two_runs().len() - count);
    let often = |run| Case { drops: 2, ..case(last(2), run, 0) };
    let once = |run| Case { drops: 1, ..case(last(3), run, 0) };
    assert!(search_all(readers().map(often).into_iter().chain(readers().map(once))) > 100_000);
}

#[test]
fn looking_without_having_been_told_changes_nothing() {
    let of = |run| Case { needless_looks: 2, company: true, ..case(two_runs(), run, 0) };
    assert!(search_all(readers().map(of)) > 100_000);
}

/// Some events push others out of the ring, and one is larger than all of it.
#[test]
fn what_the_ring_cannot_hold_is_read_from_the_log() {
    let large = |seq, run| event(seq, Some(run), Kind::StepEnd, LARGE_BYTES);
    let huge = |seq, run| event(seq, Some(run), Kind::StepEnd, HUGE_BYTES);
    let batches = vec![
        vec![delta(1, ours()), large(2, theirs())],
        vec![large(3, ours())],
        vec![huge(4, theirs())],
        vec![delta(5, theirs()), end(6, ours())],
    ];
    let late = |run| [1, 2].map(|after| case(batches.clone(), run, after));
    let whole = |run| case(batches[..3].to_vec(), run, 0);
    let late = readers().into_iter().flat_map(late);
    assert!(search_all(late.chain(readers().map(whole))) > 50_000);
}

/// After a power failure numbers are left out, so that none is given twice.
#[test]
fn numbers_that_were_left_out_are_not_waited_for() {
    let batches = vec![
        vec![delta(1, ours())],
        vec![delta(1_002, theirs())],
        vec![delta(1_003, ours()), event(2_000, None, Kind::Summary, 4)],
        vec![end(3_000, ours())],
    ];
    let of = |run| {
        let after = [0, 1, 500, 1_002, 2_999];
        after.map(|after| Case { company: after > 1, ..case(batches.clone(), run, after) })
    };
    assert!(search_all(readers().into_iter().flat_map(of)) > 100_000);
}

/// Also those who are far behind.
#[test]
fn a_deleted_thread_ends_its_readers_at_any_moment() {
    let large = |seq| event(seq, Some(ours()), Kind::StepEnd, LARGE_BYTES);
    let slow = vec![vec![large(1)], vec![large(2), large(3)]];
    let small = two_runs().split_off(2);
    let of = |closing| {
        let each = |batches: &Vec<_>| {
            let drops = |drops| Case { closing, drops, ..case(batches.clone(), None, 0) };
            let ours = Case { closing, ..case(batches.clone(), Some(ours()), 0) };
            [drops(0), drops(1), ours]
        };
        [each(&small), each(&slow)].into_iter().flatten()
    };
    let both = [Closing::LogStays, Closing::LogIsPurged];
    assert!(search_all(both.into_iter().flat_map(of)) > 50_000);
}

#[test]
fn a_snapshot_comes_first_and_is_given_out_once() {
    struct WithSnapshot(Follower);
    impl Reading for WithSnapshot {
        fn begin(log: &Arc<Committed>, bus: &Arc<Bus>, case: &Case) -> Self {
            let first = delta(1, ours());
            let reader = Follower::begin(log, bus, &Case { after: 1, ..case.clone() });
            Self(reader.beginning_with(Stored::clone(&first), false))
        }
        async fn next(&mut self) -> Option<Vec<Arc<Stored>>> {
            Reading::next(&mut self.0).await
        }
    }
    let batches = vec![vec![delta(1, ours())], vec![delta(2, ours())], vec![end(3, ours())]];
    let tried = search::<WithSnapshot>(&Case { drops: 1, ..case(batches, Some(ours()), 0) });
    assert!(tried.expect("no schedule is wrong") > 10_000);
}

#[tokio::test]
async fn a_reader_who_listens_from_before_the_first_event_needs_no_log() {
    let bus = Arc::new(Bus::default());
    let empty: Arc<dyn EventLog> = Arc::new(Committed::default());
    let subscription = bus.subscribe(thread());
    bus.publish(&[delta(6, theirs()), end(7, theirs())]);
    bus.publish(&[event(8, Some(ours()), Kind::RunStart, 4), delta(9, ours())]);
    let mut follower = Follower::new(empty, subscription, (thread(), Some(ours())), 7).already_live();
    bus.publish(&[end(10, ours())]);
    let mut seqs = Vec::new();
    while let Some(events) = follower.next().await.unwrap() {
        seqs.extend(events.iter().map(|event| event.seq));
    }
    assert_eq!(seqs, [8, 9, 10]);
}
