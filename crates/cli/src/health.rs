//! `rondo health`: whether the server accepts requests. Containers call it as their health check.

use std::io::Write;
use std::time::Duration;

use reqwest::StatusCode;

use crate::config::Config;
use crate::own_server::OwnServer;
use crate::{CommandResult, cause, http};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct HealthOptions {
    /// The server's address; without it, the address that it is configured to listen on
    #[arg(long)]
    url: Option<String>,
}

pub(crate) async fn health(config: &Config, options: HealthOptions) -> CommandResult {
    let OwnServer { url: base, certificates } = match options.url {
        Some(url) => OwnServer { url, certificates: Vec::new() },
        None => OwnServer::of(config),
    };
    let url = format!("{}/readyz", base.trim_end_matches('/'));
    let client = http::own_builder(&url, &certificates)?.timeout(PATIENCE).build()?;
    let answer = client.get(&url).send().await;
    let answer = answer.map_err(|error| format!("cannot reach {base}: {}", cause(&error)))?;
    match answer.status() {
        StatusCode::OK => Ok(writeln!(std::io::stdout(), "ready")?),
        status => Err(format!("{url} answers {status}").into()),
    }
}
