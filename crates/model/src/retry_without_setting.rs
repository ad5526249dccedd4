//! A model that is asked again without a setting that its provider refuses.
//!
//! This happens at once and before a reader has seen a piece. A setting that helped is remembered for the model as long
//! as this process lives, and one that did not help is forgotten.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::health::ProviderHealth;
use crate::refused_settings::RefusedSettings;
use crate::setting::Unsupported;
use crate::{ChatModel, Error, ModelRequest, PieceStream, ProviderWire};

/// How often one request is asked again, each time without one more setting.
const MAX_ASKED_AGAIN: usize = 6;

/// A model that is asked for less, once its provider has said what it does not take.
pub(crate) struct SettingRetry {
    chat: Arc<dyn ChatModel>,
    wire: ProviderWire,
    /// The provider's health, which keeps what was learned.
    health: Arc<ProviderHealth>,
}

impl SettingRetry {
    pub(crate) fn new(chat: Arc<dyn ChatModel>, wire: ProviderWire, health: Arc<ProviderHealth>) -> Self {
        Self { chat, wire, health }
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let before = self.health.refused_settings(&request.model);
        let first = match &before {
            Some(learned) => self.chat.stream(&learned.apply_to(request)).await,
            None => self.chat.stream(request).await,
        };
        match first {
            Err(Error::Unsupported { status, summary, refused }) => {
                let before = before.unwrap_or_default();
                self.ask_again(request, before, (status, summary, refused)).await
            }
            answered => answered,
        }
    }

    async fn ask_again(
        &self,
        request: &ModelRequest,
        before: RefusedSettings,
        (mut status, mut summary, mut refused): (u16, String, Unsupported),
    ) -> Result<PieceStream, Error> {
        let mut learned = before.clone();
        let mut sent = before.apply_to(request);
        for _ in 0..MAX_ASKED_AGAIN {
            learned.learn(&refused, &sent, self.wire);
            let next = learned.apply_to(request);
            if next == sent {
                break;
            }
            sent = next;
            match self.chat.stream(&sent).await {
                Err(Error::Unsupported { status: s, summary: why, refused: other }) => {
                    (status, summary, refused) = (s, why, other);
                }
                Err(error) => return Err(error), // that was not it, or it is not known yet
                Ok(stream) => {
                    self.remember(request, &learned, &before);
                    return Ok(stream);
                }
            }
        }
        Err(Error::Rejected { status, summary })
    }

    fn remember(&self, request: &ModelRequest, learned: &RefusedSettings, before: &RefusedSettings) {
        let left_out = learned.new_names(before).join(", ");
        tracing::warn!(
            model = request.model,
            left_out,
            "the provider refuses these settings for this model; further requests are sent without them"
        );
        self.health.note_refused_settings(&request.model, learned);
    }
}

impl ChatModel for SettingRetry {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}
