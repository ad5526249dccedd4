//! The channel of a user: notices about all their apps, and the events of some threads on the same connection.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use protocol::{Seq, ThreadId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Api;
use crate::auth::StreamCaller;
use crate::error::ApiProblem;
use crate::event_stream::{self, StreamSetting};
use crate::query::{AfterParams, LastEvent, LastEventId, place_number, read_params};
use crate::sse::ChannelFrames;

/// The threads to follow.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FollowParams {
    /// Threads to follow on the same connection, at most 20, each with the last seen event: `THREAD:SEQ,THREAD:SEQ`.
    follow: Option<String>,
}

/// The threads that a reader follows, each after its own place.
pub(super) struct FollowedThreads(Vec<(ThreadId, Seq)>);

impl FromRequestParts<Api> for FollowedThreads {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        let follow = read_params::<FollowParams>(parts)?.follow.unwrap_or_default();
        let followed =
            follow.split(',').filter(|_| !follow.is_empty()).map(followed_thread).collect::<Option<_>>();
        followed.map(Self).ok_or_else(|| {
            ApiProblem::invalid(
                "follow",
                "must be a list of threads, each with the number of the last event seen, such as thr_…:12",
            )
        })
    }
}

fn followed_thread(text: &str) -> Option<(ThreadId, Seq)> {
    let (thread, seq) = text.split_once(':')?;
    Some((thread.parse().ok()?, place_number(seq)?))
}

/// Streams the notices of all apps of the user, after the last seen notice or from now on. The stream does not end.
/// With `follow`, the stream also has the events of some threads, without an `id`, each as `{"threadId", "seq",
/// "runId", "data": {…}}`.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(AfterParams, LastEventId, FollowParams),
    responses((status = 200, description = "Notices", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn user_events(
    State(api): State<Api>,
    StreamCaller { principal, access }: StreamCaller,
    FollowedThreads(threads): FollowedThreads,
    LastEvent(after): LastEvent,
) -> Result<Response, ApiProblem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_user(&principal, after, &threads).await?;
    let (heartbeat, shutdown) = (api.limits.heartbeat, api.shutdown.streams.clone());
    let setting = StreamSetting { heartbeat, shutdown, access, permit };
    Ok(event_stream::response_of(follower.into_batches(), ChannelFrames, setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_followed_thread_has_an_id_and_a_number() {
        let id = format!("thr_{}", "0a".repeat(16));
        assert_eq!(followed_thread(&format!("{id}:12")), Some((id.parse().unwrap(), 12)));
        for wrong in ["", ":", "thr_1:2", &id, &format!("{id}:"), &format!("{id}:-1"), &format!("{id}:1:2")] {
            assert_eq!(followed_thread(wrong), None, "{wrong}");
        }
    }
}
