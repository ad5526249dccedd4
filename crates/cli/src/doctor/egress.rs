//! Whether tools can reach what they need: open hosts, web search, secrets and MCP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use app::{App, AppMcpServer, AppMcpTransport, Apps};
use futures_util::future::join_all;
use protocol::{McpServerView, McpToolState};

use super::{Diagnosis, nearest_existing_folder};
use crate::api_client::ApiClient;
use crate::config::{self, Config};
use crate::mcp::{refresh, reveal_hidden, unapproved_tools};
use crate::terminal_text::count_of;

/// How long an MCP server may take to be started or reached, and to say what tools it has.
const LOOK_PATIENCE: Duration = Duration::from_secs(10);

/// The words in every refusal of a host that is not open.
const CLOSED: &str = "the egress rules block";

/// The data folder of a look, where there is none yet.
const SCRATCH: &str = ".rondo-doctor-data";

pub(super) async fn check(config: &Config, apps: &Apps) -> Vec<Diagnosis> {
    let settings = &config.outside;
    let mut findings = Vec::new();
    if !settings.opened.is_empty() {
        let open = settings.opened.join(", ");
        findings
            .push(Diagnosis::Good(format!("egress: in addition to public hosts, tools may reach {open}")));
    }
    if let Some(tavily) = &settings.tavily {
        findings.push(Diagnosis::Good(format!("web search: Tavily at {}", tavily.base_url)));
    }
    if let Some(url) = &settings.searxng {
        findings.push(Diagnosis::Good(format!("web search: SearXNG at {url}")));
    }
    let missing = settings.missing_searches(apps);
    findings.extend(missing.into_iter().map(|problem| Diagnosis::Note(format!("web search: {problem}"))));
    match settings.secrets_for(apps, &config::process_environment) {
        Ok((secrets, missing)) => {
            findings.extend(missing.into_iter().map(|problem| Diagnosis::Bad(format!("secret: {problem}"))));
            findings.extend(servers(config, apps, &secrets).await);
        }
        Err(problem) => findings.push(Diagnosis::Bad(format!("secret: {problem}"))),
    }
    findings
}

async fn servers(config: &Config, apps: &Apps, secrets: &BTreeMap<String, String>) -> Vec<Diagnosis> {
    let all: Vec<(&App, &AppMcpServer)> =
        apps.values().flat_map(|app| app.mcp.iter().map(|server| (&**app, server))).collect();
    if all.is_empty() {
        return Vec::new();
    }
    // A look keeps what it saw, and a check leaves no data folder behind.
    let scratch =
        (!config.data.is_dir()).then(|| Scratch(nearest_existing_folder(&config.data).join(SCRATCH)));
    let data = scratch.as_ref().map_or_else(|| config.data.clone(), |scratch| scratch.0.clone());
    let api = match ApiClient::open(&Config { data, ..config.clone() }).await {
        Ok(api) => api,
        Err(trouble) => return vec![Diagnosis::Bad(format!("MCP servers: {trouble}"))],
    };
    let look = async |(app, server): (&App, &AppMcpServer)| {
        let about = format!("MCP server {} of {}", server.name.name, app.id);
        // A server that runs may have been given what this command was not.
        let wants = api.is_private() && server.secrets().iter().any(|name| !secrets.contains_key(*name));
        if wants {
            return Diagnosis::Bad(format!("{about}: it was not tried, because a secret is missing"));
        }
        check_server(&api, &about, app, server).await
    };
    let findings = join_all(all.into_iter().map(look)).await;
    api.close().await;
    findings
}

async fn check_server(api: &ApiClient, about: &str, app: &App, server: &AppMcpServer) -> Diagnosis {
    if server.is_per_user() {
        let reason = "it needs each user's own credential, so it was not tried";
        return Diagnosis::Note(format!("{about}: {reason}"));
    }
    let asked = refresh(api, app.id.as_str(), &server.name.name);
    match tokio::time::timeout(LOOK_PATIENCE, asked).await {
        Ok(Ok(view)) => server_finding(about, server, &view),
        Ok(Err(trouble)) => Diagnosis::Bad(format!("{about}: {trouble}")),
        Err(_) => {
            let reason = format!("it did not answer within {} s", LOOK_PATIENCE.as_secs());
            Diagnosis::Bad(format!("{about}: {reason}; {}", remedy(server)))
        }
    }
}

fn server_finding(about: &str, server: &AppMcpServer, view: &McpServerView) -> Diagnosis {
    let offered = view.tools.iter().filter(|tool| tool.state != McpToolState::Gone).count();
    let count = count_of(offered, "tool");
    let (app, name) = (&view.app, &view.server);
    if let Some(reason) = &view.last_error {
        let remedy = opening(server).filter(|_| reason.contains(CLOSED)).unwrap_or_else(|| remedy(server));
        return Diagnosis::Bad(format!("{about}: {}; {remedy}", reveal_hidden(reason)));
    }
    match unapproved_tools(view).count() {
        0 => Diagnosis::Good(format!("{about}: {count}")),
        new => Diagnosis::Note(format!(
            "{about}: {count}, {new} of them waiting for approval; see `rondo mcp show {app} {name}`"
        )),
    }
}

/// The line that opens the host of a server.
fn opening(server: &AppMcpServer) -> Option<String> {
    let AppMcpTransport::Http { url, .. } = &server.transport else { return None };
    let url = reqwest::Url::parse(url).ok()?;
    let host = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    Some(format!("add allow = [\"{host}\"] under [egress] in rondo.toml, or set RONDO_EGRESS_ALLOW={host}"))
}

fn remedy(server: &AppMcpServer) -> String {
    let place = format!("{}:{}", server.name.file.display(), server.name.line);
    match &server.transport {
        AppMcpTransport::Stdio { command, .. } => {
            format!("check that `{command}` runs by itself, and the lines from {place}")
        }
        AppMcpTransport::Http { url, .. } => format!("is {url} right? see {place}"),
    }
}

/// A folder that is gone afterwards.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // it may never have come to be
    }
}
