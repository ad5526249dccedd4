//! `rondo memories`: what an app remembers of a user.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use protocol::{
    ImportReport, MemoryHistoryView, MemoryHit, MemoryId, MemoryQuery, MemorySettings, MemoryView, NewMemory,
    Page,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use service::MAX_IMPORT_BYTES;

use crate::CommandResult;
use crate::api_client::{ApiClient, UserOptions};
use crate::config::Config;
use crate::terminal_text::{columns, printable, shorten};

/// How long the running server may take to import a file, or to write one.
const FILE_PATIENCE: Duration = Duration::from_secs(15 * 60);

const STATUSES: [&str; 6] = ["active", "forgotten", "removed", "expired", "superseded", "all"];

#[derive(Subcommand)]
pub(crate) enum MemoriesCommand {
    /// List the memories, newest first
    List {
        #[command(flatten)]
        user: UserOptions,
        /// Only memories with this status, or `all`
        #[arg(long, default_value = "active", value_parser = STATUSES)]
        status: String,
        /// How many memories to print at most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Search memories for a question, best match first
    Search {
        query: String,
        #[command(flatten)]
        user: UserOptions,
        /// How many memories to print at most
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Add a memory, unless a memory with the same content exists
    Add {
        text: String,
        #[command(flatten)]
        user: UserOptions,
        /// The kind of the memory, in one word
        #[arg(long)]
        kind: Option<String>,
    },
    /// Forget a memory and the words that it came from
    Forget {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
        /// Delete the memory permanently; it cannot be restored
        #[arg(long)]
        purge: bool,
    },
    /// Make a forgotten memory active again
    Restore {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
    },
    /// Print the history of a memory: its versions, and the words that it came from
    History {
        id: MemoryId,
        #[command(flatten)]
        user: UserOptions,
    },
    /// Export all active memories, as a file for `import`
    Export {
        #[command(flatten)]
        user: UserOptions,
        #[arg(long, default_value = "json", value_parser = ["json", "markdown", "mem0"])]
        format: String,
    },
    /// Import memories from a file: an export of Rondo or of mem0, or a Markdown list
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
    /// Switch memory off: nothing is recalled or remembered, and stored memories stay
    Off {
        #[command(flatten)]
        user: UserOptions,
    },
}

pub(crate) async fn memories(config: Config, command: MemoriesCommand) -> CommandResult {
    let (MemoriesCommand::List { user, .. }
    | MemoriesCommand::Search { user, .. }
    | MemoriesCommand::Add { user, .. }
    | MemoriesCommand::Forget { user, .. }
    | MemoriesCommand::Restore { user, .. }
    | MemoriesCommand::History { user, .. }
    | MemoriesCommand::Export { user, .. }
    | MemoriesCommand::Import { user, .. }
    | MemoriesCommand::On { user }
    | MemoriesCommand::Off { user }) = &command;
    let of_app = format!("/v1/apps/{}/memories", user.app);
    let api = ApiClient::open_as(&config, user.clone()).await?;
    api.report(async |api| run(api, &of_app, command).await).await
}

async fn run(api: &ApiClient, of_app: &str, command: MemoriesCommand) -> CommandResult<String> {
    let of_one = |id: MemoryId| format!("/v1/memories/{id}");
    Ok(match command {
        MemoriesCommand::List { status, limit, .. } => {
            let path = format!("{of_app}?status={status}&limit={limit}");
            let page: Page<MemoryView> = api.get(&path).await?;
            columns(&page.data.iter().map(row).collect::<Vec<_>>())
        }
        MemoriesCommand::Search { query, limit, .. } => {
            let query = MemoryQuery { query, limit: Some(limit) };
            let page: Page<MemoryHit> = api.post(&format!("{of_app}/search"), &query).await?.json().await?;
            let scored = |hit: &MemoryHit| [vec![format!("{:.2}", hit.score)], row(&hit.memory)].concat();
            columns(&page.data.iter().map(scored).collect::<Vec<_>>())
        }
        MemoriesCommand::Add { text, kind, .. } => {
            line(&api.post(of_app, &NewMemory { text, kind }).await?.json().await?)
        }
        MemoriesCommand::Forget { id, purge: true, .. } => {
            api.delete(&format!("{}?purge=true", of_one(id))).await?;
            format!("{id} is removed permanently\n")
        }
        MemoriesCommand::Forget { id, purge: false, .. } => {
            api.delete(&of_one(id)).await?;
            format!("{id} is forgotten; `rondo memories restore {id}` restores it\n")
        }
        MemoriesCommand::Restore { id, .. } => {
            line(&api.read(api.request(Method::POST, &format!("{}/restore", of_one(id)))).await?)
        }
        MemoriesCommand::History { id, .. } => {
            history_report(&api.get(&format!("{}/history", of_one(id))).await?)?
        }
        MemoriesCommand::Export { format, .. } => {
            let request = api.request(Method::GET, &format!("{of_app}/export?format={format}"));
            api.send(request.timeout(FILE_PATIENCE)).await?.text().await?
        }
        MemoriesCommand::Import { file, .. } => {
            let text = read(&file).map_err(|trouble| format!("{}: {trouble}", file.display()))?;
            let request = api.request(Method::POST, &format!("{of_app}/import")).timeout(FILE_PATIENCE);
            import_report(&api.read(request.header(CONTENT_TYPE, "text/plain").body(text)).await?)?
        }
        MemoriesCommand::On { .. } => set(api, of_app, true).await?,
        MemoriesCommand::Off { .. } => set(api, of_app, false).await?,
    })
}

async fn set(api: &ApiClient, of_app: &str, enabled: bool) -> CommandResult<String> {
    let request = api.request(Method::PUT, &format!("{of_app}/settings")).json(&MemorySettings { enabled });
    let settings: MemorySettings = api.read(request).await?;
    Ok(format!("memory is {}\n", if settings.enabled { "on" } else { "off" }))
}

fn read(file: &Path) -> CommandResult<String> {
    if std::fs::metadata(file)?.len() > MAX_IMPORT_BYTES as u64 {
        return Err(format!("a file of memories has at most {MAX_IMPORT_BYTES} bytes").into());
    }
    Ok(std::fs::read_to_string(file)?)
}

/// A text on one line, and unable to command the terminal.
fn one_line(text: &str) -> String {
    shorten(&printable(text).split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn row(memory: &MemoryView) -> Vec<String> {
    let MemoryView { id, created_at, status, kind, text, .. } = memory;
    vec![
        id.to_string(),
        created_at.to_string(),
        format!("{:<10}", status.name()),
        kind.clone(),
        one_line(text),
    ]
}

fn line(memory: &MemoryView) -> String {
    columns(&[row(memory)])
}

fn history_report(history: &MemoryHistoryView) -> CommandResult<String> {
    let MemoryHistoryView { memory, versions, sources } = history;
    let mut report = line(memory);
    for version in versions {
        let (number, at, reason) = (version.version, version.at, version.reason.name());
        writeln!(report, "version {number:<3}  {at}  {reason:<10}  {}", one_line(&version.text))?;
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
        let words = said.words.as_deref().map(one_line).unwrap_or_default();
        writeln!(report, "said         {at}  {}  {words}", place.unwrap_or_default())?;
    }
    Ok(report)
}

fn import_report(report: &ImportReport) -> CommandResult<String> {
    let ImportReport { imported, duplicates, refused } = report;
    let mut text =
        format!("imported    {imported}\nduplicates  {duplicates}\nrefused     {}\n", refused.len());
    for one in refused {
        writeln!(text, "memory {} {}", one.index, one.reason)?;
    }
    Ok(text)
}
