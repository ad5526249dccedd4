//! Notices for a user: which changes of one transaction share a notice, and from which place a channel can continue.

use protocol::{
    CallId, DocumentChange, DocumentId, MemoryId, NoticeChange, ProposalId, RunId, Scope, ThreadId,
};

use crate::MemoryVersionReason;

/// Memories that one notice names at most.
pub const MAX_MEMORIES_PER_NOTICE: usize = 100;

/// How many of the last notices of a transaction a change is compared with. One that could have shared an earlier notice
/// gets its own, which tells nothing wrong.
const MAX_COMPARED: usize = 64;

/// A change that the user is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticedChange {
    Thread {
        thread: ThreadId,
        change: NoticeChange,
    },
    /// The run began, waits, continues or has ended. Its row says which.
    Run {
        run: RunId,
        thread: ThreadId,
    },
    /// Its row says what became of it.
    Proposal(ProposalId),
    /// A call of the client. Its row says what became of it.
    Call(CallId),
    Memory {
        scope: Scope,
        memory: MemoryId,
        change: NoticeChange,
    },
    Document {
        scope: Scope,
        document: DocumentId,
        status: DocumentChange,
    },
}

/// A notice that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewNotice {
    Thread {
        thread: ThreadId,
        change: NoticeChange,
    },
    /// A run, and what its thread is told of with it.
    Run {
        run: RunId,
        thread: ThreadId,
        of_thread: Option<NoticeChange>,
    },
    Proposal(ProposalId),
    Call(CallId),
    Memories {
        scope: Scope,
        memories: Vec<MemoryId>,
        change: NoticeChange,
    },
    Document {
        scope: Scope,
        document: DocumentId,
        status: DocumentChange,
    },
}

impl NewNotice {
    /// The numbers that it takes: one for each event of the channel that it becomes.
    pub fn numbers(&self) -> u64 {
        match self {
            NewNotice::Run { of_thread: Some(_), .. } => 2,
            NewNotice::Thread { .. }
            | NewNotice::Run { of_thread: None, .. }
            | NewNotice::Proposal(_)
            | NewNotice::Call(_)
            | NewNotice::Memories { .. }
            | NewNotice::Document { .. } => 1,
        }
    }
}

/// The notices of one transaction. Changes of one thing are one notice, and a run takes what its thread is told of with it.
pub fn notices_of(changes: Vec<NoticedChange>) -> Vec<NewNotice> {
    let mut notices = Vec::new();
    for change in changes {
        let first = notices.len().saturating_sub(MAX_COMPARED);
        add(&mut notices, first, change);
    }
    notices
}

/// Adds a change to the notice that it shares, if that is the one in place `first` or a later one, or as its own.
fn add(notices: &mut Vec<NewNotice>, first: usize, change: NoticedChange) {
    let recent = notices.get_mut(first..).unwrap_or_default();
    match change {
        NoticedChange::Thread { thread, change } => {
            let own = recent.iter_mut().find_map(|notice| thread_change(notice, thread));
            match own {
                Some(before) if change != NoticeChange::Deleted => *before = combined_change(*before, change),
                Some(_) | None => {
                    notices.retain(|notice| !is_of_thread(notice, thread));
                    notices.push(NewNotice::Thread { thread, change });
                }
            }
        }
        NoticedChange::Run { run, thread } => {
            let is_same =
                |notice: &NewNotice| matches!(notice, NewNotice::Run { run: other, .. } if *other == run);
            if recent.iter().any(is_same) {
                return;
            }
            let place = recent.iter_mut().position(|notice| thread_change(notice, thread).is_some());
            let of_thread = match place.and_then(|place| recent.get(place)) {
                Some(NewNotice::Thread { change: NoticeChange::Deleted, .. } | NewNotice::Run { .. }) => None,
                Some(NewNotice::Thread { change, .. }) => Some(*change),
                Some(_) | None => Some(NoticeChange::Changed),
            };
            if let (Some(place), Some(_)) = (place, of_thread) {
                notices.remove(first + place);
            }
            notices.push(NewNotice::Run { run, thread, of_thread });
        }
        NoticedChange::Proposal(proposal) => {
            if !recent.contains(&NewNotice::Proposal(proposal)) {
                notices.push(NewNotice::Proposal(proposal));
            }
        }
        NoticedChange::Call(call) => {
            if !recent.contains(&NewNotice::Call(call)) {
                notices.push(NewNotice::Call(call));
            }
        }
        NoticedChange::Memory { scope, memory, change } => {
            match recent.iter_mut().find_map(|notice| memories_with(notice, &scope, change)) {
                Some(memories) if memories.contains(&memory) => {}
                Some(memories) => memories.push(memory),
                None => notices.push(NewNotice::Memories { scope, memories: vec![memory], change }),
            }
        }
        NoticedChange::Document { scope, document, status } => {
            notices.push(NewNotice::Document { scope, document, status });
        }
    }
}

/// Returns the change of a thread that a notice tells of, if it does.
fn thread_change(notice: &mut NewNotice, of: ThreadId) -> Option<&mut NoticeChange> {
    match notice {
        NewNotice::Thread { thread, change } if *thread == of => Some(change),
        NewNotice::Run { thread, of_thread, .. } if *thread == of => of_thread.as_mut(),
        NewNotice::Thread { .. }
        | NewNotice::Run { .. }
        | NewNotice::Proposal(_)
        | NewNotice::Call(_)
        | NewNotice::Memories { .. }
        | NewNotice::Document { .. } => None,
    }
}

fn is_of_thread(notice: &NewNotice, of: ThreadId) -> bool {
    matches!(notice, NewNotice::Thread { thread, .. } if *thread == of)
}

/// The memories of a notice that has room for one more of this scope and change.
fn memories_with<'n>(
    notice: &'n mut NewNotice,
    of: &Scope,
    wanted: NoticeChange,
) -> Option<&'n mut Vec<MemoryId>> {
    match notice {
        NewNotice::Memories { scope, memories, change }
            if scope == of && *change == wanted && memories.len() < MAX_MEMORIES_PER_NOTICE =>
        {
            Some(memories)
        }
        NewNotice::Thread { .. }
        | NewNotice::Run { .. }
        | NewNotice::Proposal(_)
        | NewNotice::Call(_)
        | NewNotice::Memories { .. }
        | NewNotice::Document { .. } => None,
    }
}

/// Two changes of one thread: what is new and was changed is new, and what is deleted stays so.
fn combined_change(before: NoticeChange, after: NoticeChange) -> NoticeChange {
    if before == NoticeChange::Changed { after } else { before }
}

/// The change of a memory that got a version for this reason.
pub fn memory_change(reason: MemoryVersionReason) -> NoticeChange {
    match reason {
        MemoryVersionReason::Created => NoticeChange::Created,
        MemoryVersionReason::Edited
        | MemoryVersionReason::Updated
        | MemoryVersionReason::Merged
        | MemoryVersionReason::Restored => NoticeChange::Changed,
        MemoryVersionReason::Removed
        | MemoryVersionReason::Forgotten
        | MemoryVersionReason::Expired
        | MemoryVersionReason::Superseded
        | MemoryVersionReason::Undone => NoticeChange::Deleted,
    }
}

/// Whether a reader who has seen `after` has missed notices that are gone, or names a number that was never given.
pub fn is_place_lost(after: u64, swept_through: u64, newest: u64) -> bool {
    after < swept_through || after > newest
}

#[cfg(test)]
mod tests {
    use protocol::{AppId, UserId};
    use uuid::Uuid;

    use super::*;

    fn thread(number: u128) -> ThreadId {
        ThreadId::new(Uuid::from_u128(number))
    }

    fn run(number: u128) -> RunId {
        RunId::new(Uuid::from_u128(number))
    }

    fn memory(number: u128) -> MemoryId {
        MemoryId::new(Uuid::from_u128(number))
    }

    fn scope() -> Scope {
        Scope { app: AppId::new("test"), user: UserId::new("ann") }
    }

    fn of_thread(number: u128, change: NoticeChange) -> NoticedChange {
        NoticedChange::Thread { thread: thread(number), change }
    }

    fn of_run(number: u128, of: u128) -> NoticedChange {
        NoticedChange::Run { run: run(number), thread: thread(of) }
    }

    fn new_run(number: u128, of: u128, of_thread: Option<NoticeChange>) -> NewNotice {
        NewNotice::Run { run: run(number), thread: thread(of), of_thread }
    }

    #[test]
    fn a_run_in_a_new_thread_is_one_notice_with_two_numbers() {
        let notices = notices_of(vec![of_thread(1, NoticeChange::Created), of_run(2, 1), of_run(2, 1)]);
        assert_eq!(notices, [new_run(2, 1, Some(NoticeChange::Created))]);
        assert_eq!(notices[0].numbers(), 2);
        let notices = notices_of(vec![of_run(2, 1), of_thread(1, NoticeChange::Changed)]);
        assert_eq!(notices, [new_run(2, 1, Some(NoticeChange::Changed))]);
    }

    #[test]
    fn the_next_run_of_a_thread_does_not_tell_of_the_thread_again() {
        let notices = notices_of(vec![of_run(2, 1), of_run(3, 1), of_run(4, 9)]);
        let changed = Some(NoticeChange::Changed);
        assert_eq!(notices, [new_run(2, 1, changed), new_run(3, 1, None), new_run(4, 9, changed)]);
    }

    #[test]
    fn a_deleted_thread_is_told_of_last_and_once() {
        let notices = notices_of(vec![
            of_thread(1, NoticeChange::Changed),
            of_run(2, 1),
            of_thread(1, NoticeChange::Deleted),
            of_run(3, 1),
        ]);
        let deleted = NewNotice::Thread { thread: thread(1), change: NoticeChange::Deleted };
        assert_eq!(notices, [new_run(2, 1, Some(NoticeChange::Changed)), deleted, new_run(3, 1, None)]);
    }

    #[test]
    fn memories_that_change_together_share_notices_of_a_bounded_size() {
        let of =
            |number: u128, change| NoticedChange::Memory { scope: scope(), memory: memory(number), change };
        let mut changes: Vec<_> = (0..150).map(|number| of(number, NoticeChange::Created)).collect();
        changes.push(of(7, NoticeChange::Deleted));
        let size = |notice: &NewNotice| match notice {
            NewNotice::Memories { memories, .. } => Some(memories.len()),
            NewNotice::Thread { .. }
            | NewNotice::Run { .. }
            | NewNotice::Proposal(_)
            | NewNotice::Call(_)
            | NewNotice::Document { .. } => None,
        };
        let sizes: Vec<usize> = notices_of(changes).iter().filter_map(size).collect();
        assert_eq!(sizes, [100, 50, 1]);
    }

    #[test]
    fn a_place_is_lost_when_notices_after_it_were_swept_or_were_never_there() {
        assert!(!is_place_lost(0, 0, 0));
        assert!(!is_place_lost(5, 5, 9));
        assert!(!is_place_lost(9, 5, 9));
        assert!(is_place_lost(4, 5, 9));
        assert!(is_place_lost(10, 5, 9));
    }
}
