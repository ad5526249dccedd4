//! MCP servers: reached when they are needed, used only as their definitions were approved.

mod connection;
mod content;
mod definition;
mod depth_limit;
mod http;
mod session;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use app::{AppMcpServer, AppMcpTransport, TextTemplate, header_values};
use async_trait::async_trait;
use protocol::{AppId, Effect, McpState, UserId};
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, RequestMetaObject};
use rmcp::service::ServiceError;
use serde_json::Value;
use store::{McpOffer, McpToolRow};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use self::connection::{Address, ConnectionOptions};
use self::http::egress_error;
use self::session::{McpSession, ReachedMcpServer};
use super::egress::Egress;
use super::secrets::{Filling, Needs, Secrets};
use crate::registry::timed_out;
use crate::{Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput};

pub use self::definition::mcp_tool_name;
pub use self::session::McpHealth;

/// Users who have a session of their own to one server at once.
const MAX_SESSIONS: usize = 64;

/// How long an unused session is kept when another is needed.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// How long processes may take to end.
const FAREWELL: Duration = Duration::from_secs(4);

/// The field with a call's key, so that a server that sees it twice can tell.
const KEY: &str = "dev.rondo/idempotency-key";

/// All MCP servers of all apps.
pub struct McpHub {
    parts: Arc<McpParts>,
    /// More than one of the same name while runs go on with an earlier version of their app.
    servers: Mutex<Vec<Arc<McpServerHandle>>>,
}

/// The handles that all MCP servers share.
struct McpParts {
    egress: Egress,
    secrets: Arc<Secrets>,
    /// The environment of a process, such as where programs are.
    env: Vec<(String, String)>,
    /// Apps whose servers offer something else than is known.
    changed: Mutex<BTreeSet<AppId>>,
    more: Notify,
    tasks: TaskTracker,
}

/// One MCP server of one app.
pub struct McpServerHandle {
    app: AppId,
    config: AppMcpServer,
    parts: Arc<McpParts>,
    needs: Needs,
    /// One for all, or one for each user where the user's own credentials are needed.
    sessions: Mutex<HashMap<Option<UserId>, Arc<McpSession>>>,
}

impl McpHub {
    pub fn new(egress: Egress, secrets: Arc<Secrets>, env: Vec<(String, String)>) -> Self {
        let (changed, more, tasks) = (Mutex::default(), Notify::new(), TaskTracker::new());
        let parts = Arc::new(McpParts { egress, secrets, env, changed, more, tasks });
        Self { parts, servers: Mutex::default() }
    }

    /// Waits until a server offers something else than is known, and gives the apps of which that is so.
    pub async fn changed_apps(&self) -> BTreeSet<AppId> {
        loop {
            let more = self.parts.more.notified();
            let apps =
                std::mem::take(&mut *self.parts.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !apps.is_empty() {
                return apps;
            }
            more.await;
        }
    }

    /// Lets go of every server, and waits a moment until its processes have ended.
    pub async fn close(&self) {
        let servers: Vec<Arc<McpServerHandle>> = {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *servers)
        };
        for session in servers.iter().flat_map(|server| server.open_sessions()) {
            session.close();
        }
        self.parts.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.parts.tasks.wait()).await;
    }

    /// Lets go of those servers of an app that are not among these. A run that still uses one keeps it to its end.
    pub fn keep_servers(&self, app: &AppId, configs: &[AppMcpServer]) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| server.app != *app || configs.contains(&server.config));
    }

    /// The server of an app, with the sessions it has already while its configuration is the same.
    pub fn server(&self, app: &AppId, config: &AppMcpServer) -> Arc<McpServerHandle> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = servers.iter().find(|known| known.app == *app && known.config == *config) {
            return Arc::clone(known);
        }
        let server = Arc::new(McpServerHandle {
            app: app.clone(),
            needs: Needs::new(config.secrets(), config.credentials()),
            config: config.clone(),
            parts: Arc::clone(&self.parts),
            sessions: Mutex::default(),
        });
        servers.push(Arc::clone(&server));
        server
    }
}

impl McpServerHandle {
    pub fn name(&self) -> &str {
        &self.config.name.name
    }

    pub fn is_process(&self) -> bool {
        matches!(self.config.transport, AppMcpTransport::Stdio { .. })
    }

    /// Whether each user has a session of their own.
    pub fn is_personal(&self) -> bool {
        self.config.is_per_user()
    }

    /// How the session is; of a server with a session for each user, the worst of them.
    pub fn health(&self) -> McpHealth {
        let sessions = self.open_sessions();
        let worst = sessions.iter().map(|session| session.health()).max_by_key(|health| health.state);
        worst.unwrap_or(McpHealth { state: McpState::Idle, last_error: None })
    }

    fn open_sessions(&self) -> Vec<Arc<McpSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }

    async fn reach(
        &self,
        session: &McpSession,
        filling: &Filling,
        anew: bool,
    ) -> Result<ReachedMcpServer, Failed> {
        let dial = ConnectionOptions { anew, hidden: &filling.hidden, tasks: &self.parts.tasks };
        session.reach(self.name(), self.address(filling)?, &dial).await
    }

    /// The tools that the server offers now, of those that the app wants.
    pub async fn offers(&self, calling: &Calling<'_>) -> Result<Vec<McpOffer>, Failed> {
        let filling = Filling::gather(calling, &self.parts.secrets, &self.needs).await?;
        let session = self.session(calling);
        let reached = self.reach(&session, &filling, true).await?;
        session.note_success();
        Ok(self.wanted_offers(&reached))
    }

    fn wanted_offers(&self, reached: &ReachedMcpServer) -> Vec<McpOffer> {
        let wanted = |tool: &str| self.config.tools.as_ref().is_none_or(|names| names.contains(tool));
        reached.tools.iter().filter(|tool| wanted(&tool.name)).map(definition::offer).collect()
    }

    fn session(&self, calling: &Calling<'_>) -> Arc<McpSession> {
        let whose = self.is_personal().then(|| calling.scope.user.clone());
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&whose) {
            sessions.retain(|_, session| session.last_used().is_none_or(|at| at.elapsed() < IDLE));
            let oldest = sessions
                .iter()
                .filter_map(|(whose, session)| Some((session.last_used()?, whose.clone())))
                .min_by_key(|(at, _)| *at);
            if let Some((_, oldest)) = oldest.filter(|_| sessions.len() >= MAX_SESSIONS) {
                sessions.remove(&oldest);
            }
        }
        Arc::clone(sessions.entry(whose).or_default())
    }

    fn address(&self, filling: &Filling) -> Result<Address, Failed> {
        let values = Value::Object(filling.values.clone());
        let filled = |pairs: &[(String, TextTemplate)]| {
            header_values(pairs, &values).map_err(|reason| Failed::new("not_configured", reason))
        };
        Ok(match &self.config.transport {
            AppMcpTransport::Http { url, headers } => Address::Host {
                url: url.clone(),
                headers: filled(headers)?,
                egress: self.parts.egress.clone(),
            },
            AppMcpTransport::Stdio { command, args, env, cwd } => Address::Process {
                command: command.clone(),
                args: args.clone(),
                env: self.parts.env.iter().cloned().chain(filled(env)?).collect(),
                folder: cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            },
        })
    }

    async fn call(&self, calling: &Calling<'_>, tool: &PinnedTool) -> Result<ToolOutput, Failed> {
        let filling = Filling::gather(calling, &self.parts.secrets, &self.needs).await?;
        let result = self.try_call(calling, tool, &filling).await;
        filling.hidden.hide_in_result(result)
    }

    async fn try_call(
        &self,
        calling: &Calling<'_>,
        tool: &PinnedTool,
        filling: &Filling,
    ) -> Result<ToolOutput, Failed> {
        let session = self.session(calling);
        let reached = tokio::select! {
            reached = self.reach(&session, filling, false) => reached?,
            () = calling.stop.cancelled() => return Err(Failed::new(Failed::CANCELLED, "the call was not made")),
        };
        self.check(calling, tool, &reached).await?;
        let limit = self.config.timeout;
        let answer = tokio::select! {
            answer = reached.connection.call(params(calling, tool)) => answer,
            () = calling.stop.cancelled() => return Err(Failed::uncertain(Failed::CANCELLED, "the call was cancelled before there was an answer")),
            () = super::wait_for_limit(limit) => return Err(timed_out(limit.unwrap_or_default())),
        };
        match answer {
            Ok(CallToolResponse::Complete(result)) => {
                session.note_success();
                content::tool_output(result)
            }
            Ok(_) => {
                session.note_success();
                let message =
                    "the MCP server asks for more input or for a background task; this is not supported";
                Err(Failed::uncertain("unsupported", message))
            }
            Err(error) => {
                let (failed, broken) = failure(&error);
                if broken {
                    session.note_break(
                        self.name(),
                        &reached.connection,
                        filling.hidden.text(&error.to_string()),
                    );
                }
                Err(failed)
            }
        }
    }

    /// A tool is called only while its server says of it what was approved.
    async fn check(
        &self,
        calling: &Calling<'_>,
        tool: &PinnedTool,
        reached: &ReachedMcpServer,
    ) -> Result<(), Failed> {
        let offers = self.wanted_offers(reached);
        match offers.iter().find(|offer| offer.tool == tool.tool) {
            Some(offer) if offer.hash == tool.hash => return Ok(()),
            Some(_) | None => {}
        }
        let gone = !offers.iter().any(|offer| offer.tool == tool.tool);
        if let Err(error) = calling.store.put_mcp_tools(&self.app, self.name(), offers).await {
            tracing::error!(%error, server = self.name(), "the tool definitions of an MCP server were not stored");
        }
        self.parts.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(self.app.clone());
        self.parts.more.notify_one();
        Err(if gone {
            Failed::new("tool_gone", "the MCP server no longer offers this tool")
        } else {
            let message =
                "the MCP server has changed the definition of this tool; an admin must approve it first";
            Failed::new("tool_changed", message)
        })
    }
}

fn params(calling: &Calling<'_>, tool: &PinnedTool) -> CallToolRequestParams {
    let mut params = CallToolRequestParams::new(tool.tool.clone());
    params.arguments = Some(calling.input.as_object().cloned().unwrap_or_default());
    let mut meta = RequestMetaObject::new();
    meta.insert(KEY.to_owned(), calling.key().into());
    params.meta = Some(meta);
    params
}

/// The failure of the call, and whether the connection is of no more use.
fn failure(error: &ServiceError) -> (Failed, bool) {
    if let ServiceError::McpError(error) = error {
        let refused = [
            ErrorCode::INVALID_PARAMS,
            ErrorCode::METHOD_NOT_FOUND,
            ErrorCode::INVALID_REQUEST,
            ErrorCode::PARSE_ERROR,
        ];
        let reason = content::reason(&error.message);
        let message = format!("the MCP server answered with the error {}: {reason}", error.code.0);
        let uncertain = !refused.contains(&error.code);
        return (Failed { uncertain, ..Failed::new("tool_error", message) }, false);
    }
    let sending =
        if let ServiceError::TransportSend(error) = error { egress_error(&*error.error) } else { None };
    let failed = match sending {
        Some(trouble) => trouble.to_failure(true),
        None => Failed::broken("the connection to the MCP server broke before there was an answer"),
    };
    (failed, true)
}

/// A tool of a server as it was approved.
struct PinnedTool {
    tool: String,
    hash: String,
}

/// A tool of a server. The server's hints about it change nothing: it counts as irreversible until the app says
/// otherwise.
pub(crate) struct McpTool {
    server: Arc<McpServerHandle>,
    pinned: PinnedTool,
}

impl McpTool {
    /// None for one that may not be used as it is offered now.
    pub(crate) fn offered_tool(server: &Arc<McpServerHandle>, row: &McpToolRow) -> Option<OfferedTool> {
        let approved = row.approved.as_ref().filter(|approved| row.present && approved.hash == row.hash)?;
        let spec = definition::spec(server.name(), &row.tool, &approved.definition);
        let pinned = PinnedTool { tool: row.tool.clone(), hash: approved.hash.clone() };
        let tool = Self { server: Arc::clone(server), pinned };
        Some(OfferedTool::new(spec, tool, ToolFacts::external(Effect::Irreversible)))
    }
}

#[async_trait]
impl Tool for McpTool {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        self.server.call(&calling, &self.pinned).await
    }
}
