//! Following a run until it waits for the user or the client, or has ended. Its events alone say which.

use std::collections::HashSet;

use protocol::{CallId, Kind, Stored};
use serde::Deserialize;

use super::Follower;
use crate::Error;

/// The calls of a run that have no result, and those among them that wait for the user or for the client.
#[derive(Debug, Default, PartialEq, Eq)]
struct OpenCalls {
    unanswered: HashSet<CallId>,
    asked: HashSet<CallId>,
}

/// The part that is read of a `step:end`.
#[derive(Deserialize)]
struct StepCalls {
    calls: Vec<StepCall>,
}

#[derive(Deserialize)]
struct StepCall {
    id: CallId,
}

/// The part that is read of an event that tells of a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedCall {
    call_id: CallId,
}

impl OpenCalls {
    /// Takes in one event. One that cannot be read says nothing.
    fn read(&mut self, event: &Stored) {
        let named = || serde_json::from_str::<NamedCall>(&event.body).ok().map(|named| named.call_id);
        let is = |kind: Kind| event.kind == kind.name();
        if is(Kind::StepEnd) {
            let step = serde_json::from_str::<StepCalls>(&event.body);
            self.unanswered =
                step.map(|step| step.calls.into_iter().map(|call| call.id).collect()).unwrap_or_default();
            self.asked.clear();
        } else if is(Kind::ToolComplete) {
            let call = named();
            self.unanswered.retain(|open| Some(*open) != call);
        } else if is(Kind::ProposalOpen) || is(Kind::CallOpen) {
            self.asked.extend(named());
        } else if is(Kind::ProposalClosed) {
            let call = named();
            self.asked.retain(|asked| Some(*asked) != call);
        }
    }

    /// Whether the user is asked about every call that has no result.
    fn are_all_asked(&self) -> bool {
        !self.unanswered.is_empty() && self.unanswered.is_subset(&self.asked)
    }
}

/// Follows a run from its beginning until it ends, or waits for the user or the client. The log may show an earlier wait
/// that is over: `asked_now` says which calls wait now. It is asked only if, by the events, all open calls wait.
pub(crate) async fn until_run_waits<F>(
    follower: &mut Follower,
    asked_now: impl Fn() -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<HashSet<CallId>, Error>>,
{
    let mut calls = OpenCalls::default();
    while let Some(events) = follower.next().await? {
        for event in &events {
            calls.read(event);
        }
        if calls.are_all_asked() && calls.unanswered.is_subset(&asked_now().await?) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use protocol::{RunId, Seq, ThreadId};
    use serde_json::json;
    use store::{EventLog, MAX_EVENTS_PER_READ, RawEvent};
    use uuid::Uuid;

    use super::*;
    use crate::live::bus::Bus;

    fn thread() -> ThreadId {
        ThreadId::new(Uuid::nil())
    }

    fn run() -> RunId {
        RunId::new(Uuid::from_u128(1))
    }

    fn call(number: u128) -> CallId {
        CallId::new(Uuid::from_u128(number))
    }

    /// A log that counts how often, and how much of it, is read.
    struct Counted {
        events: Vec<Arc<Stored>>,
        reads: AtomicUsize,
        given: AtomicUsize,
    }

    #[async_trait]
    impl EventLog for Counted {
        async fn events(
            &self,
            _: ThreadId,
            _: Option<RunId>,
            after: Seq,
        ) -> Result<Vec<Arc<Stored>>, store::Error> {
            let newer = self.events.iter().filter(|event| event.seq > after);
            let found: Vec<_> = newer.take(MAX_EVENTS_PER_READ).cloned().collect();
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.given.fetch_add(found.len(), Ordering::Relaxed);
            Ok(found)
        }

        async fn facts(&self, _: RunId) -> Result<Vec<RawEvent>, store::Error> {
            panic!("all facts are read again");
        }
    }

    fn counted(events: Vec<(Kind, serde_json::Value)>) -> Arc<Counted> {
        let stored = |(seq, (kind, body)): (Seq, (Kind, serde_json::Value))| {
            let body = body.to_string().into();
            Arc::new(Stored { thread: thread(), seq, run: Some(run()), kind: kind.name().into(), body })
        };
        let events = (1..).zip(events).map(stored).collect();
        Arc::new(Counted { events, reads: AtomicUsize::new(0), given: AtomicUsize::new(0) })
    }

    /// Follows to the end of the wait; gives how often it was looked which calls the user is asked about.
    async fn follow(log: &Arc<Counted>, asked: &[CallId]) -> usize {
        let subscription = Arc::new(Bus::default()).subscribe(thread());
        let log = Arc::clone(log) as Arc<dyn EventLog>;
        let mut follower = Follower::new(log, subscription, (thread(), Some(run())), 0);
        let looks = AtomicUsize::new(0);
        let now = || {
            looks.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<HashSet<CallId>, Error>(asked.iter().copied().collect()))
        };
        until_run_waits(&mut follower, now).await.unwrap();
        looks.into_inner()
    }

    fn step(calls: impl IntoIterator<Item = u128>) -> (Kind, serde_json::Value) {
        let calls: Vec<_> = calls.into_iter().map(|number| json!({ "id": call(number) })).collect();
        (Kind::StepEnd, json!({ "calls": calls }))
    }

    fn of(kind: Kind, number: u128) -> (Kind, serde_json::Value) {
        (kind, json!({ "callId": call(number) }))
    }

    #[tokio::test]
    async fn a_run_of_two_hundred_results_is_read_once() {
        let mut events = Vec::new();
        for number in 0..200 {
            events.extend([step([number]), of(Kind::ToolStart, number), of(Kind::ToolComplete, number)]);
        }
        events.push((Kind::RunEnd, json!({})));
        let (count, log) = (events.len(), counted(events));
        assert_eq!(follow(&log, &[]).await, 0);
        assert_eq!(log.given.load(Ordering::Relaxed), count);
        assert_eq!(log.reads.load(Ordering::Relaxed), count.div_ceil(MAX_EVENTS_PER_READ));
    }

    #[tokio::test]
    async fn a_run_that_waits_for_the_user_with_all_that_is_left_is_waited_for_no_longer() {
        let log = counted(vec![step([1, 2]), of(Kind::ProposalOpen, 1), of(Kind::ToolComplete, 2)]);
        assert_eq!(follow(&log, &[call(1)]).await, 1);
    }

    #[tokio::test]
    async fn a_run_that_waits_for_the_client_is_waited_for_no_longer() {
        let log = counted(vec![step([1, 2]), of(Kind::CallOpen, 1), of(Kind::ProposalOpen, 2)]);
        assert_eq!(follow(&log, &[call(1), call(2)]).await, 1);
    }

    #[tokio::test]
    async fn what_the_user_has_decided_since_is_no_reason_to_stop() {
        let mut asked = vec![step([1]), of(Kind::ProposalOpen, 1)];
        // Up to here is one read: it ends where the run waited at the time.
        asked.extend((asked.len()..MAX_EVENTS_PER_READ).map(|_| (Kind::Source, json!({}))));
        asked.extend([
            of(Kind::ProposalClosed, 1),
            of(Kind::ToolComplete, 1),
            step([2]),
            of(Kind::ProposalOpen, 2),
        ]);
        let log = counted(asked);
        assert_eq!(follow(&log, &[call(2)]).await, 2);
    }

    #[tokio::test]
    async fn a_call_that_still_works_is_waited_for() {
        let log = counted(vec![
            step([1, 2]),
            of(Kind::ProposalOpen, 1),
            of(Kind::ToolStart, 2),
            (Kind::RunEnd, json!({})),
        ]);
        assert_eq!(follow(&log, &[call(1)]).await, 0);
    }
}
