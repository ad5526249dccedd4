//! One measurement: a fresh server, a warm-up, the load, and the counters of the server before and after it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::client::PlainClient;
use super::figures::{ServerFigures, StreamFigure, percentile};
use super::load::{LoadPlan, LoadResult, LoadTarget, LoadThread, ServerKind, run_load, run_turn};
use super::measure::{ProcessReading, ProcessWork, anon_kib, folder_kib};
use super::postgres::BenchSchema;
use super::script::AnswerScript;
use super::servers::{ServerStart, ServerUnderTest, StreamWorld};
use super::wal::CommitCounter;

/// Turns before the measurement, so that nothing is made or opened for the first time in it.
const WARM_UP_TURNS: usize = 3;
/// How often memory and commits are looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
const KIB_PER_MIB: f64 = 1024.0;
const WAL_FILE: &str = "rondo.db-wal";

/// Streams at the same time, and how they are spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadShape {
    pub(super) script: AnswerScript,
    pub(super) plan: LoadPlan,
    /// Threads that each client uses, one after another.
    pub(super) rounds: usize,
    /// Users of the threads; with none, the server asks for no key.
    pub(super) users: usize,
}

/// A server that is ready for a load, and the threads for it.
struct PreparedLoad {
    server: ServerUnderTest,
    threads: Vec<LoadThread>,
}

/// The samples that were taken while the load ran.
struct Samples {
    anon_peak_kib: f64,
    counter: CommitCounter,
}

/// The counters of the server and of the benchmark itself.
struct Readings {
    at: Instant,
    server: ProcessReading,
    upstream: ProcessReading,
    own: ProcessReading,
    data_kib: f64,
}

/// Measures one server under one load.
pub(super) async fn measure_load(
    world: &StreamWorld,
    kind: ServerKind,
    shape: &LoadShape,
) -> Result<ServerFigures, String> {
    let schema = match kind {
        ServerKind::RondoPostgres => Some(world.postgres()?.next_schema(None)?),
        ServerKind::Rondo | ServerKind::Floor | ServerKind::Proxy => None,
    };
    let PreparedLoad { server, threads } = prepare_load(world, kind, shape, schema.as_ref()).await?;
    let target = target(&server, shape.script);
    let anon_before_kib = anon_kib(server.process.id())?;
    let samples = RefCell::new(Samples {
        anon_peak_kib: anon_before_kib,
        counter: CommitCounter::new(server.data().join(WAL_FILE)),
    });
    samples.borrow_mut().counter.look();
    let commits_before = samples.borrow().counter.commits;
    let postgres_before = schema.as_ref().map(BenchSchema::read_before).transpose()?;
    let before = Readings::take(world, &server)?;
    let result = load_and_sample(&server, target, &threads, shape.plan, &samples).await?;
    let after = Readings::take(world, &server)?;
    let postgres_after = schema.as_ref().map(BenchSchema::read_after).transpose()?;
    let samples = samples.into_inner();
    let mut figures = turn_figures(&result, shape.script);
    let postgres = postgres_after.as_ref().zip(postgres_before.as_ref());
    let postgres_ms = postgres.map_or(0.0, |(after, before)| after.cpu_ms_since(before));
    add_work(&mut figures, (&before, &after), shape.script.chunks, postgres_ms);
    figures.set(StreamFigure::AnonBefore, Some(anon_before_kib / KIB_PER_MIB));
    figures.set(StreamFigure::AnonPeak, Some(samples.anon_peak_kib / KIB_PER_MIB));
    let grown = samples.anon_peak_kib - anon_before_kib;
    figures.set(StreamFigure::AnonPerStream, Some(grown / shape.plan.clients as f64));
    let seconds = (after.at - before.at).as_secs_f64();
    if kind == ServerKind::Rondo {
        let commits = samples.counter.commits - commits_before;
        figures.set(StreamFigure::Commits, Some(commits as f64 / seconds));
    }
    if let Some((after, before)) = postgres {
        after.add_to(&mut figures, before, seconds);
    }
    add_upstream(world, &mut figures, shape.script).await?;
    Ok(figures)
}

/// Counts what passes between Rondo and PostgreSQL under a load. It gives these figures alone, because others would suffer
/// from the counting.
pub(super) async fn measure_traffic(world: &StreamWorld, shape: &LoadShape) -> Result<ServerFigures, String> {
    let postgres = world.postgres()?;
    let through = postgres.pass_through()?;
    let schema = postgres.next_schema(Some(&through))?;
    let prepared = prepare_load(world, ServerKind::RondoPostgres, shape, Some(&schema)).await?;
    let before = through.traffic();
    let target = target(&prepared.server, shape.script);
    let result = run_load(target, &prepared.threads, shape.plan).await;
    let mut figures = ServerFigures::default();
    through.traffic().add_to(&mut figures, before, result.turns.len());
    for (why, times) in &result.failures {
        figures.fail(why, *times);
    }
    Ok(figures)
}

/// Starts a server, warms it up, and makes the threads.
async fn prepare_load(
    world: &StreamWorld,
    kind: ServerKind,
    shape: &LoadShape,
    schema: Option<&BenchSchema>,
) -> Result<PreparedLoad, String> {
    let start = ServerStart { users: shape.users, schema, ..ServerStart::default() };
    let server = world.start_server_as(kind, start).await?;
    world.set_script(shape.script.at_once()).await?;
    warm_up(&server, target(&server, shape.script)).await?;
    let threads = server.new_threads(shape.plan.clients * shape.rounds).await?;
    world.set_script(shape.script).await?;
    Ok(PreparedLoad { server, threads })
}

pub(super) fn target(server: &ServerUnderTest, script: AnswerScript) -> LoadTarget {
    LoadTarget { kind: server.kind, address: server.address, tokens: script.chunks, in_step_with: None }
}

/// A few turns that are not measured. They must be good, because nothing else would be.
pub(super) async fn warm_up(server: &ServerUnderTest, target: LoadTarget) -> Result<(), String> {
    let threads = server.new_threads(1).await?;
    let mut client = PlainClient::new(server.address);
    for thread in &threads {
        for turn in 0..WARM_UP_TURNS {
            let outcome = run_turn(&mut client, target, thread, turn).await;
            outcome.map_err(|why| format!("{} cannot answer: {why}", server.kind.name()))?;
        }
    }
    Ok(())
}

async fn load_and_sample(
    server: &ServerUnderTest,
    target: LoadTarget,
    threads: &[LoadThread],
    plan: LoadPlan,
    samples: &RefCell<Samples>,
) -> Result<LoadResult, String> {
    let process = server.process.id();
    let sampling = async {
        loop {
            sleep(SAMPLE_EVERY).await;
            let anon = anon_kib(process)?;
            let mut samples = samples.borrow_mut();
            samples.anon_peak_kib = samples.anon_peak_kib.max(anon);
            if server.kind == ServerKind::Rondo {
                samples.counter.look();
            }
        }
    };
    let result = tokio::select! {
        result = run_load(target, threads, plan) => Ok(result),
        failure = sampling => failure,
    };
    samples.borrow_mut().counter.look();
    result
}

impl Readings {
    fn take(world: &StreamWorld, server: &ServerUnderTest) -> Result<Self, String> {
        Ok(Self {
            at: Instant::now(),
            server: ProcessReading::of(server.process.id())?,
            upstream: ProcessReading::of(world.upstream_id())?,
            own: ProcessReading::of(std::process::id())?,
            data_kib: folder_kib(&server.data()),
        })
    }
}

/// The times of all good turns, and the reasons of the others.
pub(super) fn turn_figures(result: &LoadResult, script: AnswerScript) -> ServerFigures {
    let mut figures = ServerFigures { good: result.turns.len(), ..ServerFigures::default() };
    for (why, times) in &result.failures {
        figures.fail(why, *times);
    }
    let collect = |time: &dyn Fn(&super::answer_reader::TurnTimes) -> Duration, usual: Duration| {
        let beyond = |time: Duration| (time.as_secs_f64() - usual.as_secs_f64()) * 1e3;
        result.turns.iter().map(|turn| beyond(time(turn))).collect::<Vec<f64>>()
    };
    let mut first = collect(&|turn| turn.first, script.first_delay());
    let mut gap = collect(&|turn| turn.gap, script.gap());
    let mut total = collect(&|turn| turn.total, Duration::ZERO);
    figures.set(StreamFigure::FirstHalf, percentile(&mut first, 0.5));
    figures.set(StreamFigure::FirstMost, percentile(&mut first, 0.99));
    figures.set(StreamFigure::GapMost, percentile(&mut gap, 0.99));
    figures.set(StreamFigure::TurnHalf, percentile(&mut total, 0.5));
    figures.set(StreamFigure::TurnMost, percentile(&mut total, 0.99));
    if script.gap_ms > 0 {
        let mut lag = collect(&|turn| turn.total, script.ideal_turn());
        figures.set(StreamFigure::LagMost, percentile(&mut lag, 0.99));
    }
    figures
}

/// The core of the load also has PostgreSQL, which has worked for this number of milliseconds.
fn add_work(
    figures: &mut ServerFigures,
    (before, after): (&Readings, &Readings),
    chunks: usize,
    postgres_ms: f64,
) {
    let ProcessWork { cpu_ms, written, passed } = after.server.work_since(&before.server);
    let good = figures.good as f64;
    let tokens = good * chunks as f64;
    figures.set(StreamFigure::CpuPerRun, Some(cpu_ms / good));
    figures.set(StreamFigure::WrittenPerToken, Some(written / tokens));
    figures.set(StreamFigure::PassedPerToken, Some(passed / tokens));
    figures.set(StreamFigure::DiskPerRun, Some((after.data_kib - before.data_kib) / good));
    let load_ms = after.upstream.work_since(&before.upstream).cpu_ms
        + after.own.work_since(&before.own).cpu_ms
        + postgres_ms;
    let wall_ms = (after.at - before.at).as_secs_f64() * 1e3;
    figures.set(StreamFigure::LoadBusy, Some(load_ms / wall_ms * 100.0));
}

/// A request that a real provider refuses is a failure, even if the server hides it by a retry.
pub(super) async fn add_upstream(
    world: &StreamWorld,
    figures: &mut ServerFigures,
    script: AnswerScript,
) -> Result<(), String> {
    let counts = world.upstream_counts().await?;
    if counts.refused > 0 {
        let why = counts.last_refusal.unwrap_or_default();
        figures.fail(&format!("the upstream refused a request: {why}"), counts.refused as usize);
    }
    figures.set(StreamFigure::Calls, Some(counts.answered as f64 / figures.good as f64));
    if script.gap_ms > 0 {
        figures.set(StreamFigure::UpstreamLate, Some(counts.late_p99_ms));
    }
    Ok(())
}
