//! `rondo models`: the list, and a model tried over its real wire.

use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};

use crate::doctor::server;
use crate::process::{Ended, Process};
use crate::world::World;

const KEY: &str = "sk-planted-0123456789";

async fn run(command: &mut Command) -> Ended {
    let ended = Process::start(command).ended().await;
    assert!(!format!("{ended:?}").contains(KEY), "the key is shown: {ended:?}");
    ended
}

fn line<'a>(ended: &'a Ended, about: &str) -> &'a str {
    let found = ended.output.lines().find(|line| line.starts_with(about));
    found.unwrap_or_else(|| panic!("nothing about {about:?}: {ended:?}"))
}

#[tokio::test]
async fn the_list_shows_what_each_model_can_do_and_marks_the_default() {
    let world = World::new().await;
    world.write(
        "rondo.toml",
        "[models.small]\nkind = 'local'\ntools = true\ntool_calls_in_text = true\nstructured = 'prompt'\n\
         context_window = 4096\nmax_output = 512\nprice = { input = 0.4, cached_input = 0.1, output = 1.6 }",
    );
    let ended = run(&mut world.rondo(&["models", "list"])).await;
    let expected = "   NAME        PROVIDER  KIND   STREAMING  TOOLS    STRUCTURED  VISION  CONTEXT  MAX OUTPUT  PRICE (in/cached/out)  RETIRES\n\
                    *  gpt-6-luna  openai    cloud  yes        yes      with_tools  no      128000   -           -                      -\n\
                    \x20  small       openai    local  yes        in text  prompt      no      4096     512         0.4/0.1/1.6            -\n";
    assert_eq!((ended.code, ended.output.as_str(), ended.errors.as_str()), (Some(0), expected, ""));

    let ended = run(&mut world.rondo(&["models", "list", "--json"])).await;
    let list: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!(
        list[1],
        json!({
            "name": "small", "provider": "openai", "id": "small", "kind": "local", "default": false,
            "streaming": true, "tools": true, "structured": "prompt", "vision": false, "sampling": true,
            "thinking": true, "toolCallsInText": true, "contextWindow": 4096, "maxOutput": 512,
            "price": {"input": 0.4, "cachedInput": 0.1, "output": 1.6}, "longPrice": null, "retiresOn": null,
            "weights": null,
        })
    );
    assert_eq!((&list[0]["default"], &list[0]["price"]), (&json!(true), &Value::Null));

    std::fs::remove_file(world.path("rondo.toml")).unwrap();
    let ended =
        run(world.rondo(&["models", "list"]).env_remove("OPENAI_BASE_URL").env("ANTHROPIC_API_KEY", KEY))
            .await;
    assert!(ended.output.lines().any(|line| line.starts_with("*  claude-sonnet-5-5 ")), "{ended:?}");
    let ended = run(world.rondo(&["models", "list"]).env_remove("OPENAI_BASE_URL")).await;
    assert!(ended.output.starts_with("there is no model: set OPENAI_API_KEY"), "{ended:?}");
}

#[tokio::test]
async fn ollama_says_which_models_it_has_and_the_first_is_the_default() {
    let world = World::new().await;
    let tags = r#"{"models": [{"name": "qwen3:4b"}, {"name": "llama3.2:latest"}]}"#;
    let ollama = server("200 OK", tags, &["GET /api/tags "]);
    world.write("rondo.toml", "[models.'llama3.2:latest']\ntools = true");
    let mut list = world.rondo(&["models", "list", "--json"]);
    let ended = run(list.env_remove("OPENAI_BASE_URL").env("OLLAMA_HOST", &ollama)).await;
    let list: Value = serde_json::from_str(&ended.output).unwrap();
    let seen = |index: usize| json!([list[index]["name"], list[index]["default"], list[index]["tools"]]);
    // A model that the file lists comes before those that were found.
    assert_eq!(
        (seen(0), seen(1)),
        (json!(["llama3.2:latest", true, true]), json!(["qwen3:4b", false, false]))
    );
    std::fs::remove_file(world.path("rondo.toml")).unwrap();
    let mut list = world.rondo(&["models", "list"]);
    let ended = run(list.env_remove("OPENAI_BASE_URL").env("OLLAMA_HOST", &ollama)).await;
    assert!(ended.output.contains("\n*  qwen3:4b "), "{ended:?}");

    let mut gone = world.rondo(&["models", "list"]);
    let ended = run(gone.env_remove("OPENAI_BASE_URL").env("OLLAMA_HOST", "127.0.0.1:1")).await;
    assert_eq!((ended.code, ended.output.lines().count()), (Some(0), 1), "the head alone: {ended:?}");
}

#[tokio::test]
async fn a_model_is_tried_in_three_calls() {
    let world = World::new().await;
    world.upstream.require_key(KEY);
    world.upstream.script([
        Reply::stream().text("Hello ").text("there.").usage(20, 4),
        Reply::stream().call(ScriptedCall::new("look_up_weather", r#"{"city": "Paris"}"#)).usage(50, 10),
        Reply::stream().text(r#"{"product":"#).text(" 42}").usage(30, 6),
    ]);
    world.write("rondo.toml", "[models.mine]\nid = 'theirs'\nprice = { input = 1, output = 2 }");
    let mut test = world.rondo(&["models", "test", "mine", "--message", "Greet me"]);
    let ended = run(test.env("OPENAI_API_KEY", KEY)).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    let url = world.upstream.base_url();
    assert_eq!(line(&ended, "mine"), format!("mine: openai at {url}, wire chat"));
    let plain = line(&ended, "plain");
    assert!(
        plain.starts_with("plain       ok: first token after ") && plain.contains(", 4 tokens in "),
        "{plain}"
    );
    assert!(ended.output.contains("\n            Hello there.\n"), "{ended:?}");
    let tool = line(&ended, "tool call");
    assert!(
        tool.starts_with("tool call   ok: called look_up_weather with valid arguments (city \"Paris\"), "),
        "{tool}"
    );
    let structured = line(&ended, "structured");
    assert!(structured.starts_with("structured  ok: the answer matches the schema, "), "{structured}");
    assert_eq!(line(&ended, "usage"), "usage       100 tokens in, 20 out; $0.000140");
    let requests = world.upstream.requests();
    assert!(requests.iter().all(|request| request.body["model"] == "theirs"));
    assert_eq!(requests[0].body["messages"][1]["content"], "Greet me");
    assert_eq!(requests[0].body.get("tools"), None);
    assert_eq!(requests[2].body["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn what_a_model_gets_wrong_is_said_and_what_it_cannot_do_is_not_asked() {
    let world = World::new().await;
    world.upstream.script([
        Reply::says("Hello."),
        Reply::says("I would look that up."),
        Reply::says("Forty-two."),
        Reply::says("Hello."),
        Reply::stream().call(ScriptedCall::new("look_up_weather", r#"{"town": 1}"#)),
        Reply::status(400).error("invalid_request_error", None, "no schema here"),
        Reply::says("Hello."),
    ]);
    let ended = run(&mut world.rondo(&["models", "test"])).await;
    let expected = "rondo: gpt-6-luna answers, but a part of the test failed: tool call, structured; the lines above \
                    say why\n";
    assert_eq!((ended.code, ended.errors.as_str()), (Some(1), expected));
    assert!(line(&ended, "tool call").starts_with("tool call   NO: the tool was not called; "), "{ended:?}");
    assert!(
        line(&ended, "structured").starts_with("structured  NO: the answer does not match the schema; "),
        "{ended:?}"
    );
    assert!(line(&ended, "usage").ends_with("; its price is not known"), "{ended:?}");

    let ended = run(&mut world.rondo(&["models", "test", "other"])).await;
    let expected = "tool call   NO: called \"look_up_weather\" with arguments that do not match its schema";
    assert_eq!((ended.code, line(&ended, "tool call")), (Some(1), expected));
    assert!(line(&ended, "structured").ends_with("(provider_rejected)"), "{ended:?}");

    world.write("rondo.toml", "[models.plain]\ntools = false\nstructured = 'prompt'");
    let ended = run(&mut world.rondo(&["models", "test", "plain"])).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "it is not listed with them");
    assert_eq!(line(&ended, "tool call"), "tool call   not tried: the model is not listed with tools");
    assert!(line(&ended, "structured").starts_with("structured  not tried: "), "{ended:?}");
    assert_eq!(world.upstream.requests().len(), 7);
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_a_failure_with_a_remedy() {
    let world = World::new().await;
    for (reply, code, remedy) in [
        (Reply::status(401), "provider_auth", "check OPENAI_API_KEY"),
        (Reply::status(429), "provider_rate_limited", "wait a little and try again"),
        (
            Reply::status(404),
            "provider_model_not_found",
            "`rondo doctor` shows what openai has; id in [models.\"gpt-6-luna\"] is its own name for the model",
        ),
        (
            Reply::says("Hel").without_end(),
            "provider_stream_broken",
            "support the API chat? correct wire in [providers.openai]",
        ),
    ] {
        world.upstream.script([reply]);
        let ended = run(&mut world.rondo(&["models", "test"])).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.errors.starts_with("rondo: ") && ended.errors.contains(&format!("({code}); ")),
            "{ended:?}"
        );
        assert!(ended.errors.ends_with(&format!("{remedy}\n")), "{ended:?}");
    }
    let ended = run(world.rondo(&["models", "test"]).env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")).await;
    assert!(ended.errors.contains("(provider_unavailable); is http://127.0.0.1:1/v1 running"), "{ended:?}");
    world.write("rondo.toml", "[providers.openai]\nopen = false\n[models.mine]");
    let ended = run(&mut world.rondo(&["models", "test", "yours"])).await;
    let expected = "rondo: no provider serves the model \"yours\"; `rondo models list` shows all models\n";
    assert_eq!((ended.code, ended.errors.as_str()), (Some(1), expected));
}

#[tokio::test]
async fn every_wire_can_be_tried() {
    let world = World::new().await;
    let (base, root) = (world.upstream.base_url(), world.upstream.root_url());
    for (wire, url) in [
        ("chat", &base),
        ("responses", &base),
        ("anthropic", &base),
        ("anthropic-2023-06-01", &base),
        ("ollama", &root),
    ] {
        world.upstream.script([
            Reply::says("Hello there."),
            Reply::stream().call(ScriptedCall::new("look_up_weather", r#"{"city": "Paris"}"#)),
            Reply::says(r#"{"product": 42}"#),
        ]);
        let text = format!(
            "[providers.mine]\nwire = '{wire}'\nbase_url = '{url}'\napi_key_env = 'MINE'\n\
             [models.m]\nprovider = 'mine'\ntools = true"
        );
        world.write("rondo.toml", &text);
        let ended = run(world.rondo(&["models", "test", "m"]).env("MINE", KEY)).await;
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{wire}: {ended:?}");
        for about in
            ["plain       ok: ", "tool call   ok: ", "structured  ok: ", "usage       30 tokens in, 15 out"]
        {
            line(&ended, about);
        }
        world.upstream.violations(); // it does not say which models it has, as Ollama is asked to
    }
}

#[tokio::test]
async fn the_embedding_model_is_tried_as_one() {
    let world = World::new().await;
    world.write("rondo.toml", "[embeddings]\nprovider = 'openai'\nmodel = 'text-embedding-3-small'");
    let ended = run(&mut world.rondo(&["models", "test", "text-embedding-3-small"])).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    assert!(line(&ended, "embedding").starts_with("embedding   ok: 8 dimensions, "), "{ended:?}");
    world.upstream.script_embeddings([Reply::status(401)]);
    let ended = run(&mut world.rondo(&["models", "test", "text-embedding-3-small"])).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors.ends_with("(provider_auth); check OPENAI_API_KEY\n"), "{ended:?}");
}
