//! A run that only its client waits for ends with its client.
//!
//! A conversation that is bound to no thread has no other way to its answer than the response. If the client goes away
//! before the end, the run is cancelled. The end of the server is not the client's end: such a run continues.

use protocol::{Event, NewRun, Principal, RunId};
use service::{AcceptedRun, Follower, IdempotencyClaim, Service};
use tokio_util::sync::CancellationToken;

use crate::Api;
use crate::contracts::{AwaitedAnswer, Encoder};
use crate::error::ApiProblem;
use crate::event_stream::StreamState;

/// Cancels a run when it is dropped, unless the answer has been told to its end.
pub(super) struct ClientPresence {
    service: Service,
    principal: Principal,
    run: RunId,
    shutdown: CancellationToken,
    is_over: bool,
}

impl ClientPresence {
    fn new(api: &Api, principal: &Principal, run: RunId) -> Self {
        let (service, shutdown) = (api.service.clone(), api.shutdown.streams.clone());
        Self { service, principal: principal.clone(), run, shutdown, is_over: false }
    }

    /// The run no longer depends on its client.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }
}

impl Drop for ClientPresence {
    fn drop(&mut self) {
        if !self.is_over && !self.shutdown.is_cancelled() {
            self.service.cancel_in_background(&self.principal, self.run);
        }
    }
}

/// Submits a run. With `is_alone`, no other client can read the run, so its client is watched from then on.
pub(super) async fn submit(
    api: &Api,
    principal: &Principal,
    (app, new, once): (&str, NewRun, Option<IdempotencyClaim>),
    is_alone: bool,
) -> Result<(AcceptedRun, Option<Follower>, Option<ClientPresence>), ApiProblem> {
    if !is_alone {
        let (accepted, follower) = api.service.submit_and_follow(principal, app, new, once).await?;
        return Ok((accepted, follower, None));
    }
    let (accepted, follower) = api.service.submit_while_waited_for(principal, app, new, once).await?;
    let presence = ClientPresence::new(api, principal, accepted.run);
    Ok((accepted, follower, Some(presence)))
}

/// An encoder whose run is cancelled if its stream is dropped before its end.
pub(super) struct WhileClientReads<E> {
    pub(super) encoder: E,
    /// None if the run does not depend on its client.
    pub(super) presence: Option<ClientPresence>,
}

impl<E> WhileClientReads<E> {
    fn end(&mut self) {
        if let Some(presence) = &mut self.presence {
            presence.end();
        }
    }
}

impl<E: Encoder> Encoder for WhileClientReads<E> {
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        let state = self.encoder.write(event, out);
        if state == StreamState::Ended {
            self.end();
        }
        state
    }

    fn cut(&mut self, why: &str, out: &mut Vec<u8>) {
        self.end();
        self.encoder.cut(why, out);
    }

    fn waits_for(&self) -> Vec<AwaitedAnswer> {
        self.encoder.waits_for()
    }

    fn park(&mut self, out: &mut Vec<u8>) {
        self.end();
        self.encoder.park(out);
    }
}
