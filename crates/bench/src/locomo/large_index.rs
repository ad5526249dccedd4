//! How long recall takes for a user with a hundred thousand items: made-up ones, since only the time matters.

use std::fmt::Write;
use std::time::Instant;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use memory::index::{Index, IndexItem, Query, RecallFilter, SearchMethod};
use protocol::Role;

use crate::local::BenchFailure;

use super::{id, report};

const ITEMS: usize = 100_000;
const TURNS_OF_THREAD: usize = 40;
const DIMENSIONS: usize = 384;
const VOCABULARY: f64 = 30_000.0;
/// The commonest word is in about seven of a hundred turns.
const COMMONEST: f64 = 50.0;
const WORDS_OF_TURN: usize = 25;
const WORDS_OF_QUESTION: usize = 10;
const QUESTIONS: usize = 200;
/// Items that are added, and removed again, to take the time.
const CHANGES: usize = 1_000;

pub(super) fn run() -> Result<String, BenchFailure> {
    let mut chance = Chance(1);
    let mut index = Index::new();
    for number in 0..ITEMS {
        add(&mut index, number, &mut chance)?;
    }
    let mut report = format!("{ITEMS} items of {DIMENSIONS} numbers, {} MB\n\n", index.bytes() >> 20);
    for (method, name) in
        [(SearchMethod::Words, "words"), (SearchMethod::Vectors, "vectors"), (SearchMethod::Hybrid, "hybrid")]
    {
        let mut times = Vec::new();
        for _ in 0..QUESTIONS {
            let (text, vector) = (chance.text(WORDS_OF_QUESTION), chance.vector());
            let query = Query {
                text: &text,
                vector: Some(&vector),
                now: Timestamp::from_second(ITEMS as i64)?,
                zone: &TimeZone::UTC,
                within: None,
                limit: 20,
                among: RecallFilter::Both,
                method,
            };
            let begin = Instant::now();
            let hits = index.search(&query);
            times.push(begin.elapsed());
            if hits.is_empty() {
                return Err("a search found nothing".into());
            }
        }
        writeln!(report, "search by {name:<8} {}", report::spread(&mut times))?;
    }
    let mut times = Vec::new();
    for number in ITEMS..ITEMS + CHANGES {
        let begin = Instant::now();
        add(&mut index, number, &mut chance)?;
        times.push(begin.elapsed());
    }
    writeln!(report, "add              {}", report::spread(&mut times))?;
    times.clear();
    for number in 0..CHANGES {
        let begin = Instant::now();
        index.remove(id(number)?);
        times.push(begin.elapsed());
    }
    write!(report, "remove           {}", report::spread(&mut times))?;
    Ok(report)
}

fn add(index: &mut Index, number: usize, chance: &mut Chance) -> Result<(), BenchFailure> {
    let item = IndexItem {
        id: id(number)?,
        thread: Some(format!("thr_{:032x}", number / TURNS_OF_THREAD).parse()?),
        place: number as u64,
        at: Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(number as i64))?,
        speaker: None,
        role: Some(if number.is_multiple_of(2) { Role::User } else { Role::Assistant }),
        text: chance.text(WORDS_OF_TURN).into(),
        importance: 0.0,
    };
    let id = item.id;
    index.put(item)?;
    Ok(index.set_vector(id, &chance.vector())?)
}

/// Numbers that look random and are the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Some words come often and many seldom, as in any language without its commonest words.
    fn text(&mut self, words: usize) -> String {
        let mut word = || {
            let share = self.next() as f64 / f64::from(1_u32 << 31);
            format!("w{}", (COMMONEST * (VOCABULARY / COMMONEST).powf(share)) as u64)
        };
        (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSIONS).map(|_| self.next() as f32 / (1_u32 << 30) as f32 - 1.0).collect()
    }
}
