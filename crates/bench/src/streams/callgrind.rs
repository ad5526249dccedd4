//! Callgrind: a server runs under it, and says how many instructions it has executed so far.
//!
//! The server runs without instrumentation until the count begins, because it is much faster so. `vgdb` asks it for its
//! counters, which are those of all threads, the ended ones included.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Names the folder with the parts of valgrind, if it is not where it was built for.
const LIBRARY_VARIABLE: &str = "VALGRIND_LIB";
/// Names the folder with the programs of valgrind, if they are not on the path.
const PROGRAMS_VARIABLE: &str = "VALGRIND_BIN";
/// Before the count of each thread, and its number, in what callgrind answers.
const COUNT_PREFIX: &str = "events-";

/// A command that runs a program under callgrind; the caller adds its arguments.
pub(super) fn command(program: &Path) -> Command {
    let mut command = tool("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]).arg(program);
    command
}

/// The variables that callgrind needs, for a process that has no others.
pub(super) fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    variable(LIBRARY_VARIABLE).map(|value| (LIBRARY_VARIABLE, value)).into_iter()
}

/// Counts from now on.
pub(super) fn begin_count(process: u32) -> Result<(), String> {
    ask(process, &["instrumentation", "on"]).map(drop)
}

/// Instructions of a process since the count began.
pub(super) fn instructions(process: u32) -> Result<u64, String> {
    let status = ask(process, &["status", "internal"])?;
    sum_of_threads(&status).ok_or_else(|| format!("callgrind gave no counts: {status:.300}"))
}

fn ask(process: u32, words: &[&str]) -> Result<String, String> {
    let mut vgdb = tool("vgdb");
    let output = vgdb.arg(format!("--pid={process}")).args(words).output();
    let output = output.map_err(|error| format!("cannot start vgdb, a part of valgrind: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("vgdb cannot ask a server under callgrind: {why:.300}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The counts of all threads. A line of a function has a second number behind that of its thread, and does not count.
fn sum_of_threads(status: &str) -> Option<u64> {
    let counts = status.lines().filter_map(|line| {
        let (thread, count) = line.strip_prefix(COUNT_PREFIX)?.split_once(": ")?;
        thread.bytes().all(|byte| byte.is_ascii_digit()).then(|| count.trim().parse::<u64>().ok())?
    });
    counts.reduce(|sum, count| sum + count)
}

fn tool(name: &str) -> Command {
    let folder = variable(PROGRAMS_VARIABLE);
    Command::new(folder.map_or_else(|| name.into(), |folder| Path::new(&folder).join(name)))
}

#[expect(clippy::disallowed_methods, reason = "it is a setting of the benchmark, not one of the server")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_are_added_up_without_those_of_functions() {
        let status = "events: Ir\nthreads: 2\nevents-1: 11564918\nevents-1-0: 895\nevents-3: 82\n";
        assert_eq!(sum_of_threads(status), Some(11_565_000));
        assert_eq!(sum_of_threads("instrumentation: off\n"), None);
    }
}
