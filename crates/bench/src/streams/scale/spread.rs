//! The cost when the requests of a user reach all nodes in turn, instead of the one that already knows the user.
//!
//! A node keeps an index of the memories of each user who speaks. With pinned users there is one index for each of them,
//! and otherwise one at every node.

use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use super::node_group::{GroupLoad, GroupReading, NodeGroup};
use super::{MOST_NODES, ScaleSize, VAULT_KEY};
use crate::streams::client::{PlainClient, PlainRequest};
use crate::streams::comparisons::{IMPORT_PATH, memories};
use crate::streams::postgres::BenchSchema;
use crate::streams::script::AnswerScript;
use crate::streams::servers::{ServerStart, StreamWorld};

/// An app that recalls, under the name of the app that clients speak to.
const APP: &str = "name = \"Studio\"\n\n[memory]\ninject = \"top\"\nlimit = 5\nhistory = true\n";
const INSTRUCTIONS: &str = "You are a helpful assistant.\n";
/// Short answers, so that recall is a large part of a run.
const SCRIPT: AnswerScript =
    AnswerScript { chunks: 20, first_ms: 100, gap_ms: 20, tools: false, in_step: false };
/// In the first rounds, each user reaches every node once, if users are not pinned. Later, all nodes know all users.
const ROUNDS: [(&str, usize); 2] = [("first", MOST_NODES), ("later", MOST_NODES)];

/// Which node a user speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routing {
    /// Always the same one.
    Pinned,
    /// All of them in turn.
    Spread,
}

/// The database with memories, and what nodes on it need.
struct MemoryWorld<'w> {
    world: &'w StreamWorld,
    schema: &'w BenchSchema,
    apps: &'w Path,
    keys: Vec<Rc<str>>,
    size: ScaleSize,
}

/// Measures both ways, each with new nodes on the same database. Each gives a section of the report.
pub(super) async fn measure_spread(world: &StreamWorld, size: ScaleSize) -> Result<Vec<String>, String> {
    let apps = make_app()?;
    let schema = world.postgres()?.next_schema(None)?;
    eprintln!("{} users get {} memories each", size.users, size.memories);
    let mut memory_world = MemoryWorld { world, schema: &schema, apps: apps.path(), keys: Vec::new(), size };
    memory_world.fill().await?;
    let mut sections = Vec::new();
    for routing in [Routing::Pinned, Routing::Spread] {
        sections.push(memory_world.measure(routing).await?);
    }
    Ok(sections)
}

impl MemoryWorld<'_> {
    fn start(&self, users: usize) -> ServerStart<'_> {
        let vault_key = Some(VAULT_KEY);
        let apps = Some(self.apps);
        ServerStart { users, schema: Some(self.schema), vault_key, apps, ..ServerStart::default() }
    }

    /// Makes users with memories.
    async fn fill(&mut self) -> Result<(), String> {
        let group = NodeGroup::start(self.world, self.start(self.size.users), 1, None).await?;
        let node = group.node(0)?;
        let (mut client, body) = (PlainClient::new(node.address), memories(self.size.memories));
        for key in node.keys() {
            let import = PlainRequest {
                method: "POST",
                path: IMPORT_PATH,
                key: Some(key),
                content_type: "text/markdown",
                body: &body,
            };
            client.ask(&import).await?;
        }
        self.keys = node.keys().to_vec();
        Ok(())
    }

    async fn measure(&self, routing: Routing) -> Result<String, String> {
        let name = match routing {
            Routing::Pinned => "each user speaks to one node",
            Routing::Spread => "each user speaks to all nodes in turn",
        };
        eprintln!("{name}");
        let group = NodeGroup::start(self.world, self.start(0), MOST_NODES, Some(&self.keys)).await?;
        self.world.set_script(SCRIPT).await?;
        let threads = group.new_threads(self.size.users).await?;
        let load = GroupLoad { script: SCRIPT, clients: threads.len(), turns: 1 };
        let before_mib = group.anon_mib()?;
        let mut text = format!(
            "{name}: {} users with {} memories each, {MOST_NODES} nodes\n",
            self.size.users, self.size.memories
        );
        let mut round = 0;
        for (label, rounds) in ROUNDS {
            let before = GroupReading::take(self.world, &group)?;
            let postgres = self.schema.read_before()?;
            let (mut good, mut failed) = (0, 0);
            for _ in 0..rounds {
                let shift = if routing == Routing::Spread { round } else { 0 };
                let result = group.run(load, &threads, shift).await;
                good += result.turns.len();
                failed += result.failures.values().sum::<usize>();
                round += 1;
            }
            let work = GroupReading::take(self.world, &group)?.work_since(&before);
            let postgres_ms = self.schema.read_after()?.cpu_ms_since(&postgres);
            let (runs, grown) = (good as f64, group.anon_mib()? - before_mib);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "  {label} {rounds} turns: {good} good, {failed} failed; CPU {:.2} ms/run of all nodes, {:.2} of \
                 PostgreSQL; RssAnon of all nodes grown by {grown:.1} MiB",
                work.all_ms() / runs,
                postgres_ms / runs
            );
        }
        Ok(text)
    }
}

fn make_app() -> Result<tempfile::TempDir, String> {
    let write = || {
        let apps = tempfile::tempdir()?;
        let folder = apps.path().join("studio");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("app.toml"), APP)?;
        std::fs::write(folder.join("instructions.md"), INSTRUCTIONS)?;
        Ok::<_, std::io::Error>(apps)
    };
    write().map_err(|error| format!("cannot write an app: {error}"))
}
