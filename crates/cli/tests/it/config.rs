//! Mistakes in configuration: refused at start, with the place and what to write instead.

use std::process::Command;

use crate::process::Process;
use crate::world::World;

/// Fails unless the command is refused with exactly this on standard error.
async fn refused(command: &mut Command, expected: &str) {
    let ended = Process::start(command).ended().await;
    assert_eq!(ended.errors, format!("rondo: {expected}\n"));
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""));
}

#[tokio::test]
async fn mistakes_in_the_file() {
    let world = World::new().await;
    let place = "write an IP address and a port, such as 127.0.0.1:8787";
    for (text, expected) in [
        ("\nmodle = 'x'", "2:1: unknown key \"modle\"; did you mean \"model\"?".into()),
        ("[server]\nport = 80", "2:1: unknown key \"port\"; the keys here are max_body_bytes, header_timeout_seconds, body_timeout_seconds, write_timeout_seconds, max_streams_per_user, max_model_calls, max_model_calls_per_user, max_document_bytes_per_user, heartbeat_seconds, drain_seconds, retention_seconds, undo_retention_seconds, delta_pause_ms, chat_app, public_url, base_path, trusted_proxies, allow_origins, max_failed_attempts_per_minute, behind_proxy, max_connections_per_address".into()),
        ("listen = 'everywhere'", format!("1:10: \"everywhere\" is not an address; {place}")),
    ] {
        world.write("rondo.toml", text);
        for command in ["serve", "doctor", "chat"] {
            let mut rondo = world.rondo(&[command]);
            refused(rondo.env_remove("RONDO_LISTEN"), &format!("rondo.toml:{expected}")).await;
        }
    }
    world.write("rondo.toml", "listen = 'x'\n[broken");
    let ended = Process::start(&mut world.rondo(&["serve"])).ended().await;
    assert!(ended.errors.starts_with("rondo: rondo.toml:2:"), "{}", ended.errors);
}

#[tokio::test]
async fn mistakes_in_the_environment_and_on_the_command_line() {
    let world = World::new().await;
    let missing = "there is no such file; create it, or name another with --config or RONDO_CONFIG";
    refused(&mut world.rondo(&["serve", "--config", "mine.toml"]), &format!("mine.toml: {missing}")).await;
    refused(world.rondo(&["serve"]).env("RONDO_CONFIG", "my.toml"), &format!("my.toml: {missing}")).await;
    let url =
        "OPENAI_BASE_URL: the base URL is not an http or https URL; write it as in https://api.openai.com/v1";
    refused(world.rondo(&["serve"]).env("OPENAI_BASE_URL", "localhost:1"), url).await;
    world.write("file", "");
    let ended = world.run(&["serve", "--data", "file"]).await;
    assert!(ended.errors.starts_with("rondo: file: the data folder cannot be used: "), "{}", ended.errors);
    assert!(ended.errors.ends_with("; choose another data folder with RONDO_DATA\n"), "{}", ended.errors);
    assert!(!world.path("data").exists(), "nothing is made by a command that is refused");
}

#[tokio::test]
async fn mistakes_in_an_app_folder() {
    let world = World::new().await;
    let serve = || {
        let mut command = world.rondo(&["serve"]);
        command.env("RONDO_APPS", "apps");
        command
    };
    let folder = "apps: the apps folder cannot be read: No such file or directory (os error 2); make an app \
        with `rondo init NAME`, or set RONDO_APPS to the folder of your apps";
    refused(&mut serve(), folder).await;
    world.write("apps/mine/instructions.md", "Be kind.");
    let file =
        "there is no such file; create it (it may be empty), or move the folder out of the apps folder";
    refused(&mut serve(), &format!("apps/mine/app.toml: {file}")).await;
    for (text, expected) in [
        ("name = 'Mine'\ntolls = []", "2:1: unknown key \"tolls\"; did you mean \"tools\"?"),
        (
            "tools = ['calculate',\n  'clock']",
            "2:3: there is no tool named \"clock\"; use one of ask_user, calculate, current_time, update_profile, documents, markdown, memory, proposals, undo, web_search, or \
             remove it",
        ),
        ("[loop]\nmax_steps = 0", "2:13: loop.max_steps is 0; write a whole number from 1 to 200"),
    ] {
        world.write("apps/mine/app.toml", text);
        refused(&mut serve(), &format!("apps/mine/app.toml:{expected}")).await;
    }
    world.write("apps/mine/app.toml", "");
    world.write("apps/mine/instructions.md", " \n");
    let empty = "the file is empty; write what the model is to do, and how";
    refused(&mut serve(), &format!("apps/mine/instructions.md: {empty}")).await;
    world.write("apps/v1/app.toml", "");
    world.write("apps/mine/instructions.md", "Be kind.");
    refused(&mut serve(), "apps/v1: \"v1\" is a path of the server itself; give the folder another name")
        .await;
}

#[tokio::test]
async fn the_printed_file_is_a_good_one() {
    let world = World::new().await;
    let printed = world.run(&["config"]).await;
    assert_eq!((printed.code, printed.errors.as_str()), (Some(0), ""));
    world.write("printed.toml", &printed.output);
    let checked = world.run(&["--config", "printed.toml", "doctor"]).await;
    assert_eq!((checked.code, checked.errors.as_str()), (Some(0), ""), "{}", checked.output);
    assert!(checked.output.starts_with("ok    configuration: printed.toml\n"), "{}", checked.output);
    world.upstream.violations(); // it does not list its models
}

#[tokio::test]
async fn every_command_explains_itself() {
    let world = World::new().await;
    for command in ["serve", "chat", "doctor", "keys", "jobs", "mcp", "models", "tools", "config"] {
        let help = world.run(&[command, "--help"]).await;
        assert_eq!((help.code, help.errors.as_str()), (Some(0), ""));
        assert!(help.output.contains("--config <FILE>"), "{}", help.output);
    }
    let help = world.run(&[]).await;
    assert_eq!(help.code, Some(2));
    assert!(help.errors.contains("rondo doctor"), "{}", help.errors);
}

#[tokio::test]
async fn a_key_that_is_like_no_other_gets_no_guess() {
    let world = World::new().await;
    world.write("rondo.toml", "foo = 1");
    let ended = world.run(&["doctor"]).await;
    assert_eq!(ended.code, Some(1));
    let expected = "rondo: rondo.toml:1:1: unknown key \"foo\"; the keys here are listen, data, apps,";
    assert!(ended.errors.starts_with(expected), "{}", ended.errors);
}
