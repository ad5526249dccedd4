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
use crate::server::{ProcessUsage, ServerProcess};
use crate::stage::TortureError;
use crate::summary::{TrialSetting, TrialSummary};
use crate::world::{TortureWorld, WorldSettings};
use crate::{actors, heal, stalls};

/// Users, each with a word that nobody else may see.
const USERS: usize = 8;
/// How long a round of chaos is at most.
const CHAOS: Duration = Duration::from_secs(60);
/// And at least: there is no point in less.
const SHORTEST_CHAOS: Duration = Duration::from_secs(10);
/// What is kept of the time for healing and the verdict.
const AFTERMATH: Duration = Duration::from_secs(15);
/// How long everything may take to come to rest once nothing goes wrong any more.
const HEALING: Duration = Duration::from_secs(60);
/// How long a server may take to start, here where it is not killed.
const START: Duration = Duration::from_secs(30);
/// Violations that are printed; all are in the summary.
const MAX_TOLD: usize = 50;
/// Kills that a minute of chaos must have.
const KILLS_PER_MINUTE: f64 = 8.0;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TrialOptions {
    /// The server to be killed
    #[arg(long, value_name = "BINARY")]
    pub(crate) server: PathBuf,
    /// Where everything that is seen is written, and what is left of the data if something is wrong
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// How long the whole trial takes
    #[arg(long, default_value_t = 5.0)]
    pub(crate) minutes: f64,
    /// Where chance begins; any, and printed, when absent
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
}

/// What came of a trial.
pub(crate) struct TrialVerdict {
    pub(crate) seed: u64,
    pub(crate) store: TrialStore,
    pub(crate) violations: Vec<Violation>,
    /// What did not happen often enough for the trial to prove anything.
    pub(crate) vacuous: Vec<String>,
    pub(crate) took: Duration,
}

/// Runs a trial to its end, or until something is wrong.
pub(crate) async fn run_trial(options: &TrialOptions) -> Result<TrialVerdict, TortureError> {
    let begun = Instant::now();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    // Commands run in another folder.
    let options = &TrialOptions { out: std::path::absolute(&options.out)?, ..options.clone() };
    let out = &options.out;
    if out.join("summary.json").exists() || out.join("server.log").exists() {
        std::fs::remove_dir_all(out)?; // of an earlier trial
    }
    std::fs::create_dir_all(out)?;
    println!(
        "torture: seed {seed}, {}, {} minutes, {} clients, {}",
        options.store.name(),
        options.minutes,
        options.actors,
        out.display()
    );
    let (server, store) = (options.server.clone(), options.store);
    let settings = WorldSettings { seed, out: out.clone(), server, users: USERS, store, keep: false };
    let world = TortureWorld::build(&settings).await?;
    if store == TrialStore::Sqlite && !world.own_disk {
        println!("NOT RUN: full disks: no small disk could be mounted here");
    }
    let mut watching = JoinSet::new(); // ends when it is dropped
    watching.spawn(stalls::watch(world.book.clone()));
    let mut trial = Trial::begin(world, options, seed).await?;
    let end = begun + Duration::from_secs_f64(options.minutes * 60.0);
    while let Some(chaos) = trial.next(end) {
        trial.round(chaos).await?;
        if !trial.violations.is_empty() {
            break;
        }
    }
    trial.finish(begun.elapsed()).await
}

struct Trial {
    world: TortureWorld,
    server: ServerProcess,
    nemesis: Nemesis,
    rng: Rng,
    options: TrialOptions,
    seed: u64,
    /// What the server held when it first came to rest. It keeps connections to those it talks to, so what it held
    /// before anybody came says little.
    baseline: Option<ProcessUsage>,
    usage: Option<ProcessUsage>,
    rounds: usize,
    chaos: Duration,
    violations: Vec<Violation>,
    facts: Facts,
    backup: Option<PathBuf>,
}

impl Trial {
    async fn begin(world: TortureWorld, options: &TrialOptions, seed: u64) -> Result<Self, TortureError> {
        let mut server = world.server()?;
        server.start()?;
        if !server.ready(START).await? {
            return Err(format!("the server does not start; see {}", world.launch().log.display()).into());
        }
        let nemesis = Nemesis::new(&world, Duration::from_secs_f64(options.gap));
        Ok(Self {
            world,
            server,
            nemesis,
            rng: Rng::with_seed(seed),
            options: options.clone(),
            seed,
            baseline: None,
            usage: None,
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
            let striking = self.nemesis.run(&mut self.server, until, &mut self.rng);
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
        self.usage = heal::settled(&self.server, self.baseline).await;
        self.baseline = self.baseline.or(self.usage);
        Ok(())
    }

    async fn judge(&mut self) -> Result<(), TortureError> {
        let deaths = std::mem::take(&mut self.nemesis.deaths);
        self.violations.extend(deaths.into_iter().map(|what| Violation { check: "O17", what }));
        let Some(data) = self.judged_data().await? else { return Ok(()) };
        let evidence = self.evidence(data);
        let oracle::OracleVerdict { violations, facts } =
            oracle::examine(&self.world.book.trial(), &evidence);
        self.violations.extend(violations);
        self.facts = facts;
        Ok(())
    }

    fn evidence(&self, data: PathBuf) -> Evidence {
        let wal = std::fs::metadata(self.world.data.join("rondo.db-wal")).map_or(0, |file| file.len());
        Evidence {
            data,
            log: self.world.launch().log.clone(),
            users: self.world.users.to_vec(),
            secrets: self.world.private_words.secrets().to_vec(),
            resources: Resources {
                bytes_before: self.baseline.map_or(0, |usage| usage.resident_bytes),
                bytes_after: self.usage.map_or(0, |usage| usage.resident_bytes),
                files_before: self.baseline.map_or(0, |usage| usage.open_files as u64),
                files_after: self.usage.map_or(0, |usage| usage.open_files as u64),
                log_bytes: wal,
            },
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
        self.server.term().await?;
        if self.violations.is_empty()
            && let Some(backup) = self.backup.clone()
        {
            self.restore(&backup).await?;
        }
        let trial = self.world.book.trial();
        let minutes = self.chaos.as_secs_f64() / 60.0;
        let planned = (minutes * KILLS_PER_MINUTE) as usize;
        let store = self.options.store;
        let plan = TrialPlan { minutes, kills: planned, disk: self.world.own_disk, store };
        let vacuous = oracle::vacuous(&trial, &self.facts, &plan);
        let setting = TrialSetting { seed: self.seed, rounds: self.rounds, plan };
        let summary = TrialSummary::new(&setting, &trial, &self.facts, self.violations.clone());
        summary.write(&self.options.out)?;
        if !self.violations.is_empty() {
            self.freeze()?;
        }
        self.remove_copies()?;
        println!("{}", self.options.out.join("summary.json").display());
        Ok(TrialVerdict { seed: self.seed, store, violations: self.violations, vacuous, took })
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
             again: cargo xtask torture --store {} --seed {} (with --dev if the build was one)",
            self.seed,
            self.violations.len(),
            kept.display(),
            self.store.name(),
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_trial_names_its_seed_and_keeps_its_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("torture");
        let violation = Violation { check: "O7", what: "a cancelled run is completed".into() };
        let failed = TrialVerdict {
            seed: 7,
            store: TrialStore::Sqlite,
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
