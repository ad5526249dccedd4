//! The nodes of one measurement: their start, a load in which every user has a node, and what all of them have done.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;

use super::turn_watch::TurnWatch;
use crate::streams::client::PlainClient;
use crate::streams::figures::{ServerFigures, StreamFigure};
use crate::streams::load::{LoadPlan, LoadResult, LoadThread, ServerKind, run_load};
use crate::streams::measure::{ProcessReading, anon_kib};
use crate::streams::postgres::{BenchSchema, PostgresReading};
use crate::streams::script::AnswerScript;
use crate::streams::servers::{ServerStart, ServerUnderTest, StreamWorld};
use crate::streams::trial::{add_upstream, target, turn_figures, warm_up};

/// How long nodes without requests are watched.
const IDLE_TIME: Duration = Duration::from_secs(3);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// After this time no turn begins.
const LIMIT: Duration = Duration::from_secs(300);
const KIB_PER_MIB: f64 = 1024.0;

/// Servers with the same database.
pub(super) struct NodeGroup {
    nodes: Vec<ServerUnderTest>,
}

/// The load of all clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupLoad {
    pub(super) script: AnswerScript,
    /// Each has a thread.
    pub(super) clients: usize,
    /// Turns of each thread.
    pub(super) turns: usize,
}

/// The counters of all processes at one moment.
pub(super) struct GroupReading {
    at: Instant,
    nodes: Vec<ProcessReading>,
    /// The upstream and this program.
    load: [ProcessReading; 2],
}

/// The work of all processes between two moments.
pub(super) struct GroupWork {
    pub(super) seconds: f64,
    /// Milliseconds of each node.
    pub(super) nodes_ms: Vec<f64>,
    load_ms: f64,
}

impl NodeGroup {
    /// Starts nodes one after another. Without keys, the first one makes the users.
    pub(super) async fn start(
        world: &StreamWorld,
        start: ServerStart<'_>,
        count: usize,
        keys: Option<&[Rc<str>]>,
    ) -> Result<Self, String> {
        let mut nodes: Vec<ServerUnderTest> = Vec::with_capacity(count);
        for _ in 0..count {
            let known = keys.or_else(|| nodes.first().map(ServerUnderTest::keys)).map(<[Rc<str>]>::to_vec);
            let users = if known.is_some() { 0 } else { start.users };
            let mut node =
                world.start_server_as(ServerKind::RondoPostgres, ServerStart { users, ..start }).await?;
            if let Some(known) = known {
                node.use_keys(&known);
            }
            nodes.push(node);
        }
        Ok(Self { nodes })
    }

    /// The node with a number, which may be larger than their count.
    pub(super) fn node(&self, number: usize) -> Result<&ServerUnderTest, String> {
        self.nodes.get(number % self.nodes.len().max(1)).ok_or_else(|| "there is no node".into())
    }

    /// Lets every node answer, so that nothing happens for the first time in the measurement.
    pub(super) async fn warm_up(&self, world: &StreamWorld, script: AnswerScript) -> Result<(), String> {
        world.set_script(script.at_once()).await?;
        for node in &self.nodes {
            warm_up(node, target(node, script)).await?;
        }
        Ok(())
    }

    /// One thread of each of `users` users. A thread is made at the node of its user.
    pub(super) async fn new_threads(&self, users: usize) -> Result<Vec<LoadThread>, String> {
        let mut clients: Vec<PlainClient> =
            self.nodes.iter().map(|node| PlainClient::new(node.address)).collect();
        let (mut threads, count) = (Vec::with_capacity(users), clients.len().max(1));
        for user in 0..users {
            let client = clients.get_mut(user % count).ok_or("there is no node")?;
            threads.push(self.node(user)?.new_thread(client, user).await?);
        }
        Ok(threads)
    }

    /// Sends turns to all threads. The thread with the number `n` speaks to the node with the number `n + shift`.
    pub(super) async fn run(&self, load: GroupLoad, threads: &[LoadThread], shift: usize) -> LoadResult {
        let count = self.nodes.len();
        let loads = self.nodes.iter().enumerate().map(|(number, node)| {
            let own = threads.iter().enumerate().filter(move |(user, _)| (user + shift) % count == number);
            let own: Vec<LoadThread> = own.map(|(_, thread)| thread.clone()).collect();
            // Clients that begin together would stay together.
            let arrival = load.script.ideal_turn();
            let plan = LoadPlan { clients: own.len(), turns_per_thread: load.turns, arrival, limit: LIMIT };
            let target = target(node, load.script);
            async move { run_load(target, &own, plan).await }
        });
        let mut all = LoadResult::default();
        for result in join_all(loads).await {
            all.join(result);
        }
        all
    }

    /// Memory of all nodes that is no file.
    pub(super) fn anon_mib(&self) -> Result<f64, String> {
        let nodes: Result<Vec<f64>, String> =
            self.nodes.iter().map(|node| anon_kib(node.process.id())).collect();
        Ok(nodes?.iter().sum::<f64>() / KIB_PER_MIB)
    }
}

impl GroupReading {
    pub(super) fn take(world: &StreamWorld, group: &NodeGroup) -> Result<Self, String> {
        let nodes: Result<Vec<ProcessReading>, String> =
            group.nodes.iter().map(|node| ProcessReading::of(node.process.id())).collect();
        let load = [ProcessReading::of(world.upstream_id())?, ProcessReading::of(std::process::id())?];
        Ok(Self { at: Instant::now(), nodes: nodes?, load })
    }

    pub(super) fn work_since(&self, before: &Self) -> GroupWork {
        let work = |after: &[ProcessReading], before: &[ProcessReading]| {
            let pairs = after.iter().zip(before);
            pairs.map(|(after, before)| after.work_since(before).cpu_ms).collect::<Vec<f64>>()
        };
        GroupWork {
            seconds: (self.at - before.at).as_secs_f64(),
            nodes_ms: work(&self.nodes, &before.nodes),
            load_ms: work(&self.load, &before.load).iter().sum(),
        }
    }
}

impl GroupWork {
    pub(super) fn all_ms(&self) -> f64 {
        self.nodes_ms.iter().sum()
    }

    /// Adds what the nodes have done, while PostgreSQL has worked for `postgres_ms` milliseconds on the core of the
    /// load.
    pub(super) fn add_to(&self, figures: &mut ServerFigures, postgres_ms: f64) {
        let good = figures.good as f64;
        let busiest = self.nodes_ms.iter().copied().fold(0.0, f64::max);
        figures.set(StreamFigure::CpuPerRun, Some(self.all_ms() / good));
        figures.set(StreamFigure::BusiestCpu, Some(busiest / good));
        let wall_ms = self.seconds * 1e3;
        figures.set(StreamFigure::LoadBusy, Some((self.load_ms + postgres_ms) / wall_ms * 100.0));
    }
}

/// Measures the nodes without requests, then under a load.
pub(super) async fn measure_group(
    world: &StreamWorld,
    group: &NodeGroup,
    schema: &BenchSchema,
    load: GroupLoad,
) -> Result<ServerFigures, String> {
    let threads = group.new_threads(load.clients).await?;
    world.set_script(load.script).await?;
    let idle = measure_idle(world, group, schema).await?;
    let before_mib = group.anon_mib()?;
    let postgres_before = schema.read_before()?;
    let before = GroupReading::take(world, group)?;
    let whole_turn = load.script.ideal_turn();
    let steady = whole_turn * u32::try_from(load.turns.saturating_sub(1)).unwrap_or(u32::MAX);
    let watch = TurnWatch::start(world.postgres()?, whole_turn, steady)?;
    let (result, peak_mib) = run_and_sample(group, load, &threads).await?;
    let work = GroupReading::take(world, group)?.work_since(&before);
    let postgres_after = schema.read_after()?;
    let share = watch.finish()?;
    let mut figures = turn_figures(&result, load.script);
    figures.set(StreamFigure::TurnTaken, Some(share.taken_percent));
    figures.set(StreamFigure::TurnWaiting, Some(share.waiting));
    work.add_to(&mut figures, postgres_after.cpu_ms_since(&postgres_before));
    postgres_after.add_to(&mut figures, &postgres_before, work.seconds);
    figures.set(StreamFigure::AnonBefore, Some(before_mib));
    figures.set(StreamFigure::AnonPeak, Some(peak_mib));
    figures.set(StreamFigure::Connections, Some(schema.connections()? as f64));
    figures.set(StreamFigure::IdleCpu, Some(idle.nodes_ms));
    figures.set(StreamFigure::IdlePostgresCpu, Some(idle.postgres_ms));
    add_upstream(world, &mut figures, load.script).await?;
    Ok(figures)
}

/// Milliseconds of processor time for each second without requests.
struct IdleWork {
    nodes_ms: f64,
    postgres_ms: f64,
}

async fn measure_idle(
    world: &StreamWorld,
    group: &NodeGroup,
    schema: &BenchSchema,
) -> Result<IdleWork, String> {
    let postgres: PostgresReading = schema.read_before()?;
    let before = GroupReading::take(world, group)?;
    sleep(IDLE_TIME).await;
    let work = GroupReading::take(world, group)?.work_since(&before);
    let postgres_ms = schema.read_after()?.cpu_ms_since(&postgres);
    Ok(IdleWork { nodes_ms: work.all_ms() / work.seconds, postgres_ms: postgres_ms / work.seconds })
}

async fn run_and_sample(
    group: &NodeGroup,
    load: GroupLoad,
    threads: &[LoadThread],
) -> Result<(LoadResult, f64), String> {
    let peak_mib = Cell::new(group.anon_mib()?);
    let sampling = async {
        loop {
            sleep(SAMPLE_EVERY).await;
            peak_mib.set(peak_mib.get().max(group.anon_mib()?));
        }
    };
    let result: Result<LoadResult, String> = tokio::select! {
        result = group.run(load, threads, 0) => Ok(result),
        failure = sampling => failure,
    };
    Ok((result?, peak_mib.get()))
}
