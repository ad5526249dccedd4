//! `rondo mcp`: the servers of tools that apps use, and which of their tools are approved; through the running server,
//! or in the data folder if none runs.

mod definition;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use clap::Subcommand;
use protocol::{
    McpApproval, McpApprovalOf, McpServerView, McpState, McpToolState, McpToolView, McpTransport, Page,
};
use reqwest::Method;
use serde_json::json;
use service::{LOCAL_USER, Service};

use self::definition::{changes, lines};
use crate::config::Config;
use crate::desk::Line;
use crate::{Trouble, assemble};

pub(crate) use self::definition::revealed;

/// How long the running server may take to start a server of tools and to ask it.
const LOOK_PATIENCE: Duration = Duration::from_secs(90);

const NO_SERVERS: &str = "no app uses a server of tools; [mcp.NAME] in its app.toml adds one\n";

#[derive(Subcommand)]
pub(crate) enum Mcp {
    /// List the servers of all apps with their tools, and say which tools wait for approval
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a server says of its tools; of one that has changed, what it said before and what it says now
    Show {
        /// As `mcp list` shows it
        app: String,
        /// As its app.toml names it
        server: String,
        /// One tool only
        tool: Option<String>,
    },
    /// Let tools be used as they are offered now, after showing what that is
    Approve {
        /// As `mcp list` shows it
        app: String,
        /// As its app.toml names it
        server: String,
        /// The tools to approve
        #[arg(value_name = "TOOL", required_unless_present = "all")]
        tools: Vec<String>,
        /// Every tool that waits for approval
        #[arg(long, conflicts_with = "tools")]
        all: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Let tools be used no longer, from the next call on
    Revoke {
        /// As `mcp list` shows it
        app: String,
        /// As its app.toml names it
        server: String,
        /// The tools that may not be used
        #[arg(value_name = "TOOL", required = true)]
        tools: Vec<String>,
    },
    /// Start or reach a server now, and ask what tools it has
    Refresh {
        /// As `mcp list` shows it
        app: String,
        /// As its app.toml names it
        server: String,
    },
}

pub(crate) async fn mcp(config: Config, command: Mcp) -> Result<(), Trouble> {
    let desk = Desk::of(&config)?;
    let report = match command {
        Mcp::List { json } => {
            let servers = desk.list().await?;
            if json { serde_json::to_string_pretty(&servers)? + "\n" } else { listed(&servers)? }
        }
        Mcp::Show { app, server, tool } => {
            let server = desk.one(&app, &server).await?;
            let tools = match &tool {
                Some(name) => vec![find(&server, name)?],
                None => server.tools.iter().collect(),
            };
            let head = if tool.is_none() { head(&server)? } else { String::new() };
            head + &tools.into_iter().map(described).collect::<Result<String, _>>()?
        }
        Mcp::Approve { app, server, tools, all, yes } => {
            let server = desk.one(&app, &server).await?;
            let wanted = if all { waiting(&server).collect() } else { approvable(&server, &tools)? };
            approve(&desk, &server, &wanted, yes).await?
        }
        Mcp::Revoke { app, server, tools } => {
            let server = desk.one(&app, &server).await?;
            let found: Result<Vec<_>, _> = tools.iter().map(|name| find(&server, name)).collect();
            let names: Vec<String> = found?.into_iter().map(|tool| tool.tool.clone()).collect();
            desk.revoke(&server, names.clone()).await?;
            names.iter().map(|name| format!("{} is revoked\n", revealed(name))).collect()
        }
        Mcp::Refresh { app, server } => looked_at(&desk.refresh(&app, &server).await?)?,
    };
    Ok(std::io::stdout().write_all(report.as_bytes())?)
}

/// Where to ask.
pub(crate) enum Desk {
    Running(Line),
    /// No server runs; the data folder is ours for as long as we ask. The service is not started: it runs nothing.
    Own(Service),
}

impl Desk {
    pub(crate) fn of(config: &Config) -> Result<Self, Trouble> {
        match assemble::service(config) {
            Ok(service) => Ok(Desk::Own(service)),
            Err(trouble) => Line::instead(config, trouble).map(Desk::Running),
        }
    }

    async fn list(&self) -> Result<Vec<McpServerView>, Trouble> {
        match self {
            Desk::Running(line) => Ok(line.get::<Page<McpServerView>>("/v1/admin/mcp").await?.data),
            Desk::Own(service) => Ok(service.mcp_servers().await?),
        }
    }

    async fn one(&self, app: &str, server: &str) -> Result<McpServerView, Trouble> {
        let servers = self.list().await?;
        let names: Vec<String> = servers.iter().map(|view| format!("{} {}", view.app, view.server)).collect();
        let found = servers.into_iter().find(|view| view.app == app && view.server == server);
        found.ok_or_else(|| match names.as_slice() {
            [] => NO_SERVERS.trim_end().into(),
            names => format!("there is no server {app} {server}, but {}", names.join(", ")).into(),
        })
    }

    /// Looks at a server now.
    pub(crate) async fn refresh(&self, app: &str, server: &str) -> Result<McpServerView, Trouble> {
        match self {
            Desk::Running(line) => {
                let request = line.request(Method::POST, &path((app, server), "refresh"));
                line.ask(request.timeout(LOOK_PATIENCE)).await
            }
            Desk::Own(service) => Ok(service.look_at_mcp(app, server).await?),
        }
    }

    async fn approve(&self, server: &McpServerView, approval: McpApproval) -> Result<(), Trouble> {
        let of = (server.app.as_str(), server.server.as_str());
        match self {
            Desk::Running(line) => {
                line.tell(line.request(Method::POST, &path(of, "approve")).json(&approval)).await
            }
            Desk::Own(service) => Ok(service.approve_mcp(of, approval, LOCAL_USER).await.map(drop)?),
        }
    }

    async fn revoke(&self, server: &McpServerView, tools: Vec<String>) -> Result<(), Trouble> {
        let of = (server.app.as_str(), server.server.as_str());
        match self {
            Desk::Running(line) => {
                let body = json!({ "tools": tools });
                line.tell(line.request(Method::POST, &path(of, "revoke")).json(&body)).await
            }
            Desk::Own(service) => Ok(service.revoke_mcp(of, tools, LOCAL_USER).await.map(drop)?),
        }
    }
}

fn path((app, server): (&str, &str), what: &str) -> String {
    format!("/v1/admin/mcp/{app}/{server}/{what}")
}

/// The tools that nobody has approved as they are offered now.
pub(crate) fn waiting(server: &McpServerView) -> impl Iterator<Item = &McpToolView> {
    server.tools.iter().filter(|tool| match tool.state {
        McpToolState::New | McpToolState::Changed => true,
        McpToolState::Approved | McpToolState::Gone => false,
    })
}

/// A tool by the server's name for it, or by the model's.
fn find<'a>(server: &'a McpServerView, name: &str) -> Result<&'a McpToolView, Trouble> {
    let by_its_own = server.tools.iter().find(|tool| tool.tool == name);
    by_its_own.or_else(|| server.tools.iter().find(|tool| tool.name == name)).ok_or_else(|| {
        let names: Vec<String> = server.tools.iter().map(|tool| revealed(&tool.tool)).collect();
        let (app, server) = (&server.app, &server.server);
        if names.is_empty() {
            return format!(
                "{server} has not said yet what tools it has; ask it with `rondo mcp refresh {app} {server}`"
            )
            .into();
        }
        format!("{server} has no tool {name:?}, but {}", names.join(", ")).into()
    })
}

/// Those of the named tools that a yes would change something about.
fn approvable<'a>(server: &'a McpServerView, names: &[String]) -> Result<Vec<&'a McpToolView>, Trouble> {
    let mut wanted: Vec<&McpToolView> = Vec::new();
    for name in names {
        let tool = find(server, name)?;
        let is_known = wanted.iter().any(|other| other.tool == tool.tool);
        match tool.state {
            McpToolState::New | McpToolState::Changed if !is_known => wanted.push(tool),
            McpToolState::New | McpToolState::Changed | McpToolState::Approved => {}
            McpToolState::Gone => {
                return Err(format!("{} no longer offers {}", server.server, revealed(&tool.tool)).into());
            }
        }
    }
    Ok(wanted)
}

/// Shows what a yes is for, asks for it, and approves exactly that.
async fn approve(
    desk: &Desk,
    server: &McpServerView,
    wanted: &[&McpToolView],
    yes: bool,
) -> Result<String, Trouble> {
    if wanted.is_empty() {
        return Ok("nothing waits for approval\n".into());
    }
    let shown = wanted.iter().map(|tool| described(tool)).collect::<Result<String, _>>()?;
    std::io::stdout().write_all(shown.as_bytes())?;
    if !yes && !agreed(wanted.len())? {
        return Err("nothing was approved".into());
    }
    let of = |tool: &&McpToolView| McpApprovalOf { tool: tool.tool.clone(), hash: tool.hash.clone() };
    desk.approve(server, McpApproval { tools: Some(wanted.iter().map(of).collect()) }).await?;
    Ok(wanted.iter().map(|tool| format!("{} is approved\n", revealed(&tool.tool))).collect())
}

fn agreed(count: usize) -> Result<bool, Trouble> {
    if !std::io::stdin().is_terminal() {
        return Err("nothing was approved; read the above, and add --yes".into());
    }
    let what = if count == 1 { "this tool" } else { "these tools" };
    std::io::stderr().write_all(format!("Approve {what} as shown? yes or no: ").as_bytes())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn listed(servers: &[McpServerView]) -> Result<String, Trouble> {
    if servers.is_empty() {
        return Ok(NO_SERVERS.to_owned());
    }
    let mut report = String::new();
    for server in servers {
        report.push_str(&head(server)?);
        for tool in &server.tools {
            writeln!(report, "    {:<8}  {}  {}", state(tool.state), revealed(&tool.tool), tool.name)?;
        }
        let (app, name) = (&server.app, &server.server);
        if server.tools.is_empty() {
            writeln!(
                report,
                "    it has not said yet what tools it has; ask it with `rondo mcp refresh {app} {name}`"
            )?;
        }
        if waiting(server).next().is_some() {
            writeln!(
                report,
                "    see what waits with `rondo mcp show {app} {name}`, then `rondo mcp approve {app} {name} --all`"
            )?;
        }
    }
    Ok(report)
}

fn head(server: &McpServerView) -> Result<String, std::fmt::Error> {
    let transport = match server.transport {
        McpTransport::Stdio => "stdio",
        McpTransport::Http => "http",
    };
    let state = match server.state {
        McpState::Idle => "idle",
        McpState::Connected => "connected",
        McpState::Failing => "failing",
        McpState::Open => "left alone for a while",
    };
    let mut head = format!("{}  {}  {transport}  {state}", server.app, server.server);
    if let Some(error) = &server.last_error {
        write!(head, "  {}", revealed(error))?;
    }
    head.push('\n');
    Ok(head)
}

fn state(state: McpToolState) -> &'static str {
    match state {
        McpToolState::Approved => "approved",
        McpToolState::Changed => "changed",
        McpToolState::New => "new",
        McpToolState::Gone => "gone",
    }
}

/// All that is known of a tool; of one that has changed, line by line what is different.
fn described(tool: &McpToolView) -> Result<String, Trouble> {
    let mut report = format!("{}  {}  as {} to models\n", revealed(&tool.tool), state(tool.state), tool.name);
    if let Some(at) = tool.approved_at {
        let by = tool.approved_by.as_deref().map_or_else(
            || "because it was there when the server was first seen".to_owned(),
            |by| format!("by {}", revealed(by)),
        );
        writeln!(report, "  approved {at} {by}")?;
    }
    let offered = lines(&tool.definition);
    let shown = match (&tool.approved_definition, tool.state) {
        (Some(approved), McpToolState::Changed) => changes(&lines(approved), &offered),
        (Some(_) | None, _) => offered.into_iter().map(|line| format!("  {line}")).collect(),
    };
    for line in shown {
        writeln!(report, "  {line}")?;
    }
    Ok(report)
}

fn looked_at(server: &McpServerView) -> Result<String, Trouble> {
    let (app, name) = (&server.app, &server.server);
    match (&server.last_error, server.state) {
        (Some(reason), _) => {
            Err(format!("the server {name} of {app} cannot be used: {}", revealed(reason)).into())
        }
        (None, McpState::Idle) => {
            Err(format!("the server {name} of {app} was not asked: it needs a credential of each user's own")
                .into())
        }
        (None, McpState::Connected | McpState::Failing | McpState::Open) => {
            listed(std::slice::from_ref(server))
        }
    }
}
