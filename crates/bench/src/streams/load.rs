//! The load generator: many clients, each of which sends its turns one after another and checks every answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::answer_reader::{AnswerReader, TurnTimes};
use super::client::{PlainClient, PlainRequest};
use super::floor;
use super::upstream::STEP_PATH;

/// A turn that takes longer has failed.
const TURN_TIMEOUT: Duration = Duration::from_secs(120);
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// Which server is asked, and with it the form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    Rondo,
    /// Rondo on PostgreSQL.
    RondoPostgres,
    Floor,
    Proxy,
}

impl ServerKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rondo => "rondo",
            Self::RondoPostgres => "rondo-postgres",
            Self::Floor => "floor",
            Self::Proxy => "proxy",
        }
    }

    /// Whether it is the server of this repository, on whichever database.
    pub(super) const fn is_rondo(self) -> bool {
        match self {
            Self::Rondo | Self::RondoPostgres => true,
            Self::Floor | Self::Proxy => false,
        }
    }
}

/// One conversation, and the key of its user if the server asks for keys.
#[derive(Debug, Clone)]
pub(super) struct LoadThread {
    /// Without an id, the server makes a new thread for the message.
    pub(super) id: Option<String>,
    pub(super) key: Option<Rc<str>>,
}

/// The server that turns go to, and the number of tokens in each answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadTarget {
    pub(super) kind: ServerKind,
    pub(super) address: SocketAddr,
    pub(super) tokens: usize,
    /// The upstream, if it is to be told of each token that has come.
    pub(super) in_step_with: Option<SocketAddr>,
}

/// How turns are spread over clients and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadPlan {
    pub(super) clients: usize,
    pub(super) turns_per_thread: usize,
    /// The time over which the clients begin, one after another.
    pub(super) arrival: Duration,
    /// After this time no turn begins.
    pub(super) limit: Duration,
}

/// How all turns went.
#[derive(Debug, Default)]
pub(super) struct LoadResult {
    pub(super) turns: Vec<TurnTimes>,
    pub(super) failures: BTreeMap<String, usize>,
}

/// Sends turns to all threads. The threads are dealt to the clients in turn.
pub(super) async fn run_load(target: LoadTarget, threads: &[LoadThread], plan: LoadPlan) -> LoadResult {
    let result: Rc<RefCell<LoadResult>> = Rc::default();
    let (clients, begun) = (TaskTracker::new(), Instant::now());
    for number in 0..plan.clients {
        let own: Vec<LoadThread> = threads.iter().skip(number).step_by(plan.clients).cloned().collect();
        let result = result.clone();
        clients.spawn_local(async move {
            sleep(plan.arrival.mul_f64(number as f64 / plan.clients as f64)).await;
            let mut client = PlainClient::new(target.address);
            let turns =
                own.iter().flat_map(|thread| (0..plan.turns_per_thread).map(move |turn| (thread, turn)));
            for (thread, turn) in turns {
                if begun.elapsed() >= plan.limit {
                    return;
                }
                let outcome = run_turn(&mut client, target, thread, turn).await;
                result.borrow_mut().add(outcome);
            }
        });
    }
    clients.close();
    clients.wait().await;
    result.take()
}

impl LoadResult {
    /// Adds the turns of another load that ran at the same time.
    pub(super) fn join(&mut self, other: Self) {
        self.turns.extend(other.turns);
        for (why, times) in other.failures {
            *self.failures.entry(why).or_default() += times;
        }
    }

    pub(super) fn add(&mut self, outcome: Result<TurnTimes, String>) {
        match outcome {
            Ok(times) => self.turns.push(times),
            Err(why) => *self.failures.entry(without_ids(&why)).or_default() += 1,
        }
    }
}

/// A reason without the ids in it, so that equal failures are counted together.
fn without_ids(why: &str) -> String {
    let mut text = String::new();
    for word in why.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        if digits.len() >= ID_DIGITS {
            text.push('…');
            text.push_str(word.strip_prefix(digits).unwrap_or_default());
        } else {
            text.push_str(word);
        }
    }
    text
}

/// Sends one message and reads its answer to the end.
pub(super) async fn run_turn(
    client: &mut PlainClient,
    target: LoadTarget,
    thread: &LoadThread,
    turn: usize,
) -> Result<TurnTimes, String> {
    let outcome = match timeout(TURN_TIMEOUT, stream_turn(client, target, thread, turn)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("the turn took more than {} s", TURN_TIMEOUT.as_secs())),
    };
    if outcome.is_err() {
        client.close();
    }
    outcome
}

async fn stream_turn(
    client: &mut PlainClient,
    target: LoadTarget,
    thread: &LoadThread,
    turn: usize,
) -> Result<TurnTimes, String> {
    let (path, body) = write_turn(target.kind, thread, turn);
    let begun = Instant::now();
    let status = client.send(&PlainRequest::json("POST", path, thread.key.as_deref(), &body)).await?;
    if status != 200 {
        return Err(client.read_refusal(status).await);
    }
    let (mut reader, mut received) = (AnswerReader::new(begun), Vec::new());
    let mut upstream = target.in_step_with.map(PlainClient::new);
    while client.next_piece(&mut received).await? {
        let before = reader.tokens();
        reader.take(&mut received, Instant::now())?;
        if let Some(upstream) = &mut upstream {
            for _ in before..reader.tokens() {
                upstream.ask(&PlainRequest::json("PUT", STEP_PATH, None, "")).await?;
            }
        }
    }
    reader.finish(Instant::now(), target.tokens)
}

pub(super) fn write_turn(kind: ServerKind, thread: &LoadThread, turn: usize) -> (&'static str, String) {
    let message = format!("Message {turn}: please describe how a sailing boat moves against the wind.");
    match kind {
        ServerKind::Rondo | ServerKind::RondoPostgres => {
            let mut body = json!({ "message": message });
            if let (Some(id), Some(fields)) = (&thread.id, body.as_object_mut()) {
                fields.insert("sessionId".into(), json!(id));
            }
            ("/studio/stream", body.to_string())
        }
        ServerKind::Floor => {
            (floor::CHAT_PATH, json!({ "message": message, "thread": thread.id }).to_string())
        }
        ServerKind::Proxy => {
            let body = json!({
                "model": "gpt-4o-mini", "stream": true, "stream_options": { "include_usage": true },
                "messages": [{ "role": "user", "content": message }],
            });
            ("/v1/chat/completions", body.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_have_equal_reasons() {
        let why = "status 429: {\"requestId\":\"0192f3a1c4e27d3a8b5f6c7d8e9fa0b1\",\"code\":\"bad\"}";
        assert_eq!(without_ids(why), "status 429: {\"requestId\":\"…\",\"code\":\"bad\"}");
    }
}
