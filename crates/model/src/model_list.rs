//! The list of models that a provider serves, asked for when a request names a model that the configuration does not
//! list.
//!
//! A list holds for a while. Where it cannot be had, or does not say all, nothing is known: then the model is asked, and
//! the provider says for itself that it has none of that name.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::http::{Client, Headers};
use crate::{Endpoint, InvalidEndpoint};

/// How long a list holds.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// How long after a request for the list no other is made, also after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// How long a list is waited for, because a user waits for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Bytes of a list that are read.
const MAX_LIST_BYTES: usize = 4 << 20;

/// Models of one provider that are kept.
const MAX_MODELS: usize = 20_000;

/// Letters and digits of a date that may follow a model's name: a year at least.
const YEAR_DIGITS: usize = 4;

/// The models of one provider, as far as it lists them.
#[derive(Debug, Clone)]
pub(crate) struct ServedModels {
    client: Client,
    known: Arc<Mutex<Known>>,
    /// One asks, and the others wait for what it hears.
    asking: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Known {
    asked: Option<Instant>,
    /// None where there is no list that says all.
    models: Option<(Instant, BTreeSet<String>)>,
}

impl Known {
    /// Whether the model is served, if that is known without asking.
    fn answer(&self, id: &str) -> Option<Option<bool>> {
        let fresh = self.models.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
        let has = fresh.map(|(_, models)| is_among(models, id));
        match has {
            Some(true) => Some(Some(true)),
            // It may be new.
            _ if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) => Some(has),
            _ => None,
        }
    }
}

impl ServedModels {
    /// `path` and `query` are where the list is, beside what `client` asks.
    pub(crate) fn new(
        endpoint: &Endpoint,
        path: &[&str],
        query: Option<(&str, &str)>,
        headers: Headers,
    ) -> Result<Self, InvalidEndpoint> {
        let client = Client::new(endpoint, path, headers)?.with_query(query);
        Ok(Self { client, known: Arc::default(), asking: Arc::new(Semaphore::new(1)) })
    }

    /// Whether there is a model of this id. None where that is not known.
    pub(crate) async fn has_model(&self, id: &str) -> Option<bool> {
        if let Some(answer) = self.known_models().answer(id) {
            return answer;
        }
        let _place = self.asking.acquire().await.ok()?;
        if let Some(answer) = self.known_models().answer(id) {
            return answer; // another task has asked meanwhile
        }
        let list = timeout(PATIENCE, self.client.get(MAX_LIST_BYTES)).await.ok().and_then(Result::ok);
        let models = list.and_then(|list| models(&serde_json::from_slice(&list).ok()?));
        if models.is_none() {
            tracing::debug!("a provider does not list its models");
        }
        let mut known = self.known_models();
        known.asked = Some(Instant::now());
        known.models = models.map(|models| (Instant::now(), models));
        known.answer(id).flatten()
    }

    fn known_models(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ids of a list: `data` with `id`s or, as Ollama has it, `models` with `name`s. None if it is no list, is empty or
/// goes on elsewhere.
fn models(list: &Value) -> Option<BTreeSet<String>> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()?;
    let goes_on = list.get("has_more") == Some(&Value::Bool(true)) || entries.len() > MAX_MODELS;
    let id = |entry: &Value| {
        let id = entry.get("id").or_else(|| entry.get("name"))?.as_str()?;
        Some(id.strip_prefix("models/").unwrap_or(id).to_owned()) // as Gemini writes them
    };
    let ids: BTreeSet<String> = entries.iter().filter_map(id).collect();
    (!goes_on && !ids.is_empty()).then_some(ids)
}

/// Whether a list has this model, also under the dated or tagged name that it stands for.
fn is_among(models: &BTreeSet<String>, id: &str) -> bool {
    let id = id.strip_prefix("models/").unwrap_or(id);
    let id = id.strip_suffix("-latest").unwrap_or(id);
    // A way of serving it, such as OpenRouter's `:online`, is in no list.
    if id.rsplit_once(':').is_some_and(|(model, _)| models.contains(model)) {
        return true;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = |rest: &str| rest.split('-').all(digits) && rest.get(..YEAR_DIGITS).is_some_and(digits);
    models.iter().any(|listed| match listed.strip_prefix(id) {
        Some("" | ":latest" | "-latest") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_date),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_in_every_form_and_only_if_it_is_whole() {
        let ids = |list: &Value| models(list).map(|ids| ids.into_iter().collect::<Vec<_>>());
        let both = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(ids(&json!({ "data": [{ "id": "b" }, { "id": "models/a" }, 3] })), both);
        assert_eq!(ids(&json!({ "models": [{ "name": "a" }, { "name": "b" }] })), both);
        assert_eq!(ids(&json!([{ "id": "a" }, { "id": "b" }])), both);
        for nothing in [
            json!({ "data": [] }),
            json!({ "data": [{ "id": "a" }], "has_more": true }),
            json!({ "error": "no" }),
            json!("a"),
        ] {
            assert_eq!(ids(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_model_is_found_under_its_dated_or_tagged_name() {
        let list = ["claude-sonnet-4-5-20250929", "llama3.2:latest", "gpt-4.1-mini", "gpt-4o-2024-08-06"];
        let list = list.into_iter().chain(["z/model"]);
        let list: BTreeSet<String> = list.map(str::to_owned).collect();
        for id in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-latest",
            "llama3.2",
            "gpt-4.1-mini",
            "gpt-4o",
            "z/model:online",
        ] {
            assert!(is_among(&list, id), "{id}");
        }
        for id in ["gpt-4.1", "claude-sonnet-4", "llama3", "llama3.2:1b", "gpt"] {
            assert!(!is_among(&list, id), "{id}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_looked_for_again_after_a_while_and_what_is_there_holds() {
        let known = |models: &[&str]| Known {
            asked: Some(Instant::now()),
            models: Some((Instant::now(), models.iter().map(|&id| id.to_owned()).collect())),
        };
        let list = known(&["a"]);
        assert_eq!((list.answer("a"), list.answer("b")), (Some(Some(true)), Some(Some(false))));
        tokio::time::advance(PAUSE).await;
        assert_eq!((list.answer("a"), list.answer("b")), (Some(Some(true)), None), "b may be new");
        tokio::time::advance(FRESH).await;
        assert_eq!(list.answer("a"), None, "a may be gone");
        let failed = Known { asked: Some(Instant::now()), models: None };
        assert_eq!(failed.answer("a"), Some(None), "nobody asks again at once");
        tokio::time::advance(PAUSE).await;
        assert_eq!(failed.answer("a"), None);
    }
}
