//! How fast a pulled model is on this machine: measured once it is there, and kept beside its weights.

use std::fs;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use local::kernels::Cpu;
use model::{Error, ModelRequest, PromptMessage};
use protocol::Settings;
use serde::{Deserialize, Serialize};

use super::{chat, embedder};
use crate::CommandResult;
use crate::config::Config;
use crate::model_answer::ask_model;
use crate::weights::{PulledModel, WeightsKind};

const FILE: &str = "speed.json";
/// The text that is read to the chat model; it is never at a loss for an answer.
const STORY: &str = "A traveller came to a village by the sea and asked for a room. ";
const STORY_TIMES: usize = 16;
const ANSWER_TOKENS: u32 = 48;
/// About 32 tokens.
const QUERY: &str = "Where did we go on the rainy afternoon when the ferry was late, and what was the name of the \
                     small dog that followed us all the way back to the house?";
const QUERIES: usize = 5;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Speed {
    /// The machine on which it was measured; on another machine it says nothing.
    machine: String,
    text: String,
}

fn machine() -> String {
    let processors = available_parallelism().map_or(1, usize::from);
    format!("{} processors, {}", processors, Cpu::detect().name())
}

/// None if it was not measured here.
pub(crate) fn speed(model: &PulledModel) -> Option<String> {
    let text = fs::read(model.folder.join(FILE)).ok()?;
    let speed: Speed = serde_json::from_slice(&text).ok()?;
    (speed.machine == machine()).then_some(speed.text)
}

/// Loads the model, which also shows that it can be run, and keeps what was measured.
pub(crate) async fn measure(config: &Config, model: &PulledModel) -> CommandResult<String> {
    let text = match model.kind {
        WeightsKind::Chat => measure_chat(config, model).await?,
        WeightsKind::Embedding => measure_embedder(config, model).await?,
    };
    let speed = Speed { machine: machine(), text };
    fs::write(model.folder.join(FILE), serde_json::to_vec_pretty(&speed)?)?;
    Ok(speed.text)
}

async fn measure_chat(config: &Config, model: &PulledModel) -> Result<String, Error> {
    let chat = chat::chat(&Config { pulled: vec![model.clone()], ..config.clone() })?;
    let request = |story: String, max_tokens| {
        let settings = Settings { max_tokens: Some(max_tokens), ..Settings::default() };
        ModelRequest {
            settings,
            ..ModelRequest::new(model.name.clone(), String::new(), vec![PromptMessage::User(story.into())])
        }
    };
    ask_model(&*chat, &request("Hello!".into(), 1)).await?; // loads it
    let read = ask_model(&*chat, &request(STORY.repeat(STORY_TIMES), 1)).await?;
    let written = ask_model(&*chat, &request("Tell me a long story.".into(), ANSWER_TOKENS)).await?;
    let reading = per_second(read.usage.input_tokens, read.first.unwrap_or(read.took));
    let writing_took = written.first.map_or(Duration::ZERO, |first| written.took.saturating_sub(first));
    let writing = per_second(written.usage.output_tokens.saturating_sub(1), writing_took);
    Ok(format!("reads {reading:.0} tokens/s, writes {writing:.0}"))
}

async fn measure_embedder(config: &Config, model: &PulledModel) -> Result<String, Error> {
    let embedder = embedder::embedder(config, model)?;
    let query = [QUERY.to_owned()];
    embedder.embed(&query).await?; // loads it
    let mut took = Vec::new();
    for _ in 0..QUERIES {
        let begun = Instant::now();
        embedder.embed(&query).await?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    let median = took.get(QUERIES / 2).copied().unwrap_or_default();
    Ok(format!("takes {:.1} ms for a question", median.as_secs_f64() * 1e3))
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
