//! How much later an answer appears at a node that does not make it: runs are read at both nodes at the same time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::node_group::{GroupLoad, NodeGroup};
use super::{MOST_NODES, SCRIPT, ScaleSize, VAULT_KEY};
use crate::streams::client::{PlainClient, PlainRequest};
use crate::streams::figures::percentile;
use crate::streams::load::{LoadThread, write_turn};
use crate::streams::servers::{ServerStart, ServerUnderTest, StreamWorld};

/// The aim for 99 of 100 events.
const AIM_MS: f64 = 150.0;
/// A run that takes longer has failed.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
const EVENT_ID: &str = "id: ";
const RUN_ID: &str = "\"runId\":\"";

/// When each event of a run arrived, by its id.
#[derive(Debug, Default)]
struct EventTimes {
    run: Option<String>,
    events: BTreeMap<u64, Instant>,
}

/// A conversation, the node that answers, and the node that is asked for the events.
struct FollowedThread<'f> {
    thread: &'f LoadThread,
    first: &'f ServerUnderTest,
    second: SocketAddr,
}

/// Follows runs at a second node while all nodes have their load, and says how late the events were there.
pub(super) async fn measure_delay(world: &StreamWorld, size: ScaleSize) -> Result<String, String> {
    let schema = world.postgres()?.next_schema(None)?;
    let users = size.clients + size.followers;
    let vault_key = Some(VAULT_KEY);
    let start = ServerStart { users, schema: Some(&schema), vault_key, ..ServerStart::default() };
    let group = NodeGroup::start(world, start, MOST_NODES, None).await?;
    group.warm_up(world, SCRIPT).await?;
    world.set_script(SCRIPT).await?;
    let threads = group.new_threads(users).await?;
    let (watched, others) = threads.split_at(size.followers.min(threads.len()));
    // One turn more, so that the load is there as long as runs are followed.
    let load = GroupLoad { script: SCRIPT, clients: others.len(), turns: size.followed_turns + 1 };
    let (_, outcomes) =
        tokio::join!(group.run(load, others, 0), follow_all(&group, watched, size.followed_turns));
    let late = world.upstream_counts().await?.late_p99_ms;
    Ok(delay_text(outcomes?, late))
}

async fn follow_all(
    group: &NodeGroup,
    threads: &[LoadThread],
    turns: usize,
) -> Result<Vec<Result<Vec<f64>, String>>, String> {
    let mut followed = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        let (first, second) = (group.node(number)?, group.node(number + 1)?.address);
        followed.push(FollowedThread { thread, first, second });
    }
    let outcomes = join_all(followed.iter().map(|followed| async move {
        let mut outcomes = Vec::new();
        for turn in 0..turns {
            let outcome = timeout(RUN_TIMEOUT, followed.delays(turn)).await;
            outcomes.push(outcome.unwrap_or_else(|_| Err("a followed run did not end in time".into())));
        }
        outcomes
    }));
    Ok(outcomes.await.into_iter().flatten().collect())
}

impl FollowedThread<'_> {
    /// How many milliseconds later each event came from the second node. Events that were there before it was asked do not
    /// count.
    async fn delays(&self, turn: usize) -> Result<Vec<f64>, String> {
        let mut client = PlainClient::new(self.first.address);
        let key = self.thread.key.as_deref();
        let (path, body) = write_turn(self.first.kind, self.thread, turn);
        let status = client.send(&PlainRequest::json("POST", path, key, &body)).await?;
        if status != 200 {
            return Err(client.read_refusal(status).await);
        }
        let (mut own, mut received) = (EventTimes::default(), Vec::new());
        let run = loop {
            if let Some(run) = &own.run {
                break run.clone();
            }
            own.read_piece(&mut client, &mut received).await?.then_some(()).ok_or("the run has no id")?;
        };
        let rest = async {
            while own.read_piece(&mut client, &mut received).await? {}
            Ok::<EventTimes, String>(own)
        };
        let (own, other) = tokio::join!(rest, read_run(self.second, &run, key));
        let (own, (opened, other)) = (own?, other?);
        let late = own.events.iter().filter(|(_, at)| **at > opened).map(|(id, at)| {
            let there = other.events.get(id).ok_or("an event is missing at the second node")?;
            Ok::<f64, String>(signed_ms(*there, *at))
        });
        late.collect()
    }
}

/// Reads a run to its end, and says when the answer began.
async fn read_run(
    address: SocketAddr,
    run: &str,
    key: Option<&str>,
) -> Result<(Instant, EventTimes), String> {
    let mut client = PlainClient::new(address);
    let path = format!("/v1/runs/{run}/events");
    let status = client.send(&PlainRequest::json("GET", &path, key, "")).await?;
    if status != 200 {
        return Err(client.read_refusal(status).await);
    }
    let (opened, mut times, mut received) = (Instant::now(), EventTimes::default(), Vec::new());
    while times.read_piece(&mut client, &mut received).await? {}
    Ok((opened, times))
}

impl EventTimes {
    /// Reads what comes next; false at the end.
    async fn read_piece(&mut self, client: &mut PlainClient, received: &mut Vec<u8>) -> Result<bool, String> {
        let is_more = client.next_piece(received).await?;
        self.take(received, Instant::now());
        Ok(is_more)
    }

    /// Takes all complete lines from the front of what was received by now.
    fn take(&mut self, received: &mut Vec<u8>, now: Instant) {
        let Some(end) = memchr::memrchr(b'\n', received) else { return };
        let lines: Vec<u8> = received.drain(..=end).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            if let Some(id) = line.strip_prefix(EVENT_ID).and_then(|id| id.parse().ok()) {
                self.events.entry(id).or_insert(now);
            } else if self.run.is_none() {
                let rest = line.split_once(RUN_ID).map(|(_, rest)| rest);
                self.run = rest.and_then(|rest| rest.split('"').next()).map(str::to_owned);
            }
        }
    }
}

fn signed_ms(later: Instant, earlier: Instant) -> f64 {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    ms(later.saturating_duration_since(earlier)) - ms(earlier.saturating_duration_since(later))
}

fn delay_text(outcomes: Vec<Result<Vec<f64>, String>>, late_ms: f64) -> String {
    let (mut delays, mut failures) = (Vec::new(), BTreeMap::<String, usize>::new());
    let runs = outcomes.len();
    for outcome in outcomes {
        match outcome {
            Ok(run) => delays.extend(run),
            Err(why) => *failures.entry(why).or_default() += 1,
        }
    }
    let mut text = format!("\n{runs} runs were read at two of {MOST_NODES} nodes while all had their load\n");
    let [half, most] = [0.5, 0.99].map(|share| percentile(&mut delays, share).unwrap_or(f64::NAN));
    let verdict = if most <= AIM_MS { "met" } else { "NOT MET" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "  {} events came later at the other node: p50 {half:.1} ms, p99 {most:.1} ms (upstream late p99 {late_ms:.1} ms)",
        delays.len()
    );
    let _ = writeln!(text, "  aim {verdict}: p99 at most {AIM_MS} ms");
    for (why, times) in failures {
        let _ = writeln!(text, "  failed {times} times: {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_the_run_are_read_from_complete_lines() {
        let (mut times, now) = (EventTimes::default(), Instant::now());
        let mut received = b"event: run:start\nid: 2\ndata: {\"runId\":\"run_1\"}\n\nid: 3".to_vec();
        times.take(&mut received, now);
        assert_eq!(times.run.as_deref(), Some("run_1"));
        assert_eq!(times.events.keys().copied().collect::<Vec<_>>(), [2]);
        received.extend_from_slice(b"4\n");
        times.take(&mut received, now);
        assert_eq!(times.events.keys().copied().collect::<Vec<_>>(), [2, 34]);
    }

    #[test]
    fn a_delay_has_a_sign() {
        let now = Instant::now();
        let later = now + Duration::from_millis(20);
        assert!((signed_ms(later, now) - 20.0).abs() < 1e-6);
        assert!((signed_ms(now, later) + 20.0).abs() < 1e-6);
    }
}
