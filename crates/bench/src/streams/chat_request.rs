//! The request that the upstream gets, with the checks that make a real provider refuse it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A request that was found to be well-formed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedRequest {
    pub(super) stream: bool,
    /// Whether tools are offered and the last message is the user's.
    pub(super) may_call: bool,
}

#[derive(Deserialize)]
struct ChatRequest<'r> {
    #[serde(borrow)]
    model: Cow<'r, str>,
    #[serde(borrow)]
    messages: Vec<RequestMessage<'r>>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<IgnoredAny>,
    tools: Option<Vec<RequestTool<'r>>>,
}

#[derive(Deserialize)]
struct RequestMessage<'r> {
    #[serde(borrow)]
    role: Cow<'r, str>,
    content: Option<IgnoredAny>,
    #[serde(default, borrow)]
    tool_calls: Vec<RequestCall<'r>>,
    #[serde(borrow)]
    tool_call_id: Option<Cow<'r, str>>,
}

#[derive(Deserialize)]
struct RequestCall<'r> {
    #[serde(borrow)]
    id: Cow<'r, str>,
}

#[derive(Deserialize)]
struct RequestTool<'r> {
    #[serde(borrow)]
    function: RequestFunction<'r>,
}

#[derive(Deserialize)]
struct RequestFunction<'r> {
    #[serde(borrow)]
    name: Cow<'r, str>,
}

/// Reads a request, or says why a provider would refuse it.
pub(super) fn check(body: &[u8]) -> Result<CheckedRequest, String> {
    let request: ChatRequest<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if request.model.is_empty() {
        return Err("you must provide a model parameter".into());
    }
    if request.stream_options.is_some() && !request.stream {
        return Err("'stream_options' is only allowed when 'stream' is enabled".into());
    }
    let tools = request.tools.as_deref();
    if tools.is_some_and(<[_]>::is_empty) {
        return Err("[] is too short - 'tools'".into());
    }
    if tools.into_iter().flatten().any(|tool| tool.function.name.is_empty()) {
        return Err("'tools' has a function without a name".into());
    }
    check_messages(&request.messages)?;
    let is_user = request.messages.last().is_some_and(|message| message.role == "user");
    Ok(CheckedRequest { stream: request.stream, may_call: is_user && tools.is_some() })
}

/// Every call has one result right behind it, and no result is without its call.
fn check_messages(messages: &[RequestMessage<'_>]) -> Result<(), String> {
    if messages.is_empty() {
        return Err("[] is too short - 'messages'".into());
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message.role.as_ref();
        if role == "tool" {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            if !open.remove(id) {
                return Err(format!("messages.{index}: a tool message answers no call before it"));
            }
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!("messages.{index}: the call {id} has no tool message"));
        }
        if !matches!(role, "system" | "developer" | "user" | "assistant") {
            return Err(format!("messages.{index}: the role {role} does not exist"));
        }
        if message.content.is_none() && message.tool_calls.is_empty() {
            return Err(format!("messages.{index}: content is missing"));
        }
        open.extend(message.tool_calls.iter().map(|call| call.id.as_ref()));
    }
    open.first().map_or(Ok(()), |id| Err(format!("the call {id} has no tool message")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(body: &str) -> Result<CheckedRequest, String> {
        check(body.as_bytes())
    }

    #[test]
    fn a_call_needs_its_result() {
        let ask = r#"{"role":"user","content":"go"}"#;
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}"#;
        let result = r#"{"role":"tool","tool_call_id":"a","content":"1"}"#;
        let request = |messages: &[&str]| {
            check_text(&format!(r#"{{"model":"m","stream":true,"messages":[{}]}}"#, messages.join(",")))
        };
        assert_eq!(request(&[ask, call, result]), Ok(CheckedRequest { stream: true, may_call: false }));
        assert!(request(&[ask, call]).is_err());
        assert!(request(&[ask, call, ask]).is_err());
        assert!(request(&[ask, result]).is_err());
        assert!(request(&[]).is_err());
    }

    #[test]
    fn tools_are_called_for_a_user_only() {
        let tools = r#""tools":[{"type":"function","function":{"name":"calculate"}}]"#;
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],{tools}}}"#);
        assert_eq!(check_text(&body), Ok(CheckedRequest { stream: false, may_call: true }));
        assert!(check_text(&body.replace(tools, r#""tools":[]"#)).is_err());
        assert!(check_text(&body.replace("user", "owner")).is_err());
    }
}
