//! Readers of uploads: bytes in, text out.

use std::time::Duration;

use async_trait::async_trait;
use memory::documents::{self, DocumentKind, DocumentProblem, ExtractedDocument};

/// How long one upload is read.
const EXTRACT_PATIENCE: Duration = Duration::from_secs(60);

/// Reads uploads as text. Uploads can be broken or malicious, so a binary may run the parsers in a process of its own.
#[async_trait]
pub trait Extractor: Send + Sync {
    async fn extract(&self, kind: DocumentKind, bytes: Vec<u8>)
    -> Result<ExtractedDocument, DocumentProblem>;
}

/// Reads uploads on a thread of this process. One that hangs keeps its thread; only its answer is not waited for.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

#[async_trait]
impl Extractor for InProcess {
    async fn extract(
        &self,
        kind: DocumentKind,
        bytes: Vec<u8>,
    ) -> Result<ExtractedDocument, DocumentProblem> {
        let reading = tokio::task::spawn_blocking(move || documents::extract(kind, &bytes));
        match tokio::time::timeout(EXTRACT_PATIENCE, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => Err(DocumentProblem::Unreadable { what: "the process that reads it failed" }),
            Err(_) => Err(DocumentProblem::Unreadable { what: "reading it takes too long" }),
        }
    }
}
