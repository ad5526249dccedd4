//! The input of a response: a text, or items of a conversation. Fields that the client adds beyond these are ignored.

use std::collections::HashMap;

use protocol::{CallId, EarlierCall, EarlierStep, EarlierTurn, NewCallResult, NewPart};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::super::content::{SentFile, file_part, image_part};
use crate::error::ApiProblem;
use crate::routes::waiting_run::{Approval, GivenAnswers, MAX_APPROVALS, MAX_RESULTS};

/// Items of one request.
const MAX_ITEMS: usize = 10_000;

const FIELD: &str = "input";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a text, or a list of items")]
pub(in crate::routes) enum ResponseInput {
    Text(String),
    Items(Vec<InputItem>),
}

/// An item of the input. The `type` decides which of the fields it has.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(in crate::routes) struct InputItem {
    /// The type of the item; `message` when absent.
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<ItemContent>,
    call_id: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<ItemContent>,
    error: Option<String>,
    approval_request_id: Option<String>,
    approve: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a text, or a list of parts")]
enum ItemContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Deserialize, ToSchema)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<String>,
    file_id: Option<String>,
    file_data: Option<String>,
    filename: Option<String>,
}

/// The question in an input, and everything before it.
#[derive(Debug, Default)]
pub(super) struct ReadInput {
    /// Texts of the system and of the developer.
    pub(super) instructions: Vec<String>,
    pub(super) earlier: Vec<EarlierTurn>,
    pub(super) ask: ResponseAsk,
}

#[derive(Debug)]
pub(super) enum ResponseAsk {
    Say { text: String, parts: Vec<NewPart> },
    GoOn(GivenAnswers),
}

impl Default for ResponseAsk {
    fn default() -> Self {
        Self::GoOn(GivenAnswers::default())
    }
}

impl ResponseInput {
    pub(super) fn read(self) -> Result<ReadInput, ApiProblem> {
        let items = match self {
            Self::Text(text) => {
                return Ok(ReadInput { ask: message_ask(text, Vec::new())?, ..ReadInput::default() });
            }
            Self::Items(items) if items.len() > MAX_ITEMS => {
                let detail = format!("must have at most {MAX_ITEMS} items");
                return Err(ApiProblem::invalid(FIELD, detail));
            }
            Self::Items(items) => items,
        };
        let mut reader = InputReader::default();
        for (index, item) in items.into_iter().enumerate() {
            reader.read(index, item)?;
        }
        reader.finish()
    }
}

fn message_ask(text: String, parts: Vec<NewPart>) -> Result<ResponseAsk, ApiProblem> {
    if text.trim().is_empty() && parts.is_empty() {
        return Err(ApiProblem::invalid(FIELD, "has no text; say something"));
    }
    Ok(ResponseAsk::Say { text, parts })
}

/// Reads items one after the other.
#[derive(Debug, Default)]
struct InputReader {
    instructions: Vec<String>,
    turns: Vec<EarlierTurn>,
    /// The places of calls by their ids: turn, step and call.
    calls: HashMap<String, (usize, usize, usize)>,
    /// Decisions and results at the end of the input.
    given: GivenAnswers,
}

impl InputReader {
    fn read(&mut self, index: usize, item: InputItem) -> Result<(), ApiProblem> {
        let field = format!("{FIELD}[{index}]");
        match item.kind.as_deref().unwrap_or("message") {
            "message" => self.message(&field, item),
            "function_call" | "mcp_call" => {
                self.call(item);
                Ok(())
            }
            "function_call_output" => self.result(&field, item),
            "mcp_approval_response" => self.approval(&field, &item),
            // The run knows its own items, and reasoning of other models is of no use to it.
            "reasoning" | "item_reference" | "mcp_approval_request" | "mcp_list_tools" => Ok(()),
            kind => {
                let detail = format!("items of type {kind} are not supported");
                Err(ApiProblem::invalid(format!("{field}.type"), detail))
            }
        }
    }

    fn message(&mut self, field: &str, item: InputItem) -> Result<(), ApiProblem> {
        let content = item.content.unwrap_or(ItemContent::Text(String::new()));
        match item.role.as_deref().unwrap_or("user") {
            "user" => {
                let (text, parts) = content.read(field)?;
                self.given = GivenAnswers::default();
                self.turns.push(EarlierTurn { text, parts, ..EarlierTurn::default() });
            }
            "assistant" => {
                let (text, _) = content.read(field)?;
                self.given = GivenAnswers::default();
                if let Some(turn) = Self::newest_turn(&mut self.turns) {
                    turn.steps.push(EarlierStep { text, calls: Vec::new() });
                }
            }
            "system" | "developer" => self.instructions.push(content.read(field)?.0),
            role => {
                let detail = format!("there is no role {role}; send user, assistant, system or developer");
                return Err(ApiProblem::invalid(format!("{field}.role"), detail));
            }
        }
        Ok(())
    }

    /// The newest turn. An answer to nothing, such as a greeting, has one of its own.
    fn newest_turn(turns: &mut Vec<EarlierTurn>) -> Option<&mut EarlierTurn> {
        if turns.is_empty() {
            turns.push(EarlierTurn::default());
        }
        turns.last_mut()
    }

    fn call(&mut self, item: InputItem) {
        let Some(turn) = Self::newest_turn(&mut self.turns) else { return };
        if turn.steps.is_empty() {
            turn.steps.push(EarlierStep::default());
        }
        let place = (turn.steps.len() - 1, turn.steps.last().map_or(0, |step| step.calls.len()));
        let id = item.call_id.or(item.id).unwrap_or_default();
        let output = item.output.map(ItemContent::into_text);
        let call = EarlierCall {
            id: id.clone(),
            name: item.name.unwrap_or_default(),
            input: item.arguments.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null),
            failed: item.error.is_some(),
            result: item.error.or(output),
        };
        if let Some(step) = turn.steps.last_mut() {
            step.calls.push(call);
        }
        self.calls.insert(id, (self.turns.len() - 1, place.0, place.1));
    }

    fn result(&mut self, field: &str, item: InputItem) -> Result<(), ApiProblem> {
        let missing = || ApiProblem::invalid(format!("{field}.call_id"), "is required");
        let id = item.call_id.ok_or_else(missing)?;
        let output = item.output.map(ItemContent::into_text).unwrap_or_default();
        if let Some((turn, step, call)) = self.calls.get(&id) {
            let call =
                self.turns.get_mut(*turn).and_then(|turn| turn.steps.get_mut(*step)?.calls.get_mut(*call));
            if let Some(call) = call {
                call.result = Some(output.clone());
            }
        }
        let Ok(call) = id.parse::<CallId>() else {
            let detail = "no call of this server has this id";
            return if self.calls.contains_key(&id) {
                Ok(())
            } else {
                Err(ApiProblem::invalid(format!("{field}.call_id"), detail))
            };
        };
        // Lists and objects count as such; any other text is a text.
        let parsed = serde_json::from_str(&output).ok();
        let value = parsed.filter(|value: &Value| value.is_object() || value.is_array());
        let result = Some(Some(value.unwrap_or(Value::String(output))));
        self.given.results.push((call, NewCallResult { result, error: None }));
        Ok(())
    }

    fn approval(&mut self, field: &str, item: &InputItem) -> Result<(), ApiProblem> {
        let id = item.approval_request_id.as_deref().and_then(|id| id.parse().ok());
        let unknown = || {
            let detail = "is not the id of an mcp_approval_request of this server";
            ApiProblem::invalid(format!("{field}.approval_request_id"), detail)
        };
        let id = id.ok_or_else(unknown)?;
        let missing = || ApiProblem::invalid(format!("{field}.approve"), "must be true or false");
        let approved = item.approve.ok_or_else(missing)?;
        self.given.approvals.push(Approval { id, approved });
        Ok(())
    }

    fn finish(mut self) -> Result<ReadInput, ApiProblem> {
        if self.given.approvals.len() > MAX_APPROVALS || self.given.results.len() > MAX_RESULTS {
            let detail = format!("must end with at most {MAX_RESULTS} results or approvals");
            return Err(ApiProblem::invalid(FIELD, detail));
        }
        let is_word = !self.given.approvals.is_empty() || !self.given.results.is_empty();
        if is_word {
            let ask = ResponseAsk::GoOn(self.given);
            return Ok(ReadInput { instructions: self.instructions, earlier: self.turns, ask });
        }
        match self.turns.pop() {
            Some(EarlierTurn { text, parts, steps, .. }) if steps.is_empty() => {
                let ask = message_ask(text, parts)?;
                Ok(ReadInput { instructions: self.instructions, earlier: self.turns, ask })
            }
            Some(_) | None => {
                let detail = "must end with a message of the user, with results of calls, or with approvals";
                Err(ApiProblem::invalid(FIELD, detail))
            }
        }
    }
}

impl ItemContent {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                parts.into_iter().filter_map(|part| part.text).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The text, and images and files beside it.
    fn read(self, field: &str) -> Result<(String, Vec<NewPart>), ApiProblem> {
        let parts = match self {
            Self::Text(text) => return Ok((text, Vec::new())),
            Self::Parts(parts) => parts,
        };
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            let field = format!("{field}.content[{index}]");
            match part.kind.as_str() {
                "input_text" | "output_text" | "text" => texts.extend(part.text),
                "refusal" => texts.extend(part.refusal),
                "input_image" => files.push(image(&field, part)?),
                "input_file" => files.push(file(&field, part)?),
                kind => {
                    let detail = format!(
                        "parts of type {kind} are not supported; send input_text, input_image or input_file"
                    );
                    return Err(ApiProblem::invalid(format!("{field}.type"), detail));
                }
            }
        }
        Ok((texts.join("\n"), files))
    }
}

fn image(field: &str, part: ContentPart) -> Result<NewPart, ApiProblem> {
    match part.image_url.or(part.file_id) {
        Some(url) => image_part(&format!("{field}.image_url"), url),
        None => Err(ApiProblem::invalid(format!("{field}.image_url"), "is required")),
    }
}

fn file(field: &str, part: ContentPart) -> Result<NewPart, ApiProblem> {
    let file = SentFile { data: part.file_data, id: part.file_id, name: part.filename };
    file_part(&format!("{field}.file_data"), file)
}
