//! O18: the text of a step is of one attempt. The model says in each piece which attempt it is of, so a node that
//! continues to write after another has taken over its run is found.

use protocol::Kind;
use serde_json::Value;
use testkit::Frame;

use crate::record::Violation;

use super::case::violation;
use super::log::{RowId, hex};

/// Before the number of an attempt, which a blank follows.
const MARK: char = '#';

/// Looks at the events of a run.
pub(super) fn check(run: &RowId, frames: &[Frame]) -> Option<Violation> {
    let mut current = None;
    for frame in frames {
        match Kind::parse(&frame.event) {
            Some(Kind::StepStart | Kind::StepReset) => current = None,
            Some(Kind::TextDelta) => {
                let text = frame.data.get("delta").and_then(Value::as_str).unwrap_or_default();
                for attempt in attempts(text) {
                    let before = *current.get_or_insert(attempt);
                    if before != attempt {
                        let place = format!("event {} of run {}", frame.id, hex(run));
                        let what = format!("{place} is of attempt {attempt}, and its step of {before}");
                        return Some(violation("O18", what));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn attempts(text: &str) -> impl Iterator<Item = usize> {
    text.split(MARK).skip(1).filter_map(|rest| rest.split_once(' ')?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn frames(events: &[(Kind, &str)]) -> Vec<Frame> {
        let frame = |(id, (kind, delta)): (u64, &(Kind, &str))| Frame {
            id,
            event: kind.name().into(),
            data: json!({ "delta": delta }),
        };
        (1..).zip(events).map(frame).collect()
    }

    #[test]
    fn a_step_of_two_attempts_is_found_unless_it_began_again() {
        let (start, reset, text) = (Kind::StepStart, Kind::StepReset, Kind::TextDelta);
        let good = [(start, ""), (text, "t1 step 0 #0 the tide #0 "), (reset, ""), (text, "t1 step 0 #1 ")];
        assert_eq!(check(&[1; 16], &frames(&good)), None);
        let late = [&good[..], &[(text, "comes in #0 ")]].concat();
        let found = check(&[1; 16], &frames(&late)).unwrap();
        assert!(found.check == "O18" && found.what.contains("event 5"), "{found:?}");
        let within = [(start, ""), (text, "the tide #0 comes in #1 ")];
        assert!(check(&[1; 16], &frames(&within)).is_some());
    }
}
