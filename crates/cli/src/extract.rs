//! Reads uploads in a process of its own, so that a file made to break a parser breaks nothing else: it has so much time
//! and so much memory, and when it has used them up, it is gone.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use memory::documents::{self, DocumentKind, DocumentProblem, ExtractedDocument, MAX_DOCUMENT_BYTES};
use serde::{Deserialize, Serialize};
use service::{Extractor, InProcess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::{CommandResult, config};

/// The hidden command that reads a document from its input.
pub(crate) const COMMAND: &str = "extract-document";

/// How long a document may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of memory, and seconds of work, that one may take.
const MAX_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
const MAX_SECONDS: u64 = 60;

/// Bytes that the process may answer with: all text there may be, as JSON.
const MAX_ANSWER_BYTES: u64 = 128 * 1024 * 1024;

/// Why a document could not be read whose process ended without a word.
const BROKE: DocumentProblem =
    DocumentProblem::Unreadable { what: "reading it takes more time or memory than allowed" };

/// Runs this program again for each document.
pub(crate) struct ExtractorProcess {
    program: PathBuf,
}

/// As the process answers.
#[derive(Serialize, Deserialize)]
enum ExtractorAnswer {
    Read(ExtractedDocument),
    Encrypted,
    NoText,
    Empty,
    TooManyPages(u32),
    TooLarge { what: String, limit: usize },
    Unreadable,
}

impl ExtractorProcess {
    /// None where this program cannot find itself.
    pub(crate) fn new() -> Option<Self> {
        config::this_program().map(|program| Self { program })
    }

    async fn ask(&self, kind: DocumentKind, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut child = Command::new(&self.program)
            .args([COMMAND, kind.name()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Ok(Vec::new());
        };
        let mut answer = Vec::new();
        let mut output = output.take(MAX_ANSWER_BYTES);
        let write = async {
            let written = input.write_all(bytes).await;
            drop(input);
            written
        };
        let (written, read) = tokio::join!(write, output.read_to_end(&mut answer));
        child.wait().await?;
        read?;
        // One that ended early has not read all of it.
        if answer.is_empty() { written.map(|()| answer) } else { Ok(answer) }
    }
}

#[async_trait]
impl Extractor for ExtractorProcess {
    async fn extract(
        &self,
        kind: DocumentKind,
        bytes: Vec<u8>,
    ) -> Result<ExtractedDocument, DocumentProblem> {
        match kind {
            DocumentKind::Text | DocumentKind::Markdown | DocumentKind::Csv => {
                return InProcess.extract(kind, bytes).await;
            }
            DocumentKind::Html | DocumentKind::Pdf | DocumentKind::Docx | DocumentKind::Xlsx => {}
        }
        match tokio::time::timeout(PATIENCE, self.ask(kind, &bytes)).await {
            Ok(Ok(answer)) => serde_json::from_slice(&answer).map_or(Err(BROKE), into_extracted),
            Ok(Err(error)) => {
                tracing::warn!(%error, kind = kind.name(), "the process that reads a document failed");
                Err(BROKE)
            }
            Err(_) => Err(BROKE),
        }
    }
}

fn into_extracted(answer: ExtractorAnswer) -> Result<ExtractedDocument, DocumentProblem> {
    match answer {
        ExtractorAnswer::Read(extracted) => Ok(extracted),
        ExtractorAnswer::Encrypted => Err(DocumentProblem::Encrypted),
        ExtractorAnswer::NoText => Err(DocumentProblem::NoText),
        ExtractorAnswer::Empty => Err(DocumentProblem::Empty),
        ExtractorAnswer::TooManyPages(pages) => {
            Err(DocumentProblem::TooManyPages { pages, limit: documents::MAX_PAGES })
        }
        ExtractorAnswer::TooLarge { what, limit } => Err(DocumentProblem::too_large(&what, limit)),
        ExtractorAnswer::Unreadable => {
            Err(DocumentProblem::Unreadable { what: "its parts do not fit together" })
        }
    }
}

/// The work of the process itself: it takes a document from its input and answers on its output.
pub(crate) fn answer(kind: &str) -> CommandResult {
    set_limit(rustix::process::Resource::As, MAX_MEMORY);
    set_limit(rustix::process::Resource::Cpu, MAX_SECONDS);
    let kind =
        DocumentKind::ALL.into_iter().find(|known| known.name() == kind).ok_or("no such kind of document")?;
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let answer = match documents::extract(kind, &bytes) {
        Ok(extracted) => ExtractorAnswer::Read(extracted),
        Err(DocumentProblem::Encrypted) => ExtractorAnswer::Encrypted,
        Err(DocumentProblem::NoText) => ExtractorAnswer::NoText,
        Err(DocumentProblem::Empty) => ExtractorAnswer::Empty,
        Err(DocumentProblem::TooManyPages { pages, .. }) => ExtractorAnswer::TooManyPages(pages),
        Err(DocumentProblem::TooLarge { what, limit }) => {
            ExtractorAnswer::TooLarge { what: what.to_owned(), limit }
        }
        Err(DocumentProblem::Unreadable { .. } | DocumentProblem::Unsupported { .. }) => {
            ExtractorAnswer::Unreadable
        }
    };
    std::io::stdout().write_all(&serde_json::to_vec(&answer)?)?;
    Ok(())
}

/// Where the system has no such bound, time alone bounds the process.
fn set_limit(what: rustix::process::Resource, most: u64) {
    let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
    let _ = rustix::process::setrlimit(what, limit);
}
