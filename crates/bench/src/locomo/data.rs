//! `LoCoMo`'s file: dialogues over many sessions, and questions with the turns that hold the evidence.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Questions of the last category have no answer in the dialogue.
const LAST_CATEGORY: u64 = 4;
/// Sessions of a conversation.
const MAX_SESSIONS: usize = 1_000;

#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) turns: Vec<LocomoTurn>,
    pub(super) questions: Vec<LocomoQuestion>,
}

#[derive(Debug)]
pub(super) struct LocomoTurn {
    /// The dialogue's own name for it, such as D1:3.
    name: String,
    pub(super) session: usize,
    pub(super) at: Timestamp,
    pub(super) speaker: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct LocomoQuestion {
    pub(super) text: String,
    pub(super) category: u64,
    /// Indexes of turns. There is at least one.
    pub(super) evidence: Vec<usize>,
}

pub(super) fn read(text: &str) -> Result<Vec<Conversation>, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("the file is not JSON: {error}"))?;
    let samples = file.as_array().ok_or("the file is not a list of conversations")?;
    samples.iter().map(conversation).collect()
}

fn conversation(sample: &Value) -> Result<Conversation, String> {
    let dialogue = sample.get("conversation").ok_or("a sample has no conversation")?;
    let mut turns = Vec::new();
    for session in 1..=MAX_SESSIONS {
        let Some(said) = dialogue.get(format!("session_{session}")).and_then(Value::as_array) else {
            continue;
        };
        let date = dialogue.get(format!("session_{session}_date_time")).and_then(Value::as_str);
        let at = date
            .and_then(moment)
            .ok_or(format!("session {session} has no date and time that can be read"))?;
        for (second, turn) in (0..).zip(said) {
            let at =
                at.checked_add(jiff::SignedDuration::from_secs(second)).map_err(|error| error.to_string())?;
            turns.push(
                read_turn(turn, session, at).ok_or(format!("session {session} has a turn without text"))?,
            );
        }
    }
    let asked = sample.get("qa").and_then(Value::as_array).ok_or("a sample has no questions")?;
    let questions = asked.iter().filter_map(|question| read_question(question, &turns)).collect();
    Ok(Conversation { turns, questions })
}

/// Reads a moment such as "1:56 pm on 8 May, 2023". The place is not said.
fn moment(text: &str) -> Option<Timestamp> {
    let time = strtime::parse("%I:%M %p on %d %B, %Y", text.trim()).ok()?;
    Some(time.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn read_turn(turn: &Value, session: usize, at: Timestamp) -> Option<LocomoTurn> {
    let part = |name: &str| turn.get(name).and_then(Value::as_str);
    let mut text = part("text")?.to_owned();
    if let Some(caption) = part("blip_caption") {
        text.push_str(&format!(" [{caption}]"));
    }
    Some(LocomoTurn {
        name: part("dia_id")?.to_owned(),
        session,
        at,
        speaker: part("speaker")?.to_owned(),
        text,
    })
}

/// None without an answer in the dialogue, or without evidence that can be found there.
fn read_question(question: &Value, turns: &[LocomoTurn]) -> Option<LocomoQuestion> {
    let category = question.get("category").and_then(Value::as_u64)?;
    if !(1..=LAST_CATEGORY).contains(&category) {
        return None;
    }
    let texts = question.get("evidence")?.as_array()?.iter().filter_map(Value::as_str);
    let names = texts.flat_map(|text| text.split([';', ',', ' ', '\t', '\n']));
    let mut evidence: Vec<usize> =
        names.filter_map(|name| turns.iter().position(|turn| turn.name == name)).collect();
    evidence.sort_unstable();
    evidence.dedup();
    let text = question.get("question")?.as_str()?.to_owned();
    (!evidence.is_empty()).then_some(LocomoQuestion { text, category, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let conversations = read(include_str!("fixture.json")).unwrap();
        let [conversation] = conversations.as_slice() else { panic!("one conversation") };
        let turns: Vec<_> =
            conversation.turns.iter().map(|turn| (turn.name.as_str(), turn.session)).collect();
        assert_eq!(turns, [("D1:1", 1), ("D1:2", 1), ("D1:3", 1), ("D2:1", 2), ("D2:2", 2), ("D10:1", 10)]);
        assert_eq!(conversation.turns[2].text, "It stood at the mill pond. [a grey bird in the reeds]");
        assert_eq!(conversation.turns[3].at.to_string(), "2024-03-12T00:05:00Z");
        assert_eq!(conversation.turns[4].at.to_string(), "2024-03-12T00:05:01Z");
    }

    #[test]
    fn evidence_is_read_however_it_is_written() {
        let conversations = read(include_str!("fixture.json")).unwrap();
        let read = |question: &LocomoQuestion| (question.category, question.evidence.clone());
        let questions: Vec<_> = conversations[0].questions.iter().map(read).collect();
        assert_eq!(questions, [(4, vec![2]), (1, vec![0, 3, 5]), (2, vec![5])]);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for bad in [
            "",
            "{}",
            "[{}]",
            r#"[{"conversation":{}}]"#,
            r#"[{"conversation":{"session_1":[{"text":"x"}]},"qa":[]}]"#,
            r#"[{"conversation":{"session_1":[{"text":"x"}],"session_1_date_time":"1:00 pm on 1 May, 2024"},"qa":[]}]"#,
            r#"[{"conversation":{"session_1":[],"session_1_date_time":"some day"},"qa":[]}]"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
