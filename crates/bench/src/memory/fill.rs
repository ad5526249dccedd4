//! Made-up memories: words as common as words are, and vectors that follow from the text.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;

use protocol::{Ids, MemoryId, TimeOrderedIds};
use rusqlite::{Connection, params};

pub(super) const DIMENSIONS: usize = 384;
const VOCABULARY: f64 = 20_000.0;
/// The commonest words of a language are not looked up; the commonest that are stand in a few texts of a hundred.
const COMMONEST: f64 = 50.0;
const WORDS: usize = 12;
const WORDS_OF_QUESTION: usize = 6;
const DATABASE: &str = "rondo.db";

/// A source of random numbers, which are equal for equal seeds.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Common words come often.
    fn word(&mut self) -> String {
        let rank = (COMMONEST * (VOCABULARY / COMMONEST).powf(self.share())) as u64;
        format!("w{rank:x}ord")
    }

    fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn text(number: usize) -> String {
    Chance(number as u64).text(WORDS)
}

pub(super) fn question(number: usize) -> String {
    Chance(u64::MAX - number as u64).text(WORDS_OF_QUESTION)
}

/// A question that has some of the words of one text.
pub(super) fn question_about(text_number: usize, number: usize) -> String {
    let text = text(text_number);
    let some = text.split(' ').skip(number % WORDS_OF_QUESTION).take(WORDS_OF_QUESTION);
    some.collect::<Vec<_>>().join(" ")
}

pub(super) fn vector(text: &str) -> Vec<f32> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let mut chance = Chance(hasher.finish());
    let numbers: Vec<f32> = (0..DIMENSIONS).map(|_| (chance.share() - 0.5) as f32).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.iter().map(|number| number / length).collect()
}

/// Writes memories of a user as rows, many in one transaction. The rows are those that adding one by one would make.
pub(super) fn memories(
    folder: &Path,
    user: &str,
    numbers: Range<usize>,
) -> Result<Vec<MemoryId>, Box<dyn Error>> {
    let mut database = Connection::open(folder.join(DATABASE))?;
    let transaction = database.transaction()?;
    let mut ids = Vec::new();
    {
        let mut memory = transaction.prepare(
            "INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
                VALUES (?1, 'bench', ?2, ?3, 'fact', 'active', 'user', ?4, ?4)",
        )?;
        let mut version = transaction.prepare(
            "INSERT INTO memory_versions (memory, version, text, kind, status, reason, at)
                VALUES (?1, 1, ?2, 'fact', 'active', 'created', ?3)",
        )?;
        let mut item = transaction
            .prepare("INSERT INTO items (app, user, kind, id) VALUES ('bench', ?1, 'memory', ?2)")?;
        for number in numbers {
            let (id, text, at) = (TimeOrderedIds.memory(), text(number), number as i64);
            memory.execute(params![id.bytes(), user, text, at])?;
            version.execute(params![id.bytes(), text, at])?;
            item.execute(params![user, id.bytes()])?;
            ids.push(id);
        }
    }
    transaction.commit()?;
    Ok(ids)
}
