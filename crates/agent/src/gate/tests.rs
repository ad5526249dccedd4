//! Places are shared: between users, then between providers; no place is lost when a call stops waiting.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;

type Asking = Pin<Box<dyn Future<Output = CallPlace> + Send>>;

fn gate(all: usize, of_one_user: usize, providers: usize) -> Arc<CallGate> {
    Arc::new(CallGate::new(CallShares { all, of_one_user }, providers))
}

fn ask(gate: &Arc<CallGate>, user: &str, provider: &str) -> Asking {
    let (gate, user, provider) = (Arc::clone(gate), UserId::new(user), provider.to_owned());
    let mut asking: Asking = Box::pin(async move { gate.place(&user, &provider).await });
    // The first look puts it into its line.
    match look(&mut asking) {
        Some(place) => Box::pin(std::future::ready(place)),
        None => asking,
    }
}

fn look(asking: &mut Asking) -> Option<CallPlace> {
    match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

fn is_empty(gate: &CallGate) -> bool {
    let mut lines = gate.lines();
    let served = lines.next_one(); // looks at turns of users who have left
    served.is_none() && lines.held == 0 && lines.users.is_empty() && lines.providers.is_empty()
}

#[test]
fn one_user_never_holds_more_than_a_share_so_another_need_not_wait() {
    let gate = gate(8, 4, 1);
    let mut many: Vec<Asking> = (0..270).map(|_| ask(&gate, "mallory", "slow")).collect();
    let held: Vec<CallPlace> = many.iter_mut().filter_map(look).collect();
    assert_eq!(held.len(), 4);
    let alice = look(&mut ask(&gate, "alice", "slow"));
    assert!(alice.is_some(), "four places are not mallory's");
    drop((many, held, alice));
    assert!(is_empty(&gate));
}

#[test]
fn when_all_places_are_taken_users_take_turns_whoever_came_first() {
    let gate = gate(2, 2, 1);
    let first = look(&mut ask(&gate, "carol", "p")).unwrap();
    let second = look(&mut ask(&gate, "carol", "p")).unwrap();
    let mut waiting: Vec<(&str, Asking)> = Vec::new();
    for _ in 0..3 {
        waiting.push(("mallory", ask(&gate, "mallory", "p")));
    }
    waiting.push(("alice", ask(&gate, "alice", "p")));
    waiting.push(("bob", ask(&gate, "bob", "p")));
    drop(second);
    let mut served = Vec::new();
    let mut held = Some(first);
    while let Some(at) = waiting.iter_mut().position(|(_, asking)| {
        look(asking).is_some_and(|place| {
            held = Some(place); // the one before goes
            true
        })
    }) {
        served.push(waiting.remove(at).0);
    }
    assert_eq!(served, ["mallory", "alice", "bob", "mallory", "mallory"]);
}

#[test]
fn a_provider_that_hangs_leaves_places_for_the_other_ones() {
    let gate = gate(8, 4, 2);
    let mut stuck: Vec<Asking> = (0..6).map(|_| ask(&gate, "alice", "stuck")).collect();
    let held: Vec<CallPlace> = stuck.iter_mut().filter_map(look).collect();
    assert_eq!(held.len(), 3, "three of four of hers");
    assert!(look(&mut ask(&gate, "alice", "quick")).is_some());
    let more: Vec<CallPlace> = ["bob", "bob", "bob", "carol"]
        .iter()
        .filter_map(|user| look(&mut ask(&gate, user, "stuck")))
        .collect();
    assert_eq!(more.len(), 3, "six of eight of all");
    assert!(look(&mut ask(&gate, "dave", "quick")).is_some(), "somebody else, elsewhere");
    assert!(look(&mut ask(&gate, "dave", "stuck")).is_none());
}

#[test]
fn who_stops_waiting_leaves_nothing_and_a_place_given_too_late_goes_on() {
    let gate = gate(1, 1, 1);
    let held = look(&mut ask(&gate, "alice", "p")).unwrap();
    drop((0..1_000).map(|n| ask(&gate, &format!("user{n}"), "p")).collect::<Vec<_>>());
    let (given, mut last) = (ask(&gate, "bob", "p"), ask(&gate, "carol", "p"));
    drop(held); // bob's, who does not look
    drop(given);
    let place = look(&mut last);
    assert!(place.is_some());
    drop((place, last));
    assert!(is_empty(&gate));
}

/// Events in any order break no bound, and leave no place free that a waiting call could have.
#[test]
fn places_are_neither_lost_nor_left_free() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (all, of_one_user, providers) = (rng.usize(1..9), rng.usize(1..6), rng.usize(1..4));
        let gate = gate(all, of_one_user, providers);
        let mut waiting: Vec<(usize, usize, Asking)> = Vec::new();
        let mut held: Vec<(usize, usize, CallPlace)> = Vec::new();
        for _ in 0..400 {
            match rng.u8(0..10) {
                0..=4 => {
                    let (user, provider) = (rng.usize(0..4), rng.usize(0..providers));
                    let asking = ask(&gate, &user.to_string(), &provider.to_string());
                    waiting.push((user, provider, asking));
                }
                5..=7 if !held.is_empty() => drop(held.swap_remove(rng.usize(0..held.len()))),
                8 if !waiting.is_empty() => drop(waiting.swap_remove(rng.usize(0..waiting.len()))),
                _ => {}
            }
            let mut still = Vec::new();
            for (user, provider, mut asking) in waiting {
                match look(&mut asking) {
                    Some(place) => held.push((user, provider, place)),
                    None => still.push((user, provider, asking)),
                }
            }
            waiting = still;
            check(&gate, &waiting, &held, seed);
        }
        drop((waiting, held));
        assert!(is_empty(&gate), "seed {seed}: {gate:?}");
    }
}

fn check(gate: &CallGate, waiting: &[(usize, usize, Asking)], held: &[(usize, usize, CallPlace)], seed: u64) {
    let bounds = gate.lines().bounds;
    let count = |user: Option<usize>, provider: Option<usize>| {
        let of = |place: &&(usize, usize, CallPlace)| {
            user.is_none_or(|user| user == place.0) && provider.is_none_or(|provider| provider == place.1)
        };
        held.iter().filter(of).count()
    };
    let room = |user: usize, provider: usize, more: usize| {
        held.len() + more <= bounds.all
            && count(Some(user), None) + more <= bounds.user
            && count(None, Some(provider)) + more <= bounds.provider
            && count(Some(user), Some(provider)) + more <= bounds.provider_of_user
    };
    for (user, provider, _) in held {
        assert!(room(*user, *provider, 0), "seed {seed}: a bound is broken");
    }
    for (user, provider, _) in waiting {
        assert!(!room(*user, *provider, 1), "seed {seed}: {user} waits for {provider} though there is room");
    }
}
