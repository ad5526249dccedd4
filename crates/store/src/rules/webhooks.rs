//! Webhooks: which notice is an event, and what a message says. A message has ids and no text of the user.

use jiff::Timestamp;
use protocol::{MemoryId, NoticeChange, ProposalId, RunId, RunStatus, Scope, ThreadId, WebhookEvent};
use serde_json::{Map, Value, json};

/// An event that webhooks are told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookNews {
    RunEnded { run: RunId, thread: ThreadId, status: RunStatus },
    ApprovalOpen { approval: ProposalId, run: Option<RunId>, thread: Option<ThreadId>, tool: String },
    MemoryChanged { memories: Vec<MemoryId>, change: NoticeChange, number: u64 },
}

impl WebhookNews {
    pub fn event(&self) -> WebhookEvent {
        match self {
            Self::RunEnded { .. } => WebhookEvent::RunEnded,
            Self::ApprovalOpen { .. } => WebhookEvent::ApprovalOpen,
            Self::MemoryChanged { .. } => WebhookEvent::MemoryChanged,
        }
    }

    /// The thread that it is about, if it is about one.
    pub fn thread(&self) -> Option<ThreadId> {
        match self {
            Self::RunEnded { thread, .. } => Some(*thread),
            Self::ApprovalOpen { thread, .. } => *thread,
            Self::MemoryChanged { .. } => None,
        }
    }

    /// The key of the job that tells a webhook of it: one event is told once, even if it is noticed again.
    pub fn job_key(&self, scope: &Scope, webhook: &str) -> String {
        let subject = match self {
            Self::RunEnded { run, .. } => run.to_string(),
            Self::ApprovalOpen { approval, .. } => approval.to_string(),
            Self::MemoryChanged { number, .. } => number.to_string(),
        };
        json!([self.event().name(), scope.app.as_str(), scope.user.as_str(), webhook, subject]).to_string()
    }

    /// The body of a message. It is made once, so that each attempt sends the same bytes.
    pub fn body(&self, scope: &Scope, at: Timestamp) -> String {
        let mut data = Map::new();
        data.insert("app".into(), json!(scope.app.as_str()));
        data.insert("user".into(), json!(scope.user.as_str()));
        match self {
            Self::RunEnded { run, thread, status } => {
                data.insert("threadId".into(), json!(thread));
                data.insert("runId".into(), json!(run));
                data.insert("status".into(), json!(status.name()));
            }
            Self::ApprovalOpen { approval, run, thread, tool } => {
                data.insert("threadId".into(), json!(thread));
                data.insert("runId".into(), json!(run));
                data.insert("approvalId".into(), json!(approval));
                data.insert("tool".into(), json!(tool));
            }
            Self::MemoryChanged { memories, change, .. } => {
                data.insert("memoryIds".into(), json!(memories));
                data.insert("change".into(), json!(change));
            }
        }
        let data = Value::Object(data);
        json!({ "type": self.event().name(), "timestamp": at, "data": data }).to_string()
    }
}
