//! Readers of runs and threads: where each begins in the log, and the wait for the end of a run.

use std::sync::Arc;

use protocol::{Principal, RunId, Seq, ThreadId};
use store::{RunRow, Submission};

use crate::Error;
use crate::access::{run_row, thread_row};
use crate::agent::{AcceptedRun, Agent};
use crate::live::{self, Follower, NoticeFollower, Subscription, UserFollower, until_run_waits};
use crate::world::World;

/// Waits until the run has ended, or waits itself for the user.
pub async fn wait_for_run(world: &World, principal: &Principal, run: RunId) -> Result<(), Error> {
    let (row, subscription) = listen(world, principal, run).await?;
    if row.end_seq.is_some() {
        return Ok(());
    }
    let start = beginning(world, principal, &row).await?;
    let mut follower = follower(world, subscription, (row.thread, Some(run)), start);
    let asked_now = || async move {
        let proposals = world.store.proposals_of(run).await?.into_iter().filter_map(|proposal| proposal.call);
        let calls = world.store.client_calls_of(run).await?.into_iter().map(|call| call.id);
        Ok(proposals.chain(calls).collect())
    };
    until_run_waits(&mut follower, asked_now).await
}

/// The run's events after `after`, then live; none when it has ended and everything has been read. A place that is
/// not in the log gets a snapshot first.
pub async fn follow_run(
    world: &World,
    principal: &Principal,
    run: RunId,
    after: Option<Seq>,
) -> Result<Option<Follower>, Error> {
    let (row, subscription) = listen(world, principal, run).await?;
    follow_row(world, principal, (row, subscription), after).await
}

/// Submits a run, and follows it from its first event; no follower if it has ended. See [`Agent::submit`].
pub async fn submit_and_follow(
    agent: &Agent,
    principal: &Principal,
    submission: Submission,
    spent: Option<Error>,
) -> Result<(AcceptedRun, Option<Follower>), Error> {
    let world = agent.world();
    let thread = submission.thread.id();
    // The subscription begins before the run is stored: all its events come here, so none has to be read. No reader
    // gets an event of a thread before the submission has been accepted there.
    let subscription = world.bus.subscribe(thread);
    let accepted = agent.submit(submission, spent).await?;
    if let Some(start) = accepted.start.filter(|_| accepted.thread == thread) {
        let of = (thread, Some(accepted.run));
        let follower = follower(world, subscription, of, start.first.saturating_sub(1));
        return Ok((accepted, Some(follower.already_live())));
    }
    let subscription = world.bus.subscribe(accepted.thread); // see `listen`
    let row = run_row(&world.store, principal, accepted.run).await?;
    let follower = follow_row(world, principal, (row, subscription), None).await?;
    Ok((accepted, follower))
}

async fn follow_row(
    world: &World,
    principal: &Principal,
    (row, subscription): (RunRow, Subscription),
    after: Option<Seq>,
) -> Result<Option<Follower>, Error> {
    let (run, after) = (row.id, after.unwrap_or(0));
    if after > 0 {
        let head = head_for(world, row.thread, after).await?;
        if after <= head && row.end_seq.is_some_and(|end| after >= end) {
            return Ok(None);
        }
        if after > head || world.store.is_skipped(row.thread, after).await? {
            // Read again: a run that ended before the head was read has nothing more to come.
            let row = run_row(&world.store, principal, run).await?;
            return snapshot(world, row, head, subscription).await.map(Some);
        }
    }
    let beginning = beginning(world, principal, &row).await?;
    Ok(Some(follower(world, subscription, (row.thread, Some(run)), after.max(beginning))))
}

/// The newest number of a thread, for a reader who has seen one. Another node may have shown them what this one has not
/// taken in yet.
async fn head_for(world: &World, thread: ThreadId, seen: Seq) -> Result<Seq, store::Error> {
    let head = world.store.head(thread).await?;
    if seen <= head || world.store.node().is_none() {
        return Ok(head);
    }
    world.store.catch_up().await?;
    world.store.head(thread).await
}

/// The thread's events after `after`, then live, without end.
pub async fn follow_thread(
    world: &World,
    principal: &Principal,
    thread: ThreadId,
    after: Option<Seq>,
) -> Result<Follower, Error> {
    let subscription = world.bus.subscribe(thread); // see `listen`
    let (row, after) = (thread_row(&world.store, principal, thread).await?, after.unwrap_or(0));
    let head = if after > row.last_seq { head_for(world, thread, after).await? } else { row.last_seq };
    Ok(follower(world, subscription, (thread, None), after.min(head)))
}

/// Notices about all apps that the principal may use, after `after` or from now on, and with them the events of some threads,
/// each after its own place. Without end.
pub async fn follow_user(
    world: &World,
    principal: &Principal,
    after: Option<u64>,
    threads: &[(ThreadId, Seq)],
) -> Result<UserFollower, Error> {
    let subscription = world.bus.subscribe_user(principal.user().clone());
    let mut followers = Vec::new();
    for (thread, after) in threads {
        followers.push(follow_thread(world, principal, *thread, Some(*after)).await?);
    }
    let notices = NoticeFollower::new(world.store.clone(), principal.clone(), subscription, after);
    Ok(UserFollower::new(notices, followers))
}

/// A run, and a subscription to its thread. The run is read again after the subscription began, because a subscription
/// to a thread that was deleted in between would never be closed.
async fn listen(world: &World, principal: &Principal, run: RunId) -> Result<(RunRow, Subscription), Error> {
    let thread = run_row(&world.store, principal, run).await?.thread;
    let subscription = world.bus.subscribe(thread);
    Ok((run_row(&world.store, principal, run).await?, subscription))
}

fn follower(
    world: &World,
    subscription: Subscription,
    of: (ThreadId, Option<RunId>),
    after: Seq,
) -> Follower {
    Follower::new(Arc::new(world.store.clone()), subscription, of, after)
}

/// The number before a run's first event. A queued run has none yet: they come after all there are now.
async fn beginning(world: &World, principal: &Principal, row: &RunRow) -> Result<Seq, Error> {
    let before = |row: &RunRow| row.start_seq.or(row.end_seq).map(|first| first.saturating_sub(1));
    if let Some(before) = before(row) {
        return Ok(before);
    }
    let head = world.store.head(row.thread).await?;
    // Read again: its turn may have come before the head was read.
    Ok(before(&run_row(&world.store, principal, row.id).await?).unwrap_or(head))
}

/// For a cursor that is not in the log: where the run stands, then what follows.
async fn snapshot(
    world: &World,
    row: RunRow,
    head: Seq,
    subscription: Subscription,
) -> Result<Follower, Error> {
    let (thread, run, ended) = (row.thread, row.id, row.end_seq);
    let until = ended.unwrap_or(head);
    let mut facts = world.store.facts(run).await?;
    facts.retain(|fact| fact.seq <= until); // what is newer follows
    let streamed = match live::open_since(&facts).filter(|_| ended.is_none()) {
        Some(since) => match live::read_streamed_text(&world.store, (thread, run), since, until).await {
            // It has ended meanwhile, and the follower knows what is left of it.
            Err(store::Error::Pruned) => return Ok(follower(world, subscription, (thread, Some(run)), 0)),
            streamed => Some(streamed?.0),
        },
        None => None,
    };
    let snapshot = live::snapshot(row, &facts, streamed, until);
    let follower = follower(world, subscription, (thread, Some(run)), head);
    Ok(follower.beginning_with(snapshot, ended.is_some()))
}

/// The text of the step that a run is streaming; none if no step is.
pub async fn streamed_text(
    world: &World,
    principal: &Principal,
    run: RunId,
) -> Result<Option<String>, Error> {
    let row = run_row(&world.store, principal, run).await?;
    let head = world.store.head(row.thread).await?;
    let facts = world.store.facts(run).await?;
    let Some(since) = live::open_since(&facts).filter(|_| row.end_seq.is_none()) else { return Ok(None) };
    match live::read_streamed_text(&world.store, (row.thread, run), since, head).await {
        // It has ended meanwhile.
        Err(store::Error::Pruned) => Ok(None),
        streamed => Ok(Some(streamed?.0)),
    }
}
