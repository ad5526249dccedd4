//! Readings over time: how far they reach, where they are going, and how they lie against a target.

use minijinja::{Value, context};

/// Fewer readings than this say nothing about a trend.
const MIN_TREND_VALUES: usize = 3;
/// The newest readings that a trend is told from.
const MAX_TREND_VALUES: usize = 60;
/// The share of all pairs of readings by which one direction must exceed the other: three pairs of four.
const MIN_AGREEMENT: f64 = 0.5;
/// A change of less than this share of the middle reading is none.
const STABLE_SHARE: f64 = 0.03;
/// Readings without a direction that lie further apart than this share of their middle are not stable either.
const VARYING_SHARE: f64 = 0.25;

/// From the least to the greatest number, such as "145-148".
pub(super) fn range(numbers: &[f64]) -> String {
    let Some((low, high)) = lowest_and_highest(numbers) else { return String::new() };
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

/// Returns the direction of numbers that come oldest first. They rise when three of four pairs do, earlier against
/// later, and when the usual step from one to the next, taken over all of them, comes to more than [`STABLE_SHARE`] and
/// to more than the numbers scatter around that line. Numbers that go nowhere are stable, or varying where they lie far
/// apart.
pub(super) fn trend(numbers: &[f64]) -> &'static str {
    let numbers = numbers.get(numbers.len().saturating_sub(MAX_TREND_VALUES)..).unwrap_or_default();
    let Some((low, high)) = lowest_and_highest(numbers).filter(|_| numbers.len() >= MIN_TREND_VALUES) else {
        return "";
    };
    let middle = median(numbers.to_vec());
    let slopes: Vec<f64> = pairs(numbers).map(|(steps, change)| change / steps).collect();
    let one_way = slopes.iter().map(|slope| direction(*slope)).sum::<f64>() / slopes.len() as f64;
    let slope = median(slopes);
    let change = slope * (numbers.len() - 1) as f64;
    let is_real = change.abs() > middle.abs() * STABLE_SHARE && change.abs() > scatter(numbers, slope);
    if one_way > MIN_AGREEMENT && is_real {
        "rising"
    } else if one_way < -MIN_AGREEMENT && is_real {
        "falling"
    } else if high - low > middle.abs() * VARYING_SHARE {
        "varying"
    } else {
        "stable"
    }
}

/// How numbers lie against a target, of which one end may be open: how many are inside, below and above it, and how many
/// there are. Nothing without numbers or without a target.
pub(super) fn compare_with_target(numbers: &[f64], low: Option<f64>, high: Option<f64>) -> Value {
    if numbers.is_empty() || (low.is_none() && high.is_none()) {
        return Value::UNDEFINED;
    }
    let below = numbers.iter().filter(|number| low.is_some_and(|low| **number < low)).count();
    let above = numbers.iter().filter(|number| high.is_some_and(|high| **number > high)).count();
    let target = match (low, high) {
        (Some(low), Some(high)) => format!("{low}-{high}"),
        (Some(low), None) => format!("at least {low}"),
        (None, Some(high)) => format!("at most {high}"),
        (None, None) => String::new(),
    };
    let inside = numbers.len().saturating_sub(below + above);
    context! { inside, below, above, of => numbers.len(), target }
}

fn lowest_and_highest(numbers: &[f64]) -> Option<(f64, f64)> {
    let low = numbers.iter().copied().reduce(f64::min)?;
    Some((low, numbers.iter().copied().fold(low, f64::max)))
}

/// Every two numbers, the earlier one first: how many places lie between them, and how much the later one is higher.
fn pairs(numbers: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let placed = || numbers.iter().copied().enumerate();
    placed().flat_map(move |(at, number)| {
        placed().skip(at + 1).map(move |(later, other)| ((later - at) as f64, other - number))
    })
}

fn direction(slope: f64) -> f64 {
    if slope == 0.0 { 0.0 } else { slope.signum() }
}

/// How far the numbers usually lie from a line of this slope.
fn scatter(numbers: &[f64], slope: f64) -> f64 {
    let rest: Vec<f64> = numbers.iter().enumerate().map(|(at, number)| number - slope * at as f64).collect();
    let level = median(rest.clone());
    median(rest.into_iter().map(|rest| (rest - level).abs()).collect())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let at = |place: usize| numbers.get(place).copied().unwrap_or_default();
    if numbers.len().is_multiple_of(2) { at(half.saturating_sub(1)).midpoint(at(half)) } else { at(half) }
}
