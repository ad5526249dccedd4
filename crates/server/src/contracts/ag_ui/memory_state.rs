//! The state that a client of AG-UI shares with the agent: its own fields, and in `memory` what is remembered of the user.

use protocol::{ContextLoaded, ForgettingOutcome, MemoryId, MemoryUpdate, RememberedOutcome};
use serde_json::{Map, Value, json};

use super::event::PatchOperation;

/// The field of the state that the server writes.
const MEMORY: &str = "memory";

/// The state as the client knows it.
#[derive(Debug, Default)]
pub(crate) struct MemoryState {
    /// The client's own fields.
    fields: Map<String, Value>,
    /// Ids and texts, oldest first.
    memories: Vec<(MemoryId, String)>,
}

impl MemoryState {
    /// The state that the client sent, with these memories in it, oldest first.
    pub(crate) fn new(sent: Option<Value>, memories: Vec<(MemoryId, String)>) -> Self {
        let fields = if let Some(Value::Object(fields)) = sent { fields } else { Map::new() };
        Self { fields, memories }
    }

    pub(super) fn snapshot(&self) -> Value {
        let mut fields = self.fields.clone();
        let memories = self.memories.iter().map(|(id, text)| memory(*id, text)).collect();
        fields.insert(MEMORY.to_owned(), Value::Array(memories));
        Value::Object(fields)
    }

    /// The changes that a message asked for.
    pub(super) fn read_context(&mut self, loaded: &ContextLoaded) -> Vec<PatchOperation> {
        let mut changes = Vec::new();
        if let Some(remembered) = &loaded.remembered
            && remembered.outcome == RememberedOutcome::Saved
            && let Some(id) = remembered.memory_id
        {
            changes.extend(self.add(id, &remembered.text));
        }
        if let Some(forgetting) = &loaded.forgetting
            && forgetting.outcome == ForgettingOutcome::Forgotten
        {
            changes.extend(forgetting.memories.iter().filter_map(|id| self.remove(*id)));
        }
        changes
    }

    /// The changes by a look at messages. Texts of new memories are in the next snapshot.
    pub(super) fn read_update(&mut self, update: &MemoryUpdate) -> Vec<PatchOperation> {
        let gone = update.removed.iter().chain(&update.expired).chain(&update.merged);
        gone.filter_map(|id| self.remove(*id)).collect()
    }

    /// A snapshot that was read late has the memory already.
    pub(super) fn add(&mut self, id: MemoryId, text: &str) -> Option<PatchOperation> {
        if self.memories.iter().any(|(known, _)| *known == id) {
            return None;
        }
        self.memories.push((id, text.to_owned()));
        Some(PatchOperation::Add { path: format!("/{MEMORY}/-"), value: memory(id, text) })
    }

    fn remove(&mut self, id: MemoryId) -> Option<PatchOperation> {
        let place = self.memories.iter().position(|(known, _)| *known == id)?;
        self.memories.remove(place);
        Some(PatchOperation::Remove { path: format!("/{MEMORY}/{place}") })
    }
}

fn memory(id: MemoryId, text: &str) -> Value {
    json!({ "id": id, "text": text })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> MemoryId {
        MemoryId::new(Uuid::from_u128(number))
    }

    #[test]
    fn the_fields_of_the_client_stay_and_memory_is_the_server_s() {
        let sent = json!({ "theme": "dark", "memory": ["made up"] });
        let mut state = MemoryState::new(Some(sent), vec![(id(1), "Likes tea.".into())]);
        let known = json!({ "id": id(1), "text": "Likes tea." });
        assert_eq!(state.snapshot(), json!({ "theme": "dark", "memory": [known] }));
        assert_eq!(state.add(id(1), "Likes tea."), None);
        let value = json!({ "id": id(2), "text": "Has a cat." });
        assert_eq!(
            state.add(id(2), "Has a cat."),
            Some(PatchOperation::Add { path: "/memory/-".into(), value })
        );
        let update = MemoryUpdate { removed: vec![id(1), id(3)], ..MemoryUpdate::default() };
        assert_eq!(state.read_update(&update), [PatchOperation::Remove { path: "/memory/0".into() }]);
    }
}
