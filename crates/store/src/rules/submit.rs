//! A request for a run: begun at once, queued, or refused.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{MessageId, MessageUser, OnBusy, RunId, RunStart, RunStatus, Scope, ThreadId, Usage};

use crate::{Error, MAX_QUEUED_PER_THREAD, MessageRole, RunInput, RunJob, RunRequest, RunRow, Stop};

/// Jobs that one message causes.
const MAX_JOBS_PER_MESSAGE: usize = 16;
/// The epoch of a run that no other process has taken over.
const FIRST_EPOCH: u64 = 1;

/// The effect of a request on its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAdmission {
    /// Nothing is under way: the run begins.
    Begin,
    /// The run waits for this one, which is told to stop if `interrupts` says so.
    Wait { active: RunId, interrupts: bool },
}

/// Rules on a request for a thread, by the run that is under way there.
pub fn admission(active: Option<RunId>, on_busy: OnBusy) -> Result<RunAdmission, Error> {
    match (active, on_busy) {
        (None, _) => Ok(RunAdmission::Begin),
        (Some(_), OnBusy::Reject) => Err(Error::Busy),
        (Some(active), OnBusy::Queue) => Ok(RunAdmission::Wait { active, interrupts: false }),
        (Some(active), OnBusy::Interrupt) => Ok(RunAdmission::Wait { active, interrupts: true }),
    }
}

/// Whether another message may wait for a thread for which `waiting` messages wait.
pub fn check_queue_room(waiting: u64) -> Result<(), Error> {
    if waiting >= MAX_QUEUED_PER_THREAD as u64 { Err(Error::QueueFull) } else { Ok(()) }
}

/// Whether a queued message goes before others, and interrupts a run that begins before it.
pub fn is_urgent(on_busy: OnBusy) -> bool {
    on_busy == OnBusy::Interrupt
}

/// Why a queued run stops as soon as it begins: an urgent message waits, which would have interrupted it.
pub fn stop_at_begin(is_urgent_waiting: bool) -> Option<Stop> {
    is_urgent_waiting.then_some(Stop::Interrupted)
}

/// A message that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedMessage {
    pub id: MessageId,
    pub role: MessageRole,
    pub parent: Option<MessageId>,
}

/// The message of the user that a request to answer again means: the named one, or the one it answered.
pub fn message_to_answer(named: &NamedMessage) -> Result<MessageId, Error> {
    match named.role {
        MessageRole::User => Ok(named.id),
        MessageRole::Assistant | MessageRole::Other(_) => named.parent.ok_or(Error::NothingToAnswer),
    }
}

/// The row of a run that has not begun.
pub fn new_run(
    scope: &Scope,
    (thread, id, message): (ThreadId, RunId, MessageId),
    request: &RunRequest,
    created_at: Timestamp,
) -> RunRow {
    RunRow {
        id,
        thread,
        scope: scope.clone(),
        actor: request.actor.clone(),
        message,
        status: RunStatus::Queued,
        model: request.model.clone(),
        error: None,
        usage: Usage::default(),
        stop: None,
        epoch: FIRST_EPOCH,
        owner: None,
        start_seq: None,
        end_seq: None,
        created_at,
        ended_at: None,
    }
}

/// The first events of a run, and the jobs that its message causes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunBeginning {
    pub message: MessageId,
    pub user_message: Option<MessageUser>,
    pub start: RunStart,
    pub jobs: Vec<RunJob>,
}

/// How a run begins. `head` is the newest message of the thread, `answered` the one that is to be answered again.
pub fn beginning(
    thread: ThreadId,
    run: RunId,
    request: RunRequest,
    head: Option<MessageId>,
    answered: Option<MessageId>,
) -> Result<RunBeginning, Error> {
    let (message, user_message) = match request.ask {
        RunInput::Say { id, text, parent, parts } => {
            (id, Some(MessageUser { message_id: id, parent_id: parent.or(head), text, parts }))
        }
        RunInput::Again { .. } => (answered.ok_or(Error::NothingToAnswer)?, None),
    };
    let jobs = if user_message.is_some() { request.jobs } else { Vec::new() };
    let start = RunStart {
        run_id: run,
        thread_id: thread,
        message_id: message,
        model: request.model,
        settings: request.settings,
        system_prompt: request.system_prompt,
        persona_id: request.persona,
        document_ids: request.documents,
        app_revision: request.app_revision,
        echo: request.echo,
        actor: request.actor,
        tools: request.tools,
        client_tools: request.client_tools,
        answer_schema: request.answer_schema,
        imported: false,
    };
    let jobs = jobs.into_iter().take(MAX_JOBS_PER_MESSAGE).collect();
    Ok(RunBeginning { message, user_message, start, jobs })
}

/// How much later than its message a job is due.
pub fn job_delay(job: &RunJob) -> Duration {
    Duration::from_millis(job.delay_ms)
}

#[cfg(test)]
mod tests {
    use protocol::Settings;
    use uuid::Uuid;

    use super::*;

    fn message(number: u128) -> MessageId {
        MessageId::new(Uuid::from_u128(number))
    }

    fn request(ask: RunInput) -> RunRequest {
        RunRequest {
            ask,
            model: None,
            settings: Settings::default(),
            system_prompt: None,
            persona: None,
            documents: None,
            app_revision: "r".into(),
            echo: None,
            actor: None,
            tools: vec![],
            client_tools: vec![],
            answer_schema: None,
            earlier: vec![],
            jobs: vec![],
        }
    }

    #[test]
    fn a_busy_thread_refuses_queues_or_interrupts() {
        let active = RunId::new(Uuid::from_u128(1));
        for on_busy in [OnBusy::Reject, OnBusy::Queue, OnBusy::Interrupt] {
            assert_eq!(admission(None, on_busy).unwrap(), RunAdmission::Begin);
        }
        assert!(matches!(admission(Some(active), OnBusy::Reject), Err(Error::Busy)));
        let waits = |interrupts| RunAdmission::Wait { active, interrupts };
        assert_eq!(admission(Some(active), OnBusy::Queue).unwrap(), waits(false));
        assert_eq!(admission(Some(active), OnBusy::Interrupt).unwrap(), waits(true));
        assert!(check_queue_room(19).is_ok() && check_queue_room(20).is_err());
        let stops = [OnBusy::Queue, OnBusy::Interrupt].map(|on_busy| stop_at_begin(is_urgent(on_busy)));
        assert_eq!(stops, [None, Some(Stop::Interrupted)]);
    }

    #[test]
    fn a_message_follows_the_one_it_names_or_the_newest() {
        let (thread, run) = (ThreadId::new(Uuid::from_u128(1)), RunId::new(Uuid::from_u128(2)));
        let parent_of = |parent, head| {
            let ask = RunInput::Say { id: message(3), text: "hi".into(), parent, parts: vec![] };
            let begins = beginning(thread, run, request(ask), head, None).unwrap();
            begins.user_message.unwrap().parent_id
        };
        assert_eq!(parent_of(None, None), None);
        assert_eq!(parent_of(None, Some(message(4))), Some(message(4)));
        assert_eq!(parent_of(Some(message(5)), Some(message(4))), Some(message(5)));
    }

    #[test]
    fn an_answer_stands_for_the_message_it_answered() {
        let named = |role, parent| NamedMessage { id: message(1), role, parent };
        assert_eq!(message_to_answer(&named(MessageRole::User, None)).unwrap(), message(1));
        let answer = named(MessageRole::Assistant, Some(message(2)));
        assert_eq!(message_to_answer(&answer).unwrap(), message(2));
        assert!(matches!(
            message_to_answer(&named(MessageRole::Assistant, None)),
            Err(Error::NothingToAnswer)
        ));
    }
}
