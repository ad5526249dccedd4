//! `rondo chat` on a real terminal, with the keys that a person presses; and what the program says of itself.

use serde_json::Value;
use testkit::upstream::{Gate, Reply};

use crate::process::{Ended, Process};
use crate::trailhead::a_part;
use crate::world::World;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const PROMPT: &str = "\n> ";

/// What the user has said in the only thread of an app.
async fn said(world: &World, app: &str) -> Vec<String> {
    let server = world.serve().await;
    let (_, threads) = server.get(&format!("/v1/apps/{app}/threads")).await;
    let [thread] = threads["data"].as_array().unwrap().as_slice() else { panic!("one thread: {threads}") };
    let path = format!("/v1/threads/{}/messages", thread["id"].as_str().unwrap());
    let (_, messages) = server.get(&path).await;
    let of_the_user = messages["data"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    of_the_user.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

/// What the user said last, in a request to the model.
fn last_message(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    let of_the_user = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    of_the_user["content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn ctrl_c_at_a_question_leaves_it_open_and_takes_no_later_line_away() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(|body| match body.to_string().contains("Never mind.") {
        true => Reply::says("As you like."),
        false => a_part(body),
    });
    let mut chat = Process::on_a_terminal(&world.rondo(&["chat"]));
    chat.output.contains(PROMPT).await;
    chat.write("It came up again.\n");
    chat.output.contains("yes or no: ").await;
    chat.write("hm\n");
    chat.output.contains("[hm is neither yes nor no]").await;
    chat.write(CTRL_C);
    let shown = chat.output.contains_times(2, PROMPT).await;
    assert!(
        shown.contains(
            "[createEmergingPart waits for your approval: `rondo chat --app trailhead --thread thr_"
        )
    );
    chat.write("Never mind.\n");
    let shown = chat.output.contains_times(3, PROMPT).await;
    assert!(shown.contains("As you like."), "{shown}");
    chat.write(CTRL_D);
    let ended = chat.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.contains("To continue: rondo chat --app trailhead --thread thr_"), "{ended:?}");
    assert_eq!(said(&world, "trailhead").await, ["It came up again.", "Never mind."]);
}

#[tokio::test]
async fn a_line_typed_while_an_answer_is_stopped_is_the_next_message() {
    let world = World::new().await;
    let (first, never) = (Gate::new(), Gate::new());
    let endless = Reply::stream().text("I will never").wait(&first).text(" ever").wait(&never).text(" stop");
    world.upstream.script([endless, Reply::says("Then this.")]);
    let mut chat = Process::on_a_terminal(&world.rondo(&["chat"]));
    chat.output.contains(PROMPT).await;
    chat.write("Go on\n");
    chat.output.contains("I will never").await;
    chat.write("And then?\n");
    chat.output.contains("And then?").await;
    first.open();
    chat.output.contains(" ever").await;
    chat.write(CTRL_C);
    let shown = chat.output.contains("Then this.").await;
    assert!(shown.contains("[cancelled]"), "{shown}");
    chat.output.contains_times(3, PROMPT).await;
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "studio").await, ["Go on", "And then?"]);
    world.audit();
}

#[tokio::test]
async fn what_is_typed_before_a_question_is_no_answer_to_it() {
    let world = World::with(&["trailhead"]).await;
    let (gate, seen) = (Gate::new(), Gate::new());
    let held = (gate.clone(), seen.clone());
    world.upstream.program(move |body| match last_message(body).as_str() {
        "First." => Reply::stream().text("Let me see.").wait(&held.0).text(" Now.").wait(&held.1),
        "yes, and more" => a_part(body),
        _ => Reply::says("Fine."),
    });
    let mut chat = Process::on_a_terminal(&world.rondo(&["chat"]));
    chat.output.contains(PROMPT).await;
    chat.write("First.\n");
    chat.output.contains("Let me see.").await;
    chat.write("yes, and more\nyes\nyes\n");
    chat.output.contains("and more").await;
    gate.open();
    chat.output.contains(" Now.").await;
    seen.open();
    chat.output.contains("yes or no: ").await;
    chat.write("no\n");
    chat.output.contains("[rejected]").await;
    chat.output.contains_times(5, PROMPT).await;
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "trailhead").await, ["First.", "yes, and more", "yes", "yes"]);
}

#[tokio::test]
async fn a_chat_that_is_left_says_what_it_did_not_send() {
    let world = World::new().await;
    let mut chat = Process::on_a_terminal(&world.rondo(&["chat"]));
    chat.output.contains(PROMPT).await;
    chat.write("\n");
    chat.output.contains_times(2, PROMPT).await; // an empty line is no message
    chat.write(CTRL_C);
    let Ended { code, output, .. } = chat.ended().await;
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("To continue"), "nothing was begun: {output}");
    assert_eq!(world.upstream.requests().len(), 0);
}

#[tokio::test]
async fn help_explains_every_command_and_itself() {
    let world = World::new().await;
    let text = async |words: &[&str]| {
        let ended = world.run(words).await;
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{words:?}");
        ended.output
    };
    let whole = text(&["--help"]).await;
    assert_eq!(text(&["help"]).await, whole);
    assert!(whole.contains("`rondo models pull smollm2-135m`"), "the model that needs nobody else: {whole}");
    for words in [["chat"].as_slice(), &["models", "pull"], &["keys"]] {
        let help = text(&[&["help"], words].concat()).await;
        assert_eq!(help, text(&[words, &["--help"]].concat()).await);
        assert!(help.contains(&format!("Usage: rondo {}", words.join(" "))), "{help}");
    }
    assert_eq!(text(&["models", "help", "pull"]).await, text(&["models", "pull", "--help"]).await);
    assert_eq!(text(&["models", "help"]).await, text(&["models", "--help"]).await);
    for words in
        [["help", "--help"].as_slice(), &["help", "-h"], &["help", "help"], &["models", "help", "--help"]]
    {
        let help = text(words).await;
        assert!(help.contains("help [OPTIONS] [COMMAND]...") || help.contains("help [COMMAND]"), "{help}");
    }
    let ended = world.run(&["help", "chatter"]).await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(2), ""));
    assert!(ended.errors.contains("unrecognized subcommand 'chatter'"), "{}", ended.errors);
}
