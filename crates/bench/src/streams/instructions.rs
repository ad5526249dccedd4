//! The guard against a slow growth of costs: instructions of a run, as a multiple of those of the floor.
//!
//! Times depend on the machine and on what else it does; instructions hardly do. Both servers run under callgrind, which
//! executes one thread at a time, and answer the same turns. The first turns are not counted. The multiple of each script
//! is compared with the one that is kept in a file beside this crate.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::callgrind::{begin_count, instructions};
use super::client::PlainClient;
use super::figures::median;
use super::load::{LoadTarget, ServerKind, run_turn};
use super::script::AnswerScript;
use super::servers::{ServerStart, ServerUnderTest, StreamWorld};
use super::trial::warm_up;
use super::{find_server, local_runtime, wait_for_signal};

/// Beyond the kept multiple, in percent. Two counts of the same program differ by less than two.
const TOLERANCE_PERCENT: f64 = 5.0;
/// The groups of counted turns, of which the one in the middle counts.
const GROUPS: usize = 3;
const TURNS_PER_GROUP: usize = 4;
/// After a group, so that its work in the background counts as its own.
const SETTLE: Duration = Duration::from_millis(500);
/// A pause that is longer than a turn: deltas of a turn are committed with the next fact, however the threads are
/// scheduled.
const LONG_PAUSE_MS: u64 = 1000;
const BURST: AnswerScript =
    AnswerScript { chunks: 200, first_ms: 0, gap_ms: 0, tools: false, in_step: false };

/// Scripts that one process of each server answers.
struct CountedScripts {
    delta_pause_ms: u64,
    scripts: &'static [(&'static str, AnswerScript)],
}

const COUNTED: &[CountedScripts] = &[
    CountedScripts {
        delta_pause_ms: LONG_PAUSE_MS,
        scripts: &[("plain", BURST), ("tools", AnswerScript { tools: true, ..BURST })],
    },
    // Each token is committed and sent by itself, as on an idle machine.
    CountedScripts {
        delta_pause_ms: 0,
        scripts: &[("in step", AnswerScript { chunks: 50, in_step: true, ..BURST })],
    },
];

/// The multiple of one script that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeptMultiple {
    script: String,
    /// Thousands of instructions of a run, which show where a change comes from.
    rondo_thousands: u64,
    floor_thousands: u64,
    multiple: f64,
}

/// Counts, and compares with the kept multiples, or keeps new ones with `--keep`.
pub(crate) fn run(options: &[String]) -> Result<String, Box<dyn Error>> {
    let keeps = match options {
        [] => false,
        [option] if option == "--keep" => true,
        _ => return Err("`bench instructions` takes no option but --keep".into()),
    };
    let rondo = find_server()?;
    let counted = local_runtime()?.block_on(LocalSet::new().run_until(async {
        tokio::select! {
            counted = count_all(rondo) => counted.map_err(Into::into),
            why = wait_for_signal() => Err(why),
        }
    }))?;
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions.json");
    if keeps {
        std::fs::write(&file, serde_json::to_string_pretty(&counted)? + "\n")?;
    }
    let kept = std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let kept: Vec<KeptMultiple> = serde_json::from_slice(&kept)?;
    let (report, is_good) = compare(&counted, &kept);
    if is_good { Ok(report) } else { Err(report.into()) }
}

async fn count_all(rondo: PathBuf) -> Result<Vec<KeptMultiple>, String> {
    let world = StreamWorld::start(rondo, None).await?;
    let mut multiples = Vec::new();
    for CountedScripts { delta_pause_ms, scripts } in COUNTED {
        let start =
            ServerStart { delta_pause_ms: Some(*delta_pause_ms), is_counted: true, ..ServerStart::default() };
        let rondo = count_server(&world, ServerKind::Rondo, start, scripts).await?;
        let floor = count_server(&world, ServerKind::Floor, start, scripts).await?;
        for (((script, _), rondo), floor) in scripts.iter().zip(rondo).zip(floor) {
            let thousands = |count: f64| (count / 1e3).round() as u64;
            multiples.push(KeptMultiple {
                script: (*script).to_owned(),
                rondo_thousands: thousands(rondo),
                floor_thousands: thousands(floor),
                multiple: (rondo / floor * 1e3).round() / 1e3,
            });
        }
    }
    Ok(multiples)
}

/// Instructions of a run for each script.
async fn count_server(
    world: &StreamWorld,
    kind: ServerKind,
    start: ServerStart<'_>,
    scripts: &[(&str, AnswerScript)],
) -> Result<Vec<f64>, String> {
    let server = world.start_server_as(kind, start).await?;
    let mut counts = Vec::new();
    for (name, script) in scripts {
        eprintln!("{name}: {} under callgrind", kind.name());
        world.set_script(*script).await?;
        let target = LoadTarget {
            kind,
            address: server.address,
            tokens: script.chunks,
            in_step_with: script.in_step.then(|| world.upstream_address()),
        };
        warm_up(&server, target).await?;
        begin_count(server.process.id())?;
        let mut groups = Vec::new();
        for _ in 0..=GROUPS {
            groups.push(count_group(&server, target).await?);
        }
        // The first group executes code for the first time since the count began.
        counts.push(median(groups.get_mut(1..).unwrap_or_default()).ok_or("nothing was counted")?);
    }
    Ok(counts)
}

/// Instructions of a run, in the first turns of new threads.
async fn count_group(server: &ServerUnderTest, target: LoadTarget) -> Result<f64, String> {
    let threads = server.new_threads(TURNS_PER_GROUP).await?;
    let mut client = PlainClient::new(server.address);
    sleep(SETTLE).await;
    let before = instructions(server.process.id())?;
    for (turn, thread) in threads.iter().enumerate() {
        let outcome = run_turn(&mut client, target, thread, turn).await;
        outcome.map_err(|why| format!("{} cannot answer: {why}", server.kind.name()))?;
    }
    sleep(SETTLE).await;
    let after = instructions(server.process.id())?;
    Ok((after - before) as f64 / TURNS_PER_GROUP as f64)
}

/// A table, and whether no multiple is too large.
fn compare(counted: &[KeptMultiple], kept: &[KeptMultiple]) -> (String, bool) {
    let mut report = format!(
        "{:<8} {:>12} {:>12} {:>9} {:>9}  thousands of instructions of a run\n",
        "script", "rondo", "floor", "multiple", "kept"
    );
    let mut is_good = true;
    for now in counted {
        let KeptMultiple { script, rondo_thousands, floor_thousands, multiple } = now;
        let known = kept.iter().find(|known| known.script == *script).map(|known| known.multiple);
        let verdict = match known.map(|known| (multiple / known - 1.0) * 100.0) {
            Some(more) if more <= -TOLERANCE_PERCENT => format!("{more:+.1} %: keep it with --keep"),
            Some(more) if more <= TOLERANCE_PERCENT => format!("{more:+.1} %"),
            Some(more) => {
                is_good = false;
                format!("{more:+.1} %: MORE than {TOLERANCE_PERCENT} % is too much")
            }
            None => {
                is_good = false;
                "NOT KEPT: use --keep".to_owned()
            }
        };
        let known = known.map_or_else(|| "-".to_owned(), |known| format!("{known:.3}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            report,
            "{script:<8} {rondo_thousands:>12} {floor_thousands:>12} {multiple:>9.3} {known:>9}  {verdict}"
        );
    }
    if !is_good {
        report.push_str(
            "A run costs more instructions than before. `cargo xtask bench instructions --keep` accepts that; the \
             commit message then says why.\n",
        );
    }
    (report, is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str, multiple: f64) -> KeptMultiple {
        KeptMultiple { script: script.into(), rondo_thousands: 2, floor_thousands: 1, multiple }
    }

    #[test]
    fn five_percent_more_is_too_much() {
        let kept = [of("plain", 10.0), of("tools", 20.0)];
        assert!(compare(&[of("plain", 10.49), of("tools", 12.0)], &kept).1);
        let (report, is_good) = compare(&[of("plain", 10.51), of("tools", 20.0)], &kept);
        assert!(!is_good);
        assert!(report.contains("+5.1 %: MORE than 5 % is too much"), "{report}");
        assert!(report.contains("20.000    20.000  +0.0 %"), "{report}");
    }

    #[test]
    fn a_script_that_is_not_kept_is_no_success() {
        assert!(!compare(&[of("new", 1.0)], &[of("plain", 1.0)]).1);
    }
}
