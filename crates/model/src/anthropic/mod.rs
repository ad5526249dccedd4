//! Anthropic's Messages, in both versions of its API that are in use.

mod decode;
mod encode;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::decode::AnthropicDecoder;
use crate::http::{Client, Headers, KeyHeader};
use crate::model_list::ServedModels;
use crate::{ChatModel, Endpoint, Error, InvalidEndpoint, ModelRequest, PieceStream, reading};

/// As many models as a list may have; twenty unless it is asked for more.
const PAGE: (&str, &str) = ("limit", "1000");

/// The version of Anthropic's API. The newer one has no sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnthropicVersion {
    V2023,
    V2026,
}

/// A server that speaks Messages.
#[derive(Debug, Clone)]
pub struct AnthropicMessages {
    client: Client,
    served: ServedModels,
    provider: String,
    version: AnthropicVersion,
}

impl AnthropicMessages {
    pub fn new(endpoint: &Endpoint, version: AnthropicVersion) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, &["messages"], headers(version))?;
        let served = ServedModels::new(endpoint, &["models"], Some(PAGE), headers(version))?;
        Ok(Self { client, served, provider: endpoint.provider.clone(), version })
    }

    /// The bytes that asking `request` sends.
    pub fn body(&self, request: &ModelRequest) -> Vec<u8> {
        encode::body(request, &self.provider, self.version)
    }

    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        let answer = self.client.post(self.body(request)).await?;
        reading::pieces(answer, AnthropicDecoder::new(&request.model, &self.provider)).await
    }
}

fn headers(version: AnthropicVersion) -> Headers {
    match version {
        AnthropicVersion::V2023 => {
            Headers { key: KeyHeader::ApiKey, fixed: &[("anthropic-version", "2023-06-01")] }
        }
        AnthropicVersion::V2026 => {
            Headers { key: KeyHeader::Bearer, fixed: &[("anthropic-version", "2026-10-21")] }
        }
    }
}

impl ChatModel for AnthropicMessages {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }

    fn serves<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        self.served.has_model(id).boxed()
    }
}
