//! kill -9 while a request is on its way outside: a request that cannot be undone arrives at most once, and one that
//! can be repeated comes again under the same key (E2, R5).

use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};

use crate::cut::{Cut, status};
use crate::process::within;
use crate::world::{Server, World};

/// The app of these tests: one tool for each effect, all of them a request to the same host.
fn write_app(world: &World, web: &Web) {
    let mut app = String::from("name = \"Border\"\n");
    for effect in ["read", "idempotent", "reversible", "irreversible"] {
        let undo = format!(
            "[tool.{effect}.undo]\nmethod = \"DELETE\"\nurl = \"{}/{effect}/{{{{ output.id }}}}\"\n",
            web.url()
        );
        app.push_str(&format!(
            "[tool.{effect}]\ndescription = \"x\"\neffect = \"{effect}\"\npolicy = \"allow\"\n\
             parameters = {{ type = \"object\", properties = {{ sum = {{ type = \"integer\" }} }} }}\n\
             [tool.{effect}.http]\nmethod = \"POST\"\nurl = \"{}/{effect}\"\nbody = {{ sum = \"{{{{ input.sum }}}}\" }}\n{}",
            web.url(),
            if effect == "reversible" { undo.as_str() } else { "" },
        ));
    }
    world.write("apps/border/app.toml", &app);
    world.write("apps/border/instructions.md", "Do what you are asked.\n");
}

fn rondo(world: &World, web: &Web) -> Command {
    let mut command = world.rondo(&["serve"]);
    command.env("RONDO_APPS", world.path("apps")).env("RONDO_EGRESS_ALLOW", web.host());
    command
}

fn result(log: &[testkit::Frame]) -> (&str, &Value) {
    let complete = log.iter().find(|frame| frame.event == "tool:complete").unwrap();
    (complete.data["status"].as_str().unwrap(), &complete.data["output"])
}

fn done() -> web::WebReply {
    web::WebReply::json(&json!({ "id": 7 }))
}

/// Kills the server once the request has arrived and nothing was answered. Gives the whole run and the arrivals.
async fn cut_in_mid_request(effect: &str) -> (Vec<testkit::Frame>, Vec<web::WebArrival>) {
    let (world, web) = (World::new().await, Web::start().await);
    write_app(&world, &web);
    let gate = Gate::new();
    web.on("POST", &format!("/{effect}"), [done().wait(&gate), done()]);
    world.upstream.script([
        Reply::stream().call(ScriptedCall::new(effect, r#"{"sum":5}"#)),
        Reply::says("That is that."),
    ]);
    let server = Server::start(&mut rondo(&world, &web)).await;
    let frames = server.stream("/v1/apps/border/runs", &json!({ "message": "Pay" })).await;
    let cut = Cut::of(Vec::new(), &frames);
    within("the request", web.wait_for(1)).await;
    server.process.kill();

    let server = Server::start(&mut rondo(&world, &web)).await;
    let whole = cut.follow(&server).await;
    server.process.kill();
    world.audit();
    gate.open();
    assert_eq!(status(&whole), "completed");
    (whole, web.arrivals())
}

#[tokio::test]
async fn what_cannot_be_made_again_arrives_once_and_is_said_to_be_unknown() {
    for effect in ["irreversible", "reversible"] {
        let (whole, arrivals) = cut_in_mid_request(effect).await;
        assert_eq!(arrivals.len(), 1, "{effect}");
        assert_eq!(result(&whole).0, "unknown", "{effect}");
    }
}

#[tokio::test]
async fn what_can_be_made_again_is_with_the_same_key_and_the_same_arguments() {
    for effect in ["idempotent", "read"] {
        let (whole, arrivals) = cut_in_mid_request(effect).await;
        assert_eq!(arrivals.len(), 2, "{effect}");
        assert!(arrivals[0].header("idempotency-key").is_some());
        assert_eq!(arrivals[0].header("idempotency-key"), arrivals[1].header("idempotency-key"));
        assert_eq!(arrivals[0].json(), arrivals[1].json());
        assert_eq!(result(&whole), ("complete", &json!({ "id": 7 })), "{effect}");
    }
}

/// Killed right after the answer went out: whether it was recorded or not, there is no second arrival.
#[tokio::test]
async fn an_answer_that_may_not_have_been_recorded_is_not_asked_for_again() {
    for _ in 0..5 {
        let (world, web) = (World::new().await, Web::start().await);
        write_app(&world, &web);
        let gate = Gate::new();
        web.on("POST", "/irreversible", [done().wait(&gate)]);
        world.upstream.program(|request| {
            let answered =
                request["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
            if answered {
                Reply::says("Paid.")
            } else {
                Reply::stream().call(ScriptedCall::new("irreversible", r#"{"sum":5}"#))
            }
        });
        let server = Server::start(&mut rondo(&world, &web)).await;
        let frames = server.stream("/v1/apps/border/runs", &json!({ "message": "Pay" })).await;
        let cut = Cut::of(Vec::new(), &frames);
        within("the request", web.wait_for(1)).await;
        gate.open();
        server.process.kill();

        let server = Server::start(&mut rondo(&world, &web)).await;
        let whole = cut.follow(&server).await;
        server.process.kill();
        world.audit();
        assert_eq!(web.arrivals().len(), 1);
        assert!(matches!(result(&whole).0, "complete" | "unknown"), "{:?}", result(&whole));
        assert_eq!(status(&whole), "completed");
    }
}

/// An undo is a request like any other: begun, cut, and made again only because deleting twice is deleting once.
#[tokio::test]
async fn an_undo_that_was_cut_is_ended_by_the_next_start() {
    let (world, web) = (World::new().await, Web::start().await);
    write_app(&world, &web);
    let gate = Gate::new();
    web.on("POST", "/reversible", [done()]);
    web.on("DELETE", "/reversible/7", [web::WebReply::status(204).wait(&gate), web::WebReply::status(204)]);
    world.upstream.script([
        Reply::stream().call(ScriptedCall::new("reversible", r#"{"sum":5}"#)),
        Reply::says("Done."),
    ]);
    let server = Server::start(&mut rondo(&world, &web)).await;
    server.stream("/v1/apps/border/runs", &json!({ "message": "Book" })).await.all().await;
    let (_, actions) = server.get("/v1/apps/border/actions").await;
    let action = actions["data"][0]["id"].as_str().unwrap().to_owned();
    let mut asking = tokio::task::JoinSet::new();
    asking.spawn(server.request(reqwest::Method::POST, &format!("/v1/actions/{action}/undo")).send());
    within("the undo", web.wait_for(2)).await;
    server.process.kill();
    drop(asking);

    let server = Server::start(&mut rondo(&world, &web)).await;
    within("the undo again", web.wait_for(3)).await;
    gate.open();
    let undone = async {
        loop {
            let (_, view) = server.get(&format!("/v1/actions/{action}")).await;
            if view["undone"] == true {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within("the undo's outcome", undone).await;
    let deletes: Vec<_> = web.arrivals().into_iter().filter(|arrival| arrival.method == "DELETE").collect();
    assert_eq!(deletes.len(), 2);
    assert_eq!(deletes[0].header("idempotency-key"), deletes[1].header("idempotency-key"));
    let (refused, problem) = server.post(&format!("/v1/actions/{action}/undo"), &json!({})).await;
    assert_eq!((refused, &problem["code"]), (409, &json!("cannot_undo")));
    server.process.kill();
    world.audit();
}
