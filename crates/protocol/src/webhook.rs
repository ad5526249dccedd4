//! Webhooks: the events that an app can send to another system.

/// An event that is sent to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookEvent {
    /// A run has ended with any status.
    RunEnded,
    /// A tool call waits for the approval of its user.
    ApprovalOpen,
    /// A memory was added, changed, forgotten or deleted.
    MemoryChanged,
}

impl WebhookEvent {
    pub const ALL: [Self; 3] = [Self::RunEnded, Self::ApprovalOpen, Self::MemoryChanged];

    /// The name in `app.toml` and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunEnded => "run.ended",
            Self::ApprovalOpen => "approval.open",
            Self::MemoryChanged => "memory.changed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}
