//! Which thread a chat is. Clients of the AI SDK name their chats themselves, and the thread's id follows from the name.

use protocol::{Principal, ThreadId};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A chat of one user in one app, by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ChatKey([u8; 32]);

impl ChatKey {
    pub(crate) fn new(principal: &Principal, app: &str, id: &str) -> Self {
        Self::of_parts(&[principal.user().as_str(), app, id])
    }

    /// A conversation that was imported, which no client can name as a chat of its own.
    pub(crate) fn of_import(principal: &Principal, app: &str, source: &str) -> Self {
        Self::of_parts(&[principal.user().as_str(), app, "import", source])
    }

    fn of_parts(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The thread that it is: the same whenever it is asked for.
    pub(crate) fn thread(self) -> ThreadId {
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(self.0) {
            *to = from;
        }
        ThreadId::new(Uuid::from_bytes(id))
    }
}

#[cfg(test)]
mod tests {
    use protocol::UserId;

    use super::*;

    fn chat(user: &str, app: &str, id: &str) -> ChatKey {
        ChatKey::new(&Principal::authenticated(UserId::new(user)), app, id)
    }

    #[test]
    fn a_chat_belongs_to_one_user_in_one_app() {
        let mine = chat("ann", "test", "a");
        assert_eq!(mine, chat("ann", "test", "a"));
        for other in [chat("bob", "test", "a"), chat("ann", "other", "a"), chat("ann", "testa", "")] {
            assert_ne!(mine, other);
        }
        assert_eq!(mine.thread(), chat("ann", "test", "a").thread());
        assert_ne!(mine.thread(), chat("bob", "test", "a").thread());
    }
}
