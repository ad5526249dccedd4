//! `/openai/v1/responses`: an app as a model of OpenAI's Responses.
//!
//! A response is a run, or a part of one: a run that waits for the client or the user ends its response, and the results or
//! approvals in the next request continue the run in another response. Everything about a response follows from the log
//! of its run, so it can be read again, and a stream of it resumed, as long as the thread exists.

mod input;
mod request;
pub(super) mod stored_responses;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::{Event, MessageId, NewRun, Principal, RunId, RunView, ThreadId};
use serde_json::Value;
use service::{Follower, IdempotencyClaim};

use self::input::{ReadInput, ResponseAsk};
use self::request::CreateResponse;
use super::models::{ChosenApp, chosen_app};
use super::presence::{self, ClientPresence};
use super::{archive, first_line, with_names};
use crate::Api;
use crate::auth::StreamCaller;
use crate::contracts::{
    ConversationId, ResponseId, ResponseTeller, ResponseWriter, RunPart, StreamPresence, ToldRun, VoidPieces,
};
use crate::error::{ApiProblem, ProblemCode};
use crate::event_stream::StreamState;
use crate::routes::FollowedEvents;
use crate::routes::waiting_run::{GivenAnswers, WaitingRun};
use crate::upload::{JsonWithFiles, UploadRoom};

pub(in crate::routes) use stored_responses::{
    __path_cancel_response, __path_delete_response, __path_get_response, __path_list_input_items,
    cancel_response, delete_response, get_response, list_input_items,
};

/// Seconds after which a server that is stopping is likely to be back.
const RESTART_RETRY_AFTER: u32 = 2;

/// Creates a response: as a stream, as one object when it is complete, or in the background. Unless it is in the background
/// or in a conversation, it is cancelled if its client goes away.
#[utoipa::path(
    post,
    path = "/openai/v1/responses",
    request_body = CreateResponse,
    responses((
        status = 200,
        description = "The response: events if `stream` is true, else one object",
        content((Value = "application/json"), (String = "text/event-stream")),
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(in crate::routes) async fn create_response(
    State(api): State<Api>,
    caller: StreamCaller,
    JsonWithFiles { value, once, room }: JsonWithFiles<CreateResponse>,
) -> Result<Response, ApiProblem> {
    let principal = caller.principal.clone();
    let chosen = chosen_app(&api, &principal, &value.model)?;
    let app = chosen.app.clone();
    let sent = SentRequest { request: value, once, room };
    let answer = answer(&api, caller, chosen, sent).await;
    let answer = answer.map_err(|problem| problem.rename_field(response_field));
    Ok(api.with_allowance(&principal, &app, answer).await)
}

/// A run's field by the name it has in this contract.
fn response_field(field: &str) -> Option<&'static str> {
    match field {
        "message" | "parts" | "earlier" | "result" | "error" => Some("input"),
        "systemPrompt" => Some("instructions"),
        "threadId" => Some("conversation"),
        "parentId" => Some("previous_response_id"),
        "settings.temperature" => Some("temperature"),
        "settings.topP" => Some("top_p"),
        "settings.maxTokens" => Some("max_output_tokens"),
        "settings.reasoningEffort" => Some("reasoning.effort"),
        "settings.outputFormat" | "answerSchema" => Some("text.format"),
        _ => None,
    }
}

/// A request as it came.
struct SentRequest {
    request: CreateResponse,
    once: Option<IdempotencyClaim>,
    /// Room for files that came along, given back once the message is stored.
    room: Option<UploadRoom>,
}

async fn answer(
    api: &Api,
    caller: StreamCaller,
    chosen: ChosenApp,
    SentRequest { mut request, once, room }: SentRequest,
) -> Result<Response, ApiProblem> {
    let principal = caller.principal.clone();
    let missing = || ApiProblem::invalid("input", "is required");
    let input = request.input.take().ok_or_else(missing)?.read()?;
    let new = request.new_run(&chosen.app, chosen.model)?;
    let place = ResponsePlace::find(api, &principal, &chosen.app, &request).await?;
    let form = ResponseForm {
        is_stream: request.stream.unwrap_or(false),
        is_background: request.is_background(),
        // A client that can come back to the run does not take it along when it leaves.
        is_alone: !request.is_background() && request.conversation.is_none() && once.is_none(),
    };
    let ReadInput { mut instructions, earlier, ask } = input;
    instructions.splice(0..0, request.instructions.take());
    instructions.retain(|text| !text.trim().is_empty());
    let permit = api.may_be_answered(&principal)?;
    let started = match ask {
        ResponseAsk::GoOn(given) => place.resume_run(api, &principal, &chosen.app, given).await?,
        ResponseAsk::Say { text, parts } => {
            let system_prompt = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
            let new = NewRun { message: Some(text), parts, system_prompt, earlier, ..new };
            place.submit(api, &principal, (&chosen.app, new, once), form.is_alone).await?
        }
    };
    drop(room);
    let (run, thread) = (started.told.run, started.told.thread);
    let StreamCaller { access, .. } = caller;
    let response = if form.is_stream {
        let presence = started.presence;
        let follower = started.follower.by_facts();
        let teller = ResponseTeller::new(started.told, started.part, None);
        let writer = ResponseWriter::new(teller, started.void, (api.service.clone(), principal), presence);
        api.respond(FollowedEvents { follower, permit, access }, writer)
    } else {
        let object = started.object(api, &principal, form);
        Answer(api.while_allowed(&access, object).await?).into_response()
    };
    Ok(with_names(response, run, thread))
}

/// How an answer is given.
#[derive(Clone, Copy)]
struct ResponseForm {
    is_stream: bool,
    is_background: bool,
    /// Whether no client can read the run after this one has gone away.
    is_alone: bool,
}

impl StreamPresence for Option<ClientPresence> {
    fn end(&mut self) {
        if let Some(presence) = self {
            presence.end();
        }
    }
}

/// A run whose answer is awaited.
struct StartedResponse {
    told: ToldRun,
    part: RunPart,
    follower: Follower,
    void: VoidPieces,
    /// None for a run that goes on without its client. Others may wait for one that is continued.
    presence: Option<ClientPresence>,
}

impl StartedResponse {
    /// The response when it is complete; in the background, as it is now.
    async fn object(self, api: &Api, principal: &Principal, form: ResponseForm) -> Result<Value, ApiProblem> {
        let run = self.told.run;
        let mut teller = ResponseTeller::new(self.told, self.part, None);
        if form.is_background {
            stored_responses::read_facts(api, principal, run, &mut teller).await?;
            return Ok(teller.object());
        }
        let mut presence = self.presence;
        let outcome = tokio::select! {
            outcome = whole_response(self.follower, teller) => outcome,
            () = api.shutdown.all.cancelled() => {
                let detail = format!("the server is stopping; the run continues after the restart, see \
                    /openai/v1/responses/{}", ResponseId { run, part: 0 });
                Err(ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(RESTART_RETRY_AFTER))
            }
        };
        presence.end();
        outcome
    }
}

async fn whole_response(follower: Follower, mut teller: ResponseTeller) -> Result<Value, ApiProblem> {
    let mut follower = follower.by_facts();
    while let Some(batch) = follower.next().await? {
        // A row that cannot be read is left out of every contract.
        for event in batch.iter().filter_map(|stored| Event::read(&stored.kind, &stored.body).ok()) {
            if teller.read_fact(event) == StreamState::Ended {
                return Ok(teller.object());
            }
        }
    }
    Err(service::Error::Internal.into())
}

/// The place that a response belongs to.
#[derive(Default)]
struct ResponsePlace {
    thread: Option<ThreadId>,
    /// The message that it follows; the newest one when absent.
    parent: Option<MessageId>,
    /// The run that it continues.
    previous: Option<RunId>,
}

impl ResponsePlace {
    /// The place that a request names. Makes nothing.
    async fn find(
        api: &Api,
        principal: &Principal,
        app: &str,
        request: &CreateResponse,
    ) -> Result<Self, ApiProblem> {
        match (&request.previous_response_id, &request.conversation) {
            (None, None) => Ok(Self::default()),
            (Some(_), Some(_)) => {
                let detail = "cannot be sent with conversation; send one of them";
                Err(ApiProblem::invalid("previous_response_id", detail))
            }
            (Some(id), None) => Self::after_response(api, principal, app, id).await,
            (None, Some(named)) => {
                let missing = || service::Error::NotFound { what: "conversation" };
                let ConversationId(id) = named.id().parse().map_err(|()| missing())?;
                let thread = api.service.thread(principal, id).await.map_err(|_| missing())?;
                check_app("conversation", app, &thread.app_id)?;
                Ok(Self { thread: Some(id), ..Self::default() })
            }
        }
    }

    async fn after_response(
        api: &Api,
        principal: &Principal,
        app: &str,
        id: &str,
    ) -> Result<Self, ApiProblem> {
        const FIELD: &str = "previous_response_id";
        let missing = || ApiProblem::invalid(FIELD, "there is no response with this id");
        let ResponseId { run, .. } = id.parse().map_err(|()| missing())?;
        let view = match api.service.run(principal, run).await {
            Err(service::Error::NotFound { .. }) => return Err(missing()),
            view => view?,
        };
        check_app(FIELD, app, &view.app_id)?;
        let parent =
            if view.status.is_terminal() { Some(last_message(api, principal, &view).await?) } else { None };
        Ok(Self { thread: Some(view.thread_id), parent, previous: Some(run) })
    }

    async fn submit(
        &self,
        api: &Api,
        principal: &Principal,
        (app, new, once): (&str, NewRun, Option<IdempotencyClaim>),
        is_alone: bool,
    ) -> Result<StartedResponse, ApiProblem> {
        let new = NewRun { thread_id: self.thread, parent_id: self.parent, ..new };
        let title = new.message.as_deref().and_then(first_line);
        let (accepted, follower, presence) =
            presence::submit(api, principal, (app, new, once), is_alone).await?;
        if self.thread.is_none() && accepted.start.is_some() {
            archive(api, principal, accepted.thread, title).await; // the next response brings it back
        }
        let follower = follower.ok_or(service::Error::Internal)?;
        let void = match accepted.start {
            Some(_) => VoidPieces::default(),
            None => VoidPieces::of_facts(&api.service.run_facts(principal, accepted.run).await?),
        };
        let told = told_run(api.service.run(principal, accepted.run).await?);
        Ok(StartedResponse { told, part: RunPart::first(), follower, void, presence })
    }

    /// Gives a run the decisions and results that it waits for, and follows it from there.
    async fn resume_run(
        &self,
        api: &Api,
        principal: &Principal,
        app: &str,
        given: GivenAnswers,
    ) -> Result<StartedResponse, ApiProblem> {
        let thread = match self.thread {
            Some(thread) => thread,
            None => thread_of_words(api, principal, &given).await?,
        };
        // All are looked at before any is taken, so that a refusal has no effect.
        let waits = WaitingRun::find(api, principal, thread, given).await?;
        let run = waits.run;
        if self.previous.is_some_and(|previous| previous != run) {
            let detail = "does not wait for these results or approvals";
            return Err(ApiProblem::invalid("previous_response_id", detail));
        }
        let told = told_run(api.service.run(principal, run).await?);
        check_app("input", app, &told.app)?;
        let part = RunPart::after_answers(waits.awaited_answers());
        waits.take(api, principal).await?;
        let void = VoidPieces::of_facts(&api.service.run_facts(principal, run).await?);
        let follower = api.service.follow_run(principal, run, None).await?.ok_or(service::Error::Internal)?;
        Ok(StartedResponse { told, part, follower, void, presence: None })
    }
}

fn told_run(view: RunView) -> ToldRun {
    ToldRun {
        run: view.id,
        thread: view.thread_id,
        app: view.app_id,
        model: view.model,
        created_at: view.created_at.as_second(),
    }
}

fn check_app(field: &'static str, app: &str, of: &str) -> Result<(), ApiProblem> {
    if app == of {
        return Ok(());
    }
    Err(ApiProblem::invalid(field, format!("belongs to the app {of}; send it with this model")))
}

/// The message that a run has ended with: its answer, or else the message that it was to answer.
async fn last_message(api: &Api, principal: &Principal, run: &RunView) -> Result<MessageId, ApiProblem> {
    let facts = api.service.run_facts(principal, run.id).await?;
    let answer = facts.iter().rev().find_map(|(_, event)| {
        if let Event::StreamComplete(answer) = event {
            Some(answer.message_id)
        } else if let Event::RunEnd(end) = event {
            end.message_id
        } else {
            None
        }
    });
    Ok(answer.unwrap_or(run.message_id))
}

/// The thread of the first decision or result whose call is known.
async fn thread_of_words(
    api: &Api,
    principal: &Principal,
    given: &GivenAnswers,
) -> Result<ThreadId, ApiProblem> {
    for approval in &given.approvals {
        if let Ok(proposal) = api.service.proposal(principal, approval.id).await
            && let Some(thread) = proposal.thread_id
        {
            return Ok(thread);
        }
    }
    for (call, _) in &given.results {
        if let Ok(call) = api.service.client_call(principal, *call).await {
            return Ok(call.thread_id);
        }
    }
    Err(ApiProblem::invalid("input", "no run waits for these results or approvals"))
}
