//! `rondo keys` and `rondo jobs`.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use protocol::{
    ActsFor, Clock, JobView, KeyId, KeyMade, KeyRotation, KeyView, KeysRemoved, NewKey, Page, Rights,
    SystemClock,
};
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
    Add(AddKey),
    /// List the keys, without their secrets
    List,
    /// Make a new key in place of another, which stays valid for a while, and print it
    Rotate {
        /// The key's id, as `keys list` shows it
        id: KeyId,
        /// For how long the old key stays valid, such as 30m, 24h or 7d
        #[arg(long, default_value = "24h", value_parser = parse_span)]
        overlap: Duration,
    },
    /// Revoke a key immediately; the sessions that were made with it end, too
    Revoke {
        /// The key's id, as `keys list` shows it
        id: KeyId,
    },
    /// Remove all keys, so that requests on this machine need none again
    ///
    /// The server then treats every request on this machine as one of the user `local`. The data of other users stays,
    /// and a new key for such a user gives access to it again. A running server that other machines can reach refuses this.
    Open {
        /// Remove the keys without a question
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub(crate) struct AddKey {
    /// The user who holds the key
    user: String,
    /// Limit the key to this app
    #[arg(long)]
    app: Option<String>,
    /// Make an admin key, which manages keys, jobs and MCP tools; with --app, only those of that app
    #[arg(long)]
    admin: bool,
    /// The rights of the key, with commas between them: read, run (includes read), admin
    #[arg(long, value_parser = parse_rights)]
    rights: Option<Rights>,
    /// Make an acting key for your own back end: its requests name their user in the header X-Rondo-User
    #[arg(long, value_name = "any", value_parser = parse_acts_for)]
    acts_for: Option<ActsFor>,
    /// The key ends after this time, such as 12h, 30d or 365d
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    expires: Option<Duration>,
}

impl AddKey {
    fn request(self, now: Timestamp) -> CommandResult<NewKey> {
        let Self { user, app, admin, rights, acts_for, expires } = self;
        let expires_at = expires.map(|span| now.checked_add(span)).transpose()?;
        Ok(NewKey { user, app, admin, rights, acts_for, expires_at })
    }
}

fn parse_rights(text: &str) -> Result<Rights, &'static str> {
    Rights::parse(text)
        .filter(|rights| *rights != Rights::NONE)
        .ok_or("write read, run or admin, with commas between")
}

fn parse_acts_for(text: &str) -> Result<ActsFor, &'static str> {
    if text == ActsFor::Any.name() { Ok(ActsFor::Any) } else { Err("write any") }
}

/// A time such as 30m, 12h or 7d.
fn parse_span(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "write a number and a unit: 45s, 30m, 12h or 7d";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(WRONG)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(WRONG),
    };
    let number: u32 = number.parse().map_err(|_| WRONG)?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

pub(crate) async fn keys(config: Config, command: KeysCommand) -> CommandResult {
    let api = ApiClient::open(&config).await?;
    api.report(async |api| run(api, command).await).await
}

async fn run(api: &ApiClient, command: KeysCommand) -> CommandResult<String> {
    match command {
        KeysCommand::Add(new) => {
            let new = new.request(SystemClock.now())?;
            print_key(api.post(KEYS, &new).await?.json().await?)
        }
        KeysCommand::List => list(api).await,
        KeysCommand::Rotate { id, overlap } => {
            let overlap_seconds = Some(u32::try_from(overlap.as_secs()).unwrap_or(u32::MAX));
            let rotation = KeyRotation { overlap_seconds };
            print_key(api.post(&format!("{KEYS}/{id}/rotate"), &rotation).await?.json().await?)
        }
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

/// The secret of a new key, and notes about it beside, so that scripts read nothing else.
fn print_key(made: KeyMade) -> CommandResult<String> {
    let id = format!("the id of the key is {}", made.id);
    for note in std::iter::once(id).chain(made.notice) {
        std::io::stderr().write_all(format!("note: {note}\n").as_bytes())?;
    }
    Ok(format!("{}\n", made.token.ok_or("the server gave no key")?))
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

/// All keys, page by page.
async fn list(api: &ApiClient) -> CommandResult<String> {
    let (now, mut next) = (SystemClock.now(), None::<String>);
    let mut rows = Vec::new();
    loop {
        let cursor = next.map(|next| format!("?cursor={next}")).unwrap_or_default();
        let page: Page<KeyView> = api.get(&format!("{KEYS}{cursor}")).await?;
        rows.extend(page.data.iter().map(|key| key_row(key, now)));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    if rows.is_empty() {
        std::io::stderr().write_all(b"note: there is no key; `rondo keys add USER` makes one\n")?;
    }
    Ok(columns(&rows))
}

fn key_row(key: &KeyView, now: Timestamp) -> Vec<String> {
    let state = match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= now => "expired",
        (None, Some(_) | None) => "valid",
    };
    let time = |name: &str, at: Timestamp| format!("{name} {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let notes = [
        key.acts_for.map(|_| "acts for any user".to_owned()),
        key.made_by.as_ref().map(|by| format!("made by {by}")),
        key.revoked_by.as_ref().map(|by| format!("revoked by {by}")),
        key.replaced_by.map(|by| format!("replaced by {by}")),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    vec![
        key.id.to_string(),
        state.to_owned(),
        key.user.clone(),
        key.app.clone().unwrap_or_else(|| "all apps".to_owned()),
        key.rights.to_string(),
        time("made", key.created_at),
        key.expires_at.map_or_else(|| "no end".to_owned(), |at| time("ends", at)),
        key.used_at.map_or_else(|| "not used".to_owned(), |at| time("used", at)),
        notes.join(", "),
    ]
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
    let (status, error) = (format!("{:<7}", status.name()), error.unwrap_or_default());
    vec![id.to_string(), status, kind, attempts, updated_at.to_string(), error]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(parse_span("45s"), Ok(Duration::from_secs(45)));
        assert_eq!(parse_span("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_span("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "d", "7", "7w", "-1d", "1.5h", "9999999999d", "7ä"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }
}
