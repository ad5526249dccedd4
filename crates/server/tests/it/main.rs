//! The API over real sockets: every route, every stream and every refusal, with a scripted model behind it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail like the tests themselves"
)]

mod access;
mod actions;
mod admins;
mod ag_ui;
mod api_chat;
mod branches;
mod busy;
mod calls;
mod canaries;
mod cancel;
mod channel;
mod console;
mod credentials;
mod delete;
mod delta;
mod disconnect;
mod documents;
mod edges;
mod export;
mod files;
mod http_tools;
mod images;
mod keyed;
mod knowledge;
mod large_lists;
mod limits;
mod matrix;
mod mcp;
mod mcp_faults;
mod me;
mod memories;
mod messages;
mod naming;
mod notices;
mod open_keys;
mod openai;
mod other_apis;
mod parts;
mod personas;
mod pins;
mod proposals;
mod records;
mod refused;
mod responses;
mod resume;
mod retention;
mod runs;
mod search;
mod statistics;
mod summaries;
mod support;
mod taint;
mod thread_import;
mod thread_lists;
mod thread_search;
mod threads;
mod unconfigured;
mod undo_previews;
mod usage;
mod users;
mod vectors;
mod versions;
mod web_search;
