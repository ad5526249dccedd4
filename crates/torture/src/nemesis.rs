//! The nemesis: it kills the server at random and at the moments that hurt most, fills its disk or strikes its database,
//! lets its model fail and reads from it without reading. It never leaves the server down.

mod database;
mod deck;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use self::deck::{Blows, Deck};
use crate::actors::stalled_readers;
use crate::disk::Filler;
use crate::model::Burst;
use crate::postgres::TrialPostgres;
use crate::record::{Blow, Micros, Trigger};
use crate::server::ServerProcess;
use crate::stage::{Stage, TortureError};
use crate::world::TortureWorld;

/// How long a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between a moment and the kill, in milliseconds.
const DELAYS_MS: [u64; 3] = [0, 1, 5];
/// One kill in so many is followed by another, while the server recovers.
const COMPOUND: usize = 5;
/// How far into the recovery.
const RECOVERY_MS: u64 = 500;
/// How long the server stays down, mostly and at most.
const DOWN_MS: u64 = 100;
const LONG_DOWN_MS: u64 = 2_000;
/// One time in so many it stays down for long.
const LONG_DOWN: u32 = 4;
/// How long a server may take to be ready.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// Starts that may fail in a row.
const MAX_STARTS: usize = 3;
/// Between two looks whether the server is still there.
const LOOK: Duration = Duration::from_millis(100);
/// The longest gap, in mean gaps.
const LONGEST_GAP: f64 = 4.0;
const BURST: Duration = Duration::from_secs(4);
const FULL: Duration = Duration::from_secs(5);
const STALLED: Duration = Duration::from_secs(5);
/// Readers that read nothing.
const READERS: usize = 32;
/// What is left of a full disk, in bytes.
const LEFT: [u64; 3] = [0, 64 * 1024, 1024 * 1024];

/// The moments that kills wait for.
const CHOSEN: [Trigger; 6] = [
    Trigger::CallWritten,
    Trigger::ToolArrived,
    Trigger::ToolReplied,
    Trigger::Accepted,
    Trigger::CancelAccepted,
    Trigger::RunEnded,
];

pub(crate) struct Nemesis {
    stage: Stage,
    burst: Burst,
    /// The data folder, if it can be filled.
    disk: Option<PathBuf>,
    /// The database, if it is a server that can be struck.
    postgres: Option<TrialPostgres>,
    /// The mean time between two blows.
    gap: Duration,
    deck: Deck,
    /// How often each moment was waited for.
    tried: BTreeMap<Trigger, usize>,
    kills: usize,
    /// Each time that the server ended by itself, or did not become ready: a fault of the server's.
    pub(crate) deaths: Vec<String>,
}

impl Nemesis {
    pub(crate) fn new(world: &TortureWorld, gap: Duration) -> Self {
        Self {
            stage: world.stage(),
            burst: world.model.burst.clone(),
            disk: world.own_disk.then(|| world.data.clone()),
            postgres: world.postgres.clone(),
            gap,
            deck: Deck::new(world.store()),
            tried: CHOSEN.iter().map(|trigger| (*trigger, 0)).collect(),
            kills: 0,
            deaths: Vec::new(),
        }
    }

    /// Strikes until the time is over. The server runs and is ready when this returns.
    pub(crate) async fn run(
        &mut self,
        server: &mut ServerProcess,
        until: Instant,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        self.mend(server).await?;
        loop {
            let next = Instant::now() + self.gap(rng);
            self.rest(server, next.min(until)).await?;
            if next >= until {
                break;
            }
            match self.deck.draw(rng) {
                Blows::KillAnytime => self.kill(server, Trigger::Random, rng).await?,
                Blows::KillAtMoment => self.kill_at_moment(server, until, rng).await?,
                Blows::Term => self.term(server, rng).await?,
                Blows::Burst => self.burst(server).await?,
                Blows::DiskFull => self.fill(server, rng).await?,
                Blows::SlowReaders => self.read_slowly(server).await?,
                Blows::Database(blow) => self.strike(server, blow, rng).await?,
            }
        }
        self.burst.end();
        self.mend(server).await
    }

    fn gap(&self, rng: &mut Rng) -> Duration {
        self.gap.mul_f64((-(1.0 - rng.f64()).ln()).min(LONGEST_GAP))
    }

    /// Waits, and starts the server again if it ends by itself.
    async fn rest(&mut self, server: &mut ServerProcess, until: Instant) -> Result<(), TortureError> {
        while Instant::now() < until {
            self.mend(server).await?;
            tokio::time::sleep_until(until.min(Instant::now() + LOOK)).await;
        }
        Ok(())
    }

    /// Sees to it that a server runs.
    async fn mend(&mut self, server: &mut ServerProcess) -> Result<(), TortureError> {
        if let Some(status) = server.ended()? {
            self.deaths.push(format!("the server ended by itself at {} µs: {status}", self.stage.book.now()));
            self.rise(server).await?;
        } else if !server.is_running()? {
            self.rise(server).await?;
        }
        Ok(())
    }

    /// Starts the server and waits until it is ready. Says when it was started, and when it was ready.
    async fn rise(&mut self, server: &mut ServerProcess) -> Result<(Micros, Micros), TortureError> {
        let restarted = self.stage.book.now();
        for _ in 0..MAX_STARTS {
            server.start()?;
            if server.ready(READY_PATIENCE).await? {
                return Ok((restarted, self.stage.book.now()));
            }
            let how = server.ended()?.map_or_else(|| "it still runs".into(), |status| status.to_string());
            self.deaths
                .push(format!("the server was started at {restarted} µs and did not become ready: {how}"));
            server.kill().await?;
        }
        Err(format!("the server does not start; see {}", server.launch().log.display()).into())
    }

    /// Waits for the moment that was tried least so far. If it does not come, any moment will do.
    async fn kill_at_moment(
        &mut self,
        server: &mut ServerProcess,
        until: Instant,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let least = self.tried.iter().min_by_key(|(_, times)| **times).map(|(trigger, _)| *trigger);
        let chosen = least.unwrap_or(Trigger::Random);
        self.tried.entry(chosen).and_modify(|times| *times += 1);
        let patience = PATIENCE.min(until.saturating_duration_since(Instant::now()));
        if !self.stage.moments.next(chosen, patience).await {
            return self.kill(server, Trigger::Random, rng).await;
        }
        if let Some(delay) = rng.choice(DELAYS_MS).filter(|delay| *delay > 0) {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        self.kill(server, chosen, rng).await
    }

    /// SIGKILL, and now and then another one into the recovery from it.
    async fn kill(
        &mut self,
        server: &mut ServerProcess,
        trigger: Trigger,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let mut at = self.stage.book.now();
        server.kill().await?;
        self.kills += 1;
        let mut trigger = trigger;
        if self.kills.is_multiple_of(COMPOUND) {
            down(rng).await;
            let restarted = Some(self.stage.book.now());
            server.start()?;
            tokio::time::sleep(Duration::from_millis(rng.u64(0..=RECOVERY_MS))).await;
            self.stage.book.blow(Blow { trigger, at, restarted, ready: None });
            (at, trigger) = (self.stage.book.now(), Trigger::Recovering);
            server.kill().await?;
        }
        self.recover(server, trigger, at, rng).await
    }

    async fn term(&mut self, server: &mut ServerProcess, rng: &mut Rng) -> Result<(), TortureError> {
        let at = self.stage.book.now();
        server.term().await?;
        self.recover(server, Trigger::Term, at, rng).await
    }

    async fn recover(
        &mut self,
        server: &mut ServerProcess,
        trigger: Trigger,
        at: Micros,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        down(rng).await;
        let (restarted, ready) = self.rise(server).await?;
        self.stage.book.blow(Blow { trigger, at, restarted: Some(restarted), ready: Some(ready) });
        Ok(())
    }

    async fn burst(&mut self, server: &mut ServerProcess) -> Result<(), TortureError> {
        self.note(Trigger::UpstreamBurst);
        self.burst.begin(BURST);
        self.rest(server, Instant::now() + BURST).await
    }

    /// Fills the disk for a while; where that cannot be done, it is a kill like any other.
    async fn fill(&mut self, server: &mut ServerProcess, rng: &mut Rng) -> Result<(), TortureError> {
        let Some(folder) = self.disk.clone() else { return self.kill(server, Trigger::Random, rng).await };
        let leave = rng.choice(LEFT).unwrap_or_default();
        self.note(Trigger::DiskFull);
        let filler = tokio::task::spawn_blocking(move || Filler::fill(&folder, leave)).await??;
        tokio::time::sleep(FULL).await;
        drop(filler);
        self.mend(server).await
    }

    async fn read_slowly(&mut self, server: &mut ServerProcess) -> Result<(), TortureError> {
        self.note(Trigger::SlowReaders);
        let readers = tokio::time::timeout(STALLED, stalled_readers(self.stage.clone(), READERS));
        let rest = self.rest(server, Instant::now() + STALLED);
        tokio::join!(readers, rest).1
    }

    /// For what kills nothing.
    fn note(&self, trigger: Trigger) {
        self.stage.book.blow(Blow { trigger, at: self.stage.book.now(), restarted: None, ready: None });
    }
}

/// Leaves the server down for a while.
async fn down(rng: &mut Rng) {
    let most = if rng.u32(0..LONG_DOWN) == 0 { LONG_DOWN_MS } else { DOWN_MS };
    tokio::time::sleep(Duration::from_millis(rng.u64(0..=most))).await;
}
