//! Flat growth: what a run costs beside a million others, compared with an empty database.
//!
//! A server makes a few threads. Their rows are copied under other ids, users and times until the database is as large as
//! wanted. The copies are older than their retention, so the sweep at the start prunes them while turns are measured. A
//! server with this database and one with an empty one answer turns in turn.

mod copies;

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::task::LocalSet;

use super::client::PlainClient;
use super::comparisons::{TurnKind, TurnPair};
use super::figures::StreamFigure;
use super::load::{ServerKind, run_turn};
use super::script::AnswerScript;
use super::servers::{ServerStart, ServerUnderTest, StreamWorld};
use super::trial::{target, warm_up};
use super::{bind_cores, find_server, local_runtime, wait_for_signal};

use copies::{TableGrowth, copy_rows, table_growth, table_sizes};

const RUNS: usize = 1_000_000;
const RUNS_PER_THREAD: usize = 10;
/// Threads whose rows are copied.
const TEMPLATE_THREADS: usize = 10;
const TEMPLATE_RUNS: usize = TEMPLATE_THREADS * RUNS_PER_THREAD;
const MAX_RUNS: usize = 10_000_000;
/// Measured turns of each server.
const TURNS: usize = 100;
/// How many times a run may cost as much as one in an empty database.
const MOST_TIMES: f64 = 1.2;
const SCRIPT: AnswerScript =
    AnswerScript { chunks: 20, first_ms: 0, gap_ms: 0, tools: false, in_step: false };
const DATABASE: &str = "rondo.db";

/// Fills a database, measures, and gives the report.
pub(crate) fn run(options: &[String]) -> Result<String, Box<dyn Error>> {
    let runs = read_options(options)?;
    let (rondo, mut notes) = (find_server()?, Vec::new());
    let cores = bind_cores(&mut notes);
    let report = local_runtime()?.block_on(LocalSet::new().run_until(async {
        tokio::select! {
            report = measure(rondo, cores, runs) => report.map_err(Into::into),
            why = wait_for_signal() => Err(why),
        }
    }));
    report.map(|report| notes.into_iter().chain([report]).collect::<Vec<_>>().join("\n"))
}

fn read_options(options: &[String]) -> Result<usize, String> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    let runs = match words.as_slice() {
        [] => Some(RUNS),
        ["--runs", number] => number.parse().ok(),
        _ => None,
    };
    runs.filter(|runs| (TEMPLATE_RUNS..=MAX_RUNS).contains(runs)).ok_or_else(|| {
        format!("`bench growth` takes --runs and a number from {TEMPLATE_RUNS} to {MAX_RUNS}, or nothing")
    })
}

async fn measure(
    rondo: PathBuf,
    cores: Option<super::process::CorePair>,
    runs: usize,
) -> Result<String, String> {
    let world = StreamWorld::start(rondo, cores).await?;
    world.set_script(SCRIPT).await?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut report = String::new();
    write_growth(&mut report, &make_template(&world, folder.path()).await?);
    let begun = Instant::now();
    let copies = runs.div_ceil(TEMPLATE_RUNS);
    copy_rows(&folder.path().join(DATABASE), copies).map_err(|error| format!("cannot copy rows: {error}"))?;
    eprintln!("{} runs in {:.0} s", copies * TEMPLATE_RUNS, begun.elapsed().as_secs_f64());
    let full = start(&world, Some(folder.path())).await?;
    let empty = start(&world, None).await?;
    let (mut beside, mut alone) = (TurnKind::default(), TurnKind::default());
    for turn in 0..TURNS {
        measure_turn(&world, &full, &mut beside, turn).await?;
        measure_turn(&world, &empty, &mut alone, turn).await?;
    }
    write_turns(&mut report, copies * TEMPLATE_RUNS, [&alone, &beside]);
    Ok(report)
}

/// Answers the first turns, and says how much each table has grown for a run.
async fn make_template(world: &StreamWorld, data: &Path) -> Result<Vec<TableGrowth>, String> {
    let start = ServerStart { data: Some(data), ..ServerStart::default() };
    let server = world.start_server_as(ServerKind::Rondo, start).await?;
    let sizes =
        || table_sizes(&data.join(DATABASE)).map_err(|error| format!("cannot read the database: {error}"));
    let before = sizes()?;
    let mut client = PlainClient::new(server.address);
    for _ in 0..TEMPLATE_THREADS {
        let thread = server.new_thread(&mut client, 0).await?;
        for turn in 0..RUNS_PER_THREAD {
            let outcome = run_turn(&mut client, target(&server, SCRIPT), &thread, turn).await;
            outcome.map_err(|why| format!("a turn has failed: {why}"))?;
        }
    }
    Ok(table_growth(&before, &sizes()?, TEMPLATE_RUNS))
}

async fn start(world: &StreamWorld, data: Option<&Path>) -> Result<ServerUnderTest, String> {
    let start = ServerStart { data, ..ServerStart::default() };
    let server = world.start_server_as(ServerKind::Rondo, start).await?;
    warm_up(&server, target(&server, SCRIPT)).await?;
    Ok(server)
}

async fn measure_turn(
    world: &StreamWorld,
    server: &ServerUnderTest,
    kind: &mut TurnKind,
    turn: usize,
) -> Result<(), String> {
    let mut client = PlainClient::new(server.address);
    let thread = server.new_thread(&mut client, 0).await?;
    let mut pair = TurnPair { world, server, client: &mut client };
    kind.run_script(&mut pair, &thread, turn, SCRIPT).await
}

fn write_growth(report: &mut String, tables: &[TableGrowth]) {
    // Writing to a string cannot fail.
    let _ = writeln!(report, "{:<28} {:>14}", "table or index", "bytes for a run");
    for TableGrowth { name, bytes_per_run } in tables {
        let _ = writeln!(report, "{name:<28} {bytes_per_run:>14.0}");
    }
}

fn write_turns(report: &mut String, runs: usize, [alone, beside]: [&TurnKind; 2]) {
    let _ = writeln!(
        report,
        "\n{:<24} {:>10} {:>14} {:>14}",
        "database", "CPU ms/run", "turn p50 ms", "turn p99 ms"
    );
    let figures = [alone.figures_of(SCRIPT), beside.figures_of(SCRIPT)];
    for (name, figures) in ["empty".to_owned(), format!("{runs} runs")].iter().zip(&figures) {
        let value = |figure| figures.get(figure).unwrap_or(f64::NAN);
        let (cpu, half, most) =
            (value(StreamFigure::CpuPerRun), value(StreamFigure::TurnHalf), value(StreamFigure::TurnMost));
        let _ = writeln!(report, "{name:<24} {cpu:>10.2} {half:>14.1} {most:>14.1}");
    }
    let [empty, full] = figures.map(|figures| figures.get(StreamFigure::CpuPerRun).unwrap_or(f64::NAN));
    let times = full / empty;
    let verdict = if times <= MOST_TIMES { "met" } else { "NOT MET" };
    let _ = writeln!(
        report,
        "A run costs {times:.2} times one in an empty database; the aim is {MOST_TIMES}: {verdict}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runs_is_read() {
        let read =
            |words: &[&str]| read_options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok(RUNS));
        assert_eq!(read(&["--runs", "5000"]), Ok(5000));
        assert!(read(&["--runs", "1"]).is_err());
        assert!(read(&["--run"]).is_err());
    }
}
