//! `rondo keys` and `rondo jobs`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use clap::Subcommand;
use protocol::{JobView, KeyId, KeyMade, KeyView, KeysRemoved, NewKey, Page};
use reqwest::Method;

use crate::CommandResult;
use crate::api_client::ApiClient;
use crate::config::Config;
use crate::terminal_text::columns;

const KEYS: &str = "/v1/admin/keys";

/// Only the control token opens this path.
const CONTROL_KEYS: &str = "/control/keys";

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
    /// Remove all keys, so that requests on this machine need none again
    ///
    /// The server then answers everybody on this machine as the user `local`. The data of other users stays, and a new
    /// key of the same user opens it again. A running server that other machines can reach refuses this.
    Open {
        /// Remove the keys without a question
        #[arg(long)]
        yes: bool,
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
            if let Some(notice) = made.notice {
                // Beside the token, so that scripts read nothing else.
                std::io::stderr().write_all(format!("note: {notice}\n").as_bytes())?;
            }
            Ok(format!("{}\n", made.token.ok_or("the server gave no key")?))
        }
        KeysCommand::List => list(&api.get::<Page<KeyView>>(KEYS).await?.data),
        KeysCommand::Revoke { id } => {
            api.delete(&format!("{KEYS}/{id}")).await?;
            Ok(format!("{id} is revoked\n"))
        }
        KeysCommand::Open { yes } => {
            if !yes && !ask_for_removal()? {
                return Err("no key was removed".into());
            }
            let done: KeysRemoved = api.read(api.request(Method::DELETE, CONTROL_KEYS)).await?;
            let keys = if done.removed == 1 { "key is" } else { "keys are" };
            Ok(format!("{} {keys} removed; requests on this machine need no key now\n", done.removed))
        }
    }
}

fn ask_for_removal() -> CommandResult<bool> {
    if !std::io::stdin().is_terminal() {
        return Err("no key was removed; add --yes to remove all keys".into());
    }
    let question = "Remove all keys? Everybody on this machine can then use the server. yes or no: ";
    std::io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
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
