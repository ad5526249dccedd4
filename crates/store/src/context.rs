//! Parts of prompts besides messages and memories: kept texts, personas, pins, summaries, documents, profiles.

use jiff::Timestamp;
use protocol::{ChunkId, DocumentId, ImageId, MessageId, PinId, Scope, Seq, SummaryId, ThreadId};
use serde_json::Value;

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
/// Images of one user in one app.
pub const MAX_IMAGES_PER_SCOPE: usize = 2_000;
/// Bytes of these images together, as they are kept.
pub const MAX_IMAGE_BYTES_PER_SCOPE: u64 = 512 * 1024 * 1024;
/// Images whose contents one read returns at most.
pub const MAX_IMAGES_PER_READ: usize = 64;
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
pub struct NewPersonaRow {
    pub id: String,
    pub name: String,
    pub prompt: String,
    pub settings: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPinRow {
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

/// An image without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRow {
    pub id: ImageId,
    pub scope: Scope,
    pub media_type: String,
    pub width: u32,
    pub height: u32,
    pub bytes: u64,
    pub name: Option<String>,
    pub created_at: Timestamp,
}

/// An image to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewImage {
    pub id: ImageId,
    /// SHA-256 of the upload.
    pub hash: [u8; 32],
    pub media_type: &'static str,
    pub width: u32,
    pub height: u32,
    pub name: Option<String>,
    pub content: Vec<u8>,
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

/// A document of an app, with the hash of the file that it was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct KnowledgeRow {
    pub document: DocumentRow,
    pub hash: [u8; 32],
}

/// A piece of a document. Together, in order, they are its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    pub id: ChunkId,
    pub text: String,
    /// The place of the chunk, for people.
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

/// The profile of a user: what they say of themselves, the same in every app.
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
