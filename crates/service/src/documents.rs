//! Documents as the outside asks for them: uploaded, read as text, kept in pieces, searched, deleted.

use std::sync::Arc;
use std::time::Duration;

use agent::embed_soon;
use memory::documents::{self, DocumentKind, DocumentProblem, ExtractedDocument};
use memory::recall::Passage;
use memory::suspicion;
use protocol::{
    DocumentHit, DocumentId, DocumentProgress, DocumentQuery, DocumentStatus, DocumentText, DocumentView,
    Page, Principal, Scope,
};
use store::{DocumentRow, IdempotencyClaim, MAX_CHUNKS_PER_READ, NewChunk, NewDocument};

use crate::checks::{self, PageQuery, time_cursor};
use crate::{Error, Service};

/// How long an upload waits for those before it to be read.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

/// Seconds after which an upload that found no turn may be sent again.
const TURN_RETRY_AFTER: u32 = 10;

/// Bytes of a document's text that are shown at once; a single piece is always shown.
const MAX_SHOWN_BYTES: usize = 64 * 1024;

/// Bytes of text that the documents of one user in one app may have, if the configuration has no
/// number: four of the longest, or sixteen thousand pages.
pub const DEFAULT_DOCUMENT_BYTES: u64 = 32 * 1024 * 1024;

/// Documents that one search may be narrowed to.
const MAX_NAMED: usize = 50;

impl Service {
    /// Bytes of an upload.
    pub const MAX_UPLOAD_BYTES: usize = documents::MAX_DOCUMENT_BYTES;

    /// The error for an upload of more bytes.
    pub fn upload_too_large() -> Error {
        document_refusal(&DocumentProblem::TooLarge { what: "bytes", limit: Self::MAX_UPLOAD_BYTES })
    }

    /// Reads an upload, by its name, the media type it is said to have, and its bytes. It can be found by its words
    /// once this returns, and by its meaning soon after. Under a key that was used before, it is the document of then.
    pub async fn add_document(
        &self,
        principal: &Principal,
        app: &str,
        (name, declared, bytes): (String, Option<String>, Vec<u8>),
        once: Option<IdempotencyClaim>,
    ) -> Result<DocumentView, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let name = checks::name(&name)?;
        if let Some(once) = &once
            && let Some(made) = self.store().document_made(&scope, once).await?
        {
            return self.document_view(made).await;
        }
        let kind = documents::kind(&name, declared.as_deref(), &bytes)
            .map_err(|problem| document_refusal(&problem))?;
        let size = bytes.len() as u64;
        let mut extracted = self.extract(kind, bytes).await?;
        let (id, title, pages) = (self.world().ids.document(), extracted.title.take(), extracted.pages);
        let chunks = self.pieces(extracted).await?;
        let (kind, quota) = (kind.name(), self.shared.document_bytes);
        let document = NewDocument { id, quota, name, title, kind, bytes: size, pages, chunks };
        let service = self.clone();
        self.world()
            .tasks
            .finish(async move {
                let row = match service.store().add_document(&scope, document, once).await {
                    // A document in order is refused only where there is no room.
                    Err(store::Error::Changed(message)) => {
                        return Err(Error::Conflict { code: "documents_full", message });
                    }
                    added => added?,
                };
                embed_soon(service.world(), &scope).await;
                service.document_view(row).await
            })
            .await
    }

    /// Newest first.
    pub async fn documents(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<DocumentView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let page = self.store().documents(&scope, page.by_time()?).await?;
        let next = page.rows.last().filter(|_| page.more).map(|row| time_cursor(row.created_at, row.id));
        let mut data = Vec::with_capacity(page.rows.len());
        for row in page.rows {
            data.push(self.document_view(row).await?);
        }
        Ok(Page { data, next })
    }

    pub async fn document(&self, principal: &Principal, document: DocumentId) -> Result<DocumentView, Error> {
        let row = self.document_row(principal, document).await?;
        self.document_view(row).await
    }

    /// As much of its text as is shown at once, from a piece on.
    pub async fn document_text(
        &self,
        principal: &Principal,
        document: DocumentId,
        from: u32,
    ) -> Result<DocumentText, Error> {
        let row = self.document_row(principal, document).await?;
        let chunks = self.store().chunks(&row.scope, document, from, MAX_CHUNKS_PER_READ).await?;
        let (mut text, mut next) = (String::new(), from);
        for chunk in chunks {
            if !text.is_empty() && text.len() + chunk.text.len() > MAX_SHOWN_BYTES {
                break;
            }
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&chunk.text);
            next = chunk.number + 1;
        }
        let total = row.chunks;
        let next = Some(next).filter(|next| *next > from && *next < total);
        Ok(DocumentText { id: document, from, text, next, total })
    }

    /// From here on no search finds it and no prompt holds it.
    pub async fn delete_document(
        &self,
        principal: &Principal,
        document: DocumentId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        if let Ok(row) = self.store().document(principal, document).await
            && !principal.may_use(&row.scope.app)
        {
            return Err(Error::NotFound { what: "document" });
        }
        let (service, principal) = (self.clone(), principal.clone());
        self.world()
            .tasks
            .finish(async move {
                service.store().delete_document(&principal, document, once).await?;
                service.world().sweeper.sweep();
                Ok(())
            })
            .await
    }

    /// The pieces nearest to a question, best first.
    pub async fn search_documents(
        &self,
        principal: &Principal,
        app: &str,
        query: DocumentQuery,
    ) -> Result<Page<DocumentHit>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let (text, limit) = (checks::question("query", &query.query)?, checks::hits(query.limit)?);
        let named = &query.document_ids;
        if named.len() > MAX_NAMED {
            return Err(Error::invalid("documentIds", format!("must name at most {MAX_NAMED} documents")));
        }
        for id in named {
            let owner = self.document_row(principal, *id).await?.scope;
            if owner != scope && owner != Scope::of_app(scope.app.clone()) {
                return Err(Error::NotFound { what: "document" });
            }
        }
        let among = Some(named.as_slice()).filter(|named| !named.is_empty());
        let found = self.recall().all_passages(&scope, text, among, limit).await?;
        Ok(Page { data: found.into_iter().map(hit).collect(), next: None })
    }

    /// Waits for its turn, then reads.
    async fn extract(&self, kind: DocumentKind, bytes: Vec<u8>) -> Result<ExtractedDocument, Error> {
        let turn = tokio::time::timeout(TURN_PATIENCE, self.shared.extracting_documents.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Error::Unavailable {
                message: "the server is still reading other uploads; send this one again later".into(),
                retry_after: TURN_RETRY_AFTER,
            });
        };
        self.shared.extractor.extract(kind, bytes).await.map_err(|problem| document_refusal(&problem))
    }

    /// Cut on a thread of its own: a document may be as long as a shelf of books.
    pub(crate) async fn pieces(&self, extracted: ExtractedDocument) -> Result<Vec<NewChunk>, Error> {
        let ids = Arc::clone(&self.world().ids);
        let cut = move || {
            let piece = |chunk: documents::DocumentChunk| NewChunk {
                id: ids.chunk(),
                suspicious: suspicion::is_instruction(&chunk.text),
                text: chunk.text,
                place: chunk.place,
            };
            documents::chunks(&extracted).into_iter().map(piece).collect()
        };
        tokio::task::spawn_blocking(cut).await.map_err(|_| Error::Internal)
    }

    pub(crate) async fn document_row(
        &self,
        principal: &Principal,
        document: DocumentId,
    ) -> Result<DocumentRow, Error> {
        let row = self.store().document(principal, document).await?;
        // Documents of an app that is not served are hidden from all users.
        let is_served = !row.scope.is_of_app() || self.world().apps.get(&row.scope.app).is_some();
        if principal.may_use(&row.scope.app) && is_served {
            return Ok(row);
        }
        Err(Error::NotFound { what: "document" })
    }

    pub(crate) async fn document_view(&self, row: DocumentRow) -> Result<DocumentView, Error> {
        let done = match self.recall().model() {
            Some(model) => self.store().document_embedded(row.id, model).await?,
            None => row.chunks,
        };
        Ok(DocumentView {
            id: row.id,
            name: row.name,
            title: row.title,
            kind: row.kind,
            bytes: row.bytes,
            pages: row.pages,
            status: if done >= row.chunks { DocumentStatus::Ready } else { DocumentStatus::Indexing },
            progress: DocumentProgress { done, total: row.chunks },
            suspicious: row.suspicious,
            knowledge: row.scope.is_of_app(),
            created_at: row.created_at,
        })
    }
}

/// The refusal of a document, with the message of the parser that could not read it.
fn document_refusal(problem: &DocumentProblem) -> Error {
    Error::Conflict { code: problem.code(), message: problem.to_string() }
}

fn hit(found: Passage) -> DocumentHit {
    let Passage { chunk, score, of_app } = found;
    DocumentHit {
        document_id: chunk.document,
        name: chunk.name,
        place: chunk.place,
        text: chunk.text,
        score: score.clamp(0.0, 1.0),
        knowledge: of_app,
    }
}
