//! `rondo memories`: what an app remembers of a user.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use engine::MAX_IMPORT_BYTES;
use protocol::{
    ImportReport, MemoryHistoryView, MemoryHit, MemoryId, MemoryQuery, MemorySettings, MemoryView, NewMemory,
    Page,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::Trouble;
use crate::api_client::{ApiClient, UserOptions};
use crate::config::Config;
use crate::shown::{harmless, short};

/// How long the running server may take to import a file, or to write one.
const FILE_PATIENCE: Duration = Duration::from_secs(15 * 60);

#[derive(Subcommand)]
pub(crate) enum Memories {
    /// List them, newest first
    List {
        #[command(flatten)]
        user: UserOptions,
        /// Those of one status, or all
        #[arg(long, default_value = "active")]
        status: Status,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Find those that have to do with a question, the nearest first
    Search {
        query: String,
        #[command(flatten)]
        user: UserOptions,
        /// At most so many
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Remember something; what is known already is not added again
    Add {
        text: String,
        #[command(flatten)]
        user: UserOptions,
        /// What sort of fact it is, in a word
        #[arg(long)]
        kind: Option<String>,
    },
    /// Forget one, and the words it rests on
    Forget {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
        /// Remove it from the disk for good; it cannot be restored
        #[arg(long)]
        purge: bool,
    },
    /// Make one active again
    Restore {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
    },
    /// Say why it is known: its versions, and the words it rests on
    History {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
    },
    /// Print all active ones as a file that `import` takes back
    Export {
        #[command(flatten)]
        user: UserOptions,
        #[arg(long, default_value = "json")]
        format: Form,
    },
    /// Add those of a file: JSON of this server or of mem0, or a Markdown list
    Import {
        file: PathBuf,
        #[command(flatten)]
        user: UserOptions,
    },
    /// Switch memory on
    On {
        #[command(flatten)]
        user: UserOptions,
    },
    /// Switch memory off: nothing is recalled or remembered, and what is there stays
    Off {
        #[command(flatten)]
        user: UserOptions,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Status {
    Active,
    Forgotten,
    Removed,
    Expired,
    Superseded,
    All,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Form {
    Json,
    Markdown,
    Mem0,
}

/// Its name on the command line and in the API.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

pub(crate) async fn memories(config: Config, command: Memories) -> Result<(), Trouble> {
    let (Memories::List { user, .. }
    | Memories::Search { user, .. }
    | Memories::Add { user, .. }
    | Memories::Forget { user, .. }
    | Memories::Restore { user, .. }
    | Memories::History { user, .. }
    | Memories::Export { user, .. }
    | Memories::Import { user, .. }
    | Memories::On { user }
    | Memories::Off { user }) = &command;
    let of_app = format!("/v1/apps/{}/memories", user.app);
    let api = ApiClient::open_as(&config, user.clone()).await?;
    let report = run(&api, &of_app, command).await;
    api.close().await;
    Ok(std::io::stdout().write_all(report?.as_bytes())?)
}

async fn run(api: &ApiClient, of_app: &str, command: Memories) -> Result<String, Trouble> {
    let of_one = |id: MemoryId| format!("/v1/memories/{id}");
    Ok(match command {
        Memories::List { status, limit, .. } => {
            let path = format!("{of_app}?status={}&limit={limit}", name(&status));
            api.get::<Page<MemoryView>>(&path).await?.data.iter().map(line).collect()
        }
        Memories::Search { query, limit, .. } => {
            let query = MemoryQuery { query, limit: Some(limit) };
            let page: Page<MemoryHit> = api.post(&format!("{of_app}/search"), &query).await?.json().await?;
            page.data.iter().map(|hit| format!("{:.2}  {}", hit.score, line(&hit.memory))).collect()
        }
        Memories::Add { text, kind, .. } => {
            line(&api.post(of_app, &NewMemory { text, kind }).await?.json().await?)
        }
        Memories::Forget { id, purge: true, .. } => {
            api.delete(&format!("{}?purge=true", of_one(id))).await?;
            format!("{id} is gone for good\n")
        }
        Memories::Forget { id, purge: false, .. } => {
            api.delete(&of_one(id)).await?;
            format!("{id} is forgotten; `rondo memories restore {id}` brings it back\n")
        }
        Memories::Restore { id, .. } => {
            line(&api.read(api.request(Method::POST, &format!("{}/restore", of_one(id)))).await?)
        }
        Memories::History { id, .. } => past(&api.get(&format!("{}/history", of_one(id))).await?)?,
        Memories::Export { format, .. } => {
            let request = api.request(Method::GET, &format!("{of_app}/export?format={}", name(&format)));
            api.send(request.timeout(FILE_PATIENCE)).await?.text().await?
        }
        Memories::Import { file, .. } => {
            let text = read(&file).map_err(|trouble| format!("{}: {trouble}", file.display()))?;
            let request = api.request(Method::POST, &format!("{of_app}/import")).timeout(FILE_PATIENCE);
            outcome(&api.read(request.header(CONTENT_TYPE, "text/plain").body(text)).await?)?
        }
        Memories::On { .. } => set(api, of_app, true).await?,
        Memories::Off { .. } => set(api, of_app, false).await?,
    })
}

async fn set(api: &ApiClient, of_app: &str, enabled: bool) -> Result<String, Trouble> {
    let request = api.request(Method::PUT, &format!("{of_app}/settings")).json(&MemorySettings { enabled });
    let settings: MemorySettings = api.read(request).await?;
    Ok(format!("memory is {}\n", if settings.enabled { "on" } else { "off" }))
}

fn read(file: &Path) -> Result<String, Trouble> {
    if std::fs::metadata(file)?.len() > MAX_IMPORT_BYTES as u64 {
        return Err(format!("a file of memories has at most {MAX_IMPORT_BYTES} bytes").into());
    }
    Ok(std::fs::read_to_string(file)?)
}

/// A text on one line, and unable to command the terminal.
fn plain(text: &str) -> String {
    short(&harmless(text).split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn line(memory: &MemoryView) -> String {
    let MemoryView { id, created_at, status, kind, text, .. } = memory;
    format!("{id}  {created_at}  {status:<10}  {kind}  {}\n", plain(text))
}

fn past(history: &MemoryHistoryView) -> Result<String, Trouble> {
    let MemoryHistoryView { memory, versions, sources } = history;
    let mut report = line(memory);
    for version in versions {
        let (number, at, reason) = (version.version, version.at, &version.reason);
        writeln!(report, "version {number:<3}  {at}  {reason:<10}  {}", plain(&version.text))?;
    }
    writeln!(
        report,
        "source       {}  {}",
        memory.source.said.at.unwrap_or(memory.created_at),
        memory.source.by
    )?;
    for said in sources {
        let at = said.at.map(|at| at.to_string()).unwrap_or_default();
        let place = said.thread_id.map(|thread| thread.to_string()).or_else(|| said.note.clone());
        let words = said.words.as_deref().map(plain).unwrap_or_default();
        writeln!(report, "said         {at}  {}  {words}", place.unwrap_or_default())?;
    }
    Ok(report)
}

fn outcome(report: &ImportReport) -> Result<String, Trouble> {
    let ImportReport { imported, duplicates, refused } = report;
    let mut text =
        format!("imported    {imported}\nduplicates  {duplicates}\nrefused     {}\n", refused.len());
    for one in refused {
        writeln!(text, "memory {} {}", one.index, one.reason)?;
    }
    Ok(text)
}
