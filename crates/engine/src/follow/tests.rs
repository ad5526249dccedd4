//! The seam between the log and what is live: whatever the order of events, nothing is lost and nothing comes twice.
