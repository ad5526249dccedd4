//! `rondo models update`, and what is said of models that end.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use protocol::{Clock, SystemClock};
use testkit::web::{Web, WebReply};

use crate::process::Ended;
use crate::world::{Server, World};

const BUILT_IN: &str = include_str!("../../../model/src/known.toml");
const KEY: &str = "sk-planted-0123456789";

/// The built-in catalogue as of another day.
fn as_of(day: &str) -> String {
    let (head, rest) = BUILT_IN.split_once("checked_on = \"").unwrap();
    format!("{head}checked_on = \"{day}{}", rest.split_at(10).1)
}

/// Newer than the built-in catalogue, and not too far in the future for one that was made today.
fn tomorrow() -> Date {
    SystemClock.now().to_zoned(TimeZone::UTC).date().tomorrow().unwrap()
}

async fn update(world: &World, from: &str) -> Ended {
    world.run(&["models", "update", from]).await
}

fn kept(world: &World) -> Option<String> {
    std::fs::read_to_string(world.path("data/catalogue.toml")).ok()
}

#[tokio::test]
async fn a_newer_catalogue_is_taken_from_a_file_and_what_changes_is_told() {
    let world = World::new().await;
    let newer = as_of(&tomorrow().to_string())
        .replacen("price = { input = 0.1,", "price = { input = 0.3,", 1)
        .replace("name = \"gpt-5.2\"", "name = \"gpt-5.2-again\"");
    world.write("newer.toml", &newer);
    let ended = update(&world, "newer.toml").await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    let told: Vec<&str> = ended.output.lines().collect();
    assert_eq!(told[0], "added: gpt-5.2-again of openai");
    assert_eq!(told[1], "removed: gpt-5.2 of openai");
    assert!(told[2].starts_with("price of gpt-6-luna of openai: 0.1/0.01/0.5 ("), "{told:?}");
    assert!(told[2].contains(" is now 0.3/0.01/0.5 ("), "{told:?}");
    assert!(
        told[3].starts_with(&format!("the catalogue in use now has the date {}, from ", tomorrow())),
        "{told:?}"
    );
    assert_eq!(kept(&world).as_deref(), Some(newer.as_str()));
    let files = std::fs::read_dir(world.path("data")).unwrap().count();
    assert_eq!(files, 1, "nothing half-written stays");

    let mut list = world.rondo(&["models", "list"]);
    list.env_remove("OPENAI_BASE_URL").env("OPENAI_API_KEY", KEY);
    let ended = crate::process::Process::start(&mut list).ended().await;
    assert!(ended.output.contains("0.3/0.01/0.5"), "the list uses it: {ended:?}");
    let ended = update(&world, "newer.toml").await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors.contains("nothing was changed"), "the same again is not newer: {ended:?}");
}

#[tokio::test]
async fn a_newer_catalogue_is_taken_from_a_server() {
    let (world, web) = (World::new().await, Web::start().await);
    let newer = as_of(&tomorrow().to_string());
    web.on("GET", "/known.toml", [WebReply::text(&newer)]);
    let ended = update(&world, &format!("{}/known.toml", web.url())).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(kept(&world).as_deref(), Some(newer.as_str()));
}

#[tokio::test]
async fn what_is_no_good_catalogue_is_refused_and_nothing_changes() {
    let (world, web) = (World::new().await, Web::start().await);
    web.on("GET", "/gone", [WebReply::status(404)]);
    web.on("GET", "/moved", [WebReply::redirect(302, "/known.toml")]);
    web.on("GET", "/endless", [WebReply::endless(8 << 20)]);
    web.on("GET", "/page", [WebReply::text("<html>Log in</html>")]);
    let far = tomorrow().tomorrow().unwrap().to_string();
    world.write("far.toml", &as_of(&far));
    world.write("old.toml", &as_of("2026-11-15"));
    let day = tomorrow().to_string();
    world.write("price.toml", &as_of(&day).replacen("input = 0.1,", "input = -0.1,", 1));
    world.write("default.toml", &as_of(&day).replace("openai = \"gpt-6-luna\"", "openai = \"gpt-4o\""));
    world.write("long.toml", &format!("# {}\n{}", "x".repeat(2 << 20), as_of(&day)));
    std::fs::write(world.path("bytes.toml"), [0xff, 0xfe]).unwrap();
    let url = |path: &str| format!("{}{path}", web.url());
    for (from, expected) in [
        ("no-such.toml".to_owned(), "No such file"),
        ("far.toml".to_owned(), "is in the future"),
        ("old.toml".to_owned(), "its date is 2026-11-15, and the catalogue in use has the date "),
        ("price.toml".to_owned(), "gpt-6-luna: a price is -0.1"),
        ("default.toml".to_owned(), "the default gpt-4o of openai retires within a year"),
        ("long.toml".to_owned(), "longer than 1048576 bytes"),
        ("bytes.toml".to_owned(), "it is not text"),
        (url("/gone"), "it answers 404"),
        (url("/moved"), "it answers with a redirect"),
        (url("/endless"), "longer than 1048576 bytes"),
        (url("/page"), "line 1: "),
        ("http://example.com/known.toml".to_owned(), "begins with https://, or a file"),
        ("ftp://127.0.0.1/known.toml".to_owned(), "begins with https://, or a file"),
        ("https://me:secret@127.0.0.1/x".to_owned(), "must not hold a user name or a password"),
        ("http://127.0.0.1:1/known.toml".to_owned(), "refused"),
    ] {
        let ended = update(&world, &from).await;
        assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{from}: {ended:?}");
        assert!(ended.errors.contains(expected), "{from}: {ended:?}");
        assert_eq!(kept(&world), None, "{from}");
    }
    let ended = world.run(&["models", "update"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors.contains("name the newer catalogue"), "{ended:?}");
}

#[tokio::test]
async fn the_start_and_the_list_warn_of_models_that_have_ended() {
    let world = World::new().await;
    let old = "name = \"claude-sonnet-5-5\"";
    let text = as_of("2999-01-01")
        .replace(old, "name = \"claude-bygone\"")
        .replace("claude-sonnet-5-5", "claude-opus-5-5")
        .replacen(
            "name = \"claude-bygone\"",
            "name = \"claude-bygone\"\nretires_on = \"2026-01-05\"\ninstead = \"claude-opus-5-5\"",
            1,
        );
    world.write("data/catalogue.toml", &text);
    let mut serve = world.rondo(&["serve"]);
    serve.env_remove("OPENAI_BASE_URL").env("ANTHROPIC_API_KEY", KEY).env("RONDO_MODEL", "claude-bygone");
    let server = Server::start(&mut serve).await;
    let warned = "claude-bygone was retired on 2026-01-05: choose claude-opus-5-5";
    server.process.errors.line(warned).await;
    let mut list = world.rondo(&["models", "list"]);
    list.env_remove("OPENAI_BASE_URL").env("ANTHROPIC_API_KEY", KEY).env("RONDO_MODEL", "claude-bygone");
    let ended = crate::process::Process::start(&mut list).ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.lines().any(|line| line == warned), "{ended:?}");
    assert!(ended.output.lines().any(|line| line.ends_with(" 2026-01-05")), "in its row too: {ended:?}");
}
