//! Which providers answer, and whether they serve the models that will be asked for.

use std::collections::BTreeMap;

use app::Apps;
use futures_util::future::join_all;
use jiff::civil::Date;
use model::{MODEL_CHOICES, Model, ModelRegistry, ProviderWire};

use super::{Diagnosis, PATIENCE};
use crate::config::{Config, ProviderConfig};
use crate::provider_models::{self, ModelOffer};
use crate::terminal_text::count_of;
use crate::{catalogue, embedded_apps, model_limits, service_setup};

/// Model names shown when the one asked for is not among them.
const MAX_NAMES: usize = 8;

pub(super) async fn check(config: &Config, apps: &Apps) -> Vec<Diagnosis> {
    if config.models.is_empty() && config.providers.is_empty() {
        let missing = config.missing_default().unwrap_or_else(|| "none is configured".to_owned());
        return vec![Diagnosis::Bad(format!("model: {missing}; {MODEL_CHOICES}"))];
    }
    let registry = match service_setup::registry(config) {
        Ok(registry) => registry,
        Err(trouble) => return vec![Diagnosis::Bad(trouble.to_string())],
    };
    let offers = join_all(config.providers.iter().map(|provider| offer(config, provider))).await;
    let offers: Vec<(&ProviderConfig, ModelOffer)> = config.providers.iter().zip(offers).collect();
    let mut findings: Vec<Diagnosis> =
        offers.iter().map(|(provider, offer)| answer(provider, offer)).collect();
    let wanted = requested_models(config, apps);
    findings.extend(wanted.iter().filter_map(|(name, by)| serves(name, by.as_deref(), &registry, &offers)));
    if wanted.is_empty() {
        findings.push(Diagnosis::Bad("model: there is no default; choose one with RONDO_MODEL".into()));
    }
    findings.extend(limits(config, apps, &registry));
    findings
}

/// The weaknesses of the default model. Tools of apps whose folders were read are told of there.
fn limits(config: &Config, apps: &Apps, registry: &ModelRegistry) -> Vec<Diagnosis> {
    let default = config.model.as_deref().and_then(|name| registry.find(name));
    let without_tools = default
        .filter(|model| !model.capabilities().tools && apps.is_empty() && embedded_apps::are_used(config));
    let off = without_tools
        .and_then(|model| model_limits::tools_note(model.name(), &["the tools of the built-in apps"]));
    let notes = off.into_iter().chain(model_limits::default_model_note(config));
    notes.map(|note| Diagnosis::Note(format!("model: {note}"))).collect()
}

/// The age of the catalogue of models, and the models in use that end.
pub(super) fn catalogue_findings(config: &Config, apps: &Apps, today: Date) -> Vec<Diagnosis> {
    let knowledge = &config.knowledge;
    let origin = format!("known models: {}", knowledge.origin());
    let fresh = match &knowledge.problem {
        Some(problem) => Diagnosis::Bad(format!("known models: {problem}")),
        None if knowledge.is_old(today) => Diagnosis::Note(format!(
            "{origin}; that is old, and `rondo models update` installs a newer catalogue"
        )),
        None => Diagnosis::Good(origin),
    };
    let ending = catalogue::ending_models(config, apps, today).into_iter();
    std::iter::once(fresh).chain(ending.map(|end| Diagnosis::Note(format!("model {end}")))).collect()
}

async fn offer(config: &Config, provider: &ProviderConfig) -> ModelOffer {
    if provider.wire.is_some() {
        return provider_models::ask(provider, PATIENCE).await;
    }
    ModelOffer::Models(config.pulled.iter().map(|model| model.name.clone()).collect())
}

fn answer(provider: &ProviderConfig, offer: &ModelOffer) -> Diagnosis {
    let (name, base) = (&provider.name, &provider.base_url);
    match offer {
        ModelOffer::Models(ids) => {
            Diagnosis::Good(format!("provider {name}: {base} lists {}", count_of(ids.len(), "model")))
        }
        ModelOffer::NoList(status) => Diagnosis::Note(format!(
            "provider {name}: {base} answers, but does not list its models ({status})"
        )),
        ModelOffer::Refused(status) if provider.api_key.is_some() => Diagnosis::Bad(format!(
            "provider {name}: {base} refused the key ({status}); check {}, or the file or variable that \
             rondo.toml names instead",
            provider.key_setting()
        )),
        ModelOffer::Refused(status) => Diagnosis::Bad(format!(
            "provider {name}: {base} asks for a key ({status}); set {}",
            provider.key_setting()
        )),
        ModelOffer::Nobody(reason) => Diagnosis::Bad(format!(
            "provider {name}: {base} cannot be reached ({reason}); is it running, and is {} right?",
            provider.url_setting()
        )),
    }
}

/// The models that will be asked for, each with an app that names it, if one does.
fn requested_models(config: &Config, apps: &Apps) -> BTreeMap<String, Option<String>> {
    let mut wanted = BTreeMap::new();
    for app in apps.values() {
        for name in catalogue::models_of_app(app) {
            wanted.insert(name.clone(), Some(app.id.to_string()));
        }
    }
    let all_named = !apps.is_empty() && apps.values().all(|app| app.model.is_some());
    if let Some(default) = config.model.as_ref().filter(|_| !all_named) {
        wanted.entry(default.clone()).or_insert(None);
    }
    wanted
}

/// None when its provider could not say, which is told of the provider already.
fn serves(
    name: &str,
    named_by: Option<&str>,
    registry: &ModelRegistry,
    offers: &[(&ProviderConfig, ModelOffer)],
) -> Option<Diagnosis> {
    let by = named_by.map_or_else(|| "it is the default".to_owned(), |app| format!("app {app} names it"));
    let Some(model) = registry.find(name) else {
        let remedy =
            format!("add [models.{name:?}] to rondo.toml, or choose one of {}", model_names(registry));
        return Some(Diagnosis::Bad(format!("model {name}: no provider serves it, although {by}; {remedy}")));
    };
    let (provider, offer) = offers.iter().find(|(provider, _)| provider.name == model.listing.provider)?;
    match offer {
        ModelOffer::Models(ids)
            if ids.is_empty() || provider_models::list_has_model(ids, &model.listing.id) =>
        {
            Some(Diagnosis::Good(format!("model {name}: served by {}", provider.name)))
        }
        ModelOffer::Models(ids) => Some(unlisted_model(&model, provider, ids, named_by.is_some())),
        ModelOffer::NoList(_) | ModelOffer::Refused(_) | ModelOffer::Nobody(_) => None,
    }
}

/// A provider's list need not be complete, so a default that no app names may still answer.
fn unlisted_model(model: &Model, provider: &ProviderConfig, ids: &[String], named: bool) -> Diagnosis {
    let (name, id) = (model.name(), &model.listing.id);
    let text = format!("model {name}: {} does not list {id}, but {}", provider.name, first_names(ids));
    if provider.wire == Some(ProviderWire::Ollama) {
        return Diagnosis::Bad(format!("{text}; get it with `ollama pull {id}`"));
    }
    if named {
        return Diagnosis::Bad(format!("{text}; correct the app's app.toml, or id in [models.{name:?}]"));
    }
    Diagnosis::Note(format!("{text}; choose one of them with RONDO_MODEL if it does not answer"))
}

fn first_names(names: &[String]) -> String {
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    shown.join(", ") + more
}

fn model_names(registry: &ModelRegistry) -> String {
    first_names(&registry.list().map(|model| model.name().to_owned()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn finding_lines(findings: &[Diagnosis]) -> Vec<String> {
        let text = |finding: &Diagnosis| match finding {
            Diagnosis::Good(text) => format!("ok {text}"),
            Diagnosis::Note(text) => format!("note {text}"),
            Diagnosis::Bad(text) => format!("BAD {text}"),
        };
        findings.iter().map(text).collect()
    }

    /// Days are counted from the one on which the catalogue was checked, not from today.
    #[test]
    fn models_that_end_are_noted_and_an_old_catalogue_is_said_to_be_old() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rondo.toml");
        let text = "model = 'claude-sonnet-4-5'\n[embeddings]\nprovider = 'openai'\nmodel = 'text-embedding-3-small'";
        std::fs::write(&file, text).unwrap();
        let environment = |name: &str| match name {
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" => Some("sk-1".to_owned()),
            "RONDO_DATA" => Some(folder.path().display().to_string()),
            _ => None,
        };
        let config = config::load(Some(&file), &environment).unwrap();
        let checked = config.knowledge.catalogue.checked_on;
        let found = finding_lines(&catalogue_findings(&config, &Apps::new(), checked));
        assert_eq!(found[0], format!("ok known models: as of {checked}, built in"));
        assert_eq!(
            found[1..],
            ["note model claude-sonnet-4-5 retires on 2026-11-30: choose claude-sonnet-5-5"]
        );
        let later = checked.checked_add(jiff::Span::new().days(400)).unwrap();
        let found = finding_lines(&catalogue_findings(&config, &Apps::new(), later));
        assert!(found[0].starts_with("note known models: ") && found[0].contains("that is old"), "{found:?}");
        let over = "note model claude-sonnet-4-5 was retired on 2026-11-30: choose claude-sonnet-5-5";
        assert_eq!(found[1..], [over]);
    }
}
