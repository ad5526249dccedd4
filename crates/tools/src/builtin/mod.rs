//! Tools that come with Rondo and need nothing but themselves.

mod calculate;
mod current_time;

pub(crate) use calculate::Calculate;
pub(crate) use current_time::CurrentTime;
