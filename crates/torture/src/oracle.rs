//! The oracle compares what the server did with what all processes saw that were not killed. Each file under `oracle`
//! is a check; this one asks them all.

mod acknowledged;
mod cancel;
mod case;
mod effects;
mod facts;
mod fold;
mod guards;
mod jobs;
mod log;
mod mixtures;
mod nodes;
mod order;
mod output;
mod resources;
mod rows;
mod runs;
mod scan;
mod streams;
mod usage;

use std::path::PathBuf;

use crate::database::open_database;
use crate::record::{Trial, Violation};
use crate::stage::User;

pub(crate) use self::case::is_kill;
use self::case::{Case, violation};
pub(crate) use self::facts::Facts;
pub(crate) use self::guards::{Guard, TrialPlan, missing_events, must_have};
pub(crate) use self::resources::Resources;

/// Violations of one check that are told; of more only their number is.
const MAX_TOLD: usize = 25;

/// The evidence beside the trial. The server is stopped, or healed and idle.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) data: PathBuf,
    /// The output of each node, over all its starts.
    pub(crate) logs: Vec<PathBuf>,
    pub(crate) users: Vec<User>,
    pub(crate) secrets: Vec<String>,
    /// Of each node.
    pub(crate) resources: Vec<Resources>,
}

/// The outcome of the checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct OracleVerdict {
    pub(crate) violations: Vec<Violation>,
    pub(crate) facts: Facts,
}

/// Judges a trial. It must be all that ever happened to the data: what was there before would be a violation.
pub(crate) fn examine(trial: &Trial, evidence: &Evidence) -> OracleVerdict {
    let read =
        open_database(&evidence.data).and_then(|conn| log::StoredLog::read(&conn).map(|log| (conn, log)));
    let (conn, log) = match read {
        Ok(read) => read,
        Err(error) => {
            let violations = vec![violation("O16", format!("the database cannot be read: {error}"))];
            return OracleVerdict { violations, facts: Facts::default() };
        }
    };
    let case = Case::new(trial, &log);
    let wanted = scan::ScannedWords::new(&evidence.users, &evidence.secrets);
    let found = [
        runs::check(&case),
        rows::check(&conn),
        rows::audit(&evidence.data),
        effects::check(&case),
        acknowledged::check(&case),
        streams::check(&case),
        fold::check(&conn, &log),
        cancel::check(&case),
        order::check(&case),
        jobs::check(&case),
        jobs::find_doubled(&conn),
        scan::check(&case),
        scan::database(&conn, &log, &wanted),
        evidence.logs.iter().flat_map(|log| scan::output(log, &wanted)).collect(),
        resources::check(&evidence.resources),
        usage::complaints(trial),
        usage::check(&case),
        output::check(&evidence.logs, trial),
        nodes::check(&case),
    ];
    let facts = Facts::of(&case, &evidence.logs);
    OracleVerdict { violations: found.into_iter().flat_map(first_of_check).collect(), facts }
}

fn first_of_check(mut found: Vec<Violation>) -> Vec<Violation> {
    let more = found.len().saturating_sub(MAX_TOLD);
    found.truncate(MAX_TOLD);
    if let Some(last) = found.last().filter(|_| more > 0) {
        found.push(violation(last.check, format!("and {more} more of these")));
    }
    found
}

#[cfg(test)]
mod tests;
