//! Purging a memory: it is forgotten first, so that it can be said what to look for; then all that says it goes.

use jiff::Timestamp;
use memory::tombstone::{Forgotten, Shadow};
use protocol::{ActionId, ActionStatus, MemoryId, Principal, Scope};
use store::{
    ActionFilter, ActionRow, IdempotencyClaim, MAX_ACTIONS_PER_PURGE, MemoryPurge, PageOf, PurgedWords,
    TombstoneRow,
};

use crate::{Error, Service};

/// Actions that are looked at in one read.
const ACTIONS_PER_READ: usize = 200;

impl Service {
    /// If this is cut, the memory is forgotten, and purging it again goes on.
    pub(super) async fn purge_words(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let row = match self.memory_row(principal, memory).await {
            // Under a key, purging twice is purging once.
            Err(Error::NotFound { .. }) if once.is_some() => None,
            row => Some(row?),
        };
        let purge = match row {
            None => MemoryPurge::default(),
            Some(row) => {
                self.store().forget_memory(principal, memory, None).await?;
                let tombstones = self.store().words_of_memory(principal, memory).await?;
                let actions = self.erase_most(&row.scope, &tombstones).await?;
                MemoryPurge { shadows: self.shadows(&tombstones).await?, actions }
            }
        };
        self.store().purge_memory(principal, memory, purge, once).await?;
        self.world().sweeper.sweep();
        Ok(())
    }

    async fn shadows(&self, tombstones: &[TombstoneRow]) -> Result<Vec<PurgedWords>, Error> {
        let key = self.store().secret().await?;
        let shadow = |tombstone: &TombstoneRow| {
            let shadow = Shadow::of(&tombstone.words, &key)?.to_bytes();
            Some(PurgedWords { shadow, at: tombstone.at })
        };
        Ok(tombstones.iter().filter_map(shadow).collect())
    }

    /// Erases the actions that hold the words, and gives the last of them, which go with the memory.
    async fn erase_most(&self, scope: &Scope, tombstones: &[TombstoneRow]) -> Result<Vec<ActionId>, Error> {
        let always =
            tombstones.iter().map(|tombstone| TombstoneRow { at: Timestamp::MAX, ..tombstone.clone() });
        let words = Forgotten::new(&always.collect::<Vec<_>>());
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = PageOf { after, limit: ACTIONS_PER_READ };
            let rows = self.store().actions(scope, ActionFilter::default(), page).await?.rows;
            let Some(last) = rows.last() else { return Ok(found) };
            after = Some(last.position);
            found.extend(rows.iter().filter(|row| holds_words(row, &words)).map(|row| row.id));
            if found.len() + ACTIONS_PER_READ > MAX_ACTIONS_PER_PURGE {
                self.store().erase_actions(scope, std::mem::take(&mut found)).await?;
            }
        }
    }
}

/// Whether the words are in what an ended action says.
fn holds_words(row: &ActionRow, words: &Forgotten) -> bool {
    let hidden = |value: &serde_json::Value| {
        let mut cleared = value.clone();
        words.clear_json(&mut cleared, Timestamp::MIN);
        cleared != *value
    };
    row.status != ActionStatus::Started && (hidden(&row.input) || hidden(&row.output))
}
