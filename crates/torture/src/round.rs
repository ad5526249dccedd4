//! A trial: rounds of chaos on one database, each followed by healing and a verdict, and at the end a backup that has to
//! be as good as what it was taken of.

mod copies;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::database::TrialStore;
use crate::nemesis::Nemesis;
use crate::oracle::{self, Evidence, Facts, Resources, TrialPlan};
use crate::record::Violation;
use crate::server::ProcessUsage;
use crate::stage::TortureError;
use crate::summary::{TrialSetting, TrialSummary};
use crate::world::{TortureWorld, TrialNode, WorldSettings};
use crate::{actors, heal, stalls};

/// Users, each with a word that no other user may see.
const USERS: usize = 8;
/// How long a round of chaos is at most.
const CHAOS: Duration = Duration::from_secs(60);
/// And at least: there is no point in less.
const SHORTEST_CHAOS: Duration = Duration::from_secs(10);
/// The time that is kept for healing and the verdict.
const AFTERMATH: Duration = Duration::from_secs(15);
/// How long everything may take to come to rest once nothing goes wrong any more.
const HEALING: Duration = Duration::from_secs(60);
/// How long a server may take to start, here where it is not killed.
const START: Duration = Duration::from_secs(30);
/// Violations that are printed; all are in the summary.
const MAX_TOLD: usize = 50;
/// Files of a node's connections to PostgreSQL. They are opened as needed, and a node that was just started has few.
const POOL_FILES: u64 = 50;
/// Nodes of a trial at most.
const MAX_NODES: i64 = 5;
/// Kills that a minute of chaos must have.
const KILLS_PER_MINUTE: f64 = 8.0;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TrialOptions {
    /// The server to be killed
    #[arg(long, value_name = "BINARY")]
    pub(crate) server: PathBuf,
    /// The folder for all that is seen, and for what is left of the data if something is wrong
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// How long the whole trial takes
    #[arg(long, default_value_t = 5.0)]
    pub(crate) minutes: f64,
    /// The seed of chance; any, and printed, when absent
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Clients at once
    #[arg(long, default_value_t = 32)]
    pub(crate) actors: usize,
    /// Seconds between two blows, on average
    #[arg(long, default_value_t = 1.8)]
    pub(crate) gap: f64,
    /// The database of the server
    #[arg(long, value_enum, default_value_t = TrialStore::Sqlite)]
    pub(crate) store: TrialStore,
    /// Server processes that share the database; more than one only on PostgreSQL
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MAX_NODES))]
    pub(crate) nodes: u8,
    /// The library libfaketime, which puts the clock of one of several nodes an hour ahead
    #[arg(long, value_name = "FILE")]
    pub(crate) faketime: Option<PathBuf>,
    /// An older server, with which each node starts for the first time; from its first restart on it is the newer one
    #[arg(long, value_name = "FILE")]
    pub(crate) older: Option<PathBuf>,
}

impl TrialOptions {
    /// Returns the mistake in these options together.
    fn mistake(&self) -> Option<&'static str> {
        let is_wrong = self.nodes > 1 && self.store != TrialStore::Postgres;
        is_wrong.then_some("several nodes share a PostgreSQL; add --store postgres, or leave --nodes out")
    }
}

/// The outcome of a trial.
pub(crate) struct TrialVerdict {
    pub(crate) seed: u64,
    pub(crate) store: TrialStore,
    pub(crate) nodes: u8,
    pub(crate) violations: Vec<Violation>,
    /// The events that did not happen often enough for the trial to prove anything.
    pub(crate) vacuous: Vec<String>,
    pub(crate) took: Duration,
}

/// Runs a trial to its end, or until something is wrong.
pub(crate) async fn run_trial(options: &TrialOptions) -> Result<TrialVerdict, TortureError> {
    if let Some(mistake) = options.mistake() {
        return Err(mistake.into());
    }
    let begun = Instant::now();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    // Commands run in another folder.
    let options = &TrialOptions { out: std::path::absolute(&options.out)?, ..options.clone() };
    let out = &options.out;
    if ["summary.json", "server.log", "nemesis.jsonl"].iter().any(|name| out.join(name).exists()) {
        std::fs::remove_dir_all(out)?; // of an earlier trial
    }
    std::fs::create_dir_all(out)?;
    println!(
        "torture: seed {seed}, {}, {} node(s), {} minutes, {} clients, {}",
        options.store.name(),
        options.nodes,
        options.minutes,
        options.actors,
        out.display()
    );
    let settings = WorldSettings {
        seed,
        out: out.clone(),
        server: options.server.clone(),
        users: USERS,
        store: options.store,
        nodes: options.nodes.into(),
        faketime: options.faketime.clone(),
        older: options.older.clone(),
        keep: false,
    };
    let world = TortureWorld::build(&settings).await?;
    if options.store == TrialStore::Sqlite && !world.own_disk {
        println!("NOT RUN: full disks: no small disk could be mounted here");
    }
    if options.nodes > 1 && options.faketime.is_none() {
        println!("NOT RUN: a node whose clock is an hour ahead: no libfaketime was given with --faketime");
    }
    let mut watching = JoinSet::new(); // ends when it is dropped
    watching.spawn(stalls::watch(world.book.clone()));
    let mut trial = RoundTrial::begin(world, options, seed).await?;
    let end = begun + Duration::from_secs_f64(options.minutes * 60.0);
    while let Some(chaos) = trial.next(end) {
        trial.round(chaos).await?;
        if !trial.violations.is_empty() {
            break;
        }
    }
    trial.finish(begun.elapsed()).await
}

struct RoundTrial {
    world: TortureWorld,
    nodes: Vec<TrialNode>,
    nemesis: Nemesis,
    rng: Rng,
    options: TrialOptions,
    seed: u64,
    /// The usage of each node when all first came to rest. A node keeps connections to those it talks to, so what it
    /// held before the first client came says little. Empty before that.
    baseline: Vec<ProcessUsage>,
    usage: Vec<ProcessUsage>,
    rounds: usize,
    chaos: Duration,
    violations: Vec<Violation>,
    facts: Facts,
    backup: Option<PathBuf>,
}

impl RoundTrial {
    async fn begin(world: TortureWorld, options: &TrialOptions, seed: u64) -> Result<Self, TortureError> {
        let mut nodes = world.nodes()?;
        for node in &mut nodes {
            node.process.start()?;
        }
        for node in &mut nodes {
            if !node.process.wait_until_ready(START).await? {
                let log = node.process.launch().log.display();
                return Err(format!("node {} does not start; see {log}", node.number).into());
            }
        }
        let nemesis = Nemesis::new(&world, Duration::from_secs_f64(options.gap));
        Ok(Self {
            world,
            nodes,
            nemesis,
            rng: Rng::with_seed(seed),
            options: options.clone(),
            seed,
            baseline: Vec::new(),
            usage: Vec::new(),
            rounds: 0,
            chaos: Duration::ZERO,
            violations: Vec::new(),
            facts: Facts::default(),
            backup: None,
        })
    }

    /// How long the next round of chaos is, if there is time for one.
    fn next(&self, end: Instant) -> Option<Duration> {
        let left = end.saturating_duration_since(Instant::now()).checked_sub(AFTERMATH)?;
        let chaos = if left < 2 * CHAOS { left.min(CHAOS) } else { CHAOS };
        (self.rounds == 0 || chaos >= SHORTEST_CHAOS).then_some(chaos.max(SHORTEST_CHAOS))
    }

    async fn round(&mut self, chaos: Duration) -> Result<(), TortureError> {
        self.rounds += 1;
        self.chaos += chaos;
        let stage = self.world.stage();
        let backup = self.options.out.join(format!("backup-{}", self.rounds));
        let acting = actors::perform(stage.clone(), 0, self.options.actors);
        let until = Instant::now() + chaos;
        let (acted, struck, copied) = {
            let copying = copies::back_up(&self.world, &backup, self.rng.f64() * chaos.as_secs_f64() / 2.0);
            let striking = self.nemesis.run(&mut self.nodes, until, &mut self.rng);
            let chaos = async {
                let struck = striking.await;
                stage.curtain.cancel();
                struck
            };
            let acting = tokio::time::timeout(chaos_and_healing(until), acting);
            tokio::join!(acting, chaos, copying)
        };
        struck?;
        match acted {
            Ok(acted) => acted?,
            Err(_) => {
                self.violation("O1", "clients still wait for an answer a minute after all was well".into())
            }
        }
        self.check_copy(&backup, copied?).await?;
        self.heal().await?;
        self.judge().await?;
        self.report();
        Ok(())
    }

    /// Waits until all has come to rest.
    async fn heal(&mut self) -> Result<(), TortureError> {
        let begun = Instant::now();
        loop {
            let left = heal::under_way(&self.world.stored()).await?;
            if left.is_empty() {
                break;
            }
            if begun.elapsed() > HEALING {
                self.violation(
                    "O1",
                    format!("still under way a minute after all was well: {}", left.join(", ")),
                );
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.usage = heal::usage_at_rest(&self.nodes, &self.baseline).await;
        if self.baseline.is_empty() {
            self.baseline = self.usage.clone();
        }
        Ok(())
    }

    async fn judge(&mut self) -> Result<(), TortureError> {
        let deaths = std::mem::take(&mut self.nemesis.deaths);
        self.violations.extend(deaths.into_iter().map(|what| Violation { check: "O17", what }));
        let Some(data) = self.judged_data().await? else { return Ok(()) };
        let evidence = self.evidence(data);
        let oracle::OracleVerdict { violations, facts } =
            oracle::examine(&self.world.book.trial_so_far(), &evidence);
        self.violations.extend(violations);
        self.facts = facts;
        Ok(())
    }

    fn evidence(&self, data: PathBuf) -> Evidence {
        let wal = std::fs::metadata(self.world.data.join("rondo.db-wal")).map_or(0, |file| file.len());
        let pool = if self.options.nodes > 1 { POOL_FILES } else { 0 };
        let resources = |(before, after): (&ProcessUsage, &ProcessUsage)| Resources {
            bytes_before: before.resident_bytes,
            bytes_after: after.resident_bytes,
            files_before: before.open_files as u64 + pool,
            files_after: after.open_files as u64,
            log_bytes: wal,
        };
        Evidence {
            data,
            logs: self.world.logs(),
            users: self.world.users.to_vec(),
            secrets: self.world.private_words.secrets().to_vec(),
            resources: self.baseline.iter().zip(&self.usage).map(resources).collect(),
        }
    }

    fn violation(&mut self, check: &'static str, what: String) {
        self.violations.push(Violation { check, what });
    }

    fn report(&self) {
        let ops = self.world.book.count(|trial| trial.ops.len());
        let blows = self.world.book.count(|trial| trial.blows.len());
        println!(
            "round {}: {ops} operations, {blows} blows so far, {} violations",
            self.rounds,
            self.violations.len()
        );
    }

    async fn finish(mut self, took: Duration) -> Result<TrialVerdict, TortureError> {
        for node in &mut self.nodes {
            node.process.term().await?;
        }
        if self.violations.is_empty()
            && let Some(backup) = self.backup.clone()
        {
            self.restore(&backup).await?;
        }
        let trial = self.world.book.trial_so_far();
        let minutes = self.chaos.as_secs_f64() / 60.0;
        let planned = (minutes * KILLS_PER_MINUTE) as usize;
        let (store, nodes) = (self.options.store, self.options.nodes);
        let plan =
            TrialPlan { minutes, kills: planned, disk: self.world.own_disk, store, nodes: nodes.into() };
        let vacuous = oracle::missing_events(&trial, &self.facts, &plan);
        let setting = TrialSetting { seed: self.seed, rounds: self.rounds, plan };
        let summary = TrialSummary::new(&setting, &trial, &self.facts, self.violations.clone());
        summary.write(&self.options.out)?;
        if !self.violations.is_empty() {
            self.freeze()?;
        }
        self.remove_copies()?;
        println!("{}", self.options.out.join("summary.json").display());
        Ok(TrialVerdict { seed: self.seed, store, nodes, violations: self.violations, vacuous, took })
    }
}

fn chaos_and_healing(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()) + HEALING
}

impl TrialVerdict {
    pub(crate) fn is_good(&self) -> bool {
        self.violations.is_empty() && self.vacuous.is_empty()
    }

    /// Says what was wrong. Evidence of a violation is kept where no later trial removes it.
    pub(crate) fn tell(&self, out: &Path) -> Result<(), TortureError> {
        for violation in self.violations.iter().take(MAX_TOLD) {
            println!("{}: {}", violation.check, violation.what);
        }
        for missing in &self.vacuous {
            println!("it proves too little: {missing}");
        }
        if self.is_good() {
            return Ok(());
        }
        let kept = self.keep_evidence(out)?;
        println!("{}", self.failure(&kept));
        Ok(())
    }

    /// Puts the evidence where no later trial removes it.
    fn keep_evidence(&self, out: &Path) -> std::io::Result<PathBuf> {
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let kept = out.with_file_name(format!("{name}-failed-{}", self.seed));
        if kept.exists() {
            std::fs::remove_dir_all(&kept)?; // of the same seed
        }
        std::fs::rename(out, &kept)?;
        Ok(kept)
    }

    /// The last lines of a trial that has failed.
    fn failure(&self, kept: &Path) -> String {
        format!(
            "FAILED: seed {}, {} violations\nevidence (summary.json, server.log, frozen data): {}\n\
             again: cargo xtask torture --store {} --nodes {} --seed {} (with --dev if the build was one)",
            self.seed,
            self.violations.len(),
            kept.display(),
            self.store.name(),
            self.nodes,
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_need_a_postgresql() {
        let options = |nodes, store| TrialOptions {
            server: PathBuf::new(),
            out: PathBuf::new(),
            minutes: 1.0,
            seed: None,
            actors: 1,
            gap: 1.0,
            store,
            nodes,
            faketime: None,
            older: None,
        };
        assert!(options(3, TrialStore::Sqlite).mistake().is_some_and(|what| what.contains("--store")));
        assert_eq!(options(3, TrialStore::Postgres).mistake(), None);
        assert_eq!(options(1, TrialStore::Sqlite).mistake(), None);
    }

    #[test]
    fn a_failed_trial_names_its_seed_and_keeps_its_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("torture");
        let violation = Violation { check: "O7", what: "a cancelled run is completed".into() };
        let failed = TrialVerdict {
            seed: 7,
            store: TrialStore::Sqlite,
            nodes: 1,
            violations: vec![violation],
            vacuous: vec![],
            took: Duration::from_secs(1),
        };
        for _ in 0..2 {
            std::fs::create_dir(&out).unwrap();
            std::fs::write(out.join("summary.json"), "{}").unwrap();
            failed.tell(&out).unwrap();
            assert!(!out.exists());
        }
        let kept = folder.path().join("torture-failed-7");
        assert!(kept.join("summary.json").exists());
        let told = failed.failure(&kept);
        assert!(
            told.starts_with("FAILED: seed 7, 1 violations") && told.contains("torture-failed-7"),
            "{told}"
        );
        std::fs::create_dir(&out).unwrap();
        TrialVerdict { violations: vec![], ..failed }.tell(&out).unwrap();
        assert!(out.exists(), "a good one keeps nothing");
    }
}
