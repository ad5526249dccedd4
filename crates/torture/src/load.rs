//! Ten thousand readers, clients that stall or dawdle, a storm of reconnections, and thousands of model calls at once,
//! against a real server: what each of them costs, beside what it may cost.

mod calls;
mod crowd;
mod figures;
mod host;
mod idle;
mod loris;
mod probe;
mod process;
mod stalled;
mod storm;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use self::figures::Figures;
use crate::stage::TortureError;

/// All experiments together.
const LONGEST: Duration = Duration::from_secs(360);
/// Files that either process has open beside its readers.
const OTHER_FILES: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct LoadOptions {
    /// The folder for the figures and for what the servers say
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// The server; figures of one built without optimisation are worse than what is shipped
    #[arg(long, value_name = "BINARY", default_value = "target/release/rondo")]
    server: PathBuf,
    /// Readers at once
    #[arg(long, default_value_t = 10_000)]
    readers: usize,
    /// One experiment instead of all
    #[arg(long, value_enum)]
    only: Option<Experiment>,
    /// Fail when an aim is missed by more than a quarter
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Readers to whom nothing is said but that the server lives
    Idle,
    /// Readers that read nothing
    Stalled,
    /// Clients that send or read a byte a second
    Loris,
    /// Readers that all come back at once after the server was killed
    Storm,
    /// Runs that all wait for the model at once
    Calls,
}

/// Runs the experiments, prints their figures and writes them to `load.json`.
pub(crate) async fn run_load(options: &LoadOptions) -> Result<(), TortureError> {
    std::fs::create_dir_all(&options.out)?;
    let server = std::fs::canonicalize(&options.server).map_err(|error| {
        format!("{}: {error}; build it, or name it with --server", options.server.display())
    })?;
    let readers = affordable_readers(options.readers);
    let mut figures = Figures::default();
    let ran = tokio::time::timeout(LONGEST, run(options, &server, readers, &mut figures)).await;
    figures.write(&options.out.join("load.json"), readers, &server)?;
    ran.map_err(|_| format!("not done after {} s", LONGEST.as_secs()))??;
    let missed = figures.failed();
    if options.strict && !missed.is_empty() {
        return Err(format!("missed by more than a quarter: {}", missed.join("; ")).into());
    }
    Ok(())
}

async fn run(
    options: &LoadOptions,
    server: &std::path::Path,
    readers: usize,
    figures: &mut Figures,
) -> Result<(), TortureError> {
    let all =
        [Experiment::Idle, Experiment::Stalled, Experiment::Loris, Experiment::Storm, Experiment::Calls];
    for experiment in all.into_iter().filter(|one| options.only.is_none_or(|only| only == *one)) {
        let name =
            experiment.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let place = host::LoadPlace { server, log: &options.out.join(format!("load-{name}.log")), readers };
        let begin = figures.len();
        match experiment {
            Experiment::Idle => idle::run(&place, figures).await?,
            Experiment::Stalled => stalled::run(&place, figures).await?,
            Experiment::Loris => loris::run(&place, figures).await?,
            Experiment::Storm => storm::run(&place, figures).await?,
            Experiment::Calls => calls::run(&place, figures).await?,
        }
        figures.print(begin);
    }
    Ok(())
}

/// As many readers as were asked for, or as many as files may be open.
fn affordable_readers(wanted: usize) -> usize {
    let files = process::raise_open_files();
    let most = files.saturating_sub(OTHER_FILES);
    if wanted > most {
        println!("only {files} files may be open at once: {most} readers instead of {wanted}");
    }
    wanted.min(most)
}
