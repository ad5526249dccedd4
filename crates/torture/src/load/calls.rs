//! Runs that all wait for the model at once, each with a call of its own.

use std::time::Duration;

use super::crowd;
use super::figures::{Figures, count};
use super::host::{LoadHost, LoadPlace};
use super::probe::Probe;
use crate::stage::TortureError;

/// About as many as the server asks at once by default.
const CALLS: usize = 4_000;
/// Calls before memory is looked at, so that what is there once for all is not counted.
const FIRST: usize = 100;
const ASKED: Duration = Duration::from_secs(8);
const WARM_UP: Duration = Duration::from_secs(2);
const ASKED_WITHIN: Duration = Duration::from_secs(120);
const SETTLED: Duration = Duration::from_secs(2);

/// At this size, the usual number of calls takes half a gibibyte.
const KIB_PER_CALL: f64 = 128.0;

pub(crate) async fn run(place: &LoadPlace<'_>, figures: &mut Figures) -> Result<(), TortureError> {
    let calls = CALLS.min(place.readers.saturating_sub(FIRST));
    let host = LoadHost::start(place, CALLS + FIRST, Vec::new()).await?;
    let (probe, process) = (Probe::new(&host), host.process()?);
    probe.ask(WARM_UP).await;
    let before = probe.ask(ASKED).await;

    let asked = host.count_model_calls();
    host.hold_runs(FIRST).await?;
    crowd::wait_until(ASKED_WITHIN, || host.count_model_calls() >= asked + FIRST).await;
    tokio::time::sleep(SETTLED).await;
    let (few, asked) = (process.resident_kib()?, host.count_model_calls());
    host.hold_runs(calls).await?;
    crowd::wait_until(ASKED_WITHIN, || host.count_model_calls() >= asked + calls).await;
    tokio::time::sleep(SETTLED).await;
    let (full, under_way) = (process.resident_kib()?, host.count_model_calls() - asked);
    let mut with = probe.ask(ASKED).await;

    let mut sheet = figures.sheet_of("calls");
    sheet.expect_exactly("model calls at once", (under_way, ""), calls);
    let each = count(usize::try_from(full.saturating_sub(few))?) / f64::max(count(calls), 1.0);
    sheet.expect_at_most("memory for each model call", (each, "KiB"), KIB_PER_CALL);
    with.compare(&mut sheet, &mut [before]);
    host.end().await
}
