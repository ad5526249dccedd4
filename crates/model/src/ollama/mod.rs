//! Ollama's own chat, which knows the options that its copy of Chat Completions leaves out.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod wire;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::decode::OllamaDecoder;
use crate::http::{Client, Headers};
use crate::model_list::ServedModels;
use crate::{ChatModel, Endpoint, Error, InvalidEndpoint, ModelRequest, PieceStream, reading};

/// An Ollama server. Its base URL has no version.
#[derive(Debug, Clone)]
pub struct OllamaChat {
    client: Client,
    served: ServedModels,
    provider: String,
}

impl OllamaChat {
    pub fn new(endpoint: &Endpoint) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["api", "chat"], Headers::default())?;
        let served = ServedModels::new(endpoint, &["api", "tags"], None, Headers::default())?;
        Ok(Self { client, served, provider: endpoint.provider.clone() })
    }

    /// The bytes that asking `request` sends.
    pub fn body(&self, request: &ModelRequest) -> Vec<u8> {
        encode::body(request)
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let answer = self.client.post(self.body(request)).await?;
        reading::pieces(answer, OllamaDecoder::new(&request.model, &self.provider)).await
    }
}

impl ChatModel for OllamaChat {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }

    fn serves<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        self.served.has_model(id).boxed()
    }
}
