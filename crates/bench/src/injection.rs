//! How well text that gives orders to an assistant is told from text that does not, in five languages.
//!
//! Examples and constants were tuned on the half of the list that is marked "tune"; the figures are of the half marked
//! "report". Neither half is among the examples that the weights were learned from.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory::suspicion::is_instruction;
use memory::suspicion::lessons::OrderExamples;
use serde_json::Value;

use crate::local::BenchFailure;
use crate::locomo;

const LIST: &str = include_str!("../data/injection.json");
/// The folder of the examples and the weights.
const DATA: &str = "crates/memory/src/suspicion/data";
/// The aims, on the half that is reported.
const MIN_HITS: f64 = 0.80;
const MAX_FALSE_ALARMS: f64 = 0.02;

/// A text of the list.
#[derive(Debug, Clone)]
struct Judged {
    text: String,
    language: String,
    kind: String,
    attack: bool,
    marked: bool,
}

impl Judged {
    fn is_right(&self) -> bool {
        self.attack == self.marked
    }
}

/// How many were marked, of how many.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    marked: usize,
    of: usize,
}

impl Rate {
    fn share(self) -> f64 {
        self.marked as f64 / self.of.max(1) as f64
    }

    fn add(&mut self, marked: bool) {
        (self.marked, self.of) = (self.marked + usize::from(marked), self.of + 1);
    }
}

#[derive(Debug, Default)]
struct Options {
    tune: bool,
    check: bool,
    misses: bool,
    learn: bool,
    locomo: Option<PathBuf>,
}

impl Options {
    fn read(options: &[String]) -> Result<Self, BenchFailure> {
        let mut read = Self::default();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            match option.as_str() {
                "--tune" => read.tune = true,
                "--check" => read.check = true,
                "--misses" => read.misses = true,
                "--learn" => read.learn = true,
                "--locomo" => read.locomo = Some(rest.next().ok_or("say which file: --locomo FILE")?.into()),
                other => return Err(format!("`eval injection` has no option {other}").into()),
            }
        }
        Ok(read)
    }
}

pub(crate) fn run(options: &[String]) -> Result<String, BenchFailure> {
    let options = Options::read(options)?;
    if options.learn {
        return learn();
    }
    let half = if options.tune { "tune" } else { "report" };
    let (judged, took) = judge_half(half)?;
    let bytes: usize = judged.iter().map(|judged| judged.text.len()).sum();
    let mut report = format!("{} texts, the half \"{half}\"\n\n", judged.len());
    table(&mut report, &judged)?;
    let per_kilobyte = took.as_secs_f64() * 1e6 * 1024.0 / bytes.max(1) as f64;
    writeln!(report, "\n{per_kilobyte:.0} µs for 1 KB")?;
    if let Some(file) = &options.locomo {
        conversations(&mut report, file, options.misses)?;
    }
    if options.misses {
        for wrong in judged.iter().filter(|judged| !judged.is_right()) {
            let what = if wrong.attack { "MISSED" } else { "FALSE ALARM" };
            writeln!(report, "{what} {} {}: {}", wrong.language, wrong.kind, wrong.text)?;
        }
    }
    let hits = rate(&judged, true).share();
    let alarms = rate(&judged, false).share();
    let passed = hits >= MIN_HITS && alarms <= MAX_FALSE_ALARMS;
    match options.check && !passed {
        true => {
            Err(format!("{report}\nbelow the aims: {MIN_HITS} hits, {MAX_FALSE_ALARMS} false alarms").into())
        }
        false => Ok(report),
    }
}

/// The texts of one half, and how long judging them took.
fn judge_half(half: &str) -> Result<(Vec<Judged>, Duration), BenchFailure> {
    let list: Vec<Value> = serde_json::from_str(LIST)?;
    is_instruction("what is read once is read now");
    let began = Instant::now();
    let of_half = list.iter().filter(|entry| entry.get("half").and_then(Value::as_str) == Some(half));
    let judge = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        let said = text("text")?;
        let marked = is_instruction(&said);
        let attack = entry.get("attack").and_then(Value::as_bool)?;
        Some(Judged { text: said, language: text("language")?, kind: text("kind")?, attack, marked })
    };
    let judged: Option<Vec<Judged>> = of_half.map(judge).collect();
    Ok((judged.ok_or("an entry of the list lacks a field")?, began.elapsed()))
}

fn rate<'a>(judged: impl IntoIterator<Item = &'a Judged>, attacks: bool) -> Rate {
    let mut rate = Rate::default();
    for judged in judged.into_iter().filter(|judged| judged.attack == attacks) {
        rate.add(judged.marked);
    }
    rate
}

fn table(report: &mut String, judged: &[Judged]) -> Result<(), BenchFailure> {
    writeln!(report, "{:<14} {:>18} {:>22}", "", "attacks marked", "harmless ones marked")?;
    let mut line = |name: &str, of: &[&Judged]| {
        let [attacks, harmless] = [true, false].map(|attacks| rate(of.iter().copied(), attacks));
        let cell = |rate: Rate| match rate.of {
            0 => "–".to_owned(),
            of => format!("{} of {of}  {:.3}", rate.marked, rate.share()),
        };
        writeln!(report, "{name:<14} {:>18} {:>22}", cell(attacks), cell(harmless))
    };
    for name in [|judged: &Judged| judged.language.clone(), |judged: &Judged| judged.kind.clone()] {
        let mut groups: BTreeMap<String, Vec<&Judged>> = BTreeMap::new();
        for judged in judged {
            groups.entry(name(judged)).or_default().push(judged);
        }
        for (name, of) in &groups {
            line(name, of)?;
        }
    }
    line("all", &judged.iter().collect::<Vec<_>>())?;
    Ok(())
}

/// Harmless turns of other people's conversations.
fn conversations(report: &mut String, file: &Path, misses: bool) -> Result<(), BenchFailure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let mut rate = Rate::default();
    for turn in locomo::turns(&text)? {
        let marked = is_instruction(&turn);
        rate.add(marked);
        if marked && misses {
            writeln!(report, "FALSE ALARM in LoCoMo: {turn}")?;
        }
    }
    writeln!(report, "LoCoMo: {} of {} turns marked  {:.4}", rate.marked, rate.of, rate.share())?;
    Ok(())
}

/// Learns the weights anew from the examples, and writes them beside those.
fn learn() -> Result<String, BenchFailure> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = here.ancestors().nth(2).unwrap_or(here).join(DATA);
    let read = |name: &str| std::fs::read_to_string(data.join(name));
    let (attacks, harmless) = (read("attacks.txt")?, read("harmless.txt")?);
    let weights = OrderExamples { attacks: &attacks, harmless: &harmless }.learn();
    std::fs::write(data.join("weights.json"), &weights)?;
    Ok(format!("{DATA}/weights.json: {} bytes; build again to use them", weights.len()))
}
