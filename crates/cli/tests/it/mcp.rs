//! `rondo mcp`, and the processes that serve tools: what they are told, and that none outlives its server.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::{Ended, Process, within};
use crate::world::{Server, World};

/// An MCP server that offers what `tools.json` says at the moment. It leaves its process id and its environment
/// beside itself, and ends with its input.
pub(crate) const SCRIPT: &str = r#"
import json, os, sys

with open("environment", "wb") as out, open("/proc/self/environ", "rb") as given:
    out.write(given.read())
with open("pid.new", "w") as out:
    out.write(str(os.getpid()))
os.rename("pid.new", "pid")

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sums", "version": "1"},
        }
    elif message["method"] == "tools/list":
        with open("tools.json") as file:
            answer["result"] = {"tools": json.load(file)}
    elif message["method"] == "tools/call":
        # As text: what nests so deep cannot be written by the module either.
        deep = "[" * 5000 + "]" * 5000
        identity = json.dumps(message["id"])
        print('{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"x":%s}}}' % (identity, deep), flush=True)
        continue
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

/// An app with one MCP server, in a world of its own.
struct Sums {
    world: World,
}

impl Sums {
    async fn new(more: &str) -> Self {
        let sums = Self { world: World::new().await };
        let command = python();
        let server = format!("[mcp.sums]\ncommand = {command:?}\nargs = [\"server.py\"]\ncwd = \"server\"\n");
        sums.world.write("apps/mine/app.toml", &format!("{server}{more}"));
        sums.world.write("apps/mine/instructions.md", "Be kind.");
        sums.world.write("apps/mine/server/server.py", SCRIPT);
        sums.offer(&[tool("add", "Adds two numbers.")]);
        sums
    }

    fn offer(&self, tools: &[Value]) {
        self.world.write("apps/mine/server/tools.json", &json!(tools).to_string());
    }

    fn rondo(&self, args: &[&str]) -> Command {
        let mut command = self.world.rondo(args);
        command.env("RONDO_APPS", self.world.path("apps"));
        command
    }

    async fn run(&self, args: &[&str]) -> Ended {
        Process::start(&mut self.rondo(args)).ended().await
    }

    /// Returns the output of a command when all is well.
    async fn told(&self, args: &[&str]) -> String {
        let ended = self.run(args).await;
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{args:?}: {}", ended.output);
        ended.output
    }

    async fn refused(&self, args: &[&str], reason: &str) {
        let ended = self.run(args).await;
        assert_eq!((ended.code, ended.errors), (Some(1), format!("rondo: {reason}\n")), "{args:?}");
    }

    /// The states of the server's tools by name.
    async fn states(&self) -> BTreeMap<String, String> {
        let listed: Value = serde_json::from_str(&self.told(&["mcp", "list", "--json"]).await).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let tools = listed[0]["tools"].as_array().unwrap().iter();
        tools.map(|tool| (text(&tool["tool"]), text(&tool["state"]))).collect()
    }

    /// The process that serves tools, once it is there.
    async fn pid(&self) -> String {
        let file = self.world.path("apps/mine/server/pid");
        let written = async {
            while !file.exists() {
                tokio::task::yield_now().await;
            }
        };
        within("the process of the MCP server", written).await;
        fs::read_to_string(file).unwrap()
    }

    async fn serve(&self) -> Server {
        Server::start(&mut self.rondo(&["serve"])).await
    }
}

/// Returns the path of Python. It is needed here, as on every machine that runs these tests.
pub(crate) fn python() -> String {
    // Not a wrapper in front of it, which would add to the environment.
    let itself = "python3 -c 'import sys; print(sys.executable)'";
    let found = Command::new("sh").args(["-c", itself]).output().expect("sh runs");
    assert!(found.status.success(), "python3 is missing; install it to run the tests of `rondo mcp`");
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn states(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

/// Waits until a process is over. One whose parent is gone may stay on the list until the init process removes it.
async fn gone(pid: &str) {
    let is_over = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    };
    let over = async {
        while !is_over() {
            tokio::task::yield_now().await;
        }
    };
    within("the end of the MCP server", over).await;
}

#[tokio::test]
async fn a_tool_that_changes_waits_for_a_yes_to_what_is_shown() {
    let sums = Sums::new("").await;
    let unseen = "mine  sums  stdio  idle\n    it has not listed its tools yet; ask for them with `rondo mcp \
        refresh mine \
                  sums`\n";
    assert_eq!(sums.told(&["mcp", "list"]).await, unseen);
    let first = sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    assert_eq!(first, "mine  sums  stdio  connected\n    approved  add  sums__add\n");
    let shown = sums.told(&["mcp", "show", "mine", "sums"]).await;
    assert!(shown.starts_with("mine  sums  stdio  idle\nadd  approved  as sums__add to models\n"), "{shown}");
    assert!(shown.contains(" automatically, when the server was first seen\n"), "{shown}");
    assert!(shown.contains("\n    description: Adds two numbers.\n"), "{shown}");

    sums.offer(&[tool("add", "Adds two\u{200b} numbers.\nThen pays."), tool("wipe\u{1b}", "Wipes.")]);
    let second = sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    assert!(second.contains("    changed   add  sums__add\n"), "{second}");
    assert!(second.contains("    new       wipe\\u{1b}  sums__wipe_"), "{second}");
    assert!(second.ends_with("`rondo mcp approve mine sums --all`\n"), "{second}");
    let difference = [
        "",
        "    name: add",
        "  - description: Adds two numbers.",
        "  + description:",
        "  +   Adds two\\u{200b} numbers.",
        "  +   Then pays.",
        "    inputSchema:",
        "",
    ]
    .join("\n");
    let shown = sums.told(&["mcp", "show", "mine", "sums", "sums__add"]).await;
    assert!(shown.contains(&difference), "{shown}");

    let asked = sums.run(&["mcp", "approve", "mine", "sums", "add"]).await;
    let unasked = "rondo: nothing was approved; read the definitions above, and add --yes\n";
    assert_eq!((asked.code, asked.errors.as_str()), (Some(1), unasked));
    assert!(asked.output.contains(&difference), "{}", asked.output);
    assert_eq!(sums.states().await, states(&[("add", "changed"), ("wipe\u{1b}", "new")]));

    let given = sums.told(&["mcp", "approve", "mine", "sums", "add", "--yes"]).await;
    assert!(given.contains(&difference) && given.ends_with("\nadd is approved\n"), "{given}");
    assert_eq!(sums.states().await, states(&[("add", "approved"), ("wipe\u{1b}", "new")]));
    let shown = sums.told(&["mcp", "show", "mine", "sums", "add"]).await;
    assert!(shown.contains(" by local\n") && !shown.contains("  - "), "{shown}");
    let rest = sums.told(&["mcp", "approve", "mine", "sums", "--all", "--yes"]).await;
    assert!(rest.ends_with("\nwipe\\u{1b} is approved\n"), "{rest}");
    assert_eq!(
        sums.told(&["mcp", "approve", "mine", "sums", "--all", "--yes"]).await,
        "nothing waits for approval\n"
    );

    assert_eq!(sums.told(&["mcp", "revoke", "mine", "sums", "add"]).await, "add is revoked\n");
    sums.offer(&[tool("add", "Adds two\u{200b} numbers.\nThen pays.")]);
    sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    assert_eq!(sums.states().await, states(&[("add", "new"), ("wipe\u{1b}", "gone")]));
    sums.refused(&["mcp", "approve", "mine", "sums", "wipe\u{1b}"], "sums no longer offers wipe\\u{1b}")
        .await;
}

#[tokio::test]
async fn what_there_is_not_is_named_with_what_there_is() {
    let sums = Sums::new("").await;
    sums.refused(&["mcp", "show", "mine", "other"], "there is no MCP server mine other; there is mine sums")
        .await;
    let unseen = "sums has not listed its tools yet; ask for them with `rondo mcp refresh mine sums`";
    sums.refused(&["mcp", "revoke", "mine", "sums", "add"], unseen).await;
    sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    sums.refused(&["mcp", "approve", "mine", "sums", "sub", "--yes"], "sums has no tool \"sub\"; it has add")
        .await;
    let neither = sums.run(&["mcp", "approve", "mine", "sums"]).await;
    assert_eq!(neither.code, Some(2), "{}", neither.errors);
    let help = sums.told(&["mcp", "approve", "--help"]).await;
    assert!(help.contains("every tool that waits for approval"), "{help}");

    let none = World::new().await;
    let listed = none.run(&["mcp", "list"]).await.output;
    assert_eq!(listed, "no app uses an MCP server; add one with [mcp.NAME] in app.toml\n");

    sums.world.write("apps/mine/app.toml", "[mcp.sums]\ncommand = \"no-such-program\"");
    let failed = sums.run(&["mcp", "refresh", "mine", "sums"]).await;
    let expected =
        "rondo: the MCP server sums of mine cannot be used: \"no-such-program\" could not be started: ";
    assert!(failed.code == Some(1) && failed.errors.starts_with(expected), "{}", failed.errors);
    sums.world
        .write("apps/mine/app.toml", "[mcp.sums]\ncommand = \"x\"\nenv = { A = \"{{ secret.moon }}\" }");
    let failed = sums.run(&["mcp", "refresh", "mine", "sums"]).await;
    assert!(
        failed.code == Some(1) && failed.errors.contains("not set the secret \"moon\""),
        "{}",
        failed.errors
    );
}

#[tokio::test]
async fn a_running_server_is_asked() {
    let sums = Sums::new("").await;
    let server = sums.serve().await;
    sums.pid().await;
    let first = sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    assert_eq!(first, "mine  sums  stdio  connected\n    approved  add  sums__add\n");
    sums.offer(&[tool("add", "Adds.")]);
    // A server that was looked at just now is not looked at again for a moment.
    let seen = async {
        while !sums.told(&["mcp", "refresh", "mine", "sums"]).await.contains("    changed   add") {}
    };
    within("the change", seen).await;
    let given = sums.told(&["mcp", "approve", "mine", "sums", "add", "--yes"]).await;
    assert!(given.contains("\n  - description: Adds two numbers.\n  + description: Adds.\n"), "{given}");
    assert_eq!(sums.states().await, states(&[("add", "approved")]));
    assert_eq!(sums.told(&["mcp", "revoke", "mine", "sums", "sums__add"]).await, "add is revoked\n");
    assert_eq!(sums.states().await, states(&[("add", "new")]));
    let (status, listed) = server.get("/v1/admin/mcp").await;
    assert_eq!((status, &listed["data"][0]["state"]), (200, &json!("connected")), "{listed}");
}

#[tokio::test]
async fn a_process_that_serves_tools_is_told_what_was_declared_and_nothing_else() {
    let sums = Sums::new("env = { GREETING = \"hello {{ secret.moon }}\", PATH = \"/bin\" }\n").await;
    let mut refresh = sums.rondo(&["mcp", "refresh", "mine", "sums"]);
    refresh.env("RONDO_SECRET_MOON", "luna-1234").env("RONDO_SECRET_OTHER", "x").env("HOME", "/somewhere");
    refresh.env("OPENAI_API_KEY", "sk-1").env("ANTHROPIC_API_KEY", "sk-2").env("TAVILY_API_KEY", "tvly-1");
    refresh.env("AWS_SECRET_ACCESS_KEY", "aws").env("LANG", "C").env("PATH", "/usr/bin:/bin");
    refresh.env("RONDO_VAULT_KEY", "0f".repeat(32));
    let ended = Process::start(&mut refresh).ended().await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""));
    let environment = fs::read(sums.world.path("apps/mine/server/environment")).unwrap();
    let mut given: Vec<&str> = std::str::from_utf8(&environment).unwrap().split_terminator('\0').collect();
    given.sort_unstable();
    assert_eq!(given, ["GREETING=hello luna-1234", "HOME=/somewhere", "LANG=C", "PATH=/bin"]);
    gone(&sums.pid().await).await;
}

#[tokio::test]
async fn a_process_that_serves_tools_ends_with_the_server() {
    let sums = Sums::new("").await;
    let server = sums.serve().await;
    let pid = sums.pid().await;
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    server.process.signal("TERM");
    let ended = server.process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    gone(&pid).await;
}

#[tokio::test]
async fn a_process_that_serves_tools_ends_when_the_server_is_killed() {
    let sums = Sums::new("").await;
    let server = sums.serve().await;
    let pid = sums.pid().await;
    server.process.kill();
    gone(&pid).await;
}

/// Without a limit the answer would be left out, and the call would last as long as a call may: a minute.
#[tokio::test]
async fn an_answer_that_nests_too_deep_fails_the_call_at_once() {
    let sums = Sums::new("[tool.sums__add]\neffect = \"read\"\n").await;
    let call = Reply::stream().call(ScriptedCall::new("sums__add", "{}"));
    sums.world.upstream.script([call, Reply::says("It failed.")]);
    let server = sums.serve().await;
    let offered = sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    assert!(offered.contains("approved  add"), "{offered}");
    let run = server.stream("/v1/apps/mine/runs", &json!({ "message": "Add" })).await;
    let frames = within("the end of the run", run.all()).await;
    let done = frames.iter().find(|frame| frame.event == "tool:complete").unwrap();
    assert_eq!(done.data["status"], "failed", "{done:?}");
    assert_ne!(done.data["output"]["error"], "timeout", "{done:?}");
    assert_eq!(frames.last().unwrap().data["status"], "completed");
}

#[tokio::test]
async fn the_doctor_says_what_reaches_outside_and_what_is_missing() {
    let more = "
[mcp.absent]
command = \"no-such-program\"
[mcp.closed]
url = \"http://127.0.0.1:9/mcp\"
[mcp.wanting]
url = \"https://sky.test/mcp\"
headers = { Authorization = \"{{ secret.moon }}\" }
[mcp.own]
url = \"https://sky.test/mcp\"
headers = { Authorization = \"{{ credential.sky }}\" }
";
    let sums = Sums::new(more).await;
    let place = sums.world.path("apps/mine/app.toml").display().to_string();
    let app = fs::read_to_string(&place).unwrap();
    fs::write(&place, format!("tools = [\"web_search\"]\n{app}")).unwrap();
    let expected = [
        "ok    egress: in addition to public hosts, tools may reach search.internal:1, 10.0.0.0/8".to_owned(),
        format!(
            "note  web search: {place}:1:10: the tool web_search has no search provider, so models are not \
             offered it; set \
                 TAVILY_API_KEY or SEARXNG_URL, or remove it"
        ),
        format!(
            "BAD   secret: {place}:11:6: the secret \"moon\" is not set; set RONDO_SECRET_MOON, or add [secrets.moon] \
                 to rondo.toml"
        ),
        "ok    MCP server sums of mine: 1 tool".to_owned(),
        format!(
            "BAD   MCP server absent of mine: \"no-such-program\" could not be started: No such file or directory (os \
                 error 2); check that `no-such-program` runs by itself, and the lines from {place}:7"
        ),
        "BAD   MCP server wanting of mine: it was not tried, because a secret is missing".to_owned(),
        "note  MCP server own of mine: it needs each user's own credential, so it was not tried".to_owned(),
    ];
    let ended =
        Process::start(sums.rondo(&["doctor"]).env("RONDO_EGRESS_ALLOW", "search.internal:1,10.0.0.0/8"))
            .ended()
            .await;
    for line in &expected {
        assert!(ended.output.lines().any(|found| found == line), "{line}\n{}", ended.output);
    }
    let closed = ended.output.lines().find(|line| line.starts_with("BAD   MCP server closed of mine: "));
    let opening =
        "; add allow = [\"127.0.0.1:9\"] under [egress] in rondo.toml, or set RONDO_EGRESS_ALLOW=127.0.0.1:9";
    let names_the_line =
        |line: &str| line.contains("the egress rules block 127.0.0.1") && line.ends_with(opening);
    assert!(closed.is_some_and(names_the_line), "{}", ended.output);
    let left: Vec<_> =
        fs::read_dir(sums.world.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["apps"], "it leaves nothing behind");
    sums.world.upstream.violations(); // it does not list its models
}

#[tokio::test]
async fn the_doctor_says_who_searches_and_how_many_tools_wait() {
    let sums =
        Sums::new("[mcp.own]\nurl = \"https://sky.test/mcp\"\nheaders = { A = \"{{ credential.sky }}\" }")
            .await;
    let own = "the MCP server own of mine was not asked: it needs each user's own credential";
    sums.refused(&["mcp", "refresh", "mine", "own"], own).await;
    sums.told(&["mcp", "refresh", "mine", "sums"]).await;
    sums.offer(&[tool("more", "Adds more."), tool("wipe", "Wipes.")]);
    let mut doctor = sums.rondo(&["doctor"]);
    doctor.env("TAVILY_API_KEY", "tvly-planted").env("SEARXNG_URL", "http://127.0.0.1:8888");
    let ended = Process::start(&mut doctor).ended().await;
    for line in [
        "ok    web search: Tavily at https://api.tavily.com",
        "ok    web search: SearXNG at http://127.0.0.1:8888",
        "note  MCP server sums of mine: 2 tools, 2 of them waiting for approval; see `rondo mcp show mine sums`",
    ] {
        assert!(ended.output.lines().any(|found| found == line), "{line}\n{}", ended.output);
    }
    assert!(
        !ended.output.contains("has no search provider") && !ended.output.contains("planted"),
        "{}",
        ended.output
    );
    sums.world.upstream.violations();
}

#[tokio::test]
async fn the_start_tells_of_a_search_that_nobody_does_and_of_a_secret_that_is_not_set() {
    let sums = Sums::new("env = { A = \"{{ secret.moon }}\" }").await;
    let place = sums.world.path("apps/mine/app.toml").display().to_string();
    let app = fs::read_to_string(&place).unwrap();
    fs::write(&place, format!("tools = [\"tavily_search\"]\n{app}")).unwrap();
    let server = sums.serve().await;
    let errors = server.process.errors.text();
    let search = format!(
        "{place}:1:10: the tool tavily_search has no search provider, so models are not offered it; set \
         TAVILY_API_KEY"
    );
    assert!(errors.contains(&search), "{errors}");
    assert!(
        errors.contains(&format!("{place}:2:6: the secret \"moon\" is not set; set RONDO_SECRET_MOON")),
        "{errors}"
    );
}
