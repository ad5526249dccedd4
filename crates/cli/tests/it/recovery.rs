//! kill -9 again and again: during one answer, while recovering, and at the very first start (R2, R5, D5).

use std::time::Duration;

use testkit::upstream::{Gate, Reply};
use testkit::{Frame, earlier};

use crate::cut::{Cut, reply, status};
use crate::process::{Process, within};
use crate::world::{World, read_text};

/// By how much later a start is killed than the one before.
const KILL_STEP: Duration = Duration::from_millis(80);

fn resets(log: &[Frame]) -> usize {
    log.iter().filter(|frame| frame.event == "step:reset").count()
}

#[tokio::test]
async fn twice_in_one_answer() {
    let world = World::new().await;
    let gates = [Gate::new(), Gate::new()];
    world.upstream.script([
        Reply::stream().text("One").wait(&gates[0]),
        Reply::stream().text("Two").wait(&gates[1]),
        Reply::says("Three."),
    ]);
    let mut server = world.serve().await;
    let mut frames = server.say("Count").await;
    let mut cut = Cut::of(read_text(&mut frames, "One").await, &frames);
    server.process.kill();
    server = world.serve().await;
    frames = server.follow(&format!("/v1/runs/{}/events", cut.run), cut.before.last().unwrap().id).await;
    cut.before.extend(read_text(&mut frames, "Two").await);
    server.process.kill();

    let server = world.serve().await;
    let whole = cut.follow(&server).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "Three."));
    assert_eq!(resets(&whole), 2);
    server.process.kill();
    world.audit();
}

/// A step that is begun again and again does not go on for ever.
#[tokio::test]
async fn too_often_in_one_answer() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.program(move |_| Reply::stream().text("Almost").wait(&gate));
    let mut server = world.serve().await;
    let mut frames = server.say("Try").await;
    let mut cut = Cut::of(Vec::new(), &frames);
    for _ in 0..3 {
        cut.before.extend(read_text(&mut frames, "Almost").await);
        server.process.kill();
        server = world.serve().await;
        frames = server.follow(&format!("/v1/runs/{}/events", cut.run), cut.before.last().unwrap().id).await;
    }
    let whole = cut.follow(&server).await;
    let error = &whole.last().unwrap().data["error"];
    assert_eq!((status(&whole), error["code"].as_str()), ("interrupted", Some("interrupted")));
    assert_eq!(world.upstream.requests().len(), 3, "the first try and two more");
    server.process.kill();
    world.audit();
}

#[tokio::test]
async fn while_runs_are_being_taken_up() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |_| Reply::stream().text("There").wait(&held).text(" you are."));
    let server = world.serve().await;
    let mut cuts = Vec::new();
    for _ in 0..5 {
        let mut frames = server.say("Where am I?").await;
        cuts.push(Cut::of(read_text(&mut frames, "There").await, &frames));
    }
    server.process.kill();
    let again = Process::start(&mut world.rondo(&["serve"]));
    again.errors.contains("resuming unfinished runs runs=5").await;
    again.kill();
    gate.open();

    let server = world.serve().await;
    for cut in cuts {
        let whole = within("the run to end", cut.follow(&server)).await;
        assert_eq!((status(&whole), reply(&whole)), ("completed", "There you are."));
        assert!((1..=2).contains(&resets(&whole)), "{whole:?}");
    }
    server.process.kill();
    world.audit();
}

/// A start that was cut while it made the database is made good by the next.
#[tokio::test]
async fn during_the_first_start() {
    for file in ["lock", "rondo.db", "rondo.db-wal"] {
        let world = World::new().await;
        world.upstream.script([Reply::says("Hello.")]);
        let path = world.path("data").join(file);
        let first = Process::start(&mut world.rondo(&["serve"]));
        let made = async {
            while !path.exists() {
                tokio::task::yield_now().await;
            }
        };
        within(file, made).await;
        first.kill();
        let server = world.serve().await;
        assert_eq!(
            status(&server.say("Hello").await.all().await),
            "completed",
            "killed when there was {file}"
        );
        server.process.kill();
        world.audit();
    }
}

/// A start that was cut while it brought the database of an earlier version up to date is made good by the next.
#[tokio::test]
async fn while_a_database_is_brought_up_to_date() {
    for version in 1..=earlier::VERSIONS {
        let mut delay = Duration::ZERO;
        let mut ready = false;
        while !ready {
            let world = World::new().await;
            world.upstream.program(|_| Reply::says("Hello."));
            earlier::database(&world.path("data"), version, 500);
            let first = Process::start(&mut world.rondo(&["serve"]));
            ready = tokio::time::timeout(delay, first.errors.line("serving on http://")).await.is_ok();
            first.kill();
            let server = world.serve().await;
            let said = status(&server.say("Hello").await.all().await).to_owned();
            assert_eq!(said, "completed", "version {version}, killed after {delay:?}");
            server.process.kill();
            world.audit();
            delay += KILL_STEP;
        }
    }
}
