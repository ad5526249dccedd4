//! The request body of an operation: JSON, a form or text.

use serde_json::{Map, Value};

use super::arguments::value_template;
use super::operation::{OperationDraft, object, table};
use super::schema;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Keywords by which an object is more than its properties.
const CHOICES: &[&str] = &["oneOf", "anyOf", "allOf", "not"];

impl<'a> OperationDraft<'a> {
    /// The entry of the body in the request. A body is always sent, so what it requires is required.
    pub(super) fn body(
        &mut self,
        raw: &'a Value,
        can_have_one: bool,
    ) -> Result<Option<(String, Value)>, String> {
        let raw = self.document.follow(raw)?;
        let content = raw.get("content").and_then(Value::as_object);
        let Some(content) = content.filter(|content| !content.is_empty()) else { return Ok(None) };
        let is_required = raw.get("required") == Some(&Value::Bool(true));
        if !can_have_one {
            self.leave_out(is_required, "a body cannot be sent with this method".into())?;
            return Ok(None);
        }
        let essence = |media: &str| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let find = |fits: &dyn Fn(&str) -> bool| content.iter().find(|(media, _)| fits(&essence(media)));
        let is_json = |media: &str| media.ends_with("+json");
        let (found, media) = if let Some(found) = find(&|media| media == JSON || media == "*/*") {
            (found, JSON.to_owned())
        } else if let Some(found) = find(&is_json) {
            (found, essence(found.0))
        } else if let Some(found) = find(&|media| media == FORM) {
            (found, FORM.to_owned())
        } else if let Some(found) = find(&|media| media == TEXT) {
            (found, TEXT.to_owned())
        } else {
            let media: Vec<&str> = content.keys().map(String::as_str).collect();
            return Err(format!("its body is {}", media.join(" or ")));
        };
        let schema = found.1.get("schema").map(|schema| self.schemas.convert(schema)).unwrap_or_default();
        match media.as_str() {
            TEXT => Ok(Some(("text".into(), self.whole_body(raw, schema)?))),
            FORM if is_plain(&schema) => table("form", self.form(&schema)?),
            FORM => Err("its form is not an object with fields".into()),
            JSON => self.json(raw, schema).map(Some),
            _ if !media.chars().all(|c| c.is_ascii_alphanumeric() || "/.+-_".contains(c)) => {
                Err(format!("its body is {media}"))
            }
            _ => {
                self.headers.push(("Content-Type".into(), media));
                self.json(raw, schema).map(Some)
            }
        }
    }

    /// The fields of an object are arguments beside the others; anything else is one argument.
    fn json(&mut self, raw: &'a Value, schema: Map<String, Value>) -> Result<(String, Value), String> {
        if !is_plain(&schema) {
            return Ok(("body".into(), self.whole_body(raw, schema)?));
        }
        let mut body = Vec::new();
        for (name, property, is_required) in schema::properties(&schema) {
            let argument = self.arguments.add(name, "body", property, is_required)?;
            body.push((name.clone(), value_template(&argument)));
        }
        Ok(("body".into(), object(body)))
    }

    fn whole_body(&mut self, raw: &Value, mut schema: Map<String, Value>) -> Result<Value, String> {
        schema.extend(raw.as_object().and_then(schema::description));
        Ok(value_template(&self.arguments.add("body", "body", schema, true)?).into())
    }
}

/// Whether an object is known by its properties.
fn is_plain(schema: &Map<String, Value>) -> bool {
    let has_some = schema::properties(schema).next().is_some();
    has_some && schema::is_of(schema, "object") && !CHOICES.iter().any(|choice| schema.contains_key(*choice))
}
