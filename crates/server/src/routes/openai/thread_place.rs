//! Which thread a conversation is: the one that the client names, or a new one that only this request knows.
//!
//! Clients send the whole conversation with each message. In a thread that is there, only what follows the longest stored
//! part of it is new; see [`super::stored_turns`] and ADR 28.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::{
    EarlierTurn, MAX_EARLIER_TURNS, MessageId, NewRun, Principal, ThreadId, ThreadTree, ThreadView,
};
use service::PageQuery;

use super::stored_turns::{
    SpokenTurn, StoredTurn, likely_leaves, mark_under_way, matched_turns, stored_turns,
};
use crate::Api;
use crate::contracts::ChatKey;
use crate::error::ApiProblem;

const HEADER: &str = "x-thread-id";

/// Bytes of a thread's name.
const MAX_NAME_BYTES: usize = 255;

/// Messages of a thread that are searched for a branch that the client is on.
const MAX_SEARCHED_MESSAGES: usize = 4_000;

/// Messages that one read of the tree gives.
const TREE_PAGE: u32 = 1_000;

/// Branches whose whole texts are compared.
const MAX_COMPARED_BRANCHES: usize = 4;

/// Stored messages read for each turn of the client: a question, its answer, and a question without an answer.
const MESSAGES_PER_TURN: usize = 3;

/// The thread that a header names.
pub(in crate::routes) struct ThreadHeader(pub(super) Option<String>);

impl FromRequestParts<Api> for ThreadHeader {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiProblem> {
        let Some(value) = parts.headers.get(HEADER) else { return Ok(Self(None)) };
        let invalid = || ApiProblem::invalid("X-Thread-Id", "must be visible ASCII");
        Ok(Self(Some(value.to_str().map_err(|_| invalid())?.to_owned())))
    }
}

/// The place of a conversation.
pub(super) enum ConversationPlace {
    /// In no thread yet, and no later request will name the one that is made.
    Unbound,
    /// In a thread that the client names, which is made with its first run.
    Named(ThreadId),
    Existing(Box<ThreadView>),
}

impl ConversationPlace {
    /// The thread of this name: an id of ours, or any name that the client has chosen. Makes nothing.
    pub(super) async fn find(
        api: &Api,
        principal: &Principal,
        app: &str,
        name: Option<&str>,
    ) -> Result<Self, ApiProblem> {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else {
            return Ok(Self::Unbound);
        };
        if name.len() > MAX_NAME_BYTES {
            let message = format!("must be at most {MAX_NAME_BYTES} bytes");
            return Err(ApiProblem::invalid("thread_id", message));
        }
        if let Ok(id) = name.parse() {
            let thread = api.service.thread(principal, id).await?;
            if thread.app_id != app {
                return Err(service::Error::NotFound { what: "thread" }.into());
            }
            return Ok(Self::Existing(Box::new(thread)));
        }
        let id = ChatKey::new(principal, app, name).thread();
        match api.service.thread(principal, id).await {
            Ok(thread) => Ok(Self::Existing(Box::new(thread))),
            Err(service::Error::NotFound { .. }) => Ok(Self::Named(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the client has named a thread. If not, no client can continue it.
    pub(super) fn is_bound(&self) -> bool {
        !matches!(self, Self::Unbound)
    }

    /// The thread that results of calls must belong to; none if any will do.
    pub(super) fn thread(&self) -> Option<ThreadId> {
        match self {
            Self::Unbound => None,
            Self::Named(id) => Some(*id),
            Self::Existing(thread) => Some(thread.id),
        }
    }

    /// The run in its place: after the part of the conversation that the thread has, with the rest as earlier turns.
    pub(super) async fn put_run(
        self,
        api: &Api,
        principal: &Principal,
        turns: Vec<EarlierTurn>,
        new: NewRun,
    ) -> Result<NewRun, ApiProblem> {
        let thread = match self {
            Self::Unbound => return check_earlier_turns(NewRun { earlier: turns, ..new }),
            Self::Named(id) => return check_earlier_turns(NewRun { chat: Some(id), earlier: turns, ..new }),
            Self::Existing(thread) => thread,
        };
        let (parent_id, known) = known_part(api, principal, &thread, &turns).await?;
        let earlier = turns.into_iter().skip(known).collect();
        check_earlier_turns(NewRun { thread_id: Some(thread.id), parent_id, earlier, ..new })
    }
}

fn check_earlier_turns(new: NewRun) -> Result<NewRun, ApiProblem> {
    if new.earlier.len() > MAX_EARLIER_TURNS {
        let message = format!("has more than {MAX_EARLIER_TURNS} turns that the thread does not have");
        return Err(ApiProblem::invalid("messages", message));
    }
    Ok(new)
}

/// The message that the new part follows (none for the head), and how many turns of the client come before that part.
async fn known_part(
    api: &Api,
    principal: &Principal,
    thread: &ThreadView,
    turns: &[EarlierTurn],
) -> Result<(Option<MessageId>, usize), ApiProblem> {
    // A message that is being answered is not on the path to the head yet.
    let leaf = match thread.active_run_id {
        Some(run) => Some(api.service.run(principal, run).await?.message_id),
        None => thread.head_id,
    };
    if turns.is_empty() || leaf.is_none() {
        return Ok((None, 0));
    }
    let spoken: Vec<SpokenTurn> = turns.iter().map(SpokenTurn::new).collect();
    let newest = MESSAGES_PER_TURN * turns.len() + 1;
    let path = api.service.spoken_path(principal, thread.id, leaf, newest).await?;
    let is_whole = path.len() < newest;
    let (messages, mut shown) = (path.len(), stored_turns(path));
    if thread.active_run_id.is_some() {
        mark_under_way(&mut shown);
    }
    // The usual case: the client has what the thread shows, or the end of it.
    let end = shown.len().checked_sub(spoken.len()).and_then(|start| shown.get(start..));
    if end.is_some_and(|end| matched_turns(end, &spoken) == spoken.len()) {
        return Ok((None, turns.len()));
    }
    let has_branches = thread.message_count != messages as u64;
    let best = if is_whole && !has_branches {
        longest_match(&shown, &spoken)
    } else {
        best_branch(api, principal, thread.id, &spoken).await?
    };
    if let Some((last, known)) = best {
        return Ok((Some(last), known));
    }
    // A client that shortens its history still has the newest answer. Without even that, all of it is new.
    let has_newest = shown.last().zip(spoken.last()).is_some_and(|(stored, turn)| stored.is_same(turn));
    Ok((None, if has_newest { turns.len() } else { 0 }))
}

/// The last message of the turns from the root that are the same, and their number.
fn longest_match(stored: &[StoredTurn], spoken: &[SpokenTurn]) -> Option<(MessageId, usize)> {
    let known = matched_turns(stored, spoken);
    let last = stored.get(known.checked_sub(1)?)?;
    Some((last.last, known))
}

/// The last message of the longest match on any branch, and the length of the match.
async fn best_branch(
    api: &Api,
    principal: &Principal,
    thread: ThreadId,
    spoken: &[SpokenTurn],
) -> Result<Option<(MessageId, usize)>, ApiProblem> {
    let mut messages = Vec::new();
    let mut cursor = None;
    while messages.len() < MAX_SEARCHED_MESSAGES {
        let page = PageQuery { limit: Some(TREE_PAGE), cursor };
        let ThreadTree { data, next, .. } = api.service.thread_tree(principal, thread, page).await?;
        messages.extend(data);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let mut best: Option<(MessageId, usize)> = None;
    for (leaf, depth) in likely_leaves(&messages, spoken).into_iter().take(MAX_COMPARED_BRANCHES) {
        let path = api.service.spoken_path(principal, thread, Some(leaf), depth).await?;
        let found = longest_match(&stored_turns(path), spoken);
        if found.map(|(_, known)| known) > best.map(|(_, known)| known) {
            best = found;
        }
    }
    Ok(best)
}
