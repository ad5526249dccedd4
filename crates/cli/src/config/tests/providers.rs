//! Which providers are on, where they answer and with which key.

use model::{AnthropicVersion, Prices};

use super::*;

/// The names of the providers that are on, and the default model.
fn on(text: &str, pairs: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
    let config = read(text, pairs).unwrap();
    (config.providers.into_iter().map(|provider| provider.name).collect(), config.model)
}

fn only(text: &str, pairs: &[(&str, &str)]) -> ProviderConfig {
    let mut providers = read(text, pairs).unwrap().providers;
    assert_eq!(providers.len(), 1, "{providers:?}");
    providers.remove(0)
}

#[test]
fn a_key_or_a_base_url_turns_a_provider_on() {
    let none = (Vec::new(), None);
    let one = |name: &str, model: Option<&str>| (vec![name.to_owned()], model.map(str::to_owned));
    let openai = one("openai", Some("gpt-6-luna"));
    assert_eq!(on("", &[]), none);
    assert_eq!(on("", &[("OPENAI_API_KEY", "sk-1")]), openai);
    assert_eq!(on("", &[("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")]), openai);
    assert_eq!(on("[providers.openai]\nidle_timeout_seconds = 5", &[]), none, "a section is no key");
    assert_eq!(on("model = 'm'", &[("OPENAI_API_KEY", "sk-1")]), one("openai", Some("m")));
    assert_eq!(on("", &[("ANTHROPIC_API_KEY", "sk-1")]), one("anthropic", Some("claude-sonnet-5-5")));
    assert_eq!(on("", &[("GEMINI_API_KEY", "k")]), one("gemini", Some("gemini-3.8-flash")));
    assert_eq!(on("", &[("GROQ_API_KEY", "k")]), one("groq", Some("openai/gpt-oss-120b")));
    assert_eq!(on("", &[("OPENROUTER_API_KEY", "k")]), one("openrouter", None));
    assert_eq!(on("", &[("OLLAMA_HOST", "box:1")]), one("ollama", None));
    assert_eq!(on("[providers.ollama]", &[]), one("ollama", None), "no key is asked for");
    assert_eq!(on("[providers.lan]\nbase_url = 'http://10.0.0.5/v1'", &[]), one("lan", None));
    let both = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "b")];
    assert_eq!(on("", &both), (vec!["openai".into(), "anthropic".into()], Some("gpt-6-luna".into())));
}

#[test]
fn a_known_provider_can_be_changed_in_every_part() {
    let text = "[providers.anthropic]
wire = 'anthropic-2023-06-01'
kind = 'local'
open = false
prices = 'known'
streaming = false
tools = true
structured = 'prompt'
context_window = 2000
max_output = 1000
connect_timeout_seconds = 1
first_byte_timeout_seconds = 2
idle_timeout_seconds = 3
total_timeout_seconds = 4";
    let expected = ProviderConfig {
        name: "anthropic".into(),
        wire: Some(ProviderWire::Anthropic(AnthropicVersion::V2023)),
        kind: ProviderKind::Local,
        base_url: "https://api.anthropic.com/v1".into(),
        api_key: ConfigSecret::new("sk-1"),
        open: false,
        capabilities: Capabilities {
            streaming: false,
            tools: true,
            structured: model::SchemaSupport::Prompt,
            context_window: 2000,
            max_output: Some(1000),
            ..Capabilities::of_kind(ProviderKind::Local)
        },
        timeouts: Timeouts {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(2),
            idle: Duration::from_secs(3),
            total: Duration::from_secs(4),
        },
        prices: Some(Prices::Known),
    };
    assert_eq!(only(text, &[("ANTHROPIC_API_KEY", "sk-1")]), expected);
}

#[test]
fn a_provider_of_ones_own_speaks_chat_in_the_cloud_unless_it_says_otherwise() {
    let own = only("[providers.lan]\nbase_url = 'http://10.0.0.5:8000/v1/'", &[]);
    let expected = ProviderConfig {
        name: "lan".into(),
        base_url: "http://10.0.0.5:8000/v1".into(),
        wire: Some(ProviderWire::Chat),
        capabilities: Capabilities::of_kind(ProviderKind::Cloud),
        ..ProviderConfig::of(known_models::provider("openai").unwrap())
    };
    assert_eq!(own, expected);
    let other = only("[providers.box]\nwire = 'ollama'\nbase_url = 'box'", &[]);
    assert_eq!((other.kind, other.base_url.as_str()), (ProviderKind::Local, "http://box:11434"));
    assert!(!other.capabilities.tools && other.api_key.is_none());
}

#[test]
fn openai_speaks_responses_at_home_and_is_taken_to_speak_chat_elsewhere() {
    let key = ("OPENAI_API_KEY", "sk-1");
    let wire = |text: &str, pairs: &[(&str, &str)]| only(text, pairs).wire;
    assert_eq!(wire("", &[key]), Some(ProviderWire::Responses), "it takes tools while a model thinks");
    assert_eq!(
        wire("", &[key, ("OPENAI_BASE_URL", "https://api.openai.com/v1/")]),
        Some(ProviderWire::Responses)
    );
    assert_eq!(wire("", &[key, ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]), Some(ProviderWire::Chat));
    assert_eq!(
        wire("[providers.openai]\nwire = 'chat'", &[key]),
        Some(ProviderWire::Chat),
        "who says so is heard"
    );
}

#[test]
fn base_urls_are_written_as_their_tools_write_them() {
    for (variable, given, expected) in [
        ("OPENAI_BASE_URL", "http://h:1/v1/", "http://h:1/v1"),
        ("OPENAI_BASE_URL", "http://h:1", "http://h:1"),
        ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("ANTHROPIC_BASE_URL", "http://h:1/anthropic/v1", "http://h:1/anthropic/v1"),
        ("GEMINI_BASE_URL", "http://h/x", "http://h/x"),
        ("OLLAMA_HOST", "127.0.0.1", "http://127.0.0.1:11434"),
        ("OLLAMA_HOST", "box:8080", "http://box:8080"),
        ("OLLAMA_HOST", "0.0.0.0:11434", "http://127.0.0.1:11434"),
        ("OLLAMA_HOST", "https://ollama.example.com/", "https://ollama.example.com"),
    ] {
        assert_eq!(only("", &[(variable, given)]).base_url, expected, "{variable}={given}");
    }
    let chat = only("[providers.ollama]\nwire = 'chat'", &[("OLLAMA_HOST", "http://box:1/v1")]);
    assert_eq!((chat.wire, chat.base_url.as_str()), (Some(ProviderWire::Chat), "http://box:1/v1"));
    let of = |variable: &str, url: &str| read("", &[(variable, url)]).unwrap_err();
    assert_eq!(
        of("OLLAMA_HOST", "http://127.0.0.1:11434/v1"),
        "OLLAMA_HOST: Ollama's own API is not under /v1; leave out /v1, or write wire = \"chat\" in \
         [providers.ollama]"
    );
    assert_eq!(
        of("OLLAMA_HOST", "http://a:b@box"),
        "OLLAMA_HOST: the base URL contains more than a host and a path; write it as in http://127.0.0.1:11434"
    );
    assert!(of("ANTHROPIC_BASE_URL", "api.anthropic.com").contains("not an http or https URL"));
}

#[test]
fn a_key_comes_from_the_variable_named_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "sk-file\n").unwrap();
    let section = "base_url = 'http://h/v1'\napi_key_env = 'MINE'";
    for name in ["openai", "lan"] {
        fs::write(&file, "sk-file\n").unwrap();
        let text = format!("[providers.{name}]\n{section}\napi_key_file = {:?}", file.display().to_string());
        let key = |pairs: &[(&str, &str)]| {
            read(&text, pairs).map(|config| config.provider(name).unwrap().api_key.clone())
        };
        assert_eq!(
            key(&[("MINE", "sk-mine"), ("OPENAI_API_KEY", "sk-other")]),
            Ok(ConfigSecret::new("sk-mine"))
        );
        assert_eq!(key(&[]), Ok(ConfigSecret::new("sk-file")));
        fs::write(&file, "two\nlines").unwrap();
        let message = "this is not a key: it is empty, or contains spaces or line breaks; write only the key";
        assert_eq!(key(&[]), Err(format!("{}: {message}", file.display())));
        assert_eq!(key(&[("MINE", "a b")]), Err(format!("MINE: {message}")));
        fs::remove_file(&file).unwrap();
        let missing = "there is no such file; create it, or correct the line that names it";
        assert_eq!(key(&[]), Err(format!("{}: {missing}", file.display())));
    }
    let none = only("[providers.lan]\nbase_url = 'http://h/v1'", &[("OPENAI_API_KEY", " ")]);
    assert_eq!(none.api_key, None);
}

#[test]
fn mistakes_in_a_provider_are_refused_with_place_and_remedy() {
    let url = "write it as in https://api.openai.com/v1";
    for (section, expected) in [
        ("[providers.azure]", "1:12: the base URL of the provider \"azure\" is not known; add its base_url, or use one of openai, anthropic, gemini, openrouter, mistral, groq, deepseek, ollama".into()),
        ("[providers.'a/b']\nbase_url = 'http://h'", "1:12: a provider cannot be called \"a/b\"; write a name without a slash".into()),
        ("[providers.openai]\nwire = 'completions'", "2:8: providers.openai.wire is \"completions\"; write \"chat\" or \"responses\" or \"anthropic-2023-06-01\" or \"anthropic\" or \"ollama\"".into()),
        ("[providers.openai]\nkind = 'here'", "2:8: providers.openai.kind is \"here\"; write \"cloud\" or \"local\"".into()),
        ("[providers.openai]\nstructured = 'yes'", "2:14: providers.openai.structured is \"yes\"; write \"with_tools\" or \"alone\" or \"prompt\"".into()),
        ("[providers.openai]\nopen = 1", "2:8: open is an integer 1, of the wrong type; write true or false".into()),
        ("[providers.openai]\ntotal_timeout_seconds = 4000", "2:25: providers.openai.total_timeout_seconds is 4000; write a whole number from 1 to 3600".into()),
        ("[providers.openai]\ncontext_window = 10", "2:18: providers.openai.context_window is 10; write a whole number from 1024 to 100000000".into()),
        ("[providers.openai]\nmax_output = 0", "2:14: providers.openai.max_output is 0; write a whole number from 1 to 100000000".into()),
        ("[providers.openai]\nbase_url = 'ftp://x'", format!("2:12: the base URL is not an http or https URL; {url}")),
        ("[providers.openai]\nbase_url = 'http://a:b@x/'", format!("2:12: the base URL contains more than a host and a path; {url}")),
        ("[providers.openai]\nbase_url = 'http://x/v1?key=1'", format!("2:12: the base URL contains more than a host and a path; {url}")),
        ("[providers.openai]\napi_key_env = 'MINE'", "2:15: the environment variable MINE is not set; set it, or remove this line".into()),
        ("[providers.openai]\nurl = 'x'", "2:1: unknown key \"url\"; the keys here are wire, base_url, api_key_env, api_key_file, kind, open, prices, streaming, tools, structured, context_window, max_output, connect_timeout_seconds, first_byte_timeout_seconds, idle_timeout_seconds, total_timeout_seconds".into()),
    ] {
        assert_eq!(read(section, &[]), Err(format!("rondo.toml:{expected}")));
    }
}

#[test]
fn prices_are_known_at_the_own_url_nothing_on_this_machine_and_elsewhere_as_the_operator_says() {
    const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-1");
    let prices = |text: &str, pairs: &[(&str, &str)]| only(text, pairs).prices();
    assert_eq!(prices("", &[KEY]), Prices::Known);
    assert_eq!(prices("", &[KEY, ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")]), Prices::Unknown);
    assert_eq!(
        prices("[providers.openai]\nprices = 'known'", &[("OPENAI_BASE_URL", "http://h/v1")]),
        Prices::Known
    );
    for host in ["127.0.0.1", "localhost", "[::1]:11434", "127.1.2.3:80"] {
        assert_eq!(prices("", &[("OLLAMA_HOST", host)]), Prices::Free, "{host}");
    }
    for host in ["https://ollama.example.com", "10.0.0.5", "localhost.example.com"] {
        assert_eq!(prices("", &[("OLLAMA_HOST", host)]), Prices::Unknown, "{host}");
    }
    let lan = "[providers.lan]\nbase_url = 'http://10.0.0.5/v1'\nkind = 'local'\n";
    assert_eq!(prices(lan, &[]), Prices::Unknown);
    assert_eq!(prices(&format!("{lan}prices = 'free'"), &[]), Prices::Free);
    let wrong = read(&format!("{lan}prices = 'cheap'"), &[]).unwrap_err();
    assert_eq!(wrong, "rondo.toml:4:10: providers.lan.prices is \"cheap\"; write \"known\" or \"free\"");
}

#[test]
fn a_model_s_price_is_its_own_or_its_provider_s() {
    let elsewhere = [("OPENAI_BASE_URL", "http://gateway/v1")];
    let price = |text: &str| {
        let config = read(text, &elsewhere).unwrap();
        let listed = config.listing(config.model.as_deref().unwrap()).unwrap().price;
        listed.map(|price| price.input)
    };
    let catalogue = model::Catalogue::built_in();
    let default = catalogue.default_model("openai").unwrap();
    let list = catalogue.list_price("openai", default).unwrap().input;
    assert_eq!(price(""), None);
    assert_eq!(price("[providers.openai]\nprices = 'known'"), Some(list));
    assert_eq!(price("[providers.openai]\nprices = 'free'"), Some(0.0));
    let entry = "model = 'm'\n[providers.openai]\nprices = 'free'\n[models.m]\n";
    assert_eq!(price(&format!("{entry}price = {{ input = 3, output = 4 }}")), Some(3.0));
    assert_eq!(price(entry), Some(0.0));
}
