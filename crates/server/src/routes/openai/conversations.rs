//! `/openai/v1/conversations`: threads, as OpenAI's clients name them.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use protocol::{Message, NewThread, Principal, Role, ThreadId, ThreadView};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use service::PageQuery;
use utoipa::{IntoParams, ToSchema};

use super::responses::stored_responses::{item_list, user_item};
use crate::Api;
use crate::body::OptionalJson;
use crate::contracts::ConversationId;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::query::Params;
use crate::routes::JsonReply;
use crate::routes::api_chat::app_of;

/// Messages of a conversation that can be listed.
const MAX_LISTED: u32 = 1_000;

/// Items of a page when the client does not say, and at most.
const DEFAULT_PAGE: usize = 20;
const MAX_PAGE: usize = 100;

/// A new conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(in crate::routes) struct CreateConversation {
    /// Metadata, whose field `app` names the app; `server.chat_app` when absent, or else the only app.
    #[schema(value_type = Option<Value>)]
    metadata: Option<Map<String, Value>>,
    /// Items, which must be absent or empty: messages are sent with a response.
    #[schema(value_type = Option<Value>)]
    items: Option<Vec<Value>>,
}

/// A conversation by its id.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::routes) struct ConversationPath {
    /// The id of the conversation
    conversation: String,
}

impl FromRequestParts<Api> for ConversationPath {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let path = Path::<Self>::from_request_parts(parts, api).await;
        path.map(|Path(path)| path).map_err(|_| missing_conversation())
    }
}

fn missing_conversation() -> ApiProblem {
    service::Error::NotFound { what: "conversation" }.into()
}

impl ConversationPath {
    fn thread(&self) -> Result<ThreadId, ApiProblem> {
        self.conversation.parse().map(|ConversationId(thread)| thread).map_err(|()| missing_conversation())
    }

    async fn view(&self, api: &Api, principal: &Principal) -> Result<ThreadView, ApiProblem> {
        match api.service.thread(principal, self.thread()?).await {
            Err(service::Error::NotFound { .. }) => Err(missing_conversation()),
            view => Ok(view?),
        }
    }
}

/// Creates a conversation.
#[utoipa::path(
    post,
    path = "/openai/v1/conversations",
    request_body = CreateConversation,
    responses((status = 200, description = "The conversation", body = Value))
)]
pub(in crate::routes) async fn create_conversation(
    State(api): State<Api>,
    principal: Principal,
    OptionalJson(new, once): OptionalJson<CreateConversation>,
) -> JsonReply<Value> {
    if new.items.is_some_and(|items| !items.is_empty()) {
        let detail = "must be empty; send the items with the first response";
        return Err(ApiProblem::invalid("items", detail));
    }
    let named = new.metadata.as_ref().and_then(|metadata| metadata.get("app")?.as_str());
    let app = app_of(&api, &principal, named.map(str::to_owned))
        .map_err(|problem| problem.rename_field(|_| Some("metadata.app")))?;
    let thread = api.service.create_thread(&principal, &app, NewThread::default(), once).await?;
    Ok(Answer(conversation(&thread)))
}

fn conversation(thread: &ThreadView) -> Value {
    json!({
        "id": ConversationId(thread.id).to_string(),
        "object": "conversation",
        "created_at": thread.created_at.as_second(),
        "metadata": { "app": thread.app_id },
    })
}

/// Reads a conversation.
#[utoipa::path(
    get,
    path = "/openai/v1/conversations/{conversation}",
    params(ConversationPath),
    responses((status = 200, description = "The conversation", body = Value))
)]
pub(in crate::routes) async fn get_conversation(
    State(api): State<Api>,
    principal: Principal,
    path: ConversationPath,
) -> JsonReply<Value> {
    Ok(Answer(conversation(&path.view(&api, &principal).await?)))
}

/// Deletes a conversation and everything in it.
#[utoipa::path(
    delete,
    path = "/openai/v1/conversations/{conversation}",
    params(ConversationPath),
    responses((status = 200, description = "The conversation is deleted", body = Value))
)]
pub(in crate::routes) async fn delete_conversation(
    State(api): State<Api>,
    principal: Principal,
    path: ConversationPath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<Value> {
    let thread = path.thread()?;
    api.service.delete_thread(&principal, thread, once).await?;
    let id = ConversationId(thread).to_string();
    Ok(Answer(json!({ "id": id, "object": "conversation.deleted", "deleted": true })))
}

/// The items of a conversation to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct ItemParams {
    /// The number of items at most, from 1 to 100; 20 when absent
    limit: Option<usize>,
    /// The order: `desc` (when absent) or `asc`
    order: Option<String>,
    /// The id of the item after which the list begins
    after: Option<String>,
}

/// Lists the messages of a conversation, newest first unless `order` is `asc`. The list of a long conversation has the
/// oldest thousand messages.
#[utoipa::path(
    get,
    path = "/openai/v1/conversations/{conversation}/items",
    params(ConversationPath, ItemParams),
    responses((status = 200, description = "The items", body = Value))
)]
pub(in crate::routes) async fn list_conversation_items(
    State(api): State<Api>,
    principal: Principal,
    path: ConversationPath,
    Params(ItemParams { limit, order, after }): Params<ItemParams>,
) -> JsonReply<Value> {
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiProblem::invalid("limit", format!("must be from 1 to {MAX_PAGE}")));
    }
    let is_newest_first = match order.as_deref() {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(ApiProblem::invalid("order", "must be asc or desc")),
    };
    let thread = path.view(&api, &principal).await?.id;
    let page = PageQuery { limit: Some(MAX_LISTED), cursor: None };
    let mut items: Vec<Value> =
        api.service.messages(&principal, thread, page).await?.data.iter().map(item).collect();
    if is_newest_first {
        items.reverse();
    }
    if let Some(after) = after {
        let place = items.iter().position(|item| item["id"] == after.as_str());
        let place =
            place.ok_or_else(|| ApiProblem::invalid("after", "is not an item of this conversation"))?;
        items.drain(..=place);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Answer(item_list(&items, has_more)))
}

fn item(message: &Message) -> Value {
    let id = message.id.to_string();
    match message.role {
        Role::User => user_item(&id, &message.text, &message.parts),
        Role::Assistant => {
            let part =
                json!({ "type": "output_text", "text": message.text, "annotations": [], "logprobs": [] });
            json!({ "id": id, "type": "message", "status": "completed", "role": "assistant", "content": [part] })
        }
    }
}
