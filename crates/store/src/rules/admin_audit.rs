//! The audit of admins: every entry is chained by hash to the entry before it.
//!
//! The parts of the chain, for a reader who checks it without Rondo (`‖` joins bytes, numbers are eight bytes, big end
//! first):
//!
//! - `hash` = SHA-256(hash before ‖ number ‖ at ‖ text(by) ‖ text(kind) ‖ app ‖ text(target) ‖ text(detail));
//! - `at` is signed, in milliseconds since 1970;
//! - text(x) = the length of x in bytes, as a number, ‖ x in UTF-8, as stored;
//! - `app` = one zero byte where it is null, else one byte with the value 1 ‖ text(app);
//! - numbers begin at 1, and the hash before the first entry is SHA-256 of the text `rondo admin audit`.
//!
//! The detail is JSON in its canonical form: keys in order, no spaces.

use protocol::AuditKind;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::stored_text::without_zeros;

/// The text whose hash stands before the first entry.
const ORIGIN: &str = "rondo admin audit";

/// A SHA-256 in the chain.
pub type AuditHash = [u8; 32];

/// An act of an admin that is about to become an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminAct {
    pub by: String,
    pub kind: AuditKind,
    /// The app that it concerns; none where it concerns all apps.
    pub app: Option<String>,
    /// The id or the name of the thing that was changed.
    pub target: String,
    pub detail: Value,
}

/// An entry as it is stored, without its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub number: u64,
    /// In milliseconds since 1970.
    pub at: i64,
    pub by: String,
    pub kind: String,
    pub app: Option<String>,
    pub target: String,
    pub detail: String,
}

impl AuditEntry {
    /// The entry that follows a head. Its texts have no U+0000, which PostgreSQL could not give back.
    pub fn after(head: &AuditHead, act: AdminAct, at: i64) -> Self {
        Self {
            number: head.number + 1,
            at,
            by: without_zeros(act.by),
            kind: act.kind.name().to_owned(),
            app: act.app.map(without_zeros),
            target: without_zeros(act.target),
            detail: protocol::canonical(&act.detail),
        }
    }

    pub fn hash(&self, before: &AuditHash) -> AuditHash {
        let mut hash = Sha256::new();
        hash.update(before);
        hash.update(self.number.to_be_bytes());
        hash.update(self.at.to_be_bytes());
        add_text(&mut hash, &self.by);
        add_text(&mut hash, &self.kind);
        hash.update([u8::from(self.app.is_some())]);
        if let Some(app) = &self.app {
            add_text(&mut hash, app);
        }
        add_text(&mut hash, &self.target);
        add_text(&mut hash, &self.detail);
        hash.finalize().into()
    }
}

/// Adds a text after its length, so that no two entries have the same bytes.
fn add_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

/// The last entry of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditHead {
    pub number: u64,
    pub hash: AuditHash,
}

/// The head of a chain without entries.
impl Default for AuditHead {
    fn default() -> Self {
        Self { number: 0, hash: Sha256::digest(ORIGIN).into() }
    }
}

/// Faults of an entry that comes after the head `before`, in words for people.
pub fn entry_faults(before: &AuditHead, entry: &AuditEntry, hash: &AuditHash) -> Vec<String> {
    let mut faults = Vec::new();
    if entry.number != before.number + 1 {
        faults.push(format!("entry {} does not follow the entry {}", entry.number, before.number));
    }
    if entry.hash(&before.hash) != *hash {
        faults.push(format!("entry {} has a hash that does not match its content", entry.number));
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn act(target: &str) -> AdminAct {
        AdminAct {
            by: "olga".into(),
            kind: AuditKind::KeyMade,
            app: None,
            target: target.into(),
            detail: json!({ "user": "ann", "app": null }),
        }
    }

    #[test]
    fn every_entry_stands_on_the_entry_before() {
        let first = AuditEntry::after(&AuditHead::default(), act("key_1"), 5);
        assert_eq!((first.number, first.detail.as_str()), (1, r#"{"app":null,"user":"ann"}"#));
        let head = AuditHead { number: 1, hash: first.hash(&AuditHead::default().hash) };
        assert_eq!(entry_faults(&AuditHead::default(), &first, &head.hash), [""; 0]);
        let second = AuditEntry::after(&head, act("key_2"), 6);
        let hash = second.hash(&head.hash);
        assert_eq!(entry_faults(&head, &second, &hash), [""; 0]);
        assert_eq!(
            entry_faults(&AuditHead::default(), &second, &hash),
            ["entry 2 does not follow the entry 0", "entry 2 has a hash that does not match its content"]
        );
    }

    #[test]
    fn a_text_that_moves_to_the_next_field_changes_the_hash() {
        let entry = AuditEntry::after(&AuditHead::default(), act("key_1"), 5);
        let changed = [
            AuditEntry { by: "olgakey".into(), kind: "_made".into(), ..entry.clone() },
            AuditEntry { app: Some(String::new()), ..entry.clone() },
            AuditEntry { at: 6, ..entry.clone() },
        ];
        for other in changed {
            assert_ne!(other.hash(&[0; 32]), entry.hash(&[0; 32]), "{other:?}");
        }
    }
}
