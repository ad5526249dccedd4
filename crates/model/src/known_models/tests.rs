//! The built-in catalogue, and catalogues that must not be taken. Days are compared with `checked_on`, never with today.

use jiff::civil::date;

use super::*;

const PAGE: &str = include_str!("../../../../docs/models.md");
const MARKERS: (&str, &str) = ("<!-- table -->\n", "<!-- end of table -->");
const BUILT_IN: &str = include_str!("../known.toml");

/// A small catalogue that is good, with one line in place of another.
fn edited(find: &str, with: &str) -> Result<Catalogue, String> {
    let text = r#"format = 1
checked_on = "2026-11-16"
source = "a test"
defaults = { openai = "gpt-new" }
[[models]]
name = "gpt-new"
provider = "openai"
context_window = 100_000
max_output = 10_000
sampling = false
vision = true
thinking = true
price = { input = 1.0, cached_input = 0.1, output = 2.0 }
[[models]]
name = "gpt-old"
provider = "openai"
context_window = 8_000
sampling = true
vision = false
thinking = false
price = { input = 3.0, cached_input = 3.0, output = 4.0 }
retires_on = "2027-01-14"
instead = "gpt-new"
[[families]]
pattern = "gpt-*"
provider = "openai"
context_window = 50_000
sampling = false
vision = true
thinking = true
[[embeddings]]
name = "vectors"
provider = "openai"
context_window = 8_000
price = 0.02
"#;
    assert!(text.contains(find), "{find}");
    Catalogue::parse(&text.replacen(find, with, 1)).map_err(|error| error.to_string())
}

#[test]
fn the_built_in_catalogue_can_be_read_and_says_where_it_is_from() {
    let catalogue = Catalogue::parse(BUILT_IN).unwrap();
    assert_eq!(*Catalogue::built_in(), catalogue);
    assert!(catalogue.source.contains("litellm"), "{}", catalogue.source);
    assert!(catalogue.current_models().count() >= 40, "{}", catalogue.current_models().count());
    for provider in PROVIDERS.iter().filter(|known| !matches!(known.name, "openrouter" | "ollama")) {
        assert!(catalogue.default_model(provider.name).is_some(), "{}", provider.name);
    }
    let names = catalogue.models.iter().map(|model| (&model.provider, &model.name));
    for (of, name) in names.chain(catalogue.families.iter().map(|family| (&family.provider, &family.pattern)))
    {
        assert!(provider(of).is_some(), "{name} of {of}");
        assert_eq!(catalogue.provider_of(name, |there| there == of), Some(of.as_str()), "{name}");
    }
}

#[test]
fn no_default_and_no_replacement_is_known_to_end_within_a_year() {
    let catalogue = Catalogue::built_in();
    let instead =
        catalogue.models.iter().filter_map(|model| Some((&model.provider, model.instead.as_ref()?)));
    for (provider, name) in catalogue.defaults.iter().chain(instead) {
        assert!(catalogue.model(provider, name).is_some(), "{name}");
        assert_eq!(catalogue.retirement(provider, name, catalogue.checked_on), None, "{name}");
    }
    let ending = catalogue.models.iter().filter(|model| model.retires_on.is_some());
    for model in ending {
        assert!(model.instead.is_some(), "{} does not say what to choose instead", model.name);
    }
}

#[test]
fn the_documentation_shows_what_is_known() {
    let shown = PAGE.split_once(MARKERS.0).and_then(|(_, rest)| rest.split_once(MARKERS.1));
    let (shown, _) = shown.expect("docs/models.md has the two markers of the table");
    let table = markdown(&Catalogue::built_in());
    assert_eq!(shown.trim(), table.trim(), "put this between the markers in docs/models.md:\n\n{table}");
}

#[test]
fn a_dated_name_is_the_model_it_continues() {
    let (catalogue, expected) = (Catalogue::built_in(), Capabilities::of_kind(ProviderKind::Cloud));
    let price = |id: &str| catalogue.describe("openai", id, &expected).1.map(|price| price.input);
    assert_eq!(price("gpt-4o-2024-08-06"), Some(2.5));
    assert_eq!(price("gpt-4o-audio"), None, "another model");
    let opus = |id: &str| catalogue.model("anthropic", id).map(|model| model.name.as_str());
    assert_eq!(opus("claude-opus-4-20250514"), Some("claude-opus-4"));
    assert_eq!(opus("claude-opus-4-1-20250805"), Some("claude-opus-4-1"), "not a day of claude-opus-4");
    assert_eq!(opus("claude-opus-4-9"), None);
    let elsewhere = catalogue.describe("openrouter", "gpt-4o", &expected);
    assert_eq!(elsewhere, (expected.clone(), None), "another's price");
}

#[test]
fn an_unknown_model_of_a_known_family_has_its_properties_and_no_price() {
    let (catalogue, expected) = (Catalogue::built_in(), Capabilities::of_kind(ProviderKind::Cloud));
    let (newer, price) = catalogue.describe("openai", "gpt-6.7-comet", &expected);
    assert_eq!((newer.context_window, newer.max_output, price), (1_050_000, Some(128_000), None));
    assert!(!newer.sampling && newer.vision && newer.thinking);
    let (older, _) = catalogue.describe("openai", "gpt-4.1-something", &expected);
    assert!(older.sampling && !older.thinking, "the longest pattern counts");
    let (routed, price) = catalogue.describe("openrouter", "anthropic/claude-sonnet-5.5", &expected);
    assert!(!routed.sampling && price.is_none());
    assert_eq!(catalogue.describe("openai", "my-model", &expected), (expected, None));
}

#[test]
fn who_serves_a_name_is_one_of_those_who_are_there() {
    let catalogue = Catalogue::built_in();
    let of = |name: &str, there: &[&str]| {
        catalogue.provider_of(name, |provider| there.contains(&provider)).map(str::to_owned)
    };
    assert_eq!(of("openai/gpt-oss-120b", &["openrouter"]).as_deref(), Some("openrouter"));
    assert_eq!(of("openai/gpt-oss-120b", &["openrouter", "groq"]).as_deref(), Some("groq"));
    assert_eq!(of("gpt-99", &["anthropic"]), None);
    assert_eq!(of("claude-99", &["openai", "anthropic"]).as_deref(), Some("anthropic"));
}

#[test]
fn what_ends_within_a_year_is_told_and_what_has_ended_is_told_so() {
    let catalogue = edited("", "").unwrap();
    let told = |id: &str, today| catalogue.retirement("openai", id, today).map(|end| end.to_string());
    assert_eq!(told("gpt-new", date(2026, 11, 16)), None);
    assert_eq!(told("gpt-old", date(2026, 1, 13)), None, "more than a year before");
    let soon = "gpt-old retires on 2027-01-14: choose gpt-new".to_owned();
    assert_eq!(told("gpt-old", date(2026, 1, 14)), Some(soon.clone()));
    assert_eq!(told("gpt-old", date(2027, 1, 13)), Some(soon));
    let over = "gpt-old was retired on 2027-01-14: choose gpt-new".to_owned();
    assert_eq!(told("gpt-old", date(2027, 1, 14)), Some(over.clone()));
    assert_eq!(told("gpt-old", date(2030, 1, 1)), Some(over));
    assert_eq!(catalogue.retirement("lan", "gpt-old", date(2030, 1, 1)), None, "somebody else's");
}

#[test]
fn a_catalogue_with_a_mistake_is_refused_with_the_reason() {
    assert!(edited("", "").is_ok());
    for (find, with, expected) in [
        ("format = 1", "format = 2", "its format is 2, and this program reads 1"),
        ("format = 1\n", "", "it does not say its format; write format = 1"),
        ("2026-11-16", "2026-13-16", "line 2: "),
        ("source = \"a test\"", "source = \" \"", "source is empty"),
        ("source = \"a test\"", "source = \"a \\u001b]0;test\"", "holds control characters"),
        ("name = \"gpt-old\"", "name = \"gpt-new\"", "gpt-new of openai is there twice"),
        ("name = \"gpt-old\"", "name = \"gpt old\"", "names are 1 to 128 characters without spaces"),
        ("context_window = 100_000", "context_window = 10", "gpt-new: context_window is 10"),
        ("context_window = 100_000", "context_window = -1", "-1"),
        ("max_output = 10_000", "max_output = 0", "gpt-new: max_output is 0"),
        ("max_output = 10_000", "max_output = 100_000", "gpt-new: max_output is 100000"),
        ("input = 1.0", "input = -1.0", "gpt-new: a price is -1"),
        ("input = 1.0", "input = nan", "gpt-new: a price is NaN"),
        ("output = 2.0", "output = 20_000.0", "gpt-new: a price is 20000"),
        ("price = { input = 3.0, cached_input = 3.0, output = 4.0 }\n", "", "gpt-old has no price"),
        (
            "instead = \"gpt-new\"",
            "instead = \"gpt-x\"",
            "instead is \"gpt-x\", which is not a model of openai",
        ),
        ("instead = \"gpt-new\"", "instead = \"gpt-old\"", "which retires within a year"),
        (
            "openai = \"gpt-new\"",
            "openai = \"gpt-x\"",
            "the default \"gpt-x\" of \"openai\" is not one of its models",
        ),
        (
            "openai = \"gpt-new\"",
            "openai = \"gpt-old\"",
            "the default gpt-old of openai retires within a year",
        ),
        ("pattern = \"gpt-*\"", "pattern = \"gpt-\"", "must be the beginning of a name and a star"),
        ("pattern = \"gpt-*\"", "pattern = \"*\"", "must be the beginning of a name and a star"),
        ("price = 0.02", "price = -0.02", "vectors: a price is -0.02"),
        ("price = 0.02", "price = 0.02\ninstead = \"\\u001b[2J\"", "which is no embedding model of openai"),
        ("vision = true", "vison = true", "unknown field `vison`"),
    ] {
        let refused = edited(find, with).unwrap_err();
        assert!(refused.contains(expected), "{find} -> {with}: {refused}");
    }
    let long = format!("# {}\n{BUILT_IN}", "x".repeat(MAX_CATALOGUE_BYTES));
    assert!(Catalogue::parse(&long).unwrap_err().to_string().contains("longer than"));
}

#[test]
fn what_a_newer_catalogue_changes_is_told() {
    let before = edited("", "").unwrap();
    let after = edited("input = 1.0", "input = 1.5").unwrap();
    let told = |newer: &Catalogue| before.changes(newer).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told(&before), Vec::<String>::new());
    assert_eq!(told(&after), ["price of gpt-new of openai: 1/0.1/2 is now 1.5/0.1/2"]);
    let after = edited("2027-01-14", "2027-02-01").unwrap();
    assert_eq!(told(&after), ["retires: gpt-old of openai on 2027-02-01"]);
    let after = edited("name = \"gpt-old\"", "name = \"gpt-odd\"").unwrap();
    assert_eq!(told(&after), ["added: gpt-odd of openai", "removed: gpt-old of openai"]);
    let after = edited("defaults = { openai = \"gpt-new\" }", "defaults = {}").unwrap();
    assert_eq!(told(&after), ["default of openai: none"]);
}
