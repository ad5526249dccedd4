//! Tools that an app declares as a request over HTTP. Another request can undo a call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use app::{AnswerPart, HttpMethod, HttpTool, Rendered, RenderedBody, RequestTemplate};
use async_trait::async_trait;
use bytes::Bytes;
use protocol::{Effect, MAX_JSON_DEPTH, json_depth};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use super::ExternalAccess;
use super::border::Hidden;
use super::egress::{Incoming, Outgoing, may_have_happened};
use super::secrets::{Filling, Needs};
use crate::registry::timed_out;
use crate::{Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput, ToolSpec, ToolUndo, UndoCall};

/// The text that stands for the key of an undo that is only described.
const KEY_PLACEHOLDER: &str = "[key of the undo]";

/// The header with the key of a call, so that a server that sees it twice can tell.
const KEY: &str = "idempotency-key";

/// Bytes of an answer up to which it is read as JSON when all of it is the result. More is cut anyway.
const MAX_WHOLE_BYTES: usize = 1024 * 1024;

/// Bytes of JSON out of which a part is taken. As values it takes many times the room that it has as a text.
const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a text that are looked at. Of these the result keeps fewer.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Bytes of what a server says of its failure.
const MAX_REASON_BYTES: usize = 2 * 1024;

/// The longest wait that a server can ask for before another try.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const USUAL_PAUSE: Duration = Duration::from_secs(1);

struct HttpCall {
    tool: HttpTool,
    outside: ExternalAccess,
    needs: Needs,
}

/// The request that undoes what a call did.
struct HttpUndo {
    call: HttpCall,
    request: RequestTemplate,
}

/// The tool that an app declares, with its undo if there is one.
pub(crate) fn http_tool(spec: ToolSpec, tool: &HttpTool, outside: &ExternalAccess) -> OfferedTool {
    let call = |needs| HttpCall { needs, tool: tool.clone(), outside: outside.clone() };
    let undo = tool.undo.as_ref().map(|request| ToolUndo {
        effect: match request.method {
            HttpMethod::Get | HttpMethod::Head | HttpMethod::Put | HttpMethod::Delete => Effect::Idempotent,
            HttpMethod::Post | HttpMethod::Patch => Effect::Irreversible,
        },
        call: Arc::new(HttpUndo { call: call(needed_secrets(request)), request: request.clone() }),
    });
    let facts = ToolFacts { marker: tool.marker.clone(), ..ToolFacts::external(tool.effect) };
    OfferedTool { undo, ..OfferedTool::new(spec, call(needed_secrets(&tool.request)), facts) }
}

impl HttpCall {
    async fn answer(&self, calling: &Calling<'_>, filling: &Filling) -> Result<ToolOutput, Failed> {
        let mut values = Value::Object(filling.values.clone());
        let answer = self.exchange(calling, &self.tool.request, &values).await?;
        if !is_success(&answer) {
            // Values that are picked out of an answer are part of one that did what was asked.
            let accepted = self.tool.accept_status.contains(&answer.status);
            return if accepted {
                Ok(whole_answer(&answer)?.into())
            } else {
                Err(refusal(&answer, self.tool.retry, &filling.hidden))
            };
        }
        match &self.tool.answer {
            AnswerPart::Whole => Ok(whole_answer(&answer)?.into()),
            AnswerPart::Pointer(pointer) => match json_of(&answer)?.pointer_mut(pointer) {
                Some(value) => Ok(value.take().into()),
                None => {
                    Err(Failed::uncertain("invalid_answer", format!("the answer has nothing at {pointer}")))
                }
            },
            AnswerPart::Text(template) => {
                let output = json_of(&answer)?;
                if let Some(values) = values.as_object_mut() {
                    values.insert("output".into(), output);
                }
                let text =
                    template.text(&values).map_err(|reason| Failed::uncertain("invalid_answer", reason))?;
                Ok(Value::String(text.unwrap_or_default()).into())
            }
        }
    }

    /// Sends a request and waits for the answer, the tool's time or the end of the run, whichever is first.
    async fn exchange(
        &self,
        calling: &Calling<'_>,
        request: &RequestTemplate,
        values: &Value,
    ) -> Result<Incoming, Failed> {
        let rendered = request.render(values).map_err(|reason| Failed::new("invalid_arguments", reason))?;
        let outgoing = outgoing(rendered, &calling.key())?;
        let limit = request.timeout;
        if calling.stop.is_cancelled() {
            return Err(Failed::new(Failed::CANCELLED, "the call was cancelled before the request was sent"));
        }
        let sent = tokio::select! {
            biased; // nothing is sent once the caller has gone
            () = calling.stop.cancelled() => {
                return Err(Failed::uncertain(Failed::CANCELLED, "the call was cancelled before there was an answer"));
            }
            sent = self.outside.egress.send(outgoing) => sent,
            () = super::wait_for_limit(limit) => return Err(timed_out(limit.unwrap_or_default())),
        };
        sent.map_err(|trouble| trouble.to_failure(self.tool.retry))
    }
}

#[async_trait]
impl Tool for HttpCall {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let filling = Filling::gather(&calling, &self.outside.secrets, &self.needs).await?;
        filling.hidden.hide_in_result(self.answer(&calling, &filling).await)
    }
}

#[async_trait]
impl UndoCall for HttpUndo {
    async fn undo(&self, calling: Calling<'_>, output: &Value) -> Result<ToolOutput, Failed> {
        let Self { call, request } = self;
        let mut filling = Filling::gather(&calling, &call.outside.secrets, &call.needs).await?;
        filling.values.insert("output".into(), output.clone());
        let values = Value::Object(filling.values.clone());
        let undone = call.exchange(&calling, request, &values).await.and_then(|answer| {
            if is_success(&answer) {
                Ok(json!({ "status": answer.status }).into())
            } else {
                Err(refusal(&answer, false, &filling.hidden))
            }
        });
        filling.hidden.hide_in_result(undone)
    }

    async fn describe(&self, calling: Calling<'_>, output: &Value) -> Result<Value, Failed> {
        let Self { call, request } = self;
        // A secret that is missing is told, as the undo would tell it. Its value is not used.
        let mut values = Filling::gather(&calling, &call.outside.secrets, &call.needs).await?.values;
        values.insert("secret".into(), placeholders(&call.needs.secrets));
        values.insert("credential".into(), placeholders(&call.needs.credentials));
        values.insert("call".into(), json!({ "key": KEY_PLACEHOLDER }));
        values.insert("output".into(), output.clone());
        let rendered = request.render(&Value::Object(values));
        describe_request(rendered.map_err(|reason| Failed::new("invalid_arguments", reason))?)
    }
}

/// Names of secrets in the place of their values.
fn placeholders(names: &BTreeSet<String>) -> Value {
    names.iter().map(|name| (name.clone(), Value::from(format!("[{name} is hidden]")))).collect()
}

/// A request as a person may see it: without its headers, and without the parameters of its address, which may hold
/// secrets of the operator.
fn describe_request(rendered: Rendered) -> Result<Value, Failed> {
    let impossible = |_| Failed::new("invalid_arguments", "the address cannot be sent");
    let mut url = Url::parse(&rendered.url).map_err(impossible)?;
    url.set_query(None);
    url.set_fragment(None);
    let mut request = json!({ "method": rendered.method.name(), "url": url.as_str() });
    if let (Some(body), Some(fields)) = (rendered.body, request.as_object_mut()) {
        fields.insert(
            "body".into(),
            match body {
                RenderedBody::Json(value) => value,
                RenderedBody::Form(pairs) => {
                    pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect()
                }
                RenderedBody::Text(text) => text.into(),
            },
        );
    }
    Ok(request)
}

fn needed_secrets(request: &RequestTemplate) -> Needs {
    Needs::new(request.secrets(), request.credentials())
}

fn outgoing(rendered: Rendered, key: &str) -> Result<Outgoing, Failed> {
    let impossible = |what: &str| Failed::new("invalid_arguments", format!("{what} cannot be sent"));
    let url = Url::parse(&rendered.url).map_err(|_| impossible("the address"))?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.1"));
    headers.insert(KEY, HeaderValue::from_str(key).map_err(|_| impossible("the key"))?);
    let body = rendered.body.map(|body| match body {
        RenderedBody::Json(value) => ("application/json", value.to_string()),
        RenderedBody::Form(fields) => {
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            ("application/x-www-form-urlencoded", form)
        }
        RenderedBody::Text(text) => ("text/plain; charset=utf-8", text),
    });
    if let Some((content_type, _)) = &body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let body = body.map(|(_, body)| Bytes::from(body));
    for (name, value) in rendered.headers {
        let name = HeaderName::try_from(name).map_err(|_| impossible("a header"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| impossible("a header"))?;
        value.set_sensitive(true); // it may hold a secret, which nothing is to write down
        headers.insert(name, value);
    }
    let method = reqwest::Method::from_bytes(rendered.method.name().as_bytes());
    let method = method.map_err(|_| impossible("the method"))?;
    Ok(Outgoing { method, url, headers, body })
}

/// All of an answer: as JSON if it is some, else as text.
fn whole_answer(answer: &Incoming) -> Result<Value, Failed> {
    if answer.body.is_empty() {
        return Ok(json!({ "status": answer.status }));
    }
    // An answer that nests deeper than a result may is a text.
    let is_deep = || std::str::from_utf8(&answer.body).is_ok_and(|text| json_depth(text) > MAX_JSON_DEPTH);
    if is_json(answer.content_type()) && !answer.cut && answer.body.len() <= MAX_WHOLE_BYTES && !is_deep() {
        return json_of(answer);
    }
    let kept = answer.body.get(..MAX_TEXT_BYTES).unwrap_or(&answer.body);
    let is_cut = answer.cut || kept.len() < answer.body.len();
    match std::str::from_utf8(kept) {
        Ok(text) => Ok(text.into()),
        Err(error) if is_cut && error.error_len().is_none() => {
            let (valid, _) = kept.split_at_checked(error.valid_up_to()).unwrap_or_default();
            Ok(String::from_utf8_lossy(valid).into())
        }
        Err(_) => Err(Failed::uncertain("invalid_answer", "the answer is neither JSON nor text")),
    }
}

fn is_success(answer: &Incoming) -> bool {
    (200..300).contains(&answer.status)
}

/// Whether this is one JSON value; a stream of many is a text.
fn is_json(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(name.as_str(), "application/json" | "text/json") || name.ends_with("+json")
}

pub(super) fn json_of(answer: &Incoming) -> Result<Value, Failed> {
    if answer.cut || answer.body.len() > MAX_JSON_BYTES {
        let message =
            format!("the answer is longer than the {} MiB that are read", MAX_JSON_BYTES / 1024 / 1024);
        return Err(Failed::uncertain("too_large", message));
    }
    serde_json::from_slice(&answer.body)
        .map_err(|_| Failed::uncertain("invalid_answer", "the answer is not the JSON that it should be"))
}

/// The failure of a call that a server refused, with the server's words.
pub(super) fn refusal(answer: &Incoming, retry: bool, hidden: &Hidden) -> Failed {
    // Hidden before it is cut: of a secret that the bound falls into, a part would be left.
    let said = answer.body.get(..MAX_TEXT_BYTES).unwrap_or(&answer.body);
    let said = hidden.text(&String::from_utf8_lossy(said));
    let said = said.get(..said.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or_default().trim();
    let message = match said {
        "" => format!("the server answered with the status {}", answer.status),
        said => format!("the server answered with the status {}: {said}", answer.status),
    };
    let asked = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let pause = asked.map_or(USUAL_PAUSE, Duration::from_secs);
    let busy = matches!(answer.status, 429 | 502 | 503 | 504) && pause <= LONGEST_PAUSE;
    Failed {
        uncertain: may_have_happened(answer.status),
        again: (retry && busy).then_some(pause),
        ..Failed::new("http_error", message)
    }
}

#[cfg(test)]
mod tests;
