//! Writes to a run's log: which may come together, and which must survive a power failure.

use protocol::{Event, Kind};

use crate::Write;

/// Whether exactly one of the events is what the writes belong to: the result of their call, or, for what is remembered,
/// forgotten, pinned or kept without a call, `context:loaded`.
pub fn writes_belong(events: &[Event], writes: &[Write]) -> bool {
    let number = |kind| events.iter().filter(|event| event.kind() == kind).count();
    let without_call = |write: &Write| {
        matches!(write, Write::Remember(_) | Write::Forget { .. } | Write::Pin(_) | Write::Keep(_))
    };
    match (number(Kind::ToolComplete), number(Kind::ContextLoaded)) {
        (1, 0) => true,
        (0, 1) => writes.iter().all(without_call),
        (_, _) => false,
    }
}

/// Whether the write must survive a power failure. A kept text is worth as much as the event that names it.
pub fn is_promise(events: &[Event], writes: &[Write]) -> bool {
    let kept = |write: &Write| matches!(write, Write::Keep(_));
    !writes.iter().all(kept) || events.iter().any(|event| event.kind().is_promise())
}

#[cfg(test)]
mod tests {
    use protocol::{CallId, ToolComplete, ToolStatus};
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn writes_belong_to_exactly_one_result() {
        let result = Event::ToolComplete(ToolComplete {
            call_id: CallId::new(Uuid::nil()),
            name: "t".into(),
            status: ToolStatus::Complete,
            output: Value::Null,
            duration_ms: 0,
            outside: false,
            suspicious: false,
            by: None,
        });
        let write = [Write::File { path: "a".into(), content: None, expected: 1 }];
        assert!(writes_belong(std::slice::from_ref(&result), &write));
        assert!(!writes_belong(&[result.clone(), result], &write));
        assert!(!writes_belong(&[], &write));
    }
}
