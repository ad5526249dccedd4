//! Undo: an action is undone once, by an action of its own, and only while nothing newer stands on it.

use std::collections::HashMap;

use jiff::Timestamp;
use protocol::{ActionId, Effect, ToolStatus};
use serde_json::{Value, json};

use crate::{ActionEnd, ActionRow, ActionStatus, AppliedChange, Error, MAX_BYTES_PER_PAGE, Write};

/// Why an erased action is not undone.
const ERASED: &str = "the content of the action was erased, because its thread or the changed data was \
    deleted, or its time for an undo is over";

/// Rows that decide whether an action can be undone.
#[derive(Debug, Clone, Copy)]
pub struct UndoRequest<'a> {
    pub action: &'a ActionRow,
    /// The action that is to undo it.
    pub by: ActionId,
    /// Whether the contents of the action were erased.
    pub erased: bool,
    /// The state of another action that has undone it, or tries to.
    pub attempt: Option<ActionStatus>,
}

impl UndoRequest<'_> {
    /// Whether the changes that the action made in the store can be put back; the error says why not.
    pub fn check_here(&self) -> Result<(), Error> {
        refuse(self.refusal().or_else(|| refusal_here(self.action)))
    }

    /// Whether a call outside the store may undo the action; the error says why not.
    pub fn check_outside(&self) -> Result<(), Error> {
        refuse(self.refusal().or_else(|| refusal_outside(self.action)))
    }

    /// Why the action cannot be undone, for reasons that do not depend on its changes.
    fn refusal(&self) -> Option<&'static str> {
        let Self { action, by, erased, attempt } = *self;
        if action.id == by {
            return Some("an action cannot undo itself");
        }
        if action.undo_of.is_some() {
            return Some("the action is an undo, which cannot be undone; make the change again");
        }
        if action.undone_by.is_some() {
            return Some("the action was undone already");
        }
        if erased {
            return Some(ERASED);
        }
        if action.status != ActionStatus::Ended(ToolStatus::Complete) {
            return Some("the action was not completed, so there is nothing to undo");
        }
        attempt.map(|attempt| match attempt {
            ActionStatus::Started => "an undo of the action is running",
            ActionStatus::Ended(_) => {
                "an earlier undo of the action has no known result; check the external system"
            }
        })
    }
}

/// The state of an earlier attempt to undo an action that stands in the way of another, among the states of all attempts.
pub fn attempt_in_the_way(attempts: impl IntoIterator<Item = ActionStatus>) -> Option<ActionStatus> {
    attempts.into_iter().find(|attempt| may_have_effect(*attempt))
}

/// Whether an attempt has undone the action, or may do so or have done so.
fn may_have_effect(attempt: ActionStatus) -> bool {
    match attempt {
        ActionStatus::Started | ActionStatus::Ended(ToolStatus::Complete | ToolStatus::Unknown) => true,
        ActionStatus::Ended(ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled) => false,
    }
}

fn refuse(reason: Option<&'static str>) -> Result<(), Error> {
    reason.map_or(Ok(()), |reason| Err(Error::Changed(reason.into())))
}

fn refusal_here(action: &ActionRow) -> Option<&'static str> {
    let changes_nothing_reversible = match action.effect {
        Effect::Idempotent | Effect::Reversible => false,
        Effect::Read | Effect::Irreversible => true,
    };
    (changes_nothing_reversible || action.changes.is_empty())
        .then_some("the action changed nothing that can be undone")
}

fn refusal_outside(action: &ActionRow) -> Option<&'static str> {
    match action.effect {
        Effect::Reversible => None,
        Effect::Read | Effect::Idempotent | Effect::Irreversible => {
            Some("the action changed nothing that can be undone")
        }
    }
}

/// The end of an action with which the user undoes another.
pub fn end_by_user(action: ActionId) -> ActionEnd {
    ActionEnd {
        status: ToolStatus::Complete,
        output: json!({ "undone": action }),
        duration_ms: 0,
        writes: vec![Write::Undo { action }],
    }
}

/// All changes of an action to one thing: the first of them, and the version that the last one has left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThingChange<'a> {
    pub change: &'a AppliedChange,
    pub left: u64,
}

impl ThingChange<'_> {
    /// The thing after these changes were put back. None if it does not stand as they have left it.
    pub fn put_back(&self, standing: &StandingThing) -> Option<StandingThing> {
        let restored = |state: u64, contents: Option<Value>| StandingThing { state, contents };
        is_as_left(standing.state, self.left).then(|| match self.change {
            AppliedChange::Record { before, was, .. } => restored(*was, before.clone()),
            AppliedChange::File { before, was, .. } => restored(*was, before.clone().map(Value::from)),
            AppliedChange::Memory { .. } => restored(NOT_ACTIVE, None),
            AppliedChange::Profile { before, .. } => {
                restored(self.left.saturating_add(1), Some(before.clone()))
            }
        })
    }
}

/// The state of a memory that is not active: no change has left it so.
pub const NOT_ACTIVE: u64 = 0;

/// Whether a thing stands as a change has left it. Else something newer stands on the change.
pub fn is_as_left(state: u64, left: u64) -> bool {
    state == left
}

/// A thing as an undo finds it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StandingThing {
    /// The version that first had these contents. For a profile, its version; for a memory, too, while it is active.
    pub state: u64,
    /// None if it is not there.
    pub contents: Option<Value>,
}

/// Things that actions were planned to put back, and the bytes of what was shown of them.
#[derive(Debug, Clone, Default)]
pub struct UndoneThings {
    things: HashMap<String, StandingThing>,
    bytes: usize,
}

impl UndoneThings {
    /// The thing of this name, if it was put back.
    pub fn get(&self, name: &str) -> Option<&StandingThing> {
        self.things.get(name)
    }

    /// Whether there is no room for these contents beside those that are shown already.
    pub fn leaves_out(&mut self, now: &StandingThing, then: &StandingThing) -> bool {
        let bytes =
            |thing: &StandingThing| thing.contents.as_ref().map_or(0, |value| value.to_string().len());
        self.bytes = self.bytes.saturating_add(bytes(now)).saturating_add(bytes(then));
        self.bytes > MAX_BYTES_PER_PAGE
    }

    /// Notes a thing that is put back. Contents that are left out are not kept.
    pub fn put(&mut self, name: String, thing: StandingThing, left_out: bool) {
        let contents = thing.contents.map(|contents| if left_out { Value::Null } else { contents });
        self.things.insert(name, StandingThing { contents, ..thing });
    }
}

/// One for each changed thing, the one changed last first.
pub fn changes_by_thing(changes: &[AppliedChange]) -> Vec<ThingChange<'_>> {
    let mut things: Vec<ThingChange<'_>> = Vec::new();
    for change in changes.iter().rev() {
        match things.iter_mut().find(|thing| is_same_thing(thing.change, change)) {
            Some(thing) => thing.change = change,
            None => things.push(ThingChange { change, left: version(change) }),
        }
    }
    things
}

fn version(change: &AppliedChange) -> u64 {
    match change {
        AppliedChange::Record { version, .. }
        | AppliedChange::File { version, .. }
        | AppliedChange::Memory { version, .. }
        | AppliedChange::Profile { version, .. } => *version,
    }
}

fn is_same_thing(one: &AppliedChange, other: &AppliedChange) -> bool {
    match (one, other) {
        (AppliedChange::Record { id: one, .. }, AppliedChange::Record { id: other, .. }) => one == other,
        (AppliedChange::File { path: one, .. }, AppliedChange::File { path: other, .. }) => one == other,
        (AppliedChange::Memory { id: one, .. }, AppliedChange::Memory { id: other, .. }) => one == other,
        (AppliedChange::Profile { .. }, AppliedChange::Profile { .. }) => true,
        (
            AppliedChange::Record { .. }
            | AppliedChange::File { .. }
            | AppliedChange::Memory { .. }
            | AppliedChange::Profile { .. },
            _,
        ) => false,
    }
}

/// A changed thing: its name for people, and the field of a stored change by which it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedThing {
    name: String,
    /// A path into the change as JSON.
    pub field: &'static str,
    pub key: String,
}

impl ChangedThing {
    pub fn of(change: &AppliedChange) -> Self {
        let (name, field, key) = match change {
            AppliedChange::Record { id, kind, .. } => (format!("the {kind} {id}"), "$.id", id.to_string()),
            AppliedChange::File { path, .. } => (format!("the file {path}"), "$.path", path.clone()),
            AppliedChange::Memory { id, .. } => (format!("the memory {id}"), "$.id", id.to_string()),
            AppliedChange::Profile { .. } => ("the profile".to_owned(), "$.what", "profile".to_owned()),
        };
        Self { name, field, key }
    }

    /// Why the thing cannot be put back: it has changed since, by the tool of another action or by hand.
    pub fn changed_since(&self, by: Option<(String, Timestamp)>) -> Error {
        let name = &self.name;
        Error::Changed(match by {
            Some((tool, at)) => {
                format!("{name} was changed since then by {tool} at {at}; undo that action first")
            }
            None => format!("{name} was changed since then by hand, so the action cannot be undone"),
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, Scope, UserId};
    use uuid::Uuid;

    use super::*;
    use crate::rules::actions::new_action;

    fn id(number: u128) -> ActionId {
        ActionId::new(Uuid::from_u128(number))
    }

    fn file(path: &str, version: u64) -> AppliedChange {
        AppliedChange::File { path: path.into(), before: None, was: 0, version }
    }

    fn done(effect: Effect, changes: Vec<AppliedChange>) -> ActionRow {
        let scope = Scope { app: AppId::new("app"), user: UserId::new("alice") };
        let status = ActionStatus::Ended(ToolStatus::Complete);
        ActionRow { status, effect, changes, ..new_action(id(1), scope, "t".into(), Timestamp::UNIX_EPOCH) }
    }

    fn words(checked: Result<(), Error>) -> String {
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_action_is_undone_once_and_only_when_complete() {
        let action = done(Effect::Reversible, vec![file("a", 1)]);
        let fresh = UndoRequest { action: &action, by: id(2), erased: false, attempt: None };
        assert!(fresh.check_here().is_ok() && fresh.check_outside().is_ok());
        let refused = |request: UndoRequest<'_>, part: &str| {
            let words = words(request.check_here());
            assert!(words.contains(part), "{words}");
        };
        refused(UndoRequest { by: id(1), ..fresh }, "itself");
        refused(UndoRequest { erased: true, ..fresh }, "was erased");
        refused(UndoRequest { attempt: Some(ActionStatus::Started), ..fresh }, "is running");
        let unknown = Some(ActionStatus::Ended(ToolStatus::Unknown));
        refused(UndoRequest { attempt: unknown, ..fresh }, "no known result");
        let undone = ActionRow { undone_by: Some(id(3)), ..action.clone() };
        refused(UndoRequest { action: &undone, ..fresh }, "already");
        let undo = ActionRow { undo_of: Some(id(3)), ..action.clone() };
        refused(UndoRequest { action: &undo, ..fresh }, "is an undo");
        let begun = ActionRow { status: ActionStatus::Started, ..action.clone() };
        refused(UndoRequest { action: &begun, ..fresh }, "not completed");
        let read = done(Effect::Read, vec![file("a", 1)]);
        refused(UndoRequest { action: &read, ..fresh }, "nothing that can be undone");
        assert!(words(UndoRequest { action: &read, ..fresh }.check_outside()).contains("nothing that can"));
    }

    #[test]
    fn an_attempt_that_came_to_nothing_stands_in_no_way() {
        let in_the_way = ActionStatus::ALL.map(|attempt| attempt_in_the_way([attempt]));
        let [started, complete, failed, denied, cancelled, unknown] = ActionStatus::ALL;
        assert_eq!([failed, denied, cancelled].map(|attempt| attempt_in_the_way([attempt])), [None; 3]);
        assert_eq!(in_the_way.iter().flatten().collect::<Vec<_>>(), [&started, &complete, &unknown]);
        assert_eq!(attempt_in_the_way([failed, unknown, cancelled]), Some(unknown));
        assert_eq!(attempt_in_the_way([]), None);
    }

    #[test]
    fn a_thing_is_put_back_only_as_it_was_left() {
        let change = AppliedChange::File { path: "a".into(), before: Some("old".into()), was: 1, version: 2 };
        let put_back = |state| {
            let standing = StandingThing { state, contents: Some("new".into()) };
            ThingChange { change: &change, left: 2 }.put_back(&standing)
        };
        assert_eq!(put_back(2), Some(StandingThing { state: 1, contents: Some("old".into()) }));
        assert_eq!(put_back(3), None);
    }

    #[test]
    fn contents_beyond_the_room_for_them_are_not_kept() {
        let mut undone = UndoneThings::default();
        let small = StandingThing { state: 1, contents: Some("x".into()) };
        let large = StandingThing { state: 1, contents: Some("x".repeat(MAX_BYTES_PER_PAGE).into()) };
        assert!(!undone.leaves_out(&small, &small));
        assert!(undone.leaves_out(&small, &large) && undone.leaves_out(&small, &small));
        undone.put("a".into(), large, true);
        assert_eq!(undone.get("a").unwrap().contents, Some(Value::Null));
    }

    #[test]
    fn several_changes_of_one_thing_are_put_back_together() {
        let changes = [file("a", 1), file("b", 1), file("a", 2)];
        let things = changes_by_thing(&changes);
        let expected =
            [ThingChange { change: &changes[0], left: 2 }, ThingChange { change: &changes[1], left: 1 }];
        assert_eq!(things, expected);
    }
}
