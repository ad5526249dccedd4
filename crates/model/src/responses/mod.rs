//! OpenAI's Responses, without its memory: every request carries the whole conversation.

mod calls;
mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod wire;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::decode::ResponsesDecoder;
use crate::http::{Client, Headers};
use crate::model_list::ServedModels;
use crate::{ChatModel, Endpoint, Error, InvalidEndpoint, ModelRequest, PieceStream, reading};

/// A server that speaks Responses.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    client: Client,
    served: ServedModels,
    provider: String,
}

impl OpenAiResponses {
    pub fn new(endpoint: &Endpoint) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["responses"], Headers::default())?;
        let served = ServedModels::new(endpoint, &["models"], None, Headers::default())?;
        Ok(Self { client, served, provider: endpoint.provider.clone() })
    }

    /// The bytes that asking `request` sends.
    pub fn body(&self, request: &ModelRequest) -> Vec<u8> {
        encode::body(request, &self.provider)
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let answer = self.client.post(self.body(request)).await?;
        reading::pieces(answer, ResponsesDecoder::new(&request.model, &self.provider)).await
    }
}

impl ChatModel for OpenAiResponses {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }

    fn serves<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        self.served.has_model(id).boxed()
    }
}
