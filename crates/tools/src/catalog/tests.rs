//! Which tools an app gets, and what it is told about those it does not.

use serde_json::json;

use super::*;
use crate::tests::{app, catalog};

fn names(toml: &str) -> Vec<String> {
    let (_folder, app) = app(toml);
    let registry = catalog().registry(&app, &[]).unwrap_or_else(|problem| panic!("{problem}"));
    registry.specs().iter().map(|spec| spec.name.clone()).collect()
}

fn problem(toml: &str) -> String {
    let (folder, app) = app(toml);
    let file = format!("{}/demo/", folder.path().display());
    catalog()
        .registry(&app, &[])
        .err()
        .map(|problem| problem.to_string().replace(&file, ""))
        .unwrap_or_default()
}

#[test]
fn a_family_stands_for_its_members_in_the_order_of_the_file() {
    let toml = "tools = ['undo', 'calculate', 'markdown', 'proposals']\n[tool.z]\nrecord = 'part'\ndoes = 'get'\n\
                [tool.a]\nrecord = 'part'\ndoes = 'list'";
    let expected = [
        "undoAction",
        "listRecentActions",
        "calculate",
        "listMarkdown",
        "readMarkdown",
        "writeMarkdownSection",
        "createMarkdownFile",
        "createProposal",
        "updateProposal",
        "z",
        "a",
    ];
    assert_eq!(names(toml), expected);
    assert_eq!(
        names("tools = ['readMarkdown', 'calculate', 'createProposal']").len(),
        3,
        "one of a family will do"
    );
}

#[test]
fn a_proposal_can_be_of_any_other_tool_but_an_undo_or_one_of_the_client() {
    let (_folder, app) = app(
        "tools = ['proposals', 'undo', 'calculate', 'ask_user']\n[tool.a]\nrecord = 'part'\ndoes = 'list'\n\
         [tool.b]\nclient = true\ndescription = 'd'",
    );
    let registry = catalog().registry(&app, &[]).unwrap();
    assert_eq!(registry.client_tools(), ["ask_user", "b"]);
    let specs = registry.specs();
    let create = specs.iter().find(|spec| spec.name == "createProposal").unwrap();
    let names = &create.parameters["properties"]["tool"]["enum"];
    assert_eq!(names, &json!(["listRecentActions", "calculate", "a"]));
}

#[test]
fn what_does_not_exist_or_exists_twice_is_refused_where_it_is_named() {
    let all = "use one of ask_user, calculate, current_time, update_profile, documents, markdown, memory, proposals, undo, web_search, or remove it";
    for (toml, expected) in [
        ("tools = ['clock']", format!("1:10: there is no tool named \"clock\"; {all}")),
        (
            "tools = ['calculat']",
            "1:10: there is no tool named \"calculat\"; did you mean \"calculate\"?".into(),
        ),
        (
            "tools = ['readMarkdwn']",
            "1:10: there is no tool named \"readMarkdwn\"; did you mean \"readMarkdown\"?".into(),
        ),
        (
            "tools = ['markdown', 'readMarkdown']",
            "1:22: the app has two tools named \"readMarkdown\"; remove one, or give it another name".into(),
        ),
        (
            "[tool.ask_user]\nclient = true\ndescription = 'd'",
            "1:7: \"ask_user\" is the name of a built-in tool; give it another name".into(),
        ),
        (
            "tools = ['markdown']\n[tool.readMarkdown]\nrecord = 'part'\ndoes = 'get'",
            "2:7: the app has two tools named \"readMarkdown\"; remove one, or give it another name".into(),
        ),
        (
            "tools = ['markdown']\n[tool.readMarkdow]\npolicy = 'ask'",
            "2:7: the app has no tool named \"readMarkdow\"; did you mean \"readMarkdown\"?".into(),
        ),
        (
            "[tool.calculate]\npolicy = 'ask'",
            "1:7: the app has no tool named \"calculate\"; \
             list it under tools, or add record and does, http, wasm or client = true to declare it"
                .into(),
        ),
        (
            "tools = ['proposals', 'undoAction']",
            "1:10: the app has no tool whose calls can be proposed; \
             list or declare the tools whose calls can be proposed, or remove it"
                .into(),
        ),
    ] {
        assert_eq!(problem(toml), format!("app.toml:{expected}"));
    }
}

#[test]
fn values_of_the_app_must_fit_the_records_schema() {
    let said = problem("[tool.a]\nrecord = 'part'\ndoes = 'create'\ndefaults = { status = 'gone' }");
    let expected = "app.toml:1:7: defaults does not fit records/part.json: /status: \"gone\" is not one of ";
    assert!(said.starts_with(expected), "{said}");
    let said = problem("[tool.a]\nrecord = 'part'\ndoes = 'update'\nfixed = { age = 'old' }");
    assert!(said.contains("fixed does not fit records/part.json: /age: "), "{said}");
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let (_folder, mut app) = app("[tool.a]\nrecord = 'part'\ndoes = 'get'");
    let part = app.records.get_mut("part").unwrap();
    part.schema["properties"]["name"]["type"] = json!("words");
    let problem = catalog().registry(&app, &[]).err().unwrap();
    assert!(problem.message.starts_with("records/part.json is not a JSON Schema: "), "{problem}");
    assert_eq!(problem.line, Some(1));
}

#[test]
fn families_count_as_many_as_they_are() {
    let mut catalog = catalog();
    struct Nothing;
    #[async_trait::async_trait]
    impl crate::Tool for Nothing {
        async fn call(&self, _: crate::Calling<'_>) -> Result<crate::ToolOutput, crate::Failed> {
            Ok(crate::ToolOutput::default())
        }
    }
    let offered = |number: usize| {
        let parameters = json!({ "type": "object" });
        let spec = crate::ToolSpec { name: format!("t{number}"), description: String::new(), parameters };
        crate::OfferedTool::new(spec, Nothing, ToolFacts::default())
    };
    (0..125).for_each(|number| catalog.add(offered(number)));
    let listed: Vec<String> = (0..125).map(|number| format!("'t{number}'")).collect();
    let (_folder, app) = app(&format!("tools = [{}, 'markdown']", listed.join(", ")));
    let problem = catalog.registry(&app, &[]).err().unwrap();
    assert_eq!(problem.message, "there are more than 128 tools");
}

#[test]
fn an_app_has_words_and_rules_of_its_own_for_a_tool() {
    let toml = "tools = ['markdown']\n[tool.readMarkdown]\ndescription = 'Reads the diary.'";
    let (_folder, app) = app(toml);
    let specs = catalog().registry(&app, &[]).unwrap().specs();
    let read = specs.iter().find(|spec| spec.name == "readMarkdown").unwrap();
    assert_eq!(read.description, "Reads the diary.");
}

#[test]
fn every_app_in_this_repository_gets_the_tools_it_names() {
    let apps = app::load_all(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps")).unwrap();
    for app in apps.values() {
        let registry = catalog().registry(app, &[]).unwrap_or_else(|problem| panic!("{problem}"));
        assert!(registry.specs().len() >= app.tools.len() + app.declared.len(), "{}", app.id);
    }
}

#[test]
fn what_an_app_says_of_a_search_or_of_a_server_s_tool_needs_neither_to_be_there() {
    for toml in [
        "tools = ['tavily_search']\n[tool.tavily_search]\npolicy = 'ask'",
        "tools = ['web_search']\n[tool.searxng_search]\npolicy = 'ask'",
        "[mcp.math]\nurl = 'https://math.example.com/mcp'\n[tool.math__add]\neffect = 'read'",
    ] {
        assert_eq!(problem(toml), "", "{toml}");
    }
    assert!(problem("[tool.tavily_search]\npolicy = 'ask'").contains("the app has no tool named"));
}
