//! The addresses that tools may reach, the secrets that they send, and the providers of web search.

use app::Apps;

use super::*;

const REMEDY: &str = "write a name, an address or a network, the first two with or without a port, such as \
                      \"search.internal\", \"127.0.0.1:8080\", \"[::1]:8080\" or \"10.1.0.0/16\"";

fn outside(text: &str, pairs: &[(&str, &str)]) -> EgressConfig {
    read(text, pairs).unwrap().outside
}

fn allowed(entries: &[&str]) -> Allowed {
    let mut allowed = Allowed::default();
    for entry in entries {
        allowed.add(entry).unwrap();
    }
    allowed
}

/// Apps with one app of this app.toml.
fn apps(text: &str) -> (tempfile::TempDir, Apps) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join("mine/app.toml"), text).unwrap();
    fs::write(folder.path().join("mine/instructions.md"), "Be kind.").unwrap();
    let apps = app::load_all(folder.path()).unwrap();
    (folder, apps)
}

fn shown(folder: &tempfile::TempDir, problems: &[Problem]) -> Vec<String> {
    let prefix = format!("{}/mine/app.toml:", folder.path().display());
    let short = |problem: &Problem| problem.to_string().strip_prefix(&prefix).unwrap().to_owned();
    problems.iter().map(short).collect()
}

#[test]
fn nothing_is_open_and_nobody_searches_unless_somebody_says_so() {
    assert_eq!(outside("", &[]), EgressConfig::default());
    assert_eq!(
        outside("", &[("RONDO_EGRESS_ALLOW", " , "), ("TAVILY_API_KEY", " ")]),
        EgressConfig::default()
    );
    let address = [("TAVILY_BASE_URL", "https://api.tavily.com/")];
    assert_eq!(
        outside("", &address),
        EgressConfig::default(),
        "an address is no key, and this one is public"
    );
}

#[test]
fn the_variable_opens_hosts_beside_those_of_the_file() {
    let text = "[egress]\nallow = ['search.internal', '10.1.0.0/16']";
    let both = outside(text, &[("RONDO_EGRESS_ALLOW", "127.0.0.1:8080, [::1]:9,,")]);
    let entries = ["search.internal", "10.1.0.0/16", "127.0.0.1:8080", "[::1]:9"];
    assert_eq!(both.opened, entries);
    assert_eq!(both.allow, allowed(&entries));
}

#[test]
fn the_address_of_a_search_is_open_for_its_port() {
    let text =
        "[web_search]\ntavily_url = 'http://proxy.internal:1/tavily/'\nsearxng_url = 'http://10.0.0.5:8888/'";
    let file = outside(text, &[("TAVILY_API_KEY", "tvly-1")]);
    let tavily = |base_url: &str| {
        Some(TavilyAccount { base_url: base_url.into(), key: ConfigSecret::new("tvly-1").unwrap() })
    };
    assert_eq!(file.tavily, tavily("http://proxy.internal:1/tavily"));
    assert_eq!(file.searxng.as_deref(), Some("http://10.0.0.5:8888"));
    assert_eq!(file.allow, allowed(&["proxy.internal:1", "10.0.0.5:8888"]));
    assert_eq!(file.opened, Vec::<String>::new(), "nobody wrote them into the list");

    let variables = [
        ("TAVILY_API_KEY", "tvly-1"),
        ("TAVILY_BASE_URL", "http://127.0.0.1:2"),
        ("SEARXNG_URL", "https://searx.example.com"),
    ];
    let environment = outside(text, &variables);
    assert_eq!(environment.tavily, tavily("http://127.0.0.1:2"));
    assert_eq!(environment.searxng.as_deref(), Some("https://searx.example.com"));
    assert_eq!(environment.allow, allowed(&["127.0.0.1:2", "searx.example.com:443"]));
    let usual = outside("", &[("TAVILY_API_KEY", "tvly-1")]);
    assert_eq!(usual, EgressConfig { tavily: tavily("https://api.tavily.com"), ..EgressConfig::default() });
}

#[test]
fn keys_of_searches_and_secrets_come_from_variables_or_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "from-file\n").unwrap();
    let text = format!(
        "[web_search]\ntavily_api_key_env = 'MINE'\ntavily_api_key_file = {0:?}\n[secrets.weather]\nenv = 'OTHER'\nfile = {0:?}",
        file.display().to_string()
    );
    let of = |pairs: &[(&str, &str)]| {
        let outside = outside(&text, pairs);
        let exposed = |secret: &ConfigSecret| secret.expose().to_owned();
        (exposed(&outside.tavily.unwrap().key), exposed(&outside.secrets["weather"]))
    };
    assert_eq!(of(&[]), ("from-file".into(), "from-file".into()));
    assert_eq!(of(&[("MINE", "a"), ("OTHER", "b"), ("TAVILY_API_KEY", "c")]), ("a".into(), "b".into()));
    let shown = format!("{:?}", read(&text, &[]));
    assert!(!shown.contains("from-file"), "{shown}");
}

#[test]
fn mistakes_are_refused_with_place_and_remedy() {
    for (text, expected) in [
        (
            "[egress]\nallow = ['http://x']",
            format!("2:10: \"http://x\" is not a host; {REMEDY}; correct it, or remove it"),
        ),
        (
            "[egress]\nallow = ['a', '*.b']",
            format!("2:15: \"*.b\" is not a host; {REMEDY}; correct it, or remove it"),
        ),
        ("[egress]\nhosts = []", "2:1: unknown key \"hosts\"; the keys here are allow".into()),
        (
            "[secrets.'a b']\nenv = 'X'",
            "1:10: a secret cannot be called \"a b\"; write letters, digits and underscores".into(),
        ),
        (
            "[secrets.weather]",
            "1:10: the secret \"weather\" has no value; add env = \"THE_VARIABLE\" or file = \"the-file\""
                .into(),
        ),
        (
            "[secrets.weather]\nenv = 'MINE'",
            "2:7: the environment variable MINE is not set; set it, or remove this line".into(),
        ),
        (
            "[secrets.weather]\nvalue = 'sk-1'",
            "2:1: unknown key \"value\"; the keys here are env, file".into(),
        ),
        (
            "[web_search]\ntavily_api_key_env = 'MINE'",
            "2:22: the environment variable MINE is not set; set it, or remove this line".into(),
        ),
        (
            "[web_search]\nsearxng_url = 'searx'",
            "2:15: the base URL is not an http or https URL; write it as in http://127.0.0.1:8888".into(),
        ),
        (
            "[web_search]\ntavily_url = 'https://a:b@x'",
            "2:14: the base URL contains more than a host and a path; write it as in https://api.tavily.com"
                .into(),
        ),
        (
            "[web_search]\ntavily_key = 'x'",
            "2:1: unknown key \"tavily_key\"; did you mean \"tavily_url\"?".into(),
        ),
    ] {
        assert_eq!(read(text, &[]), Err(format!("rondo.toml:{expected}")), "{text}");
    }
}

#[test]
fn mistakes_in_variables_and_named_files_are_refused_with_a_remedy() {
    let of = |variable: &str, value: &str| read("", &[(variable, value)]).unwrap_err();
    assert_eq!(
        of("RONDO_EGRESS_ALLOW", "a.test b.test"),
        format!(
            "RONDO_EGRESS_ALLOW: \"a.test b.test\" is not a host; {REMEDY}; separate entries with commas"
        )
    );
    let message = "this is not a key: it is empty, or contains spaces or line breaks; write only the key";
    assert_eq!(of("TAVILY_API_KEY", "a b"), format!("TAVILY_API_KEY: {message}"));
    assert!(
        of("SEARXNG_URL", "ftp://x").starts_with("SEARXNG_URL: the base URL is not an http or https URL")
    );
    let missing = "[secrets.weather]\nfile = 'no/such.key'";
    assert!(read(missing, &[]).unwrap_err().starts_with("no/such.key: there is no such file; create it"));
}

#[test]
fn a_secret_that_apps_name_comes_from_its_own_variable_before_the_file() {
    let text = "[mcp.sky]\nurl = 'https://sky.test/mcp'\nheaders = { A = '{{ secret.weather }}', B = '{{ secret.Moon }}' }";
    let (folder, apps) = apps(text);
    let file =
        outside("[secrets.weather]\nenv = 'MINE'\n[secrets.unused]\nenv = 'MINE'", &[("MINE", "in-file")]);
    let of = |outside: &EgressConfig, pairs: &[(&str, &str)]| {
        let (values, missing) = outside.secrets_for(&apps, &variables(pairs)).unwrap();
        (values.into_iter().collect::<Vec<_>>(), shown(&folder, &missing))
    };
    let moon =
        "1:6: the secret \"Moon\" is not set; set RONDO_SECRET_MOON, or add [secrets.Moon] to rondo.toml";
    let weather = "1:6: the secret \"weather\" is not set; set RONDO_SECRET_WEATHER, or add [secrets.weather] to rondo.toml";
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        of(&file, &[]),
        (vec![pair("weather", "in-file")], vec![moon.into()]),
        "and only what is named"
    );
    let both = [("RONDO_SECRET_WEATHER", " in-variable\n"), ("RONDO_SECRET_MOON", "m")];
    assert_eq!(of(&file, &both), (vec![pair("Moon", "m"), pair("weather", "in-variable")], vec![]));
    assert_eq!(of(&EgressConfig::default(), &[]), (vec![], vec![moon.into(), weather.into()]));
    let refused = file.secrets_for(&apps, &variables(&[("RONDO_SECRET_MOON", "two words")])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "RONDO_SECRET_MOON: this is not a secret: it contains spaces or line breaks; write only the secret"
    );
}

#[test]
fn a_search_that_nobody_does_is_told_with_what_to_set() {
    let (tavily, searxng) = (("TAVILY_API_KEY", "k"), ("SEARXNG_URL", "http://127.0.0.1:8888"));
    for (tool, pairs, setting) in [
        ("web_search", &[][..], Some("TAVILY_API_KEY or SEARXNG_URL")),
        ("web_search", &[searxng], None),
        ("web_search", &[tavily], None),
        ("tavily_search", &[searxng], Some("TAVILY_API_KEY")),
        ("tavily_search", &[tavily], None),
        ("searxng_search", &[tavily], Some("SEARXNG_URL")),
        ("calculate", &[], None),
    ] {
        let (folder, apps) = apps(&format!("tools = ['{tool}']"));
        let problems = outside("", pairs).missing_searches(&apps);
        let expected = setting.map(|setting| {
            format!(
                "1:10: the tool {tool} has no search provider, so models are not offered it; set {setting}, \
                 or remove it"
            )
        });
        assert_eq!(shown(&folder, &problems), Vec::from_iter(expected), "{tool}");
    }
}
