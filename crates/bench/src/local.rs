//! Models in this process, beside the programs that others use for the same: llama.cpp and onnxruntime, each asked in turn
//! on the same machine in the same minute, because only the ratio means anything on a machine with other work.
//!
//! A program that cannot be had to compare with is named, and its column stays empty.

mod chat;
mod embed;
mod peer;
mod side_effects;

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(crate) type BenchFailure = Box<dyn Error>;

/// Each is measured so often, in turn, and the best counts, since other programs run too.
const ROUNDS: usize = 3;

/// A line of the table: what was measured here and there, and how good it has to be.
pub(crate) struct BenchLine {
    name: &'static str,
    here: f64,
    there: Option<f64>,
    better: Better,
    wanted: Option<Wanted>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// At most this many times worse than the other.
    Times(f64),
    Bound(f64),
}

pub(crate) async fn run() -> Result<String, BenchFailure> {
    let threads = std::thread::available_parallelism()?.get();
    let mut report = format!("{threads} threads, {}\n", local::kernels::Cpu::detect().name());
    table(&mut report, "SmolLM2-135M-Instruct, Q4_1", "llama.cpp", &chat::measure(threads).await?)?;
    table(&mut report, "all-MiniLM-L6-v2", "onnxruntime", &embed::measure(threads).await?)?;
    report.push_str(&side_effects::measure().await?);
    Ok(report)
}

fn table(report: &mut String, model: &str, other: &str, lines: &[BenchLine]) -> Result<(), BenchFailure> {
    writeln!(report, "\n{model:<34} {:>9} {other:>12} {:>7}  wanted", "here", "faster")?;
    for line in lines {
        let there = line.there.map_or_else(|| "none".to_owned(), |there| format!("{there:.1}"));
        let ratio = line.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2} ×"));
        writeln!(report, "{:<34} {:>9.1} {there:>12} {ratio:>7}  {}", line.name, line.here, line.verdict())?;
    }
    Ok(())
}

impl BenchLine {
    fn higher_is_better(name: &'static str, here: f64, there: Option<f64>) -> Self {
        Self { name, here, there, better: Better::More, wanted: None }
    }

    fn lower_is_better(name: &'static str, here: f64, there: Option<f64>) -> Self {
        Self { name, here, there, better: Better::Less, wanted: None }
    }

    fn with_aim(self, wanted: Wanted) -> Self {
        Self { wanted: Some(wanted), ..self }
    }

    /// How many times better it is here than there.
    fn ratio(&self) -> Option<f64> {
        let there = self.there.filter(|there| *there > 0.0)?;
        Some(match self.better {
            Better::More => self.here / there,
            Better::Less => there / self.here,
        })
    }

    fn verdict(&self) -> String {
        let (met, wanted) = match self.wanted {
            None => return String::new(),
            Some(Wanted::Times(times)) => {
                (self.ratio().is_some_and(|ratio| ratio * times >= 1.0), format!("within {times} ×"))
            }
            Some(Wanted::Bound(bound)) => match self.better {
                Better::More => (self.here >= bound, format!("at least {bound}")),
                Better::Less => (self.here <= bound, format!("at most {bound}")),
            },
        };
        format!("{wanted}: {}", if met { "met" } else { "MISSED" })
    }
}

/// Under the repository's `target`.
fn fetched_path(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")).join(path)
}

fn best(values: impl IntoIterator<Item = f64>, better: Better) -> Option<f64> {
    values.into_iter().reduce(|one, other| match better {
        Better::More => one.max(other),
        Better::Less => one.min(other),
    })
}

/// The value below which this share of them lies.
fn share(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}
