//! Calls of tools: arguments in, one request of the service, a result out.

use std::time::Duration;

use protocol::{
    AppId, CallId, MemoryId, MemoryQuery, MemoryView, NewCallResult, NewMemory, NewRun, ProposalId, RunId,
    RunView, ThreadId,
};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::{Value, json};
use service::{AcceptedRun, Added};
use tokio::time::timeout;

use super::McpCaller;
use super::approvals::{ElicitedDecision, record_decision};
use super::ask::{AskCall, AskedRun, access_over};
use super::report::{run_report, structured_result};
use crate::Api;
use crate::error::ApiProblem;
use crate::event_stream::access_end;
use crate::idempotency::keyed_request;

/// The longest time that `get` waits, in seconds.
const MAX_WAIT_SECONDS: u64 = 60;

/// A message to the agent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct McpMessage {
    message: String,
    thread: Option<ThreadId>,
    app: Option<String>,
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GetArguments {
    run: RunId,
    wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerArguments {
    id: String,
    approve: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<String>,
}

/// A value that is there, null included.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    run: RunId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    limit: Option<u32>,
    app: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryArguments {
    text: String,
    kind: Option<String>,
    app: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetArguments {
    id: MemoryId,
}

/// One call of a tool of this server.
pub(super) struct McpToolCall<'a> {
    pub(super) api: &'a Api,
    pub(super) caller: &'a McpCaller,
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl McpToolCall<'_> {
    /// The result of a tool that there is, and that the caller may use.
    pub(super) async fn perform(
        &self,
        request: CallToolRequestParams,
    ) -> Result<CallToolResponse, ApiProblem> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = arguments.unwrap_or_default();
        if name == "ask" {
            let Self { api, caller, context } = *self;
            let call = match request_state {
                Some(state) => AskCall::Repeated { state, answers: input_responses.unwrap_or_default() },
                None => AskCall::New(read(arguments)?),
            };
            return Box::pin(AskedRun { api, caller, context }.answer(call)).await;
        }
        let result = match name.as_ref() {
            "start" => self.start(read(arguments)?).await,
            "get" => self.get(read(arguments)?).await,
            "answer" => self.answer(read(arguments)?).await,
            "cancel" => self.cancel(read(arguments)?).await,
            "search_memories" => self.search_memories(read(arguments)?).await,
            "add_memory" => self.add_memory(read(arguments)?).await,
            _ => self.forget_memory(read(arguments)?).await,
        };
        result.map(CallToolResponse::from)
    }

    async fn start(&self, message: McpMessage) -> Result<CallToolResult, ApiProblem> {
        let AcceptedRun { run, thread, .. } = submit(self.api, self.caller, message).await?;
        Ok(structured_result(&json!({ "run": run, "thread": thread })))
    }

    async fn get(
        &self,
        GetArguments { run, wait_seconds }: GetArguments,
    ) -> Result<CallToolResult, ApiProblem> {
        let (service, principal) = (&self.api.service, &self.caller.principal);
        let seconds = wait_seconds.unwrap_or_default();
        if seconds > MAX_WAIT_SECONDS {
            let message = format!("must be at most {MAX_WAIT_SECONDS}");
            return Err(ApiProblem::invalid("waitSeconds", message));
        }
        if seconds > 0 {
            let _permit = self.api.may_be_answered(principal)?;
            let waited = async {
                tokio::select! {
                    () = self.context.ct.cancelled() => Ok(()),
                    () = access_end(&self.caller.access) => self.end_without_access(),
                    result = service.result(principal, run) => result.map(drop).map_err(ApiProblem::from),
                }
            };
            timeout(Duration::from_secs(seconds), waited).await.unwrap_or(Ok(()))?;
        }
        Ok(run_report(service.result_so_far(principal, run).await?, None))
    }

    /// A server that stops tells what it has; an access that has ended tells nothing.
    fn end_without_access(&self) -> Result<(), ApiProblem> {
        if self.api.shutdown.streams.is_cancelled() { Ok(()) } else { Err(access_over()) }
    }

    async fn answer(&self, arguments: AnswerArguments) -> Result<CallToolResult, ApiProblem> {
        let AnswerArguments { id, approve, result, error } = arguments;
        if let Ok(proposal) = id.parse::<ProposalId>() {
            if result.is_some() || error.is_some() {
                return Err(ApiProblem::invalid("result", "is for calls; an approval takes `approve` alone"));
            }
            let approve =
                approve.ok_or_else(|| ApiProblem::invalid("approve", "is required: true or false"))?;
            return self.decide(proposal, approve).await;
        }
        let call: CallId = id
            .parse()
            .map_err(|_| ApiProblem::invalid("id", "must be the id of an approval or of a call"))?;
        if approve.is_some() {
            return Err(ApiProblem::invalid("approve", "is for approvals; a call takes `result` or `error`"));
        }
        let answer = NewCallResult { result: result.map(Some), error };
        let call = self.api.service.answer_client_call(&self.caller.principal, call, answer, None).await?;
        Ok(structured_result(&json!({ "id": call.id, "status": call.status, "run": call.run_id })))
    }

    async fn decide(&self, id: ProposalId, approve: bool) -> Result<CallToolResult, ApiProblem> {
        let (service, principal) = (&self.api.service, &self.caller.principal);
        let decision = if approve { ElicitedDecision::Approve } else { ElicitedDecision::Reject };
        record_decision(service, principal, id, decision).await?;
        let proposal = service.proposal(principal, id).await?;
        let mut told = json!({ "id": id, "status": proposal.status });
        if let (Some(fields), Some(run)) = (told.as_object_mut(), proposal.run_id) {
            fields.insert("run".into(), json!(run));
        }
        Ok(structured_result(&told))
    }

    async fn cancel(&self, RunArguments { run }: RunArguments) -> Result<CallToolResult, ApiProblem> {
        let RunView { id, thread_id, status, cancel_requested, .. } =
            self.api.service.cancel(&self.caller.principal, run, None).await?;
        let told =
            json!({ "run": id, "thread": thread_id, "status": status, "cancelRequested": cancel_requested });
        Ok(structured_result(&told))
    }

    async fn search_memories(&self, arguments: SearchArguments) -> Result<CallToolResult, ApiProblem> {
        let SearchArguments { query, limit, app } = arguments;
        let app = app_of(self.api, self.caller, app)?;
        let query = MemoryQuery { query, limit };
        let found = self.api.service.search_memories(&self.caller.principal, &app, query).await?;
        let hits: Vec<Value> =
            found.data.into_iter().map(|hit| memory(&hit.memory, ("score", json!(hit.score)))).collect();
        Ok(structured_result(&json!({ "memories": hits })))
    }

    async fn add_memory(&self, arguments: MemoryArguments) -> Result<CallToolResult, ApiProblem> {
        let MemoryArguments { text, kind, app } = arguments;
        let app = app_of(self.api, self.caller, app)?;
        let new = NewMemory { text, kind };
        let added = self.api.service.create_memory(&self.caller.principal, &app, new, None).await?;
        let (view, is_new) = match added {
            Added::New(view) => (view, true),
            Added::Known(view) => (view, false),
        };
        Ok(structured_result(&memory(&view, ("isNew", json!(is_new)))))
    }

    async fn forget_memory(
        &self,
        ForgetArguments { id }: ForgetArguments,
    ) -> Result<CallToolResult, ApiProblem> {
        self.api.service.forget_memory(&self.caller.principal, id, None).await?;
        Ok(structured_result(&json!({ "id": id, "forgotten": true })))
    }
}

/// Sends a message. Under a key that was used before, it is the run of then.
pub(super) async fn submit(
    api: &Api,
    caller: &McpCaller,
    message: McpMessage,
) -> Result<AcceptedRun, ApiProblem> {
    let McpMessage { message, thread, app, idempotency_key } = message;
    let app = match (app, thread) {
        // A conversation is in one app, so its messages need not name the app again.
        (None, Some(thread)) => api.service.thread(&caller.principal, thread).await?.app_id,
        (app, _) => app_of(api, caller, app)?,
    };
    let of_thread = thread.map(|thread| thread.to_string()).unwrap_or_default();
    let asked = [b"mcp message".as_slice(), app.as_bytes(), of_thread.as_bytes(), message.as_bytes()];
    let once = idempotency_key.map(|key| keyed_request(&key, &asked)).transpose()?;
    let new = NewRun { message: Some(message), thread_id: thread, ..NewRun::default() };
    Ok(api.service.submit(&caller.principal, &app, new, once).await?)
}

/// The app that a call is about: the one of the path, the one it names, or the usual one.
fn app_of(api: &Api, caller: &McpCaller, named: Option<String>) -> Result<String, ApiProblem> {
    match (&caller.app, named) {
        (Some(app), None) => Ok(app.clone()),
        (Some(app), Some(named)) if *app == named => Ok(named),
        (Some(_), Some(_)) => Err(ApiProblem::invalid("app", "is not the app of this address")),
        (None, Some(named)) => Ok(named),
        (None, None) => {
            let apps = visible_apps(api, caller);
            let usual = service::default_app(api.chat_app.as_deref(), &apps).map(str::to_owned);
            usual.ok_or_else(|| {
                let message = "is required, because there are several apps and server.chat_app is not set";
                ApiProblem::invalid("app", message)
            })
        }
    }
}

/// The apps that the caller may use, in the order of their names.
pub(super) fn visible_apps(api: &Api, caller: &McpCaller) -> Vec<String> {
    let may_use = |app: &String| caller.principal.may_use(&AppId::new(app.as_str()));
    let mut apps: Vec<String> = api.service.apps().into_iter().map(|app| app.id).filter(may_use).collect();
    apps.sort_unstable();
    apps
}

fn memory(view: &MemoryView, (name, value): (&str, Value)) -> Value {
    let mut told =
        json!({ "id": view.id, "text": view.text, "kind": view.kind, "updatedAt": view.updated_at });
    if let Some(fields) = told.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
    told
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ApiProblem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ApiProblem::invalid("arguments", error.to_string()))
}
