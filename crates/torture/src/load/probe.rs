//! A client with a small question now and then, which should not notice other load.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;

use super::figures::FigureSheet;
use super::host::LoadHost;

/// People who ask at the same time.
const ASKING: usize = 2;
/// How long each waits before the next question.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Probe {
    client: Client,
    runs: String,
    threads: String,
    key: String,
}

/// How long answers took.
#[derive(Debug, Default)]
pub(crate) struct Times {
    runs: Vec<Duration>,
    reads: Vec<Duration>,
    pub(crate) failures: usize,
}

impl Probe {
    pub(crate) fn new(host: &LoadHost) -> Self {
        Self {
            client: host.client.clone(),
            runs: host.url("/v1/apps/load/runs"),
            threads: host.url("/v1/apps/load/threads"),
            key: host.keys.first().cloned().unwrap_or_default(),
        }
    }

    /// Asks for the given time.
    pub(crate) async fn ask(&self, how_long: Duration) -> Times {
        let until = Instant::now() + how_long;
        let all = futures_util::future::join_all((0..ASKING).map(|_| self.ask_one_by_one(until))).await;
        all.into_iter().fold(Times::default(), |mut sum, times| {
            sum.runs.extend(times.runs);
            sum.reads.extend(times.reads);
            sum.failures += times.failures;
            sum
        })
    }

    async fn ask_one_by_one(&self, until: Instant) -> Times {
        let mut times = Times::default();
        while Instant::now() < until {
            let message = json!({ "message": "Hello", "stream": false });
            let run = self.client.post(&self.runs).json(&message);
            match self.time(run).await {
                Some(took) => times.runs.push(took),
                None => times.failures += 1,
            }
            match self.time(self.client.get(&self.threads)).await {
                Some(took) => times.reads.push(took),
                None => times.failures += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
        times
    }

    /// None if the answer was not a good one.
    async fn time(&self, request: reqwest::RequestBuilder) -> Option<Duration> {
        let start = Instant::now();
        let answer = request.bearer_auth(&self.key).send().await.ok()?.error_for_status().ok()?;
        answer.bytes().await.ok()?;
        Some(start.elapsed())
    }
}

impl Times {
    /// Writes down how these compare with those without the load, before it and after it.
    pub(crate) fn compare(&mut self, sheet: &mut FigureSheet<'_>, without: &mut [Times]) {
        let mean = |times: &mut [Times], of: fn(&mut Times) -> f64| {
            let (sum, number) =
                times.iter_mut().fold((0.0, 0.0), |(sum, number), one| (sum + of(one), number + 1.0));
            sum / f64::max(number, 1.0)
        };
        sheet.note("median of a run", self.run(50), "ms");
        sheet.expect_unchanged("p99 of a run", self.run(99), mean(without, |times| times.run(99)));
        sheet.expect_unchanged(
            "p99 of a list of threads",
            self.read(99),
            mean(without, |times| times.read(99)),
        );
        sheet.expect_exactly("questions that failed", (self.failures, ""), 0);
    }

    /// Milliseconds within which `of_hundred` of a hundred runs were done.
    pub(crate) fn run(&mut self, of_hundred: usize) -> f64 {
        percentile(&mut self.runs, of_hundred)
    }

    pub(crate) fn read(&mut self, of_hundred: usize) -> f64 {
        percentile(&mut self.reads, of_hundred)
    }
}

/// Milliseconds within which `of_hundred` of a hundred times lie; zero of none.
pub(crate) fn percentile(times: &mut [Duration], of_hundred: usize) -> f64 {
    times.sort_unstable();
    let place = (times.len() * of_hundred).div_ceil(100).saturating_sub(1);
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let mut times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut times, 50), 100.0);
        assert_eq!(percentile(&mut times, 99), 198.0);
        assert_eq!(percentile(&mut times, 100), 200.0);
        assert_eq!(percentile(&mut [], 99), 0.0);
    }
}
