//! Turns of a conversation that was held elsewhere: checked, and made into runs that the store writes as complete ones.

use agent::{earlier_result, embed_soon};
use app::App;
use protocol::{
    Call, EarlierCall, EarlierStep, EarlierTurn, Finish, Ids, ImportedThread, MAX_EARLIER_TURNS,
    MAX_JSON_DEPTH, NewRun, Principal, Scope, StepEnd, ThreadId, ThreadToImport, ToolComplete, Usage,
    value_depth,
};
use serde_json::{Map, Value};
use store::{EarlierAnswer, EarlierRun, IdempotencyClaim, MessageRow, ThreadImport};

use crate::checks::{self, MAX_MESSAGE_BYTES};
use crate::parts::{KeptParts, check_parts};
use crate::{Error, Service};

/// Bytes of all earlier turns of one request: their texts, and the arguments and results of their calls.
pub(crate) const MAX_EARLIER_BYTES: usize = 16 * 1024 * 1024;

/// Steps of all earlier answers of a request together. All writes of the server wait while they are stored.
const MAX_EARLIER_STEPS: usize = 4_000;

/// Tool calls of all earlier answers of a request together, for the same reason.
const MAX_EARLIER_CALLS: usize = 2_000;

/// Steps of one earlier turn, and calls of each, as many as the log holds for any run.
const MAX_STEPS: usize = 200;
const MAX_CALLS_PER_STEP: usize = 32;

/// Images and documents of all earlier turns of one request.
const MAX_EARLIER_PARTS: usize = 100;

/// Bytes of the name and of the id of a call.
const MAX_CALL_NAME_BYTES: usize = 256;

/// Bytes of the name that an imported conversation has where it comes from.
const MAX_SOURCE_ID_BYTES: usize = 256;

/// Characters of the title that an imported conversation gets from its first words.
const MAX_TITLE_CHARS: usize = 80;

/// The field of other contracts that earlier turns come from.
const FIELD: &str = "messages";

/// Whether the earlier turns of a request can be stored before its message.
pub(crate) fn check_earlier_turns(app: &App, new: &NewRun) -> Result<(), Error> {
    if new.earlier.is_empty() {
        return Ok(());
    }
    if new.message.is_none() && new.parts.is_empty() {
        return Err(Error::invalid(FIELD, "earlier messages need a new message after them"));
    }
    check_turns(app, &new.earlier)
}

/// Whether turns of a conversation that was held elsewhere can be stored.
pub(crate) fn check_turns(app: &App, turns: &[EarlierTurn]) -> Result<(), Error> {
    if turns.len() > MAX_EARLIER_TURNS {
        let message = format!("a conversation has at most {MAX_EARLIER_TURNS} turns, and this one has more");
        return Err(Error::invalid(FIELD, message));
    }
    let parts: usize = turns.iter().map(|turn| turn.parts.len()).sum();
    if parts > MAX_EARLIER_PARTS {
        let message = format!(
            "earlier messages have at most {MAX_EARLIER_PARTS} images and documents, and these have {parts}"
        );
        return Err(Error::invalid(FIELD, message));
    }
    let steps = || turns.iter().flat_map(|turn| &turn.steps);
    let calls: usize = steps().map(|step| step.calls.len()).sum();
    if steps().count() > MAX_EARLIER_STEPS || calls > MAX_EARLIER_CALLS {
        let message = format!(
            "earlier answers have at most {MAX_EARLIER_STEPS} steps and {MAX_EARLIER_CALLS} tool calls in all; \
             leave the oldest turns out"
        );
        return Err(Error::invalid(FIELD, message));
    }
    let mut bytes = 0;
    for turn in turns {
        check_parts(app, &turn.parts)?;
        bytes += checked_bytes(turn)?;
        if bytes > MAX_EARLIER_BYTES {
            return Err(Error::TooLarge { field: FIELD, limit: MAX_EARLIER_BYTES });
        }
    }
    Ok(())
}

/// The bytes of a turn, once it has been found in order.
fn checked_bytes(turn: &EarlierTurn) -> Result<usize, Error> {
    if turn.steps.len() > MAX_STEPS {
        return Err(Error::invalid(FIELD, format!("an answer has at most {MAX_STEPS} steps")));
    }
    if turn.steps.iter().map(|step| step.calls.len()).sum::<usize>() > MessageRow::MAX_RESULTS {
        let most = MessageRow::MAX_RESULTS;
        return Err(Error::invalid(FIELD, format!("an answer has at most {most} tool calls")));
    }
    let mut bytes = checked_text(&turn.text)?;
    for step in &turn.steps {
        if step.calls.len() > MAX_CALLS_PER_STEP {
            let message = format!("a step of an answer has at most {MAX_CALLS_PER_STEP} tool calls");
            return Err(Error::invalid(FIELD, message));
        }
        bytes += checked_text(&step.text)?;
        for call in &step.calls {
            bytes += checked_call(call)?;
        }
    }
    Ok(bytes)
}

fn checked_text(text: &str) -> Result<usize, Error> {
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Error::TooLarge { field: FIELD, limit: MAX_MESSAGE_BYTES });
    }
    Ok(text.len())
}

fn checked_call(call: &EarlierCall) -> Result<usize, Error> {
    if call.name.len() > MAX_CALL_NAME_BYTES || call.id.len() > MAX_CALL_NAME_BYTES {
        let message = format!("the name and the id of a tool call have at most {MAX_CALL_NAME_BYTES} bytes");
        return Err(Error::invalid(FIELD, message));
    }
    if value_depth(&call.input) > MAX_JSON_DEPTH {
        let message = format!("the arguments of a tool call nest at most {MAX_JSON_DEPTH} levels");
        return Err(Error::invalid(FIELD, message));
    }
    let input = call.input.to_string();
    Ok(checked_text(&input)? + call.result.as_ref().map_or(0, String::len))
}

impl Service {
    /// Keeps what comes along with the message of a request, and with its earlier turns, which become runs.
    pub(crate) async fn keep_messages(
        &self,
        (principal, scope): (&Principal, &Scope),
        new: &mut NewRun,
        once: Option<&IdempotencyClaim>,
    ) -> Result<(KeptParts, Vec<EarlierRun>), Error> {
        let mut kept = self.keep_parts(principal, scope, std::mem::take(&mut new.parts), once).await?;
        let turns = std::mem::take(&mut new.earlier);
        let runs = self.keep_earlier((principal, scope), turns, once, &mut kept).await?;
        Ok((kept, runs))
    }

    /// Keeps what comes along with earlier turns, and makes them into runs. A request that was accepted before under its
    /// key needs none of it. If a part is refused, the documents of the request are deleted.
    async fn keep_earlier(
        &self,
        (principal, scope): (&Principal, &Scope),
        turns: Vec<EarlierTurn>,
        once: Option<&IdempotencyClaim>,
        kept: &mut KeptParts,
    ) -> Result<Vec<EarlierRun>, Error> {
        let mut runs = Vec::with_capacity(turns.len());
        for mut turn in turns {
            let new = std::mem::take(&mut turn.parts);
            match self.keep_parts(principal, scope, new, once).await {
                Ok(more) => {
                    let parts = kept.join(more);
                    runs.push(EarlierRun { parts, ..earlier_run(turn, &*self.world().ids) });
                }
                Err(refusal) => {
                    self.delete_refused_documents(principal, std::mem::take(kept)).await;
                    return Err(refusal);
                }
            }
        }
        Ok(runs)
    }
}

impl Service {
    /// Stores a conversation that was held elsewhere as the thread of this id, which follows from the conversation. A
    /// second time changes nothing.
    pub async fn import_thread(
        &self,
        principal: &Principal,
        app: &str,
        thread: ThreadId,
        import: ThreadToImport,
    ) -> Result<ImportedThread, Error> {
        let (scope, app) = self.share_of(principal, app)?;
        let ThreadToImport { source_id, title, created_at, turns } = import;
        if source_id.trim().is_empty() || source_id.len() > MAX_SOURCE_ID_BYTES {
            let message = format!("must have 1 to {MAX_SOURCE_ID_BYTES} bytes");
            return Err(Error::invalid("sourceId", message));
        }
        let turns: Vec<EarlierTurn> = turns.into_iter().map(EarlierTurn::from).collect();
        if turns.is_empty() {
            return Err(Error::invalid("turns", "must have at least one turn"));
        }
        check_turns(&app, &turns).map_err(of_import)?;
        let title = title.as_deref().map(checks::title).transpose()?;
        let import = ThreadImport {
            id: thread,
            title: title.or_else(|| first_words(&turns)),
            created_at: created_at.or_else(|| turns.first()?.at),
            runs: turns.into_iter().map(|turn| earlier_run(turn, &*self.world().ids)).collect(),
            app_revision: app.revision.clone(),
            actor: principal.actor().map(str::to_owned),
        };
        let is_new = self.store().import_thread(&scope, import).await?;
        if is_new {
            embed_soon(self.world(), &scope).await;
        }
        Ok(ImportedThread { thread_id: thread, already_there: !is_new })
    }
}

/// A refusal that names the field of an import.
fn of_import(error: Error) -> Error {
    if let Error::Invalid { message, .. } = error {
        return Error::invalid("turns", message);
    }
    if let Error::TooLarge { limit, .. } = error {
        return Error::TooLarge { field: "turns", limit };
    }
    error
}

/// The first line that the user said, for a title.
fn first_words(turns: &[EarlierTurn]) -> Option<String> {
    let lines = turns.iter().flat_map(|turn| turn.text.lines());
    let line = lines.map(str::trim).find(|line| !line.is_empty())?;
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_TITLE_CHARS).collect();
    Some(line).filter(|line| !line.trim().is_empty())
}

/// The run that a turn was, without its parts.
fn earlier_run(turn: EarlierTurn, ids: &dyn Ids) -> EarlierRun {
    let steps = joined_steps(turn.steps);
    let numbered = (1..).zip(steps).map(|(number, step)| earlier_step(number, step, ids));
    let steps: Vec<(StepEnd, Vec<ToolComplete>)> = numbered.collect();
    EarlierRun {
        id: ids.run(),
        message: ids.message(),
        text: turn.text,
        parts: Vec::new(),
        answer: (!steps.is_empty()).then(|| EarlierAnswer { message: ids.message(), steps }),
        at: turn.at,
    }
}

/// The steps that say or call something. The text of one that calls nothing goes to the one after it: a run ends with
/// the first step that calls nothing.
fn joined_steps(steps: Vec<EarlierStep>) -> Vec<EarlierStep> {
    let mut joined: Vec<EarlierStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match joined.last_mut() {
            Some(last) if last.calls.is_empty() => {
                let texts = [std::mem::take(&mut last.text), step.text];
                let said: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
                *last = EarlierStep { text: said.join("\n\n"), calls: step.calls };
            }
            Some(_) | None => joined.push(step),
        }
    }
    joined.retain(|step| !step.text.trim().is_empty() || !step.calls.is_empty());
    joined
}

/// Arguments as an object, or null and the text that they were.
fn arguments(input: Value) -> (Value, Option<String>) {
    match input {
        input @ Value::Object(_) => (input, None),
        Value::Null => (Value::Object(Map::new()), None),
        Value::String(text) => (Value::Null, Some(text)),
        input @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            (Value::Null, Some(input.to_string()))
        }
    }
}

fn earlier_step(number: u32, step: EarlierStep, ids: &dyn Ids) -> (StepEnd, Vec<ToolComplete>) {
    let mut calls: Vec<Call> = Vec::with_capacity(step.calls.len());
    let mut results = Vec::with_capacity(step.calls.len());
    for made in step.calls {
        let is_known = calls.iter().any(|call| call.provider_id.as_deref() == Some(&made.id));
        let provider_id = Some(made.id).filter(|id| !id.is_empty() && !is_known);
        let (input, raw) = arguments(made.input);
        let call = Call { id: ids.call(), name: made.name, input, raw, provider_id };
        results.push(earlier_result(&call, made.result, made.failed));
        calls.push(call);
    }
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let step = StepEnd {
        step: number,
        text: step.text,
        reasoning: None,
        calls,
        usage: Usage::default(),
        finish,
        error: None,
        model: None,
        dropped: Vec::new(),
        provider: None,
        fallback: None,
        structured: None,
        prompt: None,
    };
    (step, results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str, calls: usize) -> EarlierStep {
        let call = EarlierCall {
            id: "c".into(),
            name: "look".into(),
            input: Value::Null,
            result: Some("x".into()),
            failed: false,
        };
        EarlierStep { text: text.into(), calls: vec![call; calls] }
    }

    #[test]
    fn text_between_steps_is_kept_and_silence_is_not_a_step() {
        let shape = |steps: Vec<EarlierStep>| -> Vec<(String, usize)> {
            joined_steps(steps).into_iter().map(|step| (step.text, step.calls.len())).collect()
        };
        let said = |text: &str, calls| (text.to_owned(), calls);
        assert_eq!(shape(vec![step("a", 0), step("b", 1), step("c", 0)]), [said("a\n\nb", 1), said("c", 0)]);
        assert_eq!(shape(vec![step("a", 0), step(" ", 0), step("b", 0)]), [said("a\n\nb", 0)]);
        assert_eq!(shape(vec![step("a", 2), step("", 0)]), [said("a", 2)]);
        assert_eq!(shape(vec![step("", 0), step(" ", 0)]), []);
    }

    #[test]
    fn turns_beyond_a_bound_are_refused() {
        let turn = |text: &str, steps| EarlierTurn { text: text.into(), steps, ..EarlierTurn::default() };
        let bytes = |turn: &EarlierTurn| checked_bytes(turn);
        assert_eq!(bytes(&turn("abc", vec![step("de", 1)])).unwrap(), 3 + 2 + "null".len() + 1);
        assert!(bytes(&turn(&"x".repeat(MAX_MESSAGE_BYTES + 1), vec![])).is_err());
        assert!(bytes(&turn("a", vec![step("", MAX_CALLS_PER_STEP + 1)])).is_err());
        assert!(bytes(&turn("a", vec![step("", 0); MAX_STEPS + 1])).is_err());
        assert!(bytes(&turn("a", vec![step("", MAX_CALLS_PER_STEP); 9])).is_err(), "more than 256 calls");
        let mut deep = step("", 1);
        deep.calls[0].input = (0..=MAX_JSON_DEPTH).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(bytes(&turn("a", vec![deep])).is_err());
        let mut named = step("", 1);
        named.calls[0].name = "x".repeat(MAX_CALL_NAME_BYTES + 1);
        assert!(bytes(&turn("a", vec![named])).is_err());
    }
}
