//! `rondo keys` and `rondo jobs`: through the running server, or on its data folder if none runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::Subcommand;
use engine::{Engine, NewKey, PageQuery};
use protocol::{JobView, KeyId, KeyMade, KeyRequest, KeyView, Page};
use reqwest::{Client, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;
use crate::control::Control;
use crate::{Trouble, assemble};

/// How long the running server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, once
    Add {
        /// Who its holder is
        user: String,
        /// The only app it is good for
        #[arg(long)]
        app: Option<String>,
        /// Let its holder look after the server: jobs and keys
        #[arg(long)]
        admin: bool,
    },
    /// List the keys, without what proves them
    List,
    /// Make a key good for nothing, at once
    Revoke {
        /// As `keys list` shows it
        id: KeyId,
    },
}

/// Where to ask.
enum Desk {
    Running(Client, Control),
    /// No server runs; the data folder is ours for as long as we ask.
    Own(Engine),
}

impl Desk {
    fn of(config: &Config) -> Result<Self, Trouble> {
        // The lock says whether a server runs; what one that was killed left behind would not.
        let trouble = match assemble::engine(config) {
            Ok(engine) => return Ok(Desk::Own(engine)),
            Err(trouble) => trouble,
        };
        match (trouble.downcast_ref(), Control::of(&config.data)) {
            (Some(store::Error::Locked(_)), Some(control)) => {
                Ok(Desk::Running(Client::builder().no_proxy().timeout(PATIENCE).build()?, control))
            }
            _ => Err(trouble),
        }
    }
}

async fn ask<T: DeserializeOwned>(
    client: &Client,
    control: &Control,
    (method, path): (Method, &str),
    body: Option<&impl Serialize>,
) -> Result<Option<T>, Trouble> {
    let mut request = client.request(method, format!("{}{path}", control.url)).bearer_auth(&control.token);
    if let Some(body) = body {
        request = request.json(body);
    }
    let response = request.send().await?;
    let status = response.status();
    if status.is_success() {
        let bytes = response.bytes().await?;
        return Ok(if bytes.is_empty() { None } else { Some(serde_json::from_slice(&bytes)?) });
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
    Err(format!("the server answered {status}: {detail}").into())
}

const NOTHING: Option<&Value> = None;

pub(crate) async fn keys(config: Config, command: Keys) -> Result<(), Trouble> {
    let desk = Desk::of(&config)?;
    let report = match command {
        Keys::Add { user, app, admin } => add(&desk, KeyRequest { user, app, admin }).await?,
        Keys::List => list(&desk).await?,
        Keys::Revoke { id } => {
            revoke(&desk, id).await?;
            format!("{id} is revoked\n")
        }
    };
    Ok(std::io::stdout().write_all(report.as_bytes())?)
}

async fn add(desk: &Desk, request: KeyRequest) -> Result<String, Trouble> {
    let made = match desk {
        Desk::Running(client, control) => {
            let made: Option<KeyMade> =
                ask(client, control, (Method::POST, "/v1/admin/keys"), Some(&request)).await?;
            made.ok_or("the server gave no key")?
        }
        Desk::Own(engine) => {
            let KeyRequest { user, app, admin } = request;
            let made = engine.add_key(NewKey { user, app, admin }, None).await?;
            KeyMade { id: made.id, token: made.token }
        }
    };
    Ok(format!("{}\n", made.token.ok_or("the server gave no key")?))
}

async fn list(desk: &Desk) -> Result<String, Trouble> {
    let keys: Vec<KeyView> = match desk {
        Desk::Running(client, control) => {
            let page: Option<Page<KeyView>> =
                ask(client, control, (Method::GET, "/v1/admin/keys"), NOTHING).await?;
            page.map(|page| page.data).unwrap_or_default()
        }
        Desk::Own(engine) => engine.keys().await?,
    };
    let mut report = String::new();
    for key in keys {
        let state = if key.revoked_at.is_some() { "revoked" } else { "good" };
        let app = key.app.as_deref().unwrap_or("all apps");
        let admin = if key.admin { ", admin" } else { "" };
        writeln!(report, "{}  {state:<7}  {}  {app}{admin}  {}", key.id, key.user, key.created_at)?;
    }
    Ok(report)
}

async fn revoke(desk: &Desk, id: KeyId) -> Result<(), Trouble> {
    match desk {
        Desk::Running(client, control) => {
            let path = format!("/v1/admin/keys/{id}");
            ask::<Value>(client, control, (Method::DELETE, &path), NOTHING).await.map(drop)
        }
        Desk::Own(engine) => Ok(engine.revoke_key(id).await?),
    }
}

pub(crate) async fn jobs(config: Config) -> Result<(), Trouble> {
    let jobs: Vec<JobView> = match Desk::of(&config)? {
        Desk::Running(client, control) => {
            let page: Option<Page<JobView>> =
                ask(&client, &control, (Method::GET, "/v1/admin/jobs"), NOTHING).await?;
            page.map(|page| page.data).unwrap_or_default()
        }
        Desk::Own(engine) => engine.job_views(PageQuery::default()).await?.data,
    };
    let mut report = String::new();
    for job in jobs {
        let why = job.error.map(|error| format!("  {error}")).unwrap_or_default();
        writeln!(
            report,
            "{}  {:<7}  {}  {} attempts  {}{why}",
            job.id, job.status, job.kind, job.attempts, job.updated_at
        )?;
    }
    Ok(std::io::stdout().write_all(report.as_bytes())?)
}
