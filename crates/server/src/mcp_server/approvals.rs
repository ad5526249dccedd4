//! Approvals that the user gives through their MCP client (elicitation).

use std::time::Duration;

use protocol::{Principal, ProposalId, ProposalView};
use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde_json::{Value, json};
use service::{Error, Service};

use super::report::beginning;

/// How long the user may think about an approval. It stays open after that.
const THINKING_TIME: Duration = Duration::from_secs(15 * 60);

/// Bytes of a call's input in a question.
const MAX_SHOWN_BYTES: usize = 2 * 1024;

/// How a client can be asked for an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskingWay {
    /// The client cannot be asked.
    None,
    /// By a request on the stream of the call.
    Request,
    /// By a result that asks for the call to be repeated with the answers.
    Repeat,
}

impl AskingWay {
    pub(super) fn of(context: &RequestContext<RoleServer>, in_session: bool) -> Self {
        let offered = context.client_capabilities().and_then(|offered| offered.elicitation);
        // A client that names no mode has the form.
        let has_form = offered.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let is_new =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (has_form, is_new, in_session) {
            (true, true, _) => Self::Repeat,
            (true, false, true) => Self::Request,
            (true, false, false) | (false, _, _) => Self::None,
        }
    }
}

/// The user's answer to a question about an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitedDecision {
    Approve,
    Reject,
    /// The user has not decided.
    Leave,
}

impl From<&ElicitResult> for ElicitedDecision {
    fn from(result: &ElicitResult) -> Self {
        let approve =
            result.content.as_ref().and_then(|content| content.get("approve")).and_then(Value::as_bool);
        match (&result.action, approve) {
            (ElicitationAction::Accept, Some(true)) => Self::Approve,
            (ElicitationAction::Accept, Some(false)) | (ElicitationAction::Decline, _) => Self::Reject,
            _ => Self::Leave,
        }
    }
}

/// The question about a call.
pub(super) fn question(proposal: &ProposalView) -> Option<ElicitRequest> {
    let schema = json!({
        "type": "object",
        "properties": {
            "approve": { "type": "boolean", "title": "Approve", "description": "Whether the call may be made" },
        },
        "required": ["approve"],
    });
    let requested_schema = serde_json::from_value::<ElicitationSchema>(schema).ok()?;
    Some(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question_text(proposal),
        requested_schema,
    }))
}

/// The question in words. The input is data of a model, so invisible characters are spelt out.
fn question_text(proposal: &ProposalView) -> String {
    let input = escape_hidden(&proposal.input.to_string());
    let shown = beginning(&input, MAX_SHOWN_BYTES);
    let cut =
        if shown.len() < input.len() { "… (there is more: read all of it with the tool get)" } else { "" };
    let note = proposal.note.as_deref().map(|note| {
        let note = escape_hidden(note);
        format!("\nReason given: {}", beginning(&note, MAX_SHOWN_BYTES))
    });
    format!(
        "Approve the call of the tool {} with this input?\n{shown}{cut}{}",
        escape_hidden(&proposal.tool),
        note.unwrap_or_default()
    )
}

/// The text with characters that have no shape of their own as escapes.
fn escape_hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == ' ' || !is_hidden(c) { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// Control characters, and characters that hide or turn text: format characters, odd spaces and tags.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Asks the client about one call on the stream of its request. An answer that does not come leaves the approval open.
pub(super) async fn ask_client(
    context: &RequestContext<RoleServer>,
    proposal: &ProposalView,
) -> ElicitedDecision {
    let Some(question) = question(proposal) else { return ElicitedDecision::Leave };
    let options = PeerRequestOptions::with_timeout(THINKING_TIME);
    let request = ServerRequest::ElicitRequest(question);
    let Ok(asked) = context.peer.send_request_with_option(request, options).await else {
        return ElicitedDecision::Leave;
    };
    match asked.await_response().await {
        Ok(ClientResult::ElicitResult(result)) => ElicitedDecision::from(&result),
        Ok(_) | Err(_) => ElicitedDecision::Leave,
    }
}

/// Records the decision of the user. An approval that was decided before stays as it is, because a client may send a
/// decision again.
pub(super) async fn record_decision(
    service: &Service,
    principal: &Principal,
    proposal: ProposalId,
    decision: ElicitedDecision,
) -> Result<(), Error> {
    let decided = match decision {
        ElicitedDecision::Approve => service.confirm_proposal(principal, proposal, None).await,
        ElicitedDecision::Reject => service.reject_proposal(principal, proposal, None).await,
        ElicitedDecision::Leave => return Ok(()),
    };
    match decided {
        Ok(_) | Err(Error::Conflict { code: "proposal_decided", .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_accepted_approval_approves() {
        let decision = |action, content: Option<Value>| {
            let result = ElicitResult::new(action);
            let result = match content {
                Some(content) => result.with_content(content),
                None => result,
            };
            ElicitedDecision::from(&result)
        };
        let yes = Some(json!({ "approve": true }));
        assert_eq!(decision(ElicitationAction::Accept, yes.clone()), ElicitedDecision::Approve);
        assert_eq!(
            decision(ElicitationAction::Accept, Some(json!({ "approve": false }))),
            ElicitedDecision::Reject
        );
        assert_eq!(
            decision(ElicitationAction::Accept, Some(json!({ "approve": "true" }))),
            ElicitedDecision::Leave
        );
        assert_eq!(decision(ElicitationAction::Accept, None), ElicitedDecision::Leave);
        assert_eq!(decision(ElicitationAction::Decline, yes.clone()), ElicitedDecision::Reject);
        assert_eq!(decision(ElicitationAction::Cancel, yes), ElicitedDecision::Leave);
    }

    #[test]
    fn hidden_characters_are_spelt_out() {
        assert_eq!(escape_hidden("Pay 5 € to Ünal 日本"), "Pay 5 € to Ünal 日本");
        assert_eq!(escape_hidden("a\u{202e}b\n\u{e0041}c\u{a0}"), "a\\u{202e}b\\u{a}\\u{e0041}c\\u{a0}");
    }
}
