//! OpenAI's Chat Completions, as OpenAI and everybody who copied it speak it.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod wire;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::decode::ChatDecoder;
pub(crate) use self::encode::function_tool;
use crate::http::{Client, Headers};
use crate::model_list::ServedModels;
use crate::{ChatModel, Endpoint, Error, InvalidEndpoint, ModelRequest, PieceStream, reading};

/// The differences between servers of this protocol in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    pub token_limit: TokenLimit,
}

/// The name under which the longest answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_completion_tokens`: OpenAI itself, whose newer models refuse the other.
    MaxCompletionTokens,
    /// `max_tokens`: the old name, which compatible servers know.
    MaxTokens,
}

impl TokenLimit {
    pub(crate) fn other_name(self) -> Self {
        match self {
            Self::MaxCompletionTokens => Self::MaxTokens,
            Self::MaxTokens => Self::MaxCompletionTokens,
        }
    }
}

impl Quirks {
    fn of_host(host: &str) -> Self {
        let token_limit =
            if host == "api.openai.com" { TokenLimit::MaxCompletionTokens } else { TokenLimit::MaxTokens };
        Self { token_limit }
    }
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub struct ChatCompletions {
    client: Client,
    served: ServedModels,
    provider: String,
    quirks: Quirks,
}

impl ChatCompletions {
    /// The quirks of the server are guessed from its host; see [`Self::with_quirks`].
    pub fn new(endpoint: &Endpoint) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["chat", "completions"], Headers::default())?;
        let quirks = Quirks::of_host(client.host());
        let served = ServedModels::new(endpoint, &["models"], None, Headers::default())?;
        Ok(Self { client, served, provider: endpoint.provider.clone(), quirks })
    }

    #[must_use]
    pub fn with_quirks(self, quirks: Quirks) -> Self {
        Self { quirks, ..self }
    }

    /// The bytes that asking `request` sends.
    pub fn body(&self, request: &ModelRequest) -> Vec<u8> {
        encode::body(request, &self.provider, self.quirks)
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let answer = self.client.post(self.body(request)).await?;
        reading::pieces(answer, ChatDecoder::new(&request.model, &self.provider)).await
    }
}

impl ChatModel for ChatCompletions {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }

    fn serves<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        self.served.has_model(id).boxed()
    }
}
