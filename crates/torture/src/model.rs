//! The model: it does what the program in the newest message says, and has no state but how often it was asked. Titles,
//! memories and summaries it writes as the apps' own prompts ask for them.

mod background;
mod reading;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testkit::upstream::{Observer, Received, Reply, ReplyEnding, ScriptedCall, Upstream};

use self::reading::{Wish, wish};
use crate::private_words::PrivateWords;
use crate::program::{Fault, FaultKind, MessageProgram, ProgramStep};
use crate::record::{Book, Micros, ModelCallRecord, Trigger};
use crate::stage::Moments;

/// Words of one piece of a reply.
const PIECE_WORDS: usize = 4;
/// Words of a reply at most, also if its program asks for more.
const MAX_WORDS: usize = 5_000;
/// Characters of one fragment of a call's arguments.
const FRAGMENT: usize = 12;
/// Steps of which it is known how often they were asked for. Beyond, all are forgotten: their runs are long over.
const MAX_COUNTED: usize = 500_000;
/// The words of the model, over and over.
const WORDS: [&str; 12] =
    ["the", "tide", "comes", "in", "and", "goes", "out", "while", "nobody", "counts", "its", "waves"];

/// A model, and the switch that makes it fail. It has a socket for each node, so that it knows which node asks.
pub(crate) struct ScriptedModel {
    sockets: Vec<Upstream>,
    pub(crate) burst: Burst,
}

/// For a while every request is answered with 429 or 503. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Burst {
    book: Book,
    until: Arc<AtomicU64>,
}

impl Burst {
    pub(crate) fn begin(&self, length: Duration) {
        let length = Micros::try_from(length.as_micros()).unwrap_or(Micros::MAX);
        self.until.store(self.book.now().saturating_add(length), Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    fn is_on(&self) -> bool {
        self.book.now() < self.until.load(Ordering::Acquire)
    }
}

impl ScriptedModel {
    pub(crate) async fn start(
        book: &Book,
        moments: &Moments,
        private_words: &PrivateWords,
        key: &str,
        nodes: usize,
    ) -> Self {
        let burst = Burst { book: book.clone(), until: Arc::default() };
        let player = Arc::new(Player {
            book: book.clone(),
            moments: moments.clone(),
            private_words: private_words.clone(),
            burst: burst.clone(),
            state: Mutex::default(),
        });
        let mut sockets = Vec::new();
        for node in 0..nodes {
            let player = Arc::clone(&player);
            let upstream = Upstream::start_observed(Arc::new(PlayerForNode { player, node })).await;
            upstream.require_key(key);
            sockets.push(upstream);
        }
        Self { sockets, burst }
    }

    /// Returns the base URL of the model for a node.
    pub(crate) fn base_url(&self, node: usize) -> String {
        self.sockets.get(node).map(Upstream::base_url).unwrap_or_default()
    }
}

struct PlayerForNode {
    player: Arc<Player>,
    node: usize,
}

struct Player {
    book: Book,
    moments: Moments,
    private_words: PrivateWords,
    burst: Burst,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often each step of each program was asked for.
    attempts: HashMap<(String, usize), usize>,
    /// Replies under way that hold calls.
    calling: Vec<usize>,
}

/// A reply, and what is noted of it.
struct PlannedAnswer {
    reply: Reply,
    text: String,
    tokens: (u64, u64),
    calls: bool,
}

impl Observer for PlayerForNode {
    fn answer(&self, request: &Received) -> (usize, Reply) {
        self.player.answer(request, self.node)
    }

    fn note_fault(&self, request: &Received, what: &str) {
        let tag = wish(&request.body).place().0.unwrap_or_default();
        self.player.book.note_complaint(format!("{what} ({tag})"));
    }

    fn note_end(&self, number: usize, ending: ReplyEnding) {
        self.player.end(number, ending, self.node);
    }
}

impl Player {
    fn answer(&self, request: &Received, node: usize) -> (usize, Reply) {
        let whole = request.body.to_string();
        if self.private_words.holds_secret(&whole) {
            self.book.note_complaint("a prompt holds a secret".into());
        }
        let wish = wish(&request.body);
        let (tag, step) = wish.place();
        let attempt = tag.as_ref().map_or(0, |tag| self.attempt(tag, step));
        let answer =
            if self.burst.is_on() { overloaded_answer(self.book.now()) } else { answer(&wish, attempt) };
        let number = self.book.add_model_call(ModelCallRecord {
            tag,
            step,
            attempt,
            began: self.book.now(),
            written: None,
            closed: None,
            input_tokens: answer.tokens.0,
            output_tokens: answer.tokens.1,
            canaries: self.private_words.owners(&whole),
            text: answer.text,
            node,
        });
        if answer.calls {
            self.lock().calling.push(number);
        }
        (number, answer.reply)
    }

    fn end(&self, number: usize, ending: ReplyEnding, node: usize) {
        let calling = {
            let mut state = self.lock();
            let place = state.calling.iter().position(|calling| *calling == number);
            place.map(|place| state.calling.swap_remove(place)).is_some()
        };
        match ending {
            ReplyEnding::Whole => {
                self.book.note_model_reply(number);
                if calling {
                    self.moments.note(Trigger::CallWritten, node);
                }
            }
            ReplyEnding::Left => self.book.note_model_close(number),
            ReplyEnding::Cut => {}
        }
    }

    fn attempt(&self, tag: &str, step: usize) -> usize {
        let mut state = self.lock();
        if state.attempts.len() >= MAX_COUNTED {
            state.attempts.clear();
        }
        let times = state.attempts.entry((tag.to_owned(), step)).or_default();
        let attempt = *times;
        *times += 1;
        attempt
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(wish: &Wish, attempt: usize) -> PlannedAnswer {
    match wish {
        Wish::Step { program, step, tools } => perform(program, *step, attempt, *tools),
        Wish::Title(first) => text_answer(background::title(first), background::TITLE_TOKENS),
        Wish::Memories(batch) => text_answer(background::memories(batch), background::MEMORY_TOKENS),
        Wish::Summary(turns) => text_answer(background::summary(turns), background::SUMMARY_TOKENS),
        Wish::Unreadable => text_answer("There is no program here.".into(), background::OTHER_TOKENS),
    }
}

fn text_answer(text: String, tokens: (u64, u64)) -> PlannedAnswer {
    PlannedAnswer { reply: Reply::says(&text).usage(tokens.0, tokens.1), text, tokens, calls: false }
}

/// A failure: nothing of it counts.
fn failed_answer(reply: Reply) -> PlannedAnswer {
    PlannedAnswer { reply, text: String::new(), tokens: (0, 0), calls: false }
}

fn perform(program: &MessageProgram, step: usize, attempt: usize, tools: bool) -> PlannedAnswer {
    let nothing = ProgramStep { say: 1, calls: Vec::new() };
    let wanted = program.steps.get(step).unwrap_or(&nothing);
    let pieces = pieces(&program.tag, step, attempt, wanted.say);
    let pace = Duration::from_millis(program.pace);
    if let Some(fault) = program.fault.as_ref().filter(|fault| fault.step == step && attempt == 0) {
        return failed_answer(faulty_reply(fault, &pieces, pace));
    }
    let mut reply = spoken_reply(&pieces, pace);
    let calls: &[_] = if tools { &wanted.calls } else { &[] };
    for (name, arguments) in calls {
        reply = reply.call(ScriptedCall::new(name, &arguments.to_string()).fragments(FRAGMENT));
    }
    let tokens = tokens(&program.tag, step);
    let reply = reply.usage(tokens.0, tokens.1);
    PlannedAnswer { reply, text: pieces.concat(), tokens, calls: !calls.is_empty() }
}

/// The text of a step. Every piece says which attempt it is of, so that a mixture of two shows.
fn pieces(tag: &str, step: usize, attempt: usize, words: usize) -> Vec<String> {
    let mut pieces = vec![format!("{tag} step {step} #{attempt} ")];
    let all: Vec<&str> = WORDS.iter().copied().cycle().take(words.min(MAX_WORDS)).collect();
    pieces.extend(all.chunks(PIECE_WORDS).map(|words| format!("{} #{attempt} ", words.join(" "))));
    pieces
}

fn spoken_reply(pieces: &[String], pace: Duration) -> Reply {
    let mut reply = Reply::stream();
    for piece in pieces {
        reply = reply.text(piece);
        if !pace.is_zero() {
            reply = reply.pause(pace);
        }
    }
    reply
}

fn faulty_reply(fault: &Fault, pieces: &[String], pace: Duration) -> Reply {
    let half = || spoken_reply(pieces.get(..pieces.len().div_ceil(2)).unwrap_or_default(), pace);
    match fault.kind {
        FaultKind::RateLimited => rate_limited_reply(),
        FaultKind::Unavailable => unavailable_reply(),
        FaultKind::Cut => half().without_end().cut_after(usize::MAX),
        FaultKind::ErrorEvent => half().error("server_error", None, "the model has broken off"),
    }
}

fn rate_limited_reply() -> Reply {
    Reply::status(429).header("retry-after", "0").error(
        "rate_limit_error",
        Some("rate_limit_exceeded"),
        "too many requests",
    )
}

fn unavailable_reply() -> Reply {
    Reply::status(503).error("server_error", None, "the model is not there")
}

fn overloaded_answer(now: Micros) -> PlannedAnswer {
    failed_answer(if now.is_multiple_of(2) { rate_limited_reply() } else { unavailable_reply() })
}

/// Returns the cost of an answer as the provider reports it: the same for every attempt at a step, and different from
/// step to step.
fn tokens(tag: &str, step: usize) -> (u64, u64) {
    let mixed = tag.bytes().fold(step as u64 + 17, |mixed, byte| {
        mixed.wrapping_mul(31).wrapping_add(u64::from(byte)) % 1_000_003
    });
    (100 + mixed % 401, 10 + mixed % 89)
}

#[cfg(test)]
mod tests;
