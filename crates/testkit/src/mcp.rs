//! A server of tools that does what a test tells it, on a real socket: MCP of 2025-11-25 over streamable HTTP, by hand.
//!
//! It is strict: a request that breaks the protocol is refused and remembered, and a [`ScriptedMcpServer`] that is
//! dropped with such violations fails the test. The tools that it offers can change at any time; its answers are a
//! queue of [`McpReply`]s for each method, and a standing one for each tool. A call for which there is neither gives
//! its arguments back.
//!
//! ```no_run
//! # async fn example() {
//! use serde_json::json;
//! use testkit::mcp::{McpReply, ScriptedMcpServer, tool};
//! use testkit::{Reach, Setup, TestApp};
//!
//! let math = ScriptedMcpServer::start([tool("add", "Adds two numbers.")]).await;
//! math.answer("add", McpReply::structured(&json!({ "sum": 3 })));
//! math.script("tools/call", [McpReply::breaks_off()]); // the first call only
//! let app = TestApp::with(Setup {
//!     app: format!("[mcp.math]\nurl = \"{}\"", math.url()),
//!     reach: Reach { allow: vec![math.host()], ..Reach::default() },
//!     ..Setup::default()
//! })
//! .await;
//! // … let a model call `math__add` …
//! let calls = math.wait_for("tools/call", 1).await;
//! assert_eq!(calls[0].params()["arguments"], json!({ "a": 1, "b": 2 }));
//! # drop(app);
//! # }
//! ```

mod reply;
mod socket;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

pub use self::reply::McpReply;
use self::reply::{McpAct, error_text, json_answer, status_answer};
use crate::listen::{Watched, complain, header, listen};

const VERSION: &str = "2025-11-25";
const PATH: &str = "/mcp";
const CALL: &str = "tools/call";

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// A scripted server of tools. Dropping it soon closes its socket and every connection.
pub struct ScriptedMcpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Holds the accept loop, which holds the connections; dropped with the server.
    _tasks: JoinSet<()>,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct McpArrival {
    /// `POST`, `GET` or `DELETE`.
    pub verb: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null when it was not JSON.
    pub body: Value,
}

impl McpArrival {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The method of JSON-RPC; empty where there is none.
    pub fn method(&self) -> &str {
        self.body.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// Null where there are none.
    pub fn params(&self) -> Value {
        self.body.get("params").cloned().unwrap_or_default()
    }

    /// One entry of the `_meta` of its parameters; null where there is none.
    pub fn meta(&self, key: &str) -> Value {
        self.params().get("_meta").and_then(|meta| meta.get(key)).cloned().unwrap_or_default()
    }

    fn id(&self) -> Value {
        self.body.get("id").cloned().unwrap_or_default()
    }

    /// The tool that is called; empty where none is.
    fn tool(&self) -> String {
        self.params().get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// The definition of a tool that takes any object.
pub fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

type Shared = Watched<State>;

#[derive(Default)]
struct State {
    tools: Vec<Value>,
    scripts: BTreeMap<String, VecDeque<McpReply>>,
    standing: BTreeMap<String, McpReply>,
    arrivals: Vec<McpArrival>,
    sessions: BTreeSet<String>,
    sessions_made: usize,
    violations: Vec<String>,
    connections: usize,
    open: usize,
    written: u64,
}

impl ScriptedMcpServer {
    /// Listens on a free port of the loopback interface and offers these tools.
    pub async fn start(tools: impl IntoIterator<Item = Value>) -> Self {
        let shared = Arc::new(Shared::default());
        let (address, tasks) = listen(&shared, socket::serve).await;
        let server = Self { address, shared, _tasks: tasks };
        server.offer(tools);
        server
    }

    /// Returns the server's URL, as an app writes it.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Returns the host that an operator opens so that the server can be reached.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Offers these tools from now on, and no others. Clients are not told.
    pub fn offer(&self, tools: impl IntoIterator<Item = Value>) {
        self.shared.lock().tools = tools.into_iter().collect();
    }

    /// Adds answers for the next requests of a method, one each: `initialize`, `tools/list`, `tools/call`.
    pub fn script(&self, method: &str, replies: impl IntoIterator<Item = McpReply>) {
        self.shared.lock().scripts.entry(method.to_owned()).or_default().extend(replies);
    }

    /// Answers every call of a tool for which the script has nothing.
    pub fn answer(&self, tool: &str, reply: McpReply) {
        self.shared.lock().standing.insert(tool.to_owned(), reply);
    }

    /// Forgets all sessions, as a server does that was started again.
    pub fn forget_sessions(&self) {
        self.shared.lock().sessions.clear();
    }

    /// Everything that has arrived, in order.
    pub fn arrivals(&self) -> Vec<McpArrival> {
        self.shared.lock().arrivals.clone()
    }

    /// The requests of one method so far.
    pub fn requests(&self, method: &str) -> Vec<McpArrival> {
        arrivals_of(&self.shared.lock(), method)
    }

    /// The requests of one method, once there are at least `count`.
    pub async fn wait_for(&self, method: &str, count: usize) -> Vec<McpArrival> {
        self.shared
            .wait_until(|state| Some(arrivals_of(state, method)).filter(|found| found.len() >= count))
            .await
    }

    /// Waits until no connection is open.
    pub async fn left_alone(&self) {
        self.shared.wait_until(|state| (state.open == 0).then_some(())).await;
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// Bytes that were written in all.
    pub fn written_bytes(&self) -> u64 {
        self.shared.lock().written
    }

    /// Takes what the client did wrong. A violation that is not taken fails the test when the server is dropped.
    pub fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }
}

impl Drop for ScriptedMcpServer {
    fn drop(&mut self) {
        complain("the server of tools saw requests that break its protocol", &self.violations());
    }
}

fn arrivals_of(state: &State, method: &str) -> Vec<McpArrival> {
    state.arrivals.iter().filter(|arrival| arrival.method() == method).cloned().collect()
}

/// A refusal: its status, the code of JSON-RPC, and why.
type McpRefusal = (u16, i64, String);

impl Shared {
    /// Takes note of a request and says what to do about it.
    fn receive(&self, arrival: &McpArrival) -> Vec<McpAct> {
        self.change(|state| {
            state.arrivals.push(arrival.clone());
            match check(arrival) {
                Ok(()) => state.respond(arrival),
                Err((status, code, why)) => {
                    state.violations.push(format!("{} {}: {why}", arrival.verb, arrival.method()));
                    vec![json_answer(status, &[], &error_text(&arrival.id(), code, &why))]
                }
            }
        })
    }
}

impl State {
    fn respond(&mut self, arrival: &McpArrival) -> Vec<McpAct> {
        let session = arrival.header("mcp-session-id").unwrap_or_default();
        match (arrival.verb.as_str(), arrival.method()) {
            ("DELETE", _) => {
                let known = self.sessions.remove(session);
                return vec![status_answer(if known { 204 } else { 404 })];
            }
            ("POST", "server/discover") => {
                let text = error_text(&arrival.id(), METHOD_NOT_FOUND, "Method not found");
                return vec![json_answer(400, &[], &text)];
            }
            ("POST", "initialize") => {}
            ("POST", _) if !self.sessions.contains(session) => return vec![status_answer(404)],
            ("POST", _) => {}
            _ => return vec![status_answer(405)],
        }
        if arrival.id().is_null() {
            return vec![status_answer(202)];
        }
        let scripted = self.scripts.get_mut(arrival.method()).and_then(VecDeque::pop_front);
        let reply = match scripted {
            Some(reply) if reply.is_usual() => reply.with_contents_of(self.unscripted_reply(arrival)),
            Some(reply) => reply,
            None => self.unscripted_reply(arrival),
        };
        reply.acts(arrival)
    }

    fn initialize(&mut self) -> McpReply {
        self.sessions_made += 1;
        let session = format!("session-{}", self.sessions_made);
        self.sessions.insert(session.clone());
        McpReply::result(json!({
            "protocolVersion": VERSION,
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "scripted", "version": "1" },
        }))
        .header("mcp-session-id", &session)
    }

    fn unscripted_reply(&mut self, arrival: &McpArrival) -> McpReply {
        match arrival.method() {
            "initialize" => self.initialize(),
            "ping" => McpReply::result(json!({})),
            "tools/list" => McpReply::result(json!({ "tools": self.tools })),
            CALL => {
                let name = arrival.tool();
                let offered =
                    self.tools.iter().any(|tool| tool.get("name").and_then(Value::as_str) == Some(&name));
                let params = arrival.params();
                let arguments = params.get("arguments").unwrap_or(&Value::Null);
                match self.standing.get(&name) {
                    _ if !offered => McpReply::rpc_error(INVALID_PARAMS, &format!("Unknown tool: {name}")),
                    Some(reply) => reply.clone(),
                    None => McpReply::text(&arguments.to_string()),
                }
            }
            _ => McpReply::rpc_error(METHOD_NOT_FOUND, "Method not found"),
        }
    }
}

/// Checks the request as a server of the protocol would.
fn check(arrival: &McpArrival) -> Result<(), McpRefusal> {
    let require = |good: bool, why: &str| {
        if good { Ok(()) } else { Err((400, INVALID_REQUEST, why.to_owned())) }
    };
    let header = |name: &str| arrival.header(name).unwrap_or_default();
    require(arrival.path == PATH, "it is at another path")?;
    if arrival.verb == "DELETE" {
        return require(!header("mcp-session-id").is_empty(), "it names no session to end");
    }
    if arrival.verb != "POST" {
        return Ok(());
    }
    let accept = header("accept");
    let accepts = |kind: &str| accept.split(',').any(|one| one.trim().starts_with(kind));
    require(header("content-type") == "application/json", "its content type is not JSON")?;
    require(accepts("application/json"), "it does not accept JSON")?;
    require(accepts("text/event-stream"), "it does not accept event streams")?;
    require(arrival.body.get("jsonrpc") == Some(&json!("2.0")), "it is not JSON-RPC 2.0")?;
    require(!arrival.method().is_empty(), "it has no method")?;
    let id = arrival.id();
    require(
        id.is_null() || id.is_string() || id.is_i64() || id.is_u64(),
        "its id is no string and no number",
    )?;
    let session = header("mcp-session-id");
    match arrival.method() {
        "server/discover" => Ok(()),
        "initialize" => {
            require(session.is_empty(), "it begins within a session")?;
            let params = arrival.params();
            let has = |key: &str| params.get(key).is_some_and(|value| !value.is_null());
            require(params.get("protocolVersion") == Some(&json!(VERSION)), "it is of another version")?;
            require(has("capabilities") && has("clientInfo"), "it does not say who asks")
        }
        _ => {
            require(!session.is_empty(), "it names no session")?;
            require(header("mcp-protocol-version") == VERSION, "it does not name the version agreed on")
        }
    }
}

#[cfg(test)]
mod tests;
