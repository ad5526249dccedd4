//! App folders, good and bad.

mod context;
mod declared;
mod examples;
mod external_tools;
mod images;
mod limits;
mod markdown;
mod mcp;
mod memory;
mod problems;
mod targets;

use std::fs;
use std::time::Duration;

use protocol::{Effort, OutputFormat, Settings, UserLimits};
use tempfile::TempDir;

use super::*;
use crate::{
    AnswerForm, AtLimit, ContextRules, FailureCause, FailureReplies, HistoryRules, HistoryStyle, ImageRules,
    Ranges, Summarise, Within,
};

const PROMPT: &str = "Be helpful.";

/// An apps folder with the one app `demo`.
fn apps(toml: &str, prompt: &str) -> TempDir {
    let apps = tempfile::tempdir().unwrap();
    add(&apps, "demo", toml, prompt);
    apps
}

fn add(apps: &TempDir, id: &str, toml: &str, prompt: &str) {
    let dir = apps.path().join(id);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("app.toml"), toml).unwrap();
    fs::write(dir.join("instructions.md"), prompt).unwrap();
}

fn demo(toml: &str, prompt: &str) -> App {
    load(&apps(toml, prompt).path().join("demo")).unwrap()
}

/// The app `demo` with these files beside `app.toml`.
fn with(toml: &str, files: &[(&str, &str)]) -> TempDir {
    let apps = apps(toml, PROMPT);
    for (name, text) in files {
        let path = apps.path().join("demo").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    apps
}

/// The problem as it is printed, with the path cut down to start at the apps folder.
fn problem(apps: &TempDir) -> String {
    let root = format!("{}/", apps.path().display());
    load_all(apps.path()).unwrap_err().to_string().replace(&root, "")
}

#[test]
fn an_empty_file_gets_every_default() {
    let app = demo("", PROMPT);
    let expected = App {
        id: AppId::new("demo"),
        name: "demo".into(),
        description: String::new(),
        starters: Vec::new(),
        folder: app.folder.clone(),
        revision: app.revision.clone(),
        zone: TimeZone::UTC,
        model: None,
        fallbacks: Vec::new(),
        models: Vec::new(),
        settings: Settings::default(),
        ranges: Ranges::default(),
        answer: AnswerForm::Text,
        memory: crate::MemoryRules::default(),
        budget: AppBudget::default(),
        instructions: PROMPT.into(),
        title: None,
        limits: LoopLimits {
            max_steps: 10,
            at_limit: AtLimit::Answer,
            limit_reply: "I could not finish this. Please ask again, perhaps for a smaller part of it."
                .into(),
            failure_reply: FailureReplies::default(),
            max_parallel_tools: 8,
            tool_timeout: Duration::from_secs(60),
            run_timeout: Duration::from_secs(900),
        },
        user_limits: UserLimits::default(),
        history: HistoryRules {
            style: HistoryStyle::Plain,
            budget: 3000,
            summarise: Some(Summarise { prompt: None, model: None, after: 2000 }),
        },
        images: ImageRules::default(),
        context: ContextRules::default(),
        knowledge: KnowledgeRules { enabled: false, ..KnowledgeRules::default() },
        personas: BTreeMap::new(),
        sections: Vec::new(),
        targets: Vec::new(),
        classifier: None,
        records: BTreeMap::new(),
        tools: Vec::new(),
        declared: Vec::new(),
        adjusted: Vec::new(),
        mcp: Vec::new(),
        webhooks: Vec::new(),
    };
    assert_eq!(app, expected);
}

const EVERY_FIELD: &str = r#"
name = "Demo"
description = "Shows everything"
timezone = "Europe/Lisbon"
model = "gpt-4.1-mini"
fallbacks = ["gpt-4o-mini"]
models = ["gpt-4.1"]
starters = ["Hello"]
answer = "structured"
tools = [
    "current_time",
    "calculate",
]

[settings]
temperature = 0
max_tokens = 500
top_p = 0.9
repeat_penalty = 1.1
output_format = "json"
reasoning_effort = "low"

[ranges]
temperature = [0, 1.2]

[memory]
inject = "all"
limit = 5

[budget]
run_tokens = 1000
day_usd = 0.5

[loop]
max_steps = 3
at_limit = "reply"
limit_reply = "Enough."
failure_reply = "Later."
max_parallel_tools = 2
tool_timeout_seconds = 5
run_timeout_seconds = 30

[history]
style = "reference"
budget = 4000
summarise_model = "small"
summarise_after = 1500

[context]
document_tokens = 900

[images]
history = 2
"#;

/// The limits of the loop in [`EVERY_FIELD`].
fn every_limit() -> LoopLimits {
    LoopLimits {
        max_steps: 3,
        at_limit: AtLimit::Reply,
        limit_reply: "Enough.".into(),
        failure_reply: FailureReplies::one_for_all("Later."),
        max_parallel_tools: 2,
        tool_timeout: Duration::from_secs(5),
        run_timeout: Duration::from_secs(30),
    }
}

fn every_budget() -> AppBudget {
    let day_cost = Some(Cost::from_dollars(0.5));
    AppBudget { run_tokens: Some(1000), day_cost, dollars_line: Some(32), ..AppBudget::default() }
}

#[test]
fn every_field_is_read() {
    let apps = apps(EVERY_FIELD, PROMPT);
    let file = apps.path().join("demo/app.toml");
    let app = load(&apps.path().join("demo")).unwrap();
    let tool = |name: &str, line| ToolRef { name: name.into(), file: file.clone(), line, column: 5 };
    let expected = App {
        id: AppId::new("demo"),
        name: "Demo".into(),
        description: "Shows everything".into(),
        starters: vec!["Hello".into()],
        folder: apps.path().join("demo"),
        revision: app.revision.clone(),
        zone: TimeZone::get("Europe/Lisbon").unwrap(),
        model: Some("gpt-4.1-mini".into()),
        fallbacks: vec!["gpt-4o-mini".into()],
        models: vec!["gpt-4.1".into()],
        settings: Settings {
            temperature: Some(0.0),
            max_tokens: Some(500),
            top_p: Some(0.9),
            repeat_penalty: Some(1.1),
            output_format: Some(OutputFormat::Json),
            reasoning_effort: Some(Effort::Low),
            ..Settings::default()
        },
        ranges: Ranges { temperature: Within { low: 0.0, high: 1.2 }, ..Ranges::default() },
        answer: AnswerForm::Structured,
        memory: crate::MemoryRules {
            inject: crate::Inject::All,
            limit: 5,
            remember: true,
            forget: true,
            ..crate::MemoryRules::default()
        },
        budget: every_budget(),
        instructions: PROMPT.into(),
        title: None,
        limits: every_limit(),
        user_limits: UserLimits::default(),
        history: HistoryRules {
            style: HistoryStyle::Reference,
            budget: 4000,
            summarise: Some(Summarise { prompt: None, model: Some("small".into()), after: 1500 }),
        },
        images: ImageRules { history: 2, ..ImageRules::default() },
        context: ContextRules { document_tokens: 900, ..ContextRules::default() },
        knowledge: KnowledgeRules { enabled: false, ..KnowledgeRules::default() },
        personas: BTreeMap::new(),
        sections: Vec::new(),
        targets: Vec::new(),
        classifier: None,
        records: BTreeMap::new(),
        tools: vec![tool("current_time", 11), tool("calculate", 12)],
        declared: Vec::new(),
        adjusted: Vec::new(),
        mcp: Vec::new(),
        webhooks: Vec::new(),
    };
    assert_eq!(app, expected);
}

#[test]
fn starters_are_few_and_short() {
    let many = apps(&format!("starters = [{}]", "'Hello', ".repeat(9)), PROMPT);
    assert!(problem(&many).contains("there are more than 8 starters"), "{}", problem(&many));
    let long = apps(&format!("starters = ['{}']", "a".repeat(301)), PROMPT);
    assert!(problem(&long).contains("a starter has more than 300 characters"), "{}", problem(&long));
    let empty = apps("starters = ['']", PROMPT);
    assert!(problem(&empty).contains("starters"), "{}", problem(&empty));
}

#[test]
fn a_failure_has_a_reply_of_its_own_or_the_default() {
    let replies = |toml: &str| demo(toml, PROMPT).limits.failure_reply;
    let table = replies("[loop.failure_reply]\nkey = 'No key.'\ndefault = 'Later.'");
    assert_eq!(
        (table.of(FailureCause::Key), table.of(FailureCause::Outage)),
        (Some("No key."), Some("Later."))
    );
    let inline = replies("[loop]\nfailure_reply = { quota = 'Used up.' }");
    assert_eq!((inline.of(FailureCause::Quota), inline.of(FailureCause::Other)), (Some("Used up."), None));
}

#[test]
fn the_revision_follows_the_content() {
    let revision = |toml, prompt| demo(toml, prompt).revision;
    assert_eq!(revision("", PROMPT), revision("", PROMPT));
    assert_ne!(revision("", PROMPT), revision("# comment", PROMPT));
    assert_ne!(revision("", PROMPT), revision("", "Be brief."));
    assert_eq!(revision("", PROMPT).len(), 12);
}

#[test]
fn values_out_of_range_are_refused() {
    for (toml, expected) in [
        ("[loop]\nmax_steps = 0", "2:13: loop.max_steps is 0; write a whole number from 1 to 200"),
        ("[loop]\nmax_steps = -1", "2:13: loop.max_steps is -1; write a whole number from 1 to 200"),
        (
            "[loop]\nmax_parallel_tools = 33",
            "2:22: loop.max_parallel_tools is 33; write a whole number from 1 to 32",
        ),
        (
            "[loop]\ntool_timeout_seconds = 601",
            "2:24: loop.tool_timeout_seconds is 601; write a whole number from 1 to 600",
        ),
        (
            "[loop]\nrun_timeout_seconds = 0",
            "2:23: loop.run_timeout_seconds is 0; write a whole number from 1 to 86400",
        ),
        (
            "[loop]\nlimit_reply = ' '",
            "2:15: loop.limit_reply is empty; write a text, or remove the line to get the default",
        ),
        (
            "[loop]\nfailure_reply = ' '",
            "2:17: loop.failure_reply is empty; write a text, or remove the line to get the default",
        ),
        (
            "[loop.failure_reply]\nkey = ''",
            "2:7: loop.failure_reply.key is empty; write a text, or remove the line to get the default",
        ),
        ("[loop]\nat_limit = 'stop'", r#"2:12: at_limit is "stop"; write "answer" or "reply""#),
        ("[history]\nbudget = 255", "2:10: history.budget is 255; write a whole number from 256 to 10000000"),
        ("[settings]\ntemperature = 2.1", "2:15: settings.temperature is 2.1; write a number from 0 to 2"),
        ("[settings]\ntop_p = 1.1", "2:9: settings.top_p is 1.1; write a number from 0 to 1"),
        (
            "[settings]\ntemperature = 0\n[ranges]\ntemperature = [0.1, 1.2]",
            "2:15: settings.temperature is 0; write a number from 0.1 to 1.2",
        ),
        (
            "[ranges]\ntemperature = [1.2, 0.1]",
            "2:15: ranges.temperature is [1.2, 0.1]; write the lowest and the highest number, from 0 to 2",
        ),
        (
            "answer = 'words'",
            r#"1:10: answer is "words"; write "text", "structured", or the name of a JSON Schema file in this folder"#,
        ),
        ("[budget]\nday_usd = 0", "2:11: budget.day_usd is 0; write a number above 0, at most 1000000"),
        ("[memory]\nlimit = 0", "2:9: memory.limit is 0; write a whole number from 1 to 1000"),
        (
            "fallbacks = ['a', '']",
            "1:19: fallbacks is empty; write a text, or remove the line to get the default",
        ),
        (
            "[settings]\nmax_tokens = 0",
            "2:14: settings.max_tokens is 0; write a whole number from 1 to 10000000",
        ),
    ] {
        assert_eq!(problem(&apps(toml, PROMPT)), format!("demo/app.toml:{expected}"));
    }
}

#[test]
fn names_that_are_none_are_refused() {
    for (toml, expected) in [
        ("name = ''", "1:8: name is empty; write a text, or remove the line to get the default"),
        ("model = ''", "1:9: model is empty; write a text, or remove the line to get the default"),
        ("[loop]\nmax_step = 1", r#"2:1: unknown key "max_step"; did you mean "max_steps"?"#),
        ("tools = ['a', 'a']", r#"1:15: the tool "a" is listed twice; remove one"#),
        (
            "tools = ['a b']",
            r#"1:10: "a b" cannot be a tool's name; write 1 to 64 letters, digits, underscores or dashes"#,
        ),
    ] {
        assert_eq!(problem(&apps(toml, PROMPT)), format!("demo/app.toml:{expected}"));
    }
}

#[test]
fn too_many_tools_are_refused() {
    let names: Vec<String> = (0..129).map(|i| format!("'t{i}'")).collect();
    let text = problem(&apps(&format!("tools = [\n{}]", names.join(",\n")), PROMPT));
    assert_eq!(text, "demo/app.toml:130:1: there are more than 128 tools; offer the model fewer tools");
}

#[test]
fn files_that_must_be_there_are_asked_for() {
    assert_eq!(
        problem(&apps("", " \n")),
        "demo/instructions.md: the file is empty; write what the model is to do, and how"
    );
    let apps = apps("", PROMPT);
    fs::remove_file(apps.path().join("demo/instructions.md")).unwrap();
    assert_eq!(
        problem(&apps),
        "demo/instructions.md: there is no such file; create it, with the instructions for the model"
    );
    fs::remove_file(apps.path().join("demo/app.toml")).unwrap();
    assert_eq!(
        problem(&apps),
        "demo/app.toml: there is no such file; create it (it may be empty), or move the folder out of the apps folder"
    );
}

#[test]
fn a_folder_name_must_be_a_free_id() {
    for name in ["Demo", "1st", "a_b", "a.b", "-a", "é"] {
        let apps = tempfile::tempdir().unwrap();
        add(&apps, name, "", PROMPT);
        let rule = "rename it: a lower-case letter, then lower-case letters, digits and dashes, at most 64";
        assert_eq!(problem(&apps), format!("{name}: the folder's name cannot be an app's id; {rule}"));
    }
    for name in RESERVED {
        let apps = tempfile::tempdir().unwrap();
        add(&apps, name, "", PROMPT);
        let why = format!("{name}: {name:?} is a path of the server itself; give the folder another name");
        assert_eq!(problem(&apps), why);
    }
}

#[test]
fn all_folders_are_loaded_and_nothing_else() {
    let apps = apps("", PROMPT);
    add(&apps, "another", "", PROMPT);
    fs::create_dir(apps.path().join(".hidden")).unwrap();
    fs::write(apps.path().join("README.md"), "hello").unwrap();
    let ids: Vec<String> = load_all(apps.path()).unwrap().keys().map(ToString::to_string).collect();
    assert_eq!(ids, ["another", "demo"]);
}

#[test]
fn a_missing_apps_folder_is_a_problem() {
    let problem = load_all(Path::new("no/such/folder")).unwrap_err();
    assert_eq!(problem.file, Path::new("no/such/folder"));
    assert_eq!(
        problem.remedy,
        "make an app with `rondo init NAME`, or set RONDO_APPS to the folder of your apps"
    );
}

#[test]
fn a_tool_can_be_complained_about_where_it_is_named() {
    let tool = ToolRef { name: "fly".into(), file: "apps/demo/app.toml".into(), line: 3, column: 10 };
    assert_eq!(
        tool.problem(r#"there is no tool "fly""#, "remove it").to_string(),
        r#"apps/demo/app.toml:3:10: there is no tool "fly"; remove it"#
    );
}

#[test]
fn every_app_of_this_repository_loads() {
    let apps = load_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps")).unwrap();
    let ids: Vec<&str> = apps.keys().map(AppId::as_str).collect();
    assert_eq!(ids, ["companion", "kalito", "studio", "trailhead", "tutor"]);
    let studio = apps.get(&AppId::new("studio")).unwrap();
    let tools: Vec<&str> = studio.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((studio.name.as_str(), tools), ("Studio", vec!["current_time", "calculate"]));
    assert_eq!(studio.limits, LoopLimits::default());
}

#[test]
fn a_schema_of_the_app_must_be_one_that_strict_providers_take() {
    let closed = r#"{"type": "object", "additionalProperties": false, "required": ["response", "mood"],
        "properties": {"response": {"type": "string"}, "mood": {"type": "string", "enum": ["good", "bad"]}}}"#;
    let with = |schema: &str| {
        let apps = apps("answer = 'mood.json'", PROMPT);
        fs::write(apps.path().join("demo/mood.json"), schema).unwrap();
        apps
    };
    let app = load(&with(closed).path().join("demo")).unwrap();
    let AnswerForm::Schema { name, schema } = app.answer else { panic!("{:?}", app.answer) };
    assert_eq!((name.as_str(), schema["type"].as_str()), ("mood", Some("object")));
    let changed = load(&with(&closed.replace("bad", "sad")).path().join("demo")).unwrap();
    assert_ne!(app.revision, changed.revision, "the schema is part of the app");
    for (schema, expected) in [
        ("{", "demo/mood.json:1:1: this is not JSON; write one JSON Schema"),
        ("[]", "demo/mood.json: the schema is not of type object; describe one object"),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#,
            "demo/mood.json: an object of the schema allows additional properties; add \
             \"additionalProperties\": false to each object",
        ),
        (
            r#"{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}"#,
            "demo/mood.json: the property \"a\" is not required; list every property under \"required\"; \
             give an optional property a type with \"null\"",
        ),
    ] {
        assert_eq!(problem(&with(schema)), expected);
    }
    let missing = problem(&apps("answer = 'mood.json'", PROMPT));
    assert_eq!(
        missing,
        "demo/mood.json: there is no such file; create it, or write \"text\" or \"structured\""
    );
}

#[test]
fn a_request_may_choose_the_app_s_models_and_those_it_lists() {
    let choices = |toml: &str| demo(toml, PROMPT).choosable_models(Some("usual")).join(" ");
    assert_eq!(choices(""), "usual");
    assert_eq!(choices("model = 'own'\nfallbacks = ['spare', 'own']"), "own spare");
    assert_eq!(choices("fallbacks = ['spare']\nmodels = ['other', 'spare']"), "usual spare other");
    assert_eq!(choices("model = 'own'\nmodels = ['*']"), ANY_MODEL);
    let app = demo("model = 'own'\nmodels = ['other']", PROMPT);
    let allowed = |name: &str| app.allows_model(name, Some("usual"));
    assert_eq!(["own", "other", "usual", "o", "*"].map(allowed), [true, true, false, false, false]);
    assert!(demo("models = ['*']", PROMPT).allows_model("anything", None));
}

#[test]
fn a_list_of_models_has_names_and_a_star_stands_alone() {
    let star = problem(&apps("models = ['a', '*']", PROMPT));
    let expected = "demo/app.toml:1:16: \"*\" allows every model, so the others say nothing; write models = [\"*\"], or remove it";
    assert_eq!(star, expected);
    assert!(problem(&apps("models = ['']", PROMPT)).starts_with("demo/app.toml:1:11: models is empty"));
    let many: Vec<String> = (0..=MAX_MODELS).map(|number| format!("'m{number}'")).collect();
    let many = problem(&apps(&format!("models = [{}]", many.join(",")), PROMPT));
    assert!(many.contains("there are more than 64 models; list fewer"), "{many}");
}

#[test]
fn a_webhook_has_an_address_events_and_a_secret() {
    let toml = "[[webhook]]\nurl = \"https://example.com/hook?a=1\"\nevents = [\"run.ended\", \"memory.changed\"]\n\
                secret = \"orders\"\n[[webhook]]\nname = \"second\"\nurl = \"http://example.com/\"\n\
                events = [\"approval.open\"]\nsecret = \"orders\"\n";
    let app = demo(toml, PROMPT);
    let names: Vec<(&str, &str)> =
        app.webhooks.iter().map(|webhook| (webhook.name.name.as_str(), webhook.url.as_str())).collect();
    assert_eq!(names, [("example.com", "https://example.com/hook?a=1"), ("second", "http://example.com/")]);
    assert_eq!(
        app.webhooks[0].events.iter().map(|event| event.name()).collect::<Vec<_>>(),
        ["run.ended", "memory.changed"]
    );
    assert_eq!(app.secrets().keys().copied().collect::<Vec<_>>(), ["orders"]);
}

#[test]
fn a_wrong_webhook_is_refused_with_a_remedy() {
    let entry = |fields: &str| format!("[[webhook]]\n{fields}\n");
    let good = "url = \"https://example.com\"\nevents = [\"run.ended\"]\nsecret = \"orders\"";
    for (toml, message) in [
        (entry(""), "a webhook has no url"),
        (entry("url = \"https://example.com\""), "a webhook has no secret"),
        (entry("url = \"https://example.com\"\nsecret = \"orders\""), "a webhook has no events"),
        (entry(&good.replace("https", "ftp")), "is not an http or https address"),
        (entry(&good.replace("https://", "https://me:word@")), "has a user, a password or a part after #"),
        (entry(&good.replace("run.ended", "run.begun")), "\"run.begun\" is not an event of a webhook"),
        (entry(&good.replace("orders", "whsec_MfKQ")), "is not the name of a secret"),
        (entry(&good.replace("[\"run.ended\"]", "[]")), "a webhook has no events"),
        (entry(&format!("{good}\nname = \"a b\"")), "cannot be a webhook's name"),
        (format!("{0}{0}", entry(good)), "two webhooks are called \"example.com\""),
        (entry(good).repeat(9), "there are more than 8 webhooks"),
    ] {
        let problem = problem(&apps(&toml, PROMPT));
        assert!(problem.contains(message), "{toml}: {problem}");
        assert!(!problem.contains("MfKQ"), "{problem}");
    }
}
