//! Rows of the channel of a user.

use protocol::{AppId, Notice, UserId};

/// Notices that one read returns at most.
pub const MAX_NOTICES_PER_READ: usize = 100;

/// A notice and its place in the channel of its user.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedNotice {
    pub number: u64,
    pub app: AppId,
    pub notice: Notice,
}

/// A part of a user's channel.
#[derive(Debug, Clone, PartialEq)]
pub struct NoticesRead {
    pub notices: Vec<NumberedNotice>,
    /// The place after this part. It grows although there is no notice where all that they tell of is gone.
    pub place: u64,
    /// The newest number that was given to a notice of the user.
    pub newest: u64,
    /// Whether the channel cannot continue from the place that was asked for.
    pub is_lost: bool,
}

/// The newest notice of a user after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestNotice {
    pub user: UserId,
    pub number: u64,
}
