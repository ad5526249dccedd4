//! The files in `deploy`, for several nodes on one PostgreSQL: whether they are valid and agree with each other, with the
//! documents and with the server, and whether nginx does with them as they say.

mod compose_rules;
mod documents;
mod facts;
mod manifest_rules;
mod nginx_trial;
mod ring_trial;
mod stub_node;
#[cfg(test)]
mod tests;

use std::path::Path;

use documents::DeployDocuments;
use facts::ServerFacts;

use crate::{proxy, python};

/// The virtual environment with what reads YAML and knows the schemas.
const ENVIRONMENT: &str = "target/deploy-checks";

/// Makes sure that at least the files can be checked or the proxy can be tried. The error says what is missing for both.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    match (install_checks(root), proxy::install(root)) {
        (Err(checks), Err(nginx)) => Err(format!("{checks}; {nginx}")),
        (Ok(()), Ok(()) | Err(_)) | (Err(_), Ok(())) => Ok(()),
    }
}

fn install_checks(root: &Path) -> Result<(), String> {
    python::install(&root.join(ENVIRONMENT), &root.join("crates/xtask/src/deploy/requirements.txt"))
}

/// Checks the files, and tries the proxy. `missing` is told which of both could not be run, and why.
pub(crate) fn test(root: &Path, missing: impl Fn(&'static str, String)) -> bool {
    let files = match install_checks(root) {
        Ok(()) => has_passed("files", check_files(root)),
        Err(why) => {
            missing("deploy (files)", why);
            true
        }
    };
    let nginx = match proxy::install(root) {
        Ok(()) => has_passed("nginx", ring_trial::run(root).map_err(|problem| vec![problem])),
        Err(why) => {
            missing("deploy (nginx)", why);
            true
        }
    };
    files && nginx
}

fn has_passed(what: &str, outcome: Result<String, Vec<String>>) -> bool {
    match outcome {
        Ok(summary) => {
            println!("{what}: {summary}");
            true
        }
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("error: {problem}"));
            false
        }
    }
}

fn check_files(root: &Path) -> Result<String, Vec<String>> {
    let only = |problem: String| vec![problem];
    let python = root.join(ENVIRONMENT).join("bin/python");
    let DeployDocuments { manifests, compose, mut problems } =
        documents::read(root, &python).map_err(only)?;
    let facts = ServerFacts::read(root).map_err(only)?;
    problems.extend(manifest_rules::check(&manifests, &facts));
    let files = compose_rules::NeighbourFiles::read(root).map_err(only)?;
    problems.extend(compose_rules::check(&compose, &files, &facts));
    if problems.is_empty() {
        Ok(format!("{} manifests and the compose file are in order", manifests.len()))
    } else {
        Err(problems.into_iter().map(|problem| format!("deploy: {problem}")).collect())
    }
}
