//! A name for a thread: by the model if the app says how, else by its first words.

use futures_util::StreamExt;
use model::{Message, Piece, Request};
use protocol::{Event, Settings, ThreadNamed};
use store::{JobRow, Window};

use crate::Engine;
use crate::context::capped;
use crate::transcript;

/// Characters of a title.
const MAX_TITLE_CHARS: usize = 80;

/// Bytes of each message that the model is shown.
const MAX_SHOWN_BYTES: usize = 2_000;

/// Tokens a title may take.
const MAX_TITLE_TOKENS: u32 = 64;

/// The event that names the thread; none if there is nothing to name it by. Whether the thread still wants a name is
/// looked at when the event is committed.
pub(super) async fn name(engine: &Engine, job: &JobRow) -> Result<Option<Event>, String> {
    let Some(thread) = job.thread else { return Ok(None) };
    let Some(first) = first_words(engine, job).await? else { return Ok(None) };
    let title = match engine.title_prompt(&job.scope.app) {
        Some(prompt) => ask(engine, job, prompt, &first).await?,
        None => first.clone(),
    };
    let title = tidy(&title).or_else(|| tidy(&first));
    tracing::debug!(%thread, "a thread was named");
    Ok(title.map(|title| Event::ThreadNamed(ThreadNamed { title })))
}

/// What the user said first in the thread.
async fn first_words(engine: &Engine, job: &JobRow) -> Result<Option<String>, String> {
    let Some(thread) = job.thread else { return Ok(None) };
    let leaf = engine.store().first_message(thread).await.map_err(|error| error.to_string())?;
    let Some(leaf) = leaf else { return Ok(None) };
    let path =
        engine.store().path(thread, leaf, Window::Newest(1)).await.map_err(|error| error.to_string())?;
    Ok(path.first().map(|row| transcript::read(row).text))
}

async fn ask(engine: &Engine, job: &JobRow, prompt: &str, first: &str) -> Result<String, String> {
    let Some(choice) = engine.model_for(&job.scope.app) else { return Ok(String::new()) };
    let request = Request {
        model: choice.name.clone(),
        system: prompt.to_owned(),
        messages: vec![Message::User(capped(first, MAX_SHOWN_BYTES))],
        tools: [].into(),
        settings: Settings { max_tokens: Some(MAX_TITLE_TOKENS), ..Settings::default() },
    };
    let mut stream = choice.chat.stream(&request).await.map_err(|error| error.to_string())?;
    let mut title = String::new();
    while let Some(piece) = stream.next().await {
        if let Piece::Text(text) = piece.map_err(|error| error.to_string())? {
            title.push_str(&text);
        }
    }
    Ok(title)
}

/// The first line without quotes and marks around it, at most so long, cut between words.
fn tidy(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line: String =
        line.trim_matches(['"', '\'', '*', '#', '`', ' ']).chars().filter(|c| !c.is_control()).collect();
    if line.chars().count() <= MAX_TITLE_CHARS {
        return Some(line).filter(|line| !line.is_empty());
    }
    let cut: String = line.chars().take(MAX_TITLE_CHARS).collect();
    let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    Some(format!("{words}…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_tidy_line() {
        assert_eq!(tidy("\n \"A plan for Oslo\" \nmore").as_deref(), Some("A plan for Oslo"));
        assert_eq!(tidy("## **Tides**").as_deref(), Some("Tides"));
        assert_eq!(tidy(" \n\t"), None);
        assert_eq!(tidy("\"\""), None);
        let long = tidy(&"word ".repeat(40)).unwrap();
        assert!(long.ends_with("word…") && long.chars().count() <= MAX_TITLE_CHARS + 1, "{long}");
    }
}
