//! A model provider that does what a test tells it, on a real socket.
//!
//! It speaks Chat Completions, Responses, Anthropic's Messages, Ollama's chat and embeddings, told apart by the path,
//! and is as strict as the providers: a request that one would refuse is answered with its own 400 and remembered, and
//! an [`Upstream`] that is dropped with such violations fails the test. The answers are a queue of [`Reply`]s, one per
//! request, or a program that looks at the request; whichever wire the request came by, the same script serves:
//!
//! ```no_run
//! # async fn example() {
//! use testkit::upstream::{ScriptedCall, Reply, Upstream};
//!
//! let upstream = Upstream::start().await;
//! upstream.script([
//!     Reply::stream().text("Let me see. ").call(ScriptedCall::new("calculate", r#"{"expression":"2+2"}"#)),
//!     Reply::says("Four."),
//! ]);
//! // … point a client at `upstream.base_url()` and run it …
//! let requests = upstream.wait_for_requests(2).await;
//! assert_eq!(requests[1].body["messages"][2]["content"], "4");
//! # }
//! ```

mod embeddings;
mod reply;
mod socket;
mod strict;
mod wire;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::reply::ReplyAct;
pub use self::reply::{Gate, Reply, ScriptedCall};
use self::wire::Wire;
use crate::listen::{Watched, complain, header, listen};

/// A scripted provider. Dropping it soon closes its socket and every connection.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Holds the accept loop, which holds the connections; dropped with the upstream.
    _tasks: JoinSet<()>,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null when it was not JSON, or had a key twice in one object.
    pub body: Value,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    pub at: Instant,
    /// Bytes of the reply, its head and framing included, that had been written.
    pub written: usize,
}

/// How the reply to a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnding {
    /// Its last byte was written.
    Whole,
    /// The upstream closed the connection, as it was told to.
    Cut,
    /// The client went away before.
    Left,
}

/// Answers requests of which the upstream keeps nothing, where the requests would fill the memory.
pub trait Observer: Send + Sync {
    /// The answer to a request, and a number for it that the observer chooses.
    fn answer(&self, request: &Received) -> (usize, Reply);

    /// Takes a fault that the provider refuses in a request, which is answered with that refusal.
    fn note_fault(&self, request: &Received, what: &str);

    fn note_end(&self, number: usize, ending: ReplyEnding);
}

/// The number of a request that has no observer.
const UNNUMBERED: usize = usize::MAX;

type Program = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

type SharedEmbedFunction = Arc<dyn Fn(&str) -> Vec<f64> + Send + Sync>;

type Shared = Watched<State>;

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    embeddings: VecDeque<Reply>,
    embeds: Option<SharedEmbedFunction>,
    program: Option<Program>,
    observer: Option<Arc<dyn Observer>>,
    key: Option<String>,
    requests: Vec<Received>,
    exchanges: Vec<UpstreamExchange>,
    violations: Vec<String>,
    connections: usize,
    /// The models that it lists; none where it has no list.
    served: Option<Vec<String>>,
    /// How often the list was asked for.
    listed: usize,
}

#[derive(Default, Clone, Copy)]
struct UpstreamExchange {
    written: usize,
    closed: Option<Instant>,
}

impl Upstream {
    /// Listens on a free port of the loopback interface.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let (address, tasks) = listen(&shared, socket::serve).await;
        Self { address, shared, _tasks: tasks }
    }

    /// One that asks the observer for every answer, and keeps neither requests nor violations.
    pub async fn start_observed(observer: Arc<dyn Observer>) -> Self {
        let upstream = Self::start().await;
        upstream.shared.lock().observer = Some(observer);
        upstream
    }

    /// Returns the base URL for a client; it ends in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// For a client whose paths hold the version themselves, such as Ollama's.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on a request without this key is a violation.
    pub fn require_key(&self, key: &str) {
        self.shared.lock().key = Some(key.to_owned());
    }

    /// Adds replies for the next requests that are not for embeddings, one each.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.lock().script.extend(replies);
    }

    /// Adds replies for the next requests for embeddings. Without one, each text has a vector of its own.
    pub fn script_embeddings(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.lock().embeddings.extend(replies);
    }

    /// From now on it lists these models. Until then it answers 404 to a request for the list.
    pub fn serves(&self, models: &[&str]) {
        self.shared.lock().served = Some(models.iter().map(|&model| model.to_owned()).collect());
    }

    /// The number of requests for the list of its models. These are no requests like the others.
    pub fn count_lists(&self) -> usize {
        self.shared.lock().listed
    }

    /// Makes the vector of every text for which no reply is scripted.
    pub fn embed_with(&self, embeds: impl Fn(&str) -> Vec<f64> + Send + Sync + 'static) {
        self.shared.lock().embeds = Some(Arc::new(embeds));
    }

    /// Answers every request for which the script has no reply.
    pub fn program(&self, program: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        self.shared.lock().program = Some(Arc::new(program));
    }

    /// The requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.lock().requests.clone()
    }

    /// The requests, once there are at least `count`.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Received> {
        self.shared.wait_until(|state| (state.requests.len() >= count).then(|| state.requests.clone())).await
    }

    /// Waits until the connection of request `index` (from 0) is closed, by the client or by a scripted cut.
    pub async fn closed(&self, index: usize) -> Closed {
        self.shared
            .wait_until(|state| {
                let exchange = state.exchanges.get(index)?;
                Some(Closed { at: exchange.closed?, written: exchange.written })
            })
            .await
    }

    /// Bytes written so far in reply to request `index`.
    pub fn written_bytes(&self, index: usize) -> usize {
        self.shared.lock().exchanges.get(index).map_or(0, |exchange| exchange.written)
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// Takes what the client did wrong. A violation that is not taken fails the test when the upstream is dropped.
    pub fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }
}

/// Returns the fault that a provider of Chat Completions would refuse in the body of a request, if there is any.
pub fn complaint(body: Value) -> Option<String> {
    complaint_at("/v1/chat/completions", &[], body)
}

/// Returns the fault that the provider at this path would refuse, if there is any. The headers, names in lower
/// case, are those beside the content type.
pub fn complaint_at(path: &str, headers: &[(&str, &str)], body: Value) -> Option<String> {
    let headers = [("content-type", "application/json")].iter().chain(headers);
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let request = Received { path: path.into(), headers, body };
    strict::check(&request, None).err().map(|complaint| complaint.message)
}

impl Drop for Upstream {
    fn drop(&mut self) {
        complain("the upstream saw requests a provider would refuse", &self.violations());
    }
}

impl Shared {
    /// Takes note of a request and says what to do about it.
    fn receive(&self, request: Received) -> (usize, Vec<ReplyAct>) {
        if let Some(wire) = wire::of_list(&request.path) {
            return (UNNUMBERED, self.list(wire).acts(wire, &Value::Null));
        }
        let (key, observer) = {
            let state = self.lock();
            (state.key.clone(), state.observer.clone())
        };
        let verdict = strict::check(&request, key.as_deref());
        let wire = Wire::of(&request.path).unwrap_or(Wire::Chat);
        if let Some(observer) = observer {
            let (number, reply) = answer_observed(&*observer, wire, &request, verdict);
            return (number, reply.acts(wire, &request.body));
        }
        let body = request.body.clone();
        let index = self.change(|state| {
            state.requests.push(request);
            state.exchanges.push(UpstreamExchange::default());
            state.requests.len() - 1
        });
        let reply = match verdict {
            Ok(()) => self.reply(wire, &body),
            Err(complaint) => {
                self.change(|state| state.violations.push(complaint.message.clone()));
                complaint.reply()
            }
        };
        (index, reply.acts(wire, &body))
    }

    /// The list of its models, in the words of the wire.
    fn list(&self, wire: Wire) -> Reply {
        let served = self.change(|state| {
            state.listed += 1;
            state.served.clone()
        });
        let Some(served) = served else { return Reply::status(404) };
        let models = |name: &str| -> Value { served.iter().map(|model| json!({ name: model })).collect() };
        match wire {
            Wire::Ollama => Reply::json(&json!({ "models": models("name") })),
            Wire::Chat | Wire::Responses | Wire::Anthropic | Wire::Embeddings => {
                Reply::json(&json!({ "object": "list", "data": models("id") }))
            }
        }
    }

    fn reply(&self, wire: Wire, body: &Value) -> Reply {
        if wire == Wire::Embeddings {
            let (scripted, embeds) = {
                let mut state = self.lock();
                (state.embeddings.pop_front(), state.embeds.clone())
            };
            return scripted.unwrap_or_else(|| embeddings::reply(body, embeds.as_deref()));
        }
        let (reply, program) = {
            let mut state = self.lock();
            (state.script.pop_front(), state.program.clone())
        };
        reply.or_else(|| program.map(|program| program(body))).unwrap_or_else(|| {
            self.change(|state| state.violations.push("unexpected request: the script is empty".into()));
            Reply::status(500)
        })
    }

    fn is_observed(&self) -> bool {
        self.lock().observer.is_some()
    }

    fn note_end(&self, number: usize, ending: ReplyEnding) {
        let observer = self.lock().observer.clone();
        if let Some(observer) = observer.filter(|_| number != UNNUMBERED) {
            observer.note_end(number, ending);
        }
    }

    fn count_written(&self, index: usize, bytes: usize) {
        self.change(|state| {
            if let Some(exchange) = state.exchanges.get_mut(index) {
                exchange.written += bytes;
            }
        });
    }

    fn note_closed(&self, indices: &[usize]) {
        self.change(|state| {
            for index in indices {
                if let Some(exchange) = state.exchanges.get_mut(*index) {
                    exchange.closed.get_or_insert_with(Instant::now);
                }
            }
        });
    }
}

fn answer_observed(
    observer: &dyn Observer,
    wire: Wire,
    request: &Received,
    verdict: Result<(), strict::Complaint>,
) -> (usize, Reply) {
    match verdict {
        Ok(()) if wire == Wire::Embeddings => (UNNUMBERED, embeddings::reply(&request.body, None)),
        Ok(()) => observer.answer(request),
        Err(complaint) => {
            observer.note_fault(request, &complaint.message);
            (UNNUMBERED, complaint.reply())
        }
    }
}

#[cfg(test)]
mod tests;
