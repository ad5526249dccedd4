//! Files and environments, good and bad.

mod egress;
mod knowledge;
mod models;
mod providers;

use std::collections::BTreeMap;
use std::fs;

use super::*;

const NO_DEFAULT: &str = "# no default";

fn variables(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
    let pairs: BTreeMap<String, String> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    move |name| pairs.get(name).cloned()
}

fn read(text: &str, pairs: &[(&str, &str)]) -> Result<Config, String> {
    let source = FileText { file: Path::new("rondo.toml"), text };
    raw::read(source, &variables(pairs)).map_err(|problem| problem.to_string())
}

/// The default file with the chosen lines uncommented.
fn uncommented(choose: impl Fn(&str) -> bool) -> String {
    let key = |line: &&str| {
        line.strip_prefix('#')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '['))
    };
    let line = |line| if key(&line) && choose(line) { line.trim_start_matches('#') } else { line };
    DEFAULT_FILE.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_default_file_says_the_defaults() {
    let text = uncommented(|line| !line.ends_with(NO_DEFAULT));
    assert_eq!(read(&text, &[]), Ok(Config::default()));
    let key = [("OPENAI_API_KEY", "sk-1")];
    assert_eq!(read(&text, &key), read("", &key), "the provider's own defaults");
    assert_eq!(read(DEFAULT_FILE, &[]), Ok(Config::default()), "as it is shipped");
}

#[test]
fn the_default_file_shows_every_key() {
    let text = uncommented(|_| true);
    let raw: raw::Raw = FileText { file: Path::new("rondo.toml"), text: &text }.toml().unwrap();
    let shown = format!("{raw:?}");
    assert!(!shown.contains("None"), "a key is missing: {shown}");
    for section in ["RawProvider {", "RawModel {", "RawPrice {", "RawEmbeddings {", "RawSecret {"] {
        assert!(shown.contains(section), "{section} is missing: {shown}");
    }
    // These tables are read with their defaults, so a missing key is no `None`.
    let file: toml::Table = uncommented(|_| true).parse().unwrap();
    for table in ["pull", "local", "log"] {
        let refused = read(&format!("[{table}]\nzzzz = 1"), &[]).unwrap_err();
        let (_, keys) = refused.split_once("the keys here are ").unwrap();
        for key in keys.split(", ") {
            assert!(file[table].get(key).is_some(), "{table}.{key} is missing");
        }
    }
}

/// A model of which nothing is known.
fn listing(provider: &ProviderConfig, name: &str) -> Listing {
    Listing {
        name: name.into(),
        provider: provider.name.clone(),
        id: name.into(),
        kind: provider.kind,
        capabilities: provider.capabilities.clone(),
        price: None,
        extra: serde_json::Map::new(),
    }
}

#[test]
fn the_environment_beats_the_file() {
    let text = r#"
listen = "127.0.0.1:1"
data = "file-data"
apps = "file-apps"
model = "file-model"
[providers.openai]
base_url = "http://localhost:1/v1/"
context_window = 8000
idle_timeout_seconds = 5
[log]
level = "warn"
format = "json"
"#;
    let usual = ProviderConfig::of(known_models::provider("openai").unwrap());
    let openai = ProviderConfig {
        wire: Some(ProviderWire::Chat),
        base_url: "http://localhost:1/v1".into(),
        timeouts: Timeouts { idle: Duration::from_secs(5), ..Timeouts::default() },
        capabilities: Capabilities { context_window: 8000, ..usual.capabilities.clone() },
        ..usual
    };
    let file = Config {
        listen: "127.0.0.1:1".parse().unwrap(),
        data: "file-data".into(),
        apps: "file-apps".into(),
        model: Some("file-model".into()),
        models: vec![listing(&openai, "file-model")],
        providers: vec![openai.clone()],
        log: LogConfig { level: "warn".into(), format: LogFormat::Json },
        ..Config::default()
    };
    assert_eq!(read(text, &[]), Ok(file.clone()));
    let environment = [
        ("RONDO_LISTEN", "[::1]:2"),
        ("RONDO_DATA", "env-data"),
        ("RONDO_APPS", "env-apps"),
        ("RONDO_MODEL", "env-model"),
        ("RONDO_LOG", "info,agent=debug"),
        ("RONDO_DISCOVER", "false"),
        ("OPENAI_BASE_URL", "https://example.com"),
        ("OPENAI_API_KEY", " sk-1\n"),
    ];
    let both = Config {
        listen: "[::1]:2".parse().unwrap(),
        data: "env-data".into(),
        apps: "env-apps".into(),
        model: Some("env-model".into()),
        models: vec![listing(&openai, "env-model")],
        discover: false,
        providers: vec![ProviderConfig {
            base_url: "https://example.com".into(),
            api_key: ConfigSecret::new("sk-1"),
            ..openai.clone()
        }],
        log: LogConfig { level: "info,agent=debug".into(), format: LogFormat::Json },
        ..Config::default()
    };
    assert_eq!(read(text, &environment), Ok(both));
    let empty: Vec<_> = environment.iter().map(|(name, _)| (*name, " ")).collect();
    assert_eq!(read(text, &empty), Ok(file), "an empty variable is none");
}

#[test]
fn a_secret_is_never_shown() {
    let config = read("", &[("OPENAI_API_KEY", "sk-precious")]).unwrap();
    assert!(!format!("{config:?}").contains("precious"), "{config:?}");
    assert_eq!(config.providers[0].api_key.as_ref().unwrap().expose(), "sk-precious");
}

#[test]
fn mistakes_are_refused_with_place_and_remedy() {
    let address = "write an IP address and a port, such as 127.0.0.1:8787";
    for (text, expected) in [
        ("modle = 'x'", r#"1:1: unknown key "modle"; did you mean "model"?"#.into()),
        ("[provider]", r#"1:2: unknown key "provider"; did you mean "providers"?"#.into()),
        ("[server]\nheartbeat = 1",            r#"2:1: unknown key "heartbeat"; did you mean "heartbeat_seconds"?"#.into()),
        ("listen = 'here'", format!(r#"1:10: "here" is not an address; {address}"#)),
        ("data = ' '", "1:8: the text is empty; write a value, or remove the line to get the default".into()),
        ("[server]\nmax_body_bytes = 1", "2:18: server.max_body_bytes is 1; write a whole number from 1024 to 67108864".into()),
        ("[server]\nwrite_timeout_seconds = 0", "2:25: server.write_timeout_seconds is 0; write a whole number from 1 to 3600".into()),
        ("[server]\nheartbeat_seconds = 61", "2:21: server.heartbeat_seconds is 61; write a whole number from 1 to 60".into()),
        ("[server]\nretention_seconds = 0", "2:21: server.retention_seconds is 0; write a whole number from 1 to 315360000".into()),
        ("[server]\nretention_seconds = 315360001", "2:21: server.retention_seconds is 315360001; write a whole number from 1 to 315360000".into()),
        ("[server]\nmax_streams_per_user = 0", "2:24: server.max_streams_per_user is 0; write a whole number from 1 to 100000".into()),
        ("[log]\nlevel = 'inof'", r#"2:9: "inof" is not a log level; write error, warn, info, debug or trace, or as in "info,agent=debug""#.into()),
        ("[log]\nformat = 'xml'", r#"2:10: format is "xml"; write "text" or "json""#.into()),
    ] {
        assert_eq!(read(text, &[]), Err(format!("rondo.toml:{expected}")));
    }
    assert_eq!(
        read("[server]\ndrain_seconds = -1", &[]),
        Err("rondo.toml:2:17: server.drain_seconds is -1; write a whole number from 0 to 600".into())
    );
    assert_eq!(
        read("", &[("RONDO_DISCOVER", "perhaps")]),
        Err(r#"RONDO_DISCOVER: "perhaps" is neither true nor false; write true or false"#.into())
    );
    assert_eq!(
        read("", &[("RONDO_LISTEN", "80")]),
        Err(format!(r#"RONDO_LISTEN: "80" is not an address; {address}"#))
    );
}

#[test]
fn the_app_of_the_chat_is_named_in_the_file_or_by_a_variable() {
    let chat_app = |text, pairs: &[(&str, &str)]| read(text, pairs).unwrap().server.chat_app;
    let file = "[server]\nchat_app = 'studio'";
    assert_eq!(chat_app("", &[]), None);
    assert_eq!(chat_app(file, &[]).as_deref(), Some("studio"));
    assert_eq!(chat_app(file, &[("RONDO_CHAT_APP", "tutor")]).as_deref(), Some("tutor"));
    assert!(read("[server]\nchat_app = ''", &[]).is_err());
}

#[test]
fn where_others_reach_the_server_is_one_url_or_several() {
    let urls = |text, pairs: &[(&str, &str)]| -> Vec<String> {
        let read = read(text, pairs).unwrap().server.proxying.public_urls;
        read.iter().map(ToString::to_string).collect()
    };
    let one = "[server]\npublic_url = 'https://Agents.example/'";
    assert_eq!(urls("", &[]), [""; 0]);
    assert_eq!(urls(one, &[]), ["https://agents.example"]);
    let several = "[server]\npublic_url = ['https://a.example', 'http://b.example:8080/rondo']";
    assert_eq!(urls(several, &[]), ["https://a.example", "http://b.example:8080/rondo"]);
    let variable = [("RONDO_PUBLIC_URL", "https://c.example, https://d.example,")];
    assert_eq!(urls(several, &variable), ["https://c.example", "https://d.example"]);
    let base = |text, pairs: &[(&str, &str)]| {
        read(text, pairs).unwrap().server.proxying.base_path.map(|path| path.to_string())
    };
    let file = "[server]\nbase_path = '/agents/'";
    assert_eq!(base("", &[]), None);
    assert_eq!(base(file, &[]).as_deref(), Some("/agents"));
    assert_eq!(base(file, &[("RONDO_BASE_PATH", "/a/b")]).as_deref(), Some("/a/b"));
    let trusted = |text, pairs: &[(&str, &str)]| -> Vec<String> {
        let read = read(text, pairs).unwrap().server.proxying.trusted_proxies;
        read.iter().map(ToString::to_string).collect()
    };
    let nets = "[server]\ntrusted_proxies = ['127.0.0.1', '10.0.0.0/8', '::1']";
    assert_eq!(trusted(nets, &[]), ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]);
    assert_eq!(trusted(nets, &[("RONDO_TRUSTED_PROXIES", "10.1.1.1")]), ["10.1.1.1/32"]);
    let mapped = "[server]\ntrusted_proxies = '::ffff:10.0.0.1'";
    assert_eq!(trusted(mapped, &[]), ["10.0.0.1/32"], "as addresses are compared");
}

#[test]
fn a_proxy_described_badly_is_refused_with_place_and_remedy() {
    let url = "write where browsers reach the proxy, such as https://agents.example";
    let address = "write the proxy's address, such as 127.0.0.1 or 10.0.0.0/8";
    for (text, expected) in [
        (
            "public_url = 'agents.example'",
            format!(
                r#"2:14: "agents.example" is not a web address: it does not begin with https:// or http://; {url}"#
            ),
        ),
        (
            "public_url = ['https://a.example', 'ftp://b.example']",
            format!(
                r#"2:14: "ftp://b.example" is not a web address: it does not begin with https:// or http://; {url}"#
            ),
        ),
        (
            "base_path = 'agents'",
            r#"2:13: "agents" is not a path: it does not begin with a slash and a name; write the path at which the proxy serves Rondo, such as /agents"#
                .into(),
        ),
        ("public_url = 5", "2:14: expected a string or a list of strings".into()),
        (
            "trusted_proxies = 'nginx'",
            format!(r#"2:19: "nginx" is neither an IP address nor a network; {address}"#),
        ),
        (
            "trusted_proxies = ['0.0.0.0/0']",
            "2:19: 0.0.0.0/0 is every address, so any client could claim another client's address; write \
             only the addresses of your proxies"
                .into(),
        ),
    ] {
        let refused = read(&format!("[server]\n{text}"), &[]).unwrap_err();
        assert!(refused.starts_with(&format!("rondo.toml:{expected}")), "{refused}");
    }
    let refused = read("", &[("RONDO_PUBLIC_URL", "https://")]).unwrap_err();
    assert!(refused.starts_with("RONDO_PUBLIC_URL: "), "{refused}");
}

#[test]
fn a_certificate_and_its_key_come_together() {
    let files = |cert: &str, key: &str| Some(TlsFiles { cert: cert.into(), key: key.into() });
    let both = "[tls]\ncert = 'c.pem'\nkey = '/etc/k.pem'";
    assert_eq!(read("", &[]).unwrap().tls, None);
    assert_eq!(read(both, &[]).unwrap().tls, files("c.pem", "/etc/k.pem"));
    assert_eq!(read(both, &[("RONDO_TLS_KEY", "other.pem")]).unwrap().tls, files("c.pem", "other.pem"));
    let refused = read("[tls]\nkey = 'k.pem'", &[]).unwrap_err();
    let expected = "rondo.toml:2:7: there is a key without its certificate; set tls.cert (RONDO_TLS_CERT) to its PEM file \
                    too, or remove this setting";
    assert_eq!(refused, expected);
}

#[test]
fn connections_of_an_address_and_a_proxy_in_front_are_configured() {
    let read = |text, pairs: &[(&str, &str)]| read(text, pairs).unwrap().server;
    assert_eq!(read("", &[]).limits.max_connections_per_address, None);
    let text = "[server]\nmax_connections_per_address = 9\nbehind_proxy = true";
    assert_eq!(read(text, &[]).limits.max_connections_per_address, Some(9));
    let behind = |pairs: &[(&str, &str)]| read(text, pairs).proxying.behind_proxy;
    assert!(behind(&[]) && !behind(&[("RONDO_BEHIND_PROXY", "false")]));
}

/// Whether there is a key for those who reach it there is known when the data folder is open.
#[test]
fn any_address_will_do() {
    assert_eq!(read("listen = '0.0.0.0:80'", &[]).unwrap().listen.to_string(), "0.0.0.0:80");
    assert_eq!(read("[server]\ndrain_seconds = 0", &[]).unwrap().server.drain.as_secs(), 0);
}

#[test]
fn one_user_has_as_many_model_calls_as_streams_but_never_more_than_half_of_all() {
    let calls = |text| read(text, &[]).unwrap().server.model_calls.of_one_user;
    assert_eq!(calls(""), 64);
    assert_eq!(calls("[server]\nmax_streams_per_user = 1000"), 1000);
    assert_eq!(calls("[server]\nmax_streams_per_user = 1000\nmax_model_calls = 100"), 50);
    assert_eq!(calls("[server]\nmax_streams_per_user = 1000\nmax_model_calls_per_user = 3"), 3);
}

#[test]
fn the_pause_between_commits_of_text_has_bounds() {
    let pause = |text| read(text, &[]).unwrap().server.delta_pause;
    assert_eq!(pause(""), None, "each database has a default of its own");
    assert_eq!(pause("[server]\ndelta_pause_ms = 0"), Some(Duration::ZERO));
    let refused = read("[server]\ndelta_pause_ms = 1001", &[]).unwrap_err();
    assert!(
        refused.contains("server.delta_pause_ms is 1001; write a whole number from 0 to 1000"),
        "{refused}"
    );
}

#[test]
fn runs_resume_for_a_week_or_for_as_long_as_the_file_says() {
    let retention = |text| read(text, &[]).unwrap().server.retention.as_secs();
    assert_eq!(retention(""), 604_800);
    assert_eq!(retention("[server]\nretention_seconds = 1"), 1);
    assert_eq!(retention("[server]\nretention_seconds = 315360000"), 315_360_000);
}

#[test]
fn what_a_tool_deleted_comes_back_for_thirty_days_or_for_as_long_as_the_file_says() {
    let retention = |text| read(text, &[]).unwrap().server.undo_retention.as_secs();
    assert_eq!(retention(""), 2_592_000);
    assert_eq!(retention("[server]\nundo_retention_seconds = 1"), 1);
}

#[test]
fn a_named_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let missing = format!(
        "{}: there is no such file; create it, or name another with --config or RONDO_CONFIG",
        file.display()
    );
    let name = file.display().to_string();
    let environment = variables(&[("RONDO_CONFIG", &name)]);
    assert_eq!(load(Some(&file), &variables(&[])).unwrap_err().to_string(), missing);
    assert_eq!(load(None, &environment).unwrap_err().to_string(), missing);

    fs::write(&file, "model = 'm'").unwrap();
    let expected = Config { file: Some(file.clone()), model: Some("m".into()), ..Config::default() };
    assert_eq!(load(None, &environment), Ok(expected.clone()));
    let other = variables(&[("RONDO_CONFIG", "no-such.toml")]);
    assert_eq!(load(Some(&file), &other), Ok(expected), "the command line beats the variable");
}

#[test]
fn no_file_and_no_variable_is_fine() {
    assert_eq!(load(None, &variables(&[])), Ok(Config::default()));
}

#[test]
fn the_process_environment_is_read() {
    assert!(process_environment("PATH").is_some());
    assert_eq!(process_environment("RONDO_NO_SUCH_VARIABLE"), None);
}
