//! `rondo memories`: what is remembered of a user in an app, through the running server or in the data folder if none
//! runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use protocol::{
    ImportReport, MemoryHistoryView, MemoryHit, MemoryId, MemoryQuery, MemorySettings, MemoryView, NewMemory,
    Page, Principal,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use service::{Added, ExportFormat, LOCAL_USER, MAX_IMPORT_BYTES, PageQuery, Service};

use crate::config::Config;
use crate::desk::Line;
use crate::shelf::{NOBODY_ASKS, Whose, speaking};
use crate::shown::{harmless, short};
use crate::{Trouble, assemble};

/// How long the running server may take to import a file, or to write one.
const FILE_PATIENCE: Duration = Duration::from_secs(15 * 60);

#[derive(Subcommand)]
pub(crate) enum Memories {
    /// List them, newest first
    List {
        #[command(flatten)]
        whose: Whose,
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
        whose: Whose,
        /// At most so many
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Remember something; what is known already is not added again
    Add {
        text: String,
        #[command(flatten)]
        whose: Whose,
        /// What sort of fact it is, in a word
        #[arg(long)]
        kind: Option<String>,
    },
    /// Forget one, and the words it rests on
    Forget {
        id: MemoryId,
        #[command(flatten)]
        whose: Whose,
        /// Remove it from the disk for good; it cannot be restored
        #[arg(long)]
        purge: bool,
    },
    /// Make one active again
    Restore {
        id: MemoryId,
        #[command(flatten)]
        whose: Whose,
    },
    /// Say why it is known: its versions, and the words it rests on
    History {
        id: MemoryId,
        #[command(flatten)]
        whose: Whose,
    },
    /// Print all active ones as a file that `import` takes back
    Export {
        #[command(flatten)]
        whose: Whose,
        #[arg(long, default_value = "json")]
        format: Form,
    },
    /// Add those of a file: JSON of this server or of mem0, or a Markdown list
    Import {
        file: PathBuf,
        #[command(flatten)]
        whose: Whose,
    },
    /// Switch memory on
    On {
        #[command(flatten)]
        whose: Whose,
    },
    /// Switch memory off: nothing is recalled or remembered, and what is there stays
    Off {
        #[command(flatten)]
        whose: Whose,
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
    let desk = |whose: Whose| Desk::of(&config, whose);
    let report = match command {
        Memories::List { whose, status, limit } => {
            desk(whose)?.list(status, limit).await?.data.iter().map(line).collect()
        }
        Memories::Search { query, whose, limit } => {
            let page = desk(whose)?.search(MemoryQuery { query, limit: Some(limit) }).await?;
            page.data.iter().map(|hit| format!("{:.2}  {}", hit.score, line(&hit.memory))).collect()
        }
        Memories::Add { text, whose, kind } => line(&desk(whose)?.add(NewMemory { text, kind }).await?),
        Memories::Forget { id, whose, purge: true } => {
            desk(whose)?.purge(id).await?;
            format!("{id} is gone for good\n")
        }
        Memories::Forget { id, whose, purge: false } => {
            desk(whose)?.forget(id).await?;
            format!("{id} is forgotten; `rondo memories restore {id}` brings it back\n")
        }
        Memories::Restore { id, whose } => line(&desk(whose)?.restore(id).await?),
        Memories::History { id, whose } => past(&desk(whose)?.history(id).await?)?,
        Memories::Export { whose, format } => desk(whose)?.export(format).await?,
        Memories::Import { file, whose } => {
            let text = read(&file).map_err(|trouble| format!("{}: {trouble}", file.display()))?;
            outcome(&desk(whose)?.import(text).await?)?
        }
        Memories::On { whose } => switched(desk(whose)?.set(true).await?),
        Memories::Off { whose } => switched(desk(whose)?.set(false).await?),
    };
    Ok(std::io::stdout().write_all(report.as_bytes())?)
}

/// Where one user's memories of one app are asked for.
struct Desk {
    app: String,
    place: Place,
}

enum Place {
    Running(Line),
    /// No server runs; the data folder is ours. The service is not started: it runs nothing.
    Own(Service, Principal),
}

impl Desk {
    fn of(config: &Config, whose: Whose) -> Result<Self, Trouble> {
        let app = whose.app.clone();
        let place = match assemble::service(config) {
            Ok(_) if whose.key.is_some() => return Err(NOBODY_ASKS.into()),
            Ok(service) => {
                let user = server::on_this_machine(whose.user.as_deref().unwrap_or(LOCAL_USER));
                Place::Own(service, user)
            }
            Err(trouble) => Place::Running(speaking(Line::instead(config, trouble)?, whose)?),
        };
        Ok(Self { app, place })
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/apps/{}/memories{rest}", self.app)
    }

    async fn list(&self, status: Status, limit: u32) -> Result<Page<MemoryView>, Trouble> {
        let status = name(&status);
        match &self.place {
            Place::Running(line) => line.get(&self.path(&format!("?status={status}&limit={limit}"))).await,
            Place::Own(service, user) => {
                let page = PageQuery { limit: Some(limit), cursor: None };
                Ok(service.memories(user, &self.app, Some(&status), page).await?)
            }
        }
    }

    async fn search(&self, query: MemoryQuery) -> Result<Page<MemoryHit>, Trouble> {
        match &self.place {
            Place::Running(line) => {
                line.ask(line.request(Method::POST, &self.path("/search")).json(&query)).await
            }
            Place::Own(service, user) => Ok(service.search_memories(user, &self.app, query).await?),
        }
    }

    async fn add(&self, new: NewMemory) -> Result<MemoryView, Trouble> {
        match &self.place {
            Place::Running(line) => line.ask(line.request(Method::POST, &self.path("")).json(&new)).await,
            Place::Own(service, user) => match service.create_memory(user, &self.app, new, None).await? {
                Added::New(memory) | Added::Known(memory) => Ok(memory),
            },
        }
    }

    async fn forget(&self, id: MemoryId) -> Result<(), Trouble> {
        match &self.place {
            Place::Running(line) => {
                line.tell(line.request(Method::DELETE, &format!("/v1/memories/{id}"))).await
            }
            Place::Own(service, user) => Ok(service.forget_memory(user, id, None).await?),
        }
    }

    async fn purge(&self, id: MemoryId) -> Result<(), Trouble> {
        match &self.place {
            Place::Running(line) => {
                line.tell(line.request(Method::DELETE, &format!("/v1/memories/{id}?purge=true"))).await
            }
            Place::Own(service, user) => Ok(service.purge_memory(user, id, None).await?),
        }
    }

    async fn restore(&self, id: MemoryId) -> Result<MemoryView, Trouble> {
        match &self.place {
            Place::Running(line) => {
                line.ask(line.request(Method::POST, &format!("/v1/memories/{id}/restore"))).await
            }
            Place::Own(service, user) => Ok(service.restore_memory(user, id, None).await?),
        }
    }

    async fn history(&self, id: MemoryId) -> Result<MemoryHistoryView, Trouble> {
        match &self.place {
            Place::Running(line) => line.get(&format!("/v1/memories/{id}/history")).await,
            Place::Own(service, user) => Ok(service.memory_history(user, id).await?),
        }
    }

    async fn export(&self, form: Form) -> Result<String, Trouble> {
        let form = name(&form);
        match &self.place {
            Place::Running(line) => {
                let request = line.request(Method::GET, &self.path(&format!("/export?format={form}")));
                line.text(request.timeout(FILE_PATIENCE)).await
            }
            Place::Own(service, user) => {
                Ok(service.export_memories(user, &self.app, form.parse::<ExportFormat>()?).await?)
            }
        }
    }

    async fn import(&self, file: String) -> Result<ImportReport, Trouble> {
        match &self.place {
            Place::Running(line) => {
                let request = line.request(Method::POST, &self.path("/import")).timeout(FILE_PATIENCE);
                line.ask(request.header(CONTENT_TYPE, "text/plain").body(file)).await
            }
            Place::Own(service, user) => Ok(service.import_memories(user, &self.app, file, None).await?),
        }
    }

    async fn set(&self, enabled: bool) -> Result<MemorySettings, Trouble> {
        let settings = MemorySettings { enabled };
        match &self.place {
            Place::Running(line) => {
                line.ask(line.request(Method::PUT, &self.path("/settings")).json(&settings)).await
            }
            Place::Own(service, user) => Ok(service.set_memory(user, &self.app, settings, None).await?),
        }
    }
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

fn switched(settings: MemorySettings) -> String {
    format!("memory is {}\n", if settings.enabled { "on" } else { "off" })
}
