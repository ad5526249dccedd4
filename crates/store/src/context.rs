//! What prompts are made of beside messages and memories: kept texts, personas, pins, summaries, documents, profiles.

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{ChunkId, DocumentId, MessageId, PinId, Principal, Scope, Seq, Summary, SummaryId, ThreadId};
use serde_json::Value;

use crate::{Error, JobRow, Once, PageOf, PageRows, Spent, TimeCursor};

/// Bytes of one text kept beside the log.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Texts kept with one event.
pub const MAX_TEXTS_PER_WRITE: usize = 2_048;
/// Bytes of a persona's prompt.
pub const MAX_PERSONA_BYTES: usize = 64 * 1024;
/// Personas of one user in one app.
pub const MAX_PERSONAS_PER_SCOPE: usize = 200;
/// Bytes of one pin.
pub const MAX_PIN_BYTES: usize = 4 * 1024;
/// Pins of one user in one app, of all threads.
pub const MAX_PINS_PER_SCOPE: usize = 2_000;
/// Summaries that one read returns at most, the newest.
pub const MAX_SUMMARIES_PER_READ: usize = 1_000;
/// Documents of one user in one app.
pub const MAX_DOCUMENTS_PER_SCOPE: usize = 1_000;
/// Pieces of one document.
pub const MAX_CHUNKS_PER_DOCUMENT: usize = 50_000;
/// Bytes of one piece.
pub const MAX_CHUNK_BYTES: usize = 4 * 1024;
/// Pieces that one read returns at most.
pub const MAX_CHUNKS_PER_READ: usize = 500;
/// Bytes of a profile's free fields as JSON.
pub const MAX_PROFILE_BYTES: usize = 16 * 1024;

/// A text kept beside the log: named by its hash, and gone when what it comes from is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewText {
    /// The id of what it comes from: a memory, a message, a document, a pin, a thread, a revision of an app.
    pub source: String,
    /// Of the text.
    pub hash: [u8; 16],
    pub text: String,
}

/// A persona of a user's own, uninterpreted: whether it can be used is for the engine to say.
#[derive(Debug, Clone, PartialEq)]
pub struct PersonaRow {
    pub id: String,
    pub name: String,
    pub prompt: String,
    /// JSON.
    pub settings: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewPersona {
    pub id: String,
    pub name: String,
    pub prompt: String,
    pub settings: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinRow {
    pub id: PinId,
    /// All threads of the app when none.
    pub thread: Option<ThreadId>,
    pub text: String,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPin {
    pub id: PinId,
    pub thread: Option<ThreadId>,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    pub id: SummaryId,
    pub level: u32,
    /// The message before the first it covers: `after_message_id` of its event, kept in a column of its own.
    pub after_message: Option<MessageId>,
    pub from_message: MessageId,
    pub to_message: MessageId,
    pub from: Seq,
    pub to: Seq,
    pub messages: u32,
    /// None when it is gone.
    pub text: Option<String>,
    /// Whether one of a higher level took its place.
    pub merged: bool,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DocumentRow {
    pub id: DocumentId,
    pub scope: Scope,
    pub name: String,
    pub title: Option<String>,
    pub kind: String,
    /// Of the upload.
    pub bytes: u64,
    /// Of its text.
    pub text_bytes: u64,
    pub pages: Option<u32>,
    pub chunks: u32,
    pub suspicious: u32,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    pub id: DocumentId,
    /// Bytes of text that all documents of the scope may have together with this one.
    pub quota: u64,
    pub name: String,
    pub title: Option<String>,
    pub kind: &'static str,
    pub bytes: u64,
    pub pages: Option<u32>,
    pub chunks: Vec<NewChunk>,
}

/// A piece of a document. Together, in order, they are its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    pub id: ChunkId,
    pub text: String,
    /// Where it stands, for people.
    pub place: String,
    pub suspicious: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkRow {
    pub id: ChunkId,
    pub document: DocumentId,
    /// The document's name.
    pub name: String,
    /// From 0, in the order of the document.
    pub number: u32,
    pub text: String,
    pub place: String,
    pub suspicious: bool,
    /// When the document was added.
    pub at: Timestamp,
}

/// What a user says of themselves, the same in every app.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileRow {
    /// Grows with each change; 0 where nothing was said.
    pub version: u64,
    pub name: Option<String>,
    pub timezone: Option<String>,
    pub locale: Option<String>,
    /// A JSON object.
    pub fields: Value,
    pub updated_at: Option<Timestamp>,
}

/// Texts beside the log. They are written with the events that name them.
#[async_trait]
pub trait Texts: Send + Sync {
    /// Each of these texts if it is still there, in the given order.
    async fn texts(&self, scope: &Scope, named: &[(String, [u8; 16])]) -> Result<Vec<Option<String>>, Error>;
}

/// Named prompts of users. Under a key ([`Once`]) a change happens once.
#[async_trait]
pub trait Personas: Send + Sync {
    /// By name. The cursor is how many come before.
    async fn personas(&self, scope: &Scope, page: PageOf<u64>) -> Result<PageRows<PersonaRow>, Error>;
    async fn persona(&self, scope: &Scope, id: &str) -> Result<Option<PersonaRow>, Error>;
    /// [`Error::Changed`] if there is one of that id, or no room.
    async fn add_persona(
        &self,
        scope: &Scope,
        persona: NewPersona,
        once: Option<Once>,
    ) -> Result<PersonaRow, Error>;
    /// [`Error::NotFound`] if there is none of that id.
    async fn change_persona(
        &self,
        scope: &Scope,
        persona: NewPersona,
        once: Option<Once>,
    ) -> Result<PersonaRow, Error>;
    /// Removes it, also as the default of threads.
    async fn delete_persona(&self, scope: &Scope, id: &str, once: Option<Once>) -> Result<(), Error>;
}

/// What users marked as important.
#[async_trait]
pub trait Pins: Send + Sync {
    /// The thread must be the scope's. [`Error::Changed`] when there is no room.
    async fn add_pin(&self, scope: &Scope, pin: NewPin, once: Option<Once>) -> Result<PinRow, Error>;
    /// Oldest first: those of the thread and those of all threads; the latter alone without a thread.
    async fn pins(&self, scope: &Scope, thread: Option<ThreadId>) -> Result<Vec<PinRow>, Error>;
    /// A page of these. The cursor is how many come before.
    async fn pin_page(
        &self,
        scope: &Scope,
        thread: Option<ThreadId>,
        page: PageOf<u64>,
    ) -> Result<PageRows<PinRow>, Error>;
    /// Removes it and what prompts kept of it. Removing what is gone is [`Error::NotFound`].
    async fn delete_pin(&self, principal: &Principal, id: PinId, once: Option<Once>) -> Result<(), Error>;
}

/// What stands for older parts of conversations.
#[async_trait]
pub trait Summaries: Send + Sync {
    /// In the order of the log, at most [`MAX_SUMMARIES_PER_READ`], the newest: those no other took the place of, or all.
    async fn summaries(&self, thread: ThreadId, all: bool) -> Result<Vec<SummaryRow>, Error>;
    /// A page of them in the order of the log, from the oldest on. The cursor is how many come before.
    async fn summary_page(
        &self,
        thread: ThreadId,
        all: bool,
        page: PageOf<u64>,
    ) -> Result<PageRows<SummaryRow>, Error>;
    /// Commits a summary, its text, the job as done and what it spent, together. Nothing is changed where the thread is
    /// deleted, another summary of the same level ends at the same message, or one it merges is merged already.
    async fn summarise(
        &self,
        job: &JobRow,
        summary: Option<(Summary, String)>,
        spent: Option<Spent>,
    ) -> Result<(), Error>;
}

/// What users uploaded.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Adds it with all of its pieces, a few at a time; nobody sees it before the last. One that was left half is purged.
    async fn add_document(
        &self,
        scope: &Scope,
        document: NewDocument,
        once: Option<Once>,
    ) -> Result<DocumentRow, Error>;
    /// The document that was made under this key, if any.
    async fn document_made(&self, scope: &Scope, once: &Once) -> Result<Option<DocumentRow>, Error>;
    async fn document(&self, principal: &Principal, id: DocumentId) -> Result<DocumentRow, Error>;
    /// Newest first.
    async fn documents(
        &self,
        scope: &Scope,
        page: PageOf<TimeCursor<DocumentId>>,
    ) -> Result<PageRows<DocumentRow>, Error>;
    /// How many of its pieces have a vector of this model.
    async fn document_embedded(&self, id: DocumentId, model: &str) -> Result<u32, Error>;
    /// Hides it at once, with every piece and every text that prompts kept of it; [`crate::Maintenance::purge`] removes
    /// the rows.
    async fn delete_document(
        &self,
        principal: &Principal,
        id: DocumentId,
        once: Option<Once>,
    ) -> Result<(), Error>;
    /// Its pieces from a number on, at most `limit` and [`MAX_CHUNKS_PER_READ`].
    async fn chunks(
        &self,
        scope: &Scope,
        document: DocumentId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, Error>;
}

/// What users say of themselves: to all apps, or to one. A scope without an app stands for all of them.
#[async_trait]
pub trait Profiles: Send + Sync {
    /// What was said in exactly this scope; empty if nothing was.
    async fn profile(&self, scope: &Scope) -> Result<ProfileRow, Error>;
    /// Puts it in the place of the one of its version; [`Error::Changed`] if there is another by now. Under a key
    /// ([`Once`]) that happens once; a second time gives what there is now.
    async fn put_profile(
        &self,
        scope: &Scope,
        profile: ProfileRow,
        once: Option<Once>,
    ) -> Result<ProfileRow, Error>;
}
