//! `POST /openai/v1/chat/completions`: a conversation that an app answers, as a stream of chunks or as one object.
//!
//! The client sends everything that was said. If it names a thread, only what the thread does not have is new; otherwise
//! a new, archived thread is made for the request, and the run ends if the client goes away. Results of the client's tools
//! continue the run that waits for them.

mod conversation;
mod wire;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::{
    AnswerSchema, ClientTool, Event, NewRun, PersonaSettings, Principal, RunId, Settings, ThreadId,
};
use serde_json::Value;
use service::{Follower, IdempotencyClaim};

use self::conversation::{ConversationAsk, SentConversation, stray_result};
use self::wire::{ChatCompletionRequest, RequestTool};
use super::models::{ChosenApp, chosen_app};
use super::options::{WantedFormat, client_tool, reasoning_effort};
use super::presence::{self, ClientPresence, WhileClientReads};
use super::results::AnsweredRun;
use super::thread_place::{ConversationPlace, ThreadHeader};
use super::{archive, first_line, with_names};
use crate::Api;
use crate::auth::StreamCaller;
use crate::contracts::{AwaitedAnswer, ChatCompletionEncoder, CollectedCompletion, CompletionCollector};
use crate::error::openai::{OpenAiError, failure_status};
use crate::error::{ApiProblem, ProblemCode};
use crate::routes::FollowedEvents;
use crate::stream_permits::StreamPermit;
use crate::upload::{JsonWithFiles, UploadRoom};

/// The message of a run for a client that has sent results of calls which the server does not know. A run needs a
/// message.
const CONTINUE: &str = "Continue with the results of the tools.";

/// Seconds after which a server that is stopping is likely to be back.
const RESTART_RETRY_AFTER: u32 = 2;

/// Answers a conversation, as a stream of chunks or as one object.
#[utoipa::path(
    post,
    path = "/openai/v1/chat/completions",
    params(("X-Thread-Id" = Option<String>, Header, description = "A thread by its id, or by a name that the client has chosen")),
    request_body = ChatCompletionRequest,
    responses((
        status = 200,
        description = "The answer: chunks if `stream` is true, else one object",
        content((crate::contracts::ChatCompletion = "application/json"), (String = "text/event-stream")),
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(in crate::routes) async fn create_chat_completion(
    State(api): State<Api>,
    caller: StreamCaller,
    ThreadHeader(thread): ThreadHeader,
    JsonWithFiles { value, once, room }: JsonWithFiles<ChatCompletionRequest>,
) -> Result<Response, ApiProblem> {
    let principal = caller.principal.clone();
    let chosen = chosen_app(&api, &principal, &value.model)?;
    let app = chosen.app.clone();
    let sent = SentCompletion { request: value, once, room, thread };
    let answer = answer(&api, caller, chosen, sent).await.map_err(in_own_words);
    Ok(api.with_allowance(&principal, &app, answer).await)
}

/// A request as it came.
struct SentCompletion {
    request: ChatCompletionRequest,
    once: Option<IdempotencyClaim>,
    /// Room for files that came along, given back once the message is stored.
    room: Option<UploadRoom>,
    /// The thread that the header names.
    thread: Option<String>,
}

async fn answer(
    api: &Api,
    caller: StreamCaller,
    chosen: ChosenApp,
    SentCompletion { request, once, room, thread }: SentCompletion,
) -> Result<Response, ApiProblem> {
    let principal = caller.principal.clone();
    let form = CompletionForm::read(&request)?;
    let named = thread.or_else(|| request.metadata.as_ref().and_then(|data| data.thread_id.clone()));
    let place = ConversationPlace::find(api, &principal, &chosen.app, named.as_deref()).await?;
    let new = new_run(&request, chosen.model)?;
    let SentConversation { system, turns, ask } = SentConversation::read(request.messages)?;
    let permit = api.may_be_answered(&principal)?;
    // A client that can ask again for the same run, by its thread or its key, does not take it along when it leaves.
    let is_alone = !place.is_bound() && once.is_none();
    let (message, parts) = match ask {
        ConversationAsk::Say { text, parts } => (text, parts),
        ConversationAsk::Results { results, stray } => {
            let of = (chosen.app.as_str(), place.thread());
            if let Some(waiting) = AnsweredRun::find(api, &principal, of, &results).await? {
                let started = continue_run(api, &principal, waiting).await?;
                // Others may wait for this run, and the results can be sent again.
                return respond(api, (caller, permit), (started, None), form).await;
            }
            if let Some(index) = stray {
                return Err(stray_result(index));
            }
            (CONTINUE.to_owned(), Vec::new())
        }
    };
    let (is_bound, title) = (place.is_bound(), first_line(&message));
    let new = NewRun { message: Some(message), parts, system_prompt: system, ..new };
    let new = place.put_run(api, &principal, turns, new).await?;
    let (accepted, follower, presence) =
        presence::submit(api, &principal, (&chosen.app, new, once), is_alone).await?;
    drop(room);
    let started = StartedRun { run: accepted.run, thread: accepted.thread, follower, given: Vec::new() };
    if !is_bound && accepted.start.is_some() {
        archive(api, &principal, started.thread, title).await;
    }
    respond(api, (caller, permit), (started, presence), form).await
}

/// A run whose answer is awaited.
struct StartedRun {
    run: RunId,
    thread: ThreadId,
    follower: Option<Follower>,
    /// Results that the answer continues after. Empty for an answer from its beginning.
    given: Vec<AwaitedAnswer>,
}

/// Gives a run the results that it waits for, and follows it from there.
async fn continue_run(
    api: &Api,
    principal: &Principal,
    waiting: AnsweredRun,
) -> Result<StartedRun, ApiProblem> {
    let (run, thread, given) = (waiting.run, waiting.thread, waiting.awaited_answers());
    waiting.take(api, principal, "messages").await?;
    let follower = api.service.follow_run(principal, run, None).await?;
    Ok(StartedRun { run, thread, follower, given })
}

/// How an answer is given.
struct CompletionForm {
    /// The model as the request names it.
    model: String,
    is_stream: bool,
    with_usage: bool,
}

impl CompletionForm {
    fn read(request: &ChatCompletionRequest) -> Result<Self, ApiProblem> {
        if request.n.is_some_and(|n| n != 1) {
            return Err(ApiProblem::invalid("n", "must be 1; the server gives one answer to a request"));
        }
        let options = request.stream_options.as_ref();
        Ok(Self {
            model: request.model.clone(),
            is_stream: request.stream.unwrap_or(false),
            with_usage: options.and_then(|options| options.include_usage).unwrap_or(false),
        })
    }
}

async fn respond(
    api: &Api,
    (StreamCaller { principal, access }, permit): (StreamCaller, StreamPermit),
    (StartedRun { run, thread, follower, given }, presence): (StartedRun, Option<ClientPresence>),
    CompletionForm { model, is_stream, with_usage }: CompletionForm,
) -> Result<Response, ApiProblem> {
    let follower = follower.ok_or(service::Error::Internal)?;
    let response = if is_stream {
        let encoder = ChatCompletionEncoder::new(model, with_usage).after_answers(given);
        let encoder = WhileClientReads { encoder, presence };
        api.encoded_response(&principal, encoder, FollowedEvents { follower, permit, access })
    } else {
        let collector = CompletionCollector::new(model).after_answers(given);
        let answer = collect_answer(api, follower, collector, presence);
        api.while_allowed(&access, answer).await?
    };
    Ok(with_names(response, run, thread))
}

/// Waits for the whole answer.
async fn collect_answer(
    api: &Api,
    follower: Follower,
    collector: CompletionCollector,
    presence: Option<ClientPresence>,
) -> Result<Response, ApiProblem> {
    let mut presence = presence;
    let outcome = tokio::select! {
        outcome = whole_answer(follower, collector) => outcome,
        () = api.shutdown.all.cancelled() => {
            let detail = "the server is stopping; the run continues after the restart";
            Err(ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(RESTART_RETRY_AFTER))
        }
    };
    if let Some(presence) = &mut presence {
        presence.end();
    }
    Ok(match outcome? {
        Ok(completion) => Answer(completion).into_response(),
        Err(failure) => OpenAiError::of_failure(&failure).into_final_response(failure_status(&failure.code)),
    })
}

async fn whole_answer(
    follower: Follower,
    mut collector: CompletionCollector,
) -> Result<CollectedCompletion, ApiProblem> {
    let mut follower = follower.by_facts();
    while let Some(batch) = follower.next().await? {
        // A row that cannot be read is left out of every contract.
        let events = batch.iter().filter_map(|stored| Event::read(&stored.kind, &stored.body).ok());
        for event in events {
            if let Some(outcome) = collector.read(event) {
                return Ok(outcome);
            }
        }
    }
    Err(service::Error::Internal.into())
}

/// The run as far as it does not depend on the messages.
fn new_run(request: &ChatCompletionRequest, model: Option<String>) -> Result<NewRun, ApiProblem> {
    let effort = request.reasoning_effort.as_deref();
    let settings = Settings {
        temperature: request.temperature,
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
        top_p: request.top_p,
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        reasoning_effort: effort.map(|name| reasoning_effort("reasoning_effort", name)).transpose()?,
        ..Settings::default()
    };
    let mut new = NewRun {
        model,
        settings: PersonaSettings { settings, model: None },
        tools: tools(request)?,
        ..NewRun::default()
    };
    wanted_format(request)?.ask(&mut new);
    Ok(new)
}

fn tools(request: &ChatCompletionRequest) -> Result<Vec<ClientTool>, ApiProblem> {
    let tool = |(index, tool): (usize, &RequestTool)| {
        let function =
            tool.function.as_ref().filter(|_| tool.kind.as_deref().is_none_or(|kind| kind == "function"));
        let unsupported = || {
            let message = "must be function; other kinds of tools are not supported";
            ApiProblem::invalid(format!("tools[{index}].type"), message)
        };
        let function = function.ok_or_else(unsupported)?;
        let (description, parameters) = (function.description.clone(), function.parameters.clone());
        Ok(client_tool(function.name.clone(), description, parameters))
    };
    let tools =
        request.tools.iter().flatten().enumerate().map(tool).collect::<Result<Vec<_>, ApiProblem>>()?;
    let is_none = request.tool_choice.as_ref().and_then(Value::as_str) == Some("none");
    Ok(if is_none { Vec::new() } else { tools })
}

fn wanted_format(request: &ChatCompletionRequest) -> Result<WantedFormat, ApiProblem> {
    let Some(format) = &request.response_format else { return Ok(WantedFormat::Text) };
    let schema = || {
        let missing = || ApiProblem::invalid("response_format.json_schema", "is required, with a schema");
        let named = format.json_schema.as_ref().ok_or_else(missing)?;
        let schema = named.schema.clone().ok_or_else(missing)?;
        Ok(AnswerSchema { name: named.name.clone(), schema })
    };
    WantedFormat::read("response_format.type", &format.kind, schema)
}

/// The problem with the names that fields have in this contract.
fn in_own_words(problem: ApiProblem) -> ApiProblem {
    if problem.field() == Some("model") && problem.code() == ProblemCode::InvalidRequest {
        return ApiProblem::new(ProblemCode::ModelNotFound, problem.detail());
    }
    problem.rename_field(|field| match field {
        "message" | "parts" | "systemPrompt" | "earlier" => Some("messages"),
        "threadId" | "parentId" => Some("thread_id"),
        "settings.temperature" => Some("temperature"),
        "settings.topP" => Some("top_p"),
        "settings.maxTokens" => Some("max_completion_tokens"),
        "settings.frequencyPenalty" => Some("frequency_penalty"),
        "settings.presencePenalty" => Some("presence_penalty"),
        field if field.starts_with("answerSchema") => Some("response_format.json_schema"),
        _ => None,
    })
}
