//! `rondo apps`, and changes in the apps folder while the server runs.

use std::fs;

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};

use crate::mcp::{SCRIPT, python, tool};
use crate::process::{Ended, within};
use crate::world::{Server, World};

const RUNS: &str = "/v1/apps/demo/runs";

/// A world with the app `demo`, which says who it is.
async fn world() -> World {
    let world = World::with(&[]).await;
    write(&world, "One", "tools = [\"current_time\"]");
    world
}

fn write(world: &World, name: &str, rest: &str) {
    world.write("mine/demo/instructions.md", &format!("You are {name}."));
    world.write("mine/demo/app.toml", &format!("name = \"{name}\"\n{rest}\n"));
}

async fn serve(world: &World) -> Server {
    let apps = world.path("mine").display().to_string();
    Server::start(&mut world.rondo(&["serve", "--apps", &apps])).await
}

/// Waits until the apps are as they should be, and gives them.
async fn until(server: &Server, what: &str, ready: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    within(what, async {
        loop {
            let (_, page) = server.get("/v1/apps").await;
            let apps = page["data"].as_array().unwrap().clone();
            if ready(&apps) {
                return apps;
            }
        }
    })
    .await
}

fn named(apps: &[Value], name: &str) -> bool {
    apps.iter().any(|app| app["name"] == name)
}

/// Returns the instructions of the last request to the model.
fn told(world: &World) -> String {
    let request = world.upstream.requests().pop().unwrap();
    request.body["messages"][0]["content"].as_str().unwrap().to_owned()
}

async fn say(server: &Server) -> Value {
    let (status, answer) = server.post(RUNS, &json!({ "message": "Hi", "stream": false })).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")), "{answer}");
    answer
}

#[tokio::test]
async fn a_change_is_for_the_next_run_and_the_one_under_way_keeps_its_own() {
    let world = world().await;
    let gate = Gate::new();
    world.upstream.script([
        Reply::stream().text("Let me see.").wait(&gate).call(ScriptedCall::new("current_time", "{}")),
        Reply::says("Noon."),
        Reply::says("Two."),
    ]);
    let server = serve(&world).await;
    let mut first = server.stream(RUNS, &json!({ "message": "What time is it?" })).await;
    first.read_until("text:delta").await;
    write(&world, "Two", "");
    until(&server, "the change", |apps| named(apps, "Two")).await;
    gate.open();
    first.all().await;
    assert!(told(&world).starts_with("You are One."), "{}", told(&world));
    assert!(world.upstream.requests().pop().unwrap().body["tools"].is_array(), "it keeps its tools");
    say(&server).await;
    assert!(told(&world).starts_with("You are Two."), "{}", told(&world));
}

#[tokio::test]
async fn a_broken_change_leaves_the_last_good_version_until_it_is_mended() {
    let world = world().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let server = serve(&world).await;
    for (broken, reason) in [
        (
            "[loop]\nmax_steps = 0",
            "demo/app.toml:3:13: loop.max_steps is 0; write a whole number from 1 to 200",
        ),
        ("tools = ['current_tim']", "demo/app.toml:2:10: there is no tool named \"current_tim\""),
    ] {
        write(&world, "Broken", broken);
        let apps = until(&server, "the problem", |apps| {
            apps[0]["problem"].as_str().is_some_and(|text| text.starts_with(reason))
        });
        assert_eq!(apps.await[0]["name"], "One");
        say(&server).await;
        assert!(told(&world).starts_with("You are One."), "{}", told(&world));
        let checked = check(&world, &[]).await;
        assert_eq!(checked.code, Some(1));
        assert!(checked.output.contains(reason), "{checked:?}");
    }
    server
        .process
        .errors
        .contains("the app's folder has a problem, so the previous version is still served")
        .await;

    write(&world, "Mended", "");
    let apps = until(&server, "the mended app", |apps| named(apps, "Mended")).await;
    assert_eq!(apps[0].get("problem"), None);
    say(&server).await;
    assert!(told(&world).starts_with("You are Mended."), "{}", told(&world));

    // Taking a broken change back is as good as mending it.
    world.write("mine/demo/app.toml", "name = ");
    until(&server, "the problem", |apps| apps[0].get("problem").is_some()).await;
    world.write("mine/demo/app.toml", "name = \"Mended\"\n\n");
    until(&server, "no problem", |apps| apps[0].get("problem").is_none()).await;
}

#[tokio::test]
async fn folders_come_and_go() {
    let world = world().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let server = serve(&world).await;
    world.write("mine/second/app.toml", "tools = ['nothing']");
    world.write("mine/second/instructions.md", "You are second.");
    server.process.errors.contains("the app is not served: ").await;
    world.write("mine/second/app.toml", "name = \"Second\"");
    until(&server, "the new app", |apps| named(apps, "Second")).await;
    let answer = say(&server).await;
    fs::remove_dir_all(world.path("mine/demo")).unwrap();
    until(&server, "the old app to go", |apps| !named(apps, "One")).await;
    let (status, _) = server.post(RUNS, &json!({ "message": "Hi" })).await;
    assert_eq!(status, 404);
    let thread = answer["threadId"].as_str().unwrap();
    let (status, messages) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    assert_eq!((status, messages["data"].as_array().unwrap().len()), (200, 2), "what was said stays");
}

#[tokio::test]
async fn a_server_of_tools_that_an_app_no_longer_names_is_let_go() {
    let world = world().await;
    world.write("mine/demo/server/server.py", SCRIPT);
    world.write("mine/demo/server/tools.json", &json!([tool("add", "Adds two numbers.")]).to_string());
    let server = serve(&world).await;
    let command = python();
    let with = format!("[mcp.sums]\ncommand = {command:?}\nargs = [\"server.py\"]\ncwd = \"server\"");
    write(&world, "With", &with);
    until(&server, "its tool", |apps| apps[0]["tools"] == json!(["sums__add"])).await;
    let pid = fs::read_to_string(world.path("mine/demo/server/pid")).unwrap();
    let process = format!("/proc/{pid}");
    assert!(fs::exists(&process).unwrap());
    write(&world, "Without", "");
    let apps = until(&server, "the change", |apps| named(apps, "Without")).await;
    assert_eq!(apps[0]["tools"], json!([]));
    within("the end of the process", async {
        while fs::exists(&process).unwrap() {
            server.get("/healthz").await;
        }
    })
    .await;
}

async fn check(world: &World, args: &[&str]) -> Ended {
    let apps = world.path("mine").display().to_string();
    world.run(&[&["apps", "check", "--apps", &apps], args].concat()).await
}

#[tokio::test]
async fn every_problem_of_every_app_is_explained() {
    let world = world().await;
    world.write("mine/bad/app.toml", "name = ''\n[loop]\nmax_step = 3\n[limits]\nmax_running = 0\n");
    world.write("mine/bad/records/task.json", "{");
    world.write("mine/worse/app.toml", "fallbacks = ['absent-model']\n");
    world.write("mine/worse/instructions.md", "Be kind.");
    world.write(
        "rondo.toml",
        "[providers.openai]
open = false
[models.'gpt-9']
provider = 'openai'",
    );
    let checked = check(&world, &[]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let root = format!("{}/", world.path("mine").display());
    let lines: Vec<String> = checked.output.lines().map(|line| line.replace(&root, "")).collect();
    assert!(lines.contains(&"ok    demo".to_owned()), "{lines:#?}");
    for expected in [
        "bad/app.toml:1:8: name is empty",
        "bad/app.toml:3:1: unknown key \"max_step\"; did you mean \"max_steps\"?",
        "bad/app.toml:5:15: limits.max_running is 0; write a whole number from 1 to 1000",
        "bad/instructions.md: there is no such file",
        "bad/records/task.json:",
        "worse/app.toml:1: no provider serves the model \"absent-model\"; use one of gpt-9,",
    ] {
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected}: {lines:#?}");
    }

    let told = check(&world, &["bad", "--json"]).await;
    let told: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!(told["apps"].as_array().unwrap().len(), 1);
    assert_eq!((&told["apps"][0]["id"], &told["apps"][0]["ok"]), (&json!("bad"), &json!(false)));
    assert_eq!(told["apps"][0]["problems"][0]["line"], 1, "{told}");
    let good = check(&world, &["demo", "--json"]).await;
    assert_eq!(good.code, Some(0));
    let good: Value = serde_json::from_str(&good.output).unwrap();
    assert_eq!(good, json!({ "apps": [{ "id": "demo", "ok": true, "problems": [] }] }));
    let absent = check(&world, &["absent"]).await;
    assert!(absent.code == Some(1) && absent.errors.contains("there are: bad, demo, worse"), "{absent:?}");

    let apps = world.path("mine").display().to_string();
    let listed = world.run(&["apps", "list", "--apps", &apps]).await;
    assert_eq!(listed.code, Some(0));
    let lines: Vec<&str> = listed.output.lines().collect();
    assert_eq!(lines.first(), Some(&"bad    BROKEN  see `rondo apps check bad`"), "{listed:?}");
    assert!(lines.iter().any(|line| line.starts_with("demo   One")), "aligned in columns: {listed:?}");
}

/// Behind another base URL the price of the default model is not known, unless the operator gives one.
#[tokio::test]
async fn a_budget_in_dollars_needs_a_price_and_is_told_which_line_gives_one() {
    let world = world().await;
    world.upstream.program(|_| Reply::says("Hello."));
    write(&world, "One", "[budget]\nday_tokens = 5000\nday_usd = 0.5");
    let checked = check(&world, &[]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let told = "mine/demo/app.toml:4: the budget is in dollars, but the price of the model ";
    let remedy = "write in rondo.toml prices = \"known\" under [providers.openai], or under [models.";
    assert!(checked.output.contains(told) && checked.output.contains(remedy), "{checked:?}");
    let apps = world.path("mine").display().to_string();
    let started = world.run(&["serve", "--apps", &apps]).await;
    assert_eq!(started.code, Some(1), "{started:?}");
    assert!(started.errors.contains(told) && started.errors.contains(remedy), "{started:?}");
    let examined = world.run(&["doctor", "--apps", &apps]).await;
    assert!(examined.output.contains(told), "{examined:?}");
    world.upstream.violations(); // it does not list its models

    for line in ["prices = \"known\"", "prices = \"free\""] {
        world.write("rondo.toml", &format!("[providers.openai]\n{line}\n"));
        let checked = check(&world, &[]).await;
        assert_eq!(checked.code, Some(0), "{line}: {checked:?}");
    }
    let server = serve(&world).await;
    say(&server).await;

    // While the server runs, the version before is served.
    world.write("rondo.toml", "");
    drop(server);
    write(&world, "One", "");
    let server = serve(&world).await;
    write(&world, "Dear", "[budget]\nrun_usd = 0.5");
    let apps = until(&server, "the problem", |apps| {
        apps[0]["problem"]
            .as_str()
            .is_some_and(|text| text.starts_with("demo/app.toml:3: the budget is in dollars"))
    });
    assert_eq!(apps.await[0]["name"], "One");
    say(&server).await;
}

#[tokio::test]
async fn a_persona_of_the_folder_chooses_what_the_app_allows() {
    let world = world().await;
    world.write("mine/demo/personas/chef.md", "---\nmodel: dear\n---\nSpeak like a chef.\n");
    let checked = check(&world, &[]).await;
    let told = "mine/demo/personas/chef.md: the persona chooses the model \"dear\", which the app does not allow; write \
                models = [\"dear\"] in app.toml";
    assert!(checked.code == Some(1) && checked.output.contains(told), "{checked:?}");
    write(&world, "One", "models = [\"dear\"]");
    assert_eq!(check(&world, &[]).await.code, Some(0));
}

/// A deploy that takes longer than a few looks, and then a start before the apps are mounted.
#[tokio::test]
async fn what_users_have_said_waits_for_an_apps_folder_that_is_away() {
    let world = world().await;
    let (gate, never) = (Gate::new(), Gate::new());
    world.upstream.script([
        Reply::stream().text("One.").wait(&gate),
        Reply::stream().text("Half").wait(&never),
        Reply::says("Two."),
        Reply::says("Three."),
    ]);
    let server = serve(&world).await;
    let mut first = server.stream(RUNS, &json!({ "message": "1" })).await;
    first.read_until("text:delta").await;
    let thread = first.header("x-thread-id");
    let mut queued = Vec::new();
    for message in ["2", "3"] {
        queued.push(server.stream(RUNS, &json!({ "message": message, "threadId": thread })).await);
    }
    let runs: Vec<String> = queued.iter().map(|frames| frames.header("x-run-id")).collect();
    let away = |is_away: bool| {
        let (from, to) = if is_away { ("mine/demo", "away") } else { ("away", "mine/demo") };
        fs::rename(world.path(from), world.path(to)).unwrap();
    };
    away(true);
    until(&server, "the app to be gone", |apps| apps.is_empty()).await;
    gate.open();
    assert_eq!(first.all().await.last().unwrap().data["status"], "completed", "it keeps the app it has");
    server.process.errors.contains("the app's folder is missing").await;
    away(false);
    queued[0].read_until("text:delta").await;

    server.process.kill();
    away(true);
    let server = serve(&world).await;
    let path = format!("/v1/runs/{}", runs[0]);
    assert_eq!(server.get(&path).await.1["status"], "running", "nothing was given up at the start");
    away(false);
    for (run, text) in runs.iter().zip(["Two.", "Three."]) {
        let log = server.follow(&format!("/v1/runs/{run}/events"), 0).await.all().await;
        assert_eq!(log.last().unwrap().data["status"], "completed", "{log:?}");
        assert!(log.iter().any(|frame| frame.data["text"] == text), "{log:?}");
    }
    server.process.kill();
    world.audit();
}

const EXAMPLES: &str = r#"
[[examples]]
sections = ["pets"]
lines = """
Feed the cat
The dog needs a walk
My cat is hungry
Where is the dog?
"""

[[examples]]
sections = ["nothing"]
lines = """
Good morning
The train is late
Write a poem
How do I bake bread?
"""
"#;

#[tokio::test]
async fn examples_are_learned_and_a_change_of_them_is_noticed() {
    let world = world().await;
    let apps = world.path("mine").display().to_string();
    let learn = ["apps", "learn", "demo", "--apps", &apps];
    let check = ["apps", "check", "demo", "--apps", &apps];
    world.write("mine/demo/context/pets.md", "---\ntitle: Pets\nalways: true\n---\nA cat and a dog.");
    let ended = world.run(&learn).await;
    assert!(ended.code == Some(1) && ended.errors.contains("context/examples.toml"), "{ended:?}");
    world.write("mine/demo/context/examples.toml", EXAMPLES);
    let ended = world.run(&check).await;
    assert!(ended.output.contains("the examples have not been learned yet"), "{ended:?}");
    let ended = world.run(&learn).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.contains("8 messages of 8 lines\nby words alone"), "{ended:?}");
    assert!(ended.output.contains("there is no embedding model"), "{ended:?}");
    let learned = fs::read(world.path("mine/demo/context/learned.json")).unwrap();
    assert_eq!(world.run(&check).await.code, Some(0));
    assert_eq!(world.run(&learn).await.code, Some(0));
    assert_eq!(
        fs::read(world.path("mine/demo/context/learned.json")).unwrap(),
        learned,
        "the same each time"
    );
    world.write("mine/demo/context/examples.toml", &EXAMPLES.replace("hungry", "thirsty"));
    let ended = world.run(&check).await;
    assert!(ended.code == Some(1) && ended.output.contains("run `rondo apps learn demo`"), "{ended:?}");
    world.write("mine/demo/context/learned.json", "{}");
    let ended = world.run(&check).await;
    assert!(ended.output.contains("learned.json: the learned classifier cannot be used"), "{ended:?}");
    assert_eq!(world.run(&learn).await.code, Some(0), "what is broken is made anew");
    assert_eq!(world.run(&check).await.code, Some(0));
}

/// Waits until the documents of the app are these.
async fn until_documents(server: &Server, wanted: &[&str]) -> Vec<Value> {
    within("the documents", async {
        loop {
            let (_, page) = server.get("/v1/apps/demo/knowledge").await;
            let all = page["data"].as_array().unwrap().clone();
            if all.iter().map(|one| one["name"].as_str().unwrap()).eq(wanted.iter().copied()) {
                return all;
            }
        }
    })
    .await
}

#[tokio::test]
async fn documents_of_the_folder_are_taken_up_while_the_server_runs() {
    let world = world().await;
    world.upstream.program(|_| Reply::says("Fine."));
    let server = serve(&world).await;
    until_documents(&server, &[]).await;
    world.write("mine/demo/documents/huts.md", "The Lauber hut has forty beds.");
    world.write("mine/demo/documents/prices.csv", "Hut,Price\nLauber,35\n");
    until_documents(&server, &["huts.md", "prices.csv"]).await;
    let ask = json!({ "message": "How many beds has the Lauber hut?", "stream": false });
    server.post(RUNS, &ask).await;
    let asked = world.upstream.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("forty beds"), "{asked}");
    let price = json!({ "message": "What is the price of the Lauber hut?", "stream": false });
    server.post(RUNS, &price).await;
    let asked = world.upstream.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("Hut | Price\\nLauber | 35"), "{asked}");
    world.write("mine/demo/documents/huts.md", "The Lauber hut has fifty beds, and a stove.");
    fs::remove_file(world.path("mine/demo/documents/prices.csv")).unwrap();
    world.write("mine/demo/documents/photo.png", "\u{0}no picture");
    until_documents(&server, &["huts.md"]).await;
    let apps = until(&server, "the problem", |apps| apps.iter().any(|app| app["problem"].is_string())).await;
    assert!(
        apps[0]["problem"].as_str().unwrap().starts_with("documents/photo.png: this is a binary file"),
        "{apps:?}"
    );
    server.process.errors.line("a document of the app is not up to date").await;
    server.post(RUNS, &ask).await;
    let asked = world.upstream.requests().pop().unwrap().body.to_string();
    assert!(asked.contains("fifty beds") && !asked.contains("forty beds"), "{asked}");
}

#[tokio::test]
async fn the_check_reads_every_document_and_names_limits() {
    let world = world().await;
    let apps = world.path("mine").display().to_string();
    world.write("mine/demo/documents/good.md", "A good one.");
    let checked = world.run(&["apps", "check", "--apps", &apps]).await;
    assert_eq!((checked.code, checked.output.as_str()), (Some(0), "ok    demo\n"), "{checked:?}");
    world.write("mine/demo/documents/scan.pdf", "%PDF-1.7 and nothing else");
    fs::write(world.path("mine/demo/documents/photo.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
    let large = fs::File::create(world.path("mine/demo/documents/large.txt")).unwrap();
    large.set_len(20 * 1024 * 1024 + 1).unwrap();
    std::os::unix::fs::symlink("/etc/hosts", world.path("mine/demo/documents/link.txt")).unwrap();
    let checked = world.run(&["apps", "check", "--apps", &apps]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for (file, words) in [
        ("scan.pdf", "this document cannot be read"),
        ("photo.png", "this is a picture; use text, Markdown, HTML, PDF, DOCX, XLSX or CSV instead"),
        ("large.txt", "the document is larger than 20 MiB; split it"),
        ("link.txt", "the symbolic link leads out of the documents folder"),
    ] {
        let named = checked.output.lines().any(|line| line.contains(&format!("{file}: {words}")));
        assert!(named, "{file}: {checked:?}");
    }
    assert!(checked.errors.contains("4 problems were found"), "{checked:?}");
}
