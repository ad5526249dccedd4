//! Faults that OpenAI refuses in a request for embeddings.

use serde_json::Value;

use super::{Object, RequestCheck, count, elements_of, fields, refuse, word};

const MAX_TEXTS: usize = 2048;

pub(super) fn check(body: &Object) -> RequestCheck {
    fields(body, &["model", "input", "encoding_format", "dimensions", "user"], "")?;
    count(body, "dimensions", 1)?;
    // OpenAI knows `base64` too, but this upstream does not write it.
    word(body, "encoding_format", &["float"])?;
    let given = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
    let fits = match body.get("input") {
        None => return refuse("Missing required parameter: 'input'."),
        Some(texts @ Value::Array(_)) => {
            let texts = elements_of(texts, "input")?;
            texts.len() <= MAX_TEXTS && texts.iter().all(given)
        }
        Some(text) => given(text),
    };
    if fits { Ok(()) } else { refuse("'$.input' is invalid: expected a text or up to 2048 of them.") }
}
