//! Messages that ask to forget something. The user sees the memories that this means, and they are forgotten once the
//! user agrees.

use memory::forgetting::{self, About, ForgetReply, ForgetRequest, MAX_SHOWN};
use memory::index::{ItemRef, RecallFilter};
use memory::recall::RecallQuestion;
use memory::words;
use protocol::{ContextLoaded, Event, Forgetting, ForgettingOutcome, MemoryId, Role};
use store::{MemoryRow, MessageRow, Write};

use super::Run;
use crate::context::NewestMessages;
use crate::spoken_requests::SpokenRequests;
use crate::transcript;

/// Messages before the request among which the one is looked for that a memory rests on.
const LOOK_BACK: usize = 6;

/// The newest memories among which those are looked for that rest on these messages.
const MAX_NEWEST: usize = 200;

/// Memories near a topic that are looked at.
const MAX_NEAR: usize = 30;

/// A text is about a topic if it has at least 1/`SHARED` of the topic's telling words.
const SHARED: usize = 2;

impl Run {
    /// The memories that the message asks to forget, or its answer to the question whether that is to be; none if it does neither.
    pub(super) async fn read_forgetting(
        &self,
        spoken: &SpokenRequests<'_>,
        newest: &NewestMessages,
    ) -> Result<Option<(Forgetting, Vec<Write>)>, store::Error> {
        let (request, said) = (spoken.forget, spoken.answer);
        if request.is_none() && said.is_none() {
            return Ok(None);
        }
        let Some((_, path)) = newest.last(LOOK_BACK + 1).split_last() else { return Ok(None) };
        let before = self.loaded_before(path).await?;
        if let (Some(yes), Some(question)) = (said, before.as_ref().and_then(open_question)) {
            return Ok(Some(forget_decision(yes, question)));
        }
        let Some(ForgetRequest { language, about }) = request else { return Ok(None) };
        let meant = match about {
            About::Last => self.said_last(path, before.as_ref()).await?,
            About::Topic(topic) => self.known_about(topic).await?,
            About::Everything => self.world.store.active_memories(&self.scope, MAX_SHOWN + 1).await?,
        };
        Ok(Some((question(language, about, &meant), Vec::new())))
    }

    /// The context that the run of the newest earlier message had loaded.
    async fn loaded_before(&self, path: &[MessageRow]) -> Result<Option<ContextLoaded>, store::Error> {
        let Some(run) = path.last().and_then(|row| row.run) else { return Ok(None) };
        let facts = self.world.store.facts(run).await?;
        let loaded =
            |event: Event| if let Event::ContextLoaded(loaded) = event { Some(loaded) } else { None };
        Ok(facts.iter().filter_map(|raw| Event::read(&raw.kind, &raw.body).ok()).find_map(loaded))
    }

    /// The memories that rest on what the user said last; or else those that the last answer repeats.
    async fn said_last(
        &self,
        path: &[MessageRow],
        before: Option<&ContextLoaded>,
    ) -> Result<Vec<MemoryRow>, store::Error> {
        let newest = self.world.store.active_memories(&self.scope, MAX_NEWEST).await?;
        for row in path.iter().rev() {
            let rests = |memory: &&MemoryRow| {
                memory.first_source.as_ref().is_some_and(|source| source.message == Some(row.id))
            };
            let resting: Vec<MemoryRow> = newest.iter().filter(rests).cloned().collect();
            if !resting.is_empty() {
                return Ok(resting);
            }
        }
        let shown: Vec<MemoryId> =
            before.into_iter().flat_map(|loaded| &loaded.memories).filter_map(|id| id.parse().ok()).collect();
        let answer = path.last().map(transcript::read).filter(|turn| turn.role == Some(Role::Assistant));
        let Some(answer) = answer.filter(|_| !shown.is_empty()) else { return Ok(Vec::new()) };
        let rows = self.world.store.memories_by_id(&self.scope, &shown).await?;
        Ok(rows.into_iter().filter(|row| has_words_of(&answer.text, &row.text)).collect())
    }

    /// The memories that have words of the topic; or else the one nearest to it in meaning.
    async fn known_about(&self, topic: &str) -> Result<Vec<MemoryRow>, store::Error> {
        let question = RecallQuestion::new(topic, self.started, MAX_NEAR, RecallFilter::Memories);
        let found = self.world.recall.search(&self.scope, question).await?;
        let id = |id: ItemRef| match id {
            ItemRef::Memory(id) => Some(id),
            ItemRef::Message(_) | ItemRef::Chunk(_) => None,
        };
        let ids: Vec<MemoryId> = found.iter().filter_map(|found| id(found.item.id)).collect();
        let rows = self.world.store.memories_by_id(&self.scope, &ids).await?;
        let named: Vec<MemoryRow> =
            rows.iter().filter(|row| has_words_of(&row.text, topic)).cloned().collect();
        let nearest = ids.first().filter(|_| named.is_empty() && self.world.recall.model().is_some());
        let nearest = rows.into_iter().filter(|row| nearest == Some(&row.id));
        Ok(named.into_iter().chain(nearest).take(MAX_SHOWN).collect())
    }
}

/// The question that waits for the user's answer.
fn open_question(loaded: &ContextLoaded) -> Option<&Forgetting> {
    loaded.forgetting.as_ref().filter(|forgetting| forgetting.outcome == ForgettingOutcome::Asked)
}

fn forget_decision(yes: bool, question: &Forgetting) -> (Forgetting, Vec<Write>) {
    let (outcome, reply) = match yes {
        true => (ForgettingOutcome::Forgotten, ForgetReply::Forgotten),
        false => (ForgettingOutcome::Kept, ForgetReply::Kept),
    };
    let writes = question.memories.iter().filter(|_| yes).map(|memory| Write::Forget { memory: *memory });
    let forgetting =
        Forgetting { outcome, reply: forgetting::reply(&question.language, reply), ..question.clone() };
    (forgetting, writes.collect())
}

/// The question to the user, or the reply if nothing is meant.
fn question(language: &str, about: About<'_>, meant: &[MemoryRow]) -> Forgetting {
    let is_any = !meant.is_empty();
    let meant = if about == About::Everything && meant.len() > MAX_SHOWN { &[] } else { meant };
    let is_too_much = about == About::Everything && is_any && meant.is_empty();
    let texts: Vec<String> = meant.iter().take(MAX_SHOWN).map(|row| row.text.clone()).collect();
    let (outcome, reply) = match about {
        _ if !texts.is_empty() => (ForgettingOutcome::Asked, ForgetReply::Ask(&texts)),
        About::Last => (ForgettingOutcome::NothingFound, ForgetReply::NothingOfLast),
        About::Everything if is_too_much => (ForgettingOutcome::NothingFound, ForgetReply::TooMuch),
        About::Topic(_) | About::Everything => (ForgettingOutcome::NothingFound, ForgetReply::NothingAbout),
    };
    Forgetting {
        outcome,
        memories: meant.iter().take(MAX_SHOWN).map(|row| row.id).collect(),
        language: language.to_owned(),
        reply: forgetting::reply(language, reply),
    }
}

/// Whether the text has enough of the telling words of another.
fn has_words_of(text: &str, other: &str) -> bool {
    let (has, wanted) = (words::terms(text), words::terms(other));
    let shared = wanted.iter().filter(|word| has.contains(word)).count();
    shared > 0 && shared * SHARED >= wanted.len()
}
