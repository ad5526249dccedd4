//! Looking for memories and for what was said, by words and by meaning.

use std::collections::HashMap;

use agent::cap_text;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use memory::dates::TimeSpan;
use memory::index::{IndexItem, ItemRef, RecallFilter};
use memory::recall::{RecallHit, RecallQuestion};
use protocol::{FoundMessage, MemoryHit, MemoryId, MemoryQuery, MessageHit, Page, Principal, Scope};

use crate::checks::{hits, question};
use crate::{Error, Service, views};

/// Messages that are shown on each side of one that was found.
const NEIGHBOURS: usize = 2;

/// Bytes of a message that are shown: an answer holds hundreds of them.
const MAX_SHOWN_BYTES: usize = 4 * 1024;

/// How times are counted in a search: what has the same second is from the same time.
const TICK: SignedDuration = SignedDuration::from_secs(1);

/// Which past messages to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageQuery {
    pub text: String,
    pub limit: Option<u32>,
    /// A day or a moment, and so is `to`; both are included.
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Service {
    /// The active memories nearest to a question, best first.
    pub async fn search_memories(
        &self,
        principal: &Principal,
        app: &str,
        query: MemoryQuery,
    ) -> Result<Page<MemoryHit>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let text = question("query", &query.query)?;
        let limit = hits(query.limit)?;
        let found = self
            .recall()
            .search(&scope, RecallQuestion::new(text, self.now(), limit, RecallFilter::Memories));
        let scores: Vec<(MemoryId, f32)> = found.await?.iter().filter_map(memory_score).collect();
        let ids: Vec<MemoryId> = scores.iter().map(|(id, _)| *id).collect();
        let scores: HashMap<MemoryId, f32> = scores.into_iter().collect();
        let rows = self.store().memories_by_id(&scope, &ids).await?;
        let hit = |row: store::MemoryRow| {
            let score = scores.get(&row.id).copied().unwrap_or_default();
            MemoryHit { memory: views::memory(row), score }
        };
        Ok(Page { data: rows.into_iter().map(hit).collect(), next: None })
    }

    /// Messages in any of the user's threads of the app, best first.
    pub async fn search_messages(
        &self,
        principal: &Principal,
        app: &str,
        query: MessageQuery,
    ) -> Result<Page<MessageHit>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let text = question("q", &query.text)?;
        let limit = hits(query.limit)?;
        let within = read_span(query.from.as_deref(), query.to.as_deref())?;
        let asked =
            RecallQuestion { within, ..RecallQuestion::new(text, self.now(), limit, RecallFilter::Messages) };
        let mut data = Vec::new();
        for found in self.recall().search(&scope, asked).await? {
            data.extend(self.message_hit(&scope, &found).await?);
        }
        Ok(Page { data, next: None })
    }

    /// None if it is no message, or was deleted meanwhile.
    async fn message_hit(&self, scope: &Scope, found: &RecallHit) -> Result<Option<MessageHit>, Error> {
        let ItemRef::Message(id) = found.item.id else { return Ok(None) };
        let around: Vec<FoundMessage> = self
            .recall()
            .messages_around(scope, id, NEIGHBOURS)
            .await?
            .iter()
            .filter_map(found_message)
            .collect();
        let mut parts = around.splitn(2, |message| message.id == id).map(<[FoundMessage]>::to_vec);
        let (before, after) = (parts.next().unwrap_or_default(), parts.next());
        let hit = |(message, after)| MessageHit { message, score: found.score, before, after };
        Ok(found_message(&found.item).zip(after).map(hit))
    }
}

fn memory_score(found: &RecallHit) -> Option<(MemoryId, f32)> {
    match found.item.id {
        ItemRef::Memory(id) => Some((id, found.score)),
        ItemRef::Message(_) | ItemRef::Chunk(_) => None,
    }
}

fn found_message(item: &IndexItem) -> Option<FoundMessage> {
    match (item.id, item.thread, item.role) {
        (ItemRef::Message(id), Some(thread_id), Some(role)) => {
            let text = cap_text(&item.text, MAX_SHOWN_BYTES);
            Some(FoundMessage { id, thread_id, role, text, created_at: item.at })
        }
        (ItemRef::Message(_) | ItemRef::Memory(_) | ItemRef::Chunk(_), _, _) => None,
    }
}

/// The time that is asked for; none when nothing is said of it.
pub(super) fn read_span(from: Option<&str>, to: Option<&str>) -> Result<Option<TimeSpan>, Error> {
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let moment = |field: &'static str, text: &str| {
        read(text).ok_or_else(|| {
            Error::invalid(field, "must be a day such as 2026-11-15 or a time such as 2026-11-15T08:00:00Z")
        })
    };
    let start = from.map(|text| moment("from", text)).transpose()?.map(|(start, _)| start);
    let end = to.map(|text| moment("to", text)).transpose()?.map(|(_, end)| end);
    let (start, end) = (start.unwrap_or(Timestamp::MIN), end.unwrap_or(Timestamp::MAX));
    if start >= end {
        return Err(Error::invalid("to", "is before `from`"));
    }
    Ok(Some(TimeSpan { start, end }))
}

/// When a day or a moment begins, and when it is over.
fn read(text: &str) -> Option<(Timestamp, Timestamp)> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some((moment, moment.saturating_add(TICK).ok()?));
    }
    let day: Date = text.parse().ok()?;
    // A date is read from what has a time, too; only a bare one is a day.
    (day.to_string() == text).then_some(())?;
    let begins =
        |day: Date| Some(day.to_datetime(Time::midnight()).to_zoned(TimeZone::UTC).ok()?.timestamp());
    let next = day.checked_add(1.day()).ok().and_then(begins);
    Some((begins(day)?, next.unwrap_or(Timestamp::MAX)))
}
