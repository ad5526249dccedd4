//! Statuses of tool calls, actions, proposals, jobs, memories and documents, as texts of the API and of the database.

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::json_fields::from_name;

/// The status of a call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Complete,
    Failed,
    Denied,
    Cancelled,
    /// The call may have taken effect or not. The server cannot know.
    Unknown,
}

impl ToolStatus {
    pub fn name(self) -> &'static str {
        match self {
            ToolStatus::Complete => "complete",
            ToolStatus::Failed => "failed",
            ToolStatus::Denied => "denied",
            ToolStatus::Cancelled => "cancelled",
            ToolStatus::Unknown => "unknown",
        }
    }
}

/// The status of an action: it has started, or it has ended as its tool call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    Started,
    #[serde(untagged)]
    Ended(ToolStatus),
}

impl ActionStatus {
    pub const ALL: [Self; 6] = [
        Self::Started,
        Self::Ended(ToolStatus::Complete),
        Self::Ended(ToolStatus::Failed),
        Self::Ended(ToolStatus::Denied),
        Self::Ended(ToolStatus::Cancelled),
        Self::Ended(ToolStatus::Unknown),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ended(status) => status.name(),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl PartialSchema for ActionStatus {
    fn schema() -> RefOr<Schema> {
        names_schema("The status of an action.", Self::ALL.map(Self::name))
    }
}

impl ToSchema for ActionStatus {}

/// The decision about a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The user approved it.
    Confirmed,
    /// The user rejected it.
    Rejected,
    /// The user did not decide in time.
    Expired,
    /// The conversation continued without a decision, or the run ended.
    Superseded,
    /// The app withdrew the proposal.
    Withdrawn,
}

impl Decision {
    pub const ALL: [Self; 5] =
        [Self::Confirmed, Self::Rejected, Self::Expired, Self::Superseded, Self::Withdrawn];

    pub fn name(self) -> &'static str {
        match self {
            Decision::Confirmed => "confirmed",
            Decision::Rejected => "rejected",
            Decision::Expired => "expired",
            Decision::Superseded => "superseded",
            Decision::Withdrawn => "withdrawn",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.name() == name)
    }
}

/// The status of a proposal: it is open, or a decision has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalStatus {
    Open,
    #[serde(untagged)]
    Decided(Decision),
}

impl ProposalStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided(decision) => decision.name(),
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

impl PartialSchema for ProposalStatus {
    fn schema() -> RefOr<Schema> {
        let decided = Decision::ALL.map(Self::Decided);
        names_schema("The status of a proposal.", [Self::Open].into_iter().chain(decided).map(Self::name))
    }
}

impl ToSchema for ProposalStatus {}

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// The job waits for its time or for a worker.
    Ready,
    Running,
    Done,
    /// The job failed as often as it may, and is not tried again.
    Dead,
}

impl JobStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// The status of a memory. Only an active memory is in prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryStatus {
    Active,
    /// The user has forgotten the memory, with the words that it rests on.
    Forgotten,
    /// The fact no longer holds.
    Removed,
    /// The memory was worth least when there were too many.
    Expired,
    /// Another memory replaces this one.
    Superseded,
}

impl MemoryStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Forgotten => "forgotten",
            Self::Removed => "removed",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// The reason for a version of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryVersionReason {
    Created,
    /// The user changed the memory by hand.
    Edited,
    /// The fact is another one from then on.
    Updated,
    /// Other memories were merged into this one.
    Merged,
    Removed,
    Forgotten,
    Restored,
    Expired,
    Superseded,
    /// The tool call that had added the memory was undone.
    Undone,
}

impl MemoryVersionReason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Edited => "edited",
            Self::Updated => "updated",
            Self::Merged => "merged",
            Self::Removed => "removed",
            Self::Forgotten => "forgotten",
            Self::Restored => "restored",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Undone => "undone",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// The status of a document. Its words can be searched in any status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    /// Not every piece can be found by its meaning yet.
    Indexing,
    /// Every piece can be found by its meaning.
    Ready,
}

/// The schema of an enum that has these names in JSON.
fn names_schema(description: &str, names: impl IntoIterator<Item = &'static str>) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    schema.enum_values(Some(names)).into()
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    /// The name of a status is its text in JSON, both when it is written and when it is read.
    fn check<T: Copy + Serialize + DeserializeOwned + PartialEq + Debug>(
        status: T,
        name: &str,
        parsed: Option<T>,
    ) {
        assert_eq!(serde_json::to_value(status).unwrap(), name);
        assert_eq!((from_name(name), parsed), (Some(status), Some(status)));
    }

    #[test]
    fn the_name_of_a_status_is_its_name_in_json() {
        for status in ActionStatus::ALL {
            check(status, status.name(), ActionStatus::parse(status.name()));
        }
        for decision in Decision::ALL {
            check(decision, decision.name(), Decision::parse(decision.name()));
            let status = ProposalStatus::Decided(decision);
            check(status, decision.name(), ProposalStatus::parse(decision.name()));
        }
        check(ProposalStatus::Open, "open", ProposalStatus::parse("open"));
        for status in [JobStatus::Ready, JobStatus::Running, JobStatus::Done, JobStatus::Dead] {
            check(status, status.name(), JobStatus::parse(status.name()));
        }
        for status in [
            MemoryStatus::Active,
            MemoryStatus::Forgotten,
            MemoryStatus::Removed,
            MemoryStatus::Expired,
            MemoryStatus::Superseded,
        ] {
            check(status, status.name(), MemoryStatus::parse(status.name()));
        }
        for reason in [
            MemoryVersionReason::Created,
            MemoryVersionReason::Edited,
            MemoryVersionReason::Updated,
            MemoryVersionReason::Merged,
            MemoryVersionReason::Removed,
            MemoryVersionReason::Forgotten,
            MemoryVersionReason::Restored,
            MemoryVersionReason::Expired,
            MemoryVersionReason::Superseded,
            MemoryVersionReason::Undone,
        ] {
            check(reason, reason.name(), MemoryVersionReason::parse(reason.name()));
        }
        check(DocumentStatus::Indexing, "indexing", from_name("indexing"));
        check(DocumentStatus::Ready, "ready", from_name("ready"));
    }

    #[test]
    fn an_unknown_name_is_no_status() {
        assert_eq!(ActionStatus::parse("begun"), None);
        assert_eq!(from_name::<ActionStatus>("begun"), None);
        assert_eq!(ProposalStatus::parse("accepted"), None);
        assert_eq!(JobStatus::parse("paused"), None);
    }

    #[test]
    fn a_schema_lists_all_names() {
        let schema = serde_json::to_value(ProposalStatus::schema()).unwrap();
        let names = ["open", "confirmed", "rejected", "expired", "superseded", "withdrawn"];
        assert_eq!(schema["enum"], serde_json::json!(names));
        assert_eq!(schema["type"], "string");
    }
}
