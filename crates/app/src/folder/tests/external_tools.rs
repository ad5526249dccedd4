//! Tools that reach outside or run in a sandbox, good and bad.

use protocol::Effect;
use serde_json::{Value, json};

use super::*;
use crate::{
    AnswerPart, BodyTemplate, DeclaredTool, FlowRule, HttpMethod, HttpTool, Names, Permission, SandboxTool,
    TextTemplate, ToolKind,
};

const MODULE: &[u8] = b"\0asm\x01\0\0\0";

const TICKETS: &str = r#"
[tool.createTicket]
description = "Opens a ticket."
effect = "reversible"
policy = "ask"
marker = "[OPENING]"
parameters = { type = "object", required = ["title"], properties = { title = { type = "string" }, project = { type = "string" }, also = { type = "object" } } }
[tool.createTicket.http]
method = "POST"
url = "https://tickets.example.com/api/{{ input.project }}/tickets"
query = { verbose = "{{ input.verbose }}" }
headers = { Authorization = "Bearer {{ secret.tickets }}", "X-Trace" = "{{ call.key }}" }
body = { title = "{{ input.title }}", fixed = 1 }
result = "/ticket"
timeout_seconds = 20
accept_status = [404, 409]
[tool.createTicket.undo]
method = "DELETE"
url = "https://tickets.example.com/api/tickets/{{ output.id }}"
headers = { Authorization = "Bearer {{ credential.tickets }}" }
[[tool.createTicket.flow]]
from = ["tavily_search", "documents"]
input = { project = ["a", "b"] }
[[tool.createTicket.flow]]
"#;

fn http(app: &App) -> &HttpTool {
    let ToolKind::Http(tool) = &app.declared[0].kind else { panic!("{:?}", app.declared) };
    tool
}

#[test]
fn a_request_is_read_as_it_is_declared() {
    let app = demo(TICKETS, PROMPT);
    let declared = &app.declared[0];
    assert_eq!((declared.tool.name.as_str(), declared.tool.line), ("createTicket", 2));
    assert_eq!(declared.description.as_deref(), Some("Opens a ticket."));
    assert_eq!(declared.permission, Some(Permission::Ask));
    let flow = FlowRule {
        from: Some(vec!["tavily_search".into(), "documents".into()]),
        input: json!({ "project": ["a", "b"] }).as_object().unwrap().clone(),
    };
    assert_eq!(declared.flows, [flow, FlowRule { from: None, input: serde_json::Map::new() }]);
    let tool = http(&app);
    assert_eq!(
        (tool.effect, tool.marker.as_deref(), tool.retry),
        (Effect::Reversible, Some("[OPENING]"), false)
    );
    assert_eq!(tool.parameters["additionalProperties"], false);
    let names: Vec<&String> = tool.parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["title", "project", "also"], "in the order of the file");
    assert_eq!(tool.answer, AnswerPart::Pointer("/ticket".into()));
    assert_eq!(tool.accept_status, [404, 409]);
    assert_eq!(
        (tool.request.method, tool.request.timeout),
        (HttpMethod::Post, Some(Duration::from_secs(20)))
    );
    let headers: Vec<&str> = tool.request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(headers, ["Authorization", "X-Trace"]);
    let undo = tool.undo.as_ref().unwrap();
    assert_eq!((undo.method, undo.timeout, undo.body.is_none()), (HttpMethod::Delete, None, true));
    assert_eq!(undo.credentials(), BTreeSet::from(["tickets"]));
    let values = json!({ "input": { "project": "a/b", "title": "T" }, "secret": { "tickets": "s" }, "call": { "key": "k" } });
    let rendered = tool.request.render(&values).unwrap();
    assert_eq!(rendered.url, "https://tickets.example.com/api/a%2Fb/tickets");
    assert!(rendered.body == Some(crate::RenderedBody::Json(json!({ "title": "T", "fixed": 1 }))));
    assert_eq!(app.secrets().into_iter().collect::<Vec<_>>(), [("tickets", &declared.tool)]);
}

#[test]
fn what_a_request_does_follows_from_its_method() {
    for (method, effect, retry) in [
        ("GET", Effect::Read, true),
        ("HEAD", Effect::Read, true),
        ("PUT", Effect::Idempotent, true),
        ("DELETE", Effect::Idempotent, true),
        ("POST", Effect::Irreversible, false),
        ("PATCH", Effect::Irreversible, false),
    ] {
        let app = demo(&tool(&format!("url = 'https://a.example.com/'\nmethod = '{method}'")), PROMPT);
        assert_eq!((http(&app).effect, http(&app).retry), (effect, retry), "{method}");
        assert_eq!(http(&app).request.method.name(), method);
    }
    let app = demo(&tool("url = 'https://a.example.com/'\nretry = false"), PROMPT);
    let tool = http(&app);
    assert_eq!((tool.request.method, tool.retry, &tool.answer), (HttpMethod::Get, false, &AnswerPart::Whole));
    assert_eq!(tool.parameters, json!({ "type": "object", "properties": {}, "additionalProperties": false }));
    let text = "url = 'https://a.example.com/'\nmethod = 'PUT'\ntext = 'x {{ input.a }}'\nresult_template = '{{ output.b }}'";
    let app = demo(&super::external_tools::tool(text), PROMPT);
    let expected = TextTemplate::new("{{ output.b }}", Names::Answer).unwrap();
    assert_eq!(http(&app).answer, AnswerPart::Text(expected));
    assert_eq!(
        http(&app).request.body,
        Some(BodyTemplate::Text(TextTemplate::new("x {{ input.a }}", Names::Call).unwrap()))
    );
}

/// A tool with these lines under `http`, which begin on the fourth line.
fn tool(lines: &str) -> String {
    format!("[tool.x]\ndescription = 'd'\n[tool.x.http]\n{lines}")
}

fn refused(lines: &str, expected: &str) {
    assert_eq!(problem(&apps(&tool(lines), PROMPT)), format!("demo/app.toml:{expected}"), "{lines}");
}

#[test]
fn a_request_that_cannot_be_made_is_refused_where_it_is_wrong() {
    let url = "url = 'https://a.example.com/'";
    let names = "use only input, secret.NAME, credential.NAME, user.id, app.id, thread.id, call.key";
    for (lines, expected) in [
        ("method = 'GET'".to_owned(), "3:1: tool.x.http has no url; add url = \"https://…\"".to_owned()),
        ("url = '{{ input.a }}'".into(), "4:7: tool.x.http.url: scheme, host or port is a template; write them literally; only the path and the query may contain {{ … }}".into()),
        ("url = 'https://a.example.com/{{ secret.a }}'".into(), "4:7: tool.x.http.url: the url itself names a secret; addresses are logged; put the secret into headers, query or body".into()),
        (format!("{url}\nmethod = 'post'"), "5:10: method is \"post\"; write \"GET\" or \"HEAD\" or \"POST\" or \"PUT\" or \"PATCH\" or \"DELETE\"".into()),
        (format!("{url}\nquery = {{ a = '{{{{ b }}}}' }}"), format!("5:15: tool.x.http.query.a: the template names \"b\"; {names}")),
        (format!("{url}\nmethod = 'POST'\nbody = {{ a = ['{{{{ b }}}}'] }}"), format!("6:8: tool.x.http.body: /a/0: the template names \"b\"; {names}")),
        (format!("{url}\nmethod = 'POST'\nform = {{ a = '{{{{ b }}}}' }}"), format!("6:14: tool.x.http.form.a: the template names \"b\"; {names}")),
        (format!("{url}\nmethod = 'POST'\ntext = '{{{{ output }}}}'"), format!("6:8: tool.x.http.text: the template names \"output\"; {names}")),
        (format!("{url}\nmethod = 'POST'\ntext = ''\nform = {{}}"), "3:1: tool.x.http has more than one of body, form and text; keep one".into()),
        (format!("{url}\ntext = ''"), "3:1: tool.x.http is a GET request with a body; remove the body, or add method = \"POST\"".into()),
        (format!("{url}\nheaders = {{ 'a b' = '' }}"), "5:13: \"a b\" cannot be a header's name; write letters, digits and dashes".into()),
        (format!("{url}\nheaders = {{ Host = '' }}"), "5:13: the server sets the header Host itself; remove it".into()),
        (format!("{url}\nheaders = {{ 'content-LENGTH' = '' }}"), "5:13: the server sets the header content-LENGTH itself; remove it".into()),
        (format!("{url}\nheaders = {{ A = '', a = '' }}"), "5:13: the header A is given twice; remove one".into()),
        (format!("{url}\ntimeout_seconds = 601"), "5:19: tool.x.http.timeout_seconds is 601; write a whole number from 1 to 600".into()),
        (format!("{url}\ntimeout_seconds = 0"), "5:19: tool.x.http.timeout_seconds is 0; write a whole number from 1 to 600".into()),
        (format!("{url}\nresult = 'ticket'"), "5:10: tool.x.http.result is \"ticket\"; write a JSON pointer, such as \"/ticket/id\"".into()),
        (format!("{url}\nresult = '/a~2'"), "5:10: tool.x.http.result is \"/a~2\"; write a JSON pointer, such as \"/ticket/id\"".into()),
        (format!("{url}\nresult = '/a'\nresult_template = 'b'"), "6:19: tool.x.http has both result and result_template; keep one".into()),
        (format!("{url}\nresult_template = '{{{{ secret.a }}}}'"), "5:19: tool.x.http.result_template: the template names \"secret.a\"; use only input, output, user.id, app.id, thread.id, call.key".into()),
        (format!("{url}\nmethod = 'POST'\nretry = true"), "6:9: a call that is irreversible cannot be made twice; remove retry, or write effect = \"idempotent\" if it can".into()),
        (format!("{url}\naccept_status = [200]"), "5:18: tool.x.http.accept_status is 200; write a whole number from 300 to 599".into()),
        (format!("{url}\naccept_status = [600]"), "5:18: tool.x.http.accept_status is 600; write a whole number from 300 to 599".into()),
        (format!("{url}\naccept_status = [{}]", ["404"; 21].join(", ")), "5:17: tool.x.http.accept_status names more than 20 statuses; name fewer".into()),
        (format!("{url}\n[tool.x.undo]\n{url}"), "5:1: tool.x has an undo, and its effect is \"read\"; write effect = \"reversible\", or remove the undo".into()),
        (format!("{url}\nmethods = 'GET'"), "5:1: unknown key \"methods\"; did you mean \"method\"?".into()),
    ] {
        refused(&lines, &expected);
    }
    let many: Vec<String> = (0..65).map(|i| format!("a{i:02} = ''")).collect();
    refused(
        &format!("{url}\n[tool.x.http.query]\n{}", many.join("\n")),
        "70:1: tool.x.http.query has more than 64 entries; name fewer",
    );
}

#[test]
fn a_tool_is_of_one_kind_and_says_what_fits_it() {
    let http = "[tool.x.http]\nurl = 'https://a.example.com/'";
    let undo = "[tool.x.undo]\nurl = 'https://a.example.com/{{ output.id }}'";
    for (lines, expected) in [
        (format!("record = 'part'\n{http}"), "1:7: tool.x has several kinds: record and http; keep one kind, or declare two tools".to_owned()),
        (format!("{http}\n[tool.x.wasm]\nmodule = 'a'"), "1:7: tool.x has several kinds: http and wasm; keep one kind, or declare two tools".into()),
        (http.to_owned(), "1:7: tool.x has no description; add description = \"…\", which tells the model what the tool does".into()),
        (format!("description = 'd'\nlimit = 3\n{http}"), "3:9: limit has no meaning for an HTTP tool; remove it".into()),
        (format!("description = 'd'\neffect = 'reversible'\n{http}"), "1:7: tool.x is reversible, and has no undo; add [tool.x.undo], or write another effect".into()),
        (format!("description = 'd'\neffect = 'reversible'\n{http}\n{undo}\nretry = true"), "8:9: retry has no meaning for an undo; remove it".into()),
        (format!("description = 'd'\neffect = 'big'\n{http}"), "3:10: effect is \"big\"; write \"read\" or \"idempotent\" or \"reversible\" or \"irreversible\"".into()),
        (format!("description = 'd'\nmarker = ''\n{http}"), "3:10: tool.x.marker is \"\"; write one line of 1 to 64 characters".into()),
        (format!("description = 'd'\nmarker = \"a\\nb\"\n{http}"), "3:10: tool.x.marker is \"a\\nb\"; write one line of 1 to 64 characters".into()),
        (format!("description = 'd'\nmarker = '{}'\n{http}", "é".repeat(65)), format!("3:10: tool.x.marker is \"{}\"; write one line of 1 to 64 characters", "é".repeat(65))),
        ("parameters_file = 'a.json'".into(), "1:7: tool.x names no record type, no request and no module; add record and does, http, wasm or client = true; or keep only description, policy, confirm, effect, flow, plausible and marker".into()),
        ("effect = 'read'".into(), "2:10: tool.x is not a tool of an MCP server, so its effect is known already; remove effect".into()),
        ("[[tool.x.flow]]\nfrom = []".into(), "3:8: tool.x.flow.from names 0 sources; name 1 to 128, or remove the line to allow any".into()),
        ("[[tool.x.flow]]\nfrom = ['a b']".into(), "3:9: tool.x.flow.from names \"a b\"; write names of tools, or \"documents\"".into()),
        ("[[tool.x.flow]]\ninput = 3".into(), "3:9: tool.x.flow.input is not a table; write { ARGUMENT = VALUE }".into()),
        ("[[tool.x.flow]]\ninput = { a = [] }".into(), "3:9: tool.x.flow.input.a allows no value; list the allowed values".into()),
        ("[[tool.x.flow]]\n".repeat(51), "1:7: tool.x has more than 50 flows; combine some of them".into()),
    ] {
        assert_eq!(problem(&apps(&format!("[tool.x]\n{lines}"), PROMPT)), format!("demo/app.toml:{expected}"));
    }
    let marked = demo(&format!("[tool.x]\ndescription = 'd'\nmarker = '{}'\n{http}", "é".repeat(64)), PROMPT);
    assert_eq!(self::http(&marked).marker.as_ref().unwrap().chars().count(), 64);
    let undone = format!("[tool.x]\ndescription = 'd'\neffect = 'reversible'\n{http}\n{undo}");
    assert_eq!(self::http(&demo(&undone, PROMPT)).undo.as_ref().unwrap().method, HttpMethod::Get);
    let listed =
        demo("tools = ['x']\n[tool.x]\nmarker = '…'\n[[tool.x.flow]]\ninput = { to = 'me' }", PROMPT);
    assert_eq!((listed.adjusted[0].marker.as_deref(), listed.adjusted[0].flows.len()), (Some("…"), 1));
}

#[test]
fn what_is_said_of_a_tool_over_records_is_about_records() {
    let part =
        r#"{"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"}}}"#;
    for (line, key) in [
        ("effect = 'read'", "effect"),
        ("marker = 'm'", "marker"),
        ("parameters = { type = 'object' }", "parameters"),
        ("parameters_file = 'a.json'", "parameters_file"),
    ] {
        let toml = format!("[tool.x]\nrecord = 'part'\ndoes = 'get'\n{line}");
        let said = problem(&with(&toml, &[("records/part.json", part)]));
        let column = key.len() + 4;
        let expected = format!("{key} has no meaning for a tool over records; remove it");
        assert_eq!(said, format!("demo/app.toml:4:{column}: {expected}"));
    }
    let flowing = "[tool.x]\nrecord = 'part'\ndoes = 'get'\n[[tool.x.flow]]\nfrom = ['documents']";
    let apps = with(flowing, &[("records/part.json", part)]);
    assert_eq!(load(&apps.path().join("demo")).unwrap().declared[0].flows.len(), 1);
}

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"b": {"type": "object"}, "a": {"type": "string"}}}"#;

fn parameters(line: &str, files: &[(&str, &str)]) -> TempDir {
    let toml = format!("[tool.x]\ndescription = 'd'\n{line}\n[tool.x.http]\nurl = 'https://a.example.com/'");
    with(&toml, files)
}

#[test]
fn arguments_are_described_in_the_file_or_beside_it() {
    let beside = parameters("parameters_file = 'tools/x.json'", &[("tools/x.json", SCHEMA)]);
    let app = load(&beside.path().join("demo")).unwrap();
    let expected: Value = json!({
        "type": "object",
        "properties": { "b": { "type": "object" }, "a": { "type": "string" } },
        "additionalProperties": false,
    });
    assert_eq!(http(&app).parameters, expected);
    let changed =
        parameters("parameters_file = 'tools/x.json'", &[("tools/x.json", &SCHEMA.replace('a', "c"))]);
    assert_ne!(load(&changed.path().join("demo")).unwrap().revision, app.revision);
}

#[test]
fn arguments_that_nothing_describes_are_refused() {
    for (line, text, expected) in [
        (
            "parameters = { type = 'string' }",
            "",
            "app.toml:3:14: tool.x.parameters: the schema is not of type object; describe one object",
        ),
        (
            "parameters = { type = 'object', additionalProperties = true }",
            "",
            "app.toml:3:14: tool.x.parameters: the schema allows additional properties; remove \
             additionalProperties, or make it false",
        ),
        (
            "parameters = { type = 'object', required = 'a' }",
            "",
            "app.toml:3:14: tool.x.parameters: /required is not JSON Schema: \"a\" is not of type \"array\"; correct it there",
        ),
        (
            "parameters = { type = 'object', maximum = nan }",
            "",
            "app.toml:3:43: the number is not finite; expected a finite number",
        ),
        (
            "parameters = { type = 'object', default = 2024-01-01 }",
            "",
            "app.toml:3:43: JSON has no dates; expected a text in quotes",
        ),
        (
            "parameters = { type = 'object' }\nparameters_file = 'x.json'",
            SCHEMA,
            "app.toml:4:19: tool.x has both parameters and parameters_file; keep one",
        ),
        (
            "parameters_file = 'y.json'",
            SCHEMA,
            "app.toml:3:19: tool.x.parameters_file: y.json: No such file or directory (os error 2); create it, or correct the path",
        ),
        (
            "parameters_file = '../x.json'",
            SCHEMA,
            "app.toml:3:19: tool.x.parameters_file is \"../x.json\"; write a path below the app's folder, without \"..\"",
        ),
        (
            "parameters_file = '/etc/x.json'",
            SCHEMA,
            "app.toml:3:19: tool.x.parameters_file is \"/etc/x.json\"; write a path below the app's folder, without \"..\"",
        ),
        (
            "parameters_file = ''",
            SCHEMA,
            "app.toml:3:19: tool.x.parameters_file is \"\"; write a path below the app's folder, without \"..\"",
        ),
        ("parameters_file = 'x.json'", "{", "x.json:1:1: this is not JSON; write one JSON Schema"),
        ("parameters_file = 'x.json'", "[]", "x.json: the schema is not of type object; describe one object"),
    ] {
        let said = problem(&parameters(line, &[("x.json", text)]));
        assert_eq!(said, format!("demo/{expected}"));
    }
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_folder() {
    let apps = parameters("parameters_file = 'x.json'", &[]);
    let outside = apps.path().join("outside.json");
    fs::write(&outside, r#"{"type": "object"}"#).unwrap();
    std::os::unix::fs::symlink(&outside, apps.path().join("demo/x.json")).unwrap();
    let expected = "demo/app.toml:3:19: tool.x.parameters_file: x.json is outside the app's folder; copy the \
        file into it";
    let said = load(&apps.path().join("demo")).unwrap_err().to_string();
    assert!(said.ends_with(expected), "{said}");
    fs::remove_file(apps.path().join("demo/x.json")).unwrap();
    fs::write(apps.path().join("demo/y.json"), r#"{"type": "object"}"#).unwrap();
    std::os::unix::fs::symlink("y.json", apps.path().join("demo/x.json")).unwrap();
    load(&apps.path().join("demo")).unwrap();
}

fn sandbox(lines: &str, module: &[u8]) -> TempDir {
    let apps = apps(&format!("[tool.slug]\ndescription = 'd'\n[tool.slug.wasm]\n{lines}"), PROMPT);
    fs::write(apps.path().join("demo/slug.wasm"), module).unwrap();
    apps
}

#[test]
fn code_in_a_sandbox_is_read_with_its_bounds() {
    let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let read = |apps: &TempDir| load(&apps.path().join("demo")).unwrap();
    let app = read(&sandbox("module = 'slug.wasm'", MODULE));
    let expected = SandboxTool {
        parameters,
        module: MODULE.into(),
        fuel: 100_000_000,
        memory_bytes: 16 * 1024 * 1024,
        timeout: Duration::from_secs(5),
    };
    assert_eq!(app.declared[0].kind, ToolKind::Sandbox(expected.clone()));
    let bounds = "module = 'slug.wasm'\nfuel = 1_000\nmemory_mb = 256\ntimeout_seconds = 60";
    let bounded = SandboxTool {
        fuel: 1000,
        memory_bytes: 256 * 1024 * 1024,
        timeout: Duration::from_secs(60),
        ..expected
    };
    assert_eq!(read(&sandbox(bounds, MODULE)).declared[0].kind, ToolKind::Sandbox(bounded));
    let other = read(&sandbox("module = 'slug.wasm'", b"\0asm\x01\0\0\0\0"));
    assert_ne!(app.revision, other.revision, "the code is part of the app");
}

#[test]
fn code_that_cannot_run_is_refused() {
    for (lines, expected) in [
        ("", "3:1: tool.slug.wasm has no module; add module = \"tools/….wasm\""),
        (
            "module = 'slug.wasm'\nfuel = 999",
            "5:8: tool.slug.wasm.fuel is 999; write a whole number from 1000 to 10000000000",
        ),
        (
            "module = 'slug.wasm'\nfuel = 10_000_000_001",
            "5:8: tool.slug.wasm.fuel is 10000000001; write a whole number from 1000 to 10000000000",
        ),
        (
            "module = 'slug.wasm'\nmemory_mb = 0",
            "5:13: tool.slug.wasm.memory_mb is 0; write a whole number from 1 to 256",
        ),
        (
            "module = 'slug.wasm'\nmemory_mb = 257",
            "5:13: tool.slug.wasm.memory_mb is 257; write a whole number from 1 to 256",
        ),
        (
            "module = 'slug.wasm'\ntimeout_seconds = 61",
            "5:19: tool.slug.wasm.timeout_seconds is 61; write a whole number from 1 to 60",
        ),
        (
            "module = '../slug.wasm'",
            "4:10: tool.slug.wasm.module is \"../slug.wasm\"; write a path below the app's folder, without \"..\"",
        ),
        (
            "module = 'slug.wasm'\n[tool.slug.undo]\nurl = 'https://a.example.com/'",
            "5:1: undo has no meaning for a tool in a sandbox; remove it",
        ),
    ] {
        assert_eq!(problem(&sandbox(lines, MODULE)), format!("demo/app.toml:{expected}"));
    }
    let said =
        problem(&apps("[tool.slug]\ndescription = 'd'\neffect = 'read'\nwasm = { module = 'a' }", PROMPT));
    let expected =
        "demo/app.toml:3:10: tool.slug runs in a sandbox, so its effect is always read; remove effect";
    assert_eq!(said, expected);
    let text = problem(&sandbox("module = 'slug.wasm'", b"(module)"));
    let expected = "demo/slug.wasm: this is not a WebAssembly module; build it for a WebAssembly target, and \
        name the .wasm file";
    assert_eq!(text, expected);
    let mut large = MODULE.to_vec();
    large.resize(8 * 1024 * 1024, 0);
    load(&sandbox("module = 'slug.wasm'", &large).path().join("demo")).unwrap();
    large.push(0);
    let expected =
        "demo/slug.wasm: the module is larger than 8 MiB; build it for size, without debug information";
    assert_eq!(problem(&sandbox("module = 'slug.wasm'", &large)), expected);
}

#[test]
fn further_files_hold_further_tools() {
    let one = "[tool.b]\ndescription = 'd'\nhttp = { url = 'https://a.example.com/' }";
    let apps = with(
        &format!("# first\n{}", one.replace("tool.b", "tool.z")),
        &[
            ("tools/b.toml", one),
            (
                "tools/a.toml",
                "[tool.c]\ndescription = 'd'\nhttp = { url = 'https://a.example.com/' }\n[mcp.m]\ncommand = 'm'",
            ),
            ("tools/notes.md", "left alone"),
        ],
    );
    let app = load(&apps.path().join("demo")).unwrap();
    let places: Vec<(&str, String)> = app
        .declared
        .iter()
        .map(|tool| {
            (tool.tool.name.as_str(), tool.tool.file.file_name().unwrap().to_string_lossy().into_owned())
        })
        .collect();
    assert_eq!(places, [("z", "app.toml".into()), ("c", "a.toml".into()), ("b", "b.toml".into())]);
    assert_eq!(app.mcp.len(), 1);
    fs::write(apps.path().join("demo/tools/b.toml"), format!("{one}\n# changed")).unwrap();
    assert_ne!(load(&apps.path().join("demo")).unwrap().revision, app.revision);

    for (name, text, expected) in [
        (
            "c.toml",
            one,
            "tools/c.toml:1:7: the tool \"b\" is in tools/b.toml too; remove one, or give it another name",
        ),
        (
            "c.toml",
            "[tool.z]\npolicy = 'ask'",
            "tools/c.toml:1:7: the tool \"z\" is in app.toml too; remove one, or give it another name",
        ),
        (
            "c.toml",
            "[mcp.m]\ncommand = 'm'",
            "tools/c.toml:1:6: the MCP server \"m\" is in tools/a.toml too; remove one, or give it another name",
        ),
        ("c.toml", "name = 'x'", "tools/c.toml:1:1: unknown key \"name\"; the keys here are tool, mcp"),
    ] {
        fs::write(apps.path().join("demo/tools").join(name), text).unwrap();
        assert_eq!(problem(&apps), format!("demo/{expected}"));
    }
}

#[test]
fn a_tool_of_the_client_says_what_the_client_does() {
    let app = demo("[tool.x]\nclient = true\ndescription = 'd'\neffect = 'irreversible'", PROMPT);
    let DeclaredTool { kind: ToolKind::Client(tool), .. } = &app.declared[0] else {
        panic!("{:?}", app.declared)
    };
    assert_eq!(tool.effect, Effect::Irreversible);
    assert_eq!(tool.parameters["additionalProperties"], false);
    let plain = demo("[tool.x]\nclient = true\ndescription = 'd'", PROMPT);
    assert!(matches!(&plain.declared[0].kind, ToolKind::Client(tool) if tool.effect == Effect::Read));
    for (lines, expected) in [
        (
            "client = true",
            "1:7: tool.x has no description; add description = \"…\", which tells the model what the tool does",
        ),
        (
            "client = false\ndescription = 'd'",
            "2:10: tool.x.client is false; write client = true, or remove it",
        ),
        (
            "client = true\ndescription = 'd'\nmarker = 'm'",
            "4:10: marker has no meaning for a tool of the client; remove it",
        ),
        (
            "client = true\ndescription = 'd'\nlimit = 3",
            "4:9: limit has no meaning for a tool of the client; remove it",
        ),
        (
            "client = true\ndescription = 'd'\neffect = 'reversible'",
            "4:10: tool.x is a tool of the client, which cannot be undone; write \"read\", \"idempotent\" or \"irreversible\"",
        ),
        (
            "client = true\ndescription = 'd'\n[tool.x.wasm]\nmodule = 'a'",
            "1:7: tool.x has several kinds: wasm and client; keep one kind, or declare two tools",
        ),
    ] {
        assert_eq!(
            problem(&apps(&format!("[tool.x]\n{lines}"), PROMPT)),
            format!("demo/app.toml:{expected}")
        );
    }
}
