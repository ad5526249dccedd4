//! The description at `/openapi.json`: collected from the routes, with the problem document on every one of them.

use bytes::Bytes;
use utoipa::OpenApi;
use utoipa::openapi::{Content, Ref, Response, ResponseBuilder};

use crate::error::{Document, MEDIA_TYPE};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rondo",
        description = "An agent server. Event streams send the event schemas below as `data:`, the event's name as \
                       `event:` and its place in the thread's log as `id:`."
    ),
    components(schemas(
        Document,
        protocol::MessageUser,
        protocol::RunStart,
        protocol::ContextLoaded,
        protocol::StepStart,
        protocol::TextDelta,
        protocol::ReasoningDelta,
        protocol::ToolInput,
        protocol::StepEnd,
        protocol::StepRetry,
        protocol::StepReset,
        protocol::ToolStart,
        protocol::ToolComplete,
        protocol::StreamComplete,
        protocol::RunEnd,
        protocol::ThreadNamed,
        protocol::Snapshot,
    ))
)]
struct Description;

/// What there is to say before any route is added.
pub(crate) fn base() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

/// The finished description. Any request may be answered with a problem.
pub(crate) fn encode(mut api: utoipa::openapi::OpenApi) -> Bytes {
    let items = api.paths.paths.values_mut();
    let operations =
        items.flat_map(|item| [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete]);
    for operation in operations.flatten() {
        operation.responses.responses.insert("default".into(), problem().into());
    }
    Bytes::from(serde_json::to_vec(&api).unwrap_or_default())
}

fn problem() -> Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description("What went wrong")
        .content(MEDIA_TYPE, Content::new(Some(schema)))
        .build()
}
