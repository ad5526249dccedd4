//! Responses that exist: read, resumed, cancelled and deleted.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use protocol::{Event, Principal, RunId};
use serde::Deserialize;
use serde_json::{Value, json};
use service::PageQuery;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::told_run;
use crate::Api;
use crate::auth::StreamCaller;
use crate::contracts::{ResponseId, ResponseTeller, ResponseWriter, RunPart, VoidPieces};
use crate::error::{ApiProblem, ProblemCode};
use crate::event_stream::StreamState;
use crate::idempotency::IdempotencyKey;
use crate::query::Params;
use crate::routes::openai::presence::ClientPresence;
use crate::routes::{FollowedEvents, JsonReply};

/// How long a request waits for the end of the run that it cancels.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

/// Messages of a thread that one response has made: the question and its answer.
const MESSAGES_OF_ONE: u32 = 2;

/// A response by its id.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::routes) struct ResponsePath {
    /// The id of the response
    response: String,
}

impl FromRequestParts<Api> for ResponsePath {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let path = Path::<Self>::from_request_parts(parts, api).await;
        path.map(|Path(path)| path).map_err(|_| missing_response())
    }
}

impl ResponsePath {
    fn id(&self) -> Result<ResponseId, ApiProblem> {
        self.response.parse().map_err(|()| missing_response())
    }
}

fn missing_response() -> ApiProblem {
    service::Error::NotFound { what: "response" }.into()
}

/// The form in which a response is read.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct RetrieveParams {
    /// Whether to stream events instead of one object
    stream: Option<bool>,
    /// The `sequence_number` after which the events begin
    starting_after: Option<u64>,
}

/// Reads a response, or streams it: from its beginning, or after an event.
#[utoipa::path(
    get,
    path = "/openai/v1/responses/{response}",
    params(ResponsePath, RetrieveParams),
    responses((
        status = 200,
        description = "The response, or its events",
        content((Value = "application/json"), (String = "text/event-stream"))
    ))
)]
pub(in crate::routes) async fn get_response(
    State(api): State<Api>,
    StreamCaller { principal, access }: StreamCaller,
    path: ResponsePath,
    Params(RetrieveParams { stream, starting_after }): Params<RetrieveParams>,
) -> Result<Response, ApiProblem> {
    let id = path.id()?;
    let mut teller = teller(&api, &principal, id, None).await?;
    let facts = read_facts(&api, &principal, id.run, &mut teller).await?;
    if !teller.exists() {
        return Err(missing_response());
    }
    if !stream.unwrap_or(false) {
        return Ok(Answer(teller.object()).into_response());
    }
    let permit = api.may_follow(&principal)?;
    let teller = self::teller(&api, &principal, id, starting_after).await?;
    let follower = api.service.follow_run(&principal, id.run, None).await?.ok_or_else(missing_response)?;
    // A number that was seen is exact only as long as all deltas are there.
    let follower = if starting_after.is_some() { follower } else { follower.by_facts() };
    let no_presence: Option<ClientPresence> = None;
    let of = (api.service.clone(), principal);
    let writer = ResponseWriter::new(teller, VoidPieces::of_facts(&facts), of, no_presence);
    Ok(api.respond(FollowedEvents { follower, permit, access }, writer))
}

/// The teller of a response before the first event of its run.
async fn teller(
    api: &Api,
    principal: &Principal,
    id: ResponseId,
    seen: Option<u64>,
) -> Result<ResponseTeller, ApiProblem> {
    let view = match api.service.run(principal, id.run).await {
        Err(service::Error::NotFound { .. }) => return Err(missing_response()),
        view => view?,
    };
    Ok(ResponseTeller::new(told_run(view), RunPart::with_number(id.part), seen))
}

/// Tells the facts of a run to a teller, and gives them back.
pub(super) async fn read_facts(
    api: &Api,
    principal: &Principal,
    run: RunId,
    teller: &mut ResponseTeller,
) -> Result<Vec<(protocol::Seq, Event)>, ApiProblem> {
    let facts = api.service.run_facts(principal, run).await?;
    for (_, event) in &facts {
        if teller.read_fact(event.clone()) == StreamState::Ended {
            break;
        }
    }
    Ok(facts)
}

async fn current(api: &Api, principal: &Principal, id: ResponseId) -> Result<Value, ApiProblem> {
    let mut teller = teller(api, principal, id, None).await?;
    read_facts(api, principal, id.run, &mut teller).await?;
    if teller.exists() { Ok(teller.object()) } else { Err(missing_response()) }
}

/// Cancels a response. A response that has ended does not change.
#[utoipa::path(
    post,
    path = "/openai/v1/responses/{response}/cancel",
    params(ResponsePath),
    responses((status = 200, description = "The response", body = Value))
)]
pub(in crate::routes) async fn cancel_response(
    State(api): State<Api>,
    principal: Principal,
    path: ResponsePath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<Value> {
    let id = path.id()?;
    current(&api, &principal, id).await?;
    api.service.cancel(&principal, id.run, once).await?;
    // It ends soon; if not, the response says that it is in progress.
    if let Ok(ended) = timeout(CANCEL_PATIENCE, api.service.result(&principal, id.run)).await {
        ended?;
    }
    Ok(Answer(current(&api, &principal, id).await?))
}

/// Deletes a response with its thread, if nothing else is in that thread.
#[utoipa::path(
    delete,
    path = "/openai/v1/responses/{response}",
    params(ResponsePath),
    responses((status = 200, description = "The response is gone", body = Value))
)]
pub(in crate::routes) async fn delete_response(
    State(api): State<Api>,
    principal: Principal,
    path: ResponsePath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<Value> {
    let id = path.id()?;
    current(&api, &principal, id).await?;
    let run = api.service.run(&principal, id.run).await?;
    let page = PageQuery { limit: Some(MESSAGES_OF_ONE + 1), cursor: None };
    let tree = api.service.thread_tree(&principal, run.thread_id, page).await?;
    let is_alone = tree.next.is_none()
        && tree.data.iter().all(|message| message.id == run.message_id || message.run_id == Some(run.id));
    if !is_alone {
        let detail = "the response is part of a conversation with other messages; delete the conversation";
        return Err(ApiProblem::new(ProblemCode::Conflict("response_in_conversation"), detail));
    }
    api.service.delete_thread(&principal, run.thread_id, once).await?;
    Ok(Answer(json!({ "id": id.to_string(), "object": "response", "deleted": true })))
}

/// Lists the input of a response: the message of the user, or the results and approvals that it continues after.
#[utoipa::path(
    get,
    path = "/openai/v1/responses/{response}/input_items",
    params(ResponsePath),
    responses((status = 200, description = "The items", body = Value))
)]
pub(in crate::routes) async fn list_input_items(
    State(api): State<Api>,
    principal: Principal,
    path: ResponsePath,
) -> JsonReply<Value> {
    let id = path.id()?;
    let mut teller = teller(&api, &principal, id, None).await?;
    let facts = read_facts(&api, &principal, id.run, &mut teller).await?;
    if !teller.exists() {
        return Err(missing_response());
    }
    let mut items = teller.inputs().to_vec();
    if id.part == 0 {
        let message = |(_, event): &(protocol::Seq, Event)| {
            let Event::MessageUser(message) = event else { return None };
            Some(user_item(&message.message_id.to_string(), &message.text, &message.parts))
        };
        items = facts.iter().filter_map(message).collect();
    }
    Ok(Answer(item_list(&items, false)))
}

/// A message of the user as an item.
pub(in crate::routes::openai) fn user_item(id: &str, text: &str, parts: &[protocol::MessagePart]) -> Value {
    let mut content = vec![json!({ "type": "input_text", "text": text })];
    content.extend(parts.iter().map(|part| match part {
        protocol::MessagePart::Image { image_id, .. } => {
            json!({ "type": "input_image", "file_id": image_id, "detail": "auto" })
        }
        protocol::MessagePart::Document { document_id, name } => {
            json!({ "type": "input_file", "file_id": document_id, "filename": name })
        }
    }));
    json!({ "id": id, "type": "message", "status": "completed", "role": "user", "content": content })
}

pub(in crate::routes::openai) fn item_list(items: &[Value], has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone());
    json!({
        "object": "list",
        "data": items,
        "first_id": id(items.first()),
        "last_id": id(items.last()),
        "has_more": has_more,
    })
}
