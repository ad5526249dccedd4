//! An app folder as validated types.
//!
//! [`load`] reads one folder, [`load_all`] every folder of `apps/`. What comes out needs no further checks; what is
//! wrong comes out as a [`Problem`] that names the file, the line and what to write instead. The server's own
//! configuration is read through the same [`source`].

mod folder;
pub mod source;
mod types;

pub use folder::{Apps, load, load_all};
pub use source::Problem;
pub use types::{App, AtLimit, History, LoopLimits, ToolRef};
