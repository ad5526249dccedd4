//! `rondo chat` on a real terminal, with the keys that a person presses; and what the program says of itself.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use testkit::upstream::{Gate, Reply};

use crate::process::{Ended, Process};
use crate::trailhead::a_part;
use crate::world::World;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_A: &str = "\u{1}";
const CTRL_Y: &str = "\u{19}";
const UP: &str = "\u{1b}[A";
const LEFT: &str = "\u{1b}[D";

/// The prompt of a terminal that only prints text.
const PROMPT: &str = "\n> ";

/// The sequence that the line editor sends to a terminal each time it begins to read a line: to mark pasted text.
const READY: &str = "\u{1b}[?2004h";

/// A chat on a terminal that only prints text.
fn plain(world: &World) -> Process {
    Process::on_a_terminal(world.rondo(&["chat"]).env("TERM", "dumb"))
}

/// A chat on a terminal that can do more, once it reads keys.
async fn rich(command: &Command) -> Process {
    let chat = Process::on_a_terminal(command);
    chat.output.contains(READY).await;
    chat
}

/// Whether a text sets a colour or an emphasis.
fn has_style(text: &str) -> bool {
    let is_style = |sequence: &str| {
        let end = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        end.starts_with('m')
    };
    text.split("\u{1b}[").skip(1).any(is_style)
}

/// Returns the user's messages in the only thread of an app.
async fn said(world: &World, app: &str) -> Vec<String> {
    let server = world.serve().await;
    let (_, threads) = server.get(&format!("/v1/apps/{app}/threads")).await;
    let [thread] = threads["data"].as_array().unwrap().as_slice() else { panic!("one thread: {threads}") };
    let path = format!("/v1/threads/{}/messages", thread["id"].as_str().unwrap());
    let (_, messages) = server.get(&path).await;
    let of_the_user = messages["data"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    of_the_user.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

/// Returns the user's last message in a request to the model.
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
    let mut chat = plain(&world);
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
    let mut chat = plain(&world);
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
    let mut chat = plain(&world);
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
    let mut chat = plain(&world);
    chat.output.contains(PROMPT).await;
    chat.write("\n");
    chat.output.contains_times(2, PROMPT).await; // an empty line is no message
    chat.write(CTRL_C);
    let Ended { code, output, .. } = chat.ended().await;
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("To continue"), "nothing was begun: {output}");
    assert_eq!(world.upstream.requests().len(), 0);
}

/// The line editor has switched off the echo of the terminal, which the user's shell needs again.
#[tokio::test]
async fn a_chat_that_is_terminated_gives_the_terminal_back() {
    let world = World::new().await;
    let chat = rich(&world.rondo(&["chat"])).await;
    let kill = format!("kill -TERM $(cat /proc/{0}/task/{0}/children)", chat.id()); // not the terminal
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let shown = chat.output.contains("rondo: the chat was ended by SIGTERM").await;
    assert!(shown.contains("\u{1b}[?2004l"), "pasted text is not marked any more: {shown:?}");
    assert_eq!(chat.ended().await.code, Some(1));
}

#[tokio::test]
async fn lines_are_edited_and_recalled_in_later_chats_too() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Well."));
    let mut command = world.rondo(&["chat"]);
    command.env("XDG_STATE_HOME", world.path("state"));
    let mut chat = rich(&command).await;
    chat.write(&format!("helo{LEFT}l\r"));
    chat.output.contains_times(2, READY).await;
    chat.write(&format!("{UP}!\r"));
    chat.output.contains_times(3, READY).await;
    chat.write(&format!("world{CTRL_A}hello \r"));
    chat.output.contains_times(4, READY).await;
    chat.write(&format!("half a thought{CTRL_C}{CTRL_Y}!\r"));
    chat.output.contains_times(5, READY).await;
    chat.write(CTRL_D);
    let ended = chat.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let thread = ended.output.split(" --thread ").nth(1).unwrap().split_whitespace().next().unwrap();
    let file = world.path("state/rondo/chat_history");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);

    let mut command = world.rondo(&["chat", "--thread", thread]);
    command.env("XDG_STATE_HOME", world.path("state"));
    let mut chat = rich(&command).await;
    let shown = chat.output.text();
    assert!(shown.contains("> half a thought!\r\nWell."), "the end of the conversation is shown: {shown}");
    chat.write(&format!("{UP}{UP}\r"));
    chat.output.contains_times(2, READY).await;
    chat.write(CTRL_C);
    let ended = chat.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.output.contains(&format!("To continue: rondo chat --app studio --thread {thread}")),
        "{ended:?}"
    );
    let expected = ["hello", "hello!", "hello world", "half a thought!", "hello world"];
    assert_eq!(said(&world, "studio").await, expected);
}

#[tokio::test]
async fn several_lines_are_one_message() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Well."));
    let mut chat = rich(&world.rondo(&["chat"])).await;
    let pasted = "\u{1b}[200~curl \\\r  -s\rdone\u{1b}[201~";
    for (times, keys) in [(2, format!("{pasted}\r")), (3, "one\\\rtwo\r".into()), (4, "a\u{1b}\rb\r".into())]
    {
        chat.write(&keys);
        chat.output.contains_times(times, READY).await;
    }
    chat.write("\r"); // an empty line is no message
    chat.output.contains_times(5, READY).await;
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "studio").await, ["curl \\\n  -s\ndone", "one\ntwo", "a\nb"]);
}

/// The terminal is told to forget at Ctrl-C what was typed, as terminals do.
#[tokio::test]
async fn what_is_typed_while_an_answer_streams_is_kept_over_ctrl_c() {
    let world = World::new().await;
    let (first, second, never) = (Gate::new(), Gate::new(), Gate::new());
    let endless =
        Reply::stream().text("I will never ").wait(&first).text("and more ").wait(&never).text("stop");
    let then = Reply::stream().text("Then this ").wait(&second).text("too.");
    world.upstream.script([endless, then, Reply::says("Well.")]);
    let chat = world.rondo(&["chat"]);
    let mut command = Command::new("sh");
    command.args(["-c", concat!("stty -noflsh; exec \"", env!("CARGO_BIN_EXE_rondo"), "\" chat")]);
    command.envs(chat.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(chat.get_current_dir().unwrap());
    let mut chat = rich(&command).await;
    chat.write("Go on\r");
    chat.output.contains("I will never").await;
    chat.write("And thon\u{7f}\u{7f}en?\n");
    chat.output.contains("en?").await;
    first.open();
    chat.output.contains("and more").await;
    chat.write(CTRL_C);
    let shown = chat.output.contains("Then this").await;
    assert!(shown.contains("[cancelled]"), "{shown}");
    chat.write("half");
    chat.output.contains("half").await;
    second.open();
    chat.output.contains_times(2, READY).await;
    chat.write(" a line\r");
    chat.output.contains_times(3, READY).await;
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "studio").await, ["Go on", "And then?", "half a line"]);
    world.audit();
}

#[tokio::test]
async fn a_call_is_approved_with_yes_or_no_and_nothing_else() {
    let world = World::with(&["trailhead"]).await;
    world.upstream.program(|body| match body.to_string().contains("Never mind.") {
        true => Reply::says("As you like."),
        false => a_part(body),
    });
    let mut chat = rich(&world.rondo(&["chat"])).await;
    chat.write("It came up again.\r");
    chat.output.contains_times(2, READY).await;
    let shown = chat.output.contains("yes or no: ").await;
    assert!(shown.contains("[may I? createEmergingPart {\"name\":\"The Proofreader\""), "{shown}");
    assert!(shown.contains("[addEvidence {") && shown.contains("[addEvidence: "), "{shown}");
    chat.write("sure\r");
    chat.output.contains("[sure is neither yes nor no]").await;
    chat.output.contains_times(3, READY).await;
    chat.write(CTRL_C);
    chat.output.contains("[createEmergingPart waits for your approval: ").await;
    chat.output.contains_times(4, READY).await;
    chat.write("Never mind.\r");
    let shown = chat.output.contains_times(5, READY).await;
    assert!(shown.contains("As you like."), "{shown}");
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "trailhead").await, ["It came up again.", "Never mind."]);
}

#[tokio::test]
async fn a_line_that_was_typed_ahead_approves_nothing() {
    let world = World::with(&["trailhead"]).await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |body| match last_message(body).as_str() {
        "First." => Reply::stream().text("Let me see. ").wait(&held).text("Now."),
        "yes, and more" => a_part(body),
        _ => Reply::says("Fine."),
    });
    let mut chat = rich(&world.rondo(&["chat"])).await;
    chat.write("First.\r");
    chat.output.contains("Let me see.").await;
    chat.write("yes, and more\nyes\nye");
    chat.output.contains("and more\r\nyes\r\nye").await;
    gate.open();
    chat.output.contains_times(2, READY).await;
    chat.output.contains("yes or no: ").await;
    chat.write("no\r");
    chat.output.contains("[rejected]").await;
    chat.output.contains_times(3, READY).await;
    chat.write("s\r");
    chat.output.contains_times(4, READY).await;
    chat.write(CTRL_D);
    assert_eq!(chat.ended().await.code, Some(0));
    assert_eq!(said(&world, "trailhead").await, ["First.", "yes, and more", "yes", "yes"]);
}

#[tokio::test]
async fn slash_commands_are_for_the_chat_and_not_for_the_model() {
    let world = World::with(&["studio", "tutor"]).await;
    world.write("rondo.toml", "[models.small]\nprovider = \"openai\"\ntools = false\n");
    world.upstream.script([Reply::says("A path."), Reply::says("I will.")]);
    let mut chat = rich(&world.rondo(&["chat"])).await;
    assert!(chat.output.text().contains("Talking to studio, model "), "{}", chat.output.text());
    let steps = [
        ("/help", "send a message that begins with a slash"),
        ("/nonsense", "[there is no command /nonsense; /help lists the commands"),
        ("/app", "* studio"),
        ("/app nobody", "[there is no app \"nobody\"; there is studio, tutor]"),
        ("/model", "small"),
        (
            "/model small",
            "[small is not offered tools, so these are off: current_time, calculate; use another model (set ",
        ),
        ("/threads", "[there is no conversation yet]"),
        ("/memories", "[nothing is remembered yet"),
        ("/undo", "[there is no answer to undo yet]"),
        ("//slash", "A path."),
        ("/undo", "[the last answer has changed nothing]"),
        ("/threads", "* thr_"),
        (
            "/remember I am vegan",
            "[/remember stores nothing in studio now, so the model got it as a message]",
        ),
        ("/app tutor", "Talking to tutor"),
        ("/app studio", "Talking to studio, model "),
    ];
    for (done, (keys, expected)) in steps.into_iter().enumerate() {
        chat.write(&format!("{keys}\r"));
        let shown = chat.output.contains_times(done + 2, READY).await;
        assert!(shown.contains(expected), "{keys}: {shown}");
    }
    chat.write("exit\r");
    let ended = chat.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.output.contains("To continue"), "another app begins another conversation: {ended:?}");
    let requests = world.upstream.requests();
    assert_eq!(requests.len(), 2, "only two lines were messages");
    assert_eq!(
        (last_message(&requests[0].body).as_str(), &requests[0].body["model"]),
        ("/slash", &"small".into())
    );
}

#[tokio::test]
async fn markdown_is_shown_as_the_terminal_can() {
    let answer = "# Title\nSome **bold** word.\u{1b}[2J\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    for (variable, is_rich, has_colours) in
        [(None, true, true), (Some(("NO_COLOR", "1")), true, false), (Some(("TERM", "dumb")), false, false)]
    {
        let world = World::new().await;
        world.upstream.script([Reply::says(answer)]);
        let mut command = world.rondo(&["chat"]);
        command.envs(variable);
        let mut chat = Process::on_a_terminal(&command);
        let ready = if is_rich { READY } else { PROMPT };
        chat.output.contains(ready).await;
        chat.write(if is_rich { "Go\r" } else { "Go\n" });
        chat.output.contains_times(2, ready).await;
        chat.write(CTRL_D);
        let ended = chat.ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let shown = ended.output.as_str();
        assert_eq!(
            shown.contains("Some \u{1b}[1mbold\u{1b}[0m word.[2J\r\n"),
            has_colours,
            "{variable:?}: {shown}"
        );
        assert_eq!(shown.contains("Some **bold** word.[2J\r\n"), !has_colours, "{variable:?}: {shown}");
        assert_eq!(
            shown.contains("a │ b\r\n──┼──\r\n1 │ 2\r\n") || has_colours,
            is_rich,
            "{variable:?}: {shown}"
        );
        assert_eq!(has_style(shown), has_colours, "{variable:?}: {shown}");
        assert!(is_rich || !shown.contains(['\u{1b}', '⠋']), "{shown}");
    }
}

/// A spinner shows that the answer is awaited.
#[tokio::test]
async fn one_message_on_a_terminal_is_answered_without_a_prompt() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().wait(&gate).text("Hello, **Ada**.")]);
    let chat = Process::on_a_terminal(&world.rondo(&["chat", "I am Ada."]));
    chat.output.contains("\r⠋ ").await;
    gate.open();
    chat.output.contains("Hello,").await;
    let ended = chat.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.contains("\r\u{1b}[KHello, \u{1b}[1mAda\u{1b}[0m.\r\n"), "{ended:?}");
    assert!(!ended.output.contains(READY) && !ended.output.contains("Talking to"), "{ended:?}");
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
    assert!(
        whole.contains("`rondo models pull qwen2.5-coder-0.5b`"),
        "the model that needs nobody else: {whole}"
    );
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
