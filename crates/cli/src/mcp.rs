//! `rondo mcp`: the MCP servers that apps use, and which of their tools are approved.

mod definition;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use clap::Subcommand;
use protocol::{McpApproval, McpApprovalOf, McpServerView, McpState, McpToolState, McpToolView, Page};
use reqwest::Method;
use serde_json::json;

use self::definition::{changes, lines};
use crate::api_client::ApiClient;
use crate::config::Config;
use crate::terminal_text::json_word;
use crate::{CommandResult, print};

pub(crate) use self::definition::reveal_hidden;

/// How long the running server may take to start an MCP server and to ask it.
const LOOK_PATIENCE: Duration = Duration::from_secs(90);

const NO_SERVERS: &str = "no app uses an MCP server; add one with [mcp.NAME] in app.toml\n";

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List the MCP servers of all apps with their tools, and say which tools wait for approval
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tool definitions of an MCP server; for a changed tool, the difference
    Show {
        /// The app, as `mcp list` shows it
        app: String,
        /// The MCP server, as app.toml names it
        server: String,
        /// Show only this tool
        tool: Option<String>,
    },
    /// Show the current definitions of tools, and approve them
    Approve {
        /// The app, as `mcp list` shows it
        app: String,
        /// The MCP server, as app.toml names it
        server: String,
        /// The tools to approve
        #[arg(value_name = "TOOL", required_unless_present = "all")]
        tools: Vec<String>,
        /// Approve every tool that waits for approval
        #[arg(long, conflicts_with = "tools")]
        all: bool,
        /// Approve without a question
        #[arg(long)]
        yes: bool,
    },
    /// Revoke the approval of tools; this applies from the next call on
    Revoke {
        /// The app, as `mcp list` shows it
        app: String,
        /// The MCP server, as app.toml names it
        server: String,
        /// The tools whose approval is revoked
        #[arg(value_name = "TOOL", required = true)]
        tools: Vec<String>,
    },
    /// Connect to an MCP server now, and ask for its tools
    Refresh {
        /// The app, as `mcp list` shows it
        app: String,
        /// The MCP server, as app.toml names it
        server: String,
    },
}

pub(crate) async fn mcp(config: Config, command: McpCommand) -> CommandResult {
    let api = ApiClient::open(&config).await?;
    api.report(async |api| run(api, command).await).await
}

async fn run(api: &ApiClient, command: McpCommand) -> CommandResult<String> {
    Ok(match command {
        McpCommand::List { json } => {
            let servers = list_servers(api).await?;
            if json { serde_json::to_string_pretty(&servers)? + "\n" } else { list_report(&servers)? }
        }
        McpCommand::Show { app, server, tool } => {
            let server = find_server(api, &app, &server).await?;
            let tools = match &tool {
                Some(name) => vec![find(&server, name)?],
                None => server.tools.iter().collect(),
            };
            let head = if tool.is_none() { head(&server) } else { String::new() };
            head + &tools.into_iter().map(describe_tool).collect::<Result<String, _>>()?
        }
        McpCommand::Approve { app, server, tools, all, yes } => {
            let server = find_server(api, &app, &server).await?;
            let wanted = if all { unapproved_tools(&server).collect() } else { approvable(&server, &tools)? };
            approve(api, &server, &wanted, yes).await?
        }
        McpCommand::Revoke { app, server, tools } => {
            let server = find_server(api, &app, &server).await?;
            let found: Result<Vec<_>, _> = tools.iter().map(|name| find(&server, name)).collect();
            let names: Vec<String> = found?.into_iter().map(|tool| tool.tool.clone()).collect();
            api.post(&path(&server, "revoke"), &json!({ "tools": names })).await?;
            names.iter().map(|name| format!("{} is revoked\n", reveal_hidden(name))).collect()
        }
        McpCommand::Refresh { app, server } => refresh_report(&refresh(api, &app, &server).await?)?,
    })
}

async fn list_servers(api: &ApiClient) -> CommandResult<Vec<McpServerView>> {
    Ok(api.get::<Page<McpServerView>>("/v1/admin/mcp").await?.data)
}

async fn find_server(api: &ApiClient, app: &str, server: &str) -> CommandResult<McpServerView> {
    let servers = list_servers(api).await?;
    let names: Vec<String> = servers.iter().map(|view| format!("{} {}", view.app, view.server)).collect();
    let found = servers.into_iter().find(|view| view.app == app && view.server == server);
    found.ok_or_else(|| match names.as_slice() {
        [] => NO_SERVERS.trim_end().into(),
        names => format!("there is no MCP server {app} {server}; there is {}", names.join(", ")).into(),
    })
}

/// Looks at a server now.
pub(crate) async fn refresh(api: &ApiClient, app: &str, server: &str) -> CommandResult<McpServerView> {
    let request = api.request(Method::POST, &format!("/v1/admin/mcp/{app}/{server}/refresh"));
    api.read(request.timeout(LOOK_PATIENCE)).await
}

/// The address of a server's approvals and revocations.
fn path(server: &McpServerView, what: &str) -> String {
    format!("/v1/admin/mcp/{}/{}/{what}", server.app, server.server)
}

/// The tools that no admin has approved as they are offered now.
pub(crate) fn unapproved_tools(server: &McpServerView) -> impl Iterator<Item = &McpToolView> {
    server.tools.iter().filter(|tool| matches!(tool.state, McpToolState::New | McpToolState::Changed))
}

/// A tool by the server's name for it, or by the model's.
fn find<'a>(server: &'a McpServerView, name: &str) -> CommandResult<&'a McpToolView> {
    let by_its_own = server.tools.iter().find(|tool| tool.tool == name);
    by_its_own.or_else(|| server.tools.iter().find(|tool| tool.name == name)).ok_or_else(|| {
        let names: Vec<String> = server.tools.iter().map(|tool| reveal_hidden(&tool.tool)).collect();
        let (app, server) = (&server.app, &server.server);
        if names.is_empty() {
            return format!(
                "{server} has not listed its tools yet; ask for them with `rondo mcp refresh {app} {server}`"
            )
            .into();
        }
        format!("{server} has no tool {name:?}; it has {}", names.join(", ")).into()
    })
}

/// The named tools that an approval would change.
fn approvable<'a>(server: &'a McpServerView, names: &[String]) -> CommandResult<Vec<&'a McpToolView>> {
    let mut wanted: Vec<&McpToolView> = Vec::new();
    for name in names {
        let tool = find(server, name)?;
        let is_known = wanted.iter().any(|other| other.tool == tool.tool);
        match tool.state {
            McpToolState::New | McpToolState::Changed if !is_known => wanted.push(tool),
            McpToolState::New | McpToolState::Changed | McpToolState::Approved => {}
            McpToolState::Gone => {
                return Err(
                    format!("{} no longer offers {}", server.server, reveal_hidden(&tool.tool)).into()
                );
            }
        }
    }
    Ok(wanted)
}

/// Shows the tools, asks the admin for approval, and approves exactly what was shown.
async fn approve(
    api: &ApiClient,
    server: &McpServerView,
    wanted: &[&McpToolView],
    yes: bool,
) -> CommandResult<String> {
    if wanted.is_empty() {
        return Ok("nothing waits for approval\n".into());
    }
    let shown = wanted.iter().map(|tool| describe_tool(tool)).collect::<Result<String, _>>()?;
    print(&shown)?;
    if !yes && !ask_for_approval(wanted.len())? {
        return Err("nothing was approved".into());
    }
    let of = |tool: &&McpToolView| McpApprovalOf { tool: tool.tool.clone(), hash: tool.hash.clone() };
    let approval = McpApproval { tools: Some(wanted.iter().map(of).collect()) };
    api.post(&path(server, "approve"), &approval).await?;
    Ok(wanted.iter().map(|tool| format!("{} is approved\n", reveal_hidden(&tool.tool))).collect())
}

fn ask_for_approval(count: usize) -> CommandResult<bool> {
    if !std::io::stdin().is_terminal() {
        return Err("nothing was approved; read the definitions above, and add --yes".into());
    }
    let what = if count == 1 { "this tool" } else { "these tools" };
    std::io::stderr().write_all(format!("Approve {what} as shown? yes or no: ").as_bytes())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn list_report(servers: &[McpServerView]) -> CommandResult<String> {
    if servers.is_empty() {
        return Ok(NO_SERVERS.to_owned());
    }
    let mut report = String::new();
    for server in servers {
        report.push_str(&head(server));
        for tool in &server.tools {
            writeln!(
                report,
                "    {:<8}  {}  {}",
                json_word(&tool.state),
                reveal_hidden(&tool.tool),
                tool.name
            )?;
        }
        let (app, name) = (&server.app, &server.server);
        if server.tools.is_empty() {
            writeln!(
                report,
                "    it has not listed its tools yet; ask for them with `rondo mcp refresh {app} {name}`"
            )?;
        }
        if unapproved_tools(server).next().is_some() {
            writeln!(
                report,
                "    show the tools with `rondo mcp show {app} {name}`, then approve them with `rondo mcp \
                 approve {app} {name} --all`"
            )?;
        }
    }
    Ok(report)
}

fn head(server: &McpServerView) -> String {
    let transport = json_word(&server.transport);
    let state = match server.state {
        McpState::Idle => "idle",
        McpState::Connected => "connected",
        McpState::Failing => "failing",
        McpState::Open => "paused (circuit breaker open)",
    };
    let error = server.last_error.as_deref().map(|error| format!("  {}", reveal_hidden(error)));
    format!("{}  {}  {transport}  {state}{}\n", server.app, server.server, error.unwrap_or_default())
}

/// All that is known of a tool; of one that has changed, line by line what is different.
fn describe_tool(tool: &McpToolView) -> CommandResult<String> {
    let mut report =
        format!("{}  {}  as {} to models\n", reveal_hidden(&tool.tool), json_word(&tool.state), tool.name);
    if let Some(at) = tool.approved_at {
        let by = tool.approved_by.as_deref().map_or_else(
            || "automatically, when the server was first seen".to_owned(),
            |by| format!("by {}", reveal_hidden(by)),
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

fn refresh_report(server: &McpServerView) -> CommandResult<String> {
    let (app, name) = (&server.app, &server.server);
    match (&server.last_error, server.state) {
        (Some(reason), _) => {
            Err(format!("the MCP server {name} of {app} cannot be used: {}", reveal_hidden(reason)).into())
        }
        (None, McpState::Idle) => {
            Err(format!("the MCP server {name} of {app} was not asked: it needs each user's own credential")
                .into())
        }
        (None, McpState::Connected | McpState::Failing | McpState::Open) => {
            list_report(std::slice::from_ref(server))
        }
    }
}
