//! Servers whose tools an app has, good and bad.

use protocol::Effect;
use serde_json::json;

use super::*;
use crate::{AppMcpServer, AppMcpTransport, Names, TextTemplate};

const SERVERS: &str = r#"
[mcp.everything]
command = "npx"
args = ["-y", "server-everything", "stdio"]
env = { TOKEN = "{{ secret.everything }}", ABOUT = "{{ app.id }}" }
cwd = "servers"

[mcp.git-hub_2]
url = "https://api.example.com/mcp"
headers = { Authorization = "Bearer {{ credential.github }}", "X-Key" = "{{ secret.everything }}{{ secret.key }}" }
tools = ["search_issues"]
timeout_seconds = 60

[tool.everything__delete]
effect = "irreversible"
description = "Deletes."
"#;

#[test]
fn servers_are_read_in_the_order_of_the_file() {
    let apps = with(SERVERS, &[("servers/README.md", "")]);
    let dir = apps.path().join("demo");
    let app = load(&dir).unwrap();
    let template = |source: &str| TextTemplate::new(source, Names::Connection).unwrap();
    let named = |name: &str, line| ToolRef { name: name.into(), file: dir.join("app.toml"), line, column: 6 };
    let everything = AppMcpServer {
        name: named("everything", 2),
        transport: AppMcpTransport::Stdio {
            command: "npx".into(),
            args: vec!["-y".into(), "server-everything".into(), "stdio".into()],
            env: vec![
                ("TOKEN".into(), template("{{ secret.everything }}")),
                ("ABOUT".into(), template("{{ app.id }}")),
            ],
            cwd: Some(dir.join("servers")),
        },
        tools: None,
        timeout: None,
    };
    let github = AppMcpServer {
        name: named("git-hub_2", 8),
        transport: AppMcpTransport::Http {
            url: "https://api.example.com/mcp".into(),
            headers: vec![
                ("Authorization".into(), template("Bearer {{ credential.github }}")),
                ("X-Key".into(), template("{{ secret.everything }}{{ secret.key }}")),
            ],
        },
        tools: Some(BTreeSet::from(["search_issues".into()])),
        timeout: Some(Duration::from_secs(60)),
    };
    assert_eq!(app.mcp, [everything, github]);
    let [everything, github] = app.mcp.as_slice() else { panic!("{:?}", app.mcp) };
    assert_eq!((everything.is_per_user(), github.is_per_user()), (false, true));
    assert_eq!(github.credentials(), BTreeSet::from(["github"]));
    let secrets: Vec<_> = app.secrets().into_iter().collect();
    assert_eq!(secrets, [("everything", &everything.name), ("key", &github.name)]);
    assert_eq!(app.adjusted[0].effect, Some(Effect::Irreversible));
    let server = |tool: &str| app.server_of(tool).map(|server| server.name.name.as_str());
    assert_eq!(server("everything__delete"), Some("everything"));
    assert_eq!(
        server("everything___delete"),
        Some("everything"),
        "a tool's name may begin with an underscore"
    );
    assert_eq!(server("git-hub_2__a__b"), Some("git-hub_2"));
    assert_eq!(
        (server("everything_delete"), server("nothing__delete"), server("everything")),
        (None, None, None)
    );
}

#[test]
fn a_server_that_cannot_be_reached_is_refused() {
    let names = "use only secret.NAME, credential.NAME, user.id, app.id";
    for (lines, expected) in [
        ("tools = ['a']", "1:6: mcp.m does not say how to reach the server; add command = \"…\" to start it, or url = \"https://…\"".to_owned()),
        ("command = 'a'\nurl = 'https://a.example.com'", "3:7: mcp.m has both command and url; keep one".into()),
        ("command = ' '", "2:11: mcp.m.command is empty; write a text, or remove the line to get the default".into()),
        ("command = 'a'\nheaders = {}", "3:11: mcp.m.headers has no meaning together with command; remove it".into()),
        ("command = 'a'\nenv = { 'A B' = '' }", "3:9: \"A B\" cannot be the name of an environment variable; write letters, digits and underscores".into()),
        ("command = 'a'\nenv = { A = '{{ input.a }}' }", format!("3:13: mcp.m.env.A: the template names \"input.a\"; {names}")),
        ("command = 'a'\ncwd = '../b'", "3:7: mcp.m.cwd is \"../b\"; write a path below the app's folder, without \"..\"".into()),
        ("url = 'https://a.example.com'\nargs = []", "3:8: mcp.m.args has no meaning together with url; remove it".into()),
        ("url = 'https://a.example.com'\nenv = {}", "3:7: mcp.m.env has no meaning together with url; remove it".into()),
        ("url = 'https://a.example.com'\ncwd = 'a'", "3:7: mcp.m.cwd has no meaning together with url; remove it".into()),
        ("url = 'https://a.example.com/{{ user.id }}'", "2:7: mcp.m.url: the url is a template; write it literally; only headers may contain {{ … }}".into()),
        ("url = 'ws://a.example.com'", "2:7: mcp.m.url: it does not begin with http:// or https://; write https:// or http://, a host, and the path".into()),
        ("url = 'https://a.example.com'\nheaders = { Host = 'a' }", "3:13: the server sets the header Host itself; remove it".into()),
        ("command = 'a'\ntools = []", "3:9: mcp.m.tools names 0 tools; name 1 to 128, or remove the line to have all".into()),
        ("command = 'a'\ntools = ['']", "3:10: \"\" cannot be a tool's name; write it as the server does".into()),
        ("command = 'a'\ntimeout_seconds = 601", "3:19: mcp.m.timeout_seconds is 601; write a whole number from 1 to 600".into()),
        ("command = 'a'\nargv = []", "3:1: unknown key \"argv\"; did you mean \"args\"?".into()),
    ] {
        let said = problem(&apps(&format!("[mcp.m]\n{lines}"), PROMPT));
        assert_eq!(said, format!("demo/app.toml:{expected}"));
    }
    let many = format!("[mcp.m]\ncommand = 'a'\nargs = {}", json!(vec!["a"; 65]));
    let expected =
        "demo/app.toml:3:8: mcp.m.args has more than 64 entries; put them into a file that the server reads";
    assert_eq!(problem(&apps(&many, PROMPT)), expected);
}

#[test]
fn a_server_has_a_name_that_its_tools_can_begin_with() {
    let longest = "a".repeat(25);
    for name in ["a__b", "a_", "a b", "é", "", &longest] {
        let said = problem(&apps(&format!("[mcp.'{name}']\ncommand = 'a'"), PROMPT));
        let rule = "write 1 to 24 letters, digits, dashes or single underscores, none at the end";
        assert_eq!(said, format!("demo/app.toml:1:6: {name:?} cannot be a server's name; {rule}"));
    }
    demo(&format!("[mcp.{}]\ncommand = 'a'", "a".repeat(24)), PROMPT);
    let servers = |number| (0..number).map(|i| format!("[mcp.m{i}]\ncommand = 'a'\n")).collect::<String>();
    assert_eq!(demo(&servers(16), PROMPT).mcp.len(), 16);
    let said = problem(&apps(&servers(17), PROMPT));
    assert_eq!(said, "demo/app.toml:33:6: there are more than 16 MCP servers; connect the app to fewer");
}

#[test]
fn what_an_app_says_of_a_servers_tool_must_be_possible() {
    let server = "[mcp.m]\ncommand = 'a'\n";
    for (lines, expected) in [
        (
            "[tool.n__a]\neffect = 'read'",
            "4:10: tool.n__a is not a tool of an MCP server, so its effect is known already; remove effect",
        ),
        (
            "[tool.m__a]\neffect = 'reversible'",
            "4:10: tool.m__a is a tool of an MCP server, which cannot be undone; write \"read\", \
             \"idempotent\" or \"irreversible\"",
        ),
        (
            "[tool.m__a]\ndescription = 'd'\nhttp = { url = 'https://a.example.com' }",
            "3:7: \"m__a\" is the name of a tool of the MCP server \"m\"; give it another name",
        ),
    ] {
        let said = problem(&apps(&format!("{server}{lines}"), PROMPT));
        assert_eq!(said, format!("demo/app.toml:{expected}"));
    }
}
