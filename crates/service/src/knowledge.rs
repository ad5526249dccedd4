//! Knowledge: the documents of apps. They are brought together with their folders in the background, and shown to all
//! users of the app.
//!
//! The folder is the truth, and the hash of each file says whether its document is still made of it. So an update can be
//! cut anywhere, and the next one goes on. A file that cannot be read is a problem of the app, and leaves the document that
//! was made of an earlier version as it is.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use agent::embed_soon;
use app::{App, KnowledgeFile, KnowledgeFolder, MAX_KNOWLEDGE_FILE_BYTES, Problem};
use futures_util::FutureExt;
use memory::documents::{self, DocumentKind, DocumentProblem, ExtractedDocument};
use protocol::{AppId, DocumentView, Page, Principal, Scope};
use sha2::{Digest, Sha256};
use store::rules::knowledge::{KnowledgeSize, StoredKnowledge, check_room, is_same, removed_documents};
use store::{MAX_DOCUMENTS_PER_SCOPE, NewDocument, PageOf};
use tokio::task::spawn_blocking;

use crate::checks::PageQuery;
use crate::{Error, Extractor, Service};

/// Times an update is tried again after the store failed it, and the first pause, which doubles.
const MAX_FAILURES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The way in which files are read. Another number reads all of them again.
const READING: &[u8] = b"1";

/// Bytes beyond which no document is read at all.
const _: () = assert!(MAX_KNOWLEDGE_FILE_BYTES <= documents::MAX_DOCUMENT_BYTES as u64);

impl Service {
    /// The documents of an app by name.
    pub async fn knowledge(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<DocumentView>, Error> {
        let (_, app) = self.share_of(principal, app)?;
        let asked = page.by_position()?;
        let found = self.store().knowledge(&app.id, asked).await?;
        let seen = asked.after.unwrap_or(0).saturating_add(found.rows.len() as u64);
        let mut data = Vec::with_capacity(found.rows.len());
        for row in found.rows {
            data.push(self.document_view(row.document).await?);
        }
        Ok(Page { data, next: found.more.then(|| seen.to_string()) })
    }

    /// Brings the documents of an app together with its folder, in the background. An update that is under way is
    /// followed by one more.
    pub fn update_knowledge(&self, app: &AppId) {
        if self.shared.knowledge.ask(app) {
            self.world().tasks.spawn(update(self.clone(), app.clone()));
        }
    }

    /// Brings the documents of all apps together with their folders.
    pub(crate) fn update_all_knowledge(&self) {
        for app in self.world().apps.all().keys() {
            self.update_knowledge(app);
        }
    }

    /// One update. Gives the problems of the folder.
    async fn read_knowledge(&self, app: &App) -> Result<Vec<Problem>, store::Error> {
        let (store, id) = (self.store(), &app.id);
        let folder = if app.knowledge.enabled { look_through(app).await } else { KnowledgeFolder::default() };
        let KnowledgeFolder { files, mut problems, is_partial } = folder;
        let stored = self.stored_knowledge(id).await?;
        let gone = removed_documents(&stored, is_partial, files.iter().map(|file| file.name.as_str()));
        for document in &gone {
            store.delete_knowledge(id, *document).await?;
        }
        let mut added = 0_usize;
        for file in files {
            match self.take_up_file(id, file, &stored, added == 0).await? {
                Ok(is_new) => added += usize::from(is_new),
                Err(problem) => problems.push(problem),
            }
        }
        if added > 0 || !gone.is_empty() {
            tracing::info!(app = %id, added, removed = gone.len(), "the app's documents are brought up to date");
            embed_soon(self.world(), &Scope::of_app(id.clone())).await;
            self.world().sweeper.sweep();
        }
        Ok(problems)
    }

    async fn stored_knowledge(&self, app: &AppId) -> Result<StoredKnowledge, store::Error> {
        let all = PageOf { after: None, limit: MAX_DOCUMENTS_PER_SCOPE };
        let rows = self.store().knowledge(app, all).await?.rows;
        Ok(rows.into_iter().map(|row| (row.document.name, (row.document.id, row.hash))).collect())
    }

    /// Makes a document of a file, unless it is stored as it is. True if it is new.
    async fn take_up_file(
        &self,
        app: &AppId,
        file: KnowledgeFile,
        stored: &StoredKnowledge,
        is_first: bool,
    ) -> Result<Result<bool, Problem>, store::Error> {
        let (bytes, hash) = match contents(&file).await {
            Ok(read) => read,
            Err(problem) => return Ok(Err(problem)),
        };
        if is_same(stored, &file.name, &hash) {
            return Ok(Ok(false));
        }
        let size = bytes.len() as u64;
        let turn = self.shared.extracting_documents.acquire().await.map_err(|_| store::Error::Closed)?;
        let extracted = extract_file(&*self.shared.extractor, &file, bytes).await;
        drop(turn);
        let (kind, mut extracted) = match extracted {
            Ok(extracted) => extracted,
            Err(problem) => return Ok(Err(problem)),
        };
        let (title, pages) = (extracted.title.take(), extracted.pages);
        let chunks = self.pieces(extracted).await.map_err(|_| store::Error::Closed)?;
        if is_first {
            self.store().discard_unfinished_knowledge(app).await?; // of a process that is gone
        }
        let document = NewDocument {
            id: self.world().ids.document(),
            quota: u64::MAX,
            name: file.name.clone(),
            title,
            kind: kind.name(),
            bytes: size,
            pages,
            chunks,
        };
        match self.store().put_knowledge(app, hash, document).await {
            Ok(_) => Ok(Ok(true)),
            // A document in order is refused only where there is no room.
            Err(store::Error::Changed(message)) => Ok(Err(file_problem(&file, &message))),
            Err(error) => Err(error),
        }
    }
}

/// Updates the documents of an app until no other update is requested.
async fn update(service: Service, app: AppId) {
    loop {
        if AssertUnwindSafe(update_once(&service, &app)).catch_unwind().await.is_err() {
            tracing::error!(%app, "updating the app's documents panicked; the next update tries again");
        }
        if !service.shared.knowledge.is_wanted_again(&app) {
            return;
        }
    }
}

/// One update. While the store fails for a moment, such as on a full disk, it waits.
async fn update_once(service: &Service, id: &AppId) {
    let updates = &service.shared.knowledge;
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_FAILURES {
        let Ok(_turn) = updates.turn.acquire().await else { return };
        let Some(app) = service.world().app(id) else { return };
        match service.read_knowledge(&app).await {
            Ok(problems) => {
                for problem in updates.note(&app, &problems) {
                    tracing::warn!(app = %id, "a document of the app is not up to date: {problem}");
                }
                return;
            }
            Err(error) if error.may_pass() => {
                tracing::warn!(app = %id, %error, "the app's documents were not updated; it will be tried again");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(store::Error::Closed) => return,
            Err(error) => {
                tracing::error!(app = %id, %error, "the app's documents were not updated; the next start tries again");
                return;
            }
        }
    }
}

/// All problems of the documents of an app: each of them is read, and nothing is stored.
pub async fn knowledge_problems(app: &App, extractor: &dyn Extractor) -> Vec<Problem> {
    if !app.knowledge.enabled {
        return Vec::new();
    }
    let KnowledgeFolder { files, mut problems, .. } = look_through(app).await;
    let mut held = KnowledgeSize::default();
    for file in files {
        let read = async {
            let (bytes, _) = contents(&file).await?;
            let (_, extracted) = extract_file(extractor, &file, bytes).await?;
            let size = spawn_blocking(move || size_of(&extracted)).await.unwrap_or_default();
            check_room(held, size).map_err(|error| file_problem(&file, &error.to_string()))?;
            Ok(size)
        };
        match read.await {
            Ok(size) => {
                held.chunks += size.chunks;
                held.text_bytes += size.text_bytes;
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

fn size_of(extracted: &ExtractedDocument) -> KnowledgeSize {
    let chunks = documents::chunks(extracted);
    let text_bytes = chunks.iter().map(|chunk| chunk.text.len() as u64).sum();
    KnowledgeSize { chunks: chunks.len() as u64, text_bytes }
}

async fn look_through(app: &App) -> KnowledgeFolder {
    let folder = app.folder.clone();
    let looked = spawn_blocking(move || KnowledgeFolder::of_app(&folder)).await;
    looked.unwrap_or_else(|_| KnowledgeFolder { is_partial: true, ..KnowledgeFolder::default() })
}

/// The bytes of a file, and their hash.
async fn contents(file: &KnowledgeFile) -> Result<(Vec<u8>, [u8; 32]), Problem> {
    let reading = file.clone();
    let read = move || {
        let bytes = reading.read()?;
        let hash = Sha256::new().chain_update(READING).chain_update(&bytes).finalize();
        Ok((bytes, hash.into()))
    };
    let failed = |_| Problem::of(&file.path, "reading it failed", "start the server again");
    spawn_blocking(read).await.map_err(failed)?
}

async fn extract_file(
    extractor: &dyn Extractor,
    file: &KnowledgeFile,
    bytes: Vec<u8>,
) -> Result<(DocumentKind, ExtractedDocument), Problem> {
    let problem = |problem: DocumentProblem| file_problem(file, &problem.to_string());
    let kind = documents::kind(&file.name, None, &bytes).map_err(problem)?;
    let extracted = extractor.extract(kind, bytes).await.map_err(problem)?;
    Ok((kind, extracted))
}

/// A problem of a file, from a sentence that ends in a remedy after a colon.
fn file_problem(file: &KnowledgeFile, sentence: &str) -> Problem {
    let (message, remedy) = sentence.rsplit_once(": ").unwrap_or((sentence, "change the file"));
    Problem::of(&file.path, message, remedy)
}
