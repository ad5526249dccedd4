//! A question of a job to a model, within what the job's user may spend.

use std::time::Duration;

use futures_util::StreamExt;
use model::{AnswerPiece, Error, Model, ModelRequest, Phase};
use protocol::{SpendGrant, Usage};
use store::{JobRow, JobUsage};

use super::UnfinishedJob;
use crate::spending;
use crate::world::World;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The model failed, and perhaps was paid for what it had said.
    Failed {
        error: Error,
        spent: Option<JobUsage>,
    },
    /// The user has used up the budget of the app, or the model has no known price. No request was sent.
    Unaffordable,
    /// Other calls hold what is left, or the minute is used up.
    Later,
    Store(store::Error),
}

impl From<Unanswered> for UnfinishedJob {
    fn from(unanswered: Unanswered) -> Self {
        let why = |reason: &str| reason.to_owned().into();
        match unanswered {
            Unanswered::Failed { error, spent } => {
                UnfinishedJob { reason: error.to_string(), spent, is_early: false, is_final: false }
            }
            Unanswered::Unaffordable => why("the user's daily budget in this app is used up"),
            Unanswered::Later => {
                let reason = "other calls have reserved the rest of the user's budget".to_owned();
                UnfinishedJob { reason, spent: None, is_early: true, is_final: false }
            }
            Unanswered::Store(error) => error.into(),
        }
    }
}

/// How long a job waits for the whole answer of a model. A job that waits keeps its place from other jobs.
const MODEL_PATIENCE: Duration = Duration::from_secs(120);

/// Asks a model for a text of at most `most` bytes. Returns the text and its cost. A provider that is paused after
/// repeated failures is not asked.
pub(super) async fn ask(
    world: &World,
    job: &JobRow,
    model: &Model,
    mut request: ModelRequest,
    most: usize,
) -> Result<(String, JobUsage), Unanswered> {
    if !model.health.is_closed() {
        let error = Error::Unavailable {
            reason: "its circuit breaker is open after repeated failures".into(),
            after: None,
        };
        return Err(Unanswered::Failed { error, spent: None });
    }
    fund(world, job, model, &mut request).await?;
    let _place = world.model_place(&job.scope, model).await;
    let mut heard = Heard::default();
    let ended = tokio::time::timeout(MODEL_PATIENCE, listen(model, &request, most, &mut heard)).await;
    match ended.unwrap_or(Err(Error::Timeout(Phase::Total))) {
        Ok(()) => {
            let spent = heard.usage_of(model, &request);
            Ok((heard.answer, spent))
        }
        Err(error) => {
            let is_paid = heard.usage.is_some() || !heard.answer.is_empty();
            Err(Unanswered::Failed { error, spent: is_paid.then(|| heard.usage_of(model, &request)) })
        }
    }
}

/// Holds what the call may use, if the app bounds that.
async fn fund(
    world: &World,
    job: &JobRow,
    model: &Model,
    request: &mut ModelRequest,
) -> Result<(), Unanswered> {
    let Some(app) = world.app(&job.scope.app) else { return Ok(()) };
    let bounds = spending::bounds_of_user(&app);
    if bounds.is_none() {
        return Ok(());
    }
    let prompt = model.tokens().request(request) as u64;
    let Some(call) = spending::plan_call(model, request, prompt, &bounds) else {
        return Err(Unanswered::Unaffordable);
    };
    match world.store.reserve_for_job(job, call, bounds).await.map_err(Unanswered::Store)? {
        SpendGrant::Granted { output_tokens, .. } => {
            spending::bound_answer(request, output_tokens);
            Ok(())
        }
        SpendGrant::Later => Err(Unanswered::Later),
        SpendGrant::Refused { .. } => Err(Unanswered::Unaffordable),
    }
}

/// The part of an answer that has come by now.
#[derive(Default)]
struct Heard {
    answer: String,
    usage: Option<Usage>,
}

impl Heard {
    /// As the provider counted it, or else as it is estimated.
    fn usage_of(&self, model: &Model, request: &ModelRequest) -> JobUsage {
        let estimated = || Usage {
            input_tokens: model.tokens().request(request) as u64,
            output_tokens: model.tokens().text(&self.answer) as u64,
            estimated: true,
            ..Usage::default()
        };
        let usage = model.with_cost(self.usage.unwrap_or_else(estimated));
        JobUsage { model: model.name().to_owned(), usage }
    }
}

async fn listen(model: &Model, request: &ModelRequest, most: usize, heard: &mut Heard) -> Result<(), Error> {
    let mut stream = model.chat.stream(request).await?;
    while let Some(piece) = stream.next().await {
        let piece = piece?;
        if let AnswerPiece::Usage(counted) = piece {
            heard.usage = Some(counted);
        } else if let AnswerPiece::Text(text) = piece
            && heard.answer.len() + text.len() <= most
        {
            heard.answer.push_str(&text);
        }
    }
    Ok(())
}
