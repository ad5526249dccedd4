//! Readers to whom nothing is said but that the server lives.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::crowd::Crowd;
use super::figures::{Figures, count};
use super::host::{LoadHost, LoadPlace};
use super::probe::Probe;
use crate::stage::TortureError;

/// Two heartbeats.
const WINDOW: Duration = Duration::from_secs(30);
const ASKED: Duration = Duration::from_secs(8);
const WARM_UP: Duration = Duration::from_secs(2);
const ARRIVED_WITHIN: Duration = Duration::from_secs(40);
const SETTLED: Duration = Duration::from_secs(2);

const KIB_PER_READER: f64 = 25.0;
const PERCENT_OF_A_CORE: f64 = 5.0;

pub(crate) async fn run(place: &LoadPlace<'_>, figures: &mut Figures) -> Result<(), TortureError> {
    let readers = place.readers;
    let host = LoadHost::start(place, readers, Vec::new()).await?;
    let (probe, process) = (Probe::new(&host), host.process()?);
    let channels = host.channels().await?;
    probe.ask(WARM_UP).await;
    let before = probe.ask(ASKED).await;

    let empty = process.resident_kib()?;
    let crowd = Crowd::gather(host.address, &channels, readers);
    crowd.seen.all_served(readers, ARRIVED_WITHIN).await;
    tokio::time::sleep(SETTLED).await;
    let heard = crowd.seen.heartbeats.load(Ordering::Relaxed);
    let worked = process.processor()?;
    tokio::time::sleep(WINDOW).await;
    let worked = process.processor()?.saturating_sub(worked);
    let heard = crowd.seen.heartbeats.load(Ordering::Relaxed) - heard;
    let full = process.resident_kib()?;
    let mut with = probe.ask(ASKED).await;
    let open = crowd.seen.open.load(Ordering::Relaxed);
    crowd.leave().await;
    tokio::time::sleep(SETTLED).await;
    let after = probe.ask(ASKED).await;

    let mut sheet = figures.sheet_of("idle");
    let each = count(usize::try_from(full.saturating_sub(empty))?) / f64::max(count(readers), 1.0);
    sheet.expect_exactly("readers that stayed", (open, ""), readers);
    sheet.note("heartbeats each", count(heard) / f64::max(count(readers), 1.0), "");
    sheet.expect_at_most("memory for each reader", (each, "KiB"), KIB_PER_READER);
    let share = 100.0 * worked.as_secs_f64() / WINDOW.as_secs_f64();
    sheet.expect_at_most("processor, of one core", (share, "%"), PERCENT_OF_A_CORE);
    with.compare(&mut sheet, &mut [before, after]);
    host.end().await
}
