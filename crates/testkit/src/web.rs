//! A server of the world outside, on a real socket, that does what a test tells it: for tools that are requests, and for
//! web search.
//!
//! The answers stand in a queue for each method and path, one reply a request. A request that nothing is scripted for,
//! or that the service of a web search would refuse, is remembered, and fails the test when the server is dropped.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::task::JoinSet;

use crate::TAVILY_KEY;
use crate::listen::{RawRequest, Reader, Watched, complain, header, listen};
use crate::upstream::Gate;

/// Bytes of an endless body that are written at once.
const PIECE: usize = 64 * 1024;

/// The fields that Tavily knows in a search.
const TAVILY_FIELDS: &[&str] =
    &["query", "max_results", "search_depth", "include_answer", "topic", "time_range"];

/// Dropping it closes its socket and every connection.
pub struct Web {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Holds the accept loop, which holds the connections.
    _tasks: JoinSet<()>,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct WebArrival {
    pub method: String,
    /// As it was sent, still encoded.
    pub path: String,
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub at: Instant,
}

impl WebArrival {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Null when it was no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One reply.
#[derive(Debug, Clone)]
pub struct WebReply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    gate: Option<Gate>,
    end: ReplyEnd,
}

#[derive(Debug, Clone)]
enum Body {
    Bytes(Vec<u8>),
    /// A number of bytes, never all in memory.
    Endless(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyEnd {
    Whole,
    /// The body goes out byte by byte.
    Drip,
    /// The connection is closed before anything was answered.
    Nothing,
    /// The connection is closed in the middle of the body.
    Half,
}

impl WebReply {
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Bytes(Vec::new()), gate: None, end: ReplyEnd::Whole }
    }

    pub fn json(value: &Value) -> Self {
        Self::status(200).header("content-type", "application/json").bytes(value.to_string())
    }

    pub fn text(text: &str) -> Self {
        Self::status(200).header("content-type", "text/plain; charset=utf-8").bytes(text)
    }

    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("location", to)
    }

    /// Reads the request, and closes the connection without a word.
    pub fn broken() -> Self {
        Self { end: ReplyEnd::Nothing, ..Self::status(200) }
    }

    /// A body of `x`, which has `bytes` bytes.
    pub fn endless(bytes: u64) -> Self {
        Self { body: Body::Endless(bytes), ..Self::status(200).header("content-type", "text/plain") }
    }

    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Bytes(bytes.into()), ..self }
    }

    /// Holds all of the answer back until the gate is open.
    #[must_use]
    pub fn wait(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    #[must_use]
    pub fn drip(self) -> Self {
        Self { end: ReplyEnd::Drip, ..self }
    }

    /// Closes the connection in the middle of the body.
    #[must_use]
    pub fn half(self) -> Self {
        Self { end: ReplyEnd::Half, ..self }
    }

    /// Makes Tavily's answer to a search; a page is its title, address and content.
    pub fn tavily(answer: Option<&str>, pages: &[(&str, &str, &str)]) -> Self {
        let result = |(title, url, content): &(&str, &str, &str)| json!({ "title": title, "url": url, "content": content, "score": 0.9, "raw_content": null });
        let results: Vec<Value> = pages.iter().map(result).collect();
        Self::json(&json!({
            "query": "as it was asked", "answer": answer, "images": [], "follow_up_questions": null,
            "results": results, "response_time": 0.7, "request_id": "r-1",
        }))
    }

    /// Makes the answer of `SearXNG` to a search.
    pub fn searxng(pages: &[(&str, &str, &str)]) -> Self {
        let result = |(title, url, content): &(&str, &str, &str)| {
            json!({
                "title": title, "url": url, "content": content, "service": "test", "engines": ["test"],
                "positions": [1], "score": 1.0, "category": "general", "template": "default.html",
                "parsed_url": ["https", "example.com", "/", "", "", ""], "publishedDate": null,
            })
        };
        let results: Vec<Value> = pages.iter().map(result).collect();
        Self::json(&json!({
            "query": "as it was asked", "number_of_results": 0, "results": results, "answers": [],
            "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [],
        }))
    }
}

type Shared = Watched<State>;

#[derive(Default)]
struct State {
    replies: HashMap<(String, String), VecDeque<WebReply>>,
    arrivals: Vec<WebArrival>,
    /// Of the connection of each arrival.
    closed: Vec<Option<Instant>>,
    /// Bytes of all bodies that were written.
    written: u64,
    violations: Vec<String>,
}

impl Web {
    /// Listens on a free port of the loopback interface.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let (address, tasks) = listen(&shared, serve).await;
        Self { address, shared, _tasks: tasks }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the host that an operator writes to open it: the address with its port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds replies for the next requests to a path, one each.
    pub fn on(&self, method: &str, path: &str, replies: impl IntoIterator<Item = WebReply>) {
        let place = (method.to_owned(), path.to_owned());
        self.shared.lock().replies.entry(place).or_default().extend(replies);
    }

    pub fn arrivals(&self) -> Vec<WebArrival> {
        self.shared.lock().arrivals.clone()
    }

    /// The arrivals, once there are at least `count`.
    pub async fn wait_for(&self, count: usize) -> Vec<WebArrival> {
        self.shared.wait_until(|state| (state.arrivals.len() >= count).then(|| state.arrivals.clone())).await
    }

    /// When the connection of arrival `index` was closed, by either side.
    pub async fn closed(&self, index: usize) -> Instant {
        self.shared.wait_until(|state| *state.closed.get(index)?).await
    }

    /// Bytes of bodies that were written so far.
    pub fn written_bytes(&self) -> u64 {
        self.shared.lock().written
    }

    /// Takes what was asked for without being scripted, or out of shape.
    pub fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        complain("the world outside saw requests that nobody expects", &self.violations());
    }
}

impl Shared {
    /// Takes note of a request and says what to do about it.
    fn receive(&self, arrival: WebArrival) -> (usize, WebReply) {
        self.change(|state| {
            let index = state.arrivals.len();
            let place = (arrival.method.clone(), arrival.path.clone());
            let scripted = state.replies.get_mut(&place).and_then(VecDeque::pop_front);
            let complaint = complaint(&arrival);
            state.arrivals.push(arrival);
            state.closed.push(None);
            let reply = match (complaint, scripted) {
                (None, Some(reply)) => return (index, reply),
                (Some(complaint), _) => {
                    state.violations.push(complaint);
                    WebReply::status(400)
                }
                (None, None) => {
                    state.violations.push(format!("nothing is scripted for {} {}", place.0, place.1));
                    WebReply::status(500)
                }
            };
            (index, reply)
        })
    }
}

/// Returns the fault that the search service that is asked here would refuse, if there is any.
fn complaint(arrival: &WebArrival) -> Option<String> {
    match (arrival.method.as_str(), arrival.path.as_str()) {
        ("POST", "/search") => tavily_complaint(arrival),
        ("GET", "/search") => {
            let parameters: Vec<&str> = arrival.query.split('&').collect();
            let has =
                |name: &str| parameters.iter().any(|pair| pair.starts_with(name) && pair.len() > name.len());
            let fits = has("q=") && parameters.contains(&"format=json");
            (!fits).then(|| format!("SearXNG wants q and format=json, not {}", arrival.query))
        }
        _ => None,
    }
}

fn tavily_complaint(arrival: &WebArrival) -> Option<String> {
    if arrival.header("authorization") != Some(format!("Bearer {TAVILY_KEY}").as_str()) {
        return Some("Tavily wants its key".into());
    }
    if arrival.header("content-type") != Some("application/json") {
        return Some("Tavily wants JSON".into());
    }
    let body = arrival.json();
    let fields = body.as_object().cloned().unwrap_or_default();
    if let Some((field, _)) = fields.iter().find(|(field, _)| !TAVILY_FIELDS.contains(&field.as_str())) {
        return Some(format!("Tavily knows no {field}"));
    }
    let has_query = fields.get("query").and_then(Value::as_str).is_some_and(|query| !query.is_empty());
    (!has_query).then(|| format!("Tavily wants a query: {body}"))
}

/// Answers requests until either side closes.
async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut served = Vec::new();
    let (half, mut writer) = stream.split();
    let mut reader = Reader::new(half);
    while let Some(request) = reader.request().await {
        let arrival = arrival(request);
        let is_head = arrival.method == "HEAD";
        let (index, reply) = shared.receive(arrival);
        served.push(index);
        let goes_on = tokio::select! {
            biased;
            goes_on = answer(reply, is_head, &mut writer, &shared) => goes_on.unwrap_or(false),
            () = reader.wait_until_gone() => false,
        };
        if !goes_on {
            break;
        }
    }
    drop(stream);
    shared.change(|state| {
        for index in served {
            if let Some(closed) = state.closed.get_mut(index) {
                closed.get_or_insert_with(Instant::now);
            }
        }
    });
}

/// Carries out a reply and says whether the connection may carry another.
async fn answer(
    reply: WebReply,
    is_head: bool,
    writer: &mut WriteHalf<'_>,
    shared: &Shared,
) -> std::io::Result<bool> {
    if let Some(gate) = &reply.gate {
        gate.pass().await;
    }
    if reply.end == ReplyEnd::Nothing {
        return Ok(false);
    }
    writer.write_all(head(&reply).as_bytes()).await?;
    match reply.body {
        Body::Bytes(_) if is_head => {}
        Body::Bytes(bytes) => {
            let sent = if reply.end == ReplyEnd::Half { bytes.len() / 2 } else { bytes.len() };
            let piece = if reply.end == ReplyEnd::Drip { 1 } else { bytes.len().max(1) };
            for piece in bytes.iter().copied().take(sent).collect::<Vec<u8>>().chunks(piece) {
                writer.write_all(piece).await?;
                shared.change(|state| state.written += piece.len() as u64);
                tokio::task::yield_now().await;
            }
        }
        Body::Endless(bytes) => endless(bytes, writer, shared).await?,
    }
    Ok(reply.end != ReplyEnd::Half)
}

async fn endless(mut left: u64, writer: &mut WriteHalf<'_>, shared: &Shared) -> std::io::Result<()> {
    let piece = vec![b'x'; PIECE];
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        writer.write_all(piece.get(..now).unwrap_or_default()).await?;
        left -= now as u64;
        shared.change(|state| state.written += now as u64);
    }
    Ok(())
}

fn head(reply: &WebReply) -> String {
    let length = match &reply.body {
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Endless(bytes) => *bytes,
    };
    let lines: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {} Scripted\r\n{lines}content-length: {length}\r\n\r\n", reply.status)
}

fn arrival(request: RawRequest) -> WebArrival {
    let RawRequest { method, target, headers, body } = request;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    WebArrival { method, path, query, headers, body, at: Instant::now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_answers_in_the_order_of_its_script_and_keeps_what_came() {
        let web = Web::start().await;
        web.on("POST", "/a", [WebReply::text("one"), WebReply::json(&json!(2)).with_status(418)]);
        let client = crate::plain_client().build().unwrap();
        let ask = async || {
            let url = format!("{}/a?x=1", web.url());
            let answer = client.post(url).body("hello").send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        assert_eq!(ask().await, (200, "one".into()));
        assert_eq!(ask().await, (418, "2".into()));
        let arrival = web.arrivals().remove(1);
        assert_eq!(
            (arrival.method.as_str(), arrival.path.as_str(), arrival.query.as_str()),
            ("POST", "/a", "x=1")
        );
        assert_eq!((arrival.text(), arrival.header("content-length")), ("hello".into(), Some("5")));
    }

    #[tokio::test]
    async fn what_nobody_expects_is_a_violation() {
        let web = Web::start().await;
        web.on("POST", "/search", [WebReply::tavily(None, &[])]);
        let client = crate::plain_client().build().unwrap();
        let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
        assert_eq!(status(client.get(format!("{}/nothing", web.url()))).await, 500);
        let search = format!("{}/search", web.url());
        assert_eq!(status(client.get(format!("{search}?q=x"))).await, 400);
        assert_eq!(status(client.post(&search).json(&json!({ "query": "x" }))).await, 400);
        let asked = json!({ "query": "x", "api_key": "k" });
        assert_eq!(status(client.post(&search).bearer_auth(TAVILY_KEY).json(&asked)).await, 400);
        let found = web.violations();
        let expected = [
            "nothing is scripted for GET /nothing",
            "SearXNG wants",
            "Tavily wants its key",
            "Tavily knows no api_key",
        ];
        assert!(
            found.len() == 4 && found.iter().zip(expected).all(|(found, start)| found.starts_with(start)),
            "{found:?}"
        );
    }
}
