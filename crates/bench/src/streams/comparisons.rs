//! Scenarios that compare two kinds of turns inside of one server, and the one that looks at its start.
//!
//! Both kinds alternate, turn by turn, so that other work of the machine affects both.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::sleep;

use super::client::{PlainClient, PlainRequest};
use super::figures::{ServerFigures, StreamFigure};
use super::load::{LoadResult, LoadThread, ServerKind, run_turn};
use super::measure::{ProcessReading, anon_kib};
use super::scenarios::{FLOOR_FRESH, FLOOR_LONG, RONDO_FRESH, RONDO_LONG, RONDO_MEMORIES, RONDO_NO_MEMORIES};
use super::script::AnswerScript;
use super::servers::{ServerUnderTest, StreamWorld};
use super::trial::{target, turn_figures, warm_up};

/// Turns of each kind.
const PAIRS: usize = 20;
const SCRIPT: AnswerScript =
    AnswerScript { chunks: 200, first_ms: 0, gap_ms: 0, tools: false, in_step: false };
/// Earlier turns are made with the shortest answer.
const SHORT: AnswerScript = AnswerScript { chunks: 1, ..SCRIPT };
/// Earlier turns between two lines of progress.
const TURNS_PER_LINE: usize = 1000;
/// After a turn, so that its work in the background counts as its own.
const SETTLE: Duration = Duration::from_millis(20);
/// A server that works so little in this time has nothing to do.
const IDLE_LOOK: Duration = Duration::from_millis(300);
const IDLE_CPU_MS: f64 = 10.0;
const IDLE_WITHIN: Duration = Duration::from_secs(60);
/// How long after the start the memory of an idle server is read.
const IDLE_AFTER: Duration = Duration::from_secs(1);
const MEMORIES: usize = 10_000;
pub(super) const IMPORT_PATH: &str = "/v1/apps/studio/memories/import";
const KIB_PER_MIB: f64 = 1024.0;

/// The name of a row, and its figures.
pub(super) type LabelledFigures = (&'static str, ServerFigures);

/// One of two kinds of turns.
#[derive(Default)]
pub(super) struct TurnKind {
    result: LoadResult,
    cpu_ms: f64,
    /// Calls of the model, those in the background included.
    calls: u64,
}

/// The world and the servers in which both kinds of turns run.
pub(super) struct TurnPair<'p> {
    pub(super) world: &'p StreamWorld,
    pub(super) server: &'p ServerUnderTest,
    pub(super) client: &'p mut PlainClient,
}

/// Compares a long thread with new ones.
pub(super) async fn measure_history(
    world: &StreamWorld,
    kind: ServerKind,
    turns: usize,
) -> Result<Vec<LabelledFigures>, String> {
    let server = world.start_server(kind, 0).await?;
    let mut client = PlainClient::new(server.address);
    let thread = server.new_thread(&mut client, 0).await?;
    world.set_script(SHORT).await?;
    for turn in 0..turns {
        let outcome = run_turn(&mut client, target(&server, SHORT), &thread, turn).await;
        outcome.map_err(|why| format!("earlier turn {turn} has failed: {why}"))?;
        if turn > 0 && turn % TURNS_PER_LINE == 0 {
            eprintln!("  {turn} of {turns} earlier turns are made");
        }
    }
    world.set_script(SCRIPT).await?;
    warm_up(&server, target(&server, SCRIPT)).await?;
    wait_idle(&server).await?;
    let (mut long, mut fresh) = (TurnKind::default(), TurnKind::default());
    let mut pair = TurnPair { world, server: &server, client: &mut client };
    for turn in 0..PAIRS {
        long.run(&mut pair, &thread, turns + turn).await?;
        let new = server.new_thread(pair.client, 0).await?;
        fresh.run(&mut pair, &new, turn).await?;
    }
    let names = if kind == ServerKind::Rondo { (RONDO_LONG, RONDO_FRESH) } else { (FLOOR_LONG, FLOOR_FRESH) };
    Ok(vec![(names.0, long.figures()), (names.1, fresh.figures())])
}

/// Compares a user who has many memories with one who has none.
pub(super) async fn measure_recall(world: &StreamWorld) -> Result<Vec<LabelledFigures>, String> {
    let server = world.start_server(ServerKind::Rondo, 2).await?;
    let mut client = PlainClient::new(server.address);
    let (key, body) = (server.key(0), memories(MEMORIES));
    let import = PlainRequest {
        method: "POST",
        path: IMPORT_PATH,
        key: key.as_deref(),
        content_type: "text/markdown",
        body: &body,
    };
    let report = client.ask_json(&import).await?;
    if report.get("imported").and_then(serde_json::Value::as_u64) != u64::try_from(MEMORIES).ok() {
        return Err(format!("not all memories were imported: {report:.300}"));
    }
    world.set_script(SCRIPT).await?;
    warm_up(&server, target(&server, SCRIPT)).await?;
    wait_idle(&server).await?;
    let (mut with, mut without) = (TurnKind::default(), TurnKind::default());
    let mut pair = TurnPair { world, server: &server, client: &mut client };
    for turn in 0..PAIRS {
        for (user, side) in [(0, &mut with), (1, &mut without)] {
            let thread = server.new_thread(pair.client, user).await?;
            side.run(&mut pair, &thread, turn).await?;
        }
    }
    Ok(vec![(RONDO_MEMORIES, with.figures()), (RONDO_NO_MEMORIES, without.figures())])
}

/// Looks at a start with an empty data folder, and at the first two messages.
pub(super) async fn measure_start(world: &StreamWorld) -> Result<Vec<LabelledFigures>, String> {
    world.set_script(SCRIPT).await?;
    let server = world.start_server(ServerKind::Rondo, 0).await?;
    sleep(IDLE_AFTER).await;
    let idle_kib = anon_kib(server.process.id())?;
    let mut client = PlainClient::new(server.address);
    let thread = LoadThread { id: None, key: None };
    let first = run_turn(&mut client, target(&server, SCRIPT), &thread, 0).await?;
    let second = run_turn(&mut client, target(&server, SCRIPT), &thread, 1).await?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mut figures = ServerFigures { good: 2, ..ServerFigures::default() };
    figures.set(StreamFigure::Ready, Some(millis(server.ready)));
    figures.set(StreamFigure::IdleAnon, Some(idle_kib / KIB_PER_MIB));
    figures.set(StreamFigure::FirstMessage, Some(millis(first.total)));
    figures.set(StreamFigure::FirstMessageExtra, Some(millis(first.total) - millis(second.total)));
    Ok(vec![(ServerKind::Rondo.name(), figures)])
}

impl TurnKind {
    async fn run(&mut self, pair: &mut TurnPair<'_>, thread: &LoadThread, turn: usize) -> Result<(), String> {
        self.run_script(pair, thread, turn, SCRIPT).await
    }

    pub(super) async fn run_script(
        &mut self,
        pair: &mut TurnPair<'_>,
        thread: &LoadThread,
        turn: usize,
        script: AnswerScript,
    ) -> Result<(), String> {
        let TurnPair { world, server, client } = pair;
        let calls = world.upstream_counts().await?.answered;
        let before = ProcessReading::of(server.process.id())?;
        let outcome = run_turn(client, target(server, script), thread, turn).await;
        sleep(SETTLE).await;
        let after = ProcessReading::of(server.process.id())?;
        self.cpu_ms += after.work_since(&before).cpu_ms;
        self.calls += world.upstream_counts().await?.answered - calls;
        self.result.add(outcome);
        Ok(())
    }

    fn figures(&self) -> ServerFigures {
        self.figures_of(SCRIPT)
    }

    pub(super) fn figures_of(&self, script: AnswerScript) -> ServerFigures {
        let mut figures = turn_figures(&self.result, script);
        let good = figures.good as f64;
        figures.set(StreamFigure::CpuPerRun, Some(self.cpu_ms / good));
        figures.set(StreamFigure::Calls, Some(self.calls as f64 / good));
        figures
    }
}

/// Waits until the server has done its work in the background, such as summaries.
async fn wait_idle(server: &ServerUnderTest) -> Result<(), String> {
    let looks = IDLE_WITHIN.as_millis() / IDLE_LOOK.as_millis();
    for _ in 0..looks {
        let before = ProcessReading::of(server.process.id())?;
        sleep(IDLE_LOOK).await;
        if ProcessReading::of(server.process.id())?.work_since(&before).cpu_ms < IDLE_CPU_MS {
            return Ok(());
        }
    }
    Err(format!("the server still works {} s after its last turn", IDLE_WITHIN.as_secs()))
}

/// A list of different facts. Some share words with the messages, so that recall has something to find.
pub(super) fn memories(count: usize) -> String {
    const PEOPLE: [&str; 8] = ["Anna", "Boris", "Chen", "Dora", "Emil", "Farah", "Gustav", "Hana"];
    const DEEDS: [&str; 6] = [
        "owns a sailing boat in",
        "repairs bicycles in",
        "grows tomatoes in",
        "teaches the violin in",
        "flies kites in the wind of",
        "bakes bread in",
    ];
    const PLACES: [&str; 7] = ["Oslo", "Lisbon", "Kyoto", "Quito", "Perth", "Tunis", "Riga"];
    let mut list = String::new();
    for number in 0..count {
        let person = PEOPLE.get(number % PEOPLE.len()).copied().unwrap_or_default();
        let deed = DEEDS.get(number % DEEDS.len()).copied().unwrap_or_default();
        let place = PLACES.get(number % PLACES.len()).copied().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(list, "- Cousin {person} {deed} {place}, at house {number}.");
    }
    list
}
