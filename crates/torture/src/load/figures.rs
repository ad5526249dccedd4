//! The measured figures, beside the aims.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::stage::TortureError;

/// How much of an aim it may be missed by before it counts as failed: the machine has other work.
const TOLERANCE: f64 = 0.25;
/// Times that differ by less, in milliseconds, are the same: a shared machine cannot tell them apart.
const SAME_MILLISECONDS: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// There is no aim.
    Seen,
    Met,
    /// By no more than the tolerance.
    Missed,
    Failed,
}

#[derive(Debug, Clone, Serialize)]
struct Figure {
    experiment: &'static str,
    what: String,
    value: f64,
    unit: &'static str,
    aim: Option<String>,
    verdict: Verdict,
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The figures of one experiment.
    pub(crate) fn sheet_of(&mut self, experiment: &'static str) -> FigureSheet<'_> {
        FigureSheet { experiment, figures: self }
    }

    /// Returns the aims that were missed by more than the tolerance, in words.
    pub(crate) fn failed(&self) -> Vec<String> {
        let failed = self.all.iter().filter(|figure| figure.verdict == Verdict::Failed);
        failed.map(|figure| format!("{} {} is {}", figure.experiment, figure.what, text_of(figure))).collect()
    }

    pub(crate) fn print(&self, from: usize) {
        for figure in self.all.iter().skip(from) {
            let verdict = match figure.verdict {
                Verdict::Seen => "",
                Verdict::Met => "met",
                Verdict::Missed => "missed, within the tolerance",
                Verdict::Failed => "MISSED",
            };
            let aim = figure.aim.as_deref().unwrap_or("-");
            println!(
                "{:<8} {:<58} {:>14}  aim {:<10} {verdict}",
                figure.experiment,
                figure.what,
                text_of(figure),
                aim
            );
        }
    }

    pub(crate) fn write(&self, file: &Path, readers: usize, server: &Path) -> Result<(), TortureError> {
        let name = server.file_name().map(|name| name.to_string_lossy().into_owned());
        let optimised = !server.components().any(|part| part.as_os_str() == "debug");
        let whole =
            json!({ "readers": readers, "server": name, "optimised": optimised, "figures": self.all });
        std::fs::write(file, serde_json::to_vec_pretty(&whole)?)?;
        Ok(())
    }
}

fn text_of(figure: &Figure) -> String {
    let Figure { value, unit, .. } = figure;
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.2} {unit}") }
}

/// The sheet on which one experiment writes.
pub(crate) struct FigureSheet<'f> {
    experiment: &'static str,
    figures: &'f mut Figures,
}

impl FigureSheet<'_> {
    /// Worth knowing, without an aim.
    pub(crate) fn note(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.add(what.into(), (value, unit), None, Verdict::Seen);
    }

    pub(crate) fn expect_at_most(
        &mut self,
        what: impl Into<String>,
        (value, unit): (f64, &'static str),
        aim: f64,
    ) {
        let verdict = verdict(value, aim);
        self.add(what.into(), (value, unit), Some(format!("<= {aim}")), verdict);
    }

    pub(crate) fn expect_exactly(
        &mut self,
        what: impl Into<String>,
        (value, unit): (usize, &'static str),
        aim: usize,
    ) {
        let verdict = if value == aim { Verdict::Met } else { Verdict::Failed };
        self.add(what.into(), (count(value), unit), Some(format!("= {aim}")), verdict);
    }

    /// How many times as long something takes under load, both in milliseconds.
    pub(crate) fn expect_unchanged(&mut self, what: &str, with: f64, without: f64) {
        let ratio = if without > 0.0 { with / without } else { f64::INFINITY };
        let verdict = if with - without < SAME_MILLISECONDS { Verdict::Met } else { verdict(ratio, 1.1) };
        self.note(format!("{what}, without"), without, "ms");
        self.note(format!("{what}, with"), with, "ms");
        self.add(format!("{what}, ratio"), (ratio, "x"), Some("<= 1.1".to_owned()), verdict);
    }

    fn add(
        &mut self,
        what: String,
        (value, unit): (f64, &'static str),
        aim: Option<String>,
        verdict: Verdict,
    ) {
        let experiment = self.experiment;
        self.figures.all.push(Figure { experiment, what, value, unit, aim, verdict });
    }
}

fn verdict(value: f64, aim: f64) -> Verdict {
    if value <= aim {
        Verdict::Met
    } else if value <= aim * (1.0 + TOLERANCE) {
        Verdict::Missed
    } else {
        Verdict::Failed
    }
}

/// A count as a figure.
pub(crate) fn count(value: usize) -> f64 {
    u32::try_from(value).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_met_missed_within_the_tolerance_or_failed() {
        let verdicts = [100.0, 100.1, 125.0, 125.1].map(|value| verdict(value, 100.0));
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::Missed, Verdict::Failed]);
        assert_eq!([verdict(0.0, 0.0), verdict(1.0, 0.0)], [Verdict::Met, Verdict::Failed]);
    }

    #[test]
    fn only_what_failed_is_named() {
        let mut figures = Figures::default();
        let mut sheet = figures.sheet_of("idle");
        sheet.expect_at_most("memory", (24.5, "KiB"), 25.0);
        sheet.expect_at_most("time", (5.5, "%"), 5.0);
        sheet.expect_exactly("open", (9, "readers"), 10);
        sheet.expect_unchanged("p99", 21.9, 20.0);
        sheet.expect_unchanged("p50", 3.0, 1.5);
        sheet.expect_unchanged("p10", 30.0, 20.0);
        assert_eq!(figures.failed(), ["idle open is 9 readers", "idle p10, ratio is 1.50 x"]);
    }
}
