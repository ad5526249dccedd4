//! One call of a model, outside a run: its whole answer, and how long it took.

use std::time::Duration;

use futures_util::StreamExt;
use model::{AnswerPiece, ChatModel, Error, ModelRequest};
use protocol::{Finish, Usage};
use tokio::time::Instant;

/// The answer of a model to one call.
#[derive(Default)]
pub(crate) struct ModelAnswer {
    pub(crate) text: String,
    /// Name and arguments, as JSON text.
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) usage: Usage,
    pub(crate) finish: Option<Finish>,
    /// From the request to the first piece of the answer.
    pub(crate) first: Option<Duration>,
    pub(crate) took: Duration,
}

/// Every wait is bounded by the provider's time-outs.
pub(crate) async fn ask_model(chat: &dyn ChatModel, request: &ModelRequest) -> Result<ModelAnswer, Error> {
    let begun = Instant::now();
    let mut answer = ModelAnswer::default();
    let mut pieces = chat.stream(request).await?;
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if matches!(piece, AnswerPiece::Text(_) | AnswerPiece::Reasoning(_) | AnswerPiece::CallStart { .. }) {
            answer.first.get_or_insert_with(|| begun.elapsed());
        }
        match piece {
            AnswerPiece::Text(text) => answer.text.push_str(&text),
            AnswerPiece::CallStart { name, .. } => answer.calls.push((name, String::new())),
            AnswerPiece::CallInput { index, json } => {
                if let Some((_, arguments)) = answer.calls.get_mut(index) {
                    arguments.push_str(&json);
                }
            }
            AnswerPiece::CallsVoid => answer.calls.clear(),
            AnswerPiece::Usage(usage) => answer.usage = usage,
            AnswerPiece::Finish(finish) => answer.finish = Some(finish),
            AnswerPiece::Reasoning(_) | AnswerPiece::Model(_) | AnswerPiece::Provider(_) => {}
        }
    }
    answer.took = begun.elapsed();
    if answer.finish.is_none() {
        return Err(Error::Broken("it stopped before its end".into()));
    }
    Ok(answer)
}
