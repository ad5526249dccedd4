//! The envelope of a JSON-RPC message, which is checked before the message is handled.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{MAX_JSON_DEPTH, json_depth};
use serde::Deserialize;
use serde_json::{Value, json};

/// JSON-RPC's code for what is not JSON.
const PARSE_ERROR: i64 = -32700;

/// JSON-RPC's code for what is not a message.
const INVALID_REQUEST: i64 = -32600;

/// A refusal of a message as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EnvelopeRefusal {
    code: i64,
    message: &'static str,
}

impl IntoResponse for EnvelopeRefusal {
    fn into_response(self) -> Response {
        let error = json!({ "code": self.code, "message": self.message });
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    }
}

/// The fields of a message that say what it is.
#[derive(Debug, Default, Deserialize)]
struct MessageFields {
    jsonrpc: Option<String>,
    method: Option<Value>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
}

/// True if the message opens a conversation of the older protocol with a client that can be asked for approvals.
pub(super) fn wants_session(body: &[u8]) -> Result<bool, EnvelopeRefusal> {
    let refusal = |code, message| EnvelopeRefusal { code, message };
    let text = std::str::from_utf8(body).map_err(|_| refusal(PARSE_ERROR, "the body is not UTF-8"))?;
    if json_depth(text) > MAX_JSON_DEPTH {
        return Err(refusal(PARSE_ERROR, "the body nests too deeply"));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|_| refusal(PARSE_ERROR, "the body is not JSON"))?;
    if value.is_array() {
        return Err(refusal(INVALID_REQUEST, "send one message in a request, not a batch"));
    }
    let not_a_message = || refusal(INVALID_REQUEST, "the body is not a JSON-RPC 2.0 message");
    let message: MessageFields = serde_json::from_value(value).map_err(|_| not_a_message())?;
    let is_message = match &message.method {
        Some(method) => method.is_string(),
        None => message.result.is_some() || message.error.is_some(),
    };
    if message.jsonrpc.as_deref() != Some("2.0") || !is_message {
        return Err(not_a_message());
    }
    let is_opening = message.method.as_ref().and_then(Value::as_str) == Some("initialize");
    let offered = message.params.as_ref().and_then(|params| params.get("capabilities")?.get("elicitation"));
    Ok(is_opening && offered.is_some_and(Value::is_object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &[u8]) -> i64 {
        wants_session(body).unwrap_err().code
    }

    #[test]
    fn a_session_is_for_clients_that_can_be_asked() {
        let opening = |capabilities: Value| {
            let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
        };
        assert_eq!(wants_session(opening(json!({ "elicitation": {} })).as_bytes()), Ok(true));
        assert_eq!(wants_session(opening(json!({ "sampling": {} })).as_bytes()), Ok(false));
        assert_eq!(wants_session(opening(json!({ "elicitation": null })).as_bytes()), Ok(false));
        let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": { "capabilities": { "elicitation": {} } } });
        assert_eq!(wants_session(listing.to_string().as_bytes()), Ok(false));
        assert_eq!(wants_session(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(false));
    }

    #[test]
    fn other_bodies_are_refused_in_the_words_of_json_rpc() {
        for body in [b"".as_slice(), b"{", b"\xff", "[".repeat(5000).as_bytes()] {
            assert_eq!(code(body), PARSE_ERROR, "{body:?}");
        }
        for body in [
            "[]",
            "1",
            "null",
            "{}",
            r#"{"jsonrpc":"1.0","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","method":5}"#,
        ] {
            assert_eq!(code(body.as_bytes()), INVALID_REQUEST, "{body}");
        }
    }
}
