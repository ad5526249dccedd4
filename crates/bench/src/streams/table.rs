//! The report of all scenarios, as a plain text table and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figures::{ServerFigures, StreamFigure};
use super::load::ServerKind;
use super::scenarios::{StreamAim, StreamScenario};

const HEADING_LINES: usize = 2;
/// Reasons of failures that a row shows; JSON has all of them.
const SHOWN_REASONS: usize = 4;
/// Above this share of its core, the load generator may be what is slow.
const BUSY_PERCENT: f64 = 85.0;
/// Above this delay, other programs took the core of the load away.
const LATE_MS: f64 = 20.0;

/// A scenario that ran.
pub(super) struct ScenarioReport {
    pub(super) scenario: StreamScenario,
    pub(super) rows: Vec<ReportRow>,
    /// Why the scenario did not run, or not to its end.
    pub(super) trouble: Option<String>,
}

/// All repeats of one server.
pub(super) struct ReportRow {
    pub(super) label: &'static str,
    pub(super) repeats: Vec<ServerFigures>,
}

/// An aim, and whether it is met; unknown if nothing was measured.
struct AimLine {
    text: String,
    met: Option<bool>,
}

impl ScenarioReport {
    pub(super) fn add(&mut self, label: &'static str, figures: ServerFigures) {
        match self.rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.repeats.push(figures),
            None => self.rows.push(ReportRow { label, repeats: vec![figures] }),
        }
    }

    fn row(&self, label: &str) -> Option<ServerFigures> {
        let row = self.rows.iter().find(|row| row.label == label)?;
        Some(ServerFigures::of_repeats(&row.repeats))
    }

    fn cpu_ratio(&self, label: &str, to: &str) -> Option<f64> {
        let cpu = |label| self.row(label)?.get(StreamFigure::CpuPerRun);
        Some(cpu(label)? / cpu(to)?)
    }

    fn postgres_ratio(&self) -> Option<f64> {
        self.cpu_ratio(ServerKind::RondoPostgres.name(), ServerKind::Rondo.name())
    }

    fn aim(&self, aim: StreamAim) -> AimLine {
        match aim {
            StreamAim::CpuRatio { row, to, most } => {
                let ratio = self.cpu_ratio(row, to);
                AimLine {
                    text: format!("CPU of {row}: {} times {to}, at most {most}", number_text(ratio, 2)),
                    met: ratio.map(|ratio| ratio <= most),
                }
            }
            StreamAim::Most { row, figure, most } => {
                let (value, label) = (self.row(row).and_then(|row| row.get(figure)), figure.label());
                let [first, second] = label.heading;
                AimLine {
                    text: format!(
                        "{first} {second} of {row}: {}, at most {most}",
                        number_text(value, label.decimals)
                    ),
                    met: value.map(|value| value <= most),
                }
            }
            StreamAim::NoFailure { row } => {
                let failed = self.row(row).map(|row| row.failed);
                let number = failed.map_or("?".into(), |failed| failed.to_string());
                AimLine {
                    text: format!("failed turns of {row}: {number}, at most 0"),
                    met: failed.map(|failed| failed == 0),
                }
            }
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.scenario.name, self.scenario.about);
        let rows: Vec<(&str, ServerFigures)> =
            self.rows.iter().map(|row| (row.label, ServerFigures::of_repeats(&row.repeats))).collect();
        if !rows.is_empty() {
            text.push_str(&table(&rows));
        }
        for (label, figures) in &rows {
            text.push_str(&reasons(label, figures));
            text.push_str(&doubts(label, figures));
        }
        for other in [ServerKind::Floor, ServerKind::Proxy].map(ServerKind::name) {
            if let Some(ratio) = self.cpu_ratio(ServerKind::Rondo.name(), other) {
                let _ = writeln!(text, "  rondo has {ratio:.2} times the CPU time of {other}");
            }
        }
        if let Some(ratio) = self.postgres_ratio() {
            let _ = writeln!(text, "  rondo-postgres has {ratio:.2} times the CPU time of rondo on SQLite");
        }
        for aim in self.scenario.aims {
            let AimLine { text: line, met } = self.aim(*aim);
            let verdict = met.map_or("NOT MEASURED", |met| if met { "met" } else { "NOT MET" });
            let _ = writeln!(text, "  aim {verdict}: {line}");
        }
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "  NOT RUN: {trouble}");
        }
        text
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "server": row.label,
                "median": ServerFigures::of_repeats(&row.repeats).json(),
                "repeats": row.repeats.iter().map(ServerFigures::json).collect::<Vec<_>>(),
            })
        });
        let aims = self.scenario.aims.iter().map(|aim| {
            let AimLine { text, met } = self.aim(*aim);
            json!({ "aim": text, "met": met })
        });
        let ratio = |other: ServerKind| self.cpu_ratio(ServerKind::Rondo.name(), other.name());
        json!({
            "name": self.scenario.name,
            "about": self.scenario.about,
            "servers": rows.collect::<Vec<_>>(),
            "cpuRatioToFloor": ratio(ServerKind::Floor),
            "cpuRatioToProxy": ratio(ServerKind::Proxy),
            "postgresCpuRatioToSqlite": self.postgres_ratio(),
            "aims": aims.collect::<Vec<_>>(),
            "trouble": self.trouble,
        })
    }
}

/// The table of all scenarios, below notes about the machine.
pub(super) fn report_text(notes: &[String], reports: &[ScenarioReport]) -> String {
    let mut text: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    for report in reports {
        text.push('\n');
        text.push_str(&report.text());
    }
    text
}

pub(super) fn report_json(notes: &[String], reports: &[ScenarioReport]) -> Value {
    json!({ "notes": notes, "scenarios": reports.iter().map(ScenarioReport::json).collect::<Vec<_>>() })
}

/// Only columns that some row has, each as wide as its widest text.
pub(super) fn table(rows: &[(&str, ServerFigures)]) -> String {
    let figures: BTreeSet<StreamFigure> =
        rows.iter().flat_map(|(_, row)| row.values.keys().copied()).collect();
    let mut columns = vec![
        column(["", "server"], rows, |(label, _)| (*label).to_owned()),
        column(["", "good"], rows, |(_, row)| row.good.to_string()),
        column(["", "failed"], rows, |(_, row)| row.failed.to_string()),
    ];
    for figure in figures {
        let label = figure.label();
        let cell = |(_, row): &(&str, ServerFigures)| match row.get(figure) {
            Some(value) => number_text(Some(value), label.decimals),
            None => "-".into(),
        };
        columns.push(column(label.heading, rows, cell));
    }
    let mut text = String::new();
    for line in 0..rows.len() + HEADING_LINES {
        for (index, cells) in columns.iter().enumerate() {
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
            let cell = cells.get(line).map(String::as_str).unwrap_or_default();
            let _ =
                if index == 0 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// The cells of a column, from top to bottom.
fn column(
    heading: [&str; HEADING_LINES],
    rows: &[(&str, ServerFigures)],
    cell: impl Fn(&(&str, ServerFigures)) -> String,
) -> Vec<String> {
    heading.into_iter().map(str::to_owned).chain(rows.iter().map(cell)).collect()
}

pub(super) fn reasons(label: &str, figures: &ServerFigures) -> String {
    let mut reasons: Vec<(&String, &usize)> =
        figures.failures.iter().filter(|(_, times)| **times > 0).collect();
    reasons.sort_by(|one, other| other.1.cmp(one.1));
    let mut text = String::new();
    for (why, times) in reasons.iter().take(SHOWN_REASONS) {
        let _ = writeln!(text, "  {label} failed {times} times: {why}");
    }
    text
}

/// Names the causes that make the times of a row too high without a fault of the server.
pub(super) fn doubts(label: &str, figures: &ServerFigures) -> String {
    let is_above = |figure, most| figures.get(figure).is_some_and(|value| value > most);
    let mut text = String::new();
    if is_above(StreamFigure::LoadBusy, BUSY_PERCENT) {
        let _ = writeln!(
            text,
            "  note: the load generator needed its whole core beside {label}, so times are too high"
        );
    }
    if is_above(StreamFigure::UpstreamLate, LATE_MS) {
        let _ = writeln!(text, "  note: the upstream was late beside {label}, so times are too high");
    }
    text
}

fn number_text(value: Option<f64>, decimals: usize) -> String {
    value.map_or("?".into(), |value| format!("{value:.decimals$}"))
}
