//! The clients: each does what a random user would do, again and again, and insists on an answer to each thing it asks
//! over every death of the server. The answers that it was given are in the book.

mod client;
mod operations;
mod pool;
mod reading;
mod sending;
mod stalled;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::pool::ActorPool;
pub(crate) use self::stalled::stalled_readers;
use crate::stage::{Stage, TortureError, User};

/// Runs and threads that the actors of one user follow at once; the server allows 16 unless told otherwise.
const MAX_STREAMS: usize = 12;
/// The longest pause between two operations of an actor, in milliseconds.
const LONGEST_REST: u64 = 100;
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The deeds of an actor, and how often among a hundred times it does them.
const DEEDS: [(Deed, u32); 13] = [
    (Deed::Send, 35),
    (Deed::DoubleSend, 5),
    (Deed::TwoSends, 5),
    (Deed::OpenStream, 15),
    (Deed::DropAndResume, 15),
    (Deed::SecondReader, 3),
    (Deed::Cancel, 8),
    (Deed::Decide, 4),
    (Deed::Undo, 3),
    (Deed::ChangeMemory, 3),
    (Deed::Search, 2),
    (Deed::DeleteThread, 1),
    (Deed::LookAround, 3),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Send,
    DoubleSend,
    TwoSends,
    OpenStream,
    DropAndResume,
    SecondReader,
    Cancel,
    Decide,
    Undo,
    ChangeMemory,
    Search,
    DeleteThread,
    LookAround,
}

impl Deed {
    fn draw(rng: &mut Rng) -> Self {
        let all: u32 = DEEDS.iter().map(|(_, weight)| weight).sum();
        let mut left = rng.u32(0..all);
        for (deed, weight) in DEEDS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return deed,
            }
        }
        Self::Send
    }
}

/// One client. Several belong to one user, as tabs do.
struct Actor {
    stage: Stage,
    number: usize,
    user: User,
    http: reqwest::Client,
    /// Shared with the user's other actors, as is `streams`.
    pool: ActorPool,
    streams: Arc<Semaphore>,
    /// In every name, so that no two performances share one.
    salt: u32,
    named: AtomicU64,
    /// Requests so far.
    asked: AtomicU64,
}

/// Lets actors `number` to `number + count` act until the curtain falls, then finish what they have begun, and decides
/// all proposals that still wait. No connection is open afterwards.
pub(crate) async fn perform(stage: Stage, number: usize, count: usize) -> Result<(), TortureError> {
    let salt = Rng::new().u32(..);
    let mut shared: HashMap<usize, (ActorPool, Arc<Semaphore>)> = HashMap::new();
    let mut actors = Vec::new();
    // One more for each user decides proposals once the curtain has fallen: other actors may wait for these decisions.
    let deciders = stage.users.len();
    for number in number..number + count + deciders {
        let place = number % stage.users.len().max(1);
        let user = stage.users.get(place).ok_or("there are no users")?.clone();
        let (pool, streams) = shared
            .entry(place)
            .or_insert_with(|| (ActorPool::default(), Arc::new(Semaphore::new(MAX_STREAMS))));
        let http = testkit::plain_client().connect_timeout(CONNECT_PATIENCE).build()?;
        let (pool, streams, stage) = (pool.clone(), Arc::clone(streams), stage.clone());
        let (named, asked) = (AtomicU64::new(0), AtomicU64::new(0));
        actors.push(Actor { stage, number, user, http, pool, streams, salt, named, asked });
    }
    let deciders = actors.split_off(count);
    let (acted, decided) =
        tokio::join!(join_actors(actors, Actor::act), join_actors(deciders, Actor::finish_begun));
    acted?;
    join_actors(decided?, Actor::finish_begun).await?;
    Ok(())
}

/// Lets all of them do something side by side, and gives them back.
async fn join_actors<F>(actors: Vec<Actor>, part: impl Fn(Actor) -> F) -> Result<Vec<Actor>, TortureError>
where
    F: Future<Output = Actor> + Send + 'static,
{
    let mut tasks: JoinSet<Actor> = actors.into_iter().map(part).collect();
    let mut done = Vec::new();
    while let Some(actor) = tasks.join_next().await {
        done.push(actor?);
    }
    done.sort_by_key(|actor| actor.number);
    Ok(done)
}

impl Actor {
    async fn act(self) -> Self {
        let mut rng = self.rng();
        while !self.stage.curtain.is_cancelled() {
            let deed = Deed::draw(&mut rng);
            self.perform(deed, &mut rng).await;
            let rest = Duration::from_millis(rng.u64(0..=LONGEST_REST));
            tokio::select! {
                () = self.stage.curtain.cancelled() => (),
                () = sleep(rest) => (),
            }
        }
        self
    }

    async fn finish_begun(self) -> Self {
        let mut rng = self.rng();
        self.stage.curtain.cancelled().await;
        self.settle(&mut rng).await;
        self
    }

    async fn perform(&self, deed: Deed, rng: &mut Rng) {
        match deed {
            Deed::Send => Box::pin(self.send(rng)).await,
            Deed::DoubleSend => Box::pin(self.double_send(rng)).await,
            Deed::TwoSends => Box::pin(self.two_sends(rng)).await,
            Deed::OpenStream => Box::pin(self.open_stream(rng)).await,
            Deed::DropAndResume => Box::pin(self.drop_and_resume(rng)).await,
            Deed::SecondReader => Box::pin(self.second_reader(rng)).await,
            Deed::Cancel => Box::pin(self.send_and_cancel(rng)).await,
            Deed::Decide => {
                Box::pin(self.decide_open(rng)).await;
            }
            Deed::Undo => Box::pin(self.undo(rng)).await,
            Deed::ChangeMemory => Box::pin(self.change_memory(rng)).await,
            Deed::Search => Box::pin(self.search(rng)).await,
            Deed::DeleteThread => Box::pin(self.delete_thread(rng)).await,
            Deed::LookAround => Box::pin(self.look_around(rng)).await,
        }
    }

    /// Returns random numbers that are equal for equal seeds and numbers.
    fn rng(&self) -> Rng {
        let number = u64::try_from(self.number).unwrap_or_default();
        let mut seeds = Rng::with_seed(self.stage.seed);
        Rng::with_seed(seeds.u64(..).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A name that nothing else has, over all actors and performances.
    fn new_name(&self, what: &str) -> String {
        let counter = self.named.fetch_add(1, Ordering::Relaxed);
        format!("{what}{}-{counter}-{:08x}", self.number, self.salt)
    }
}
