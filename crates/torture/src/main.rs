//! The crash harness. It is parent to everything: the server that is killed, the model and the tools it talks to, and
//! the clients that talk to it. It is never killed itself, so what it has written down is the truth.
#![expect(clippy::print_stdout, reason = "a command's output is its purpose")]

mod program;
mod record;
mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
