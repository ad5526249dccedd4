//! The keys of one issuer over time: when they are loaded again, and what counts meanwhile.
//!
//! A load belongs to no request. It goes on if the client that caused it leaves, and all requests that need it wait for
//! the same one. The last good set stays in use as long as no newer one can be loaded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use protocol::Clock;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::key_set::KeySet;
use crate::key_source::{FileVersion, KeyDocument, KeySource};
use crate::problem::JwksProblem;

/// A set from the network is loaded again at this age.
const MAX_SET_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Between two loads, whether they succeed or not.
const LOAD_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// Between two looks at a file for a key that is missing. A look costs little.
const FILE_PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// A handle; a clone is the same keys.
#[derive(Clone)]
pub(crate) struct IssuerKeys {
    shared: Arc<SharedKeys>,
    loads: TaskTracker,
}

/// One set. The number grows when the keys change.
#[derive(Clone)]
pub(crate) struct NumberedSet {
    pub(crate) number: u64,
    pub(crate) set: Arc<KeySet>,
}

struct SharedKeys {
    /// The name of the issuer, for the log.
    issuer: String,
    source: KeySource,
    clock: Arc<dyn Clock>,
    state: Mutex<KeyState>,
}

#[derive(Default)]
struct KeyState {
    current: Option<NumberedSet>,
    /// Of the document of the current set.
    digest: Option<[u8; 32]>,
    file: Option<FileVersion>,
    attempted_at: Option<Timestamp>,
    /// The last load for a key that was missing. It is counted apart, so that a key that is replaced right after a load is
    /// found.
    missed_at: Option<Timestamp>,
    loaded_at: Option<Timestamp>,
    /// Why the last load failed.
    problem: Option<JwksProblem>,
    /// Closed when the load that is under way ends.
    load: Option<watch::Receiver<()>>,
}

/// Why keys are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// A set that is not too old.
    AnySet,
    /// A key that the current set does not have.
    MissingKey,
}

impl IssuerKeys {
    pub(crate) fn new(issuer: &str, source: KeySource, clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::default();
        Self {
            shared: Arc::new(SharedKeys { issuer: issuer.to_owned(), source, clock, state }),
            loads: TaskTracker::new(),
        }
    }

    /// The set to check tokens with. None if none could be loaded so far.
    pub(crate) async fn current(&self) -> Option<NumberedSet> {
        self.load_if_due(Need::AnySet).await;
        self.shared.lock().current.clone()
    }

    /// A set that differs from the one with this number, if there is one.
    pub(crate) async fn other_than(&self, number: u64) -> Option<NumberedSet> {
        if self.number() == Some(number) {
            self.load_if_due(Need::MissingKey).await;
        }
        self.shared.lock().current.clone().filter(|current| current.number != number)
    }

    /// The number of the current set.
    pub(crate) fn number(&self) -> Option<u64> {
        self.shared.lock().current.as_ref().map(|current| current.number)
    }

    /// Why the last load failed, if it did.
    pub(crate) fn problem(&self) -> Option<JwksProblem> {
        self.shared.lock().problem.clone()
    }

    /// Starts a load if one is due, and waits for the load that is under way.
    async fn load_if_due(&self, need: Need) {
        let Some(mut load) = self.load_to_wait_for(need) else { return };
        // Nothing is ever sent: the channel closes when the load has ended.
        let _ = load.changed().await;
    }

    fn load_to_wait_for(&self, need: Need) -> Option<watch::Receiver<()>> {
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        // A good set is used at once, even while a request waits for a key that may not exist.
        if need == Need::AnySet && !self.shared.is_old(&state, now) {
            return None;
        }
        let load = match state.load.clone().filter(|load| load.has_changed().is_ok()) {
            Some(load) => load,
            None if self.shared.may_load(&state, need, now) => {
                if need == Need::MissingKey {
                    state.missed_at = Some(now);
                }
                self.start_load(&mut state, now)
            }
            None => return None,
        };
        // An issuer that is down must not slow every request down, so only the first load of an old set is waited for.
        let goes_on_without = need == Need::AnySet && state.current.is_some() && state.problem.is_some();
        (!goes_on_without).then_some(load)
    }

    fn start_load(&self, state: &mut KeyState, now: Timestamp) -> watch::Receiver<()> {
        let (ended, load) = watch::channel(());
        state.attempted_at = Some(now);
        state.load = Some(load.clone());
        let (shared, known) = (Arc::clone(&self.shared), state.file.clone());
        self.loads.spawn(async move {
            let loaded = shared.source.load(known).await;
            shared.accept(loaded, now);
            drop(ended);
        });
        load
    }
}

impl SharedKeys {
    fn lock(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a new load is wanted. A file is looked at often, because a look costs little.
    fn is_old(&self, state: &KeyState, now: Timestamp) -> bool {
        let age = if self.source.is_file() { LOAD_PAUSE } else { MAX_SET_AGE };
        state.current.is_none() || has_passed(state.loaded_at, age, now)
    }

    fn may_load(&self, state: &KeyState, need: Need, now: Timestamp) -> bool {
        let is_urgent = need == Need::MissingKey || state.current.is_none();
        let pause = if self.source.is_file() && is_urgent { FILE_PAUSE } else { LOAD_PAUSE };
        // A set that was loaded at this very moment has all keys that there are.
        let is_new = state.attempted_at == Some(now);
        match need {
            Need::AnySet => has_passed(state.attempted_at, pause, now),
            Need::MissingKey => !is_new && has_passed(state.missed_at, pause, now),
        }
    }

    /// Takes the result of a load that began at `begun_at`.
    fn accept(&self, loaded: Result<KeyDocument, JwksProblem>, begun_at: Timestamp) {
        let mut state = self.lock();
        let problem = match loaded {
            Ok(KeyDocument::SameFile) => None,
            Ok(KeyDocument::Content { bytes, file }) => self.replace(&mut state, &bytes, file).err(),
            Err(problem) => Some(problem),
        };
        match &problem {
            None => state.loaded_at = Some(begun_at),
            Some(problem) => {
                tracing::warn!(issuer = self.issuer, %problem, "the keys of a token issuer could not be loaded");
            }
        }
        state.problem = problem;
    }

    /// A set with the same content keeps its number, so that tokens stay verified.
    fn replace(
        &self,
        state: &mut KeyState,
        document: &[u8],
        file: Option<FileVersion>,
    ) -> Result<(), JwksProblem> {
        let digest: [u8; 32] = Sha256::digest(document).into();
        if state.digest != Some(digest) {
            let set = KeySet::parse(document)?;
            let (keys, left_out) = (set.len(), set.left_out);
            tracing::info!(issuer = self.issuer, keys, left_out, "a token issuer has new keys");
            let number = state.current.as_ref().map_or(0, |current| current.number) + 1;
            state.current = Some(NumberedSet { number, set: Arc::new(set) });
            state.digest = Some(digest);
        }
        state.file = file;
        Ok(())
    }
}

/// True also if the clock was set back, because it could stay before `moment` for a long time.
fn has_passed(moment: Option<Timestamp>, pause: SignedDuration, now: Timestamp) -> bool {
    moment.is_none_or(|moment| now < moment || now.duration_since(moment) >= pause)
}
