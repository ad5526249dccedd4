//! Live streams: how committed events reach readers, and what a reader gets whose place in the log is gone.

mod bus;
mod follow;
mod notices;
mod snapshot;
#[cfg(test)]
mod tests;

pub use bus::Bus;
pub(crate) use bus::Subscription;
pub use follow::Follower;
pub(crate) use follow::until_run_waits;
pub(crate) use notices::NoticeFollower;
pub use notices::{ChannelEvent, UserFollower};
pub(crate) use snapshot::{open_since, read_streamed_text, snapshot};
pub use snapshot::{run_result, tool_result_view};
