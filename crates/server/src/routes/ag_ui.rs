//! `POST /ag-ui/{app}`: an app as an agent of AG-UI 1.0, as its `HttpAgent` speaks to it.
//!
//! The client names its threads and runs, and sends everything that was said. The thread knows that already, so only the
//! end of the messages counts: a message of the user, or results of the front end's tools. The id of a run is the key
//! under which it is meant once.

mod request;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{MemoryId, NewRun, Principal, RunId, ThreadId};
use service::{Follower, IdempotencyClaim, PageQuery};
use sha2::{Digest, Sha256};

use self::request::{AgUiAsk, RunAgentInput};
use crate::Api;
use crate::auth::StreamCaller;
use crate::contracts::{AgUiEncoder, AgUiNames, ChatKey, MemoryState, RunPart, VoidPieces};
use crate::error::ApiProblem;
use crate::path::AppPath;
use crate::routes::FollowedEvents;
use crate::routes::api_chat::thread;
use crate::routes::waiting_run::{GivenAnswers, WaitingRun};
use crate::upload::JsonWithFiles;

/// Memories in the state, the newest.
const MAX_STATE_MEMORIES: u32 = 100;

/// Runs an app as an agent of AG-UI. A client that disconnects does not stop the run.
#[utoipa::path(
    post,
    path = "/ag-ui/{app}",
    params(AppPath),
    request_body = RunAgentInput,
    responses((
        status = 200,
        description = "A stream of AG-UI events",
        body = String,
        content_type = "text/event-stream",
        headers(("x-run-id" = String), ("x-thread-id" = String))
    ))
)]
pub(super) async fn run_agent(
    State(api): State<Api>,
    caller: StreamCaller,
    AppPath { app }: AppPath,
    JsonWithFiles { value: input, once: _, room }: JsonWithFiles<RunAgentInput>,
) -> Result<Response, ApiProblem> {
    let principal = caller.principal.clone();
    let ask = input.ask()?;
    let place = AgUiPlace::find(&api, &principal, app, &input).await?;
    let answer = match ask {
        AgUiAsk::Say { text, parts } => {
            let message = NewRun { message: Some(text), parts, ..place.run(&input)? };
            let answer = place.submit(&api, caller, message, &input).await;
            drop(room);
            answer
        }
        AgUiAsk::GoOn(given) => place.resume_run(&api, caller, given, &input).await,
    };
    let answer = answer.map_err(|problem| problem.rename_field(ag_ui_field));
    Ok(api.with_allowance(&principal, &place.app, answer).await)
}

/// A run's field by the name it has in this contract.
fn ag_ui_field(field: &str) -> Option<&'static str> {
    match field {
        "message" | "parts" | "earlier" | "result" | "error" => Some("messages"),
        "systemPrompt" => Some("context"),
        "model" | "personaId" => Some("forwardedProps"),
        _ => None,
    }
}

/// The place that a request belongs to.
struct AgUiPlace {
    app: String,
    thread: ThreadId,
    /// Whether its thread is there. One that is not is made with its first run.
    is_there: bool,
}

impl AgUiPlace {
    /// The thread that the client names by its id, or the one that is made for its name. Makes nothing.
    async fn find(
        api: &Api,
        principal: &Principal,
        app: String,
        input: &RunAgentInput,
    ) -> Result<Self, ApiProblem> {
        if let Ok(named) = input.thread_id.parse()
            && thread(api, principal, Some(&app), named).await?.is_some()
        {
            return Ok(Self { app, thread: named, is_there: true });
        }
        let of = ChatKey::new(principal, &app, &input.thread_id).thread();
        let is_there = thread(api, principal, Some(&app), of).await?.is_some();
        Ok(Self { app, thread: of, is_there })
    }

    /// A run here, without its message.
    fn run(&self, input: &RunAgentInput) -> Result<NewRun, ApiProblem> {
        Ok(NewRun {
            thread_id: Some(self.thread).filter(|_| self.is_there),
            chat: Some(self.thread),
            model: input.forwarded_text("model"),
            persona_id: input.forwarded_text("personaId"),
            system_prompt: input.system_prompt()?,
            tools: input.tools(),
            earlier: if self.is_there { Vec::new() } else { input.earlier_turns() },
            ..NewRun::default()
        })
    }

    /// The key under which a run of the client is meant once.
    fn key_of_run(&self, new: &NewRun, input: &RunAgentInput) -> IdempotencyClaim {
        let digest = |parts: &[&str]| {
            let mut hash = Sha256::new();
            for part in parts {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
            <[u8; 32]>::from(hash.finalize())
        };
        let (thread, run) = (self.thread.to_string(), input.run_id.as_str());
        let key: String = digest(&[&thread, run]).iter().map(|byte| format!("{byte:02x}")).collect();
        let message = new.message.as_deref().unwrap_or_default();
        IdempotencyClaim {
            key: format!("ag-ui-{key}"),
            fingerprint: digest(&["ag-ui", &thread, run, message]),
        }
    }

    async fn state(
        &self,
        api: &Api,
        principal: &Principal,
        input: &RunAgentInput,
    ) -> Result<MemoryState, ApiProblem> {
        let page = PageQuery { limit: Some(MAX_STATE_MEMORIES), cursor: None };
        let page = api.service.memories(principal, &self.app, None, page).await?;
        let mut memories: Vec<(MemoryId, String)> =
            page.data.into_iter().map(|memory| (memory.id, memory.text)).collect();
        memories.reverse();
        Ok(MemoryState::new(input.state.clone(), memories))
    }

    /// Starts a run, or finds the one that was started under this id, and streams it from its beginning.
    async fn submit(
        &self,
        api: &Api,
        caller: StreamCaller,
        new: NewRun,
        input: &RunAgentInput,
    ) -> Result<Response, ApiProblem> {
        let StreamCaller { principal, access } = caller;
        let principal = &principal;
        let permit = api.may_be_answered(principal)?;
        let state = self.state(api, principal, input).await?;
        let once = self.key_of_run(&new, input);
        let (accepted, follower) =
            api.service.submit_and_follow(principal, &self.app, new, Some(once)).await?;
        let void = match &accepted.start {
            Some(_) => VoidPieces::default(),
            None => void_pieces(api, principal, accepted.run).await?,
        };
        let encoder = AgUiEncoder::new(names(input), RunPart::first(), state);
        let stream = |follower: Follower| {
            api.encoded_late(principal, encoder, void, FollowedEvents { follower, permit, access })
        };
        let mut response = stream_or_nothing(follower.map(stream), accepted.run, accepted.thread);
        if let Some(start) = &accepted.start {
            response.headers_mut().extend(api.allowance_with(principal, &self.app, &start.used));
        }
        Ok(response)
    }

    /// Takes the decisions and results that a run waits for, and streams what follows from them.
    async fn resume_run(
        &self,
        api: &Api,
        StreamCaller { principal, access }: StreamCaller,
        given: GivenAnswers,
        input: &RunAgentInput,
    ) -> Result<Response, ApiProblem> {
        let principal = &principal;
        let permit = api.may_be_answered(principal)?;
        let state = self.state(api, principal, input).await?;
        // All are looked at before any is taken, so that a refusal has no effect.
        let waits = WaitingRun::find(api, principal, self.thread, given).await?;
        let (run, part) = (waits.run, RunPart::after_answers(waits.awaited_answers()));
        waits.take(api, principal).await?;
        let void = void_pieces(api, principal, run).await?;
        let encoder = AgUiEncoder::new(names(input), part, state);
        let follower = api.service.follow_run(principal, run, None).await?;
        let stream = |follower: Follower| {
            api.encoded_late(principal, encoder, void, FollowedEvents { follower, permit, access })
        };
        Ok(stream_or_nothing(follower.map(stream), run, self.thread))
    }
}

fn names(input: &RunAgentInput) -> AgUiNames {
    AgUiNames { thread: input.thread_id.clone(), run: input.run_id.clone() }
}

async fn void_pieces(api: &Api, principal: &Principal, run: RunId) -> Result<VoidPieces, ApiProblem> {
    Ok(VoidPieces::of_facts(&api.service.run_facts(principal, run).await?))
}

fn stream_or_nothing(stream: Option<Response>, run: RunId, thread: ThreadId) -> Response {
    let headers = [("x-run-id", run.to_string()), ("x-thread-id", thread.to_string())];
    (headers, stream.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response())).into_response()
}
