//! O15: what runs are said to have used is what the model said; and O14: what the model complained of.

use std::collections::HashMap;

use protocol::Usage;

use crate::record::{Trial, Violation};

use super::case::{Case, violation};
use super::log::{LoggedRun, hex};

pub(super) fn check(case: &Case<'_>) -> Vec<Violation> {
    let mut asked: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for request in &case.trial.asked {
        if let Some(tag) = &request.tag {
            asked.entry(tag).or_default().push((request.input_tokens, request.output_tokens));
        }
    }
    let mut found = Vec::new();
    for (id, run) in &case.log.runs {
        let Some(tag) = run.tag.as_deref() else { continue };
        let told = asked.get(tag).map(Vec::as_slice).unwrap_or_default();
        let tell = |what: String| violation("O15", format!("run {} of message {tag} {what}", hex(id)));
        found.extend(of_run(run, told).into_iter().map(tell));
    }
    found
}

/// Returns the faults that the strict model has found in requests.
pub(super) fn complaints(trial: &Trial) -> Vec<Violation> {
    trial.complaints.iter().map(|complaint| violation("O14", complaint.clone())).collect()
}

/// A step that was said whole costs what the model says. One that was cut costs an estimate; one whose process died
/// costs nothing, since the usage died with the process.
fn of_run(run: &LoggedRun, told: &[(u64, u64)]) -> Vec<String> {
    let mut left = told.to_vec();
    let mut complaints = Vec::new();
    let estimated = run.steps.iter().any(|step| step.whole && step.usage.estimated);
    if estimated {
        complaints.push("has an estimate for a step that the model has counted".into());
    }
    let steps = run.steps.iter().map(|step| step.usage);
    let counted = steps.chain(run.resets.iter().filter_map(|reset| reset.usage));
    for usage in counted.filter(|usage| !usage.estimated && *usage != Usage::default()) {
        let used = (usage.input_tokens, usage.output_tokens);
        match left.iter().position(|told| *told == used) {
            Some(at) => drop(left.swap_remove(at)),
            None => complaints.push(format!("has used {used:?}, and the model said {told:?}")),
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::log::{Reset, StoredLog};
    use crate::oracle::tests::sample::{self, RUN};

    fn found(change: impl FnOnce(&mut Trial, &mut StoredLog)) -> Vec<Violation> {
        let (mut trial, mut log) = sample::good();
        change(&mut trial, &mut log);
        check(&Case::new(&trial, &log))
    }

    fn run(log: &mut StoredLog) -> &mut LoggedRun {
        log.runs.get_mut(&RUN).unwrap()
    }

    #[test]
    fn a_run_uses_what_the_model_says() {
        assert_eq!(found(|_, _| {}), []);
        assert_eq!(found(|_, log| run(log).steps[0].usage.output_tokens += 1).len(), 1);
        assert_eq!(found(|trial, _| trial.asked.clear()).len(), 1);
        let twice = |_: &mut Trial, log: &mut StoredLog| {
            let step = run(log).steps[0].clone();
            run(log).steps.push(step);
        };
        assert_eq!(found(twice).len(), 1, "it was asked once");
    }

    #[test]
    fn only_what_was_cut_is_estimated() {
        let estimated = |_: &mut Trial, log: &mut StoredLog| run(log).steps[0].usage.estimated = true;
        assert_eq!(found(estimated).len(), 1);
        let cut = |trial: &mut Trial, log: &mut StoredLog| {
            estimated(trial, log);
            run(log).steps[0].whole = false;
        };
        assert_eq!(found(cut), []);
        let reset = |_: &mut Trial, log: &mut StoredLog| {
            run(log).resets.push(Reset { seq: 3, usage: None });
            let usage = Usage { estimated: true, output_tokens: 5, ..Usage::default() };
            run(log).resets.push(Reset { seq: 4, usage: Some(usage) });
        };
        assert_eq!(found(reset), []);
    }

    #[test]
    fn every_complaint_is_a_violation() {
        let trial = Trial { complaints: vec!["a result without its call".into()], ..Trial::default() };
        assert_eq!(complaints(&trial).len(), 1);
    }
}
