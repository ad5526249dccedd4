//! Times at which this process itself was held up. Requests that reached the model or a tool then were noted later than
//! they arrived.

use std::time::Duration;

use crate::record::{Book, Micros, Stall};

/// The time between two ticks of the watch.
const TICK: Duration = Duration::from_millis(10);

/// A tick that comes this many microseconds late says that the process was held up.
const LATE: Micros = 5_000;

/// Notes every stall, until it is dropped.
pub(crate) async fn watch(book: Book) {
    loop {
        let due = book.now() + u64::try_from(TICK.as_micros()).unwrap_or(0);
        tokio::time::sleep(TICK).await;
        let now = book.now();
        if now > due + LATE {
            book.note_stall(Stall { from: due, until: now });
        }
    }
}

/// The microseconds between two times during which the process was held up.
pub(crate) fn held_up(stalls: &[Stall], from: Micros, until: Micros) -> Micros {
    let within = |stall: &Stall| stall.until.min(until).saturating_sub(stall.from.max(from));
    stalls.iter().map(within).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_times_counts() {
        let stalls = [Stall { from: 10, until: 30 }, Stall { from: 50, until: 60 }];
        assert_eq!(held_up(&stalls, 0, 100), 30);
        assert_eq!(held_up(&stalls, 20, 55), 15);
        assert_eq!(held_up(&stalls, 30, 50), 0);
        assert_eq!(held_up(&stalls, 60, 50), 0, "the other way round there is no time");
    }
}
