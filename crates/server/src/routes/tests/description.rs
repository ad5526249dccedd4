//! The description as the attributes on handlers and types have it, with what holds for all routes.

use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, PathItem, Ref, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::openai::{OpenAiErrorBody, is_openai_path};
use crate::error::{MEDIA_TYPE, ProblemDocument};
use crate::routes::*;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rondo",
        description = "An agent server. Event streams send the event schemas below as `data:`, the event's name as \
                       `event:` and its place in the thread's log as `id:`."
    ),
    components(schemas(
        ProblemDocument,
        OpenAiErrorBody,
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
        protocol::ProposalOpen,
        protocol::ProposalClosed,
        protocol::CallOpen,
        protocol::Source,
        protocol::StreamComplete,
        protocol::RunEnd,
        protocol::ThreadNamed,
        protocol::ThreadHead,
        protocol::ThreadChanged,
        protocol::MemoryUpdate,
        protocol::Summary,
        protocol::Snapshot,
        protocol::ThreadNotice,
        protocol::RunNotice,
        protocol::CallNotice,
        protocol::ProposalNotice,
        protocol::MemoryNotice,
        protocol::DocumentNotice,
    ))
)]
struct Description;

macro_rules! described {
    ($($tag:literal: $($module:ident::$handler:ident),+;)+) => {
        OpenApiRouter::with_openapi(Description::openapi())
            $(.merge(tagged($tag, OpenApiRouter::new()$(.routes(routes!($module::$handler)))+)))+
    };
}

/// The finished description. Any request may carry a key and be answered with a problem; what changes something may be
/// sent again under an idempotency key.
pub(super) fn description() -> utoipa::openapi::OpenApi {
    let mut api = for_described_routes!(described).into_openapi();
    let paths = std::mem::take(&mut api.paths.paths);
    // The router's word for the rest of a path is not OpenAPI's.
    api.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for (path, item) in &mut api.paths.paths {
        let changes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        // A search is posted only because a question may be long.
        for operation in changes.into_iter().flatten().filter(|_| !path.ends_with("/search")) {
            operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
        }
        for operation in operations(item) {
            let problem = if is_openai_path(path) { openai_problem() } else { problem() };
            operation.responses.responses.insert("default".into(), problem.into());
        }
    }
    if let Some(components) = &mut api.components {
        components.add_security_scheme("key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
    // No key is needed as long as there is none.
    api.security = Some(vec![SecurityRequirement::new("key", [""; 0]), SecurityRequirement::default()]);
    api
}

/// The router, with all that it describes under one tag.
fn tagged(tag: &str, mut router: OpenApiRouter<Api>) -> OpenApiRouter<Api> {
    for operation in router.get_openapi_mut().paths.paths.values_mut().flat_map(operations) {
        operation.tags = Some(vec![tag.to_owned()]);
    }
    router
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

fn idempotency_key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some("An idempotency key: a repeated request with the same key takes effect once"))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).build()))
        .build()
}

fn problem() -> Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new().description("The problem").content(MEDIA_TYPE, Content::new(Some(schema))).build()
}

fn openai_problem() -> Response {
    let content = Content::new(Some(Ref::from_schema_name("OpenAiErrorBody")));
    ResponseBuilder::new().description("The problem").content("application/json", content).build()
}
