//! A few threads that compute together, many thousand times a second.
//!
//! A step of a model is hundreds of short jobs, one after the other. So the threads wait for the next job awake for a
//! moment before they sleep. On a busy machine the system sets threads aside for longer than many jobs take; so they take
//! pieces one by one, and one that has not begun by the time all pieces are taken is not waited for.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How often a thread looks for the next job before it sleeps: some ten microseconds.
const LOOKS_BEFORE_SLEEP: usize = 2_000;
/// More threads wait for memory and for each other.
const MAX_THREADS: usize = 16;
/// Set while threads may join a round. The other bits count those that are at work.
const OPEN: usize = 1 << (usize::BITS - 1);

type Job<'a> = dyn Fn(usize) + Sync + 'a;

struct Shared {
    /// The job of this round. Written only while the round is not open and no thread is at work.
    job: UnsafeCell<Option<&'static Job<'static>>>,
    pieces: AtomicUsize,
    next: AtomicUsize,
    round: AtomicUsize,
    state: AtomicUsize,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written by the owner of the pool alone, while `state` is 0, and read by threads only between joining
// an open round, which acquires what its opening released, and leaving it. Everything else is made for sharing.
unsafe impl Sync for Shared {}
// SAFETY: the job may be called from any thread, because it is `Sync`.
unsafe impl Send for Shared {}

/// Ends its threads with itself.
pub struct KernelPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl KernelPool {
    /// A pool of this many threads, of which the one that calls is the first.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            pieces: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            state: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let mut pool = Self { shared, threads: Vec::new() };
        for index in 1..threads.min(MAX_THREADS) {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("local-{index}"));
            pool.threads.push(builder.spawn(move || shared.serve())?);
        }
        Ok(pool)
    }

    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls the job once for each piece, on all threads, and comes back when all of them are done.
    pub fn run(&mut self, pieces: usize, job: &Job<'_>) {
        if self.threads.is_empty() || pieces < 2 {
            (0..pieces).for_each(job);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: `state` is 0, as the last round left it. The reference is gone from `job` before this function
        // returns, however it returns: `close` removes it when no thread is at work any more.
        unsafe { *shared.job.get() = Some(std::mem::transmute::<&Job<'_>, &'static Job<'static>>(job)) };
        shared.pieces.store(pieces, Ordering::Relaxed);
        shared.next.store(0, Ordering::Relaxed);
        shared.state.store(OPEN, Ordering::Release);
        shared.round.fetch_add(1, Ordering::Release);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        let own = catch_unwind(AssertUnwindSafe(|| shared.work(job)));
        shared.close();
        let theirs = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = own.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// Hands each chunk of `size` items to one call of the job.
    pub fn run_each<T: Send>(&mut self, items: &mut [T], size: usize, job: impl Fn(usize, &mut [T]) + Sync) {
        let length = items.len();
        let shared = Disjoint::new(items);
        self.run(length.div_ceil(size.max(1)), &|piece| {
            let start = piece * size;
            // SAFETY: pieces are handed out once each, and their ranges do not overlap.
            job(piece, unsafe { shared.range(start, size.min(length - start)) });
        });
    }
}

impl Drop for KernelPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.round.fetch_add(1, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // The caller that gave the job has got a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let mut seen = 0;
        loop {
            seen = self.next_round(seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let join = |state| (state & OPEN != 0).then_some(state + 1);
            if self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, join).is_ok() {
                self.take_part();
            }
        }
    }

    fn take_part(&self) {
        // SAFETY: this thread has joined the open round, and the job is not written again before it leaves.
        let job = unsafe { *self.job.get() };
        let done = catch_unwind(AssertUnwindSafe(|| job.map(|job| self.work(job))));
        if let Err(panic) = done {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
    }

    fn next_round(&self, seen: usize) -> usize {
        let mut looks = 0;
        loop {
            let round = self.round.load(Ordering::Acquire);
            if round != seen {
                return round;
            }
            looks += 1;
            if looks < LOOKS_BEFORE_SLEEP {
                std::hint::spin_loop();
            } else {
                thread::park();
            }
        }
    }

    fn work(&self, job: &Job<'_>) {
        let pieces = self.pieces.load(Ordering::Relaxed);
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return;
            }
            job(piece);
        }
    }

    /// Lets no more threads join, and waits for the threads that have joined.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut looks = 0;
        while self.state.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < LOOKS_BEFORE_SLEEP {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        // SAFETY: no thread is at work.
        unsafe { *self.job.get() = None };
    }
}

/// A slice of which several threads write different parts.
pub(super) struct Disjoint<'a, T> {
    start: *mut T,
    length: usize,
    slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out parts, and the caller that asks for one promises that no other has it.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), slice: std::marker::PhantomData }
    }

    /// The part, or nothing at all if the slice does not reach that far.
    ///
    /// # Safety
    /// No two parts that are in use at the same time may overlap.
    #[expect(clippy::mut_from_ref, reason = "that is the point; the caller keeps the parts apart")]
    pub(super) unsafe fn range(&self, start: usize, length: usize) -> &mut [T] {
        if start.checked_add(length).is_none_or(|end| end > self.length) {
            return &mut [];
        }
        // SAFETY: the range is inside the slice, which is borrowed for as long as this value lives, and by the promise
        // of the caller no other part in use overlaps it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}
