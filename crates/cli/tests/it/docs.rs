//! Every `curl` that the documents show is run as it stands, against the real binary, and every command that they name is
//! one that it takes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use testkit::upstream::Reply;

use crate::process::Process;
use crate::world::{APPS, Server, World};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const DEFAULT_ADDRESS: &str = "127.0.0.1:8787";
/// Every page that shows a `curl`.
const PAGES: [&str; 12] = [
    "README.md",
    "docs/api.md",
    "docs/authentication.md",
    "docs/context.md",
    "docs/memory.md",
    "docs/openai.md",
    "docs/tools.md",
    "apps/companion/README.md",
    "apps/kalito/README.md",
    "apps/studio/README.md",
    "apps/trailhead/README.md",
    "apps/tutor/README.md",
];
/// Examples under this heading are meant to be refused.
const REFUSED: &str = "Errors";

/// A block of shell commands and the heading that it stands under.
struct Block {
    heading: String,
    text: String,
}

/// The blocks marked `sh` that call `curl`, and the assignments they need.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut heading) = (Vec::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim().to_owned();
        }
        if line.trim() == "```sh" {
            let text = lines.by_ref().take_while(|line| line.trim() != "```").collect::<Vec<_>>().join("\n");
            blocks.push(Block { heading: heading.clone(), text });
        }
    }
    blocks.retain(|block| block.text.contains("curl"));
    blocks
}

/// One script: before each block its number, after each request its status, both on standard error.
fn script(blocks: &[Block], fill: impl Fn(&str) -> String) -> String {
    let mut script = "curl() { command curl -w '%{stderr}\\n@status %{http_code}\\n' \"$@\"; }\n".to_owned();
    for (number, block) in blocks.iter().enumerate() {
        let _ = writeln!(script, "echo '@block {number}' >&2\n{}", fill(&block.text));
    }
    script
}

/// `file` is relative to the repository.
async fn run_page(file: &str) {
    let page = std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
    let blocks = blocks(&page);
    assert!(!blocks.is_empty(), "{file} shows no curl");
    let world = World::new().await;
    world.upstream.program(|_| Reply::stream().text("Certainly. ").text("Forty-two."));
    let server = Server::start(world.rondo(&["serve"]).env("RONDO_APPS", APPS)).await;
    let (run, thread) = some_run(&server).await;
    let scratch = world.path("").display().to_string();
    let fill = |text: &str| {
        text.replace(DEFAULT_ADDRESS, server.address())
            .replace("run_…", &run)
            .replace("thr_…", &thread)
            .replace("/tmp", &scratch)
    };
    let mut sh = Command::new("sh");
    sh.args(["-eu", "-c", &script(&blocks, fill)]);
    let ended = Process::start(&mut sh).ended().await;
    let mut at = None;
    for line in ended.errors.lines() {
        let block = at.map(|number: usize| &blocks[number]);
        if let Some(number) = line.strip_prefix("@block ") {
            at = Some(number.parse().unwrap());
        } else if let (Some(status), Some(block)) = (line.strip_prefix("@status "), block) {
            let expected = if block.heading == REFUSED { '4' } else { '2' };
            assert!(status.starts_with(expected), "{file} got {status} from:\n{}\n\n{ended:#?}", block.text);
        }
    }
    let last = at.map(|number| blocks[number].text.as_str());
    assert_eq!(ended.code, Some(0), "{file} failed in:\n{}\n\n{ended:#?}", last.unwrap_or_default());
    assert_eq!(at, Some(blocks.len() - 1));
}

/// A run that has ended, for examples that leave its id to the reader.
async fn some_run(server: &Server) -> (String, String) {
    let frames = server.say("Hello").await;
    let ids = (frames.header("x-run-id"), frames.header("x-thread-id"));
    frames.all().await;
    ids
}

#[tokio::test]
async fn every_curl_works() {
    for page in PAGES {
        run_page(page).await;
    }
}

#[test]
fn no_page_is_forgotten() {
    let shown = |folder: &str| {
        let files = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        let pages = files
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "md"));
        pages.filter(|path| !blocks(&std::fs::read_to_string(path).unwrap()).is_empty()).collect::<Vec<_>>()
    };
    let apps = ["apps/companion", "apps/kalito", "apps/studio", "apps/trailhead", "apps/tutor"];
    for page in [".", "docs"].into_iter().chain(apps).flat_map(shown) {
        let own_test = page.ends_with("docs/tutorial.md"); // its files have to be written, too
        let listed = own_test || PAGES.iter().any(|listed| page.ends_with(listed));
        assert!(listed, "{} shows a curl: add it to PAGES", page.display());
    }
}

/// The commands in a page's sentences, such as `rondo serve`; of several that are offered, the first.
fn commands(page: &str) -> Vec<Vec<String>> {
    let text: String = page.split("```").step_by(2).collect();
    let inline = text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("rondo "));
    let first = |word: &str| word.split('|').next().unwrap_or_default().to_owned();
    inline.map(|command| command.split_whitespace().map(first).collect()).collect()
}

/// Asked to explain itself, the program takes the words before that first.
#[tokio::test]
async fn every_command_in_a_sentence_is_one_that_the_program_takes() {
    let world = World::new().await;
    let folders =
        ["", "docs", "apps/companion", "apps/kalito", "apps/studio", "apps/trailhead", "apps/tutor"];
    let pages = folders.iter().flat_map(|folder| std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap());
    let pages =
        pages.map(|page| page.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let texts = pages.map(|page| std::fs::read_to_string(page).unwrap());
    let all: BTreeSet<Vec<String>> = texts.flat_map(|text| commands(&text)).collect();
    assert!(all.len() > 20, "{all:?}");
    for command in all {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let ended = world.run(&words).await;
        assert_eq!(ended.code, Some(0), "a page says `rondo {}`: {ended:?}", command.join(" "));
    }
}

#[tokio::test]
#[should_panic(expected = "got 404 from:\ncurl -s http://127.0.0.1:8787/v1/nowhere")]
async fn a_curl_that_does_not_work_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, "```sh\ncurl -s http://127.0.0.1:8787/v1/nowhere\n```\n").unwrap();
    run_page(page.to_str().unwrap()).await;
}

#[test]
fn blocks_are_found_under_their_headings() {
    let page = "# A\n```sh\ncurl x\n```\n## B c\ntext\n```sh\nls\n```\n```json\ncurl\n```\n```sh\nX=1\ncurl y\n```\n";
    let found: Vec<(String, String)> =
        blocks(page).into_iter().map(|block| (block.heading, block.text)).collect();
    assert_eq!(found, [("A".into(), "curl x".into()), ("B c".into(), "X=1\ncurl y".into())]);
}
