//! Looks which models Ollama has: where it is configured, and on this machine when nothing is.

use std::time::Duration;

use model::{ProviderWire, known_models};

use crate::config::{Config, ProviderConfig};
use crate::provider_models::{self, ModelOffer};

/// How long the start of a command may wait for an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The provider that is looked for when none is configured.
const LOCAL: &str = "ollama";

/// The configuration with what was found in it.
pub(crate) async fn complete(mut config: Config) -> Config {
    if !config.has_remote() {
        if let Some(ollama) =
            known_models::provider(LOCAL).filter(|_| config.discover).map(ProviderConfig::of)
        {
            config = adopt(config, ollama).await;
        }
        config.settle_default();
        return config;
    }
    for provider in config.providers.clone() {
        if provider.wire != Some(ProviderWire::Ollama) {
            continue;
        }
        match provider_models::ask(&provider, PATIENCE).await {
            ModelOffer::Models(ids) => config.list_found(&provider, &ids),
            ModelOffer::NoList(_) | ModelOffer::Refused(_) | ModelOffer::Nobody(_) => tracing::warn!(
                provider = provider.name,
                url = provider.base_url,
                "the provider does not list its models; is it running?"
            ),
        }
    }
    config.settle_default();
    config
}

/// Uses the provider, if it answers.
async fn adopt(mut config: Config, local: ProviderConfig) -> Config {
    let ModelOffer::Models(ids) = provider_models::ask(&local, PATIENCE).await else { return config };
    tracing::info!(
        url = local.base_url,
        models = ids.join(", "),
        "no provider is configured; Ollama runs on this machine and is used"
    );
    config.list_found(&local, &ids);
    config.providers.push(local);
    if ids.is_empty() {
        tracing::warn!("Ollama has no model; get one, for example with `ollama pull llama3.2`");
    } else {
        config.settle_default();
    }
    config
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// An Ollama that answers one question. Its thread ends with it.
    fn ollama(models: &'static str) -> ProviderConfig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, mut head) = (listener.accept().unwrap().0, Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            assert!(head.starts_with(b"GET /api/tags "));
            let length = models.len();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{models}").unwrap();
        });
        ProviderConfig { base_url, ..ProviderConfig::of(known_models::provider(LOCAL).unwrap()) }
    }

    #[tokio::test]
    async fn an_ollama_that_runs_is_used_with_its_first_model() {
        let local = ollama(r#"{"models": [{"name": "qwen3:4b"}, {"name": "llama3.2:latest"}]}"#);
        let config = adopt(Config::default(), local.clone()).await;
        assert_eq!((config.model.as_deref(), &config.providers), (Some("qwen3:4b"), &vec![local]));
        let listed: Vec<_> = config.models.iter().map(|listing| listing.name.as_str()).collect();
        assert_eq!(listed, ["qwen3:4b", "llama3.2:latest"]);
        assert!(config.models.iter().all(|listing| !listing.capabilities.tools), "they run on this machine");
    }

    #[tokio::test]
    async fn an_ollama_without_models_or_one_that_is_gone_gives_no_default() {
        let empty = adopt(Config::default(), ollama(r#"{"models": []}"#)).await;
        assert_eq!((empty.model, empty.providers.len()), (None, 1));
        let gone = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let base_url = format!("http://{}", listener.local_addr().unwrap());
            ProviderConfig { base_url, ..ProviderConfig::of(known_models::provider(LOCAL).unwrap()) }
        };
        assert_eq!(adopt(Config::default(), gone).await, Config::default());
    }
}
