//! `rondo keys` and `rondo jobs`: through the running server, or on its data folder if none runs.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::Subcommand;
use protocol::{JobView, KeyId, KeyMade, KeyRequest, KeyView, Page};
use reqwest::Method;
use service::{NewKey, PageQuery, Service};

use crate::config::Config;
use crate::desk::Line;
use crate::{Trouble, assemble};

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, once
    Add {
        /// Who its holder is
        user: String,
        /// The only app it is good for
        #[arg(long)]
        app: Option<String>,
        /// Let its holder look after the server: jobs and keys; with --app, those of that app
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
    Running(Line),
    /// No server runs; the data folder is ours for as long as we ask.
    Own(Service),
}

impl Desk {
    fn of(config: &Config) -> Result<Self, Trouble> {
        match assemble::service(config) {
            Ok(service) => Ok(Desk::Own(service)),
            Err(trouble) => Line::instead(config, trouble).map(Desk::Running),
        }
    }
}

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
        Desk::Running(line) => line.ask(line.request(Method::POST, "/v1/admin/keys").json(&request)).await?,
        Desk::Own(service) => {
            let KeyRequest { user, app, admin } = request;
            let made = service.add_key(NewKey { user, app, admin }, None).await?;
            KeyMade { id: made.id, token: made.token }
        }
    };
    Ok(format!("{}\n", made.token.ok_or("the server gave no key")?))
}

async fn list(desk: &Desk) -> Result<String, Trouble> {
    let keys: Vec<KeyView> = match desk {
        Desk::Running(line) => line.get::<Page<KeyView>>("/v1/admin/keys").await?.data,
        Desk::Own(service) => service.keys(None).await?,
    };
    let mut report = String::new();
    for key in keys {
        let state = if key.revoked_at.is_some() { "revoked" } else { "good" };
        let app = key.app.as_deref().unwrap_or("all apps");
        let admin = if key.admin { ", admin" } else { "" };
        let made_by = key.made_by.map(|by| format!("  by {by}")).unwrap_or_default();
        writeln!(report, "{}  {state:<7}  {}  {app}{admin}  {}{made_by}", key.id, key.user, key.created_at)?;
    }
    Ok(report)
}

async fn revoke(desk: &Desk, id: KeyId) -> Result<(), Trouble> {
    match desk {
        Desk::Running(line) => line.tell(line.request(Method::DELETE, &format!("/v1/admin/keys/{id}"))).await,
        Desk::Own(service) => Ok(service.revoke_key(id, None).await?),
    }
}

pub(crate) async fn jobs(config: Config) -> Result<(), Trouble> {
    let jobs: Vec<JobView> = match Desk::of(&config)? {
        Desk::Running(line) => line.get::<Page<JobView>>("/v1/admin/jobs").await?.data,
        Desk::Own(service) => service.job_views(PageQuery::default(), None).await?.data,
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
