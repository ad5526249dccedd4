//! Benchmarks: each prints a table of ratios and figures from one run. `cargo xtask bench NAME` builds and runs them.

mod cpu;
mod log;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask bench log [--runs N] [--deltas N]

  log   text deltas through the thread log: committed one by one or together, then sent to a subscriber
        --runs    concurrent runs (default 64)
        --deltas  deltas per run (default 10000)";

#[expect(clippy::print_stdout, reason = "printing is what a benchmark is for")]
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((name, options)) if name == "log" => log::run(options).await,
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
