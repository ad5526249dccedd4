//! States of stored things. Each has one text in the database, and none is compared as text elsewhere.

use protocol::Role;
pub use protocol::{ActionStatus, JobStatus, MemoryStatus, MemoryVersionReason};

/// Declares an enum whose variants are stored as texts.
macro_rules! stored_enum {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),*
        }

        impl $name {
            /// The text that is stored.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text),*
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

stored_enum! {
    /// Why a run ends before its time. The later one outweighs the earlier: a user who cancels a run that makes room for a
    /// newer message is told that it is cancelled.
    pub enum Stop {
        /// A newer message took its place.
        Interrupted = "interrupted",
        Cancelled = "cancelled",
    }
}

stored_enum! {
    /// The kind of an entry in the ledger.
    pub enum LedgerKind {
        /// A call is about to be made.
        Intent = "intent",
        /// How the call ended; the only entry of a call that was never made.
        Outcome = "outcome",
        /// The action was undone.
        Undo = "undo",
        /// Another result came after the first.
        Late = "late",
        /// The contents of the earlier entries are gone.
        Erase = "erase",
    }
}

stored_enum! {
    /// The kind of the subject of a notice.
    pub enum NoticeKind {
        Thread = "thread",
        Run = "run",
        Proposal = "proposal",
        /// A call of the client.
        Call = "call",
        Memory = "memory",
        Document = "document",
    }
}

stored_enum! {
    /// The kind of a thing whose change recall reads.
    pub enum RecallKind {
        Memory = "memory",
        Message = "message",
        Chunk = "chunk",
        Thread = "thread",
        Document = "document",
        Tombstone = "tombstone",
    }
}

/// The role of a stored message. A row with another text can still be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageRole {
    User,
    Assistant,
    Other(String),
}

impl MessageRole {
    pub fn parse(text: String) -> Self {
        match text.as_str() {
            "user" => MessageRole::User,
            "assistant" => MessageRole::Assistant,
            _ => MessageRole::Other(text),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::Other(text) => text,
        }
    }

    /// The role on the wire, if it is one that there is.
    pub fn role(&self) -> Option<Role> {
        match self {
            MessageRole::User => Some(Role::User),
            MessageRole::Assistant => Some(Role::Assistant),
            MessageRole::Other(_) => None,
        }
    }
}

impl From<&str> for MessageRole {
    fn from(text: &str) -> Self {
        Self::parse(text.to_owned())
    }
}
