//! The figures of an evaluation, as tables for people and as a line for programs.

use std::fmt::Write;
use std::time::Duration;

use memory::index::SearchMethod;
use serde_json::{Map, Value, json};

use crate::local::BenchFailure;

use super::{Asked, DEPTHS};

const METHODS: [(SearchMethod, &str); 3] =
    [(SearchMethod::Words, "bm25"), (SearchMethod::Vectors, "vector"), (SearchMethod::Hybrid, "hybrid")];

pub(super) fn tables(conversations: usize, turns: usize, asked: &[Asked]) -> Result<String, BenchFailure> {
    let mut report = format!("{conversations} conversations, {turns} turns, {} questions\n", asked.len());
    let heads = DEPTHS.map(|depth| format!("{depth:>7}")).concat();
    writeln!(report, "\n{:<18}{heads}  questions", "recall at")?;
    let mut categories: Vec<u64> = asked.iter().map(|asked| asked.category).collect();
    categories.sort_unstable();
    categories.dedup();
    let groups = std::iter::once(None).chain(categories.into_iter().map(Some));
    for group in groups {
        let name = group.map_or_else(|| "all".to_owned(), |category| format!("category {category}"));
        let of_group: Vec<&Asked> =
            asked.iter().filter(|asked| group.is_none_or(|group| asked.category == group)).collect();
        for (method, label) in METHODS {
            let Some(recalls) = averages(&of_group, method) else { continue };
            let figures = recalls.map(|recall| format!("{recall:>7.3}")).concat();
            writeln!(report, "{name:<11}{label:<7}{figures}{:>11}", of_group.len())?;
        }
    }
    let mut times: Vec<Duration> = asked.iter().map(|asked| asked.took).collect();
    writeln!(report, "\na recall without embedding: {}", spread(&mut times))?;
    Ok(report)
}

/// The median, what 95 of 100 stay below, and the best, which other work on the machine spoils least.
pub(super) fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| {
        let place = (times.len().saturating_sub(1) as f64 * share).round() as usize;
        times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("p50 {:.3} ms, p95 {:.3} ms, best {:.3} ms", at(0.5), at(0.95), at(0.0))
}

/// `{"bm25": {"5": …}, …}`, without the methods that could not be tried.
pub(super) fn line(asked: &[Asked]) -> Value {
    let all: Vec<&Asked> = asked.iter().collect();
    let mut line = Map::new();
    for (method, label) in METHODS {
        let Some(recalls) = averages(&all, method) else { continue };
        let figures =
            DEPTHS.iter().zip(recalls).map(|(depth, recall)| (depth.to_string(), json!(rounded(recall))));
        line.insert(label.into(), Value::Object(figures.collect()));
    }
    Value::Object(line)
}

fn rounded(recall: f64) -> f64 {
    (recall * 1e4).round() / 1e4
}

fn averages(asked: &[&Asked], method: SearchMethod) -> Option<[f64; DEPTHS.len()]> {
    let of_method =
        |asked: &&Asked| asked.recalls.iter().find(|(one, _)| *one == method).map(|(_, recalls)| *recalls);
    let recalls: Vec<[f64; DEPTHS.len()]> = asked.iter().filter_map(of_method).collect();
    let total = |depth: usize| recalls.iter().filter_map(|recalls| recalls.get(depth)).sum::<f64>();
    (!recalls.is_empty()).then(|| std::array::from_fn(|depth| total(depth) / recalls.len() as f64))
}
