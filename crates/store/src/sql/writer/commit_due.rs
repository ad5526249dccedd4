//! The rhythm of commits: how long the writer waits for more commands before the next one.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Command, MAX_BATCH};

/// The number of works in a commit from which on the writer keeps a distance to the next commit with works, so that more
/// works share it. After a commit with one or two, a work never waits.
pub(super) const CROWD: usize = 3;

/// The pause between two commits of deltas, divided by this, is the distance between a commit of many works and the next.
const CROWD_PAUSE_PART: u32 = 5;

/// The longest such distance.
pub(super) const MAX_CROWD_PAUSE: Duration = Duration::from_millis(2);

/// The earliest moments of the next commit. None means at once.
#[derive(Default)]
pub(super) struct CommitDue {
    /// The moment for a commit that has deltas only.
    pub(super) deltas: Option<Instant>,
    /// The moment for a commit that has works.
    pub(super) works: Option<Instant>,
}

impl CommitDue {
    /// Sets the moments after a commit of `works` works, and perhaps of deltas.
    pub(super) fn note_commit(&mut self, works: usize, has_deltas: bool, delta_pause: Duration) {
        let now = Instant::now();
        if has_deltas {
            self.deltas = Some(now + delta_pause);
        }
        if works > 0 {
            self.works = (works >= CROWD).then(|| now + crowd_pause(delta_pause));
        }
    }

    /// Takes the commands that are there, and waits for more until the commit is due.
    pub(super) fn gather(&self, commands: &Receiver<Command>, waiting: &mut Vec<Command>) {
        loop {
            let mut is_open = true;
            while waiting.len() < MAX_BATCH {
                match commands.try_recv() {
                    Ok(command) => waiting.push(command),
                    Err(error) => {
                        is_open = error == TryRecvError::Empty;
                        break;
                    }
                }
            }
            let is_urgent = waiting.iter().any(Command::is_work);
            let due = if is_urgent { self.works } else { self.deltas };
            let left = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
            if !is_open || waiting.len() >= MAX_BATCH || left.is_zero() {
                return;
            }
            if is_urgent {
                thread::sleep(left); // each new work would end a park
            } else {
                thread::park_timeout(left);
            }
        }
    }
}

pub(super) fn crowd_pause(delta_pause: Duration) -> Duration {
    (delta_pause / CROWD_PAUSE_PART).min(MAX_CROWD_PAUSE)
}
