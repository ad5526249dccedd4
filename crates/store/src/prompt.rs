//! The rows that a prompt is made of, read at one moment.

use protocol::PinView;

use crate::{Error, MessageRow, ProfileRow, PurgedWords, SummaryRow, TombstoneRow};

/// Rows that a prompt needs of its thread and its user. One part that cannot be read does not hide the others.
#[derive(Debug)]
pub struct PromptRows {
    /// The newest messages of the path, oldest first.
    pub newest: Result<Vec<MessageRow>, Error>,
    pub summaries: Result<Vec<SummaryRow>, Error>,
    pub pins: Result<Vec<PinView>, Error>,
    /// The profile for all apps, and the one for this app.
    pub profiles: Result<(ProfileRow, ProfileRow), Error>,
    pub memory_is_off: Result<bool, Error>,
    /// Words that the user has asked to forget.
    pub hidden: Result<HiddenWords, Error>,
}

/// Words of a user that no model sees any more.
#[derive(Debug, Clone, Default)]
pub struct HiddenWords {
    /// Oldest first, at most [`crate::MAX_TOMBSTONES_PER_READ`].
    pub tombstones: Vec<TombstoneRow>,
    /// Traces of those that were purged, oldest first, at most [`crate::MAX_TOMBSTONES_PER_READ`].
    pub purged: Vec<PurgedWords>,
}
