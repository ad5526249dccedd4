//! Sentences about a model that does less than its user expects, each with the way to a better one.

use std::collections::BTreeSet;

use app::App;
use model::ModelRegistry;
use protocol::{AppView, ModelView};
use tools::ToolRegistry;

use crate::config::Config;
use crate::pull::DEFAULT_CHAT;
use crate::weights::{PROVIDER, WeightsKind};

/// Tools that a sentence names at most.
const MAX_NAMED_TOOLS: usize = 5;

/// Weights of fewer bytes belong to a model of about a billion parameters or less, whose answers are often wrong.
const SMALL_MODEL_BYTES: u64 = 1_000_000_000;

/// The sentence about the tools that a model is not offered; none if there are no tools.
pub(crate) fn tools_note<T: AsRef<str>>(model: &str, tools: &[T]) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    let named: Vec<&str> = tools.iter().take(MAX_NAMED_TOOLS).map(AsRef::as_ref).collect();
    let more = match tools.len().saturating_sub(MAX_NAMED_TOOLS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{model} is not offered tools, so these are off: {}{more}; use another model (set OPENAI_API_KEY or \
         ANTHROPIC_API_KEY), or, if {model} can call tools, write tools = true into [models.{model:?}] of rondo.toml",
        named.join(", ")
    ))
}

/// The sentence about a model whose answers are often wrong.
pub(crate) fn small_model_note(model: &str) -> String {
    format!(
        "answers of {model} are often wrong, because the model is small; for better answers set OPENAI_API_KEY or \
         ANTHROPIC_API_KEY, or start Ollama, or pull a larger model with `rondo models pull \
         qwen2.5-coder-1.5b`"
    )
}

/// The sentence about a model that computes in the process of the server.
pub(crate) fn slow_model_note(model: &str) -> String {
    format!(
        "{model} computes on the processor of the server: the first answer of an app can take a minute, and later \
         ones begin after some seconds"
    )
}

/// The sentence about tools of an app that its model is not offered.
pub(crate) fn app_note(app: &App, tools: &ToolRegistry, models: &ModelRegistry) -> Option<String> {
    let model = models.find(&models.name(app.model.as_deref())?)?;
    let names: Vec<String> = tools.specs().iter().map(|tool| tool.name.clone()).collect();
    if model.capabilities().tools { None } else { tools_note(model.name(), &names) }
}

/// The sentence about tools of an app that this model is not offered, as a server describes both.
pub(crate) fn view_note(app: &AppView, model: &ModelView) -> Option<String> {
    if model.tools { None } else { tools_note(&model.id, &app.tools) }
}

/// The sentence about the default model, if it runs in this process and is small.
pub(crate) fn default_model_note(config: &Config) -> Option<String> {
    let listing = config.listing(config.model.as_deref()?)?;
    let is_small = listing.provider == PROVIDER && small_models(config).contains(&listing.id);
    is_small.then(|| small_model_note(&listing.name))
}

/// The small chat models that this process can run: the known one, and pulled ones of few bytes.
pub(crate) fn small_models(config: &Config) -> BTreeSet<String> {
    let pulled = config.pulled.iter().filter(|model| model.kind == WeightsKind::Chat);
    let small = pulled.filter(|model| model.bytes < SMALL_MODEL_BYTES).map(|model| model.name.clone());
    small.chain([DEFAULT_CHAT.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_first_tools_and_counts_the_others() {
        assert_eq!(tools_note::<&str>("small", &[]), None);
        let note = tools_note("small", &["a", "b"]).unwrap();
        assert!(
            note.starts_with("small is not offered tools, so these are off: a, b; use another"),
            "{note}"
        );
        assert!(note.ends_with("write tools = true into [models.\"small\"] of rondo.toml"), "{note}");
        let note = tools_note("small", &["a", "b", "c", "d", "e", "f", "g"]).unwrap();
        assert!(note.contains("are off: a, b, c, d, e and 2 more; "), "{note}");
    }
}
