//! The effects on others while models compute: how late a timer of the runtime is, and how long a question waits
//! behind a long list.

use std::fmt::Write;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use local::chat::{LocalChat, LocalChatOptions};
use local::embed::LocalEmbedder;
use model::{ChatModel, Embedder, ModelRequest, PromptMessage};

use super::{BenchFailure, chat, embed, fetched_path, share};

const TICK: Duration = Duration::from_millis(2);
const TICKS: usize = 1000;
/// Texts of the list that is under way meanwhile.
const LIST: usize = 20_000;
const QUESTIONS: usize = 40;

pub(super) async fn measure() -> Result<String, BenchFailure> {
    let chat = LocalChat::load(&fetched_path(chat::MODEL), &LocalChatOptions::default())?;
    let embedder = LocalEmbedder::load(&fetched_path(embed::MODEL), "all-MiniLM-L6-v2".into(), None)?;
    let mut report =
        format!("\n{:<34} {:>9} {:>12} {:>7}\n", "others meanwhile, ms", "median", "99 of 100", "worst");
    line(&mut report, "timer late, idle", lateness().await)?;
    let times = tokio::select! {
        ended = write_on(&chat) => return Err(ended.err().unwrap_or_else(|| "it stopped".into())),
        times = lateness() => times,
    };
    line(&mut report, "timer late, a model writes", times)?;
    let texts = vec![embed::TEXT.to_owned(); LIST];
    let times = tokio::select! {
        _ = embedder.embed(&texts) => return Err("the list is too short".into()),
        times = lateness() => times,
    };
    line(&mut report, "timer late, a list is embedded", times)?;
    let times = tokio::select! {
        _ = embedder.embed(&texts) => return Err("the list is too short".into()),
        times = questions(&embedder) => times?,
    };
    line(&mut report, "question behind a list", times)?;
    Ok(report)
}

fn line(report: &mut String, name: &str, mut times: Vec<f64>) -> Result<(), BenchFailure> {
    let [median, most, worst] = [0.5, 0.99, 1.0].map(|part| share(&mut times, part));
    writeln!(report, "{name:<34} {median:>9.2} {most:>12.2} {worst:>7.2}")?;
    Ok(())
}

/// One answer after the other, until it is stopped.
async fn write_on(chat: &LocalChat) -> Result<(), BenchFailure> {
    loop {
        let request = ModelRequest::new(
            "local",
            "",
            vec![PromptMessage::User("Write a long story about the sea.".into())],
        );
        let mut pieces = chat.stream(&request).await?;
        while let Some(piece) = pieces.next().await {
            piece?;
        }
    }
}

async fn lateness() -> Vec<f64> {
    let mut times = Vec::with_capacity(TICKS);
    for _ in 0..TICKS {
        let begin = Instant::now();
        tokio::time::sleep(TICK).await;
        times.push(begin.elapsed().saturating_sub(TICK).as_secs_f64() * 1000.0);
    }
    times
}

async fn questions(embedder: &LocalEmbedder) -> Result<Vec<f64>, BenchFailure> {
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let begin = Instant::now();
        embedder.embed(&[embed::TEXT.to_owned()]).await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}
