//! The thread's work, a step at a time.

use model::AnswerPiece;
use protocol::Settings;

use super::*;
use crate::chat::stops::Stops;
use crate::gguf::Gguf;
use crate::llama::load;
use crate::sample::Sampler;
use crate::tests::tiny;

type Pieces = mpsc::Receiver<Result<AnswerPiece, model::Error>>;

fn worker(sequences: usize) -> Worker {
    let file = tiny::on_disk(&tiny::model());
    let mut gguf = Gguf::open(file.path()).unwrap();
    let tokenizer = Arc::new(Tokenizer::load(&gguf).unwrap());
    let model = load(&mut gguf, 512).unwrap();
    Worker::new(model, Runner::new(1).unwrap(), tokenizer, sequences, Arc::default())
}

fn job(prompt: &[u32], limit: usize) -> (ChatJob, Pieces) {
    let (out, pieces) = mpsc::channel(600);
    let settings = Settings { temperature: Some(0.0), ..Settings::default() };
    let sampler = Sampler::new(&settings, Some(1), false);
    let stops = Stops::default();
    (
        ChatJob {
            prompt: prompt.to_vec(),
            limit,
            repeats: usize::MAX,
            sampler,
            stops,
            first_bias: Vec::new(),
            grammar: None,
            calls: None,
            out,
        },
        pieces,
    )
}

/// Answers a prompt, and gives how many of its tokens were read.
fn answer(worker: &mut Worker, prompt: &[u32], limit: usize) -> (usize, Vec<u32>) {
    let (job, _pieces) = job(prompt, limit);
    worker.begin(job);
    let unread = worker.active[0].part(usize::MAX).tokens.len();
    while !worker.active.is_empty() {
        worker.step();
    }
    (unread, worker.idle.last().unwrap().tokens().to_vec())
}

#[test]
fn an_answer_whose_reader_is_gone_costs_no_further_token() {
    let mut worker = worker(1);
    let (job, mut pieces) = job(&[104, 105], 400);
    worker.begin(job);
    for _ in 0..5 {
        worker.step();
    }
    assert_eq!(
        worker.active[0].part(1).cache.tokens().len(),
        2 + 4,
        "the fifth has been chosen, and not read yet"
    );
    pieces.close();
    worker.step();
    assert!(worker.active.is_empty());
    assert_eq!(worker.idle[0].tokens().len(), 2 + 4);
}

#[test]
fn steps_of_one_run_read_only_what_is_new() {
    let mut worker = worker(2);
    let first: Vec<u32> = (0..60).collect();
    let (unread, known) = answer(&mut worker, &first, 8);
    assert_eq!((unread, known.len()), (60, 60 + 7));
    let other: Vec<u32> = (100..160).collect();
    assert_eq!(answer(&mut worker, &other, 8).0, 60);
    let mut second = known;
    second.extend([9, 9, 9]);
    let (unread, known) = answer(&mut worker, &second, 8);
    assert_eq!((unread, known.len()), (3, 60 + 7 + 3 + 7), "though another run was asked in between");
    let (_, fresh) = answer(&mut self::worker(1), &second, 8);
    assert_eq!(known, fresh, "and the answer is that of a whole reading");
    assert_eq!(answer(&mut worker, &second[..30], 1).0, 1, "a shorter prompt needs its last token only");
}

#[test]
fn caches_never_hold_more_than_the_sequences_can() {
    let mut worker = worker(2);
    let bound = 2 * worker.model.shape.cache_bytes(512);
    for begin in 0..6_u32 {
        let prompt: Vec<u32> = (0..400).map(|index| (begin * 31 + index) % 256).collect();
        answer(&mut worker, &prompt, 112);
        assert!(worker.idle.len() <= 2);
        assert!(worker.cache_bytes.load(Ordering::Relaxed) <= bound);
    }
    assert_eq!(worker.cache_bytes.load(Ordering::Relaxed), bound, "both are full");
}

#[test]
fn a_cache_that_grows_makes_others_go() {
    let mut worker = worker(2);
    let bound = 2 * worker.model.shape.cache_bytes(512);
    let prompt =
        |begin: u32, length: u32| (0..length).map(|index| (begin * 61 + index) % 256).collect::<Vec<_>>();
    for begin in 0..4 {
        answer(&mut worker, &prompt(begin, 100), 20);
    }
    assert_eq!((worker.idle.len(), worker.cache_bytes.load(Ordering::Relaxed)), (4, bound));
    let (unread, known) = answer(&mut worker, &prompt(3, 400), 112);
    assert_eq!((unread, known.len()), (300, 511), "it goes on from the cache of the same beginning");
    assert!(worker.cache_bytes.load(Ordering::Relaxed) <= bound);
    assert_eq!(worker.idle.len(), 3, "the oldest caches are gone");
}

#[test]
fn one_that_reads_a_long_prompt_does_not_stop_one_that_writes() {
    let mut worker = worker(2);
    let (writing, mut pieces) = job(&[104, 105], 400);
    worker.begin(writing);
    worker.step();
    let (reading, _others) = job(&[7; 400], 4);
    worker.begin(reading);
    let before = pieces.len();
    for _ in 0..10 {
        worker.step();
    }
    assert!(worker.active[1].is_reading(), "it takes more steps than that to read");
    assert!(pieces.len() > before, "while the other goes on");
    assert_eq!(worker.active[0].part(1).cache.tokens().len(), 2 + 10);
    assert!(pieces.try_recv().is_ok());
}
