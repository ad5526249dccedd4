//! Sessions of clients of the older protocol. A session is kept only for a client that can be asked for an approval: its
//! answer comes in a request of its own, which has to find the call that waits for it.
//!
//! A session belongs to the user and the proof that opened it. For all others it does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use protocol::UserId;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionHandle, LocalSessionManagerError, LocalSessionWorker, SessionConfig, SessionError,
    StreamableHttpMessageReceiver, create_local_session,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use uuid::Uuid;

use crate::auth::AccessProof;

/// Sessions of all users. A client for whom there is no room is served without one.
const MAX_SESSIONS: usize = 1024;

/// Sessions of one user. One more ends the session that was not used for longest.
const MAX_SESSIONS_PER_USER: usize = 16;

/// How long a session may be idle. A client whose session has ended begins another.
const MAX_IDLE: Duration = Duration::from_secs(30 * 60);

/// The holder of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionOwner {
    pub(super) user: UserId,
    pub(super) proof: AccessProof,
}

/// All open sessions.
pub(crate) struct McpSessions {
    room: Arc<Semaphore>,
    /// Locked for a look-up, never over an await.
    open: Mutex<OpenSessions>,
    /// Ends all sessions.
    stop: CancellationToken,
    /// Everything that answers a request, in a session or not. The server waits for its end.
    tasks: TaskTracker,
}

#[derive(Default)]
struct OpenSessions {
    by_id: HashMap<SessionId, OpenSession>,
    /// Counts uses, so that the session that was not used for longest has the least number.
    uses: u64,
}

struct OpenSession {
    handle: LocalSessionHandle,
    owner: SessionOwner,
    used: u64,
    /// Given back with the session.
    _room: OwnedSemaphorePermit,
}

/// Room for one more session.
pub(super) struct SessionRoom(OwnedSemaphorePermit);

impl McpSessions {
    pub(crate) fn new(stop: CancellationToken, tasks: TaskTracker) -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_SESSIONS)), open: Mutex::default(), stop, tasks }
    }

    /// Held by what answers a request, for as long as it lives.
    pub(super) fn task_token(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// Room for one more session, if there is any.
    pub(super) fn reserve(&self) -> Option<SessionRoom> {
        Arc::clone(&self.room).try_acquire_owned().ok().map(SessionRoom)
    }

    fn lock(&self) -> MutexGuard<'_, OpenSessions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSessions {
    /// Takes the session of this user that was not used for longest, if they have all that they may have.
    fn take_oldest(&mut self, user: &UserId) -> Option<OpenSession> {
        let of_user = self.by_id.iter().filter(|(_, session)| session.owner.user == *user);
        let mut by_use: Vec<(u64, SessionId)> =
            of_user.map(|(id, session)| (session.used, Arc::clone(id))).collect();
        if by_use.len() < MAX_SESSIONS_PER_USER {
            return None;
        }
        by_use.sort_unstable();
        self.by_id.remove(&by_use.into_iter().next()?.1)
    }

    /// The session, if it belongs to this owner, who uses it now.
    fn find(&mut self, id: &SessionId, owner: &SessionOwner) -> Option<LocalSessionHandle> {
        self.uses += 1;
        let uses = self.uses;
        let session = self.by_id.get_mut(id).filter(|session| session.owner == *owner)?;
        session.used = uses;
        Some(session.handle.clone())
    }
}

/// The sessions as one owner sees them.
pub(super) struct OwnedSessions {
    pub(super) all: Arc<McpSessions>,
    pub(super) owner: SessionOwner,
    /// Taken by the session that this request opens.
    room: Mutex<Option<SessionRoom>>,
}

impl OwnedSessions {
    pub(super) fn new(all: Arc<McpSessions>, owner: SessionOwner, room: Option<SessionRoom>) -> Self {
        Self { all, owner, room: Mutex::new(room) }
    }

    fn handle(&self, id: &SessionId) -> Result<LocalSessionHandle, LocalSessionManagerError> {
        let found = self.all.lock().find(id, &self.owner);
        found.ok_or_else(|| LocalSessionManagerError::SessionNotFound(Arc::clone(id)))
    }
}

impl SessionManager for OwnedSessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).take();
        let SessionRoom(room) = room.ok_or(SessionError::SessionServiceTerminated)?;
        // Random and not by time, because a client that knows one id must not be able to guess another.
        let id: SessionId = Uuid::new_v4().to_string().into();
        let mut config = SessionConfig::default();
        config.keep_alive = Some(MAX_IDLE);
        config.sse_retry = None;
        let (handle, worker) = create_local_session(Arc::clone(&id), config);
        let oldest = {
            let mut open = self.all.lock();
            let oldest = open.take_oldest(&self.owner.user);
            open.uses += 1;
            let (owner, used) = (self.owner.clone(), open.uses);
            open.by_id.insert(Arc::clone(&id), OpenSession { handle, owner, used, _room: room });
            oldest
        };
        if let Some(oldest) = oldest {
            // It may have ended by itself.
            drop(oldest.handle.close().await);
        }
        Ok((id, WorkerTransport::spawn_with_ct(worker, self.all.stop.child_token())))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.handle(id)?.initialize(message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.handle(id).is_ok())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let taken = {
            let mut open = self.all.lock();
            let is_own = open.find(id, &self.owner).is_some();
            if is_own { open.by_id.remove(id) } else { None }
        };
        match taken {
            // One that has ended by itself is closed as well.
            Some(session) => match session.handle.close().await {
                Ok(()) | Err(SessionError::SessionServiceTerminated) => Ok(()),
                Err(error) => Err(error.into()),
            },
            None => Ok(()),
        }
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let handle = self.handle(id)?;
        let receiver = handle.establish_request_wise_channel().await?;
        handle.push_message(message, receiver.http_request_id).await?;
        Ok(messages(receiver))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.handle(id)?.push_message(message, None).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(messages(self.handle(id)?.establish_common_channel().await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(messages(self.handle(id)?.resume(last_event_id.parse()?).await?))
    }
}

fn messages(
    mut receiver: StreamableHttpMessageReceiver,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync {
    stream::poll_fn(move |cx| receiver.inner.poll_recv(cx))
}
