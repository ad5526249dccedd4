//! The data that a run takes from outside its log, read once and noted; and what its message asks to keep or to forget.

use ::tools::CREATE_PROPOSAL;
use memory::remember::{self, RememberCommand, RememberOutcome, Statement};
use memory::{pinning, secrets};
use protocol::{ContextLoaded, Event, MemoryId, Pinned, Remembered, RememberedOutcome, RunStart};
use store::{MemoryOrigin, NewMemoryRow, NewPinRow, Write};

use super::Run;
use crate::context::{self, Gathered, NewestMessages, PromptBudget, PromptLook, UserFacts};
use crate::profile;
use crate::spoken_requests::SpokenRequests;
use crate::state::RunState;

/// The source of a memory that the user asked to keep.
const ASKED: &str = "asked";

/// Tokens a model takes of which nothing is known.
const UNKNOWN_WINDOW: u32 = 8_192;

impl Run {
    /// Notes what the prompt takes from outside the log, and keeps what the message asks to remember or to pin.
    pub(super) async fn load(&mut self, state: &RunState) -> Result<Vec<Event>, store::Error> {
        let Some(start) = &state.start else { return Err(store::Error::NotFound("run:start")) };
        let scopes = (&self.scope, &profile::in_all_apps(&self.scope));
        let leaf = (self.thread, start.message_id);
        let PromptLook { newest, profiles, memory_is_off, hidden } =
            PromptLook::read(&self.world.store, scopes, leaf).await?;
        let message = newest.text();
        let spoken = SpokenRequests::of_app(&message, self.app.memory.is_used());
        if let Some(text) = spoken.pin {
            return self.pin(text).await;
        }
        let memory = &self.app.memory;
        let remembers = memory.is_used() && !memory_is_off?;
        if remembers
            && memory.forget
            && let Some((forgetting, writes)) = self.read_forgetting(&spoken, &newest).await?
        {
            let loaded = ContextLoaded { forgetting: Some(forgetting), ..ContextLoaded::default() };
            return self.note(vec![Event::ContextLoaded(loaded)], writes).await;
        }
        let (remembered, mut writes) = match spoken.remember.filter(|_| remembers && memory.remember) {
            // A cry for help gets an answer, and is not kept by a rule.
            Some(asked) if !memory.speaks_of_danger(&message) => self.remember(state, asked).await?,
            Some(_) | None => (None, Vec::new()),
        };
        if remembered.as_ref().is_some_and(|remembered| remembered.reply.is_some()) {
            let loaded = ContextLoaded { remembered, ..ContextLoaded::default() };
            return self.note(vec![Event::ContextLoaded(loaded)], writes).await;
        }
        let (everywhere, here) = profiles?;
        let profile = profile::merge_profiles(everywhere, here);
        let _ = self.zone.set(profile::zone_of(&profile, &self.app)); // tools want it, too
        let forgotten = self.world.recall.forgotten_of(&self.scope, &hidden?).await?;
        let user = UserFacts { profile, forgotten };
        let Gathered { mut context, keep, sources } = self.gather(start, &newest, (&user, remembers)).await?;
        context.loaded.remembered = remembered;
        writes.extend(keep.into_iter().map(Write::Keep));
        let loaded = Event::ContextLoaded(context.loaded.clone());
        // The first step begins in the same commit, because the prompt has all its parts by now.
        let tries = self.first_tries();
        let step = self.step_start(state.next_step_number(), &tries);
        let sources = sources.into_iter().map(Event::Source);
        let events = std::iter::once(loaded).chain(sources).chain([step]).collect();
        let facts = self.note(events, writes).await?;
        self.begun = Some(tries);
        if let Some(Event::ContextLoaded(loaded)) = facts.first() {
            context.loaded = loaded.clone();
        }
        self.context = Some(context);
        Ok(facts)
    }

    async fn gather(
        &self,
        start: &RunStart,
        newest: &NewestMessages,
        (user, remembers): (&UserFacts, bool),
    ) -> Result<Gathered, store::Error> {
        let sources = context::Sources { remembers, ..self.sources(start, &user.profile) };
        // Once in a run, and large: it has a place of its own.
        Box::pin(context::gather(&sources, start, user, newest, self.tools.specs())).await
    }

    /// Collects the sources of this run's prompt.
    pub(super) fn sources<'a>(
        &'a self,
        start: &RunStart,
        profile: &store::ProfileRow,
    ) -> context::Sources<'a> {
        let model = self.models.first();
        let counter = model.map_or(&self.world.counter, |model| model.tokens());
        let tools = model.map(|model| model.tools(&self.tools.specs())).unwrap_or_default();
        let window = model.map_or(UNKNOWN_WINDOW, |model| model.capabilities().context_window);
        context::Sources {
            world: &self.world,
            app: &self.app,
            scope: &self.scope,
            thread: self.thread,
            fence: &self.fence,
            now: self.started,
            zone: profile::zone_of(profile, &self.app),
            counter,
            window,
            limit: PromptBudget::of_window(window, start.settings.max_tokens).prompt,
            tool_tokens: counter.tools(&tools),
            sees_images: model.is_some_and(|model| model.capabilities().vision),
            remembers: true,
            proposes: self.tools.get(CREATE_PROPOSAL).is_some(),
        }
    }

    /// Commits the loaded context with the new memories and pins. If there is no room for a memory, or another run has
    /// stored the same one first, the rest is committed without it.
    async fn note(&self, events: Vec<Event>, mut writes: Vec<Write>) -> Result<Vec<Event>, store::Error> {
        match self.record_with(events.clone(), Vec::new(), writes.clone()).await {
            Err(store::Error::Changed(reason)) => {
                writes.retain(|write| matches!(write, Write::Keep(_)));
                let events = events.into_iter().map(|event| without_room(event, &reason)).collect();
                self.record_with(events, Vec::new(), writes).await
            }
            Err(store::Error::Known(memory)) => {
                writes.retain(|write| matches!(write, Write::Keep(_)));
                let events = events.into_iter().map(|event| already_known(event, memory)).collect();
                self.record_with(events, Vec::new(), writes).await
            }
            recorded => recorded,
        }
    }

    /// Pins what the message says to, which needs no model.
    async fn pin(&self, text: pinning::PinCommand<'_>) -> Result<Vec<Event>, store::Error> {
        let (pin, reply) = match text {
            pinning::PinCommand::Keep(text) if secrets::find(text).is_some() => {
                (None, pinning::SECRET.to_owned())
            }
            pinning::PinCommand::Keep(text) if !self.can_show_pin(text) => {
                (None, pinning::TOO_LONG.to_owned())
            }
            pinning::PinCommand::Keep(text) => (Some(text), pinning::confirmation(text)),
            pinning::PinCommand::Nothing => (None, pinning::HOW_TO.to_owned()),
            pinning::PinCommand::TooLong => (None, pinning::TOO_LONG.to_owned()),
        };
        let pin = pin.map(|text| NewPinRow {
            id: self.world.ids.pin(),
            thread: Some(self.thread),
            text: text.to_owned(),
        });
        let pinned = Pinned { pin_id: pin.as_ref().map(|pin| pin.id), reply };
        let loaded = ContextLoaded { pinned: Some(pinned), ..ContextLoaded::default() };
        self.note(vec![Event::ContextLoaded(loaded)], pin.map(Write::Pin).into_iter().collect()).await
    }

    /// Whether there is a prompt in which a pin of this text has room.
    fn can_show_pin(&self, text: &str) -> bool {
        let counter = self.models.first().map_or(&self.world.counter, |model| model.tokens());
        counter.text(text) <= context::most_pin_tokens(&self.app, &self.models)
    }

    /// Keeps a statement, unless it is known or must not be kept.
    async fn remember(
        &self,
        state: &RunState,
        asked: RememberCommand<'_>,
    ) -> Result<(Option<Remembered>, Vec<Write>), store::Error> {
        let statement = match asked {
            RememberCommand::Keep(statement) => statement,
            RememberCommand::Nothing => {
                return Ok((Some(reply(RememberedOutcome::NotSaid, RememberOutcome::HowTo)), Vec::new()));
            }
            RememberCommand::TooLong => {
                return Ok((Some(reply(RememberedOutcome::NotSaid, RememberOutcome::TooLong)), Vec::new()));
            }
        };
        let Statement { content, words, whole } = statement;
        let said =
            |outcome: RememberedOutcome, memory: Option<MemoryId>, text: RememberOutcome<'_>| Remembered {
                outcome,
                memory_id: memory,
                text: content.clone(),
                reply: whole.then(|| remember::confirmation(text)),
            };
        if let Some(secret) = secrets::find(&content) {
            let refused = Remembered {
                text: String::new(),
                ..said(RememberedOutcome::Refused, None, RememberOutcome::Refused(secret))
            };
            return Ok((Some(refused), Vec::new()));
        }
        if let Some(known) = self.world.recall.duplicate(&self.scope, &content, self.started).await? {
            return Ok((
                Some(said(RememberedOutcome::Known, Some(known), RememberOutcome::Known(&content))),
                Vec::new(),
            ));
        }
        let id = self.world.ids.memory();
        let source = MemoryOrigin {
            thread: Some(self.thread),
            message: state.start.as_ref().map(|start| start.message_id),
            words: Some(words.to_owned()),
            at: Some(self.started),
        };
        let new = NewMemoryRow {
            id,
            text: content.clone(),
            kind: memory::extract::DEFAULT_KIND.to_owned(),
            source: ASKED,
            sources: vec![source],
            valid_from: None,
            created_at: None,
        };
        let saved = said(RememberedOutcome::Saved, Some(id), RememberOutcome::Saved(&content));
        Ok((Some(saved), vec![Write::Remember(new)]))
    }
}

/// The event without what it says was kept, for which there was no room.
fn without_room(event: Event, reason: &str) -> Event {
    let Event::ContextLoaded(mut loaded) = event else { return event };
    loaded.remembered = loaded.remembered.map(|remembered| no_room(remembered, reason));
    loaded.pinned =
        loaded.pinned.map(|_| Pinned { pin_id: None, reply: format!("I could not pin that: {reason}.") });
    Event::ContextLoaded(loaded)
}

/// The event where another memory that says the same was kept a moment before.
fn already_known(event: Event, memory: MemoryId) -> Event {
    let Event::ContextLoaded(mut loaded) = event else { return event };
    loaded.remembered = loaded.remembered.map(|remembered| {
        let reply = remembered
            .reply
            .as_ref()
            .map(|_| remember::confirmation(RememberOutcome::Known(&remembered.text)));
        Remembered { outcome: RememberedOutcome::Known, memory_id: Some(memory), reply, ..remembered }
    });
    Event::ContextLoaded(loaded)
}

/// A memory that could not be kept because there is no room.
fn no_room(remembered: Remembered, reason: &str) -> Remembered {
    let reply = |_| format!("I could not keep that: {reason}. Forget something first, then tell me again.");
    Remembered {
        outcome: RememberedOutcome::NotSaid,
        memory_id: None,
        text: String::new(),
        reply: remembered.reply.map(reply),
    }
}

/// An answer where nothing was kept.
fn reply(outcome: RememberedOutcome, text: RememberOutcome<'_>) -> Remembered {
    Remembered { outcome, memory_id: None, text: String::new(), reply: Some(remember::confirmation(text)) }
}
