//! A run does what a simple model of it says, through all kinds of failures, and it ends.
//!
//! A story is a list of turns: what the model says, what becomes of calls, what the user decides, when the run is to
//! stop and when the process dies. [`world`] plays it as the real loop would, with a list for a store.

mod model;
mod turns;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};

use app::{AtLimit, FailureReplies, LoopLimits};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use protocol::{
    Call, CallId, CallOpen, ContextLoaded, Decision, Event, Finish, ProposalClosed, ProposalId, ProposalOpen,
    RunStatus, StepEnd, StepReset, StepStart, ToolComplete, ToolStart, ToolStatus,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::decide::{Halt, NextStep, RunEnding, at_limit, next_step};
use crate::state::{FinishedStep, RunState};
use model::Next;
use turns::{Alike, Fate, Mood, Said, Try, Turn, turn};
use world::{Policy, World, ended};

/// Stories that are tried: 138,000 decisions in nine seconds, without optimisation.
const STORIES: u32 = 20_000;

/// Turns of one story. The turns after them are fair: the model answers, tools work, the user approves.
const MAX_TURNS: usize = 40;

/// Logs that no run writes.
const STRANGE_LOGS: u32 = 4_000;

/// Stories in which a wrong policy has to be found out.
const STORIES_FOR_THE_WRONG: u32 = 2_000;

/// Fair turns after which every run has ended: it loads, makes its calls, waits for the user, asks, and ends, some of it
/// twice.
const FAIR_TURNS: usize = 16;

fn limits(steps: usize, at_limit: AtLimit, failure_reply: bool) -> LoopLimits {
    let default = failure_reply.then(|| "Sorry.".to_owned());
    let failure_reply = FailureReplies { default, ..FailureReplies::default() };
    let max_steps = u32::try_from(steps).unwrap();
    let limit_reply = "I could not.".into();
    LoopLimits { max_steps, at_limit, limit_reply, failure_reply, ..LoopLimits::default() }
}

fn any_limits() -> impl Strategy<Value = LoopLimits> {
    let at_limit = prop_oneof![Just(AtLimit::Answer), Just(AtLimit::Reply)];
    (1..12usize, at_limit, any::<bool>()).prop_map(|(steps, at_limit, reply)| limits(steps, at_limit, reply))
}

/// Plays a story to its end.
fn play(world: &mut World, story: impl IntoIterator<Item = Turn>) -> Result<(), String> {
    let mut story = story.into_iter();
    while let (None, Some(turn)) = (world.model.ended, story.next()) {
        world.turn(&turn)?;
    }
    // The user decides on all that is open at once, which is more than the calls of one step.
    let fair = Turn { words: vec![Decision::Confirmed; 64], ..Turn::fair() };
    for _ in 0..FAIR_TURNS {
        if world.model.ended.is_none() {
            world.turn(&fair)?;
        }
    }
    check_end(world)
}

fn check_end(world: &World) -> Result<(), String> {
    if world.model.ended.is_none() {
        return Err(format!("the run does not end: {:?}", world.truth()));
    }
    let replayed = RunState::replay(&world.log);
    if replayed != *world.truth() || replayed.end.is_none() {
        return Err("the log, folded again, is another run".into());
    }
    for FinishedStep { step, results } in &replayed.steps {
        let answered =
            step.calls.iter().all(|call| results.iter().filter(|r| r.call_id == call.id).count() == 1);
        if !answered || results.len() != step.calls.len() {
            return Err(format!("step {} has {} results of {}", step.step, results.len(), step.calls.len()));
        }
    }
    Ok(())
}

fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(
        config.clone(),
        proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm),
    )
}

/// Plays a number of stories with a policy, and says which was wrong.
fn play_all(stories: u32, policy: Policy) -> Result<(usize, usize), String> {
    let (steps, crashes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mood = prop_oneof![Just(Mood::Quiet), Just(Mood::Stopped), Just(Mood::Dying)];
    let throws = vec(any::<u64>(), 0..MAX_TURNS);
    let played = runner(stories).run(&(any_limits(), mood, throws), |(limits, mood, throws)| {
        let mut world = World::new(limits, policy);
        let played = play(&mut world, throws.iter().map(|throw| turn(*throw, mood)));
        steps.fetch_add(world.steps, Ordering::Relaxed);
        crashes.fetch_add(world.taken_up, Ordering::Relaxed);
        let story = || throws.iter().map(|throw| turn(*throw, mood)).collect::<Vec<_>>();
        played.map_err(|wrong| TestCaseError::fail(format!("{wrong}; the story: {:#?}", story())))
    });
    played.map_err(|error| error.to_string())?;
    Ok((steps.into_inner(), crashes.into_inner()))
}

#[test]
fn a_run_does_what_the_model_of_it_says_and_ends_whatever_happens() {
    let (steps, crashes) = play_all(STORIES, next_step).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{STORIES} stories, {steps} decisions, {crashes} crashes");
    assert!(steps > 5 * STORIES as usize && crashes > STORIES as usize / 2);
}

/// The right step, but where `is_wrong` says so it is another.
fn instead(step: NextStep, is_wrong: bool, other: NextStep) -> NextStep {
    if is_wrong { other } else { step }
}

/// Each is a mistake that a policy could have, as a change to the right one.
const WRONG: [(&str, Policy); 9] = [
    ("does not stop", |state, limits, _| next_step(state, limits, None)),
    ("asks the model while a call waits", |state, limits, halt| {
        let step = next_step(state, limits, halt);
        let waits = step == NextStep::Wait;
        instead(step, waits, NextStep::CallModel)
    }),
    ("waits although a call could be made", |state, limits, halt| {
        let step = next_step(state, limits, halt);
        let makes_calls = matches!(step, NextStep::RunTools(_)) && state.steps.len() > 1;
        instead(step, makes_calls, NextStep::Wait)
    }),
    ("makes all calls, whether or not they need approval", |state, limits, halt| {
        let step = next_step(state, limits, halt);
        let has_calls = matches!(step, NextStep::RunTools(_) | NextStep::Wait);
        instead(step, has_calls, NextStep::RunTools(state.pending.clone()))
    }),
    ("begins again for ever", |state, limits, halt| {
        let mut state = state.clone();
        state.restarts = 0;
        next_step(&state, limits, halt)
    }),
    ("goes on beyond the app's steps", |state, limits, halt| {
        next_step(state, &LoopLimits { max_steps: limits.max_steps + 1, ..limits.clone() }, halt)
    }),
    ("offers tools again after silence", |state, limits, halt| {
        let step = next_step(state, limits, halt);
        let answers = step == NextStep::Answer;
        instead(step, answers, NextStep::CallModel)
    }),
    ("ends although calls have no result", |state, limits, halt| {
        let mut state = state.clone();
        state.pending.clear();
        next_step(&state, limits, halt)
    }),
    ("says that a cancelled run has failed", |state, limits, halt| {
        let cancelled = RunEnding::Other { status: RunStatus::Cancelled, error: None };
        let failed = RunEnding::Other { status: RunStatus::Failed, error: None };
        let step = next_step(state, limits, halt);
        let is_cancelled = step == NextStep::Finish(cancelled);
        instead(step, is_cancelled, NextStep::Finish(failed))
    }),
];

#[test]
fn a_wrong_policy_is_found_out() {
    for (wrong, policy) in WRONG {
        assert!(play_all(STORIES_FOR_THE_WRONG, policy).is_err(), "a policy that {wrong} was not found out");
    }
}

/// A model that only ever calls tools is asked no more often than the app allows, at the bounds too.
#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    for steps in [1, 2, 10, 200] {
        for at_limit in [AtLimit::Answer, AtLimit::Reply] {
            let mut world = World::new(limits(steps, at_limit, false), next_step);
            for _ in 0..4 * steps + FAIR_TURNS {
                if world.model.ended.is_none() {
                    world.turn(&Turn::stubborn()).unwrap();
                }
            }
            check_end(&world).unwrap();
            // With tools as often as it may, and for an answer that it gives in the end.
            let asked = if at_limit == AtLimit::Reply { steps } else { steps + 1 };
            assert_eq!((world.truth().steps.len(), world.model.ended), (asked, Some(RunStatus::Completed)));
        }
    }
}

#[test]
fn a_run_makes_two_hundred_calls_and_then_has_to_answer() {
    let said = Said::Calls { count: 20, alike: Alike::No, words: true, finish: Finish::ToolCalls };
    let mut world = World::new(limits(200, AtLimit::Answer, false), next_step);
    play(&mut world, vec![Turn { said, ..Turn::fair() }; 100]).unwrap();
    assert_eq!((world.truth().calls(), world.truth().steps.len()), (200, 11));
}

/// A run with calls, one of which waits for the user, and an answer.
fn long_story() -> Vec<Turn> {
    let calls = Said::Calls { count: 4, alike: Alike::No, words: true, finish: Finish::ToolCalls };
    let fates = vec![Fate::Complete, Fate::Ask, Fate::Failed, Fate::Ask];
    let asked = Turn {
        said: calls,
        fates,
        tries: vec![Try::Retry, Try::Reset],
        order: vec![3, 1, 2],
        ..Turn::fair()
    };
    let silent = Turn { said: Said::Nothing(Finish::Stop), ..Turn::fair() };
    vec![asked.clone(), asked.clone(), asked.clone(), asked.clone(), asked, silent.clone(), silent]
}

/// The story with a change to one of its turns.
fn changed(story: &[Turn], turn: usize, change: impl Fn(&mut Turn)) -> Vec<Turn> {
    let mut story = story.to_vec();
    if let Some(turn) = story.get_mut(turn) {
        change(turn);
    }
    story
}

const MOST_COMMITS_OF_A_TURN: u8 = 12;

#[test]
fn cancel_against_completion_has_one_winner_at_every_moment_and_after_every_crash() {
    let limits = || limits(3, AtLimit::Answer, false);
    let story = long_story();
    let (mut cancelled, mut completed) = (0, 0);
    for turn in 0..=story.len() {
        for commits in 0..MOST_COMMITS_OF_A_TURN {
            for crash in std::iter::once(None).chain((0..MOST_COMMITS_OF_A_TURN).map(Some)) {
                let story = changed(&story, turn, |turn| {
                    (turn.halt_later, turn.crash) = (Some((commits, Halt::Cancelled)), crash);
                });
                let mut world = World::new(limits(), next_step);
                play(&mut world, story).unwrap_or_else(|wrong| panic!("{turn} {commits} {crash:?}: {wrong}"));
                match world.model.ended {
                    Some(RunStatus::Cancelled) => cancelled += 1,
                    Some(RunStatus::Completed) => completed += 1,
                    other => panic!("{turn} {commits} {crash:?}: {other:?}"),
                }
            }
        }
    }
    println!("{cancelled} cancelled, {completed} completed");
    assert!(cancelled > 100 && completed > 100);
}

#[test]
fn a_step_that_always_crashes_is_given_up_after_two_restarts() {
    let dies = Turn { crash: Some(1), ..Turn::fair() };
    let mut world = World::new(limits(3, AtLimit::Answer, false), next_step);
    world.turn(&Turn::fair()).unwrap(); // loads
    play(&mut world, vec![dies; 10]).unwrap();
    let resets = world.log.iter().filter(|event| matches!(event, Event::StepReset(_))).count();
    assert_eq!((world.model.ended, resets), (Some(RunStatus::Interrupted), 3));
}

/// Found by the stories above: a process that heard of the user's word after a sibling's result went on from another
/// state than its log told.
#[test]
fn results_count_in_call_order_however_they_arrive() {
    let id = |n| CallId::new(Uuid::from_u128(n));
    let call = |n| Call {
        id: id(n),
        name: "look".into(),
        input: json!({ "n": n.to_string() }),
        raw: None,
        provider_id: None,
    };
    let result = |n, status, error: &str| {
        let (call_id, name, output) = (id(n), "look".to_owned(), json!({ "error": error }));
        Event::ToolComplete(ToolComplete {
            call_id,
            name,
            status,
            output,
            duration_ms: 0,
            outside: false,
            suspicious: false,
            by: None,
        })
    };
    let calls = (1..=4).map(call).collect();
    let step = Event::StepEnd(StepEnd { calls, ..ended(1, "", Finish::ToolCalls, None) });
    let invalid = |n| result(n, ToolStatus::Failed, "invalid_arguments");
    let denied = || result(1, ToolStatus::Denied, "rejected");
    let one = [step.clone(), denied(), invalid(2), invalid(3), invalid(4)];
    let other = [step, invalid(4), invalid(2), denied(), invalid(3)];
    let (one, other) = (RunState::replay(&one), RunState::replay(&other));
    assert_eq!(one, other);
    assert!(at_limit(&one, &limits(9, AtLimit::Answer, false)), "three in a row had unusable arguments");
}

/// Found by the stories above: it was told to be interrupted.
#[test]
fn a_run_that_is_cancelled_is_cancelled_even_if_its_step_began_too_often() {
    let reset = StepReset { step: 1, reason: String::new(), model: None, usage: None };
    let mut log = vec![Event::StepStart(StepStart { step: 1, model: String::new() })];
    log.extend(vec![Event::StepReset(reset); 3]);
    let (state, limits) = (RunState::replay(&log), limits(3, AtLimit::Answer, false));
    let next = |halt| Next::from(&next_step(&state, &limits, halt));
    assert_eq!(next(Some(Halt::Cancelled)), Next::Finish(RunStatus::Cancelled));
    assert_eq!(next(None), Next::Finish(RunStatus::Interrupted));
}

fn id() -> impl Strategy<Value = CallId> {
    (0u128..8).prop_map(|n| CallId::new(Uuid::from_u128(n)))
}

/// A call that waits for the client.
fn opened(call_id: CallId) -> Event {
    let (name, input, effect) = ("look".to_owned(), Value::Null, protocol::Effect::default());
    Event::CallOpen(CallOpen { call_id, name, input, effect, expires_at: jiff::Timestamp::UNIX_EPOCH })
}

/// Any fact, whether or not it makes sense here. Few ids, so that they repeat and miss each other.
fn strange() -> impl Strategy<Value = Event> {
    let finish = prop_oneof![
        6 => Just(Finish::Stop),
        2 => Just(Finish::ContentFilter),
        1 => Just(Finish::Cancelled),
        1 => Just(Finish::Failed),
    ];
    let call = (id(), any::<bool>()).prop_map(|(id, usable)| Call {
        id,
        name: "look".into(),
        input: if usable { json!({ "a": 1 }) } else { Value::Null },
        raw: (!usable).then(|| "{".into()),
        provider_id: None,
    });
    let end = (0..9u32, finish, vec(call, 0..40))
        .prop_map(|(step, finish, calls)| Event::StepEnd(StepEnd { calls, ..ended(step, "", finish, None) }));
    let (call_name, nothing) = (|| "look".to_owned(), || Uuid::nil());
    prop_oneof![
        Just(Event::ContextLoaded(ContextLoaded::default())),
        (0..9u32).prop_map(|step| Event::StepStart(StepStart { step, model: String::new() })),
        (0..9u32).prop_map(|step| {
            Event::StepReset(StepReset { step, reason: String::new(), model: None, usage: None })
        }),
        end,
        id().prop_map(move |call_id| Event::ToolStart(ToolStart {
            call_id,
            name: call_name(),
            input: Value::Null,
            effect: protocol::Effect::default(),
            marker: None,
        })),
        (id(), any::<bool>()).prop_map(move |(call_id, outside)| Event::ToolComplete(ToolComplete {
            call_id,
            name: call_name(),
            status: ToolStatus::Failed,
            output: json!({ "error": "invalid_arguments" }),
            duration_ms: 0,
            outside,
            suspicious: false,
            by: None,
        })),
        id().prop_map(move |call_id| Event::ProposalOpen(ProposalOpen {
            proposal_id: ProposalId::new(nothing()),
            call_id,
            name: call_name(),
            input: Value::Null,
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        })),
        id().prop_map(opened),
        (id(), any::<bool>()).prop_map(move |(call_id, yes)| Event::ProposalClosed(ProposalClosed {
            proposal_id: ProposalId::new(nothing()),
            call_id,
            decision: if yes { Decision::Confirmed } else { Decision::Rejected },
            by: None,
        })),
    ]
}

/// A log that was written around the server has a next step, too, and fair steps lead to its end.
#[test]
fn a_run_with_any_log_at_all_can_be_brought_to_an_end() {
    let halt = prop_oneof![Just(Halt::Cancelled), Just(Halt::Interrupted), Just(Halt::TimedOut)];
    let story = (any_limits(), vec(strange(), 0..30), proptest::option::of(halt));
    let ends = |(limits, log, halt): (LoopLimits, Vec<Event>, Option<Halt>)| {
        let mut state = RunState::replay(&log);
        for _ in 0..FAIR_TURNS {
            let step = next_step(&state, &limits, halt);
            prop_assert_eq!(&step, &next_step(&state, &limits, halt));
            prop_assert!(state.pending.is_empty() || !matches!(step, NextStep::CallModel | NextStep::Answer));
            if matches!(step, NextStep::Finish(_)) {
                return Ok(());
            }
            for event in fair(&state, &step) {
                state.apply(&event);
            }
        }
        Err(TestCaseError::fail(format!("it does not end: {state:?}")))
    };
    runner(STRANGE_LOGS).run(&story, ends).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The events that a step records when all goes well.
fn fair(state: &RunState, step: &NextStep) -> Vec<Event> {
    let done = |call: &Call| {
        let (call_id, name, output) = (call.id, call.name.clone(), json!("ok"));
        let (status, duration_ms) = (ToolStatus::Complete, 0);
        ToolComplete {
            call_id,
            name,
            status,
            output,
            duration_ms,
            outside: false,
            suspicious: false,
            by: None,
        }
    };
    match step {
        NextStep::Load => vec![Event::ContextLoaded(ContextLoaded::default())],
        NextStep::CallModel | NextStep::Answer => {
            vec![Event::StepEnd(ended(state.next_step_number(), "Hello", Finish::Stop, None))]
        }
        NextStep::RunTools(calls) => calls.iter().map(done).map(Event::ToolComplete).collect(),
        NextStep::Wait => state.pending.iter().map(done).map(Event::ToolComplete).collect(),
        NextStep::Finish(_) => Vec::new(),
    }
}
