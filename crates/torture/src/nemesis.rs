//! The nemesis: it kills nodes at random and at the moments that hurt most, fills their disk or strikes their database,
//! pauses them, cuts them off, lets their model fail and reads from them without reading. It never leaves a node down.

mod database;
mod deck;
mod nodes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use self::deck::{Blows, Deck};
use self::nodes::Spell;
use crate::actors::stalled_readers;
use crate::disk::Filler;
use crate::model::Burst;
use crate::postgres::TrialPostgres;
use crate::record::{Blow, Micros, Trigger};
use crate::stage::{Stage, TortureError};
use crate::world::{TortureWorld, TrialNode};

/// How long a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between a moment and the kill, in milliseconds.
const DELAYS_MS: [u64; 3] = [0, 1, 5];
/// One of this number of kills is followed by another, while the server recovers.
const COMPOUND: usize = 5;
/// How far into the recovery.
const RECOVERY_MS: u64 = 500;
/// How long a node stays down, mostly and at most.
const DOWN_MS: u64 = 100;
const LONG_DOWN_MS: u64 = 2_000;
/// One of this number of times, it stays down for long.
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
/// The space that is left on a full disk, in bytes.
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
    /// The spells that last for a while, and are ended when their time is over.
    spells: Vec<Spell>,
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
            deck: Deck::new(world.store(), world.node_count()),
            spells: Vec::new(),
            tried: CHOSEN.iter().map(|trigger| (*trigger, 0)).collect(),
            kills: 0,
            deaths: Vec::new(),
        }
    }

    /// Strikes until the time is over. All nodes run and are ready when this returns.
    pub(crate) async fn run(
        &mut self,
        nodes: &mut [TrialNode],
        until: Instant,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        self.start_missing(nodes).await?;
        loop {
            let next = Instant::now() + self.draw_gap(rng);
            self.wait_between_blows(nodes, next.min(until)).await?;
            if next >= until {
                break;
            }
            let blow = self.deck.draw(rng);
            if self.may_blow(blow, nodes.len()) {
                self.perform(blow, nodes, until, rng).await?;
            } else {
                self.deck.put_back(blow);
                self.kill_at_moment(nodes, until, rng).await?;
            }
        }
        self.burst.end();
        self.end_spells(nodes, true).await?;
        self.start_missing(nodes).await
    }

    async fn perform(
        &mut self,
        blow: Blows,
        nodes: &mut [TrialNode],
        until: Instant,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        match blow {
            Blows::KillAnytime => self.kill(nodes, Trigger::Random, rng).await,
            Blows::KillAtMoment => self.kill_at_moment(nodes, until, rng).await,
            Blows::Term => self.term(nodes, rng).await,
            Blows::Burst => self.burst(nodes).await,
            Blows::DiskFull => self.fill(nodes, rng).await,
            Blows::SlowReaders => self.read_slowly(nodes).await,
            Blows::Database(blow) => self.strike(nodes, blow, rng).await,
            Blows::NodeDown => self.take_down(nodes, rng).await,
            Blows::NodePause => self.pause(nodes, rng).await,
            Blows::NodeHiccup => self.pause_briefly(nodes, rng).await,
            Blows::NodeCut => self.cut_off(nodes, rng).await,
            Blows::AllNodes => self.kill_all(nodes, rng).await,
            Blows::RollingRestart => self.restart_in_turn(nodes, rng).await,
        }
    }

    fn draw_gap(&self, rng: &mut Rng) -> Duration {
        self.gap.mul_f64((-(1.0 - rng.f64()).ln()).min(LONGEST_GAP))
    }

    /// Waits, and starts a node again if it ends by itself.
    async fn wait_between_blows(
        &mut self,
        nodes: &mut [TrialNode],
        until: Instant,
    ) -> Result<(), TortureError> {
        while Instant::now() < until {
            self.end_spells(nodes, false).await?;
            self.start_missing(nodes).await?;
            tokio::time::sleep_until(until.min(Instant::now() + LOOK)).await;
        }
        Ok(())
    }

    /// Sees to it that all nodes run, but for those that are meant not to.
    async fn start_missing(&mut self, nodes: &mut [TrialNode]) -> Result<(), TortureError> {
        for node in nodes {
            if self.is_under_spell(node.number) {
                continue;
            }
            if let Some(status) = node.process.exit_status()? {
                let (number, now) = (node.number, self.stage.book.now());
                self.deaths.push(format!("node {number} ended by itself at {now} µs: {status}"));
                self.start_node(node).await?;
            } else if !node.process.is_running()? {
                self.start_node(node).await?;
            }
        }
        Ok(())
    }

    /// Starts a node and waits until it is ready. Says when it was started, and when it was ready.
    async fn start_node(&mut self, node: &mut TrialNode) -> Result<(Micros, Micros), TortureError> {
        let (restarted, server) = (self.stage.book.now(), &mut node.process);
        for _ in 0..MAX_STARTS {
            server.start()?;
            if server.wait_until_ready(READY_PATIENCE).await? {
                self.stage.balancer.put_back(node.number);
                return Ok((restarted, self.stage.book.now()));
            }
            let how =
                server.exit_status()?.map_or_else(|| "it still runs".into(), |status| status.to_string());
            let number = node.number;
            self.deaths
                .push(format!("node {number} was started at {restarted} µs and did not become ready: {how}"));
            server.kill().await?;
        }
        Err(format!("a node does not start; see {}", server.launch().log.display()).into())
    }

    /// SIGKILL. No client asks the node any more.
    async fn end(&self, node: &mut TrialNode) -> Result<Micros, TortureError> {
        let at = self.stage.book.now();
        node.process.kill().await?;
        self.stage.balancer.take_out(node.number);
        Ok(at)
    }

    /// Waits for the moment that was tried least so far. If it does not come, any moment will do.
    async fn kill_at_moment(
        &mut self,
        nodes: &mut [TrialNode],
        until: Instant,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let least = self.tried.iter().min_by_key(|(_, times)| **times).map(|(trigger, _)| *trigger);
        let chosen = least.unwrap_or(Trigger::Random);
        self.tried.entry(chosen).and_modify(|times| *times += 1);
        let end = until.min(Instant::now() + PATIENCE);
        let Some(node) = self.await_moment(chosen, end).await else {
            return self.kill(nodes, Trigger::Random, rng).await;
        };
        if let Some(delay) = rng.choice(DELAYS_MS).filter(|delay| *delay > 0) {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        let Some(node) = nodes.get_mut(node) else { return Ok(()) };
        self.kill_node(node, chosen, rng).await
    }

    /// Waits for a moment of a node that may be struck.
    async fn await_moment(&self, chosen: Trigger, end: Instant) -> Option<usize> {
        loop {
            let patience = end.saturating_duration_since(Instant::now());
            let node = self.stage.moments.next(chosen, patience).await?;
            if self.may_strike(node) {
                return Some(node);
            }
        }
    }

    /// SIGKILL of some node.
    async fn kill(
        &mut self,
        nodes: &mut [TrialNode],
        trigger: Trigger,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        self.kill_node(node, trigger, rng).await
    }

    /// SIGKILL, and now and then another one into the recovery from it.
    async fn kill_node(
        &mut self,
        node: &mut TrialNode,
        trigger: Trigger,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let mut at = self.end(node).await?;
        self.kills += 1;
        let mut trigger = trigger;
        if self.kills.is_multiple_of(COMPOUND) {
            wait_down(rng).await;
            let restarted = Some(self.stage.book.now());
            node.process.start()?;
            tokio::time::sleep(Duration::from_millis(rng.u64(0..=RECOVERY_MS))).await;
            self.stage.book.note_blow(Blow { restarted, ..Blow::to_node(node.number, trigger, at) });
            at = self.end(node).await?;
            trigger = Trigger::Recovering;
        }
        self.recover(node, trigger, at, rng).await
    }

    async fn term(&mut self, nodes: &mut [TrialNode], rng: &mut Rng) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        let at = self.stage.book.now();
        node.process.term().await?;
        self.recover(node, Trigger::Term, at, rng).await
    }

    async fn recover(
        &mut self,
        node: &mut TrialNode,
        trigger: Trigger,
        at: Micros,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        wait_down(rng).await;
        let times = self.start_node(node).await?;
        self.note_recovery(node.number, (trigger, at), times);
        Ok(())
    }

    /// Writes down that a node was struck, and when it was started and ready again.
    fn note_recovery(
        &self,
        node: usize,
        (trigger, at): (Trigger, Micros),
        (restarted, ready): (Micros, Micros),
    ) {
        let (restarted, ready) = (Some(restarted), Some(ready));
        self.stage.book.note_blow(Blow { restarted, ready, ..Blow::to_node(node, trigger, at) });
    }

    async fn burst(&mut self, nodes: &mut [TrialNode]) -> Result<(), TortureError> {
        self.note(Trigger::UpstreamBurst);
        self.burst.begin(BURST);
        self.wait_between_blows(nodes, Instant::now() + BURST).await
    }

    /// Fills the disk for a while; where that cannot be done, it is a kill like any other.
    async fn fill(&mut self, nodes: &mut [TrialNode], rng: &mut Rng) -> Result<(), TortureError> {
        let Some(folder) = self.disk.clone() else { return self.kill(nodes, Trigger::Random, rng).await };
        let leave = rng.choice(LEFT).unwrap_or_default();
        self.note(Trigger::DiskFull);
        let filler = tokio::task::spawn_blocking(move || Filler::fill(&folder, leave)).await??;
        tokio::time::sleep(FULL).await;
        drop(filler);
        self.start_missing(nodes).await
    }

    async fn read_slowly(&mut self, nodes: &mut [TrialNode]) -> Result<(), TortureError> {
        self.note(Trigger::SlowReaders);
        let readers = tokio::time::timeout(STALLED, stalled_readers(self.stage.clone(), READERS));
        let rest = self.wait_between_blows(nodes, Instant::now() + STALLED);
        tokio::join!(readers, rest).1
    }

    /// For what kills nothing.
    fn note(&self, trigger: Trigger) {
        self.stage.book.note_blow(Blow::to_all(trigger, self.stage.book.now()));
    }
}

/// Leaves a node down for a while.
async fn wait_down(rng: &mut Rng) {
    let most = if rng.u32(0..LONG_DOWN) == 0 { LONG_DOWN_MS } else { DOWN_MS };
    tokio::time::sleep(Duration::from_millis(rng.u64(0..=most))).await;
}
