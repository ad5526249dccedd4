//! A run that was made elsewhere, as the events of a complete run.

use protocol::{
    Event, MessageId, MessageUser, RunEnd, RunId, RunStart, RunStatus, Settings, StepEnd, StreamComplete,
    ThreadId, ToolComplete, Usage,
};

use crate::{EarlierAnswer, EarlierRun};

/// Facts that all runs of one import share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportFacts {
    pub thread: ThreadId,
    /// Names the content of the app folder that was served then.
    pub app_revision: String,
    /// The actor who spoke for the user, if it was not the user.
    pub actor: Option<String>,
}

/// The log of a run that was made elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierLog {
    pub user_message: MessageUser,
    pub start: RunStart,
    /// Each with the results of its calls.
    pub steps: Vec<(StepEnd, Vec<ToolComplete>)>,
    /// None if the message has no answer.
    pub answer: Option<StreamComplete>,
    pub end: RunEnd,
}

impl EarlierLog {
    /// The last message of the run, which the next one follows.
    pub fn last_message(&self) -> MessageId {
        self.answer.as_ref().map_or(self.user_message.message_id, |answer| answer.message_id)
    }
}

/// The events of a run that follows the message `parent`. A run without an answer counts as cancelled.
pub fn earlier_log(facts: &ImportFacts, parent: Option<MessageId>, run: EarlierRun) -> EarlierLog {
    let EarlierRun { id: run_id, message: message_id, text, parts, answer, .. } = run;
    let start = RunStart {
        run_id,
        thread_id: facts.thread,
        message_id,
        model: None,
        settings: Settings::default(),
        system_prompt: None,
        persona_id: None,
        document_ids: None,
        app_revision: facts.app_revision.clone(),
        echo: None,
        actor: facts.actor.clone(),
        tools: Vec::new(),
        client_tools: Vec::new(),
        answer_schema: None,
        imported: true,
    };
    let status = if answer.is_some() { RunStatus::Completed } else { RunStatus::Cancelled };
    let (steps, answer) = match answer {
        Some(EarlierAnswer { message, steps }) => {
            let text = steps.last().map(|(step, _)| step.text.clone()).unwrap_or_default();
            (steps, Some(answer_of(message, text)))
        }
        None => (Vec::new(), None),
    };
    EarlierLog {
        user_message: MessageUser { message_id, parent_id: parent, text, parts },
        start,
        steps,
        answer,
        end: end_of_run(run_id, status),
    }
}

fn answer_of(message_id: MessageId, text: String) -> StreamComplete {
    StreamComplete { message_id, text, memories_referenced: Vec::new(), data: None, usage: Usage::default() }
}

fn end_of_run(run_id: RunId, status: RunStatus) -> RunEnd {
    RunEnd { run_id, status, error: None, message_id: None }
}

/// The bodies of an event, once it is known not to be nested too deeply for the log.
pub fn checked_body(event: &Event) -> Result<String, crate::Error> {
    let body = event.body();
    if protocol::json_depth(&body) > protocol::MAX_STORED_DEPTH {
        return Err(crate::Error::TooDeep(event.kind().name()));
    }
    Ok(body)
}
