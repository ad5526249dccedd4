//! The methods of the Model Context Protocol, for a caller who is known already.

use axum::http::request::Parts;
use protocol::Right;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::calls::{McpToolCall, visible_apps};
use super::report::failed_result;
use super::tool_list::{find_tool, listed_tools};
use super::{McpCaller, resources};
use crate::Api;
use crate::error::{ApiProblem, ProblemCode};

const INSTRUCTIONS: &str = "An agent with its own memory, files and tools. ask sends a message and waits for the \
    answer; start sends one and returns at once, and get shows what came of it. Runs are durable: they continue when a \
    call is cancelled or a connection breaks. Give thread to continue a conversation.";

/// Methods that this server knows. A request of one that rmcp cannot read has wrong parameters.
const KNOWN_METHODS: [&str; 7] = [
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "notifications/initialized",
];

/// Methods of the older protocol alone.
const OLDER_METHODS: [&str; 2] = ["initialize", "ping"];

/// Answers the requests of all callers. The caller is in each request.
#[derive(Clone)]
pub(super) struct McpHandler {
    pub(super) api: Api,
    /// Lets the server wait for its end.
    pub(super) _task: TaskTrackerToken,
}

/// The caller, whom the route has put into the request.
fn caller(context: &RequestContext<RoleServer>) -> Result<McpCaller, ErrorData> {
    let caller = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<McpCaller>());
    caller.cloned().ok_or_else(|| ErrorData::internal_error("the caller is not known", None))
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let server = Implementation::new("rondo", env!("CARGO_PKG_VERSION")).with_title("Rondo");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(&context)?;
        if request.is_some_and(|request| request.cursor.is_some()) {
            return Err(ErrorData::invalid_params("the tools are one page, which has no cursor", None));
        }
        let apps = visible_apps(&self.api, &caller);
        Ok(ListToolsResult::with_all_items(listed_tools(|right| caller.principal.has(right), &apps)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = caller(&context)?;
        let Some(tool) = find_tool(&request.name) else {
            return Err(ErrorData::invalid_params(
                "there is no tool of this name; tools/list shows all tools",
                None,
            ));
        };
        if !caller.principal.has(tool.right) {
            return Ok(failed_result(&lacks_right(tool.right)).into());
        }
        let call = McpToolCall { api: &self.api, caller: &caller, context: &context };
        let result = call.perform(request).await;
        Ok(result.unwrap_or_else(|problem| failed_result(&problem).into()))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.api, &caller(&context)?, request).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates(&caller(&context)?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read(&self.api, &caller(&context)?, &request).await?.into())
    }

    /// There are no prompts, and the server does not say that there are.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    /// Nothing is completed, and the server does not say that it is.
    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let newer = ProtocolVersion::V_2026_07_28;
        let is_older = context.protocol_version().is_none_or(|version| version.as_str() < newer.as_str());
        let method = request.method.as_str();
        if KNOWN_METHODS.contains(&method) || is_older && OLDER_METHODS.contains(&method) {
            return Err(ErrorData::invalid_params("the parameters do not fit the method", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this server has no such method", None))
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {}
}

fn lacks_right(right: Right) -> ApiProblem {
    let detail = format!("this tool needs the right `{}`, which your key does not have", right.name());
    ApiProblem::new(ProblemCode::Forbidden, detail)
}
