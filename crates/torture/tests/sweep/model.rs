//! The model of a scenario. It knows nothing but the request, and how many came before, so it says the same to a server
//! that has come back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use testkit::Fuse;
use testkit::upstream::{Observer, Received, Reply, ReplyEnding, ScriptedCall};

/// The answer to a request, given how many came before it.
pub(crate) type Says = fn(&Value, usize) -> Reply;

pub(crate) struct Model {
    says: Says,
    asked: AtomicUsize,
    fuse: Mutex<Fuse>,
    complaints: Mutex<Vec<String>>,
}

impl Model {
    pub(crate) fn new(says: Says) -> Self {
        let fuse = Mutex::new(Fuse::never_blowing());
        Self { says, asked: AtomicUsize::new(0), fuse, complaints: Mutex::default() }
    }

    /// From now on the server that asks dies by this fuse.
    pub(crate) fn set_fuse(&self, fuse: &Fuse) {
        *self.fuse.lock().unwrap_or_else(PoisonError::into_inner) = fuse.clone();
    }

    fn fuse(&self) -> Fuse {
        self.fuse.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the faults that a provider would have refused.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Model {
    fn answer(&self, request: &Received) -> (usize, Reply) {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fuse().pass("as the model is asked") {
            (number, (self.says)(&request.body, number))
        } else {
            (number, Reply::silence())
        }
    }

    fn note_fault(&self, _: &Received, what: &str) {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
    }

    fn note_end(&self, _: usize, ending: ReplyEnding) {
        match ending {
            ReplyEnding::Whole | ReplyEnding::Cut => drop(self.fuse().pass("after the model has replied")),
            ReplyEnding::Left => {}
        }
    }
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the user's last message.
pub(crate) fn asked(request: &Value) -> &str {
    let last = messages(request).iter().rfind(|message| message["role"] == "user");
    last.and_then(|message| message["content"].as_str()).unwrap_or_default()
}

/// How many answers of the model follow that.
pub(crate) fn step(request: &Value) -> usize {
    let since = messages(request).iter().rev().take_while(|message| message["role"] != "user");
    since.filter(|message| message["role"] == "assistant").count()
}

/// Calls these tools in the first step, and answers in the next.
pub(crate) fn calls_then(request: &Value, calls: &[(&str, &str)], answer: &str) -> Reply {
    if step(request) > 0 {
        return Reply::says(answer);
    }
    let reply = Reply::stream().text("One moment. ");
    calls.iter().fold(reply, |reply, (name, arguments)| reply.call(ScriptedCall::new(name, arguments)))
}

pub(crate) fn repeats(request: &Value, _: usize) -> Reply {
    Reply::says(&format!("Re: {}", asked(request)))
}
