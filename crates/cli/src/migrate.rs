//! `rondo migrate-from`: conversations and memories of other products, through the HTTP API.
//!
//! A file is read as a stream: one conversation at a time is turned into turns and sent, so a large export needs no more
//! memory than its largest conversation. A conversation that was imported before is found again by its id.

mod chatgpt;
mod langgraph;
mod letta;
mod reading;
#[cfg(test)]
mod tests;
mod turns;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use protocol::{ImportReport, ImportedThread, ThreadToImport};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api_client::{ApiClient, UserOptions};
use crate::config::Config;
use crate::pull::progress::Progress;
use crate::terminal_text::printable;
use crate::{CommandResult, print};
use reading::Reading;

/// How long the server may take to store one conversation, or a batch of memories.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Conversations that are read ahead of the one that is sent.
const READ_AHEAD: usize = 2;

/// Memories that are sent at once.
const MEMORIES_AT_ONCE: usize = 1_000;

/// Problems that a report names.
const MAX_PROBLEMS: usize = 20;

/// Bytes of a file from which on its reader is told how far the import is.
const LARGE_BYTES: u64 = 16 * 1024 * 1024;

#[derive(clap::Args)]
pub(crate) struct MigrateOptions {
    /// The product that the file comes from
    from: MigrationSource,
    #[arg(
        help = "The file: conversations.json or the ZIP archive of ChatGPT, an agent file (.af) of Letta, or threads of LangGraph"
    )]
    file: PathBuf,
    #[command(flatten)]
    user: UserOptions,
    /// Count what would be imported, and import nothing
    #[arg(long)]
    dry_run: bool,
}

/// A product whose files can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MigrationSource {
    Chatgpt,
    Letta,
    Langgraph,
}

/// One thing that a file has.
#[derive(Debug, Clone, PartialEq)]
enum FoundItem {
    Conversation(ThreadToImport),
    Memory(FoundMemory),
    /// Why an entry of the file is left out, and where it stands.
    Problem(String),
}

#[derive(Debug, Clone, PartialEq)]
struct FoundMemory {
    text: String,
    at: Option<Timestamp>,
    /// The origin of the memory, in a word or a line.
    source: String,
}

/// The outcome of the import of a file.
#[derive(Debug, Default)]
struct MigrationReport {
    conversations: u64,
    turns: u64,
    already_there: u64,
    memories: u64,
    duplicates: u64,
    problems: u64,
    /// The first of them.
    named: Vec<String>,
}

pub(crate) async fn migrate(config: Config, options: MigrateOptions) -> CommandResult {
    let MigrateOptions { from, file, user, dry_run } = options;
    let reading = Reading::open(&file).map_err(|trouble| format!("{}: {trouble}", file.display()))?;
    let api = match dry_run {
        true => None,
        false => Some((ApiClient::open_as(&config, user.clone()).await?, user.app)),
    };
    let report = take_in(reading, from, api.as_ref()).await;
    if let Some((api, _)) = api {
        api.close().await;
    }
    let report = report.map_err(|trouble| format!("{}: {trouble}", file.display()))?;
    print(&report.text(dry_run)?)?;
    match report.problems {
        0 => Ok(()),
        problems => Err(format!("{problems} entries of the file were not imported").into()),
    }
}

/// Reads all of a file in a thread of its own, and sends what it has.
async fn take_in(
    reading: Reading,
    from: MigrationSource,
    api: Option<&(ApiClient, String)>,
) -> CommandResult<MigrationReport> {
    let (found, mut items) = mpsc::channel(READ_AHEAD);
    let (total, place) = (reading.total(), reading.place());
    let reader = tokio::task::spawn_blocking(move || reading.read_items(from, &found));
    let mut progress = (total >= LARGE_BYTES).then(|| Progress::start("importing", 0, Some(total)));
    let mut report = MigrationReport::default();
    let mut memories = Vec::new();
    while let Some(item) = items.recv().await {
        match item {
            FoundItem::Conversation(thread) => report.take_conversation(api, thread).await?,
            FoundItem::Memory(memory) => memories.push(memory),
            FoundItem::Problem(problem) => report.note(problem),
        }
        if memories.len() >= MEMORIES_AT_ONCE {
            report.take_memories(api, std::mem::take(&mut memories)).await?;
        }
        if let Some(progress) = &mut progress {
            progress.show_done(place.bytes());
        }
    }
    report.take_memories(api, memories).await?;
    reader.await.map_err(|_| "the file could not be read to its end")?.map_err(|trouble| {
        let so_far = report.conversations + report.already_there;
        format!(
            "{trouble}; {so_far} conversations before that place are imported, and a second import goes on"
        )
    })?;
    Ok(report)
}

impl MigrationReport {
    fn note(&mut self, problem: String) {
        self.problems += 1;
        if self.named.len() < MAX_PROBLEMS {
            self.named.push(problem);
        }
    }

    /// Sends a conversation. One that the server refuses is noted, and the others go on.
    async fn take_conversation(
        &mut self,
        api: Option<&(ApiClient, String)>,
        thread: ThreadToImport,
    ) -> CommandResult {
        let turns = thread.turns.len() as u64;
        let Some((api, app)) = api else {
            (self.conversations, self.turns) = (self.conversations + 1, self.turns + turns);
            return Ok(());
        };
        let request = api.request(Method::POST, &format!("/v1/apps/{app}/threads/import")).json(&thread);
        match api.read::<ImportedThread>(request.timeout(PATIENCE)).await {
            Ok(imported) if imported.already_there => self.already_there += 1,
            Ok(_) => (self.conversations, self.turns) = (self.conversations + 1, self.turns + turns),
            Err(refusal) => self.note(format!("conversation {:?}: {refusal}", thread.source_id)),
        }
        Ok(())
    }

    async fn take_memories(
        &mut self,
        api: Option<&(ApiClient, String)>,
        memories: Vec<FoundMemory>,
    ) -> CommandResult {
        let Some((api, app)) = api.filter(|_| !memories.is_empty()) else {
            self.memories += memories.len() as u64;
            return Ok(());
        };
        let request = api.request(Method::POST, &format!("/v1/apps/{app}/memories/import"));
        let request = request.header(CONTENT_TYPE, "text/plain").body(memory_file(&memories));
        let ImportReport { imported, duplicates, refused } = api.read(request.timeout(PATIENCE)).await?;
        self.memories += imported;
        self.duplicates += duplicates;
        for one in refused {
            let index = usize::try_from(one.index).unwrap_or(usize::MAX);
            let source = memories.get(index).map_or("", |memory| memory.source.as_str());
            self.note(format!("memory of {source}: {}", one.reason));
        }
        Ok(())
    }

    fn text(&self, dry_run: bool) -> CommandResult<String> {
        let Self { conversations, turns, already_there, memories, duplicates, .. } = self;
        let mut text = String::new();
        if dry_run {
            writeln!(text, "nothing is imported; the file has:")?;
        }
        writeln!(text, "conversations  {conversations}\nturns          {turns}\nmemories       {memories}")?;
        if !dry_run {
            writeln!(text, "already there  {already_there}\nduplicates     {duplicates}")?;
        }
        if self.problems > 0 {
            writeln!(text, "left out       {}", self.problems)?;
        }
        for problem in &self.named {
            writeln!(text, "  {}", printable(problem))?;
        }
        Ok(text)
    }
}

/// Memories in the form that the server imports.
fn memory_file(memories: &[FoundMemory]) -> String {
    let memory = |FoundMemory { text, at, source }: &FoundMemory| {
        let mut memory = json!({ "text": text, "source": source });
        if let (Some(at), Some(fields)) = (at, memory.as_object_mut()) {
            fields.insert("createdAt".into(), Value::from(at.to_string()));
        }
        memory
    };
    let memories: Vec<Value> = memories.iter().map(memory).collect();
    json!({ "format": "rondo.memories", "version": 1, "memories": memories }).to_string()
}
