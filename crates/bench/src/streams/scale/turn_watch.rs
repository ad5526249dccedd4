//! How long the turn of commits is taken. A transaction that writes has a number of its own in PostgreSQL, and one that
//! waits for the turn waits for a lock. A session of PostgreSQL looks at the others again and again, and counts.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::streams::postgres::BenchPostgres;

/// Looks per second: few, because each costs PostgreSQL processor time.
const LOOKS_PER_SECOND: f64 = 20.0;
/// The word before the counts.
const MARK: &str = "turns: ";

/// The session, which ends by itself.
pub(super) struct TurnWatch {
    psql: Child,
}

/// The shares that were observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TurnShare {
    /// The part of the time in which a node had the turn, in percent.
    pub(super) taken_percent: f64,
    /// How many waited for it.
    pub(super) waiting: f64,
}

impl TurnWatch {
    /// Starts to watch after `after`, and watches for `length`.
    pub(super) fn start(postgres: &BenchPostgres, after: Duration, length: Duration) -> Result<Self, String> {
        let mut psql = postgres.psql(&statement(after, length));
        let psql = psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Ok(Self { psql: psql.map_err(|error| format!("cannot start psql: {error}"))? })
    }

    /// Waits for the end and gives the counts.
    pub(super) fn finish(self) -> Result<TurnShare, String> {
        let output = self.psql.wait_with_output().map_err(|error| format!("psql is lost: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        read_counts(&said).ok_or_else(|| format!("PostgreSQL counted no turns: {said}"))
    }
}

fn statement(after: Duration, length: Duration) -> String {
    let looks = (length.as_secs_f64() * LOOKS_PER_SECOND).max(1.0) as u64;
    let (first, pause) = (after.as_secs_f64(), 1.0 / LOOKS_PER_SECOND);
    format!(
        "DO $$ DECLARE looks bigint := {looks}; taken bigint := 0; waiting bigint := 0; t bigint; w bigint;
        BEGIN
            PERFORM pg_sleep({first});
            FOR look IN 1..looks LOOP
                PERFORM pg_stat_clear_snapshot();
                SELECT count(*) FILTER (WHERE wait_event_type IS DISTINCT FROM 'Lock'),
                        count(*) FILTER (WHERE wait_event_type = 'Lock')
                    INTO t, w FROM pg_stat_activity
                    WHERE usename = 'rondo' AND backend_xid IS NOT NULL AND pid <> pg_backend_pid();
                taken := taken + least(t, 1);
                waiting := waiting + w;
                PERFORM pg_sleep({pause});
            END LOOP;
            RAISE NOTICE '{MARK}% % %', looks, taken, waiting;
        END $$"
    )
}

fn read_counts(said: &str) -> Option<TurnShare> {
    let (_, counts) = said.split_once(MARK)?;
    let counts: Vec<f64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
    match counts.as_slice() {
        [looks, taken, waiting] if *looks > 0.0 => {
            Some(TurnShare { taken_percent: taken / looks * 100.0, waiting: waiting / looks })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_a_notice() {
        let share = read_counts("NOTICE:  turns: 200 50 20\n");
        assert_eq!(share, Some(TurnShare { taken_percent: 25.0, waiting: 0.1 }));
        assert_eq!(read_counts("ERROR:  no"), None);
    }
}
