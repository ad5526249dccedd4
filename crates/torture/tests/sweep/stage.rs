//! Plays a scenario again and again, each time to another death.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use testkit::upstream::Upstream;
use testkit::{Fuse, Setup, Stopped, TestApp};
use tokio_util::task::TaskTracker;

use crate::client::{Client, Lost};
use crate::judge::{self, Portrait};
use crate::model::{Model, Says, repeats};
use crate::notes::Notes;

/// Moments of one scenario above which something goes round in circles.
const MAX_MOMENTS: u64 = 200;

/// Plays that must not reach a moment before it counts as one that is not there. A play on a busy machine has fewer.
const TRIES: usize = 5;

/// Second deaths of each scenario that are tried.
const SECOND_DEATHS: usize = 10;

/// Findings that are shown; more say nothing new.
const MAX_SHOWN: usize = 12;

/// How long one play may take, with all its deaths.
const PATIENCE: Duration = Duration::from_secs(20);

/// The scenario that is played, but for what the client does.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) setup: fn() -> Setup,
    pub(crate) model: Says,
    /// The answers of the backup, where the app has one.
    pub(crate) backup: Says,
    /// Whether tools that wait for a gate wait for ever.
    pub(crate) holds: bool,
    /// Moments there must be at least.
    pub(crate) least: usize,
    /// Parts of the portrait that a death may change.
    pub(crate) ignoring: &'static [&'static str],
    /// Whether it deletes a thread, with all that was said in it.
    pub(crate) deletes: bool,
}

impl Scenario {
    pub(crate) fn new(name: &'static str, app: fn() -> Setup, least: usize) -> Self {
        Self {
            name,
            setup: app,
            model: repeats,
            backup: repeats,
            holds: false,
            least,
            ignoring: &[],
            deletes: false,
        }
    }

    pub(crate) fn says(self, model: Says) -> Self {
        Self { model, ..self }
    }
}

/// The outcome of one play.
struct Played {
    /// Whether it died where it was to.
    died: bool,
    /// The place at which it died.
    place: &'static str,
    /// Moments of its last life.
    moments: u64,
    portrait: Portrait,
    findings: Vec<String>,
}

struct Sweep<'a, F> {
    scenario: &'a Scenario,
    template: Stopped,
    play: F,
}

/// Sweeps a scenario on an empty database.
pub(crate) async fn sweep(scenario: Scenario, play: impl AsyncFn(&Client<'_>) -> Result<(), Lost>) {
    sweep_after(scenario, async |_: &TestApp| {}, play).await;
}

/// Sweeps a scenario on what `prepare` leaves.
pub(crate) async fn sweep_after(
    scenario: Scenario,
    prepare: impl AsyncFn(&TestApp),
    play: impl AsyncFn(&Client<'_>) -> Result<(), Lost>,
) {
    let template = template(&scenario, prepare).await;
    let sweep = Sweep { scenario: &scenario, template, play };
    let whole = sweep.play(&[]).await;
    assert_eq!(whole.findings, [""; 0], "{}: without any death", scenario.name);
    let (mut troubles, mut recoveries) = (Vec::new(), Vec::new());
    let mut missed = 0;
    while missed < TRIES && (recoveries.len() as u64) < MAX_MOMENTS {
        let moment = recoveries.len() as u64;
        let played = sweep.play(&[moment]).await;
        if !played.died {
            missed += 1;
            continue;
        }
        missed = 0;
        recoveries.push(played.moments);
        troubles.extend(sweep.judge(&whole, &played, &[moment]));
    }
    let mut again = 0;
    for (first, second) in second_deaths(scenario.name, &recoveries) {
        let played = sweep.play(&[first, second]).await;
        again += usize::from(played.died);
        troubles.extend(sweep.judge(&whole, &played, &[first, second]));
    }
    // Commits that are wanted at the same time are one, so some boundaries come and go.
    let (name, least) = (scenario.name, scenario.least * 3 / 4);
    assert!((recoveries.len() as u64) < MAX_MOMENTS, "{name} goes round in circles");
    note(name, recoveries.len(), again);
    let (all, shown) = (troubles.len(), troubles.into_iter().take(MAX_SHOWN).collect::<Vec<_>>());
    assert!(shown.is_empty(), "{name}: {all} findings, of which the first: {shown:#?}");
    assert!(recoveries.len() >= least, "{name}: {} boundaries, and {least} expected", recoveries.len());
}

/// A data folder to begin from, with all that `prepare` does in it.
async fn template(scenario: &Scenario, prepare: impl AsyncFn(&TestApp)) -> Stopped {
    let app = TestApp::with((scenario.setup)()).await;
    let says = scenario.model;
    app.upstream.program(move |request| says(request, 0));
    app.gate.open();
    prepare(&app).await;
    app.service.idle().await;
    app.stop().await
}

/// Some pairs of a moment and a moment of the recovery from it, the same each time.
fn second_deaths(name: &str, recoveries: &[u64]) -> Vec<(u64, u64)> {
    let seed = name.bytes().fold(0u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = || {
        let first = random.usize(..recoveries.len().max(1));
        let moments = recoveries.get(first).copied().filter(|moments| *moments > 0)?;
        Some((first as u64, random.u64(..moments)))
    };
    (0..SECOND_DEATHS).filter_map(|_| pair()).collect()
}

/// Says how many boundaries were swept, of this scenario and of all that have been so far.
fn note(name: &str, once: usize, twice: usize) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sweep");
    std::fs::create_dir_all(&folder).expect("a folder for the counts");
    std::fs::write(folder.join(name), format!("{once} {twice}")).expect("the count is written");
    let counts = std::fs::read_dir(folder).expect("the counts are readable");
    let (mut scenarios, mut all) = (0, 0);
    for entry in counts.flatten() {
        let count = std::fs::read_to_string(entry.path()).unwrap_or_default();
        all += count.split(' ').filter_map(|number| number.parse::<usize>().ok()).sum::<usize>();
        scenarios += 1;
    }
    println!(
        "{name}: {once} boundaries, {twice} second deaths; boundaries swept: {all} in {scenarios} scenarios"
    );
}

impl<F: AsyncFn(&Client<'_>) -> Result<(), Lost>> Sweep<'_, F> {
    /// Plays to the end, dying at each of these moments, the second counted from the first death.
    async fn play(&self, deaths: &[u64]) -> Played {
        let playing = Box::pin(self.live(deaths));
        tokio::time::timeout(PATIENCE, playing)
            .await
            .unwrap_or_else(|_| panic!("{} hangs after {deaths:?}", self.scenario.name))
    }

    async fn live(&self, deaths: &[u64]) -> Played {
        let (notes, readers) = (Arc::new(Notes::default()), TaskTracker::new());
        let models = (Arc::new(Model::new(self.scenario.model)), Arc::new(Model::new(self.scenario.backup)));
        let mut stopped = self.template.copy((self.scenario.setup)()).await;
        stopped.upstream = Upstream::start_observed(models.0.clone()).await;
        stopped.backup = Upstream::start_observed(models.1.clone()).await;
        let (mut died, mut place) = (0, "");
        loop {
            let fuse = deaths.get(died).map_or_else(Fuse::never_blowing, |moment| Fuse::blowing_at(*moment));
            models.0.set_fuse(&fuse);
            models.1.set_fuse(&fuse);
            stopped.setup.fuse = Some(fuse.clone());
            if died > 0 {
                fuse.arm();
            }
            let lived = match stopped.start().await {
                Ok(app) => {
                    let whole = self.once(&app, &fuse, (&notes, &readers), died == 0).await;
                    (app, whole)
                }
                Err(back) => {
                    (died, place, stopped) = (died + 1, fuse.place().unwrap_or_default(), *back);
                    continue;
                }
            };
            let (app, whole) = lived;
            if whole {
                fuse.disarm();
                let database = app.database();
                let mut findings = judge::judge(&app, &database, &notes, self.scenario.deletes).await;
                findings.extend(models.0.complaints());
                findings.extend(models.1.complaints());
                let portrait = judge::portrait(&database);
                let died = died == deaths.len() && died > 0;
                drop(database);
                app.stop().await;
                return Played { died, place, moments: fuse.count_passed(), portrait, findings };
            }
            (died, place) = (died + 1, fuse.place().unwrap_or_default());
            stopped = app.stop().await;
            readers.close();
            readers.wait().await;
            readers.reopen();
        }
    }

    /// One life of the server. False if it died.
    async fn once(
        &self,
        app: &TestApp,
        fuse: &Fuse,
        (notes, readers): (&Arc<Notes>, &TaskTracker),
        first: bool,
    ) -> bool {
        if !self.scenario.holds {
            app.gate.open();
        }
        if first {
            app.service.idle().await; // what every start does is swept with the second deaths
            fuse.arm();
        }
        let client = Client::new(app, fuse, notes, readers);
        let played = async {
            let played = (self.play)(&client).await;
            app.service.idle().await;
            played
        };
        tokio::select! {
            biased;
            () = fuse.wait_until_blown() => false,
            played = played => played.is_ok() && !fuse.is_blown(),
        }
    }

    /// Returns the faults after these deaths.
    fn judge(&self, whole: &Played, played: &Played, deaths: &[u64]) -> Vec<String> {
        let mut findings = played.findings.clone();
        findings.extend(judge::differences(&whole.portrait, &played.portrait, self.scenario.ignoring));
        let say = |finding: String| format!("died at {deaths:?} ({}): {finding}", played.place);
        findings.into_iter().map(say).collect()
    }
}
