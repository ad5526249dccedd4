//! Requests in a message that need no model: to pin, to remember or to forget something. A message is parsed for them here
//! and nowhere else.

use memory::forgetting::{self, About, ForgetRequest};
use memory::pinning;
use memory::remember::{self, RememberCommand};

/// The requests of a message, by its words alone.
pub(crate) struct SpokenRequests<'m> {
    pub(crate) pin: Option<pinning::PinCommand<'m>>,
    pub(crate) remember: Option<RememberCommand<'m>>,
    pub(crate) forget: Option<ForgetRequest<'m>>,
    /// Yes or no, where the message says nothing else.
    pub(crate) answer: Option<bool>,
}

impl<'m> SpokenRequests<'m> {
    pub(crate) fn of(message: &'m str) -> Self {
        Self::of_app(message, true)
    }

    /// The requests that an app can fulfil, which has memories or none.
    pub(crate) fn of_app(message: &'m str, has_memories: bool) -> Self {
        let about_memories = Some(message).filter(|_| has_memories);
        Self {
            pin: pinning::read_command(message),
            remember: about_memories.and_then(remember::read_command),
            forget: about_memories.and_then(forgetting::read_request),
            answer: about_memories.and_then(forgetting::answer),
        }
    }

    /// Whether the whole message asks to remember or to forget something.
    pub(crate) fn is_whole_message(&self) -> bool {
        match &self.remember {
            Some(RememberCommand::Keep(statement)) => statement.whole,
            Some(RememberCommand::Nothing | RememberCommand::TooLong) => true,
            None => self.forget.is_some(),
        }
    }

    /// Whether the message asks to forget what was said before it.
    pub(crate) fn asks_to_forget_last(&self) -> bool {
        self.forget.is_some_and(|request| request.about == About::Last)
    }
}
