//! Benchmarks: each prints a table of ratios and figures from one run. `cargo xtask bench NAME` builds and runs them.

mod context;
mod cpu;
mod injection;
mod local;
mod local_models;
mod locomo;
mod log;
mod memory;
mod recall;
mod sections;
mod streams;
mod world;

use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask bench log [--runs N] [--deltas N]
       cargo xtask bench context
       cargo xtask bench local
       cargo xtask bench memory
       cargo xtask bench streams [--quick] [--long] [--json FILE] [--repeats N] [--store postgres] [SCENARIO…]
       cargo xtask bench growth [--runs N]
       cargo xtask bench scale [--quick]
       cargo xtask bench instructions [--keep]
       cargo xtask eval locomo --data FILE [--json] [--model FOLDER]
       cargo xtask eval locomo --large
       cargo xtask eval recall [--check] [--tune] [--model FOLDER]
       cargo xtask eval injection [--check] [--misses] [--tune] [--locomo FILE] | --learn
       cargo xtask eval sections [--check] [--misses] [--tune] [--model FOLDER]
       cargo xtask eval local-models [--misses] [--tune] FILE…

  log   text deltas through the thread log: committed one by one or together, then sent to a subscriber
        --runs    concurrent runs (default 64)
        --deltas  deltas per run (default 10000)
  context what a run costs, in time and tokens, in threads of 10, 200 and 10,000 messages
  local models in this process beside llama.cpp and onnxruntime, and what others notice meanwhile
  memory  adding and recalling with up to a hundred thousand memories, beside numpy, faiss and sqlite-vec
  streams what a streamed answer costs in CPU time, delay, memory and bytes on the disk, beside the least agent server that
        could work and the least proxy, up to 5,000 streams at once; each scenario has its aims
        --quick   three short scenarios, once
        --long    also the scenario with 10,000 earlier turns
        --json    writes the same figures, and those of each repeat, to a file
        --repeats how often each server is measured, in turn with the others (default 3)
        --store postgres  instead of the other servers, Rondo on PostgreSQL beside Rondo on SQLite
        RONDO_BIN names another server than the one that was built
  growth what a run costs with a million others in the database, compared with an empty one, while old ones are pruned;
        and how much each table grows for a run
        --runs    runs in the database, ten for each thread (default 1000000)
  scale what is shared and what grows with one, two and three nodes on one PostgreSQL: processor time, commits, memory,
        the delay of text on another node, and users who speak to all nodes instead of one
        --quick   fewer clients and shorter, about a minute
  instructions  how many instructions a run costs under callgrind, as a multiple of the least agent server that could work
        --keep    keeps the multiples; without it, more than five percent beyond the kept ones is a failure
  locomo  how much of the evidence for LoCoMo's questions recall finds, and how fast
        --data    LoCoMo's file
        --json    ends with one line for programs
        --model   folder of the embedding model (default: fetched into target)
        --large   instead, how long recall takes among a hundred thousand items
  recall  how often a memory is found by its meaning, among others that have the words of the question
        --check   fails if that is less often than it should be
        --tune    asks the questions that weights may be chosen by, instead of those that are kept for the report
        --model   folder of the embedding model (default: fetched into target)
  injection  how often orders to an assistant are marked, and how often harmless texts are
        --check   fails below the aims
        --misses  ends with what went wrong
        --tune    of the half of the list that examples were written by, instead of the other
        --locomo  marks turns of LoCoMo's file, too, all of which are harmless
        --learn   instead, learns the weights anew from the examples
  sections  how often messages to Kalito get the records that they need, and how often others get any
        --check   fails below the aims
        --misses  ends with what went wrong
        --tune    of the half of the list that constants were chosen by, instead of the other
  local-models  how chat models in .gguf files answer thirty questions, and how often they call tools that are needed or not
        --misses  ends with what went wrong
        --tune    of the messages that constants were chosen by, instead of the others";

#[expect(clippy::print_stdout, reason = "printing is what a benchmark is for")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // These need a runtime of one thread, which has a core of its own.
    let result = match arguments.split_first() {
        Some((name, options)) if name == "streams" => streams::run(options),
        Some((name, options)) if name == "growth" => streams::growth::run(options),
        Some((name, options)) if name == "scale" => streams::scale::run(options),
        Some((name, options)) if name == "instructions" => streams::instructions::run(options),
        // The benchmark starts itself under this name, as an upstream or as a server.
        Some((name, options)) if name == "role" => streams::play_role(options),
        Some(_) | None => run_with_workers(&arguments),
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

#[tokio::main(worker_threads = 2)]
async fn run_with_workers(arguments: &[String]) -> Result<String, Box<dyn Error>> {
    match arguments.split_first() {
        Some((name, options)) if name == "log" => log::run(options).await,
        Some((name, _)) if name == "context" => context::run().await,
        Some((name, _)) if name == "local" => local::run().await,
        Some((name, _)) if name == "memory" => memory::run().await,
        Some((name, options)) if name == "locomo" => locomo::run(options).await,
        Some((name, options)) if name == "recall" => recall::run(options).await,
        Some((name, options)) if name == "injection" => injection::run(options),
        Some((name, options)) if name == "local-models" => local_models::run(options).await,
        Some((name, options)) if name == "sections" => sections::run(options).await,
        _ => Err(USAGE.into()),
    }
}
