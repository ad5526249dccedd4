//! `rondo init`: a new app works at once.

use serde_json::json;
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::{Ended, Process};
use crate::world::{APPS, Server, World, files};

async fn init(world: &World, name: &str) -> Ended {
    let apps = world.path("mine").display().to_string();
    Process::start(&mut world.rondo(&["init", name, "--apps", &apps])).ended().await
}

#[tokio::test]
async fn a_new_app_is_good_and_asks_before_it_writes() {
    let world = World::with(&[]).await;
    let made = init(&world, "my-tasks").await;
    assert_eq!((made.code, made.errors.as_str()), (Some(0), ""), "{made:?}");
    for word in [
        "my-tasks",
        "app.toml",
        "records/task.json",
        "rondo apps check my-tasks",
        "rondo chat --app my-tasks",
    ] {
        assert!(made.output.contains(word), "{word}: {}", made.output);
    }
    let apps = world.path("mine").display().to_string();
    let checked = world.run(&["apps", "check", "--apps", &apps]).await;
    assert_eq!((checked.code, checked.output.as_str()), (Some(0), "ok    my-tasks\n"), "{checked:?}");

    world.upstream.script([
        Reply::stream().call(ScriptedCall::new("addTask", r#"{"title": "Water the plants"}"#)),
        Reply::says("It is on your list."),
    ]);
    let server = Server::start(&mut world.rondo(&["serve", "--apps", &apps])).await;
    let asked = json!({ "message": "Please put on my list: water the plants", "personaId": "coach" });
    let mut run = server.stream("/v1/apps/my-tasks/runs", &asked).await;
    let open = run.read_until("proposal:open").await;
    let proposal = open.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
    let (_, none) = server.get("/v1/apps/my-tasks/records/task").await;
    assert_eq!(none["data"], json!([]), "nothing is written before the yes");
    let (status, _) = server.post(&format!("/v1/proposals/{proposal}/confirm"), &json!({})).await;
    assert!(status < 300, "{status}");
    run.all().await;
    let (_, tasks) = server.get("/v1/apps/my-tasks/records/task").await;
    assert_eq!(tasks["data"][0]["data"], json!({ "title": "Water the plants", "done": false }), "{tasks}");
    let system = world.upstream.requests()[0].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.contains("friendly coach") && system.contains("list of tasks"), "{system}");
}

#[tokio::test]
async fn what_is_there_stays_and_a_bad_name_makes_nothing() {
    let world = World::with(&[]).await;
    assert_eq!(init(&world, "tasks").await.code, Some(0));
    world.write("mine/tasks/instructions.md", "My own.");
    let before = files(&world.path("mine"));
    let again = init(&world, "tasks").await;
    assert_eq!(again.code, Some(1));
    assert!(again.errors.contains("tasks exists already; choose another name"), "{again:?}");
    for (name, reason) in [
        ("Tasks", "cannot be an app's id"),
        ("v1", "a path of the server itself"),
        ("../tasks2", "cannot be an app's name"),
        ("", "cannot be an app's name"),
    ] {
        let refused = init(&world, name).await;
        assert_eq!(refused.code, Some(1), "{name}: {refused:?}");
        assert!(refused.errors.contains(reason), "{name}: {refused:?}");
    }
    assert_eq!(files(&world.path("mine")), before);
}

#[tokio::test]
async fn a_built_in_app_is_copied_out_and_works() {
    let world = World::with(&[]).await;
    let copy = async |words: &[&str]| {
        let apps = world.path("mine").display().to_string();
        world.run(&[&["init", "--apps", &apps], words].concat()).await
    };
    let made = copy(&["--from", "kalito"]).await;
    assert_eq!((made.code, made.errors.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.output.contains("rondo chat --app kalito"), "{made:?}");
    assert_eq!(copy(&["--from", "studio", "my-studio"]).await.code, Some(0));
    let original = std::path::Path::new(APPS).join("kalito");
    let relative = |folder: &std::path::Path| {
        let mut found: Vec<_> = files(folder)
            .into_iter()
            .map(|(path, content)| (path.strip_prefix(folder).unwrap().to_owned(), content))
            .collect();
        found.sort();
        found
    };
    assert!(relative(&world.path("mine/kalito")) == relative(&original), "every file is the same");
    let apps = world.path("mine").display().to_string();
    let checked = world.run(&["apps", "check", "--apps", &apps]).await;
    assert_eq!(checked.output, "ok    kalito\nok    my-studio\n", "{checked:?}");
    for (words, reason) in [
        (["--from", "kalito"].as_slice(), "kalito exists already"),
        (&["--from", "nothing"], "there is no built-in app \"nothing\"; there are: companion, kalito"),
        (&[], "required arguments were not provided"),
    ] {
        let refused = copy(words).await;
        assert_ne!(refused.code, Some(0), "{words:?}");
        assert!(refused.errors.contains(reason), "{words:?}: {refused:?}");
    }
}
