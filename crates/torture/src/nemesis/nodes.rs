//! Blows of the nemesis at nodes that share a database: it pauses them, cuts them off, and takes down one or all.
//!
//! Some of it lasts for a while (a [`Spell`]) during which other nodes are struck. While a node is gone for longer than
//! its lease, one other node and PostgreSQL are spared, so that another node can take over its runs.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::deck::Blows;
use super::{Nemesis, READY_PATIENCE, wait_down};
use crate::database_link::LinkState;
use crate::record::{Blow, Micros, Trigger};
use crate::stage::TortureError;
use crate::world::TrialNode;

/// How long a node is paused, longer than its lease of eight seconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 10_000..=14_000;
/// How long a node is paused, for less than its lease.
const HICCUP: Duration = Duration::from_secs(3);
/// How long a node cannot reach PostgreSQL.
const CUT_MS: std::ops::RangeInclusive<u64> = 3_000..=12_000;
/// How long a node stays down. Other nodes continue its runs within 15 seconds.
const DOWN_MS: std::ops::RangeInclusive<u64> = 16_000..=18_000;
/// How long it takes until a load balancer notices that a node gives no answers.
const NOTICE: Duration = Duration::from_secs(1);

/// Something that lasts.
pub(super) struct Spell {
    node: usize,
    kind: SpellKind,
    at: Micros,
    until: Instant,
    /// A node that is not struck meanwhile.
    spared: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpellKind {
    Down,
    Paused,
    CutOff,
}

impl Nemesis {
    pub(super) fn is_under_spell(&self, node: usize) -> bool {
        self.spells.iter().any(|spell| spell.node == node)
    }

    /// Whether a node may be struck now.
    pub(super) fn may_strike(&self, node: usize) -> bool {
        !self.spells.iter().any(|spell| spell.node == node || spell.spared == Some(node))
    }

    /// Some node that may be struck now.
    pub(super) fn victim<'n>(&self, nodes: &'n mut [TrialNode], rng: &mut Rng) -> Option<&'n mut TrialNode> {
        let free: Vec<usize> =
            nodes.iter().map(|node| node.number).filter(|node| self.may_strike(*node)).collect();
        nodes.get_mut(rng.choice(free)?)
    }

    /// Whether a blow leaves alone what is spared.
    pub(super) fn may_blow(&self, blow: Blows, nodes: usize) -> bool {
        let spares = self.spells.iter().any(|spell| spell.spared.is_some());
        match blow {
            Blows::KillAnytime
            | Blows::KillAtMoment
            | Blows::Term
            | Blows::Burst
            | Blows::DiskFull
            | Blows::SlowReaders
            | Blows::NodeHiccup => true,
            Blows::Database(_) => !spares,
            Blows::AllNodes | Blows::RollingRestart => self.spells.is_empty(),
            // Another node has to be left.
            Blows::NodeDown | Blows::NodePause | Blows::NodeCut => !spares && self.spells.len() + 1 < nodes,
        }
    }

    /// Ends what has lasted long enough, or everything.
    pub(super) async fn end_spells(
        &mut self,
        nodes: &mut [TrialNode],
        everything: bool,
    ) -> Result<(), TortureError> {
        let now = Instant::now();
        while let Some(place) = self.spells.iter().position(|spell| everything || spell.until <= now) {
            let spell = self.spells.swap_remove(place);
            if let Some(node) = nodes.get_mut(spell.node) {
                self.end_spell(node, &spell).await?;
            }
        }
        Ok(())
    }

    async fn end_spell(&mut self, node: &mut TrialNode, spell: &Spell) -> Result<(), TortureError> {
        let trigger = match spell.kind {
            SpellKind::Down => {
                let times = self.start_node(node).await?;
                self.note_recovery(node.number, (Trigger::NodeDown, spell.at), times);
                return Ok(());
            }
            SpellKind::Paused => {
                node.process.unpause()?;
                Trigger::NodePaused
            }
            SpellKind::CutOff => {
                set_link(node, LinkState::Open);
                Trigger::NodeCut
            }
        };
        self.await_return(node, (trigger, spell.at)).await
    }

    /// Waits until a node that lived on serves again, and writes down for how long it did not.
    async fn await_return(
        &mut self,
        node: &mut TrialNode,
        (trigger, at): (Trigger, Micros),
    ) -> Result<(), TortureError> {
        if !node.process.wait_until_ready(READY_PATIENCE).await? {
            let now = self.stage.book.now();
            let how = node
                .process
                .exit_status()?
                .map_or_else(|| "it still runs".into(), |status| status.to_string());
            let number = node.number;
            self.deaths
                .push(format!("node {number} was {trigger:?} at {at} µs and not ready at {now} µs: {how}"));
            node.process.kill().await?;
            self.start_node(node).await?;
        }
        self.stage.balancer.put_back(node.number);
        let ready = Some(self.stage.book.now());
        self.stage.book.note_blow(Blow { ready, ..Blow::to_node(node.number, trigger, at) });
        Ok(())
    }

    fn begin_spell(
        &mut self,
        node: usize,
        (kind, at): (SpellKind, Micros),
        length: Duration,
        spared: Option<usize>,
    ) {
        self.spells.push(Spell { node, kind, at, until: Instant::now() + length, spared });
    }

    /// A node that is left alone while this one is gone.
    fn choose_spared(&self, nodes: &[TrialNode], gone: usize, rng: &mut Rng) -> Option<usize> {
        let others = nodes.iter().map(|node| node.number).filter(|node| *node != gone);
        rng.choice(others.filter(|node| self.may_strike(*node)).collect::<Vec<_>>())
    }

    /// Kills a node and leaves it down until other nodes must continue its runs.
    pub(super) async fn take_down(
        &mut self,
        nodes: &mut [TrialNode],
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        let (number, at) = (node.number, self.end(node).await?);
        let spared = self.choose_spared(nodes, number, rng);
        self.begin_spell(number, (SpellKind::Down, at), draw_duration(DOWN_MS, rng), spared);
        Ok(())
    }

    /// Stops a node in its tracks for longer than its lease.
    pub(super) async fn pause(&mut self, nodes: &mut [TrialNode], rng: &mut Rng) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        node.process.pause()?;
        let (number, at) = (node.number, self.stage.book.now());
        let spared = self.choose_spared(nodes, number, rng);
        self.begin_spell(number, (SpellKind::Paused, at), draw_duration(PAUSE_MS, rng), spared);
        tokio::time::sleep(NOTICE).await;
        self.stage.balancer.take_out(number);
        Ok(())
    }

    /// Stops a node in its tracks for less than its lease. Clients wait for it.
    pub(super) async fn pause_briefly(
        &mut self,
        nodes: &mut [TrialNode],
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        let at = self.stage.book.now();
        node.process.pause()?;
        tokio::time::sleep(HICCUP).await;
        node.process.unpause()?;
        self.await_return(node, (Trigger::NodeHiccup, at)).await
    }

    /// Lets a node reach PostgreSQL no more. Clients still reach the node. It tells them to try again, or, if it cannot
    /// know that it was cut off, lets them wait until a load balancer notices.
    pub(super) async fn cut_off(
        &mut self,
        nodes: &mut [TrialNode],
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        let (number, at) = (node.number, self.stage.book.now());
        let is_silent = rng.bool();
        set_link(node, if is_silent { LinkState::Silent } else { LinkState::Severed });
        self.begin_spell(number, (SpellKind::CutOff, at), draw_duration(CUT_MS, rng), None);
        if is_silent {
            tokio::time::sleep(NOTICE).await;
            self.stage.balancer.take_out(number);
        }
        Ok(())
    }

    /// SIGKILL of all nodes at once. None is left to take over, so those that start must.
    pub(super) async fn kill_all(
        &mut self,
        nodes: &mut [TrialNode],
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let mut ends = Vec::new();
        for node in nodes.iter_mut() {
            ends.push(self.end(node).await?);
        }
        wait_down(rng).await;
        let restarted = self.stage.book.now();
        for node in nodes.iter_mut() {
            node.process.start()?;
        }
        for (node, at) in nodes.iter_mut().zip(ends) {
            let (_, ready) = self.start_node(node).await?;
            self.note_recovery(node.number, (Trigger::AllNodes, at), (restarted, ready));
        }
        Ok(())
    }

    /// SIGTERM of one node after the other, as an update does it.
    pub(super) async fn restart_in_turn(
        &mut self,
        nodes: &mut [TrialNode],
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        for node in nodes.iter_mut() {
            let at = self.stage.book.now();
            node.process.term().await?;
            self.recover(node, Trigger::RollingRestart, at, rng).await?;
        }
        Ok(())
    }
}

fn set_link(node: &TrialNode, state: LinkState) {
    if let Some(link) = &node.link {
        link.set(state);
    }
}

fn draw_duration(milliseconds: std::ops::RangeInclusive<u64>, rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.u64(milliseconds))
}
