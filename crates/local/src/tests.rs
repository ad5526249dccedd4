//! Code that tests of several modules share.

pub(crate) mod tiny;
