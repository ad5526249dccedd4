//! Streamable HTTP over the one way out: bounded answers, no redirects, and no stream that stays open between calls.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use crate::external::egress::{Egress, EgressError, Incoming, MAX_ANSWER_BYTES, Outgoing, read};

type McpHttpFailure = StreamableHttpError<EgressError>;

/// Why the way out did not work, if that is what an error rests on.
pub(super) fn egress_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a EgressError> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.find_map(|error| match error.downcast_ref::<McpHttpFailure>() {
        Some(McpHttpFailure::Client(trouble)) => Some(trouble),
        Some(_) | None => None,
    })
}

/// Speaks HTTP for one MCP server.
#[derive(Clone)]
pub(super) struct McpEgress {
    pub(super) egress: Egress,
}

impl StreamableHttpClient for McpEgress {
    type Error = EgressError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpHttpFailure> {
        let mut request = request(Method::POST, &uri, session.as_deref(), headers)?;
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
        request.body = Some(Bytes::from(serde_json::to_vec(&message)?));
        let response = self.egress.open(request).await.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let given = header(HEADER_SESSION_ID).map(str::to_owned);
        if status.is_success()
            && header("content-type").is_some_and(|kind| kind.starts_with(EVENT_STREAM_MIME_TYPE))
        {
            return Ok(StreamableHttpPostResponse::Sse(events(response, id(&message)), given));
        }
        let answer = read(response).await.map_err(StreamableHttpError::Client)?;
        message_answer(&message, session.is_some(), &answer, given)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpHttpFailure> {
        let request = request(Method::DELETE, &uri, Some(&session), headers)?;
        self.egress.open(request).await.map(drop).map_err(StreamableHttpError::Client)
    }

    /// Notices of a server between calls are asked for when they are needed, and a call that broke off is not taken up
    /// again, because its caller would not be known.
    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, McpHttpFailure> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

fn request(
    method: Method,
    uri: &str,
    session: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Result<Outgoing, McpHttpFailure> {
    let unusable = || StreamableHttpError::UnexpectedServerResponse("the address cannot be used".into());
    let url = Url::parse(uri).map_err(|_| unusable())?;
    let mut all: HeaderMap = headers.into_iter().collect();
    all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(session) = session {
        all.insert(HEADER_SESSION_ID, HeaderValue::from_str(session).map_err(|_| unusable())?);
    }
    Ok(Outgoing { method, url, headers: all, body: None })
}

/// An answer that is one message.
fn message_answer(
    asked: &ClientJsonRpcMessage,
    in_session: bool,
    answer: &Incoming,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, McpHttpFailure> {
    let said = serde_json::from_slice::<ServerJsonRpcMessage>(&answer.body).ok().filter(|_| !answer.cut);
    let success = (200..300).contains(&answer.status);
    let waits = matches!(asked, JsonRpcMessage::Request(_));
    let stray =
        waits && std::str::from_utf8(&answer.body).is_ok_and(|text| is_stray(text, id(asked).as_ref()));
    match said.filter(|_| !(success && stray)) {
        Some(said) if success => Ok(StreamableHttpPostResponse::Json(said, session)),
        None if success && !waits => Ok(StreamableHttpPostResponse::Accepted),
        None if success => {
            Err(StreamableHttpError::UnexpectedServerResponse("the answer is not JSON-RPC".into()))
        }
        said => {
            let client_error = (400..500).contains(&answer.status) && !matches!(answer.status, 401 | 403);
            if let Some(older) = older_protocol(asked, said.as_ref()).filter(|_| client_error && !in_session)
            {
                return Ok(older);
            }
            match said {
                Some(said @ JsonRpcMessage::Error(_)) if client_error => {
                    Ok(StreamableHttpPostResponse::Json(said, session))
                }
                _ => Err(StreamableHttpError::Client(EgressError::Refused(answer.status))),
            }
        }
    }
}

/// Whether a message answers something else than what was asked.
fn is_stray(message: &str, asked: Option<&Value>) -> bool {
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<Value>,
        method: Option<IgnoredAny>,
    }
    let envelope = serde_json::from_str::<Envelope>(message);
    envelope.is_ok_and(|envelope| {
        envelope.method.is_none() && envelope.id.is_some() && envelope.id.as_ref() != asked
    })
}

/// A server of the older protocol does not know the question that the newer one begins with. It is told to the
/// negotiation as an answer to that question, whatever the server answered.
fn older_protocol(
    asked: &ClientJsonRpcMessage,
    said: Option<&ServerJsonRpcMessage>,
) -> Option<StreamableHttpPostResponse> {
    let JsonRpcMessage::Request(asked) = asked else { return None };
    if !matches!(asked.request, ClientRequest::DiscoverRequest(_)) {
        return None;
    }
    let error = match said {
        Some(JsonRpcMessage::Error(said)) => said.error.clone(),
        _ => ErrorData::invalid_request("the server does not know server/discover", None),
    };
    let answer = ServerJsonRpcMessage::error(error, Some(asked.id.clone()));
    Some(StreamableHttpPostResponse::Json(answer, None))
}

/// The id that an answer must have.
fn id(asked: &ClientJsonRpcMessage) -> Option<Value> {
    let JsonRpcMessage::Request(asked) = asked else { return None };
    serde_json::to_value(&asked.id).ok()
}

/// The events of an answer, up to the bound of all answers, without answers to what was not asked.
fn events(response: reqwest::Response, asked: Option<Value>) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut room = MAX_ANSWER_BYTES;
    let bounded = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
        room =
            room.checked_sub(chunk.len()).ok_or_else(|| std::io::Error::other("the answer is too long"))?;
        Ok::<_, std::io::Error>(chunk)
    });
    let ours = move |event: &Result<Sse, SseError>| {
        let said = event.as_ref().ok().and_then(|event| event.data.as_deref());
        std::future::ready(!said.is_some_and(|said| is_stray(said, asked.as_ref())))
    };
    SseStream::from_bytes_stream(bounded).filter(ours).boxed()
}
