//! How a command asks the server that owns the data folder, when there is one.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Trouble;
use crate::config::Config;
use crate::control::Control;

/// How long the running server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line to the running server.
pub(crate) struct Line {
    client: Client,
    control: Control,
}

impl Line {
    /// The line to take when the data folder could not be opened because a server has it. Any other trouble is given
    /// back. The lock says whether a server runs; what one that was killed left behind would not.
    pub(crate) fn instead(config: &Config, trouble: Trouble) -> Result<Self, Trouble> {
        match (trouble.downcast_ref(), Control::of(&config.data)) {
            (Some(store::Error::Locked(_)), Some(control)) => {
                Ok(Self { client: Client::builder().no_proxy().timeout(PATIENCE).build()?, control })
            }
            _ => Err(trouble),
        }
    }

    /// Speaks as the holder of a key from now on.
    #[must_use]
    pub(crate) fn holding(self, key: String) -> Self {
        Self { control: Control { token: key, ..self.control }, ..self }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.control.url);
        self.client.request(method, url).bearer_auth(&self.control.token)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        self.ask(self.request(Method::GET, path)).await
    }

    /// The answer, or what the problem document says.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Trouble> {
        Ok(taken(request.send().await?).await?.json().await?)
    }

    /// The same for an answer that is a text.
    pub(crate) async fn text(&self, request: RequestBuilder) -> Result<String, Trouble> {
        Ok(taken(request.send().await?).await?.text().await?)
    }

    /// The same for an answer without words.
    pub(crate) async fn tell(&self, request: RequestBuilder) -> Result<(), Trouble> {
        taken(request.send().await?).await.map(drop)
    }

    /// Whether there is such a thing.
    pub(crate) async fn has(&self, path: &str) -> Result<bool, Trouble> {
        let response = self.request(Method::GET, path).send().await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        taken(response).await.map(|_| true)
    }
}

async fn taken(response: Response) -> Result<Response, Trouble> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
    Err(format!("the server answered {status}: {detail}").into())
}
