//! Which models are listed, what is said of each, and which is the default.

use model::{Price, SchemaSupport, Tokens};
use serde_json::json;

use super::*;

const LAN: &str = "[providers.lan]\nbase_url = 'http://10.0.0.5/v1'\n";
const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-1");

fn names(config: &Config) -> Vec<&str> {
    config.models.iter().map(|listing| listing.name.as_str()).collect()
}

#[test]
fn known_models_are_listed_where_the_provider_is_where_everybody_knows_it() {
    let config = read("", &[KEY, ("ANTHROPIC_API_KEY", "sk-2")]).unwrap();
    let catalogue = model::Catalogue::built_in();
    let ours = |model: &&known_models::KnownModel| ["openai", "anthropic"].contains(&model.provider.as_str());
    let known: Vec<&str> = catalogue.current_models().filter(ours).map(|model| model.name.as_str()).collect();
    assert_eq!(names(&config), known);
    let luna = config.listing("gpt-6-luna").unwrap();
    assert_eq!((luna.capabilities.context_window, luna.price.unwrap().output), (1_050_000, 0.5));

    let elsewhere = read("", &[KEY, ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")]).unwrap();
    assert_eq!(names(&elsewhere), ["gpt-6-luna"], "only the default");
    let luna = elsewhere.listing("gpt-6-luna").unwrap();
    assert_eq!((luna.capabilities.context_window, luna.price), (128_000, None), "nothing is known of it");
    let handed_on = "[providers.openai]\nprices = 'known'";
    let handed_on = read(handed_on, &[KEY, ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")]).unwrap();
    let luna = handed_on.listing("gpt-6-luna").unwrap();
    assert_eq!(
        (luna.capabilities.context_window, luna.price.unwrap().output),
        (1_050_000, 0.5),
        "the same models"
    );
}

#[test]
fn an_entry_says_what_is_different() {
    let text = r#"[models."gpt-5.4-mini"]
id = "gpt-5.4-mini-2026-03-17"
structured = "alone"
context_window = 9000
max_output = 1000
tokens = "cl100k"
streaming = false
vision = false
sampling = false
thinking = false
tool_calls_in_text = true
price = { input = 1, output = 2.5 }
extra = { seed = 7, stop = ["x"], nested = { deep = true } }
[models.other]
provider = "openai"
"#;
    let config = read(text, &[KEY]).unwrap();
    let expected = Listing {
        name: "gpt-5.4-mini".into(),
        provider: "openai".into(),
        id: "gpt-5.4-mini-2026-03-17".into(),
        kind: ProviderKind::Cloud,
        capabilities: Capabilities {
            most_tools: None,
            streaming: false,
            tools: true,
            structured: SchemaSupport::Alone,
            vision: false,
            sampling: false,
            thinking: false,
            calls_in_text: true,
            context_window: 9000,
            max_output: Some(1000),
            tokens: Some(Tokens::Cl100k),
        },
        price: Some(Price::flat(1.0, 1.0, 2.5)),
        extra: json!({"seed": 7, "stop": ["x"], "nested": {"deep": true}}).as_object().unwrap().clone(),
    };
    assert_eq!(config.listing("gpt-5.4-mini"), Some(&expected));
    let other = config.listing("other").unwrap();
    assert_eq!((other.id.as_str(), &other.capabilities), ("other", &config.providers[0].capabilities));
    assert_eq!(names(&config).iter().filter(|name| **name == "gpt-5.4-mini").count(), 1, "listed once");
}

#[test]
fn an_entry_keeps_what_is_known_and_prices_are_its_own() {
    let config = read("[models.fast]\nprovider = 'openai'\nid = 'gpt-5.4-nano'\nprice = { input = 0, cached_input = 0, output = 0 }", &[KEY]).unwrap();
    let fast = config.listing("fast").unwrap();
    assert_eq!((fast.capabilities.context_window, fast.capabilities.max_output), (400_000, Some(128_000)));
    assert_eq!(fast.price, Some(Price::flat(0.0, 0.0, 0.0)));
    let config = read("[models.fast]\nprovider = 'openai'\nid = 'gpt-5.4-nano'", &[KEY]).unwrap();
    assert_eq!(config.listing("fast").unwrap().price.unwrap().input, 0.2);
}

#[test]
fn what_runs_locally_is_offered_no_tools_unless_it_says_so() {
    let tools = |entry: &str| {
        let config = read(&format!("{LAN}[models.m]\n{entry}"), &[]).unwrap();
        config.listing("m").unwrap().capabilities.tools
    };
    assert!(tools(""), "a cloud provider's model");
    assert!(!tools("kind = 'local'"));
    assert!(tools("kind = 'local'\ntools = true"));
    let ollama = |section: &str, entry: &str| {
        let config = read(&format!("[providers.ollama]\n{section}\n[models.m]\n{entry}"), &[]).unwrap();
        config.listing("m").unwrap().capabilities.tools
    };
    assert!(!ollama("", ""));
    assert!(ollama("", "tools = true"));
    assert!(ollama("", "kind = 'cloud'"));
    assert!(ollama("tools = true", ""), "its provider says so for all of its models");
}

#[test]
fn who_serves_a_model_may_be_left_out_where_it_is_clear() {
    let provider = |text: &str, pairs: &[(&str, &str)], name: &str| {
        read(text, pairs).map(|config| config.listing(name).unwrap().provider.clone())
    };
    assert_eq!(provider(&format!("{LAN}[models.qwen]"), &[], "qwen"), Ok("lan".into()), "the only one");
    let entry = format!("{LAN}[models.gpt-99]");
    assert_eq!(provider(&entry, &[KEY], "gpt-99"), Ok("openai".into()), "its name says so");
    let unclear = provider(&format!("{LAN}[models.qwen]"), &[KEY], "qwen");
    assert_eq!(
        unclear,
        Err("rondo.toml:3:9: the provider of the model \"qwen\" is not named; add provider = …, one of \
             openai, lan"
            .into())
    );
}

#[test]
fn the_default_is_one_that_is_served() {
    let default = |text: &str, pairs: &[(&str, &str)]| read(text, pairs).map(|config| config.model);
    assert_eq!(default(&format!("{LAN}[models.qwen]"), &[]), Ok(Some("qwen".into())), "a listed one");
    assert_eq!(default("model = 'm'", &[]), Ok(Some("m".into())), "nobody can say yet");
    assert_eq!(default("model = 'lan/qwen'", &[KEY]), Ok(Some("lan/qwen".into())), "openai is asked");
    let closed = format!("model = 'other'\n{LAN}open = false\n[models.qwen]");
    let refused = "no provider serves the model \"other\"; add [models.\"other\"], or choose one of qwen";
    assert_eq!(default(&closed, &[]), Err(format!("rondo.toml:1:9: {refused}")));
    assert_eq!(default(&closed, &[("RONDO_MODEL", "qwen")]), Ok(Some("qwen".into())));
    assert_eq!(default(&closed, &[("RONDO_MODEL", "x")]).unwrap_err().split(':').next(), Some("RONDO_MODEL"));
    let closed = "model = 'gpt-9'\n[providers.openai]\nopen = false\n[providers.ollama]";
    let refused =
        "no provider serves the model \"gpt-9\"; add [models.\"gpt-9\"], or open = true to its provider";
    let elsewhere = [KEY, ("OPENAI_BASE_URL", "http://h/v1")];
    assert_eq!(
        default(closed, &elsewhere),
        Err(format!("rondo.toml:1:9: {refused}")),
        "its name leads to openai"
    );
    let closed = "[providers.openai]\nopen = false\n[models.mine]\nprovider = 'openai'";
    assert_eq!(
        default(closed, &elsewhere),
        Ok(Some("mine".into())),
        "not the known one, which is not served"
    );
}

#[test]
fn a_path_names_the_provider_of_the_default() {
    let config = read(&format!("model = 'lan/qwen'\n{LAN}"), &[KEY]).unwrap();
    let listing = config.listing("lan/qwen").unwrap();
    assert_eq!((listing.provider.as_str(), listing.id.as_str()), ("lan", "qwen"));
}

#[test]
fn embeddings_have_a_provider_a_model_and_perhaps_dimensions() {
    let embeddings = |text: &str, pairs: &[(&str, &str)]| read(text, pairs).map(|config| config.embeddings);
    let text = "[embeddings]\nprovider = 'openai'\nmodel = 'text-embedding-3-small'\n";
    let expected =
        Embeddings { provider: "openai".into(), model: "text-embedding-3-small".into(), dimensions: None };
    assert_eq!(embeddings(text, &[KEY]), Ok(Some(expected.clone())));
    let few = format!("{text}dimensions = 256");
    assert_eq!(embeddings(&few, &[KEY]), Ok(Some(Embeddings { dimensions: Some(256), ..expected })));
    assert_eq!(embeddings("", &[KEY]), Ok(None));
    assert!(embeddings(text, &[]).unwrap_err().contains("the provider \"openai\" is not configured"));
    assert!(embeddings(&format!("{text}dimensions = 0"), &[KEY]).unwrap_err().contains("from 1 to 65536"));
    let anthropic = "[embeddings]\nprovider = 'anthropic'\nmodel = 'm'";
    assert_eq!(
        embeddings(anthropic, &[("ANTHROPIC_API_KEY", "k")]),
        Err("rondo.toml:2:12: the provider \"anthropic\" has no embeddings; name another provider".into())
    );
}

#[test]
fn mistakes_in_a_model_are_refused_with_place_and_remedy() {
    for (entry, expected) in [
        (
            "provider = 'anthropic'",
            "2:12: the provider \"anthropic\" is not configured; set ANTHROPIC_API_KEY, or name one of openai",
        ),
        (
            "provider = 'lan'",
            "2:12: the provider \"lan\" is not configured; add [providers.lan], or name one of openai",
        ),
        ("id = ''", "2:6: the text is empty; write a value, or remove the line to get the default"),
        ("kind = 'edge'", "2:8: models.m.kind is \"edge\"; write \"cloud\" or \"local\""),
        (
            "structured = 'never'",
            "2:14: models.m.structured is \"never\"; write \"with_tools\" or \"alone\" or \"prompt\"",
        ),
        (
            "context_window = 1",
            "2:18: models.m.context_window is 1; write a whole number from 1024 to 100000000",
        ),
        ("max_output = -1", "2:14: models.m.max_output is -1; write a whole number from 1 to 100000000"),
        (
            "price = { input = -1, output = 1 }",
            "2:19: models.m.price.input is -1; write a number from 0 to 10000",
        ),
        (
            "price = { input = 1, output = nan }",
            "2:31: models.m.price.output is NaN; write a number from 0 to 10000",
        ),
        (
            "price = { input = 1, cached_input = 20000, output = 1 }",
            "2:37: models.m.price.cached_input is 20000; write a number from 0 to 10000",
        ),
        ("tols = true", "2:1: unknown key \"tols\"; did you mean \"tools\"?"),
        ("extra = 3", "2:9: extra is an integer 3, of the wrong type; write a map"),
    ] {
        assert_eq!(read(&format!("[models.m]\n{entry}"), &[KEY]), Err(format!("rondo.toml:{expected}")));
    }
    let alone = read("[models.m]\nprovider = 'openai'", &[]).unwrap_err();
    let expected = "rondo.toml:2:12: the provider \"openai\" is not configured; set OPENAI_API_KEY";
    assert_eq!(alone, expected);
    let alone = read("[models.m]", &[]).unwrap_err();
    let remedy = "configure a provider first, such as with OPENAI_API_KEY";
    assert_eq!(alone, format!("rondo.toml:1:9: the provider of the model \"m\" is not named; {remedy}"));
}
