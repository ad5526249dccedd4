//! `[context]` and `[history]`, as they may be written and as they may not.

use super::*;
use crate::{DocumentUse, Fragment};

const NAMES: &str = "instructions, persona, custom, snapshot, profile, memories, pins, summaries, proposals, date, \
                     focus, history, domain, documents, knowledge, recalled";

fn order(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let app = demo(&format!("[context]\norder = [{}]", names.join(", ")), PROMPT);
    app.context.order.iter().map(|fragment| fragment.name()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_stable_comes_first_where_an_app_does_not_say() {
    let default = "instructions persona custom snapshot profile memories pins summaries proposals date history \
                   domain documents knowledge recalled";
    assert_eq!(order(&[]), default);
    assert_eq!(order(&["history"]), default, "the boundary is where it is");
}

#[test]
fn named_fragments_come_first_on_their_side_of_the_history() {
    for (named, expected) in [
        (
            vec!["persona", "documents"],
            "persona instructions custom snapshot profile memories pins summaries proposals date history \
             documents domain knowledge recalled",
        ),
        (
            vec!["persona", "documents", "domain", "custom", "focus", "history"],
            "persona documents domain custom focus instructions snapshot profile memories pins summaries proposals \
             date history knowledge recalled",
        ),
        (
            vec!["history", "date", "instructions"],
            "persona custom snapshot profile memories pins summaries proposals history date instructions domain \
             documents knowledge recalled",
        ),
        (
            vec!["focus"],
            "focus instructions persona custom snapshot profile memories pins summaries proposals date history \
             domain documents knowledge recalled",
        ),
    ] {
        assert_eq!(order(&named), expected);
    }
}

#[test]
fn every_fragment_has_its_own_name() {
    for fragment in Fragment::ALL {
        assert_eq!(Fragment::parse(fragment.name()), Some(fragment));
    }
    assert_eq!(Fragment::parse("Persona"), None);
    assert_eq!(Fragment::ALL.map(Fragment::name).join(", "), NAMES);
}

#[test]
fn everything_about_the_context_can_be_said() {
    let toml = "[context]\ndomain_tokens = 1\ndocument_tokens = 2\npin_tokens = 3\ndocuments = 'all'";
    let expected = ContextRules {
        domain_tokens: 1,
        document_tokens: 2,
        pin_tokens: 3,
        documents: DocumentUse::All,
        ..ContextRules::default()
    };
    assert_eq!(demo(toml, PROMPT).context, expected);
    assert_eq!(demo("[context]\ndocuments = 'none'", PROMPT).context.documents, DocumentUse::None);
    assert_eq!(demo("[context]\ndocuments = 'named'", PROMPT).context, ContextRules::default());
}

#[test]
fn a_summary_follows_the_budget_unless_told_otherwise() {
    let history = |toml: &str| demo(&format!("[history]\n{toml}"), PROMPT).history;
    let after = |toml: &str| history(toml).summarise.map(|summarise| summarise.after);
    assert_eq!(after(""), Some(2000));
    assert_eq!(after("budget = 900"), Some(600));
    assert_eq!(after("budget = 900\nsummarise_after = 900"), Some(900));
    assert_eq!(after("summarise = false\nsummarise_after = 900"), None);
    assert_eq!(history("style = 'plain'\nsummarise = true"), HistoryRules::default());
}

#[test]
fn how_to_summarise_is_part_of_the_app() {
    let app = |text: &str| load(&with("", &[("summarise.md", text)]).path().join("demo")).unwrap();
    let first = app(" Keep the numbers.\n");
    assert_eq!(first.history.summarise.unwrap().prompt.as_deref(), Some("Keep the numbers."));
    assert_ne!(first.revision, app("Keep the names.").revision);
    let empty =
        "demo/summarise.md: the file is empty; say how to summarise a conversation, or remove the file";
    assert_eq!(problem(&with("", &[("summarise.md", "\n")])), empty);
}

#[test]
fn what_a_context_cannot_be_is_refused() {
    let unknown = format!("2:18: context.order names \"personas\"; write some of {NAMES}");
    let twice = format!("2:16: context.order names \"date\" twice; write each of {NAMES} once at most");
    for (toml, expected) in [
        ("[context]\norder = ['date', 'personas']", unknown.as_str()),
        ("[context]\norder=['date', 'date']", &twice),
        (
            "[context]\npin_tokens = 0",
            "2:14: context.pin_tokens is 0; write a whole number from 1 to 1000000",
        ),
        ("[context]\ndocuments = 'some'", r#"2:13: documents is "some"; write "named" or "all" or "none""#),
        ("[context]\ntokens = 1", "2:1: unknown key \"tokens\"; the keys here are order"),
        ("[history]\nstyle = 'short'", r#"2:9: style is "short"; write "plain" or "reference""#),
        (
            "[history]\nbudget = 300\nsummarise_after = 301",
            "3:19: history.summarise_after is 301; write a whole number from 100 to 300",
        ),
        (
            "[history]\nsummarise_model = ''",
            "2:19: history.summarise_model is empty; write a text, or remove the line to get the default",
        ),
    ] {
        let problem = problem(&apps(toml, PROMPT));
        assert!(problem.starts_with(&format!("demo/app.toml:{expected}")), "{problem}");
    }
}
