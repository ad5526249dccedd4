//! Documents: told apart by their bytes, read as text with its structure, and cut into pieces to cite.
//!
//! Everything here is pure, and bounded in memory. A parser that fails on a hostile file fails alone: it runs on a
//! thread of its own, and its panic is an answer. Only time is the caller's to bound.

mod chunks;
mod clean;
mod docx;
mod html;
mod kind;
mod markdown;
mod outline;
mod pdf;
mod sheet;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use chunks::{DocumentChunk, MAX_CHUNK_BYTES, TARGET_CHUNK_BYTES, chunks};
pub use kind::{DocumentKind, kind};

/// The largest file that is read, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 20 * 1024 * 1024;
/// The most pages of a document.
pub const MAX_PAGES: u32 = 2000;
/// The most text a document may have, in bytes.
pub const MAX_TEXT_BYTES: usize = 8 * 1024 * 1024;
/// The most blocks a document may have.
pub const MAX_BLOCKS: usize = 100_000;
/// The most one compressed part of a document may become, in bytes.
const MAX_INFLATED_BYTES: u64 = 64 * 1024 * 1024;
/// The stack of the thread that reads, in bytes: parsers descend into what is nested.
const STACK_BYTES: usize = 32 * 1024 * 1024;
/// The text between two blocks in the full text.
const BETWEEN_BLOCKS: &str = "\n\n";

/// A document as text with its structure.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtractedDocument {
    pub title: Option<String>,
    pub blocks: Vec<DocumentBlock>,
    /// How many pages it has, where that is known.
    pub pages: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DocumentBlock {
    pub kind: BlockKind,
    /// Items of a list and rows of a table are lines; cells are separated by " | ".
    pub text: String,
    /// The headings above it, the outermost first. A heading is not above itself.
    pub headings: Vec<String>,
    /// The page it begins on, from 1.
    pub page: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum BlockKind {
    Heading,
    Paragraph,
    List,
    Table,
    Code,
}

/// Things that a document can have too many of.
const COUNTED: [&str; 13] = [
    "bytes",
    "bytes of text",
    "bytes in a compressed part",
    "bytes in a compressed stream",
    "bytes in all compressed streams",
    "compressed streams",
    "paragraphs",
    "parts",
    "sheets",
    "rows",
    "columns",
    "cells",
    "bytes in a cell",
];

/// Why a document was not read, and what its owner can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentProblem {
    #[error("this is {what}: use text, Markdown, HTML, PDF, DOCX, XLSX or CSV instead")]
    Unsupported { what: &'static str },
    #[error(
        "this document cannot be read ({what}): save it again in the program that made it, and use that file"
    )]
    Unreadable { what: &'static str },
    #[error("this document is encrypted: remove its password first")]
    Encrypted,
    #[error("this PDF has no text, only pictures: run it through OCR first")]
    NoText,
    #[error("this document has no text in it: use one that has some")]
    Empty,
    #[error("this document has {pages} pages, and at most {limit} are read: split it")]
    TooManyPages { pages: u32, limit: u32 },
    #[error("this document has more than {limit} {what}: split it")]
    TooLarge { what: &'static str, limit: usize },
}

impl DocumentProblem {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "document_unsupported",
            Self::Unreadable { .. } => "document_unreadable",
            Self::Encrypted => "document_encrypted",
            Self::NoText | Self::Empty => "document_empty",
            Self::TooManyPages { .. } | Self::TooLarge { .. } => "document_too_large",
        }
    }

    /// The problem of a document that another process found too large.
    pub fn too_large(what: &str, limit: usize) -> Self {
        let what = COUNTED.into_iter().find(|counted| *counted == what).unwrap_or("bytes of text");
        Self::TooLarge { what, limit }
    }

    fn part_too_large() -> Self {
        Self::TooLarge { what: "bytes in a compressed part", limit: MAX_INFLATED_BYTES as usize }
    }
}

/// The text of a document with its structure.
pub fn extract(kind: DocumentKind, bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    check_size(bytes)?;
    let read = || match kind {
        DocumentKind::Text => text::extract(bytes),
        DocumentKind::Markdown => markdown::extract(bytes),
        DocumentKind::Html => html::extract(bytes),
        DocumentKind::Pdf => pdf::extract(bytes),
        DocumentKind::Docx => docx::extract(bytes),
        DocumentKind::Csv => sheet::csv::extract(bytes),
        DocumentKind::Xlsx => sheet::xlsx::extract(bytes),
    };
    let extracted = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("document".to_owned()).stack_size(STACK_BYTES);
        // A panic ends the thread, and joining it says so.
        match thread.spawn_scoped(scope, read) {
            Ok(reading) => reading
                .join()
                .unwrap_or(Err(DocumentProblem::Unreadable { what: "its parts do not fit together" })),
            Err(_) => {
                Err(DocumentProblem::Unreadable { what: "the server has no thread left to read it with" })
            }
        }
    })?;
    match extracted.blocks.is_empty() {
        true if kind == DocumentKind::Pdf => Err(DocumentProblem::NoText),
        true => Err(DocumentProblem::Empty),
        false => Ok(extracted),
    }
}

/// The whole text, which the ranges of chunks point into.
pub fn full_text(extracted: &ExtractedDocument) -> String {
    let texts: Vec<&str> = extracted.blocks.iter().map(|block| block.text.as_str()).collect();
    texts.join(BETWEEN_BLOCKS)
}

fn check_size(bytes: &[u8]) -> Result<(), DocumentProblem> {
    if bytes.is_empty() {
        return Err(DocumentProblem::Empty);
    }
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(DocumentProblem::TooLarge { what: "bytes", limit: MAX_DOCUMENT_BYTES });
    }
    Ok(())
}
