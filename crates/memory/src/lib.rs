//! Memories of a user: found when they matter, kept without doubles, and forgotten when asked.

pub mod classify;
pub mod dates;
pub mod documents;
pub mod exchange;
pub mod extract;
pub mod forgetting;
pub mod index;
mod phrases;
pub mod pinning;
pub mod recall;
pub mod remember;
pub mod secrets;
pub mod suspicion;
pub mod tombstone;
pub mod words;
