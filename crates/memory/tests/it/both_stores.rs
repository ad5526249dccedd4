//! Recall finds the same in SQLite and in PostgreSQL: the dialogue and the questions of `LoCoMo`'s fixture.
//!
//! `cargo xtask test postgres` names a PostgreSQL. Without one, the figures of SQLite alone are checked.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use memory::index::{ItemRef, RecallFilter};
use memory::recall::{Recall, RecallQuestion};
use model::Embedder;
use protocol::{Ids as _, MessageId};
use serde_json::Value;
use store::{EarlierRun, Store, StoreOptions, ThreadImport};
use testkit::database::postgres_of;
use testkit::still::{CountingIds, StandingClock};

use crate::{Letters, Silent, scope};

const FIXTURE: &str = include_str!("../../../bench/src/locomo/fixture.json");

/// How many of the first hits are looked at.
const DEPTHS: [usize; 3] = [1, 3, 5];

/// More than there are sessions.
const SESSIONS: usize = 20;

/// A turn of the dialogue, by its own name.
type NamedTurn = (String, MessageId);

fn moment(text: &str) -> Timestamp {
    let time = strtime::parse("%I:%M %p on %d %B, %Y", text).unwrap();
    time.to_datetime().unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp()
}

/// Puts each session into a thread, under the same ids in every store.
async fn load(store: &Store, dialogue: &Value) -> Vec<NamedTurn> {
    let ids = CountingIds::default();
    let mut named = vec![];
    for session in 1..SESSIONS {
        let Some(said) = dialogue[format!("session_{session}")].as_array() else { continue };
        let at = moment(dialogue[format!("session_{session}_date_time")].as_str().unwrap());
        let mut runs = vec![];
        for turn in said {
            let (id, message) = (ids.run(), ids.message());
            let text = turn["text"].as_str().unwrap().to_owned();
            runs.push(EarlierRun { id, message, text, parts: vec![], answer: None, at: Some(at) });
            named.push((turn["dia_id"].as_str().unwrap().to_owned(), message));
        }
        let (id, created_at) = (ids.thread(), Some(at));
        let import =
            ThreadImport { id, title: None, created_at, runs, app_revision: "r".into(), actor: None };
        assert!(store.import_thread(&scope("greta"), import).await.unwrap());
    }
    named
}

/// The items that were found in a store.
#[derive(Debug, PartialEq)]
struct FoundTurns {
    /// The hits of each question with their scores, best first.
    hits: Vec<Vec<(ItemRef, f32)>>,
    /// The average recall at each depth, in thousandths.
    recall: [f64; DEPTHS.len()],
}

/// The share of the evidence that is among the first hits.
fn share(hits: &[(ItemRef, f32)], evidence: &[MessageId], depth: usize) -> f64 {
    let is_found = |id: &&MessageId| hits.iter().take(depth).any(|(hit, _)| *hit == ItemRef::Message(**id));
    let found = u32::try_from(evidence.iter().filter(is_found).count()).unwrap();
    f64::from(found) / f64::from(u32::try_from(evidence.len()).unwrap())
}

/// Asks the questions of the fixture that have evidence.
async fn ask(recall: &Recall, turns: &[NamedTurn], questions: &Value) -> FoundTurns {
    let mut found = FoundTurns { hits: vec![], recall: [0.0; DEPTHS.len()] };
    for question in questions.as_array().unwrap() {
        let names = question["evidence"].to_string();
        let evidence: Vec<MessageId> =
            turns.iter().filter(|(name, _)| names.contains(name)).map(|(_, id)| *id).collect();
        if evidence.is_empty() {
            continue;
        }
        let text = question["question"].as_str().unwrap();
        let asked = RecallQuestion::new(text, moment("9:30 am on 3 June, 2024"), 5, RecallFilter::Messages);
        let hits = recall.search(&scope("greta"), asked).await.unwrap();
        let hits: Vec<(ItemRef, f32)> = hits.into_iter().map(|hit| (hit.item.id, hit.score)).collect();
        for (sum, depth) in found.recall.iter_mut().zip(DEPTHS) {
            *sum += share(&hits, &evidence, depth);
        }
        found.hits.push(hits);
    }
    let count = f64::from(u32::try_from(found.hits.len()).unwrap());
    found.recall = found.recall.map(|sum| (sum / count * 1_000.0).round());
    found
}

/// By words alone, and by words and vectors.
async fn found_in(store: &Store) -> [FoundTurns; 2] {
    let sample = &serde_json::from_str::<Value>(FIXTURE).unwrap()[0];
    let turns = load(store, &sample["conversation"]).await;
    let words = ask(&Recall::new(store.clone(), None), &turns, &sample["qa"]).await;
    let embedder: Arc<dyn Embedder> = Arc::new(Letters("letters"));
    let recall = Recall::new(store.clone(), Some(embedder.clone()));
    assert!(!recall.embed(&scope("greta")).await.unwrap());
    // The vectors come from the database, as after a restart.
    let recall = Recall::new(store.clone(), Some(embedder));
    [words, ask(&recall, &turns, &sample["qa"]).await]
}

#[tokio::test]
async fn locomo_is_recalled_alike_from_both_databases() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, silent) = (Arc::new(StandingClock), Arc::new(Silent));
    let options = StoreOptions::default();
    let file = Store::open_sqlite(folder.path(), clock.clone(), silent.clone(), options).unwrap();
    let of_file = found_in(&file).await;
    let recalls = of_file.each_ref().map(|found| found.recall);
    assert!(recalls[0][2] > 0.0 && recalls[1][2] >= 500.0, "{recalls:?}");
    let Some(address) = postgres_of(folder.path()) else { return };
    let server = Store::open_postgres(&address, clock, silent, StoreOptions::default()).unwrap();
    let of_server = found_in(&server).await;
    assert_eq!(recalls, of_server.each_ref().map(|found| found.recall));
    assert_eq!(of_file, of_server);
    println!("recall at {DEPTHS:?}, in thousandths: {recalls:?}");
}
