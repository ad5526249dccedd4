//! The gate before the models: a bounded number of calls at once, shared between users, and for each user between
//! providers.
//!
//! Calls take long, so taking turns is not enough: a user who came first with many slow calls would hold every place
//! for minutes. So one user never holds more than a share of all places, and neither does one provider where there are
//! several. Waiting users are served in turn, and for each user the providers in turn. A place is given in constant
//! time, however many wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::UserId;
use tokio::sync::oneshot;

/// Model calls at once, if the configuration has no number.
const DEFAULT_MODEL_CALLS: usize = 8_192;

/// Model calls of one user at once, if the configuration has no number. Never more than half of all.
const DEFAULT_MODEL_CALLS_PER_USER: usize = 64;

/// If there are several providers, each has at most `QUARTERS_OF_ONE_PROVIDER` of four places: of all places, and of
/// those of each user.
const QUARTERS_OF_ONE_PROVIDER: usize = 3;

/// How many model calls there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallShares {
    pub all: usize,
    pub of_one_user: usize,
}

impl CallShares {
    /// `all` places together. One user has the usual number of them, or half of all if that is less.
    pub fn of(all: usize) -> Self {
        Self { all, of_one_user: DEFAULT_MODEL_CALLS_PER_USER.min(all / 2).max(1) }
    }
}

impl Default for CallShares {
    fn default() -> Self {
        Self::of(DEFAULT_MODEL_CALLS)
    }
}

/// The bounds of places.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    all: usize,
    user: usize,
    provider: usize,
    provider_of_user: usize,
}

/// Gives places to those who want to ask a model.
#[derive(Debug)]
pub(crate) struct CallGate {
    /// Locked for a moment, never over an await.
    lines: Mutex<Lines>,
}

/// The right to ask a model; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct CallPlace {
    gate: Arc<CallGate>,
    user: UserId,
    provider: Arc<str>,
}

/// The users who wait for places or hold some. Other users are not in here.
#[derive(Debug)]
struct Lines {
    bounds: Bounds,
    held: usize,
    /// The number of the next who waits.
    next: u64,
    users: HashMap<UserId, UserLines>,
    providers: HashMap<Arc<str>, ProviderLine>,
    /// Users who can be served, the next one first; each at most once.
    turn: VecDeque<UserId>,
}

#[derive(Debug, Default)]
struct UserLines {
    held: usize,
    is_in_turn: bool,
    calls: HashMap<Arc<str>, Line>,
    /// Providers whose lines can be served, the next one first; each at most once.
    ready: VecDeque<Arc<str>>,
}

/// The calls of one user to one provider.
#[derive(Debug, Default)]
struct Line {
    held: usize,
    /// In the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<CallPlace>>,
    listed: Listed,
}

/// The list that a line is in, so that it is in one list only.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Listed {
    #[default]
    Nowhere,
    /// Among those of its user that can be served.
    Ready,
    /// Among those that wait for a place of their provider.
    Blocked,
}

#[derive(Debug, Default)]
struct ProviderLine {
    held: usize,
    /// Users whose lines wait for a place of this provider.
    blocked: VecDeque<UserId>,
}

/// A place, and who gets it.
type GivenPlace = (oneshot::Sender<CallPlace>, CallPlace);

/// One who waits; dropping it takes it out of its line.
struct Waiter<'g> {
    gate: &'g CallGate,
    user: &'g UserId,
    provider: Arc<str>,
    number: u64,
    given: oneshot::Receiver<CallPlace>,
}

impl CallGate {
    /// `providers` is how many there are to ask.
    pub(crate) fn new(shares: CallShares, providers: usize) -> Self {
        let all = shares.all.max(1);
        let user = shares.of_one_user.clamp(1, all);
        let part = |of: usize| if providers > 1 { (of * QUARTERS_OF_ONE_PROVIDER / 4).max(1) } else { of };
        let bounds = Bounds { all, user, provider: part(all), provider_of_user: part(user) };
        let lines = Lines {
            bounds,
            held: 0,
            next: 0,
            users: HashMap::new(),
            providers: HashMap::new(),
            turn: VecDeque::new(),
        };
        Self { lines: Mutex::new(lines) }
    }

    /// Waits for a place. A caller that stops waiting leaves nothing behind.
    pub(crate) async fn place(self: &Arc<Self>, user: &UserId, provider: &str) -> CallPlace {
        let mut waiter = self.enter(user, provider);
        self.serve();
        match (&mut waiter.given).await {
            Ok(place) => place,
            // Only this waiter takes itself out of its line.
            Err(_) => std::future::pending().await,
        }
    }

    fn enter<'g>(&'g self, user: &'g UserId, provider: &str) -> Waiter<'g> {
        let (give, given) = oneshot::channel();
        let provider: Arc<str> = provider.into();
        let number = self.lines().add(user, &provider, give);
        Waiter { gate: self, user, provider, number, given }
    }

    /// Gives free places to waiters. Places are sent while nothing is locked, because a place whose waiter has gone
    /// comes back at once.
    fn serve(self: &Arc<Self>) {
        let mut grants: Vec<GivenPlace> = Vec::new();
        {
            let mut lines = self.lines();
            while let Some((give, user, provider)) = lines.next_one() {
                grants.push((give, CallPlace { gate: Arc::clone(self), user, provider }));
            }
        }
        for (give, place) in grants {
            let _ = give.send(place);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.gate.lines().release(&self.user, &self.provider);
        self.gate.serve();
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.gate.lines().cancel(self.user, &self.provider, self.number);
    }
}

impl Lines {
    fn line(&mut self, user: &UserId, provider: &Arc<str>) -> Option<&mut Line> {
        self.users.get_mut(user)?.calls.get_mut(provider)
    }

    fn add(&mut self, user: &UserId, provider: &Arc<str>, give: oneshot::Sender<CallPlace>) -> u64 {
        let number = self.next;
        self.next += 1;
        let lines = self.users.entry(user.clone()).or_default();
        lines.calls.entry(Arc::clone(provider)).or_default().waiting.insert(number, give);
        self.list(user, provider);
        number
    }

    /// Lists a line to be served, if a call waits in it and the shares of its user allow one more. True if it was not
    /// listed before.
    fn list(&mut self, user: &UserId, provider: &Arc<str>) -> bool {
        let Bounds { user: most, provider_of_user, .. } = self.bounds;
        let Some(lines) = self.users.get_mut(user) else { return false };
        let Some(line) = lines.calls.get_mut(provider) else { return false };
        let is_new = line.listed == Listed::Nowhere
            && !line.waiting.is_empty()
            && line.held < provider_of_user
            && lines.held < most;
        if is_new {
            line.listed = Listed::Ready;
            lines.ready.push_back(Arc::clone(provider));
            self.queue(user);
        }
        is_new
    }

    /// Gives a user a turn, if there is a line to serve.
    fn queue(&mut self, user: &UserId) {
        if let Some(lines) = self.users.get_mut(user)
            && !lines.is_in_turn
            && !lines.ready.is_empty()
        {
            lines.is_in_turn = true;
            self.turn.push_back(user.clone());
        }
    }

    /// Takes the next one out of its line, and counts its place.
    fn next_one(&mut self) -> Option<(oneshot::Sender<CallPlace>, UserId, Arc<str>)> {
        while self.held < self.bounds.all {
            let user = self.turn.pop_front()?;
            let Some(lines) = self.users.get_mut(&user) else { continue };
            lines.is_in_turn = false;
            let Some(provider) = lines.ready.pop_front() else {
                if lines.calls.is_empty() {
                    self.users.remove(&user);
                }
                continue;
            };
            let taken = self.take(&user, &provider);
            self.queue(&user);
            self.tidy(&user, &provider);
            if let Some(give) = taken {
                return Some((give, user, provider));
            }
        }
        None
    }

    /// The first one of a line that was just taken off the list of its user.
    fn take(&mut self, user: &UserId, provider: &Arc<str>) -> Option<oneshot::Sender<CallPlace>> {
        let most_of_user = self.bounds.user;
        let lines = self.users.get_mut(user)?;
        let line = lines.calls.get_mut(provider)?;
        line.listed = Listed::Nowhere;
        let of_provider = self.providers.entry(Arc::clone(provider)).or_default();
        if of_provider.held >= self.bounds.provider && !line.waiting.is_empty() {
            line.listed = Listed::Blocked;
            of_provider.blocked.push_back(user.clone());
            return None;
        }
        let Some((_, give)) = line.waiting.pop_first() else {
            self.unblock(provider); // all its waiters have left, and another line may be served
            return None;
        };
        line.held += 1;
        lines.held += 1;
        of_provider.held += 1;
        self.held += 1;
        if lines.held >= most_of_user {
            self.park(user);
        } else {
            self.list(user, provider);
        }
        Some(give)
    }

    /// Takes the lines of a user who has a whole share off the list, and lets others have what those might have had.
    fn park(&mut self, user: &UserId) {
        let Some(lines) = self.users.get_mut(user) else { return };
        let ready = std::mem::take(&mut lines.ready);
        for provider in &ready {
            if let Some(line) = lines.calls.get_mut(provider) {
                line.listed = Listed::Nowhere;
            }
        }
        for provider in &ready {
            self.unblock(provider);
            self.tidy(user, provider); // all who waited there may have left
        }
    }

    /// Lists one of those who wait for a place of the provider, if it has one. As many are listed as it has places left.
    fn unblock(&mut self, provider: &Arc<str>) {
        loop {
            let Some(of_provider) = self.providers.get_mut(provider) else { return };
            if of_provider.held >= self.bounds.provider {
                return;
            }
            let Some(user) = of_provider.blocked.pop_front() else { return };
            if let Some(line) = self.line(&user, provider) {
                line.listed = Listed::Nowhere;
            }
            if self.list(&user, provider) {
                return;
            }
            self.tidy(&user, provider);
        }
    }

    /// A place comes back: of this provider, and of this user, whose lines are all looked at again.
    fn release(&mut self, user: &UserId, provider: &Arc<str>) {
        self.held = self.held.saturating_sub(1);
        if let Some(of_provider) = self.providers.get_mut(provider) {
            of_provider.held = of_provider.held.saturating_sub(1);
        }
        let mut providers = Vec::new();
        if let Some(lines) = self.users.get_mut(user) {
            lines.held = lines.held.saturating_sub(1);
            if let Some(line) = lines.calls.get_mut(provider) {
                line.held = line.held.saturating_sub(1);
            }
            providers.extend(lines.calls.keys().cloned()); // no more than there are providers
        }
        self.unblock(provider);
        for provider in &providers {
            self.list(user, provider);
        }
        self.tidy(user, provider);
    }

    fn cancel(&mut self, user: &UserId, provider: &Arc<str>, number: u64) {
        if let Some(line) = self.line(user, provider) {
            line.waiting.remove(&number);
        }
        self.tidy(user, provider);
    }

    /// Removes a user who neither waits nor holds a place.
    fn tidy(&mut self, user: &UserId, provider: &Arc<str>) {
        if let Some(lines) = self.users.get_mut(user) {
            let is_over =
                |line: &Line| line.held == 0 && line.waiting.is_empty() && line.listed == Listed::Nowhere;
            if lines.calls.get(provider).is_some_and(is_over) {
                lines.calls.remove(provider);
            }
            if lines.calls.is_empty() && !lines.is_in_turn {
                self.users.remove(user);
            }
        }
        if self.providers.get(provider).is_some_and(|line| line.held == 0 && line.blocked.is_empty()) {
            self.providers.remove(provider);
        }
    }
}

#[cfg(test)]
mod tests;
