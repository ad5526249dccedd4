//! Does the oracle bite? Each bug is planted in turn, and has to be caught by the check that is there for it.

use std::time::Duration;

use protocol::planted::Bug;

use crate::round::{self, Options};
use crate::stage::Trouble;

/// How long a bug may stay unseen.
const LONGEST: Duration = Duration::from_secs(600);
/// Minutes of one trial; there are more until the bug is caught or the time is over.
const MINUTES: f64 = 1.0;

/// The checks that are there for it.
fn checks(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::SendBeforePersist | Bug::SeamGap => &["O5"],
        Bug::RerunNonidempotent => &["O3"],
        Bug::IdemOutsideTx => &["O4"],
        Bug::CancelInMemory => &["O7"],
        Bug::JobAfterCommit => &["O9"],
        Bug::TopkThenFilter => &["O4", "O11"],
        Bug::ResultTwice => &["O2"],
        Bug::TrimBetweenPair => &["O14"],
        Bug::AckBeforeCommit => &["O4", "O5"],
    }
}

/// True if every bug was caught.
pub(crate) async fn planted(options: &Options) -> Result<bool, Trouble> {
    let wanted = options.bug.as_deref();
    let bugs: Vec<Bug> =
        Bug::ALL.into_iter().filter(|bug| wanted.is_none_or(|name| name == bug.name())).collect();
    let mut lines = Vec::new();
    let mut all = !bugs.is_empty();
    for bug in bugs {
        let (line, caught) = catch(options, bug).await?;
        println!("{line}\n");
        lines.push(line);
        all &= caught;
    }
    println!("{:<22} {:<8} {:>8}  what was seen first", "planted", "caught", "after");
    for line in lines {
        println!("{line}");
    }
    Ok(all)
}

async fn catch(options: &Options, bug: Bug) -> Result<(String, bool), Trouble> {
    let (mut took, mut others, mut tries) = (Duration::ZERO, Vec::new(), 0);
    let seed = options.seed.unwrap_or(1);
    while took < LONGEST {
        let trial = Options {
            bug: Some(bug.name().to_owned()),
            out: options.out.join(bug.name()),
            minutes: MINUTES,
            seed: Some(seed + tries),
            ..options.clone()
        };
        tries += 1;
        let verdict = round::trial(&trial).await?;
        took += verdict.took;
        let hit = verdict.violations.iter().find(|violation| checks(bug).contains(&violation.check));
        if let Some(hit) = hit {
            let what: String = hit.what.chars().take(100).collect();
            let seconds = format!("{} s", took.as_secs());
            return Ok((format!("{:<22} {:<8} {seconds:>8}  {what}", bug.name(), hit.check), true));
        }
        others.extend(verdict.violations.into_iter().map(|violation| violation.check));
    }
    Ok((format!("{:<22} {:<8} {:>6} s  only {others:?}", bug.name(), "NO", took.as_secs()), false))
}
