//! Faults that providers refuse, with the words they refuse them in.
//!
//! Nothing here is stricter than the provider, with one exception: arguments must be JSON, because the models that
//! read them back expect it.

mod anthropic;
mod chat;
mod embeddings;
mod images;
mod ollama;
mod responses;
mod schema;

use serde_json::{Map, Value};

use super::wire::Wire;
use super::{Received, Reply};

const MAX_NAME_BYTES: usize = 64;
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Complaint {
    status: u16,
    pub(super) message: String,
}

type RequestCheck = Result<(), Complaint>;
type Object = Map<String, Value>;

impl Complaint {
    pub(super) fn reply(&self) -> Reply {
        Reply::status(self.status).error("invalid_request_error", None, &self.message)
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint { status: 400, message: message.into() })
}

/// Checks a request as the provider would.
pub(super) fn check(request: &Received, key: Option<&str>) -> RequestCheck {
    let Some(wire) = Wire::of(&request.path) else {
        return Err(Complaint { status: 404, message: format!("Invalid URL (POST {})", request.path) });
    };
    if key.is_some_and(|key| !shows_key(request, wire, key)) {
        return Err(Complaint { status: 401, message: "You didn't provide an API key.".into() });
    }
    if !request.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return refuse("Unsupported content type: expected 'application/json'.");
    }
    let Some(body) = request.body.as_object() else {
        return refuse("We could not parse the JSON body of your request, or it has a key twice.");
    };
    if body.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return refuse("you must provide a model parameter");
    }
    if body.get("stream").is_some_and(|stream| !stream.is_boolean()) {
        return refuse("Invalid type for 'stream': expected a boolean.");
    }
    match wire {
        Wire::Chat => chat::check(body),
        Wire::Responses => responses::check(body),
        Wire::Anthropic => anthropic::check(request, body),
        Wire::Ollama => ollama::check(body),
        Wire::Embeddings => embeddings::check(body),
    }
}

/// Anthropic takes the key in a header of its own too.
fn shows_key(request: &Received, wire: Wire, key: &str) -> bool {
    request.header("authorization") == Some(&format!("Bearer {key}"))
        || (wire == Wire::Anthropic && request.header("x-api-key") == Some(key))
}

/// No fields but these.
fn fields(object: &Object, known: &[&str], place: &str) -> RequestCheck {
    match object.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) if place.is_empty() => refuse(format!("Unrecognized request argument supplied: {field}")),
        Some(field) => refuse(format!("Unknown parameter: '{place}.{field}'.")),
    }
}

/// A number in these bounds, if it is there at all.
fn number(body: &Object, name: &str, (low, high): (f64, f64)) -> RequestCheck {
    match body.get(name) {
        Some(value) if !value.as_f64().is_some_and(|number| (low..=high).contains(&number)) => {
            refuse(format!("Invalid '{name}': expected a value between {low} and {high}, but got {value}."))
        }
        Some(_) | None => Ok(()),
    }
}

/// A whole number of at least `least`, if it is there at all.
fn count(body: &Object, name: &str, least: u64) -> RequestCheck {
    match body.get(name) {
        Some(value) if value.as_u64().is_none_or(|number| number < least) => {
            refuse(format!("Invalid '{name}': expected a value >= {least}, but got {value} instead."))
        }
        Some(_) | None => Ok(()),
    }
}

/// One of these words, if it is there at all.
fn word(object: &Object, name: &str, words: &[&str]) -> RequestCheck {
    match object.get(name) {
        Some(value) if !value.as_str().is_some_and(|word| words.contains(&word)) => {
            refuse(format!("Invalid value: {value}. Supported values of '{name}' are: {words:?}."))
        }
        Some(_) | None => Ok(()),
    }
}

fn is_name(name: &str, most: usize) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=most).contains(&name.len()) && name.bytes().all(fits)
}

fn name(object: &Object, place: &str) -> RequestCheck {
    let name = object.get("name").and_then(Value::as_str).unwrap_or_default();
    if is_name(name, MAX_NAME_BYTES) {
        return Ok(());
    }
    refuse(format!("Invalid '{place}.name': string does not match pattern '^[a-zA-Z0-9_-]{{1,64}}$'."))
}

/// The elements of an array that must have some.
fn elements_of<'a>(value: &'a Value, place: &str) -> Result<&'a [Value], Complaint> {
    match value.as_array() {
        Some(values) if !values.is_empty() => Ok(values),
        Some(_) => {
            refuse(format!("Invalid '{place}': empty array. Expected an array with minimum length 1."))
        }
        None => refuse(format!("Invalid type for '{place}': expected an array.")),
    }
}

fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Object, Complaint> {
    match value.as_object() {
        Some(object) => Ok(object),
        None => refuse(format!("Invalid type for '{place}': expected an object.")),
    }
}

fn text<'a>(object: &'a Object, name: &str, place: &str) -> Result<&'a str, Complaint> {
    match object.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => refuse(format!("Invalid type for '{place}.{name}': expected a string.")),
        None => refuse(format!("Missing required parameter: '{place}.{name}'.")),
    }
}

/// A tool that is a function, as OpenAI describes it: what is said of it in both of its wires.
fn function(function: &Object, place: &str) -> RequestCheck {
    name(function, place)?;
    if function.get("description").is_some_and(|text| !text.is_string()) {
        return refuse(format!("Invalid type for '{place}.description': expected a string."));
    }
    if let Some(parameters) = function.get("parameters") {
        schema::of_object(parameters, &format!("{place}.parameters"))?;
        if function.get("strict") == Some(&Value::Bool(true)) {
            schema::as_openai(parameters, &format!("{place}.parameters"))?;
        }
    }
    Ok(())
}

/// A named schema for the answer, as OpenAI takes it.
fn answer_schema(format: &Object, place: &str) -> RequestCheck {
    name(format, place)?;
    let Some(schema) = format.get("schema") else {
        return refuse(format!("Missing required parameter: '{place}.schema'."));
    };
    if format.get("strict") == Some(&Value::Bool(true)) {
        return schema::as_openai(schema, &format!("{place}.schema"));
    }
    object(schema, &format!("{place}.schema")).map(drop)
}

/// OpenAI's models loop without end on a JSON answer that no message speaks of, so it asks for the word.
fn speaks_of_json(conversation: &Value) -> bool {
    conversation.to_string().to_lowercase().contains("json")
}

#[cfg(test)]
mod tests;
