//! How far a download or a copy is: a bar on a terminal, else a line now and then.

use std::io::{IsTerminal, Write};

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};

const LOOK: &str =
    "{prefix} [{bar:30}] {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
const LOOK_OF_ROWS: &str = "{prefix} [{bar:30}] {percent} %, {eta} left";
const LOOK_WITHOUT_TOTAL: &str = "{prefix} {decimal_bytes}, {decimal_bytes_per_sec}";
/// Per cent between two lines.
const STEP: u64 = 10;

pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines { label: String, total: Option<u64>, next: u64, unit: ProgressUnit },
}

/// The unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressUnit {
    Bytes,
    /// Rows of a database, of which only the share is shown.
    Rows,
}

impl Progress {
    /// Counts rows, `total` of them.
    pub(crate) fn start_rows(label: &str, total: u64) -> Self {
        let mut progress = Self::start(label, 0, Some(total));
        match &mut progress {
            Self::Bar(bar) => {
                let style = ProgressStyle::with_template(LOOK_OF_ROWS);
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            }
            Self::Lines { unit, .. } => *unit = ProgressUnit::Rows,
        }
        progress
    }

    /// `done` of the bytes are there already.
    pub(crate) fn start(label: &str, done: u64, total: Option<u64>) -> Self {
        if std::io::stderr().is_terminal() {
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let look = if total.is_some() { LOOK } else { LOOK_WITHOUT_TOTAL };
            let style = ProgressStyle::with_template(look).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar.set_prefix(label.to_owned());
            bar.set_position(done);
            bar.reset_eta();
            return Self::Bar(bar);
        }
        let next = total.map_or(STEP, |total| (percent(done, total) / STEP + 1) * STEP);
        Self::Lines { label: label.to_owned(), total, next, unit: ProgressUnit::Bytes }
    }

    pub(crate) fn show_done(&mut self, done: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(done),
            Self::Lines { label, total: Some(total), next, unit } => {
                let reached = percent(done, *total) / STEP * STEP;
                if reached >= *next {
                    match unit {
                        ProgressUnit::Bytes => {
                            say(&format!("{label}: {reached} % of {}", DecimalBytes(*total)))
                        }
                        ProgressUnit::Rows => say(&format!("{label}: {reached} %")),
                    }
                    *next = reached + STEP;
                }
            }
            Self::Lines { total: None, .. } => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100).checked_div(total).unwrap_or(100)
}

/// A line for the person who waits. A failure to show it is not reported.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
