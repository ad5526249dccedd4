//! How each part of `cargo xtask test` and `check` went, and how long it took beside its budget.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds that each part may take in a clean checkout on two cores. The parts from `torture` to `real models` run one after
/// the other, and beside them the parts from `doc tests` on.
const BUDGETS: &[(&str, u64)] = &[
    ("format", 10),
    ("lints", 20),
    ("tidy", 15),
    ("build", 600),
    ("tests", 480),
    ("statements", 10),
    ("border", 5),
    ("torture", 200),
    ("nodes", 150),
    ("console", 240),
    ("react-chat", 60),
    ("real models", 160),
    ("doc tests", 120),
    ("servers", 90),
    ("clients", 120),
    ("protocols", 150),
    ("proxy", 30),
    ("deploy", 30),
    ("dist", 60),
    ("postgres", 150),
    ("instructions", 90),
    ("local models", 240),
];

/// The budget of all parts together.
const TOTAL_BUDGET: Duration = Duration::from_secs(45 * 60);

/// The parts that ran, and those that could not.
pub(crate) struct Report {
    begin: Instant,
    outcomes: Mutex<Outcomes>,
    /// The parts to run; all if none is named.
    only: Vec<String>,
    /// Held while something is fetched.
    fetching: Mutex<()>,
}

#[derive(Default)]
struct Outcomes {
    parts: Vec<PartOutcome>,
    /// Names of parts that could not be run, and why with a remedy.
    not_run: Vec<(&'static str, String)>,
}

struct PartOutcome {
    name: &'static str,
    passed: bool,
    time: Duration,
}

impl Report {
    pub(crate) fn new(only: &[String]) -> Self {
        Self {
            begin: Instant::now(),
            outcomes: Mutex::default(),
            only: only.to_vec(),
            fetching: Mutex::default(),
        }
    }

    /// Whether this part is to be run.
    pub(crate) fn includes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| part == name)
    }

    /// A part that needs something to be there first.
    pub(crate) fn installed_part(
        &self,
        name: &'static str,
        install: impl FnOnce() -> Result<(), String>,
        perform: impl FnOnce() -> bool,
    ) {
        if !self.includes(name) {
            return;
        }
        match self.fetch(install) {
            Ok(()) => self.part(name, perform),
            Err(why) => self.not_run(name, why),
        }
    }

    /// Fetches one thing at a time, so that no part fetches what another part is fetching.
    pub(crate) fn fetch(&self, install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let _turn = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        install()
    }

    pub(crate) fn part(&self, name: &'static str, perform: impl FnOnce() -> bool) {
        if !self.includes(name) {
            return;
        }
        println!("== {name}");
        let begin = Instant::now();
        let passed = perform();
        self.outcomes(|outcomes| outcomes.parts.push(PartOutcome { name, passed, time: begin.elapsed() }));
    }

    /// Notes a part that needs what is not there. It fails nothing, but it is said aloud.
    pub(crate) fn not_run(&self, name: &'static str, why: String) {
        self.outcomes(|outcomes| outcomes.not_run.push((name, why)));
    }

    /// Prints the table, then the parts over their budget and those that were not run, and says whether every part that
    /// ran has passed.
    pub(crate) fn conclude(&self) -> bool {
        self.outcomes(|outcomes| {
            println!("\n{:<12} {:<7} {:>9} {:>9}", "part", "result", "time", "budget");
            for PartOutcome { name, passed, time } in &outcomes.parts {
                let result = if *passed { "ok" } else { "FAILED" };
                println!(
                    "{name:<12} {result:<7} {:>7.1} s {}",
                    time.as_secs_f64(),
                    budget_text(budget(name))
                );
            }
            let total = self.begin.elapsed();
            println!(
                "{:<12} {:<7} {:>7.1} s {}",
                "all",
                "",
                total.as_secs_f64(),
                budget_text(Some(TOTAL_BUDGET))
            );
            for warning in over_budget(&outcomes.parts, total) {
                println!("OVER BUDGET: {warning}");
            }
            for (name, why) in &outcomes.not_run {
                println!("NOT RUN: {name}: {why}");
            }
            let is_any = !outcomes.parts.is_empty() || !outcomes.not_run.is_empty();
            if !is_any {
                let names: Vec<&str> = BUDGETS.iter().map(|(name, _)| *name).collect();
                eprintln!(
                    "error: there is no part {}; the parts are {}",
                    self.only.join(", "),
                    names.join(", ")
                );
            }
            is_any && outcomes.parts.iter().all(|part| part.passed)
        })
    }

    fn outcomes<T>(&self, look: impl FnOnce(&mut Outcomes) -> T) -> T {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        look(&mut outcomes)
    }
}

fn budget(name: &str) -> Option<Duration> {
    let seconds = BUDGETS.iter().find(|(part, _)| *part == name)?.1;
    Some(Duration::from_secs(seconds))
}

fn budget_text(budget: Option<Duration>) -> String {
    budget.map_or_else(String::new, |budget| format!("{:>7} s", budget.as_secs()))
}

/// Returns the parts that took longer than their budget, in words.
fn over_budget(parts: &[PartOutcome], total: Duration) -> Vec<String> {
    let timed = parts.iter().map(|part| (part.name, part.time, budget(part.name)));
    let timed = timed.chain([("all parts together", total, Some(TOTAL_BUDGET))]);
    timed
        .filter_map(|(name, time, budget)| {
            let budget = budget.filter(|budget| time > *budget)?;
            Some(format!("{name} took {} s, more than {} s", time.as_secs(), budget.as_secs()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_part_fails_the_whole() {
        let report = Report::new(&[]);
        report.part("good", || true);
        assert!(report.conclude());
        report.part("bad", || false);
        report.part("good", || true);
        assert!(!report.conclude());
        assert_eq!(report.outcomes(|outcomes| outcomes.parts.len()), 3, "later parts still ran");
    }

    #[test]
    fn a_part_that_lacks_something_fails_nothing() {
        let report = Report::new(&[]);
        report.part("good", || true);
        report.not_run("optional", "there is no such program; install it".into());
        assert!(report.conclude());
        report.part("bad", || false);
        assert!(!report.conclude(), "and hides nothing");
    }

    #[test]
    fn a_part_that_takes_too_long_is_named_and_fails_nothing() {
        let part = |name, seconds| PartOutcome { name, passed: true, time: Duration::from_secs(seconds) };
        let parts = [part("tidy", 16), part("format", 10), part("unknown", 9_999)];
        assert_eq!(over_budget(&parts, Duration::from_secs(60)), ["tidy took 16 s, more than 15 s"]);
        assert_eq!(
            over_budget(&[], Duration::from_secs(2701)),
            ["all parts together took 2701 s, more than 2700 s"]
        );
    }

    #[test]
    fn budgets_of_parts_that_run_one_after_another_fit_into_the_whole() {
        let place = |part: &str| BUDGETS.iter().position(|(name, _)| *name == part).unwrap();
        let (first, second) = (place("torture"), place("doc tests"));
        let sum_of = |parts: &[(&str, u64)]| -> u64 {
            parts.iter().filter(|(name, _)| *name != "lints").map(|(_, seconds)| seconds).sum()
        };
        let lanes = [&BUDGETS[first..second], &BUDGETS[second..]].map(sum_of);
        let alone = sum_of(&BUDGETS[..first]);
        let sum = alone + lanes.into_iter().max().unwrap();
        assert!(Duration::from_secs(sum) <= TOTAL_BUDGET, "{sum} s");
    }
}
