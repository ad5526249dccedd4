//! A live connection to an MCP server: a process of ours over its standard input and output, or a host over HTTP.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext,
    Peer, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use store::MAX_MCP_TOOLS_PER_SERVER;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::depth_limit::DepthLimited;
use super::http::{McpEgress, egress_error};
use crate::external::border::Hidden;
use crate::external::egress::{Egress, MAX_ANSWER_BYTES};

/// How long a server may take until it can be asked something.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to say what tools it has.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Pages of tools that are asked for.
const MAX_PAGES: usize = 32;

/// How long a process may take to end once its input is closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Bytes of a line that a process says beside its answers.
const MAX_REMARK_BYTES: u64 = 4 * 1024;

/// The address of a server, with everything filled in.
pub(super) enum Address {
    Process { command: String, args: Vec<String>, env: Vec<(String, String)>, folder: PathBuf },
    Host { url: String, headers: Vec<(String, String)>, egress: Egress },
}

/// Tells addresses apart without holding what is in them.
pub(super) type AddressDigest = [u8; 32];

impl Address {
    pub(super) fn mark(&self) -> AddressDigest {
        let pairs = match self {
            Self::Process { env, .. } => env,
            Self::Host { headers, .. } => headers,
        };
        let mut hash = Sha256::new();
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }
}

/// The means to reach a server, beside its address.
pub(super) struct ConnectionOptions<'a> {
    /// The list of tools is asked for even if it is known.
    pub(super) anew: bool,
    /// Must not be told.
    pub(super) hidden: &'a Hidden,
    /// Holds what runs beside a connection.
    pub(super) tasks: &'a TaskTracker,
}

/// A server that can be asked. It ends when this is dropped.
pub(super) struct Connection {
    client: RunningService<RoleClient, ToolListListener>,
    /// Ends the process, if there is one.
    _process: Option<DropGuard>,
}

/// The client's side of a connection.
struct ToolListListener {
    /// The server has said that its tools are others now.
    changed: Arc<AtomicBool>,
}

impl ClientHandler for ToolListListener {
    fn get_info(&self) -> ClientConfig {
        let rondo = Implementation::new("rondo", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), rondo)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Connection {
    /// Reaches a server and agrees with it on one of the two protocols. The reason of a failure is for people.
    pub(super) async fn open(address: Address, dial: &ConnectionOptions<'_>) -> Result<Self, String> {
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(address, dial)).await {
            Ok(connection) => connection.map_err(|reason| dial.hidden.text(&reason)),
            Err(_) => Err(format!("it was not ready within {} s", CONNECT_TIMEOUT.as_secs())),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.peer().is_transport_closed()
    }

    /// Whether it has said so, once.
    pub(super) fn take_changed(&self) -> bool {
        self.client.service().changed.swap(false, Ordering::AcqRel)
    }

    /// All tools it offers now.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, String> {
        match tokio::time::timeout(LIST_TIMEOUT, self.pages()).await {
            Ok(tools) => tools.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it did not list its tools within {} s", LIST_TIMEOUT.as_secs())),
        }
    }

    async fn pages(&self) -> Result<Vec<Tool>, ServiceError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let mut listed = self.peer().list_tools(Some(page)).await?;
            tools.append(&mut listed.tools);
            cursor = listed.next_cursor;
            if cursor.is_none() || tools.len() > MAX_MCP_TOOLS_PER_SERVER {
                break;
            }
        }
        Ok(tools)
    }

    /// Makes a call. If the future is dropped before the answer, the server is told that the call is cancelled.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResponse, ServiceError> {
        self.peer().call_tool_once(params).await
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.client.peer()
    }
}

async fn connect(address: Address, dial: &ConnectionOptions<'_>) -> Result<Connection, String> {
    let handler = ToolListListener { changed: Arc::default() };
    let (client, process) = match address {
        Address::Host { url, headers, egress } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url)
                .custom_headers(headers_of(headers)?)
                .reinit_on_expired_session(false);
            let transport = StreamableHttpClientTransport::with_client(McpEgress { egress }, config);
            (handler.serve_with_lifecycle(transport, lifecycle()).await, None)
        }
        Address::Process { command, args, env, folder } => {
            let (mut child, group) = spawn(&command, &args, env, &folder)?;
            let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                return Err("its input and output could not be opened".into());
            };
            let transport = AsyncRwTransport::new_client(DepthLimited::new(output), input)
                .with_max_line_length(MAX_ANSWER_BYTES);
            let ending = watch((child, group), dial, command);
            (handler.serve_with_lifecycle(transport, lifecycle()).await, Some(ending))
        }
    };
    let client = client.map_err(|error| reason(&error))?;
    client.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
    Ok(Connection { client, _process: process })
}

/// The newer protocol where it is known, the older one where it is not.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// The innermost cause says most.
fn reason(error: &ClientInitializeError) -> String {
    let mut innermost: &(dyn std::error::Error + 'static) = error;
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        innermost = &**fallback;
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        innermost = &*error.error;
    }
    if let Some(trouble) = egress_error(innermost) {
        return trouble.to_string();
    }
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

fn headers_of(headers: Vec<(String, String)>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (String, String)| {
        let name =
            HeaderName::try_from(name).map_err(|_| "a header has a name that is not valid".to_owned())?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the header {name} has a value that is not valid"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    headers.into_iter().map(header).collect()
}

/// Starts a process that knows nothing of this one's environment, in a group of its own.
fn spawn(
    command: &str,
    args: &[String],
    env: Vec<(String, String)>,
    folder: &std::path::Path,
) -> Result<(Child, Option<Pid>), String> {
    let child = Command::new(command)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{command:?} could not be started: {error}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok((child, group))
}

/// Lets a process end by itself once its input is closed, and ends it with all it has started if it does not.
fn watch(
    (mut child, group): (Child, Option<Pid>),
    dial: &ConnectionOptions<'_>,
    command: String,
) -> DropGuard {
    let over = CancellationToken::new();
    let ending = over.clone();
    if let Some(remarks) = child.stderr.take() {
        dial.tasks.spawn(listen(remarks, dial.hidden.clone(), command.clone()));
    }
    dial.tasks.spawn(async move {
        let ended = tokio::select! {
            status = child.wait() => status.ok(),
            () = ending.cancelled() => tokio::time::timeout(EXIT_GRACE, child.wait()).await.ok().and_then(Result::ok),
        };
        if let Some(status) = ended {
            tracing::info!(command, %status, "an MCP server has ended");
        }
        // Processes that the process has started may still be there.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait().await;
    });
    over.drop_guard()
}

/// Logs the lines that a process writes beside its answers.
async fn listen(remarks: ChildStderr, hidden: Hidden, command: String) {
    let mut remarks = BufReader::new(remarks);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut remarks).take(MAX_REMARK_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let said = hidden.text(String::from_utf8_lossy(&line).trim_end());
                tracing::debug!(command, said, "an MCP server says");
            }
        }
    }
}
