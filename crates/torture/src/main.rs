//! The crash harness. It is parent to everything: the server that is killed, the model and the tools it talks to, and
//! the clients that talk to it. It is never killed itself, so what it has written down is the truth.
#![expect(clippy::print_stdout, reason = "a command's output is its purpose")]

mod actors;
mod balancer;
mod database;
mod database_link;
mod disk;
mod heal;
mod load;
mod model;
mod nemesis;
mod oracle;
mod planted;
mod postgres;
mod private_words;
mod program;
mod record;
mod round;
mod server;
mod stage;
mod stalls;
mod summary;
mod tools;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::stage::TortureError;

#[derive(Parser)]
#[command(
    name = "torture",
    about = "Kills a server again and again and proves that nothing was lost or doubled"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Rounds of chaos, healing and verdict, and a summary
    Round(round::TrialOptions),
    /// See that a bug of the server is caught
    Planted(planted::PlantedOptions),
    /// Crowds of readers, stalled clients, slow-loris and a reconnect storm
    Load(load::LoadOptions),
}

#[expect(clippy::print_stderr, reason = "where a command says why it failed")]
fn main() -> ExitCode {
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(TortureError::from)
        .and_then(|runtime| runtime.block_on(run(Cli::parse().command)));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => {
            eprintln!("torture: {trouble}");
            ExitCode::FAILURE
        }
    }
}

/// False if something was wrong with the server.
async fn run(command: Command) -> Result<bool, TortureError> {
    match command {
        Command::Round(options) => {
            let verdict = round::run_trial(&options).await?;
            verdict.tell(&options.out)?;
            Ok(verdict.is_good())
        }
        Command::Planted(options) => planted::catch(&options).await,
        Command::Load(options) => load::run_load(&options).await.map(|()| true),
    }
}
