//! States of stored things. Each has one text in the database, and none is compared as text elsewhere.

use protocol::{Role, ToolStatus};

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
    /// The state of a job.
    pub enum JobStatus {
        /// It waits for its time or for a worker.
        Ready = "ready",
        Running = "running",
        Done = "done",
        /// It failed as often as it may, and is not tried again.
        Dead = "dead",
    }
}

stored_enum! {
    /// The state of a memory. Only an active one is in prompts.
    pub enum MemoryStatus {
        Active = "active",
        /// The user has forgotten it, with the words it rests on.
        Forgotten = "forgotten",
        /// It is so no more.
        Removed = "removed",
        /// It was worth least when there were too many.
        Expired = "expired",
        /// Another memory says the same, and more.
        Superseded = "superseded",
    }
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

/// The state of an action: under way, or ended as its tool call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionStatus {
    Started,
    Ended(ToolStatus),
}

impl ActionStatus {
    pub const ALL: [ActionStatus; 6] = [
        ActionStatus::Started,
        ActionStatus::Ended(ToolStatus::Complete),
        ActionStatus::Ended(ToolStatus::Failed),
        ActionStatus::Ended(ToolStatus::Denied),
        ActionStatus::Ended(ToolStatus::Cancelled),
        ActionStatus::Ended(ToolStatus::Unknown),
    ];

    pub fn name(self) -> &'static str {
        match self {
            ActionStatus::Started => "started",
            ActionStatus::Ended(status) => status.name(),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
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
