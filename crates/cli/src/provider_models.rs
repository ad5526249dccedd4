//! The models that a provider itself lists.

use std::time::Duration;

use model::{AnthropicVersion, ProviderWire};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::config::ProviderConfig;
use crate::{cause, http};

/// A longer list is not read to its end.
const MAX_LIST_BYTES: usize = 16 << 20;
/// Part of what a model that cannot talk says of its family.
const NOT_A_TALKER: &str = "bert";

/// The answer of a provider.
#[derive(Debug, PartialEq)]
pub(crate) enum ModelOffer {
    /// The provider's own names of its models.
    Models(Vec<String>),
    /// The provider answers, but does not list its models.
    NoList(StatusCode),
    /// The provider wants a key, or another one.
    Refused(StatusCode),
    /// The provider does not answer, for this reason.
    Nobody(String),
}

/// Of this process nothing has to be asked: what it has is in the configuration.
pub(crate) async fn ask(provider: &ProviderConfig, patience: Duration) -> ModelOffer {
    let Some(wire) = provider.wire else { return ModelOffer::Models(Vec::new()) };
    let response =
        async { request(provider, wire, &http::client(&provider.base_url, patience)?).send().await };
    let response = match response.await {
        Ok(response) => response,
        Err(error) => return ModelOffer::Nobody(cause(&error)),
    };
    let status = response.status();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelOffer::Refused(status),
        _ if status.is_success() => match read(response).await {
            Some(list) => ModelOffer::Models(names(&list, wire)),
            None => ModelOffer::NoList(status),
        },
        _ => ModelOffer::NoList(status),
    }
}

fn request(provider: &ProviderConfig, wire: ProviderWire, client: &Client) -> RequestBuilder {
    let base = &provider.base_url;
    let (path, version) = match wire {
        ProviderWire::Chat | ProviderWire::Responses => ("/models", None),
        ProviderWire::Anthropic(version) => ("/models?limit=1000", Some(version)), // a page would be twenty
        ProviderWire::Ollama => ("/api/tags", None),
    };
    let request = client.get(format!("{base}{path}"));
    let request = match version {
        None => request,
        Some(AnthropicVersion::V2023) => request.header("anthropic-version", "2023-06-01"),
        Some(AnthropicVersion::V2026) => request.header("anthropic-version", "2026-10-21"),
    };
    match provider.api_key.as_ref().map(|key| key.expose()) {
        None => request,
        Some(key) if version == Some(AnthropicVersion::V2023) => request.header("x-api-key", key),
        Some(key) => request.bearer_auth(key),
    }
}

/// None when it is no JSON, or too long.
async fn read(response: Response) -> Option<Value> {
    serde_json::from_slice(&http::read_body(response, MAX_LIST_BYTES).await.ok()??).ok()
}

fn names(list: &Value, wire: ProviderWire) -> Vec<String> {
    let (key, name) = match wire {
        ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => ("data", "id"),
        ProviderWire::Ollama => ("models", "name"),
    };
    let talks = |model: &&Value| {
        let family = model.pointer("/details/family").and_then(Value::as_str);
        !family.is_some_and(|family| family.contains(NOT_A_TALKER))
    };
    let models = list.get(key).and_then(Value::as_array).into_iter().flatten().filter(talks);
    let name = |model: &Value| {
        let name = model.get(name)?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned()) // as Gemini writes them
    };
    models.filter_map(name).collect()
}

/// Whether a list has this model, also under the dated or tagged name that it stands for.
pub(crate) fn list_has_model(list: &[String], id: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = |rest: &str| rest.split('-').all(digits) && rest.get(..4).is_some_and(digits);
    list.iter().any(|listed| match listed.strip_prefix(id) {
        Some("" | ":latest") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_date),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_as_its_wire_writes_it() {
        let list = json!({"data": [{"id": "gpt-5"}, {"id": "models/gemini-2.5-pro"}, {"name": "no id"}, 3]});
        assert_eq!(names(&list, ProviderWire::Chat), ["gpt-5", "gemini-2.5-pro"]);
        let list = json!({"models": [
            {"name": "nomic-embed-text:latest", "details": {"family": "nomic-bert"}},
            {"name": "llama3.2:latest", "details": {"family": "llama"}},
        ]});
        assert_eq!(names(&list, ProviderWire::Ollama), ["llama3.2:latest"]);
        assert_eq!(names(&json!("nonsense"), ProviderWire::Ollama), Vec::<String>::new());
    }

    #[test]
    fn a_model_is_found_under_its_dated_or_tagged_name() {
        let list = ["claude-sonnet-4-5-20250929", "llama3.2:latest", "gpt-4.1-mini"].map(str::to_owned);
        for id in ["claude-sonnet-4-5", "llama3.2", "llama3.2:latest", "gpt-4.1-mini"] {
            assert!(list_has_model(&list, id), "{id}");
        }
        for id in ["gpt-4.1", "claude-sonnet-4", "llama3", "llama3.2:1b"] {
            assert!(!list_has_model(&list, id), "{id}");
        }
    }
}
