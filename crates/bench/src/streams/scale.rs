//! Several nodes on one PostgreSQL: what they share, and what grows with them.
//!
//! One load runs on one server that is alone, and on one, two and three nodes. All of them share one core, so that
//! nothing becomes faster here. The figures are processor time, commits, memory and delays, which do not depend on
//! that.

mod delay;
mod node_group;
mod spread;
mod turn_watch;

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

use tokio::task::LocalSet;

use super::figures::ServerFigures;
use super::process::CorePair;
use super::script::AnswerScript;
use super::servers::{ServerStart, StreamWorld};
use super::table::{doubts, reasons, table};
use super::{bind_cores, find_server, local_runtime, raise_open_files, start_postgres, wait_for_signal};

use delay::measure_delay;
use node_group::{GroupLoad, NodeGroup, measure_group};
use spread::measure_spread;

/// All nodes have the same key of the vault; its value does not matter.
const VAULT_KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// The name of a server with a database of its own, and the names of groups of nodes.
const ALONE: &str = "alone";
const GROUPS: [(&str, usize); 3] = [("1 node", 1), ("2 nodes", 2), ("3 nodes", 3)];
const MOST_NODES: usize = 3;
/// A model's pace.
const SCRIPT: AnswerScript =
    AnswerScript { chunks: 60, first_ms: 200, gap_ms: 50, tools: false, in_step: false };

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScaleSize {
    /// Clients of all nodes together, each of whom is a user.
    clients: usize,
    turns: usize,
    /// Runs that are followed at a second node, at a time and one after another.
    followers: usize,
    followed_turns: usize,
    /// Users with memories, and how many memories each has.
    users: usize,
    memories: usize,
}

const USUAL: ScaleSize =
    ScaleSize { clients: 150, turns: 8, followers: 15, followed_turns: 4, users: 90, memories: 300 };
const QUICK: ScaleSize =
    ScaleSize { clients: 60, turns: 2, followers: 9, followed_turns: 1, users: 18, memories: 200 };

/// Measures, and gives the report.
pub(crate) fn run(options: &[String]) -> Result<String, Box<dyn Error>> {
    let size = read_options(options)?;
    let (rondo, mut notes) = (find_server()?, Vec::new());
    raise_open_files();
    let cores = bind_cores(&mut notes);
    let report = local_runtime()?.block_on(LocalSet::new().run_until(async {
        tokio::select! {
            report = measure(rondo, cores, size) => report.map_err(Into::into),
            why = wait_for_signal() => Err(why),
        }
    }));
    report.map(|report| notes.into_iter().chain([report]).collect::<Vec<_>>().join("\n"))
}

fn read_options(options: &[String]) -> Result<ScaleSize, String> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Ok(USUAL),
        ["--quick"] => Ok(QUICK),
        _ => Err("`bench scale` takes --quick or nothing".into()),
    }
}

async fn measure(rondo: PathBuf, cores: Option<CorePair>, size: ScaleSize) -> Result<String, String> {
    let world = StreamWorld::start(rondo, cores).await?.with_postgres(Some(start_postgres()?));
    let mut report = format!(
        "{} clients, each pinned to a node, {} answers of {} tokens each at a model's pace\n",
        size.clients, size.turns, SCRIPT.chunks
    );
    let mut rows: Vec<(&str, ServerFigures)> = vec![(ALONE, measure_count(&world, size, ALONE, None).await?)];
    for (name, count) in GROUPS {
        rows.push((name, measure_count(&world, size, name, Some(count)).await?));
    }
    report.push_str(&table(&rows));
    for (name, figures) in &rows {
        report.push_str(&reasons(name, figures));
        report.push_str(&doubts(name, figures));
    }
    eprintln!("delay of text on another node");
    report.push_str(&measure_delay(&world, size).await?);
    for section in measure_spread(&world, size).await? {
        // Writing to a string cannot fail.
        let _ = write!(report, "\n{section}");
    }
    Ok(report)
}

/// The load on this number of nodes, or on a server that is alone.
async fn measure_count(
    world: &StreamWorld,
    size: ScaleSize,
    name: &str,
    count: Option<usize>,
) -> Result<ServerFigures, String> {
    eprintln!("{name}");
    let schema = world.postgres()?.next_schema(None)?;
    let vault_key = count.map(|_| VAULT_KEY);
    let start =
        ServerStart { users: size.clients, schema: Some(&schema), vault_key, ..ServerStart::default() };
    let group = NodeGroup::start(world, start, count.unwrap_or(1), None).await?;
    group.warm_up(world, SCRIPT).await?;
    let load = GroupLoad { script: SCRIPT, clients: size.clients, turns: size.turns };
    measure_group(world, &group, &schema, load).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_read() {
        let read =
            |words: &[&str]| read_options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&[]), Ok(USUAL));
        assert_eq!(read(&["--quick"]), Ok(QUICK));
        assert!(read(&["--nodes", "4"]).is_err());
    }
}
