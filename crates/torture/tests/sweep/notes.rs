//! The answers and events that a client has seen. They live on when the server does not.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use testkit::Answer;
use tokio::sync::watch;

/// A run as the head of its stream names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) run: String,
    pub(crate) thread: String,
}

/// One event, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) event: String,
    pub(crate) data: String,
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pages: Mutex<Pages>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Pages {
    /// The answer to each step, by its name.
    pub(crate) answers: BTreeMap<String, Answer>,
    /// The run of each message, by its key, and the body it was asked for with.
    pub(crate) told: BTreeMap<String, (Told, Value)>,
    /// The events of each run, by their numbers.
    pub(crate) seen: BTreeMap<String, BTreeMap<u64, Seen>>,
    pub(crate) findings: Vec<String>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pages(&self) -> Pages {
        self.lock().clone()
    }

    pub(crate) fn finding(&self, finding: String) {
        self.lock().findings.push(finding);
    }

    pub(crate) fn answer(&self, step: &str) -> Option<Answer> {
        self.lock().answers.get(step).cloned()
    }

    /// An answer counts: a client that has one does not ask again.
    pub(crate) fn answered(&self, step: &str, answer: &Answer) {
        if answer.status >= 500 {
            self.finding(format!("{step} was answered {answer:?}"));
        }
        self.lock().answers.insert(step.to_owned(), answer.clone());
    }

    pub(crate) fn told(&self, key: &str) -> Option<Told> {
        self.lock().told.get(key).map(|(told, _)| told.clone())
    }

    pub(crate) fn tell(&self, key: &str, told: Told, body: Value) {
        self.lock().told.insert(key.to_owned(), (told, body));
    }

    pub(crate) fn saw(&self, run: &str, id: u64, seen: &Seen) {
        let mut pages = self.lock();
        let before = pages.seen.entry(run.to_owned()).or_default().entry(id).or_insert_with(|| seen.clone());
        if *before != *seen {
            let finding = format!("{run}: event {id} was {before:?} and is now {seen:?}");
            pages.findings.push(finding);
        }
        drop(pages);
        self.changed.send_replace(());
    }

    /// The number of the last event of a run, and whether it is the end.
    pub(crate) fn last(&self, run: &str) -> Option<(u64, bool)> {
        let pages = self.lock();
        let (id, last) = pages.seen.get(run)?.last_key_value()?;
        Some((*id, last.event == "run:end"))
    }

    pub(crate) fn has_seen(&self, run: &str, event: &str) -> bool {
        self.lock().seen.get(run).is_some_and(|seen| seen.values().any(|seen| seen.event == event))
    }

    /// The data of the first event of this name, once there is one.
    pub(crate) async fn wait_for(&self, run: &str, event: &str) -> Value {
        let mut changed = self.changed.subscribe();
        loop {
            let found = self.lock().seen.get(run).and_then(|seen| {
                let found = seen.values().find(|seen| seen.event == event)?;
                Some(serde_json::from_str(&found.data).expect("data is JSON"))
            });
            if let Some(data) = found {
                return data;
            }
            let _ = changed.changed().await; // the sender lives as long as `self`
        }
    }
}
