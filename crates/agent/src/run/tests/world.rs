//! A run without its surroundings: a store that is a list, a process that dies when it is told to, and the steps of
//! [`Run`](crate::run::Run) as far as the log knows of them.

use std::sync::atomic::{AtomicU64, Ordering};

use app::LoopLimits;
use jiff::Timestamp;
use protocol::{
    Call, CallId, ContextLoaded, Decision, Event, Failure, Finish, Ids, Pinned, ProposalClosed, ProposalOpen,
    Remembered, RememberedOutcome, RunId, RunStart, RunStatus, Settings, Source, StepEnd, StepReset,
    StepRetry, StepStart, ThreadId, ToolComplete, ToolStart, ToolStatus, Usage,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::model::{Model, Next};
use super::turns::{Alike, Fate, Loaded, Said, Try, Turn};
use crate::decide::{Halt, MAX_RESTARTS, NextStep, RunEnding, excuse, failure};
use crate::run::finish::{last_events, unanswered_result};
use crate::state::{INVALID_ARGUMENTS, RunState};
use crate::transcript::MAX_CALLS_PER_STEP;

/// The function that decides, so that a wrong one can be tried.
pub(super) type Policy = fn(&RunState, &LoopLimits, Option<Halt>) -> NextStep;

/// The cause that ends a step before it is done.
#[derive(Debug)]
enum Cut {
    /// The process has died.
    Crash,
    /// Something must not be.
    Wrong(String),
}

impl From<String> for Cut {
    fn from(wrong: String) -> Self {
        Cut::Wrong(wrong)
    }
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn fresh(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1)
    }
}

pub(super) struct World {
    policy: Policy,
    limits: LoopLimits,
    ids: Counted,
    /// The committed events.
    pub(super) log: Vec<Event>,
    /// The fold of it.
    truth: RunState,
    pub(super) model: Model,
    /// The state that the process keeps; none while the run waits for the user and no process has it.
    state: Option<RunState>,
    /// Others have written what the process has not looked at.
    behind: bool,
    /// Written down, so that it outlives the process. The first word counts.
    stop: Option<Halt>,
    timed_out: bool,
    crash: Option<u8>,
    halt_later: Option<(u8, Halt)>,
    /// Decisions made.
    pub(super) steps: usize,
    /// Times a process took the run up from its log.
    pub(super) taken_up: usize,
}

impl World {
    pub(super) fn new(limits: LoopLimits, policy: Policy) -> Self {
        let ids = Counted::default();
        let start = RunStart {
            run_id: ids.run(),
            thread_id: ids.thread(),
            message_id: ids.message(),
            model: Some("one".into()),
            settings: Settings::default(),
            system_prompt: None,
            persona_id: None,
            document_ids: None,
            app_revision: "1".into(),
            echo: None,
            actor: None,
            tools: vec![],
            client_tools: vec![],
            answer_schema: None,
            imported: false,
        };
        let log = vec![Event::RunStart(start)];
        let truth = RunState::replay(&log);
        Self {
            policy,
            limits,
            ids,
            state: Some(truth.clone()),
            log,
            truth,
            model: Model::default(),
            behind: false,
            stop: None,
            timed_out: false,
            crash: None,
            halt_later: None,
            steps: 0,
            taken_up: 0,
        }
    }

    pub(super) fn truth(&self) -> &RunState {
        &self.truth
    }

    fn stop(&mut self, halt: Halt) {
        match halt {
            Halt::TimedOut => self.timed_out = true,
            Halt::Cancelled | Halt::Interrupted => self.stop = self.stop.or(Some(halt)),
        }
    }

    fn halt(&self) -> Option<Halt> {
        self.stop.or(self.timed_out.then_some(Halt::TimedOut))
    }

    /// The process dies, and the next one takes the run up from its log.
    fn restart(&mut self) {
        self.taken_up += 1;
        self.state = Some(RunState::replay(&self.log));
        (self.behind, self.timed_out, self.crash, self.halt_later) = (false, false, None, None);
    }

    /// Takes one step, as the turn has it. Nothing happens once the run has ended.
    pub(super) fn turn(&mut self, turn: &Turn) -> Result<(), String> {
        if let Some(halt) = turn.halt {
            self.stop(halt);
        }
        let Some(mut state) = self.state.take() else { return self.parked(turn) };
        (self.crash, self.halt_later) = (turn.crash, turn.halt_later);
        match self.perform(&state, turn) {
            Ok(facts) => {
                self.state = facts.map(|facts| {
                    facts.iter().for_each(|fact| state.apply(fact));
                    state
                });
                if self.crash.is_some() {
                    self.restart();
                }
            }
            Err(Cut::Crash) => self.restart(),
            Err(Cut::Wrong(wrong)) => return Err(wrong),
        }
        if turn.echo {
            self.echo()?;
        }
        self.check()
    }

    /// The state that the process keeps is that of the log, but for what others have just written.
    fn check(&self) -> Result<(), String> {
        match &self.state {
            Some(state) if !self.behind && *state != self.truth => {
                Err(format!("the process and its log disagree: {state:?} and {:?}", self.truth))
            }
            _ => Ok(()),
        }
    }

    /// No process drives the run. The user says something, or it is to stop, or the server is started.
    fn parked(&mut self, turn: &Turn) -> Result<(), String> {
        for decision in &turn.words {
            self.say(*decision)?;
        }
        if self.stop.is_some() || turn.crash.is_some() || self.model.awaiting().next().is_none() {
            self.restart();
        }
        self.check()
    }

    /// Decides and does it. None when the run waits and no process has to drive it.
    fn perform(&mut self, state: &RunState, turn: &Turn) -> Result<Option<Vec<Event>>, Cut> {
        let halt = self.halt();
        let step = (self.policy)(state, &self.limits, halt);
        self.steps += 1;
        if step != (self.policy)(state, &self.limits, halt) {
            return Err(Cut::Wrong("the same state led to two different steps".into()));
        }
        let (next, due) = (Next::from(&step), self.model.next(&self.limits, halt));
        if !self.behind && next != due {
            return Err(Cut::Wrong(format!("{next:?} was chosen where {due:?} is due")));
        }
        if matches!(next, Next::CallModel | Next::Answer) && self.model.is_unanswered() {
            return Err(Cut::Wrong("the model was asked while a call had no result".into()));
        }
        let facts = match step {
            NextStep::Load => self.load(turn.loaded)?,
            NextStep::CallModel => self.ask(state, turn, true)?,
            NextStep::Answer => self.ask(state, turn, false)?,
            NextStep::RunTools(calls) => self.run_tools(state, calls, turn)?,
            NextStep::Wait => {
                let news: Vec<Event> =
                    self.log.iter().filter(|event| state.waits_for(event)).cloned().collect();
                self.behind = false;
                return Ok(Some(news).filter(|news| !news.is_empty()));
            }
            NextStep::Finish(ending) => self.finish(state, ending)?,
        };
        Ok(Some(facts))
    }

    /// One commit of the process. Gives back what counts.
    fn commit(&mut self, events: Vec<Event>) -> Result<Vec<Event>, Cut> {
        match &mut self.crash {
            Some(0) => return Err(Cut::Crash),
            Some(left) => *left -= 1,
            None => {}
        }
        let kept = self.store(events)?;
        match self.halt_later {
            Some((0, halt)) => {
                self.halt_later = None;
                self.stop(halt);
            }
            Some((left, halt)) => self.halt_later = Some((left - 1, halt)),
            None => {}
        }
        Ok(kept)
    }

    /// Keeps the events that the store would take: not a second result, and not a second word on a proposal.
    fn store(&mut self, events: Vec<Event>) -> Result<Vec<Event>, String> {
        let mut kept = Vec::new();
        for event in events {
            if self.comes_second(&event) {
                continue;
            }
            self.model.see(&event, &self.limits)?;
            self.truth.apply(&event);
            self.log.push(event.clone());
            kept.push(event);
        }
        Ok(kept)
    }

    fn comes_second(&self, event: &Event) -> bool {
        let same = |other: &Event| match (event, other) {
            (Event::ToolComplete(new), Event::ToolComplete(old)) => new.call_id == old.call_id,
            (Event::ProposalClosed(new), Event::ProposalClosed(old)) => new.proposal_id == old.proposal_id,
            (_, _) => false,
        };
        self.log.iter().rev().any(same)
    }

    /// The user decides on the first proposal that is open, if there is one.
    fn say(&mut self, decision: Decision) -> Result<(), String> {
        let Some(call_id) = self.model.awaiting().next() else { return Ok(()) };
        let open = self.log.iter().rev().find_map(|event| {
            let Event::ProposalOpen(open) = event else { return None };
            (open.call_id == call_id).then(|| open.clone())
        });
        let Some(open) = open else { return Err("a call awaits an approval without a proposal".into()) };
        let closed = ProposalClosed { proposal_id: open.proposal_id, call_id, decision, by: None };
        let mut events = vec![Event::ProposalClosed(closed)];
        if decision != Decision::Confirmed {
            let output = json!({ "error": decision.name() });
            events.push(result((call_id, &open.name), ToolStatus::Denied, output, false));
        }
        self.store(events)?;
        self.behind = true;
        Ok(())
    }

    /// Records the last result or decision again, like a process that comes late: nothing changes.
    fn echo(&mut self) -> Result<(), String> {
        let done = |event: &&Event| matches!(event, Event::ToolComplete(_) | Event::ProposalClosed(_));
        let Some(last) = self.log.iter().rev().find(done).cloned() else { return Ok(()) };
        let before = self.log.len();
        self.store(vec![last])?;
        if self.log.len() == before { Ok(()) } else { Err("what came second was kept".into()) }
    }

    fn load(&mut self, loaded: Loaded) -> Result<Vec<Event>, Cut> {
        let remembered = |reply: Option<&str>| Remembered {
            outcome: RememberedOutcome::Saved,
            memory_id: None,
            text: "tea".into(),
            reply: reply.map(str::to_owned),
        };
        let mut context = ContextLoaded::default();
        let mut sources = Vec::new();
        match loaded {
            Loaded::Prompt => {}
            Loaded::FromOutside => {
                context.outside = vec!["search".into()];
                context.documents = vec!["d".into()];
                sources = vec![source(), source()];
            }
            Loaded::RememberedBeside => context.remembered = Some(remembered(None)),
            Loaded::Remembered => context.remembered = Some(remembered(Some("I will."))),
            Loaded::Pinned => context.pinned = Some(Pinned { pin_id: None, reply: "Pinned.".into() }),
        }
        self.commit(std::iter::once(Event::ContextLoaded(context)).chain(sources).collect())
    }

    /// Asks the model: begins, tries, and ends the step, each in a commit of its own.
    fn ask(&mut self, state: &RunState, turn: &Turn, tools: bool) -> Result<Vec<Event>, Cut> {
        let step = state.next_step_number();
        let reset = |usage| Event::StepReset(StepReset { step, reason: "cut".into(), model: None, usage });
        let begin = match state.open {
            Some(_) => reset(None),
            None => Event::StepStart(StepStart { step, model: "one".into() }),
        };
        let mut facts = self.commit(vec![begin])?;
        if state.open.is_some() && state.restarts >= MAX_RESTARTS {
            return Ok(facts);
        }
        for again in &turn.tries {
            if self.halt().is_some() {
                break;
            }
            let event = match again {
                Try::Retry => {
                    Event::StepRetry(StepRetry { step, reason: "busy".into(), after: 0, model: None })
                }
                Try::Reset => reset(Some(USED)),
            };
            facts.extend(self.commit(vec![event])?);
        }
        let mut events = Vec::new();
        let end = match (self.halt(), turn.said) {
            (Some(Halt::TimedOut), _) => ended(step, "Hel", Finish::Failed, Some("run_timeout")),
            (Some(Halt::Cancelled | Halt::Interrupted), _) => ended(step, "Hel", Finish::Cancelled, None),
            (None, Said::OverBudget) => ended(step, "", Finish::Failed, Some("budget_exceeded")),
            (None, Said::Failed { code, streamed }) if streamed && excuse(&self.limits, code).is_some() => {
                events.push(reset(Some(USED)));
                ended(step, "", Finish::Failed, Some(code))
            }
            (None, Said::Failed { code, .. }) => ended(step, "Hel", Finish::Failed, Some(code)),
            (None, Said::Words(finish)) => ended(step, "Hello", finish, None),
            (None, Said::Nothing(finish)) => ended(step, " ", finish, None),
            (None, Said::Calls { count, alike, words, finish }) => {
                let text = if words { "So." } else { "" };
                // Asked for words, or not to be trusted: calls do not count.
                let count = if tools && finish != Finish::ContentFilter { count } else { 0 };
                StepEnd { calls: self.calls(step, count, alike), ..ended(step, text, finish, None) }
            }
        };
        events.push(Event::StepEnd(end));
        facts.extend(self.commit(events)?);
        Ok(facts)
    }

    fn calls(&self, step: u32, count: usize, alike: Alike) -> Vec<Call> {
        let call = |index: usize| {
            let alike = match (alike, index % 3) {
                (Alike::Mixed, 0) => Alike::No,
                (Alike::Mixed, 1) => Alike::Same,
                (Alike::Mixed, _) => Alike::Unusable,
                (alike, _) => alike,
            };
            let (input, raw) = match alike {
                Alike::No | Alike::Mixed => (json!({ "step": step, "index": index }), None),
                Alike::Same if index.is_multiple_of(2) => (json!({ "a": 1, "b": 2 }), None),
                Alike::Same => (json!({ "b": 2, "a": 1 }), None),
                Alike::Unusable => (Value::Null, Some(format!("{{{step} {index}"))),
            };
            let name = if index.is_multiple_of(2) || alike == Alike::Same { "look" } else { PAY };
            Call { id: self.ids.call(), name: name.into(), input, raw, provider_id: None }
        };
        (0..count.min(MAX_CALLS_PER_STEP)).map(call).collect()
    }

    /// Calls side by side. Once the run must stop no other begins, and of those under way every second still ends; the
    /// process learns of every second of these.
    fn run_tools(&mut self, state: &RunState, calls: Vec<Call>, turn: &Turn) -> Result<Vec<Event>, Cut> {
        let mut words = turn.words.iter();
        let mut waiting: Vec<(usize, Call, bool)> = Vec::new();
        for (index, call) in calls.into_iter().enumerate() {
            let begun = state.has_begun(call.id);
            waiting.push((index, call, begun));
        }
        let (mut facts, mut starts) = (Vec::new(), Vec::new());
        for order in turn.order.iter().cycle() {
            if waiting.is_empty() {
                break;
            }
            let place = usize::from(*order) % waiting.len();
            let (index, call, begun) = waiting.remove(place);
            let halted = self.halt().is_some();
            if halted && (!begun || index.is_multiple_of(2)) {
                continue;
            }
            let fate = fate(state, &call, turn.fates[index % turn.fates.len()]);
            if !begun && runs(fate) {
                starts.extend(self.commit(vec![start(&call)])?);
                waiting.push((index, call, true));
            } else {
                let recorded = self.commit(self.settled(&call, fate))?;
                let is_lost = halted && index % 4 == 1;
                facts.extend(recorded.into_iter().filter(|_| !is_lost));
                self.behind |= is_lost;
            }
            if let Some(decision) = words.next() {
                self.say(*decision)?;
            }
        }
        facts.extend(starts);
        Ok(facts)
    }

    /// How a call ends, or that it needs approval.
    fn settled(&self, call: &Call, fate: Fate) -> Vec<Event> {
        let of = (call.id, call.name.as_str());
        let error = |error: &str| json!({ "error": error });
        match fate {
            Fate::Complete => vec![result(of, ToolStatus::Complete, json!("ok"), false)],
            Fate::Outside => vec![result(of, ToolStatus::Complete, json!("ok"), true), source()],
            Fate::Failed => vec![result(of, ToolStatus::Failed, error("failed"), false)],
            Fate::Unusable => vec![result(of, ToolStatus::Failed, error(INVALID_ARGUMENTS), false)],
            Fate::Denied => vec![result(of, ToolStatus::Denied, error("denied"), false)],
            Fate::Unknown => vec![result(of, ToolStatus::Unknown, error("unknown"), false)],
            Fate::Ask => vec![Event::ProposalOpen(ProposalOpen {
                proposal_id: self.ids.proposal(),
                call_id: call.id,
                name: call.name.clone(),
                input: call.input.clone(),
                expires_at: Timestamp::UNIX_EPOCH,
            })],
        }
    }

    fn finish(&mut self, state: &RunState, ending: RunEnding) -> Result<Vec<Event>, Cut> {
        if let (RunEnding::Other { status, .. }, Some(Halt::Cancelled)) = (&ending, self.stop)
            && *status == RunStatus::Interrupted
        {
            return Err(Cut::Wrong("a cancelled run was interrupted".into()));
        }
        let unsure = |call: &Call| state.has_begun(call.id) && call.name == PAY;
        let left = state.pending.iter().map(|call| unanswered_result(call, unsure(call))).collect();
        let of = (RunId::new(Uuid::nil()), ThreadId::new(Uuid::nil()));
        let facts = last_events(of, state, (ending, left), &self.ids);
        let kept = self.commit(facts)?;
        self.behind = true; // results that the process does not know of stay in the place of those it made up
        match self.log.last() {
            Some(Event::RunEnd(_)) => Ok(kept),
            _ => Err(Cut::Wrong("the end of the run is not its last event".into())),
        }
    }
}

/// A tool that acts outside and cannot be asked what it did.
const PAY: &str = "pay";

const USED: Usage = Usage {
    input_tokens: 3,
    output_tokens: 2,
    cached_input_tokens: 0,
    reasoning_tokens: 0,
    cost: protocol::Cost(0),
    estimated: false,
};

/// The outcome of a call. Some checks come before the outcome that its turn has for it.
fn fate(state: &RunState, call: &Call, fate: Fate) -> Fate {
    let begun = state.has_begun(call.id);
    if call.raw.is_some() {
        Fate::Unusable
    } else if begun && call.name == PAY {
        Fate::Unknown
    } else if fate == Fate::Ask && (begun || state.is_approved(call.id)) {
        Fate::Complete
    } else {
        fate
    }
}

/// Whether the call gets as far as its tool.
fn runs(fate: Fate) -> bool {
    match fate {
        Fate::Complete | Fate::Outside | Fate::Failed | Fate::Unknown => true,
        Fate::Unusable | Fate::Denied | Fate::Ask => false,
    }
}

fn start(call: &Call) -> Event {
    let (call_id, name, input) = (call.id, call.name.clone(), call.input.clone());
    Event::ToolStart(ToolStart { call_id, name, input, effect: protocol::Effect::default(), marker: None })
}

fn result((call_id, name): (CallId, &str), status: ToolStatus, output: Value, outside: bool) -> Event {
    let name = name.to_owned();
    Event::ToolComplete(ToolComplete {
        call_id,
        name,
        status,
        output,
        duration_ms: 1,
        outside,
        suspicious: false,
        by: None,
    })
}

fn source() -> Event {
    let (kind, id) = ("page".to_owned(), "1".to_owned());
    Event::Source(Source { kind, id, title: String::new(), place: String::new() })
}

pub(super) fn ended(step: u32, text: &str, finish: Finish, code: Option<&str>) -> StepEnd {
    let error: Option<Failure> = code.map(|code| failure(code, "it failed"));
    StepEnd {
        step,
        text: text.into(),
        reasoning: None,
        calls: Vec::new(),
        usage: USED,
        finish,
        error,
        model: None,
        dropped: Vec::new(),
        provider: None,
        fallback: None,
        structured: None,
        prompt: None,
    }
}
