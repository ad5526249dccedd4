//! Errors that a client is answered, by what the client can do about them.

use protocol::{Allowance, ClientCallStatus, Quota};

/// Every message here is safe to show.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("there is no such {what}, or it is not yours")]
    NotFound { what: &'static str },
    /// Only where the caller may know all apps.
    #[error("there is no such app; there is {}", apps.join(", "))]
    UnknownApp { apps: Vec<String> },
    #[error("{field}: {message}")]
    Invalid { field: &'static str, message: String },
    #[error("{message}")]
    Conflict { code: &'static str, message: String },
    #[error("the Idempotency-Key was used before for another request; use a new key for a new request")]
    KeyReused,
    #[error("{field} is longer than {limit} bytes")]
    TooLarge { field: &'static str, limit: usize },
    /// A text that must not be remembered, by what it looks like.
    #[error("{field} looks like {kind}; secrets are not remembered")]
    Secret { field: &'static str, kind: &'static str },
    /// The user has spent what the app allows in a day.
    #[error("{message}")]
    Budget { message: String, retry_after: u32 },
    /// The key, the JWT or the session does not have the right.
    #[error("{message}")]
    Forbidden { message: String },
    /// The user has done as much as the app allows for now.
    #[error("{message}")]
    RateLimited { message: String, retry_after: u32 },
    #[error("{message}")]
    Unavailable { message: String, retry_after: u32 },
    #[error(
        "the server's disk is full; reading still works, and writing works again when the disk has free space"
    )]
    Full,
    /// The cause has been logged; it is not the client's business.
    #[error("the server had an internal error; its log has the cause")]
    Internal,
}

impl Error {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotFound { .. } | Error::UnknownApp { .. } => "not_found",
            Error::Invalid { .. } => "invalid_request",
            Error::Conflict { code, .. } => code,
            Error::KeyReused => "idempotency_key_reused",
            Error::TooLarge { .. } => "too_large",
            Error::Secret { .. } => "secret",
            Error::Forbidden { .. } => "forbidden",
            Error::Budget { .. } => "budget_exceeded",
            Error::RateLimited { .. } => "rate_limited",
            Error::Unavailable { .. } => "unavailable",
            Error::Full => "disk_full",
            Error::Internal => "internal",
        }
    }

    pub fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        Error::Invalid { field, message: message.into() }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(what) => Error::NotFound { what },
            store::Error::Busy => Error::Conflict {
                code: "thread_busy",
                message: "the thread is still answering; wait for its run to end, or cancel it".into(),
            },
            store::Error::QueueFull => Error::Conflict {
                code: "queue_full",
                message: "the queue of this thread is full; wait for an answer, or cancel a run".into(),
            },
            store::Error::MemoriesFull => memories_full(),
            store::Error::Known(_) => Error::Conflict {
                code: "known",
                message: "a memory with the same content exists already".into(),
            },
            store::Error::Changed(message) => Error::Conflict { code: "changed", message },
            store::Error::Decided(how) => Error::Conflict {
                code: "proposal_decided",
                message: format!("the proposal is already {}; a proposal is decided only once", how.name()),
            },
            store::Error::CallClosed(ClientCallStatus::Answered) => Error::Conflict {
                code: "call_answered",
                message: "the call has a result already; a call is answered only once".into(),
            },
            store::Error::CallClosed(how) => Error::Conflict {
                code: "call_closed",
                message: format!("the call is {}; its run does not wait for the result any more", how.name()),
            },
            store::Error::Limited(allowance) => rate_limited(&allowance),
            store::Error::KeyReused => Error::KeyReused,
            store::Error::NothingToAnswer => nothing_to_answer(),
            store::Error::Full => Error::Full,
            store::Error::Overloaded | store::Error::Closed => Error::Unavailable {
                message: "the server is busy or stopping; try again".into(),
                retry_after: 1,
            },
            store::Error::Disconnected(_) => unreachable_database(&error),
            store::Error::Aborted => not_stored(&error),
            store::Error::Fenced
            | store::Error::Pruned
            | store::Error::Rewound
            | store::Error::Stopped(_)
            | store::Error::TooDeep(_)
            | store::Error::Locked(_)
            | store::Error::InUse(_)
            | store::Error::TooNew { .. }
            | store::Error::TooOld { .. }
            | store::Error::Folder(_)
            | store::Error::Unusable(_)
            | store::Error::Column(_)
            | store::Error::Postgres(_)
            | store::Error::Sql(_) => {
                tracing::error!(%error, "the store failed");
                Error::Internal
            }
        }
    }
}

fn memories_full() -> Error {
    let message = "this user has the maximum number of memories; forget some first".into();
    Error::Conflict { code: "memories_full", message }
}

/// A lock or a statement took too long, or another part of the same commit failed.
fn not_stored(error: &store::Error) -> Error {
    tracing::warn!(%error, "a request was not stored");
    let message = "the database was too busy, and nothing was stored; try again".into();
    Error::Unavailable { message, retry_after: 1 }
}

fn nothing_to_answer() -> Error {
    Error::invalid("regenerate", "the thread has no message to answer again; send a message first")
}

/// The database may be back a moment later.
fn unreachable_database(error: &store::Error) -> Error {
    tracing::warn!(%error, "a request was refused");
    Error::Unavailable {
        message: "the database cannot be reached at the moment; try again".into(),
        retry_after: 1,
    }
}

/// Why nothing more may be begun for now.
fn rate_limited(allowance: &Allowance) -> Error {
    let (limit, retry_after) = (allowance.limit, allowance.retry_after());
    let message = match allowance.quota {
        Quota::RunsMinute => {
            format!("this app answers {limit} messages of one user in a minute; wait a little")
        }
        Quota::RunsDay => {
            format!("this app answers {limit} messages of one user in a day (UTC); try again tomorrow")
        }
        Quota::TokensMinute => {
            format!("this app spends {limit} tokens for one user in a minute; wait a little")
        }
        Quota::TokensDay => {
            format!("this app spends {limit} tokens for one user in a day (UTC); try again tomorrow")
        }
        Quota::Running => {
            format!("{limit} of your runs are active; wait for an answer, or cancel a run")
        }
    };
    Error::RateLimited { message, retry_after }
}
