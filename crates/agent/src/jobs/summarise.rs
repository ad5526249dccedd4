//! A summary of the older part of a conversation, made when there is too much of it; and one of several summaries, made
//! when there are too many. Either way what is left is bounded, so a long thread costs what a short one does.

use app::Summarise;
use async_trait::async_trait;
use model::{Model, PromptMessage};
use protocol::{MessageId, Role, Settings, Summary, ThreadId};
use store::{JobRow, MessageRow, SummaryRow};

use super::ask::{Unanswered, ask};
use super::{BackgroundJob, JobEffect, UnfinishedJob};
use crate::context::{Fence, PastTurn, cap_text, chain, hash, hex, read_path, units};
use crate::world::World;

const DEFAULT_PROMPT: &str = include_str!("summarise.md");

/// Messages of the path that are looked at.
const MAX_MESSAGES: usize = 400;

/// Messages that stay as they were said, the newest ones.
const KEPT: usize = 6;

/// Messages that are worth a summary.
const MIN_MESSAGES: usize = 4;

/// Bytes of each message that the model is shown.
const MAX_SHOWN_BYTES: usize = 4_000;

/// Summaries of one level in a row that stay; when there is one more, the oldest become one.
const MAX_IN_A_ROW: usize = 5;
const MERGED: usize = 4;

/// Tokens of a summary: a part of the history's budget, so that several fit.
const SHARE: u32 = 12;
const MIN_TOKENS: u32 = 96;
const MAX_TOKENS: u32 = 1_000;

/// Bytes of text for a token, generously.
const BYTES_PER_TOKEN: u32 = 8;

/// Summarises the older part of a conversation.
pub(crate) struct SummariseThread;

impl SummariseThread {
    pub(crate) const NAME: &str = "summarise";
}

#[async_trait]
impl BackgroundJob for SummariseThread {
    /// Summarises what the path to the job's message has too much of. Nothing, if there is not too much, or no model.
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        let (Some(thread), Some(app), Ok(leaf)) = (job.thread, world.app(&job.scope.app), job.key.parse())
        else {
            return Ok(JobEffect::Nothing);
        };
        let Some(how) = &app.history.summarise else { return Ok(JobEffect::Nothing) };
        let Some(model) = world.model_for_job(&app, how.model.as_deref()) else {
            return Ok(JobEffect::Nothing);
        };
        let summaries = world.store.summaries(thread, false).await?;
        let rows = world.store.path(thread, leaf, MAX_MESSAGES).await?;
        let work = match mergeable_summaries(&rows, &summaries) {
            Some(many) => Some(merge(&clear(world, job, many).await?)),
            None => older_messages(world, (thread, job), (&rows, &summaries), (&model, how)).await?,
        };
        let Some(work) = work else { return Ok(JobEffect::Nothing) };
        let tokens = (app.history.budget / SHARE).clamp(MIN_TOKENS, MAX_TOKENS);
        let settings = Settings { max_tokens: Some(tokens), ..Settings::default() };
        let prompt = how.prompt.as_deref().unwrap_or(DEFAULT_PROMPT).trim().to_owned();
        let said = PromptMessage::User(Fence::of(world.secret(), thread).wrap(&work.text).into());
        let request = model.request(prompt, vec![said], &settings);
        let most = (tokens * BYTES_PER_TOKEN) as usize;
        let (answer, spent) = match ask(world, job, &model, request, most).await {
            Ok(answered) => answered,
            // Asked again it would refuse again; the next run of a thread that is too long causes another job.
            Err(Unanswered::Failed { error, spent }) if !error.is_retryable() => {
                tracing::warn!(%thread, model = model.name(), %error, "a part of a thread was not summarised");
                return Ok(JobEffect::Paid(spent));
            }
            Err(Unanswered::Unaffordable) => return Ok(JobEffect::Nothing),
            Err(unanswered) => return Err(unanswered.into()),
        };
        let answer = answer.trim().to_owned();
        if answer.is_empty() {
            let reason = "the model wrote no summary".to_owned();
            return Err(UnfinishedJob { reason, spent: Some(spent), is_early: false, is_final: false });
        }
        let summary = event(world, &work, &answer);
        tracing::debug!(%thread, level = summary.level, messages = summary.messages, "a part of a thread was summarised");
        Ok(JobEffect::Summary { summary, text: answer, spent: Some(spent) })
    }
}

/// The stretch to summarise.
struct Work {
    level: u32,
    after: Option<MessageId>,
    from: (MessageId, u64),
    to: (MessageId, u64),
    messages: u32,
    merged: Vec<SummaryRow>,
    text: String,
}

/// The newest message of the path that a summary ends with.
fn last_covered(rows: &[MessageRow], summaries: &[SummaryRow]) -> Option<usize> {
    rows.iter().rposition(|row| summaries.iter().any(|summary| summary.to_message == row.id))
}

/// The oldest summaries of a level of which there are too many in a row.
fn mergeable_summaries(rows: &[MessageRow], summaries: &[SummaryRow]) -> Option<Vec<SummaryRow>> {
    let end = rows.get(last_covered(rows, summaries)?)?.id;
    let chain = chain(summaries, end);
    let mut in_a_row = chain.chunk_by(|one, next| one.level == next.level);
    let many = in_a_row.find(|row| row.len() > MAX_IN_A_ROW)?;
    let oldest: Vec<SummaryRow> = many.iter().take(MERGED).cloned().collect();
    oldest.iter().all(|summary| summary.text.is_some()).then_some(oldest)
}

/// The summaries without words that were forgotten since they were made.
async fn clear(
    world: &World,
    job: &JobRow,
    mut summaries: Vec<SummaryRow>,
) -> Result<Vec<SummaryRow>, store::Error> {
    let forgotten = world.recall.forgotten_words(&job.scope).await?;
    for summary in &mut summaries {
        let said = summary.text.take();
        summary.text = said.map(|text| forgotten.clear(&text, summary.created_at).into_owned());
    }
    Ok(summaries)
}

fn merge(oldest: &[SummaryRow]) -> Work {
    let first = oldest.first();
    let last = oldest.last();
    let texts: Vec<&str> = oldest.iter().filter_map(|summary| summary.text.as_deref()).collect();
    let nil = || (MessageId::new(uuid::Uuid::nil()), 0);
    Work {
        level: first.map_or(0, |summary| summary.level) + 1,
        after: first.and_then(|summary| summary.after_message),
        from: first.map_or_else(nil, |summary| (summary.from_message, summary.from)),
        to: last.map_or_else(nil, |summary| (summary.to_message, summary.to)),
        messages: oldest.iter().map(|summary| summary.messages).sum(),
        merged: oldest.to_vec(),
        text: texts.join("\n\n"),
    }
}

/// The messages after the last summary but for the newest few, as many as the model takes.
async fn older_messages(
    world: &World,
    (thread, job): (ThreadId, &JobRow),
    (rows, summaries): (&[MessageRow], &[SummaryRow]),
    (model, how): (&Model, &Summarise),
) -> Result<Option<Work>, store::Error> {
    let begin = last_covered(rows, summaries).map_or(0, |place| place + 1);
    let tail = rows.get(begin..).unwrap_or_default();
    let forgotten = world.recall.forgotten_words(&job.scope).await?;
    let mut turns = read_path(thread, tail, Some(&forgotten));
    let counter = model.tokens();
    let tokens: usize = turns.iter().map(|past| counter.text(&past.turn.text_with_parts())).sum();
    if tokens <= how.after as usize {
        return Ok(None); // another job was faster
    }
    let mut end = turns.len().saturating_sub(KEPT);
    let room = model.capabilities().context_window as usize / 2;
    let mut taken = 0;
    let mut fits = |past: &PastTurn| {
        taken += counter.text(&line(past));
        taken <= room
    };
    end = end.min(turns.iter().take_while(|past| fits(past)).count());
    // Whole exchanges, so that what stays begins with what the user said.
    end = units(&turns).into_iter().map(|unit| unit.end).take_while(|unit| *unit <= end).last().unwrap_or(0);
    if end < MIN_MESSAGES {
        return Ok(None);
    }
    turns.truncate(end);
    let lines: Vec<String> = turns.iter().map(line).collect();
    let place = |past: Option<&PastTurn>| past.map(|past| (past.id, past.seq));
    let (Some(from), Some(to)) = (place(turns.first()), place(turns.last())) else { return Ok(None) };
    Ok(Some(Work {
        level: 0,
        after: tail.first().and_then(|row| row.parent),
        from,
        to,
        messages: u32::try_from(turns.len()).unwrap_or(u32::MAX),
        merged: Vec::new(),
        text: lines.join("\n\n"),
    }))
}

fn line(past: &PastTurn) -> String {
    let who = match past.turn.role {
        Some(Role::User) => "USER",
        Some(Role::Assistant) => "ASSISTANT",
        None => return String::new(),
    };
    format!("{who}: {}", cap_text(&past.turn.text_with_parts(), MAX_SHOWN_BYTES))
}

fn event(world: &World, work: &Work, answer: &str) -> Summary {
    Summary {
        summary_id: world.ids.summary(),
        level: work.level,
        after_message_id: work.after,
        from_message_id: work.from.0,
        to_message_id: work.to.0,
        from: work.from.1,
        to: work.to.1,
        messages: work.messages,
        merged: work.merged.iter().map(|summary| summary.id).collect(),
        hash: hex(&hash(answer)),
    }
}
