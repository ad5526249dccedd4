//! Blows of the nemesis at PostgreSQL: while the server lives, and together with the end or the start of the server.

use std::time::Duration;

use fastrand::Rng;

use super::{Nemesis, READY_PATIENCE, RECOVERY_MS, wait_down};
use crate::postgres::DatabaseBlow;
use crate::record::{Blow, Micros, Trigger};
use crate::stage::TortureError;
use crate::world::TrialNode;

/// How long PostgreSQL stays down, mostly and at most.
const DATABASE_DOWN_MS: u64 = 800;
const LONG_DATABASE_DOWN_MS: u64 = 6_000;
/// One of this number of times, it stays down for long.
const LONG_DATABASE_DOWN: u32 = 4;

/// The status of a server that could not start.
const REFUSED_START: i32 = 1;

/// The fate of a node when its database is struck, and how often of a dozen times.
const ACCOMPANIMENTS: [(Accompaniment, usize); 5] = [
    (Accompaniment::Nothing, 5),
    (Accompaniment::Kill, 3),
    (Accompaniment::Term, 1),
    (Accompaniment::Absence, 1),
    (Accompaniment::Start, 2),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accompaniment {
    /// The node lives on.
    Nothing,
    /// The node is killed a moment later, when the database may still be down.
    Kill,
    /// The node is told to end a moment later.
    Term,
    /// The node was killed before.
    Absence,
    /// The node has been started a moment before.
    Start,
}

impl Accompaniment {
    fn draw(rng: &mut Rng) -> Self {
        let all = ACCOMPANIMENTS.iter().flat_map(|(what, count)| std::iter::repeat_n(*what, *count));
        rng.choice(all.collect::<Vec<_>>()).unwrap_or(Self::Nothing)
    }
}

impl Nemesis {
    /// Strikes PostgreSQL, and perhaps a node with it. All run when this returns.
    pub(super) async fn strike(
        &mut self,
        nodes: &mut [TrialNode],
        blow: DatabaseBlow,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let Some(node) = self.victim(nodes, rng) else { return Ok(()) };
        self.strike_beside(node, blow, rng).await?;
        self.start_missing(nodes).await
    }

    async fn strike_beside(
        &mut self,
        node: &mut TrialNode,
        blow: DatabaseBlow,
        rng: &mut Rng,
    ) -> Result<(), TortureError> {
        let outage = outage(rng);
        let later = Duration::from_millis(rng.u64(0..=RECOVERY_MS));
        match Accompaniment::draw(rng) {
            Accompaniment::Nothing => self.hit_database(blow, outage).await,
            Accompaniment::Kill => {
                let ending = async {
                    tokio::time::sleep(later).await;
                    self.end(node).await
                };
                let (hit, at) = tokio::join!(self.hit_database(blow, outage), ending);
                hit?;
                self.recover(node, Trigger::Random, at?, rng).await
            }
            Accompaniment::Term => {
                let ending = async {
                    tokio::time::sleep(later).await;
                    let at = self.stage.book.now();
                    node.process.term().await.map(|_| at)
                };
                let (hit, at) = tokio::join!(self.hit_database(blow, outage), ending);
                hit?;
                self.recover(node, Trigger::Term, at?, rng).await
            }
            Accompaniment::Absence => {
                let at = self.end(node).await?;
                self.hit_database(blow, outage).await?;
                self.recover(node, Trigger::Random, at, rng).await
            }
            Accompaniment::Start => {
                let at = self.end(node).await?;
                wait_down(rng).await;
                self.hit_start(node, (blow, outage), (at, later)).await
            }
        }
    }

    /// Starts a node and strikes its database. A server that finds no database at its start ends, and says so.
    async fn hit_start(
        &mut self,
        node: &mut TrialNode,
        (blow, outage): (DatabaseBlow, Duration),
        (at, later): (Micros, Duration),
    ) -> Result<(), TortureError> {
        node.process.start()?;
        tokio::time::sleep(later).await;
        self.hit_database(blow, outage).await?;
        if !node.process.wait_until_ready(READY_PATIENCE).await? {
            match node.process.exit_status()? {
                Some(status) if status.code() == Some(REFUSED_START) => {}
                Some(status) => {
                    self.deaths.push(format!("the server that was started at {at} µs ended: {status}"));
                }
                None => self.deaths.push(format!("the server that was started at {at} µs is not ready")),
            }
        }
        let times = self.start_node(node).await?;
        self.note_recovery(node.number, (Trigger::Random, at), times);
        Ok(())
    }

    /// Strikes, and waits until PostgreSQL is back.
    async fn hit_database(&self, blow: DatabaseBlow, outage: Duration) -> Result<(), TortureError> {
        let Some(postgres) = &self.postgres else { return Ok(()) };
        let at = self.stage.book.now();
        if postgres.strike(blow, outage).await? {
            let trigger = match blow {
                DatabaseBlow::Restart => Trigger::DatabaseRestart,
                DatabaseBlow::Crash => Trigger::DatabaseCrash,
                DatabaseBlow::BackendKill => Trigger::BackendKill,
                DatabaseBlow::ConnectionLoss => Trigger::ConnectionLoss,
            };
            let ready = Some(self.stage.book.now());
            self.stage.book.note_blow(Blow { ready, ..Blow::to_all(trigger, at) });
        }
        Ok(())
    }
}

/// For how long PostgreSQL is away.
fn outage(rng: &mut Rng) -> Duration {
    let most = if rng.u32(0..LONG_DATABASE_DOWN) == 0 { LONG_DATABASE_DOWN_MS } else { DATABASE_DOWN_MS };
    Duration::from_millis(rng.u64(0..=most))
}
