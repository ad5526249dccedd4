//! The changes of a memory model's result that are made. Each passes every check by itself, or is dropped with its reason.

use std::collections::HashSet;

use protocol::{MemoryId, is_kind};
use serde::Deserialize;
use serde_json::Value;
use store::MAX_MEMORY_BYTES;

use super::duplicates::{key, puts_together};
use super::{
    CitedWords, DEFAULT_KIND, Dropped, ExtractedChange, ExtractionBatch, ExtractionPlan, MAX_CHANGES, Reason,
    SeenMemory, ShownMemory, quote,
};
use crate::{secrets, suspicion};

/// Kinds that would make a memory look like an order.
const ORDERS: &[&str] =
    &["instruction", "instructions", "rule", "rules", "system", "prompt", "command", "order"];

#[derive(Deserialize)]
struct Item {
    action: ItemAction,
    #[serde(default)]
    ids: Vec<String>,
    message: Option<String>,
    quote: Option<String>,
    text: Option<String>,
    kind: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ItemAction {
    Create,
    Update,
    Merge,
    Remove,
}

/// Reads the result that the batch's request led to. Memories are touched once each, and the first change wins.
pub fn plan(result: &Value, batch: &ExtractionBatch<'_>) -> ExtractionPlan {
    let mut planner = ExtractionPlanner::new(batch);
    let mut plan = ExtractionPlan::default();
    let items = result.get("changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, item) in items.iter().enumerate() {
        // All that is beyond the bound is reported once.
        if at == MAX_CHANGES {
            plan.dropped.push(Dropped { at, reason: Reason::TooMany });
            break;
        }
        match Item::deserialize(item).map_err(|_| Reason::Malformed).and_then(|item| planner.change(&item)) {
            Ok(change) => plan.changes.push(change),
            Err(reason) => plan.dropped.push(Dropped { at, reason }),
        }
    }
    plan
}

struct ExtractionPlanner<'a> {
    batch: &'a ExtractionBatch<'a>,
    touched: HashSet<MemoryId>,
    /// The words of every memory that is or will be, and whose they are.
    texts: Vec<(String, Option<MemoryId>)>,
}

impl<'a> ExtractionPlanner<'a> {
    fn new(batch: &'a ExtractionBatch<'a>) -> Self {
        let texts = batch.known_memories().iter().map(|known| (key(&known.text), Some(known.id))).collect();
        Self { batch, touched: HashSet::new(), texts }
    }

    fn change(&mut self, item: &Item) -> Result<ExtractedChange, Reason> {
        let named = self.labelled_memories(&item.ids)?;
        let change = match (item.action, named.as_slice()) {
            (ItemAction::Create, []) => self.create(item)?,
            // A merge of one memory is an update of it.
            (ItemAction::Update | ItemAction::Merge, [one]) => self.update(item, one)?,
            (ItemAction::Merge, [into, from @ ..]) => self.merge(item, into, from)?,
            (ItemAction::Remove, [one]) => {
                ExtractedChange::Remove { of: seen_memory(one), source: self.source(item)? }
            }
            (ItemAction::Create | ItemAction::Update | ItemAction::Merge | ItemAction::Remove, _) => {
                return Err(Reason::WrongCount);
            }
        };
        self.touched.extend(named.iter().map(|known| known.id));
        Ok(change)
    }

    /// The memories with these labels, each once.
    fn labelled_memories(&self, labels: &[String]) -> Result<Vec<&'a ShownMemory>, Reason> {
        let mut named: Vec<&ShownMemory> = Vec::new();
        for label in labels {
            let found = self.batch.labelled_memories().find(|(known, _)| known == label);
            let (_, known) = found.ok_or(Reason::UnknownMemory)?;
            if self.touched.contains(&known.id) {
                return Err(Reason::TouchedTwice);
            }
            if !named.iter().any(|other| other.id == known.id) {
                named.push(known);
            }
        }
        Ok(named)
    }

    fn create(&mut self, item: &Item) -> Result<ExtractedChange, Reason> {
        let source = self.source(item)?;
        let text = text(item, Some(&source))?;
        self.claim(&text, &[])?;
        Ok(ExtractedChange::Create { text, kind: kind(item.kind.as_deref(), DEFAULT_KIND), source })
    }

    fn update(&mut self, item: &Item, known: &ShownMemory) -> Result<ExtractedChange, Reason> {
        let source = self.source(item)?;
        let text = text(item, Some(&source))?;
        let kind = kind(item.kind.as_deref(), &known.kind);
        if text == known.text && kind == known.kind {
            return Err(Reason::Unchanged);
        }
        self.claim(&text, &[known.id])?;
        Ok(ExtractedChange::Update { of: seen_memory(known), text, kind, source })
    }

    /// Without words of the user's, memories can only be put together as they are.
    fn merge(
        &mut self,
        item: &Item,
        into: &ShownMemory,
        from: &[&ShownMemory],
    ) -> Result<ExtractedChange, Reason> {
        let cites = item.quote.as_deref().is_some_and(|quote| !quote.trim().is_empty());
        let source = if cites { Some(self.source(item)?) } else { None };
        let text = text(item, source.as_ref())?;
        let all = || std::iter::once(into).chain(from.iter().copied());
        let parts: Vec<&str> = all().map(|known| known.text.as_str()).collect();
        if source.is_none() && !puts_together(&text, &parts) {
            return Err(Reason::Unfounded);
        }
        let own: Vec<MemoryId> = all().map(|known| known.id).collect();
        self.claim(&text, &own)?;
        let kind = kind(item.kind.as_deref(), &into.kind);
        let from = from.iter().map(|known| seen_memory(known)).collect();
        Ok(ExtractedChange::Merge { into: seen_memory(into), from, text, kind, source })
    }

    /// Refuses a text that another memory has.
    fn claim(&mut self, text: &str, own: &[MemoryId]) -> Result<(), Reason> {
        let key = key(text);
        let is_own = |owner: &Option<MemoryId>| owner.is_some_and(|owner| own.contains(&owner));
        if self.texts.iter().any(|(other, owner)| *other == key && !is_own(owner)) {
            return Err(Reason::Duplicate);
        }
        self.texts.push((key, own.first().copied()));
        Ok(())
    }

    fn source(&self, item: &Item) -> Result<CitedWords, Reason> {
        let label = item.message.as_deref().ok_or(Reason::UnknownMessage)?;
        let cited = self.batch.labelled_turns().find(|(known, _)| known == label);
        let (_, turn) = cited.ok_or(Reason::UnknownMessage)?;
        let said = item.quote.as_deref().and_then(|quote| quote::find(&turn.text, quote));
        let words = said.ok_or(Reason::NotSaid)?.to_owned();
        Ok(CitedWords { message: turn.message, words })
    }
}

fn seen_memory(known: &ShownMemory) -> SeenMemory {
    SeenMemory { id: known.id, version: known.version }
}

fn text(item: &Item, source: Option<&CitedWords>) -> Result<String, Reason> {
    let text = item.text.as_deref().unwrap_or_default().trim();
    let words = source.map(|source| source.words.as_str()).unwrap_or_default();
    if text.is_empty() {
        Err(Reason::Empty)
    } else if text.len() > MAX_MEMORY_BYTES {
        Err(Reason::TooLong)
    } else if secrets::find(text).is_some() || secrets::find(words).is_some() {
        Err(Reason::Secret)
    } else if source.is_some() && suspicion::is_instruction(text) && !suspicion::is_instruction(words) {
        Err(Reason::Order)
    } else {
        Ok(text.to_owned())
    }
}

/// One plain word, with its subject if it has one; or what it was.
fn kind(kind: Option<&str>, otherwise: &str) -> String {
    let small = kind.unwrap_or_default().trim().to_lowercase();
    let is_order = small.split('/').any(|word| ORDERS.contains(&word));
    if is_kind(&small) && !is_order { small } else { otherwise.to_owned() }
}
