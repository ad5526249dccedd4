//! Everything a user does beside sending messages: decisions, undo, memories, searches, deletions and reads.

use std::time::Duration;

use fastrand::Rng;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Actor;
use super::client::{ClientRequest, INSISTENCE, Told, text};
use crate::record::What;

/// How long the last look at a user's proposals waits between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Of ten proposals, how many are confirmed.
const CONFIRMED_OF_TEN: u8 = 7;

impl Actor {
    /// Confirms or rejects one proposal.
    pub(super) async fn decide(&self, proposal: &str, rng: &mut Rng) {
        let confirm = rng.u8(0..10) < CONFIRMED_OF_TEN;
        let (key, began) = (self.new_name("decide"), self.stage.book.now());
        let word = if confirm { "confirm" } else { "reject" };
        let ask = ClientRequest::new(Method::POST, format!("/v1/proposals/{proposal}/{word}")).key(&key);
        let told = self.ask_until_definite(&ask, rng).await;
        let run = told.text("runId").unwrap_or_default();
        self.record((&key, began), What::Decide { proposal: proposal.to_owned(), run, confirm }, &told);
    }

    /// Decides what is open. Gives how many there were.
    pub(super) async fn decide_open(&self, rng: &mut Rng) -> usize {
        let told = self.read_path(&format!("/v1/apps/{}/proposals?open=true", self.user.app), rng).await;
        let open: Vec<String> = told.list().iter().filter_map(|proposal| text(proposal, "id")).collect();
        for proposal in &open {
            self.decide(proposal, rng).await;
        }
        open.len()
    }

    /// Decides until nothing of this user is open or under way, for as long as anything is insisted on.
    pub(super) async fn settle(&self, rng: &mut Rng) {
        let deadline = Instant::now() + INSISTENCE;
        while Instant::now() < deadline {
            let decided = self.decide_open(rng).await;
            let threads = self.ask_until_definite(&ClientRequest::get(self.threads_path()), rng).await;
            let active = threads.list().iter().any(|thread| text(thread, "activeRunId").is_some());
            if decided == 0 && threads.is_ok() && !active {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Undoes one action, or a whole run.
    pub(super) async fn undo(&self, rng: &mut Rng) {
        let run = self.pool.run(rng).filter(|_| rng.u8(0..10) < 3).map(|known| known.run);
        let (undone, path) = match run {
            Some(run) => (run.clone(), format!("/v1/runs/{run}/undo")),
            None => {
                let app = &self.user.app;
                let list = format!("/v1/apps/{app}/actions?effect=reversible&undone=false&limit=20");
                let told = self.read_path(&list, rng).await;
                let Some(action) = rng.choice(told.list()).and_then(|action| text(action, "id")) else {
                    return;
                };
                (action.clone(), format!("/v1/actions/{action}/undo"))
            }
        };
        let (key, began) = (self.new_name("undo"), self.stage.book.now());
        let told = self.ask_until_definite(&ClientRequest::new(Method::POST, path).key(&key), rng).await;
        self.record((&key, began), What::Undo { action: undone }, &told);
    }

    /// Adds a memory, or edits or forgets one that is known.
    pub(super) async fn change_memory(&self, rng: &mut Rng) {
        match (self.pool.memory(rng), rng.u8(0..10)) {
            (Some(known), 6 | 7) => self.edit(&known.id, rng).await,
            (Some(known), 8 | 9) => self.forget_memory(&known.id, rng).await,
            (Some(_) | None, _) => self.remember(rng).await,
        }
    }

    async fn remember(&self, rng: &mut Rng) {
        let (key, word, began) = (self.new_name("remember"), self.new_word(), self.stage.book.now());
        let text = self.sentence(&word);
        let path = format!("/v1/apps/{}/memories", self.user.app);
        let ask = ClientRequest::new(Method::POST, path).key(&key).body(json!({ "text": text }));
        let told = self.ask_until_definite(&ask, rng).await;
        let memory = told.text("id").filter(|_| told.is_ok());
        if let Some(memory) = &memory {
            self.pool.learn_memory(memory, &word);
        }
        self.record((&key, began), What::Remember { text, memory }, &told);
    }

    async fn edit(&self, memory: &str, rng: &mut Rng) {
        let (key, word, began) = (self.new_name("edit"), self.new_word(), self.stage.book.now());
        let text = self.sentence(&word);
        // Until the answer is definite, either word may be the one that finds it.
        self.pool.forget_memory(memory);
        let ask = ClientRequest::new(Method::PATCH, format!("/v1/memories/{memory}")).key(&key);
        let told = self.ask_until_definite(&ask.body(json!({ "text": text })), rng).await;
        if told.is_ok() {
            self.pool.learn_memory(memory, &word);
        }
        self.record((&key, began), What::Edit { memory: memory.to_owned(), text }, &told);
    }

    async fn forget_memory(&self, memory: &str, rng: &mut Rng) {
        let (key, began) = (self.new_name("forget"), self.stage.book.now());
        self.pool.forget_memory(memory);
        let ask = ClientRequest::new(Method::DELETE, format!("/v1/memories/{memory}")).key(&key);
        let told = self.ask_until_definite(&ask, rng).await;
        self.record((&key, began), What::Forget { memory: memory.to_owned() }, &told);
    }

    /// Looks for a memory by the one word that only it has.
    pub(super) async fn search(&self, rng: &mut Rng) {
        let Some(known) = self.pool.memory(rng) else { return self.remember(rng).await };
        let (key, began) = (self.new_name("search"), self.stage.book.now());
        let path = format!("/v1/apps/{}/memories/search", self.user.app);
        let ask = ClientRequest::new(Method::POST, path).body(json!({ "query": known.word }));
        let told = self.ask_until_definite(&ask, rng).await;
        let found = told.list().iter().filter_map(|hit| text(hit.get("memory")?, "text")).collect();
        self.record((&key, began), What::Search { words: known.word, found }, &told);
    }

    pub(super) async fn delete_thread(&self, rng: &mut Rng) {
        let Some(thread) = self.pool.thread(rng) else { return };
        let (key, began) = (self.new_name("delete"), self.stage.book.now());
        let ask = ClientRequest::new(Method::DELETE, format!("/v1/threads/{thread}")).key(&key);
        let told = self.ask_until_definite(&ask, rng).await;
        // The others learn of it by what they are told when they come to it.
        if told.is_gone() || rng.bool() {
            self.pool.forget_thread(&thread);
        }
        self.record((&key, began), What::DeleteThread { thread }, &told);
    }

    /// Looks at something that is there.
    pub(super) async fn look_around(&self, rng: &mut Rng) {
        let app = &self.user.app;
        let (thread, run) = (self.pool.thread(rng), self.pool.run(rng).map(|known| known.run));
        let path = match (rng.u8(0..9), thread, run) {
            (0, _, _) => self.threads_path(),
            (1, Some(thread), _) => format!("/v1/threads/{thread}"),
            (2, Some(thread), _) => format!("/v1/threads/{thread}/messages"),
            (3, _, _) => format!("/v1/apps/{app}/actions?limit=50"),
            (4, _, Some(run)) => format!("/v1/runs/{run}"),
            (5, _, Some(run)) => format!("/v1/runs/{run}/prompt"),
            (6, _, _) => format!("/v1/apps/{app}/memories/export"),
            (7, _, _) => format!("/v1/apps/{app}/memories?status=all"),
            _ => "/v1/me".to_owned(),
        };
        self.read_path(&path, rng).await;
    }

    /// A read that is written down.
    async fn read_path(&self, path: &str, rng: &mut Rng) -> Told {
        let (key, began) = (self.new_name("read"), self.stage.book.now());
        let told = self.ask_until_definite(&ClientRequest::get(path), rng).await;
        self.record((&key, began), What::Read { path: path.to_owned() }, &told);
        told
    }

    fn threads_path(&self) -> String {
        format!("/v1/apps/{}/threads?limit=1000", self.user.app)
    }

    /// A word that is in no other text of any user.
    fn new_word(&self) -> String {
        self.new_name("word").replace('-', "x")
    }

    fn sentence(&self, word: &str) -> String {
        format!("{} keeps {word} in a drawer", self.user.canary)
    }
}
