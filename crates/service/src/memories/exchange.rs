//! Memories taken along as a file, and brought from one.

use agent::embed_soon;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use memory::exchange::{self, ExchangeFormat, ExportedMemory};
use memory::extract::is_duplicate;
use memory::{secrets, suspicion};
use protocol::{ImportRefused, ImportReport, MemoryStatus, Principal, Scope};
use store::{
    IdempotencyClaim, MAX_MEMORIES_PER_SCOPE, MemoryRow, NewMemoryRow, PageOf, PageRows, TimeCursor,
};

use crate::{Error, Service};

/// Bytes of a file of memories.
pub const MAX_IMPORT_BYTES: usize = exchange::MAX_FILE_BYTES;

/// Memories read at once.
const PAGE: usize = 1_000;

/// Bytes of texts that one file holds at most, because it is made in one piece.
const MAX_EXPORT_BYTES: usize = 64 * 1024 * 1024;

/// Memories of a file that are added at once, because then they share a commit.
const BATCH: usize = 32;

const IMPORTED: &str = "import";

const ORDERS: &str = "is an instruction to an assistant, not a fact";
const FULL: &str = "the user has the maximum number of memories";

/// A memory of a file, or why it is not wanted.
type Judged = Result<ExportedMemory, String>;

/// The fate of one memory of a file.
enum Fate {
    Imported,
    Duplicate,
    Refused(String),
}

impl Service {
    /// The format of an export by its name. JSON is the default.
    pub fn export_format(name: Option<&str>) -> Result<ExchangeFormat, Error> {
        match name {
            None | Some("json") => Ok(ExchangeFormat::Json),
            Some("markdown") => Ok(ExchangeFormat::Markdown),
            Some("mem0") => Ok(ExchangeFormat::Mem0),
            Some(_) => Err(Error::invalid("format", "must be json, markdown or mem0")),
        }
    }

    /// All active memories as a file, oldest first.
    pub async fn export_memories(
        &self,
        principal: &Principal,
        app: &str,
        format: ExchangeFormat,
    ) -> Result<String, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let mut all = self.all_active(&scope).await?;
        all.reverse();
        run_blocking(move || exchange::write(&all, format)).await
    }

    /// Newest first.
    async fn all_active(&self, scope: &Scope) -> Result<Vec<ExportedMemory>, Error> {
        let (mut all, mut after, mut bytes) = (Vec::new(), None, 0);
        while all.len() < MAX_MEMORIES_PER_SCOPE {
            let PageRows { rows, more } = self
                .store()
                .memories(scope, Some(MemoryStatus::Active), PageOf { after, limit: PAGE })
                .await?;
            after = rows.last().map(|row| TimeCursor { at: row.created_at, id: row.id });
            bytes += rows.iter().map(|row| row.text.len()).sum::<usize>();
            all.extend(rows.into_iter().map(exported_memory));
            if bytes > MAX_EXPORT_BYTES {
                let message = "the memories are too large for one file; read them as a list, page by page";
                return Err(Error::Conflict { code: "export_too_large", message: message.into() });
            }
            if !more {
                break;
            }
        }
        Ok(all)
    }

    /// Adds what a file says and is neither known nor unwanted. If it ends in the middle, the same file again adds the
    /// rest.
    pub async fn import_memories(
        &self,
        principal: &Principal,
        app: &str,
        file: String,
        once: Option<IdempotencyClaim>,
    ) -> Result<ImportReport, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        self.refuse_if_off(&scope).await?;
        let now = self.now();
        let judged = run_blocking(move || judge_file(&file, now)).await??;
        if let Some(once) = &once {
            self.store().begin_import(&scope, once.clone()).await?;
        }
        let mut report = ImportReport::default();
        for (number, batch) in judged.chunks(BATCH).enumerate() {
            let first = number * BATCH;
            for (index, fate) in (first..).zip(self.take_in(&scope, batch, first, once.as_ref()).await?) {
                match fate {
                    Fate::Imported => report.imported += 1,
                    Fate::Duplicate => report.duplicates += 1,
                    Fate::Refused(reason) => {
                        report.refused.push(ImportRefused { index: index as u64, reason });
                    }
                }
            }
        }
        embed_soon(self.world(), &scope).await;
        Ok(report)
    }

    /// `first` is the place of the first one in the file.
    async fn take_in(
        &self,
        scope: &Scope,
        batch: &[Judged],
        first: usize,
        once: Option<&IdempotencyClaim>,
    ) -> Result<Vec<Fate>, Error> {
        let now = self.now();
        let (mut fates, mut wanted) = (Vec::new(), Vec::<&ExportedMemory>::new());
        for judged in batch {
            let fate = match judged {
                Err(reason) => Some(Fate::Refused(reason.clone())),
                Ok(memory) if self.is_known(scope, memory, &wanted, now).await? => Some(Fate::Duplicate),
                Ok(memory) => {
                    wanted.push(memory);
                    None
                }
            };
            fates.push(fate);
        }
        let settle = |((index, judged), fate): ((usize, &Judged), Option<Fate>)| {
            let (memory, once) = (judged.clone(), once.map(|once| part(once, index)));
            async move {
                match (fate, memory) {
                    (Some(fate), _) => Ok(fate),
                    (None, Ok(memory)) => self.put(scope, memory, once).await,
                    (None, Err(reason)) => Ok(Fate::Refused(reason)),
                }
            }
        };
        try_join_all((first..).zip(batch).zip(fates).map(settle)).await
    }

    /// Whether it says what is remembered already, or what another one says that is about to be.
    async fn is_known(
        &self,
        scope: &Scope,
        memory: &ExportedMemory,
        wanted: &[&ExportedMemory],
        now: Timestamp,
    ) -> Result<bool, Error> {
        let is_same = |other: &&ExportedMemory| is_duplicate(&memory.text, &other.text, None);
        Ok(wanted.iter().any(is_same) || self.recall().duplicate(scope, &memory.text, now).await?.is_some())
    }

    async fn put(
        &self,
        scope: &Scope,
        memory: ExportedMemory,
        once: Option<IdempotencyClaim>,
    ) -> Result<Fate, Error> {
        let id = self.world().ids.memory();
        let new = NewMemoryRow {
            id,
            text: memory.text,
            kind: memory.kind,
            source: IMPORTED,
            sources: Vec::new(),
            valid_from: memory.valid_from,
            // From the future, it would stay at the head of every list.
            created_at: Some(memory.created_at.min(self.now())),
        };
        match self.store().add_memory(scope, new, once).await {
            Ok(row) if row.id == id => Ok(Fate::Imported),
            Ok(_) => Ok(Fate::Duplicate), // it was made under this key before, or a moment ago
            Err(store::Error::MemoriesFull) => Ok(Fate::Refused(FULL.to_owned())),
            Err(error) => Err(error.into()),
        }
    }
}

fn exported_memory(row: MemoryRow) -> ExportedMemory {
    let MemoryRow { text, kind, created_at, valid_from, source, .. } = row;
    ExportedMemory { text, kind, created_at, valid_from, source: Some(source) }
}

fn judge_file(file: &str, now: Timestamp) -> Result<Vec<Judged>, Error> {
    let read = exchange::read(file, now).map_err(|error| Error::invalid("file", error.to_string()))?;
    let judge = |memory: ExportedMemory| match secrets::find(&memory.text) {
        Some(secret) => Err(format!("looks like {}, and secrets are not remembered", secret.kind)),
        None if suspicion::is_instruction(&memory.text) => Err(ORDERS.to_owned()),
        None => Ok(memory),
    };
    Ok(read.into_iter().map(judge).collect())
}

/// The key under which one memory of a file is added. It has a space, as no key of a client has.
fn part(once: &IdempotencyClaim, index: usize) -> IdempotencyClaim {
    IdempotencyClaim { key: format!("{} {index}", once.key), fingerprint: once.fingerprint }
}

/// Works on a whole file in a thread where it does not block other requests.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal)
}
