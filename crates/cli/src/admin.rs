//! `rondo keys` and `rondo jobs`.

use std::fmt::Write as _;

use clap::Subcommand;
use protocol::{JobView, KeyId, KeyMade, KeyView, NewKey, Page};

use crate::CommandResult;
use crate::api_client::ApiClient;
use crate::config::Config;
use crate::terminal_text::columns;

const KEYS: &str = "/v1/admin/keys";

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Make an API key and print it; the key is shown only once
    Add {
        /// The user who holds the key
        user: String,
        /// Limit the key to this app
        #[arg(long)]
        app: Option<String>,
        /// Make an admin key, which manages keys, jobs and MCP tools; with --app, only those of that app
        #[arg(long)]
        admin: bool,
    },
    /// List the keys, without their secrets
    List,
    /// Revoke a key immediately
    Revoke {
        /// The key's id, as `keys list` shows it
        id: KeyId,
    },
}

pub(crate) async fn keys(config: Config, command: KeysCommand) -> CommandResult {
    let api = ApiClient::open(&config).await?;
    api.report(async |api| run(api, command).await).await
}

async fn run(api: &ApiClient, command: KeysCommand) -> CommandResult<String> {
    match command {
        KeysCommand::Add { user, app, admin } => {
            let made: KeyMade = api.post(KEYS, &NewKey { user, app, admin }).await?.json().await?;
            Ok(format!("{}\n", made.token.ok_or("the server gave no key")?))
        }
        KeysCommand::List => list(&api.get::<Page<KeyView>>(KEYS).await?.data),
        KeysCommand::Revoke { id } => {
            api.delete(&format!("{KEYS}/{id}")).await?;
            Ok(format!("{id} is revoked\n"))
        }
    }
}

fn list(keys: &[KeyView]) -> CommandResult<String> {
    let mut report = String::new();
    for key in keys {
        let state = if key.revoked_at.is_some() { "revoked" } else { "good" };
        let app = key.app.as_deref().unwrap_or("all apps");
        let admin = if key.admin { ", admin" } else { "" };
        let made_by = key.made_by.as_ref().map(|by| format!("  by {by}")).unwrap_or_default();
        writeln!(report, "{}  {state:<7}  {}  {app}{admin}  {}{made_by}", key.id, key.user, key.created_at)?;
    }
    Ok(report)
}

pub(crate) async fn jobs(config: Config) -> CommandResult {
    let api = ApiClient::open(&config).await?;
    api.report(async |api| {
        let jobs: Page<JobView> = api.get("/v1/admin/jobs").await?;
        Ok(columns(&jobs.data.into_iter().map(job_row).collect::<Vec<_>>()))
    })
    .await
}

fn job_row(job: JobView) -> Vec<String> {
    let JobView { id, status, kind, attempts, updated_at, error, .. } = job;
    let attempts = format!("{attempts} attempts");
    let (status, error) = (format!("{status:<7}"), error.unwrap_or_default());
    vec![id.to_string(), status, kind, attempts, updated_at.to_string(), error]
}
