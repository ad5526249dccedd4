//! The cost of a streamed answer: a scripted upstream, a load generator, and three servers beside each other.
//!
//! `rondo` is the server of this repository. `floor` is the least agent server that could work, and `proxy` only passes
//! bytes on. Each server runs alone on one core; the upstream and the load generator share another. The upstream, the
//! floor and the proxy are roles of this program, in processes of their own.
//!
//! With `--store postgres`, the servers are Rondo on SQLite and Rondo on PostgreSQL instead. `bench scale` measures several
//! nodes that share one PostgreSQL.
//!
//! Every measurement begins with a new process and an empty data folder. The servers take turns within each repeat, so
//! that other work of the machine affects all of them.

mod answer_reader;
mod callgrind;
mod chat_request;
mod client;
mod comparisons;
mod figures;
mod floor;
pub(crate) mod growth;
mod http1;
pub(crate) mod instructions;
mod load;
mod measure;
mod pass_through;
mod pool;
mod postgres;
mod process;
mod proxy;
pub(crate) mod scale;
mod scenarios;
mod script;
mod servers;
mod table;
mod trial;
mod upstream;
mod wal;

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use comparisons::{LabelledFigures, measure_history, measure_recall, measure_start};
use load::ServerKind;
use postgres::BenchPostgres;
use process::{CorePair, CoreSide, raise_open_files};
use scenarios::{SCENARIOS, ScenarioChoice, ScenarioWork, StreamScenario};
use servers::StreamWorld;
use table::{ScenarioReport, report_json, report_text};

const REPEATS: usize = 3;
const MAX_REPEATS: usize = 100;
/// Names the server to measure; without it, the program `rondo` beside this one.
const PROGRAM_VARIABLE: &str = "RONDO_BIN";

/// The command line.
struct StreamOptions {
    scenarios: Vec<StreamScenario>,
    repeats: usize,
    json: Option<PathBuf>,
    store: ComparedStore,
}

/// The server that Rondo on SQLite is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedStore {
    /// Other servers.
    None,
    /// Rondo on PostgreSQL.
    Postgres,
}

/// Runs the scenarios and gives their table.
pub(crate) fn run(options: &[String]) -> Result<String, Box<dyn Error>> {
    let options = StreamOptions::read(options)?;
    let (rondo, mut notes) = (find_server()?, Vec::new());
    let open_files = raise_open_files();
    let cores = bind_cores(&mut notes);
    let reports = local_runtime()?.block_on(LocalSet::new().run_until(async {
        tokio::select! {
            reports = run_scenarios(&options, rondo, cores, open_files) => reports,
            why = wait_for_signal() => Err(why),
        }
    }))?;
    if let Some(file) = &options.json {
        let json = serde_json::to_string_pretty(&report_json(&notes, &reports))?;
        std::fs::write(file, json).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(report_text(&notes, &reports))
}

/// Plays one of the roles, until the benchmark kills the process: `upstream PORT`, `floor PORT UPSTREAM DATA` or
/// `proxy PORT UPSTREAM DATA`. People do not call this.
pub(crate) fn play_role(options: &[String]) -> Result<String, Box<dyn Error>> {
    // A benchmark that is killed cannot kill its children.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let address = |text: &str| text.parse::<SocketAddr>();
    let runtime = local_runtime()?;
    let set = LocalSet::new();
    match options.as_slice() {
        ["upstream", port] => runtime.block_on(set.run_until(upstream::serve(port.parse()?)))?,
        ["floor", port, upstream, data] => {
            let serving = floor::serve(port.parse()?, address(upstream)?, Path::new(data));
            runtime.block_on(set.run_until(serving))?;
        }
        ["proxy", port, upstream, _] => {
            runtime.block_on(set.run_until(proxy::serve(port.parse()?, address(upstream)?)))?;
        }
        _ => return Err("no such role of the benchmark".into()),
    }
    Ok(String::new())
}

impl StreamOptions {
    fn read(words: &[String]) -> Result<Self, String> {
        let (mut names, mut repeats, mut json) = (Vec::new(), None, None);
        let (mut is_quick, mut is_long, mut store) = (false, false, ComparedStore::None);
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--quick" => is_quick = true,
                "--long" => is_long = true,
                "--store" => match words.next() {
                    Some("postgres") => store = ComparedStore::Postgres,
                    Some(_) | None => return Err("--store needs the word postgres".into()),
                },
                "--json" => json = Some(PathBuf::from(words.next().ok_or("--json needs a file")?)),
                "--repeats" => {
                    let number = words.next().and_then(|text| text.parse().ok());
                    let number = number.filter(|number| (1..=MAX_REPEATS).contains(number));
                    repeats =
                        Some(number.ok_or(format!("--repeats needs a number from 1 to {MAX_REPEATS}"))?);
                }
                name => names.push(name),
            }
        }
        let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            return Err(format!("there is no scenario {unknown}; choose among {}", known.join(", ")));
        }
        let runs = |scenario: &&StreamScenario| match scenario.when {
            _ if !names.is_empty() => names.contains(&scenario.name),
            ScenarioChoice::Always => true,
            ScenarioChoice::Usually => !is_quick,
            ScenarioChoice::Long => is_long && !is_quick,
        };
        let scenarios = SCENARIOS.iter().filter(runs);
        let scenarios = scenarios.map(|scenario| if is_quick { scenario.short_form() } else { *scenario });
        let scenarios = scenarios.filter_map(|scenario| match store {
            ComparedStore::None => Some(scenario),
            ComparedStore::Postgres => scenario.on_both_stores(),
        });
        let scenarios: Vec<StreamScenario> = scenarios.collect();
        if scenarios.is_empty() {
            return Err("none of these scenarios has streams, which --store compares".into());
        }
        let repeats = repeats.unwrap_or(if is_quick { 1 } else { REPEATS });
        Ok(Self { scenarios, repeats, json, store })
    }
}

#[expect(clippy::disallowed_methods, reason = "it is a setting of the benchmark, not one of the server")]
fn find_server() -> Result<PathBuf, Box<dyn Error>> {
    let program = match std::env::var_os(PROGRAM_VARIABLE) {
        Some(program) => std::path::absolute(program)?,
        None => std::env::current_exe()?.with_file_name(ServerKind::Rondo.name()),
    };
    if !program.is_file() {
        let name = program.display();
        return Err(format!("there is no {name}; build it, or name another in {PROGRAM_VARIABLE}").into());
    }
    Ok(program)
}

#[expect(clippy::disallowed_methods, reason = "it is a setting of the benchmark, not one of the server")]
fn start_postgres() -> Result<BenchPostgres, String> {
    BenchPostgres::start(std::env::var_os(testpg::PACKAGE_VARIABLE))
}

/// Puts this process on the core of the load. Without two cores, everything shares what is there.
fn bind_cores(notes: &mut Vec<String>) -> Option<CorePair> {
    let cores = CorePair::choose().and_then(|cores| cores.bind(CoreSide::Load).map(|()| cores));
    match cores {
        Ok(cores) => Some(cores),
        Err(why) => {
            let note =
                format!("no process has a core of its own: {why}; CPU time is right, but times are too high");
            eprintln!("{note}");
            notes.push(note);
            None
        }
    }
}

/// Ends with the first signal. Without this, an interrupt would leave processes and folders behind.
async fn wait_for_signal() -> Box<dyn Error> {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => return error.into(),
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupted".into(),
        _ = terminate.recv() => "terminated".into(),
    }
}

fn local_runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn run_scenarios(
    options: &StreamOptions,
    rondo: PathBuf,
    cores: Option<CorePair>,
    open_files: usize,
) -> Result<Vec<ScenarioReport>, Box<dyn Error>> {
    let postgres = match options.store {
        ComparedStore::None => None,
        ComparedStore::Postgres => Some(start_postgres()?),
    };
    let world = StreamWorld::start(rondo, cores).await?.with_postgres(postgres);
    let mut reports = Vec::new();
    for scenario in &options.scenarios {
        let mut report = ScenarioReport { scenario: *scenario, rows: Vec::new(), trouble: None };
        let needed = scenario.open_files();
        if needed > open_files {
            let why = format!("{needed} open files are needed, and the limit is {open_files} (ulimit -Hn)");
            eprintln!("{} is skipped: {why}", scenario.name);
            report.trouble = Some(why);
        } else if let Err(why) = run_repeats(&world, scenario, options.repeats, &mut report).await {
            eprintln!("{} has failed: {why}", scenario.name);
            report.trouble = Some(why);
        }
        reports.push(report);
    }
    Ok(reports)
}

async fn run_repeats(
    world: &StreamWorld,
    scenario: &StreamScenario,
    repeats: usize,
    report: &mut ScenarioReport,
) -> Result<(), String> {
    for repeat in 1..=repeats {
        for server in scenario.work.servers() {
            eprintln!("{}: {}, repeat {repeat} of {repeats}", scenario.name, server.name());
            for (label, figures) in measure(world, scenario.work, *server).await? {
                report.add(label, figures);
            }
        }
    }
    match scenario.work {
        ScenarioWork::Load { shape, servers } if servers.contains(&ServerKind::RondoPostgres) => {
            let name = ServerKind::RondoPostgres.name();
            eprintln!("{}: {name}, once more, with its statements counted", scenario.name);
            report.add(name, trial::measure_traffic(world, &shape).await?);
        }
        ScenarioWork::Load { .. }
        | ScenarioWork::History { .. }
        | ScenarioWork::Start
        | ScenarioWork::Recall => {}
    }
    Ok(())
}

async fn measure(
    world: &StreamWorld,
    work: ScenarioWork,
    server: ServerKind,
) -> Result<Vec<LabelledFigures>, String> {
    match work {
        ScenarioWork::Load { shape, .. } => {
            Ok(vec![(server.name(), trial::measure_load(world, server, &shape).await?)])
        }
        ScenarioWork::History { turns } => measure_history(world, server, turns).await,
        ScenarioWork::Start => measure_start(world).await,
        ScenarioWork::Recall => measure_recall(world).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        StreamOptions::read(&words)
            .map(|options| options.scenarios.iter().map(|scenario| scenario.name).collect())
    }

    #[test]
    fn options_choose_scenarios() {
        assert_eq!(names(&["--quick"]).unwrap(), ["plain", "tools", "pace-100"]);
        assert_eq!(names(&["start", "plain"]).unwrap(), ["plain", "start"]);
        assert!(!names(&[]).unwrap().contains(&"history-10000"));
        assert!(names(&["--long"]).unwrap().contains(&"history-10000"));
    }

    #[test]
    fn both_databases_are_compared_in_scenarios_with_streams() {
        let words = ["--store", "postgres"].map(str::to_owned);
        let options = StreamOptions::read(&words).unwrap();
        let names: Vec<&str> = options.scenarios.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names, ["plain", "tools", "pace-100", "pace-500", "pace-1000", "slow-5000", "fast-5000"]);
        for scenario in &options.scenarios {
            let servers: Vec<&str> = scenario.work.servers().iter().map(|server| server.name()).collect();
            assert_eq!(servers, ["rondo", "rondo-postgres"]);
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        assert!(names(&["plane"]).unwrap_err().starts_with("there is no scenario plane; choose among plain"));
        assert!(names(&["--repeats", "0"]).is_err());
        assert!(names(&["--json"]).is_err());
        assert!(names(&["--store", "mysql"]).is_err());
        assert!(names(&["--store", "postgres", "start"]).is_err(), "a start has no streams");
    }
}
