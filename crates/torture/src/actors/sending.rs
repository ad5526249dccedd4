//! Sending messages: once, twice under one key, two at once, and with a cancel after it.

use std::time::Duration;

use fastrand::Rng;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Actor;
use super::client::{ClientRequest, Told};
use super::reading::ReadingPlan;
use crate::program::MessageProgram;
use crate::record::{Micros, OperationOutcome, Trigger, What};

/// The longest time from an accepted message to its cancel, in milliseconds.
const LONGEST_CANCEL_DELAY: u64 = 400;

/// Of a hundred messages to several nodes, how many are answered slowly.
const SLOW_OF_HUNDRED: u8 = 12;

/// One message, the same in every attempt.
struct Letter {
    key: String,
    program: MessageProgram,
    thread: Option<String>,
    on_busy: Option<&'static str>,
    stream: bool,
}

impl Letter {
    fn ask(&self, app: &str) -> ClientRequest {
        let mut body = json!({ "message": self.program.text() });
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.thread.clone().map(|thread| ("threadId".to_owned(), Value::from(thread))));
            fields.extend(self.on_busy.map(|on_busy| ("onBusy".to_owned(), Value::from(on_busy))));
            fields.extend((!self.stream).then(|| ("stream".to_owned(), Value::from(false))));
        }
        let path = format!("/v1/apps/{app}/runs");
        let ask = ClientRequest::new(Method::POST, path).body(body).key(&self.key).moment(Trigger::Accepted);
        if self.stream { ask.streamed() } else { ask }
    }
}

impl Actor {
    /// A message to a known thread, or to a new one.
    fn letter(&self, thread: Option<String>, rng: &mut Rng) -> Letter {
        let tag = self.new_name("t");
        let on_busy = match rng.u8(0..100) {
            0..=9 => Some("reject"),
            10..=19 => Some("interrupt"),
            20..=29 => Some("queue"),
            _ => None,
        };
        let mut program = MessageProgram::draw(&tag, &self.user.canary, rng);
        if self.stage.balancer.has_several() && rng.u8(0..100) < SLOW_OF_HUNDRED {
            program = program.slow_down(rng);
        }
        Letter { key: format!("send-{tag}"), program, thread, on_busy, stream: rng.u8(0..100) >= 12 }
    }

    fn some_thread(&self, rng: &mut Rng) -> Option<String> {
        self.pool.thread(rng).filter(|_| rng.u8(0..100) >= 20)
    }

    async fn post(&self, letter: &Letter, rng: &mut Rng) -> Told {
        self.ask_until_definite(&letter.ask(&self.user.app), rng).await
    }

    /// Writes a message down, and lets the user's other actors know of it.
    fn sent(&self, letter: &Letter, began: Micros, told: &Told) {
        let what = What::Send {
            tag: letter.program.tag.clone(),
            thread: letter.thread.clone(),
            runs: told.runs.clone(),
            threads: told.threads.clone(),
            on_busy: letter.on_busy.map(str::to_owned),
        };
        self.record((&letter.key, began), what, told);
        told.threads.iter().for_each(|thread| self.pool.learn_thread(thread));
        told.runs.iter().for_each(|run| self.pool.learn_run(run));
        if let Some(thread) = letter.thread.as_deref().filter(|_| told.is_gone()) {
            self.pool.forget_thread(thread);
        }
    }

    pub(super) async fn send(&self, rng: &mut Rng) {
        const MOST_FRAMES: usize = 30;
        let letter = self.letter(self.some_thread(rng), rng);
        let began = self.stage.book.now();
        let told = self.post(&letter, rng).await;
        self.sent(&letter, began, &told);
        let plan = if rng.u8(0..10) < 7 {
            ReadingPlan::to_the_end(rng)
        } else {
            ReadingPlan::part(MOST_FRAMES, rng)
        };
        self.listen(told, plan, rng).await;
    }

    /// Reads the stream that answers a message.
    async fn listen(&self, told: Told, plan: ReadingPlan, rng: &mut Rng) {
        if let (Some(opened), Some(run)) = (told.opened, told.runs.first()) {
            self.read_stream(opened, run, plan, rng).await;
        }
    }

    /// Sends one message under one key over two connections at once.
    pub(super) async fn double_send(&self, rng: &mut Rng) {
        const MOST_FRAMES: usize = 10;
        let letter = self.letter(self.some_thread(rng), rng);
        let began = self.stage.book.now();
        let mut other = rng.fork();
        let (mut first, mut second) = tokio::join!(self.post(&letter, rng), self.post(&letter, &mut other));
        let streams = (first.opened.take(), second.opened.take());
        let told = combined_answer(first, second);
        self.sent(&letter, began, &told);
        let Some(run) = told.runs.first() else { return };
        let plans = (ReadingPlan::to_the_end(rng), ReadingPlan::part(MOST_FRAMES, rng));
        let reading = async {
            if let Some(opened) = streams.0 {
                self.read_stream(opened, run, plans.0, rng).await;
            }
        };
        let beside = async {
            if let Some(opened) = streams.1 {
                self.read_stream(opened, run, plans.1, &mut other).await;
            }
        };
        tokio::join!(reading, beside);
    }

    /// Two messages to one thread at once: one answers after the other, in some order.
    pub(super) async fn two_sends(&self, rng: &mut Rng) {
        let Some(thread) = self.pool.thread(rng) else { return self.send(rng).await };
        let (first, second) = (self.letter(Some(thread.clone()), rng), self.letter(Some(thread), rng));
        let mut other = rng.fork();
        tokio::join!(self.deliver(&first, rng), self.deliver(&second, &mut other));
    }

    async fn deliver(&self, letter: &Letter, rng: &mut Rng) {
        let began = self.stage.book.now();
        let told = self.post(letter, rng).await;
        self.sent(letter, began, &told);
        let plan = ReadingPlan::to_the_end(rng);
        self.listen(told, plan, rng).await;
    }

    /// Cancels a new run soon after it was accepted, or one that is known.
    pub(super) async fn send_and_cancel(&self, rng: &mut Rng) {
        let delay = Duration::from_millis(rng.u64(0..=LONGEST_CANCEL_DELAY));
        if let Some(known) = self.pool.run(rng).filter(|_| rng.u8(0..10) < 2) {
            sleep(delay).await;
            return self.cancel(&known.run, rng).await;
        }
        let letter = Letter { stream: true, ..self.letter(self.some_thread(rng), rng) };
        let began = self.stage.book.now();
        let told = self.post(&letter, rng).await;
        self.sent(&letter, began, &told);
        let Some(run) = told.runs.first().cloned() else { return };
        let (mut other, plan) = (rng.fork(), ReadingPlan::to_the_end(rng));
        let cancelling = async {
            sleep(delay).await;
            self.cancel(&run, &mut other).await;
        };
        tokio::join!(self.listen(told, plan, rng), cancelling);
    }

    async fn cancel(&self, run: &str, rng: &mut Rng) {
        let (key, began) = (self.new_name("cancel"), self.stage.book.now());
        let path = format!("/v1/runs/{run}/cancel");
        let ask = ClientRequest::new(Method::POST, path).key(&key).moment(Trigger::CancelAccepted);
        let told = self.ask_until_definite(&ask, rng).await;
        let status = told.text("status").filter(|_| told.is_ok());
        self.record((&key, began), What::Cancel { run: run.to_owned(), status }, &told);
    }
}

/// Returns the common knowledge of two senders under one key. One of them that was refused proves nothing while the
/// other does not know.
fn combined_answer(mut one: Told, other: Told) -> Told {
    let granted =
        [&one, &other].into_iter().filter(|told| told.is_ok()).filter_map(|told| told.answered).min();
    (one.outcome, one.answered) = match (one.outcome, other.outcome) {
        (OperationOutcome::Ok, _) | (_, OperationOutcome::Ok) => (OperationOutcome::Ok, granted),
        (OperationOutcome::Fail, OperationOutcome::Fail) => {
            (OperationOutcome::Fail, one.answered.max(other.answered))
        }
        (OperationOutcome::Unknown, _) | (_, OperationOutcome::Unknown) => (OperationOutcome::Unknown, None),
    };
    one.attempts.extend(other.attempts);
    for run in other.runs {
        if !one.runs.contains(&run) {
            one.runs.push(run);
        }
    }
    for thread in other.threads {
        if !one.threads.contains(&thread) {
            one.threads.push(thread);
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(outcome: OperationOutcome, answered: Option<Micros>, run: Option<&str>) -> Told {
        Told {
            outcome,
            attempts: vec![if outcome == OperationOutcome::Ok { 200 } else { 0 }],
            answered,
            node: None,
            runs: run.map(str::to_owned).into_iter().collect(),
            threads: Vec::new(),
            body: Value::Null,
            opened: None,
        }
    }

    #[test]
    fn two_senders_know_what_either_was_told() {
        let both = combined_answer(
            told(OperationOutcome::Ok, Some(9), Some("run_1")),
            told(OperationOutcome::Ok, Some(7), Some("run_1")),
        );
        assert_eq!(
            (both.outcome, both.answered, both.runs),
            (OperationOutcome::Ok, Some(7), vec!["run_1".into()])
        );
        assert_eq!(both.attempts, [200, 200]);

        let one = combined_answer(
            told(OperationOutcome::Fail, Some(3), None),
            told(OperationOutcome::Ok, Some(7), Some("run_1")),
        );
        assert_eq!(
            (one.outcome, one.answered, one.runs),
            (OperationOutcome::Ok, Some(7), vec!["run_1".into()])
        );

        let two = combined_answer(
            told(OperationOutcome::Ok, Some(1), Some("run_1")),
            told(OperationOutcome::Ok, Some(2), Some("run_2")),
        );
        assert_eq!(two.runs, ["run_1", "run_2"]);

        let neither = combined_answer(
            told(OperationOutcome::Fail, Some(3), None),
            told(OperationOutcome::Unknown, None, None),
        );
        assert_eq!((neither.outcome, neither.answered), (OperationOutcome::Unknown, None));

        let refused = combined_answer(
            told(OperationOutcome::Fail, Some(3), None),
            told(OperationOutcome::Fail, Some(5), None),
        );
        assert_eq!((refused.outcome, refused.answered), (OperationOutcome::Fail, Some(5)));
    }
}
