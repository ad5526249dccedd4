//! Documents of users: how large one may be, and how much room there is for all of them.

use crate::{Error, MAX_CHUNK_BYTES, MAX_CHUNKS_PER_DOCUMENT, MAX_DOCUMENTS_PER_SCOPE, NewDocument};

/// Whether a document has not too many pieces, and each of them has a size that can be kept.
pub fn check_document(document: &NewDocument) -> Result<(), Error> {
    if document.chunks.len() > MAX_CHUNKS_PER_DOCUMENT {
        return Err(Error::Changed(format!("a document has at most {MAX_CHUNKS_PER_DOCUMENT} pieces")));
    }
    if document.chunks.iter().any(|chunk| chunk.text.is_empty() || chunk.text.len() > MAX_CHUNK_BYTES) {
        return Err(Error::Changed(format!("a piece of a document has 1 to {MAX_CHUNK_BYTES} bytes")));
    }
    Ok(())
}

/// Documents of a user: how many there are, and the bytes of their texts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentTotals {
    pub documents: u64,
    pub text_bytes: u64,
}

/// Whether a user has room for a document with `text_bytes` bytes of text, where all documents together may have
/// `quota`.
pub fn check_document_room(totals: DocumentTotals, text_bytes: u64, quota: u64) -> Result<(), Error> {
    if totals.documents >= MAX_DOCUMENTS_PER_SCOPE as u64 {
        let message = format!("there are already {MAX_DOCUMENTS_PER_SCOPE} documents; delete some first");
        return Err(Error::Changed(message));
    }
    let held = totals.text_bytes;
    if held.saturating_add(text_bytes) > quota {
        return Err(Error::Changed(format!(
            "your documents have {held} bytes of text, this one has {text_bytes}, and {quota} are allowed; \
             delete some first"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::{ChunkId, DocumentId};
    use uuid::Uuid;

    use super::*;
    use crate::NewChunk;

    #[test]
    fn pieces_have_bounds_of_size_and_number() {
        let piece = |bytes: usize| NewChunk {
            id: ChunkId::new(Uuid::nil()),
            text: "x".repeat(bytes),
            place: String::new(),
            suspicious: false,
        };
        let document = |chunks| NewDocument {
            id: DocumentId::new(Uuid::nil()),
            quota: 0,
            name: "a.md".into(),
            title: None,
            kind: "text",
            bytes: 0,
            pages: None,
            chunks,
        };
        assert!(check_document(&document(vec![piece(1), piece(MAX_CHUNK_BYTES)])).is_ok());
        assert!(check_document(&document(vec![piece(1), piece(0)])).is_err());
        assert!(check_document(&document(vec![piece(MAX_CHUNK_BYTES + 1)])).is_err());
        assert!(check_document(&document(vec![piece(1); MAX_CHUNKS_PER_DOCUMENT + 1])).is_err());
    }

    #[test]
    fn documents_have_room_up_to_their_number_and_the_quota() {
        let totals = |documents, text_bytes| DocumentTotals { documents, text_bytes };
        let most = MAX_DOCUMENTS_PER_SCOPE as u64;
        assert!(check_document_room(totals(most - 1, 90), 10, 100).is_ok());
        assert!(check_document_room(totals(most, 0), 1, 100).is_err());
        let refused = check_document_room(totals(1, 90), 11, 100).unwrap_err().to_string();
        assert_eq!(
            refused,
            "your documents have 90 bytes of text, this one has 11, and 100 are allowed; delete some first"
        );
        assert!(check_document_room(totals(1, u64::MAX), u64::MAX, 100).is_err());
    }
}
