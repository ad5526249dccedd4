//! Knowledge: how much the documents of one app may be, and which of them a folder adds, changes and removes.

use std::collections::BTreeMap;

use protocol::DocumentId;

use crate::Error;

/// Pieces of all documents of an app. They are in memory once for all users.
pub const MAX_KNOWLEDGE_CHUNKS: u64 = 40_000;
/// Bytes of their texts.
pub const MAX_KNOWLEDGE_TEXT_BYTES: u64 = 32 * 1024 * 1024;

/// The size of some documents of an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnowledgeSize {
    pub chunks: u64,
    pub text_bytes: u64,
}

/// Refuses a document for which there is no room beside the others.
pub fn check_room(others: KnowledgeSize, new: KnowledgeSize) -> Result<(), Error> {
    let chunks = others.chunks.saturating_add(new.chunks);
    if chunks > MAX_KNOWLEDGE_CHUNKS {
        return Err(Error::Changed(format!(
            "the documents of the app would have {chunks} pieces with this one, and {MAX_KNOWLEDGE_CHUNKS} are \
             allowed: shorten it, or remove others"
        )));
    }
    let bytes = others.text_bytes.saturating_add(new.text_bytes);
    if bytes > MAX_KNOWLEDGE_TEXT_BYTES {
        return Err(Error::Changed(format!(
            "the documents of the app would have {bytes} bytes of text with this one, and \
             {MAX_KNOWLEDGE_TEXT_BYTES} are allowed: shorten it, or remove others"
        )));
    }
    Ok(())
}

/// A document of an app as it is stored: its id, and the hash of its file.
pub type StoredKnowledge = BTreeMap<String, (DocumentId, [u8; 32])>;

/// The documents whose files are gone. Where a part of the folder could not be looked at, none is.
pub fn removed_documents<'a>(
    stored: &StoredKnowledge,
    is_partial: bool,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<DocumentId> {
    if is_partial {
        return Vec::new();
    }
    let there: std::collections::BTreeSet<&str> = names.into_iter().collect();
    let gone = stored.iter().filter(|(name, _)| !there.contains(name.as_str()));
    gone.map(|(_, (id, _))| *id).collect()
}

/// Whether a file is stored as it is.
pub fn is_same(stored: &StoredKnowledge, name: &str, hash: &[u8; 32]) -> bool {
    stored.get(name).is_some_and(|(_, known)| known == hash)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn document(number: u128) -> DocumentId {
        DocumentId::new(Uuid::from_u128(number))
    }

    #[test]
    fn a_folder_and_what_is_stored_differ_by_what_was_added_changed_or_removed() {
        let stored: StoredKnowledge =
            [("a.md".to_owned(), (document(1), [1; 32])), ("b.md".to_owned(), (document(2), [2; 32]))].into();
        assert!(is_same(&stored, "a.md", &[1; 32]));
        assert!(!is_same(&stored, "a.md", &[2; 32]), "changed");
        assert!(!is_same(&stored, "c.md", &[1; 32]), "added, or renamed");
        assert_eq!(removed_documents(&stored, false, ["a.md", "c.md"]), [document(2)]);
        assert_eq!(removed_documents(&stored, true, ["a.md"]), [], "it may only be out of sight");
        assert_eq!(removed_documents(&stored, false, []), [document(1), document(2)]);
    }

    #[test]
    fn there_is_room_up_to_the_limit_and_no_further() {
        let size = |chunks, text_bytes| KnowledgeSize { chunks, text_bytes };
        let others = size(MAX_KNOWLEDGE_CHUNKS - 5, MAX_KNOWLEDGE_TEXT_BYTES - 50);
        assert!(check_room(others, size(5, 50)).is_ok());
        assert!(check_room(others, size(6, 1)).unwrap_err().to_string().contains("40000 are allowed"));
        assert!(check_room(others, size(1, 51)).unwrap_err().to_string().contains("bytes of text"));
    }
}
