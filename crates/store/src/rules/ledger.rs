//! The ledger: every action in entries that are chained by hash within each scope.
//!
//! The parts of a chain, for a reader who checks one without Rondo (`‖` joins bytes, numbers are eight bytes, big end
//! first):
//!
//! - `digest` = SHA-256(salt ‖ payload), where the salt has 16 bytes and the payload is its text as stored, in UTF-8;
//! - `hash` = SHA-256(hash before ‖ position ‖ action ‖ kind ‖ at ‖ digest), where the action's id has 16 bytes, the kind
//!   is its name in ASCII, and `at` is signed, in milliseconds since 1970;
//! - positions begin at 1, and the hash before the first entry is SHA-256(app ‖ one zero byte ‖ user).
//!
//! The output of a call of a run is stored once, in its event `tool:complete`. The outcome's payload has `outputIn`
//! then: the number of that event in the thread, and the SHA-256 of its body as stored, in hex.
//!
//! Erasing removes payloads and their salts, never entries: the chain still holds, and the contents cannot be guessed.

use jiff::Timestamp;
use protocol::{ActionId, Effect, RunId, Scope, Seq, ThreadId, ToolStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::actions;
use super::stored_text::without_zeros;
use crate::{ActionRow, ActionStatus, AppliedChange, Error, LedgerKind};

/// A SHA-256 in the chain.
pub type LedgerHash = [u8; 32];

/// Contents of an entry: an intent has the upper part, an outcome the middle, or both if nothing went before it. The
/// intent of an undo that acts outside the store also names what it is to undo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LedgerPayload {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The holder of the acting key that spoke for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// The place of the output, if it is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_in: Option<OutputPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<AppliedChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_of: Option<ActionId>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<ActionId>,
    /// Why something was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The event that holds the output of a call, and the hash that its body must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPlace {
    pub seq: Seq,
    /// In hex, of the body as stored.
    sha256: String,
}

impl OutputPlace {
    pub fn of(seq: Seq, body: &str) -> Self {
        Self { seq, sha256: Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Whether this is the body it was made of.
    pub fn holds(&self, body: &str) -> bool {
        *self == Self::of(self.seq, body)
    }
}

impl LedgerPayload {
    pub fn intent(action: &ActionRow) -> Self {
        Self {
            tool: Some(action.tool.clone()),
            effect: Some(action.effect),
            input: action.input.clone(),
            thread: action.thread,
            run: action.run,
            step: action.step,
            actor: action.actor.clone(),
            undo_of: action.undo_of,
            ..Self::default()
        }
    }

    /// Of an action that has ended. One that no intent announced says all of it. With a place, the output is there.
    pub fn outcome(action: &ActionRow, announced: bool, place: Option<OutputPlace>) -> Self {
        let asked = if announced { Self::default() } else { Self::intent(action) };
        Self {
            status: Some(action.status.name().to_owned()),
            output: if place.is_none() { action.output.clone() } else { Value::Null },
            output_in: place,
            duration_ms: action.duration_ms,
            changes: action.changes.clone(),
            undo_of: action.undo_of,
            ..asked
        }
    }

    /// Of a result that came after the first.
    pub fn late(status: ToolStatus, output: &Value) -> Self {
        Self { status: Some(status.name().to_owned()), output: output.clone(), ..Self::default() }
    }

    pub fn undo(by: ActionId) -> Self {
        Self { undone_by: Some(by), ..Self::default() }
    }

    pub fn erase(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }
}

/// The fixed part of an entry, which its hash covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerEntry {
    pub position: u64,
    pub action: [u8; 16],
    pub kind: LedgerKind,
    pub at: i64,
    pub digest: LedgerHash,
}

impl LedgerEntry {
    pub fn hash(&self, before: &LedgerHash) -> LedgerHash {
        let mut hash = Sha256::new();
        hash.update(before);
        hash.update(self.position.to_be_bytes());
        hash.update(self.action);
        hash.update(self.kind.name());
        hash.update(self.at.to_be_bytes());
        hash.update(self.digest);
        hash.finalize().into()
    }
}

/// The last entry of a scope's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerHead {
    pub position: u64,
    pub hash: LedgerHash,
}

impl LedgerHead {
    /// The head of a chain without entries, so that no chain can pass for another scope's.
    pub fn origin(scope: &Scope) -> Self {
        let hash = Sha256::new().chain_update(scope.app.as_str()).chain_update([0]);
        Self { position: 0, hash: hash.chain_update(scope.user.as_str()).finalize().into() }
    }
}

/// An event of an action that is about to become an entry.
#[derive(Debug, Clone, Copy)]
pub struct NewLedgerEntry<'a> {
    pub action: ActionId,
    pub kind: LedgerKind,
    /// In milliseconds since 1970.
    pub at: i64,
    pub salt: [u8; 16],
    /// As it is stored.
    pub payload: &'a str,
}

/// The entry that follows a head, with its hash.
pub fn next_entry(head: &LedgerHead, new: &NewLedgerEntry<'_>) -> (LedgerEntry, LedgerHash) {
    let entry = LedgerEntry {
        position: head.position + 1,
        action: *new.action.bytes(),
        kind: new.kind,
        at: new.at,
        digest: payload_digest(&new.salt, new.payload),
    };
    (entry, entry.hash(&head.hash))
}

pub fn payload_digest(salt: &[u8], payload: &str) -> LedgerHash {
    Sha256::new().chain_update(salt).chain_update(payload).finalize().into()
}

/// The text of a payload, as it is stored.
pub fn payload_text(payload: &LedgerPayload) -> Result<String, Error> {
    serde_json::to_string(payload).map_err(|_| Error::Aborted)
}

/// An entry as it is stored, with its contents if they are still there.
#[derive(Debug, Clone)]
pub struct LedgerRow {
    pub scope: Scope,
    pub entry: LedgerEntry,
    pub hash: LedgerHash,
    pub salt: Option<Vec<u8>>,
    pub payload: Option<String>,
}

/// Faults of an entry that comes after the head `before`.
pub fn entry_faults(before: &LedgerHead, row: &LedgerRow) -> Vec<String> {
    let mut faults = Vec::new();
    if row.entry.position != before.position + 1 {
        faults.push(format!("does not follow the entry {}", before.position));
    }
    if row.entry.hash(&before.hash) != row.hash {
        faults.push("has a hash that does not match its content".to_owned());
    }
    faults
}

/// An action as its entries tell it.
#[derive(Debug, Clone)]
pub struct FoldedAction {
    pub action: ActionRow,
    /// The event that holds its output, where no entry does.
    pub output_in: Option<OutputPlace>,
}

/// The action as its entries tell it. None without entries.
pub fn fold(action: &ActionRow, entries: &[LedgerRow]) -> Option<FoldedAction> {
    let first = entries.first()?;
    let mut output_in = None;
    let at = Timestamp::from_millisecond(first.entry.at).unwrap_or_default();
    let mut folded = ActionRow {
        undo_under_way: action.undo_under_way, // told by the other action
        position: first.entry.position,
        ..actions::new_action(action.id, first.scope.clone(), String::new(), at)
    };
    for row in entries {
        let payload =
            row.payload.as_deref().and_then(|text| serde_json::from_str::<LedgerPayload>(text).ok());
        let Some(payload) = payload else { continue };
        match row.entry.kind {
            LedgerKind::Intent => {
                folded.undo_of = payload.undo_of;
                take_call(&mut folded, payload);
            }
            LedgerKind::Outcome => {
                let status = payload.status.as_deref().and_then(ActionStatus::parse);
                folded.status = status.unwrap_or(ActionStatus::Ended(ToolStatus::Unknown));
                folded.output = payload.output.clone();
                output_in.clone_from(&payload.output_in);
                folded.duration_ms = payload.duration_ms;
                folded.changes.clone_from(&payload.changes);
                folded.undo_of = payload.undo_of;
                take_call(&mut folded, payload);
            }
            LedgerKind::Undo => folded.undone_by = payload.undone_by,
            LedgerKind::Late | LedgerKind::Erase => {}
        }
    }
    Some(FoldedAction { action: folded, output_in })
}

/// Takes over what an entry says of the call itself, if it is one that does.
fn take_call(folded: &mut ActionRow, payload: LedgerPayload) {
    if let (Some(tool), Some(effect)) = (payload.tool, payload.effect) {
        (folded.tool, folded.effect, folded.input) = (tool, effect, payload.input);
        (folded.thread, folded.run, folded.step) = (payload.thread, payload.run, payload.step);
        folded.actor = payload.actor;
    }
}

/// Which parts of an action differ from its entries. An erased one must have no contents, and the rest is not known.
pub fn differences(action: &ActionRow, folded: &ActionRow, erased: bool) -> Vec<&'static str> {
    let placed = [
        ("scope", action.scope == folded.scope),
        ("position", action.position == folded.position),
        ("started_at", action.started_at == folded.started_at),
    ];
    let gone = action.input.is_null() && action.output.is_null() && action.changes.is_empty();
    let contents = [
        ("actor", says_same(action.actor.as_deref(), folded.actor.as_deref())),
        ("thread", action.thread == folded.thread),
        ("run", action.run == folded.run),
        ("step", action.step == folded.step),
        ("tool", says_same(Some(&action.tool), Some(&folded.tool))),
        ("effect", action.effect == folded.effect),
        ("status", action.status == folded.status),
        ("input", action.input == folded.input),
        ("output", action.output == folded.output),
        ("changes", action.changes == folded.changes),
        ("duration_ms", action.duration_ms == folded.duration_ms),
        ("undone_by", action.undone_by == folded.undone_by),
        ("undo_of", action.undo_of == folded.undo_of),
    ];
    let parts: Vec<(&str, bool)> = if erased {
        placed.into_iter().chain([("what was erased", gone)]).collect()
    } else {
        placed.into_iter().chain(contents).collect()
    };
    parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
}

/// Whether a column says what an entry says. A column of PostgreSQL has U+FFFD where the JSON of the entry has U+0000.
fn says_same(column: Option<&str>, entry: Option<&str>) -> bool {
    column == entry || column == entry.map(|text| without_zeros(text.to_owned())).as_deref()
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, UserId};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn scope(user: &str) -> Scope {
        Scope { app: AppId::new("app"), user: UserId::new(user) }
    }

    fn action() -> ActionRow {
        let id = ActionId::new(Uuid::from_u128(1));
        let new = actions::new_action(id, scope("alice"), "rename".into(), Timestamp::UNIX_EPOCH);
        ActionRow { effect: Effect::Reversible, input: json!({ "name": "W" }), position: 1, ..new }
    }

    /// A chain of these payloads.
    fn chain(payloads: &[(LedgerKind, LedgerPayload)]) -> Vec<LedgerRow> {
        let mut head = LedgerHead::origin(&scope("alice"));
        let mut rows = Vec::new();
        for (kind, payload) in payloads {
            let (salt, payload) = ([7; 16], payload_text(payload).unwrap());
            let new = NewLedgerEntry { action: action().id, kind: *kind, at: 0, salt, payload: &payload };
            let (entry, hash) = next_entry(&head, &new);
            assert_eq!(entry.digest, payload_digest(&salt, &payload));
            head = LedgerHead { position: entry.position, hash };
            let (salt, payload) = (Some(salt.to_vec()), Some(payload));
            rows.push(LedgerRow { scope: scope("alice"), entry, hash, salt, payload });
        }
        rows
    }

    fn done() -> ActionRow {
        let status = ActionStatus::Ended(ToolStatus::Complete);
        ActionRow { status, output: json!("ok"), duration_ms: Some(5), ..action() }
    }

    fn call_payloads() -> [(LedgerKind, LedgerPayload); 2] {
        let outcome = LedgerPayload::outcome(&done(), true, None);
        [(LedgerKind::Intent, LedgerPayload::intent(&action())), (LedgerKind::Outcome, outcome)]
    }

    #[test]
    fn every_entry_stands_on_the_one_before_and_on_its_scope() {
        let mut rows = chain(&call_payloads());
        assert_eq!(entry_faults(&LedgerHead::origin(&scope("alice")), &rows[0]), Vec::<String>::new());
        assert_eq!(entry_faults(&LedgerHead::origin(&scope("eve")), &rows[0]).len(), 1);
        let head = LedgerHead { position: 1, hash: rows[0].hash };
        assert_eq!(entry_faults(&head, &rows[1]), Vec::<String>::new());
        rows[1].entry.at = 9;
        assert_eq!(entry_faults(&head, &rows[1]), ["has a hash that does not match its content"]);
        rows[1].entry.position = 3;
        assert_eq!(entry_faults(&head, &rows[1]).len(), 2);
    }

    #[test]
    fn an_action_is_what_its_entries_say() {
        let rows = chain(&call_payloads());
        let folded = fold(&done(), &rows).unwrap();
        assert_eq!(differences(&done(), &folded.action, false), Vec::<&str>::new());
        let other = ActionRow { tool: "delete".into(), ..done() };
        assert_eq!(differences(&other, &folded.action, false), ["tool"]);
        assert_eq!(differences(&done(), &folded.action, true), ["what was erased"]);
        assert!(fold(&done(), &[]).is_none());
    }

    #[test]
    fn an_output_in_an_event_is_not_said_again() {
        let place = OutputPlace::of(4, "{}");
        assert!(place.holds("{}") && !place.holds("{ }"));
        let payload = LedgerPayload::outcome(&done(), true, Some(place.clone()));
        assert_eq!((payload.output, payload.output_in), (Value::Null, Some(place)));
    }
}
