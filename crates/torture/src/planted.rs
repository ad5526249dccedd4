//! Does the oracle find a bug? The server under test has one that was planted, and a check that is there for it must see
//! it.

use std::time::Duration;

use crate::round::{self, TrialOptions};
use crate::stage::TortureError;

/// How long a bug may stay unseen.
const LONGEST: Duration = Duration::from_secs(600);
/// Minutes of one trial; there are more until the bug is caught or the time is over.
const MINUTES: f64 = 1.0;
/// Characters of a violation that are printed.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlantedOptions {
    #[command(flatten)]
    trial: TrialOptions,
    /// The name of the bug that the server has
    #[arg(long, value_name = "BUG")]
    bug: String,
    /// The checks of which one must find it, such as O4,O5
    #[arg(long, value_name = "CHECKS", value_delimiter = ',', required = true)]
    checks: Vec<String>,
}

/// Runs trials until a check finds the bug. False if none does in time.
pub(crate) async fn catch(options: &PlantedOptions) -> Result<bool, TortureError> {
    let PlantedOptions { trial, bug, checks } = options;
    let (mut time, mut others, mut tries) = (Duration::ZERO, Vec::new(), 0);
    let seed = trial.seed.unwrap_or(1);
    while time < LONGEST {
        let next = TrialOptions {
            out: trial.out.join(bug),
            minutes: MINUTES,
            seed: Some(seed + tries),
            ..trial.clone()
        };
        tries += 1;
        let verdict = round::run_trial(&next).await?;
        time += verdict.took;
        let hit =
            verdict.violations.iter().find(|violation| checks.iter().any(|check| check == violation.check));
        if let Some(hit) = hit {
            let what: String = hit.what.chars().take(MAX_SHOWN).collect();
            println!("{bug}: caught by {} after {} s: {what}", hit.check, time.as_secs());
            return Ok(true);
        }
        others.extend(verdict.violations.into_iter().map(|violation| violation.check));
        println!(
            "{bug}: not seen in {} s by {}; other checks: {others:?}",
            time.as_secs(),
            checks.join(", ")
        );
    }
    println!("{bug}: NOT CAUGHT in {} s", time.as_secs());
    Ok(false)
}
