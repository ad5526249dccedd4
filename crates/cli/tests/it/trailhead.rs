//! Trailhead from the outside: evidence, a part that needs approval, undo, notes, and what a model may not do.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Frames};

use crate::cut::{Cut, reply, status};
use crate::process::Process;
use crate::world::{Server, World, names, send};

/// Distinct ids with this prefix in what tools have answered since the user last spoke, in their order.
fn ids(body: &Value, prefix: &str) -> Vec<String> {
    const DIGITS: usize = 32;
    let answers: String = results(body).iter().map(|message| message["content"].to_string()).collect();
    let mut found: Vec<String> = Vec::new();
    for rest in answers.split(prefix).skip(1) {
        if let Some(digits) = rest.get(..DIGITS).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())) {
            let id = format!("{prefix}{digits}");
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

/// Returns the results of tools since the user last spoke.
fn results(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    let since = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    messages[since..].iter().filter(|message| message["role"] == "tool").cloned().collect()
}

fn calls(calls: &[(&str, Value)]) -> Reply {
    calls
        .iter()
        .fold(Reply::stream(), |reply, (name, input)| reply.call(ScriptedCall::new(name, &input.to_string())))
}

fn evidence(content: &str) -> (&'static str, Value) {
    ("addEvidence", json!({ "type": "pattern", "content": content, "confidence": 0.8 }))
}

fn part(evidence: &[String]) -> (&'static str, Value) {
    ("createEmergingPart", json!({ "name": "The Proofreader", "category": "manager", "evidence": evidence }))
}

/// Records three pieces of evidence, proposes a part that rests on them, and says that it is done.
pub(crate) fn a_part(body: &Value) -> Reply {
    match results(body).len() {
        0 => {
            calls(&[evidence("Rewrote the mail."), evidence("Stayed late."), evidence("Never good enough.")])
        }
        3 => calls(&[part(&ids(body, "rec_"))]),
        _ => Reply::says("So it is."),
    }
}

async fn say(server: &Server, message: &str) -> Frames {
    server.stream("/v1/apps/trailhead/runs", &json!({ "message": message })).await
}

async fn records(server: &Server, kind: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/apps/trailhead/records/{kind}")).await;
    assert_eq!(status, 200, "{page}");
    page["data"].as_array().unwrap().clone()
}

/// The newest action of a tool.
async fn action(server: &Server, tool: &str) -> Value {
    let (status, page) = server.get(&format!("/v1/apps/trailhead/actions?tool={tool}")).await;
    assert_eq!(status, 200, "{page}");
    page["data"][0].clone()
}

async fn undo(server: &Server, action: &Value) -> (u16, Value) {
    let id = action["id"].as_str().unwrap();
    send(server.request(Method::POST, &format!("/v1/actions/{id}/undo"))).await
}

async fn decide(server: &Server, proposal: &str, decision: &str) -> (u16, Value) {
    send(server.request(Method::POST, &format!("/v1/proposals/{proposal}/{decision}"))).await
}

/// How the calls of a tool ended, with what they answered.
fn outcomes(log: &[Frame], tool: &str) -> Vec<(String, Value)> {
    let of_tool = log.iter().filter(|frame| frame.event == "tool:complete" && frame.data["name"] == tool);
    of_tool
        .map(|frame| (frame.data["status"].as_str().unwrap().to_owned(), frame.data["output"].clone()))
        .collect()
}

async fn audited(world: &World, server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));
    world.audit();
    let verified = world.run(&["actions", "verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test]
async fn a_part_waits_for_approval_across_a_kill_and_can_be_undone() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(a_part);
    let server = world.serve().await;
    let mut frames = say(&server, "It came up again.").await;
    let before = frames.read_until("proposal:open").await;
    let shown = before.last().unwrap().data.clone();
    assert_eq!(shown["name"], "createEmergingPart");
    assert_eq!(outcomes(&before, "addEvidence").len(), 3, "its evidence is there");
    assert_eq!((records(&server, "evidence").await.len(), records(&server, "part").await.len()), (3, 0));
    let cut = Cut::of(before, &frames);
    server.process.kill();

    let server = world.serve().await;
    assert_eq!(server.get(&format!("/v1/runs/{}", cut.run)).await.1["status"], "waiting");
    let (_, open) = server.get("/v1/apps/trailhead/proposals?open=true").await;
    assert_eq!(open["data"].as_array().unwrap().len(), 1, "{open}");
    let proposal = open["data"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&open["data"][0]["id"], &open["data"][0]["input"]), (&shown["proposalId"], &shown["input"]));
    let (accepted, decided) = decide(&server, &proposal, "confirm").await;
    assert_eq!((accepted, &decided["status"]), (200, &json!("confirmed")), "{decided}");
    let whole = cut.follow(&server).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "So it is."));
    let order = names(&whole);
    let place = |name: &str| order.iter().rposition(|other| *other == name).unwrap();
    assert!(place("proposal:closed") < place("tool:start") && place("tool:start") < place("tool:complete"));
    let parts = records(&server, "part").await;
    assert_eq!((parts.len(), &parts[0]["data"]["status"]), (1, &json!("emerging")));
    assert_eq!(parts[0]["data"]["evidence"], shown["input"]["evidence"]);
    assert_eq!(decide(&server, &proposal, "reject").await.0, 409, "a proposal is decided only once");

    let created = action(&server, "createEmergingPart").await;
    assert_eq!((&created["status"], &created["undoable"]), (&json!("complete"), &json!(true)));
    let (undone, by) = undo(&server, &created).await;
    assert_eq!((undone, &by["undoOf"]), (200, &created["id"]), "{by}");
    assert_eq!((records(&server, "part").await.len(), records(&server, "evidence").await.len()), (0, 3));
    let (again, problem) = undo(&server, &created).await;
    assert_eq!((again, &problem["code"]), (409, &json!("cannot_undo")), "once");
    audited(&world, server).await;
}

#[tokio::test]
async fn a_no_creates_nothing_and_the_model_is_told() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(a_part);
    let server = world.serve().await;
    let mut frames = say(&server, "It came up again.").await;
    let open = frames.read_until("proposal:open").await;
    let proposal = open.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
    assert_eq!(decide(&server, &proposal, "reject").await.1["status"], "rejected");
    let rest = frames.all().await;
    assert_eq!((status(&rest), reply(&rest)), ("completed", "So it is."));
    assert_eq!(outcomes(&rest, "createEmergingPart")[0].0, "denied");
    assert_eq!(records(&server, "part").await.len(), 0);
    audited(&world, server).await;
}

/// Made up, repeated, of the wrong type, or of another user: none of them is evidence.
#[tokio::test]
async fn only_evidence_that_was_recorded_counts() {
    let world = World::with(&["trailhead"]).await;
    let other =
        world.run(&["import", sample_of_another(&world), "--app", "trailhead", "--user", "ada"]).await;
    assert_eq!(other.code, Some(0), "{}", other.errors);
    let exported = world.run(&["export", "--app", "trailhead", "--user", "ada"]).await.output;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let foreign: Vec<String> = exported["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(foreign.len(), 3);
    let invented: Vec<String> = (0..3).map(|n| format!("rec_{n:032x}")).collect();
    world.upstream.program(move |body| {
        let mine = ids(body, "rec_");
        match results(body).len() {
            0 => calls(&[evidence("One."), evidence("Two.")]),
            2 => calls(&[
                part(&invented),
                part(&foreign),
                part(&[mine[0].clone(), mine[1].clone(), mine[1].clone()]),
                part(&[mine[0].clone(), mine[1].clone(), foreign[0].clone()]),
                part(&[]),
            ]),
            _ => Reply::says("I need more."),
        }
    });
    let server = world.serve().await;
    let log = say(&server, "Make it so.").await.all().await;
    assert_eq!((status(&log), reply(&log)), ("completed", "I need more."));
    let refused = outcomes(&log, "createEmergingPart");
    assert_eq!(refused.len(), 5);
    for (index, (status, output)) in refused.iter().enumerate() {
        assert_eq!(status, "failed", "{index}: {output}");
    }
    let reasons: Vec<&str> = refused.iter().filter_map(|(_, output)| output["error"].as_str()).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "evidence_required").count(), 3, "{reasons:?}");
    assert!(refused.iter().any(|(_, output)| output["message"].to_string().contains("addEvidence")));
    assert!(!log.iter().any(|frame| frame.event == "proposal:open"), "nobody is asked");
    assert_eq!((records(&server, "part").await.len(), records(&server, "evidence").await.len()), (0, 2));
    audited(&world, server).await;
}

fn sample_of_another(world: &World) -> &'static str {
    let one = |content: &str| json!({ "type": "pattern", "content": content, "confidence": 0.5 });
    world.write("evidence.json", &json!([one("a"), one("b"), one("c")]).to_string());
    "evidence.json"
}

#[tokio::test]
async fn the_model_undoes_what_it_recorded() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(|body| match (body.to_string().contains("Take it back."), results(body).len()) {
        (false, 0) => calls(&[evidence("A secret.")]),
        (true, 0) => calls(&[("listRecentActions", json!({ "tool": "addEvidence" }))]),
        (true, 1) => calls(&[("undoAction", json!({ "actionId": ids(body, "act_")[0] }))]),
        _ => Reply::says("Done."),
    });
    let server = world.serve().await;
    let frames = say(&server, "Note this.").await;
    let thread = frames.header("x-thread-id");
    frames.all().await;
    assert_eq!(records(&server, "evidence").await.len(), 1);
    let body = json!({ "message": "Take it back.", "threadId": thread });
    let log = server.stream("/v1/apps/trailhead/runs", &body).await.all().await;
    assert_eq!(outcomes(&log, "undoAction")[0].0, "complete", "{log:?}");
    assert_eq!(records(&server, "evidence").await.len(), 0);
    let added = action(&server, "addEvidence").await;
    assert_eq!((&added["undone"], &added["undoable"]), (&json!(true), &json!(false)));
    assert_eq!(added["undoneBy"], action(&server, "undoAction").await["id"]);
    audited(&world, server).await;
}

#[tokio::test]
async fn a_note_is_changed_in_one_section_and_put_back_to_the_byte() {
    let world = World::with(&["trailhead"]).await;
    const BEFORE: &str =
        "# Übersicht\r\n\r\n## Now\r\nOld\ttext  \r\n\r\n```\n## Now\n```\n\n## Later\r\nKept\n\n\n";
    let section =
        json!({ "path": "notes/overview.md", "heading": "Now", "content": "New text", "mode": "replace" });
    let outside = json!({ "path": "../../etc/passwd.md", "content": "x" });
    world.upstream.program(move |body| match results(body).len() {
        0 => calls(&[("writeMarkdownSection", section.clone()), ("createMarkdownFile", outside.clone())]),
        _ => Reply::says("Written."),
    });
    let server = world.serve().await;
    let file = "/v1/apps/trailhead/files/notes/overview.md";
    let put = server.request(Method::PUT, file).header("content-type", "text/markdown").body(BEFORE);
    assert_eq!(put.send().await.unwrap().status(), 200);
    let read = async || server.request(Method::GET, file).send().await.unwrap().text().await.unwrap();
    assert_eq!(read().await, BEFORE);
    let log = say(&server, "Write it down.").await.all().await;
    assert_eq!(outcomes(&log, "writeMarkdownSection")[0].0, "complete", "{log:?}");
    let (status, output) = outcomes(&log, "createMarkdownFile").remove(0);
    assert_eq!((status.as_str(), &output["error"]), ("failed", &json!("invalid_path")));
    let changed = read().await;
    assert!(changed.contains("New text") && !changed.contains("Old\ttext"), "{changed:?}");
    assert!(changed.starts_with("# Übersicht\r\n\r\n## Now\r\n"), "{changed:?}");
    assert!(changed.ends_with("## Later\r\nKept\n\n\n"), "{changed:?}");
    let (undone, by) = undo(&server, &action(&server, "writeMarkdownSection").await).await;
    assert_eq!(undone, 200, "{by}");
    assert_eq!(read().await, BEFORE);
    audited(&world, server).await;
}

#[tokio::test]
async fn who_is_meant_cannot_be_said_in_arguments() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(|body| match results(body).len() {
        0 => {
            let with = |name: &str| {
                let (tool, mut input) = evidence("Of another.");
                input[name] = json!("ada");
                (tool, input)
            };
            calls(&[
                with("userId"),
                with("user_id"),
                with("app"),
                ("listEvidence", json!({ "userId": "ada" })),
            ])
        }
        _ => Reply::says("I cannot."),
    });
    let server = world.serve().await;
    let log = say(&server, "What does Ada say?").await.all().await;
    let refused = [outcomes(&log, "addEvidence"), outcomes(&log, "listEvidence")].concat();
    assert_eq!(refused.len(), 4);
    for (status, output) in refused {
        assert_eq!((status.as_str(), &output["error"]), ("failed", &json!("invalid_arguments")));
        assert!(output["message"].as_str().unwrap().contains("known to the server"), "{output}");
    }
    assert_eq!(records(&server, "evidence").await.len(), 0);
    audited(&world, server).await;
}

#[tokio::test]
async fn in_the_terminal_the_user_is_asked() {
    for (answer, expected) in [("yes\n", 1), ("no\n", 0), ("sure\n\n Y \n", 1), ("yes please\nNo\n", 0)] {
        let world = World::with(&["trailhead"]).await;
        world.upstream.program(a_part);
        let mut chat = Process::start(&mut world.rondo(&["chat", "It came up again."]));
        chat.errors.contains("[may I? createEmergingPart {").await;
        chat.write(answer);
        let ended = chat.ended().await;
        assert_eq!((ended.code, ended.output.as_str()), (Some(0), "So it is.\n"), "{}", ended.errors);
        let unclear = answer.lines().next().unwrap();
        let again = format!("yes or no: [{unclear} is neither yes nor no]\nyes or no: ");
        assert_eq!(ended.errors.contains(&again), unclear.len() > 3, "{}", ended.errors);
        let server = world.serve().await;
        assert_eq!(records(&server, "part").await.len(), expected, "after {answer:?}");
    }
}

/// Without a server that runs, too: the command that is named starts one of its own.
#[tokio::test]
async fn a_question_that_nobody_answered_is_asked_again_by_the_command_that_is_named() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(a_part);
    let ended = world.run(&["chat", "It came up again."]).await; // no person is there to ask
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""));
    let (before, after) = ended.errors.split_once("waits for your approval: `rondo ").unwrap();
    assert!(before.ends_with("rondo: createEmergingPart "), "{before}");
    let command: Vec<&str> = after.split_once('`').unwrap().0.split(' ').collect();
    let server = world.serve().await;
    let (_, open) = server.get("/v1/apps/trailhead/proposals?open=true").await;
    assert_eq!(open["data"].as_array().unwrap().len(), 1, "the end of the input is no no");
    server.process.kill();

    let mut chat = Process::start(&mut world.rondo(&command));
    chat.write("perhaps\nyes\n");
    let ended = chat.ended().await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(0), "So it is.\n"), "{}", ended.errors);
    let ended = world.run(&command).await;
    assert_eq!(
        (ended.code, ended.output.as_str(), ended.errors.as_str()),
        (Some(0), "", ""),
        "all is decided"
    );
    let server = world.serve().await;
    assert_eq!(records(&server, "part").await.len(), 1);
}
