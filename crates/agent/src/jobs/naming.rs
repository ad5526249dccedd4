//! A name for a thread: by the model if the app says how, else by its first words. These do, too, when the model does
//! not answer: a thread always gets a name.

use async_trait::async_trait;
use model::PromptMessage;
use protocol::Settings;
use store::{JobRow, JobUsage, MessageRow};

use super::ask::Unanswered;
use super::{BackgroundJob, JobEffect, UnfinishedJob};
use crate::context::cap_text;
use crate::transcript;
use crate::world::World;

/// Characters of a title.
const MAX_TITLE_CHARS: usize = 80;

/// Bytes of each message that the model is shown.
const MAX_SHOWN_BYTES: usize = 2_000;

/// Bytes of an answer in which a title is looked for.
const MAX_TITLE_BYTES: usize = 4_096;

/// Attempts after which the model is not asked any more.
const MAX_ASKED: u32 = 3;

/// Tokens a title may take.
const MAX_TITLE_TOKENS: u32 = 64;

/// Names a thread after its first answer.
pub(crate) struct NameThread;

impl NameThread {
    pub(crate) const NAME: &str = "name_thread";
}

#[async_trait]
impl BackgroundJob for NameThread {
    /// A name for the thread; none if it has one or there is nothing to name it by. Whether it still wants one is looked at
    /// again when the name is committed.
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        let Some(thread) = job.thread else { return Ok(JobEffect::Nothing) };
        if world.store.is_named(thread).await? {
            return Ok(JobEffect::Nothing); // no model is asked again, even if the job of an earlier run was purged
        }
        let Some(first) = first_words(world, job).await? else { return Ok(JobEffect::Nothing) };
        let (title, spent) = ask(world, job, &first).await?.unwrap_or_default();
        let title = tidy(&title).or_else(|| tidy(&first));
        tracing::debug!(%thread, "a thread got a title");
        Ok(JobEffect::ThreadName { title, spent })
    }
}

/// The first words of the user in the thread.
async fn first_words(world: &World, job: &JobRow) -> Result<Option<String>, store::Error> {
    let Some(thread) = job.thread else { return Ok(None) };
    let leaf = world.store.first_message(thread).await?;
    let Some(leaf) = leaf else { return Ok(None) };
    let path = world.store.path(thread, leaf, 1).await?;
    let forgotten = world.recall.forgotten_words(&job.scope).await?;
    let said = |row: &MessageRow| {
        forgotten.clear(&transcript::read(row).text_with_parts(), row.created_at).into_owned()
    };
    Ok(path.first().map(said))
}

/// A name by the model; none if the app does not say how, there is no model, or its user may spend no more.
async fn ask(
    world: &World,
    job: &JobRow,
    first: &str,
) -> Result<Option<(String, Option<JobUsage>)>, UnfinishedJob> {
    let Some(app) = world.app(&job.scope.app) else { return Ok(None) };
    let Some(prompt) = app.title.as_ref().filter(|_| job.attempts <= MAX_ASKED) else { return Ok(None) };
    let Some(model) = world.model_for_job(&app, None) else { return Ok(None) };
    let settings = Settings { max_tokens: Some(MAX_TITLE_TOKENS), ..Settings::default() };
    let shown = vec![PromptMessage::User(cap_text(first, MAX_SHOWN_BYTES).into())];
    let request = model.request(prompt.clone(), shown, &settings);
    match super::ask::ask(world, job, &model, request, MAX_TITLE_BYTES).await {
        Ok((title, spent)) => Ok(Some((title, Some(spent)))),
        Err(Unanswered::Unaffordable) => Ok(None),
        Err(Unanswered::Failed { error, spent: None })
            if !error.is_retryable() || job.attempts >= MAX_ASKED =>
        {
            tracing::warn!(job = %job.id, model = model.name(), %error, "no model wrote a title; the title is the first words of the thread");
            Ok(None)
        }
        // The first words are better than no name at all.
        Err(_) if job.attempts >= MAX_ASKED => Ok(None),
        Err(unanswered) => Err(unanswered.into()),
    }
}

/// The first line without quotes and marks around it, cut between words to at most `MAX_TITLE_CHARS`.
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
