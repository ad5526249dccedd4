//! A run that a kill cut in two, and what must hold of it afterwards.

use std::collections::BTreeMap;

use testkit::{Frame, Frames};

use crate::world::Server;

/// A run that was cut, and what a client had read of it.
pub(crate) struct Cut {
    pub(crate) run: String,
    thread: String,
    pub(crate) before: Vec<Frame>,
}

impl Cut {
    pub(crate) fn of(before: Vec<Frame>, frames: &Frames) -> Self {
        Self { run: frames.header("x-run-id"), thread: frames.header("x-thread-id"), before }
    }

    /// Follows the run to its end in three ways that must agree: from where the client was, from the beginning, and
    /// on the thread's channel. Gives back the whole run.
    pub(crate) async fn follow(self, server: &Server) -> Vec<Frame> {
        let events = format!("/v1/runs/{}/events", self.run);
        let last = self.before.last().map_or(0, |frame| frame.id);
        let rest = server.follow(&events, last).await.all().await;
        let whole = server.follow(&events, 0).await.all().await;
        let log = server.log(&self.thread).await;
        let resumed: Vec<Frame> = self.before.into_iter().chain(rest).collect();
        assert_eq!(resumed, whole, "what was received before never changes, and the rest is exact");
        let by_id: BTreeMap<u64, &Frame> = log.iter().map(|frame| (frame.id, frame)).collect();
        assert!(whole.iter().all(|frame| by_id[&frame.id] == frame), "the channel says the same");
        assert!(log.iter().map(|frame| frame.id).eq(1..=log.len() as u64), "the thread's ids have no gap");
        let ends: Vec<u64> =
            whole.iter().filter(|frame| frame.event == "run:end").map(|frame| frame.id).collect();
        assert_eq!(ends, [whole.last().unwrap().id], "one run:end, and it is the last");
        whole
    }
}

pub(crate) fn status(log: &[Frame]) -> &str {
    log.last().unwrap().data["status"].as_str().unwrap()
}

pub(crate) fn reply(log: &[Frame]) -> &str {
    log.iter().find(|frame| frame.event == "stream:complete").unwrap().data["text"].as_str().unwrap()
}
