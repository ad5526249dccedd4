//! Which catalogue of models is used, and what it says of those that are not listed.

use super::*;

const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-1");

/// The built-in catalogue as of another day.
fn as_of(day: &str) -> String {
    let text = include_str!("../../../../model/src/known.toml");
    let (head, rest) = text.split_once("checked_on = \"").unwrap();
    format!("{head}checked_on = \"{day}{}", rest.split_at(10).1)
}

fn with_file(text: &str) -> Config {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("catalogue.toml"), text).unwrap();
    read("", &[KEY, ("RONDO_DATA", data.path().to_str().unwrap())]).unwrap()
}

#[test]
fn a_newer_catalogue_in_the_data_folder_is_used_in_place_of_the_built_in_one() {
    let newer = as_of("2027-02-01").replace("openai = \"gpt-6-luna\"", "openai = \"gpt-6-sol\"");
    let config = with_file(&newer);
    assert_eq!(config.knowledge.problem, None);
    assert_eq!(config.model.as_deref(), Some("gpt-6-sol"), "its defaults count");
    assert!(config.listing("gpt-5").is_none(), "what has ended by its day is not listed");
    let older = as_of("2026-01-01").replace("openai = \"gpt-6-luna\"", "openai = \"gpt-6-sol\"");
    assert_eq!(with_file(&older).model.as_deref(), Some("gpt-6-luna"));
}

#[test]
fn a_catalogue_that_cannot_be_used_is_told_of_and_changes_nothing() {
    for wrong in ["", "format = 2", "format = 1\nmodels = 3", &as_of("2027-13-01")] {
        let config = with_file(wrong);
        let problem = config.knowledge.problem.clone().unwrap();
        assert!(problem.contains("catalogue.toml: ") && problem.contains("built-in"), "{problem}");
        assert_eq!(config.model.as_deref(), Some("gpt-6-luna"));
    }
}

#[test]
fn a_model_that_nobody_listed_is_asked_of_the_provider_of_its_family() {
    let both = [KEY, ("MISTRAL_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")];
    let config = read("model = 'mistral-huge-9'", &both).unwrap();
    let listing = config.listing("mistral-huge-9").unwrap();
    assert_eq!((listing.provider.as_str(), listing.price), ("mistral", None));
    let config = read("model = 'claude-ode-9'", &both).unwrap();
    let listing = config.listing("claude-ode-9").unwrap();
    assert_eq!((listing.provider.as_str(), listing.capabilities.context_window), ("anthropic", 200_000));
    assert!(!listing.capabilities.sampling && listing.capabilities.vision);
}
