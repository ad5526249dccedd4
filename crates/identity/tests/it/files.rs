//! Keys in a file that an operator replaces.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::{JwksProblem, JwksSource, JwtIssuerConfig, JwtIssuers, TokenRefusal};
use serde_json::json;

use crate::support::{AUDIENCE, ISSUER, MovedClock, TestKey, claims, key_set, unavailable};

/// Writes a version of the file. Each version has a time of its own, on every file system.
fn write(path: &Path, version: u64, text: &str) {
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + version);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn issuers(path: &Path) -> (JwtIssuers, Arc<MovedClock>) {
    let clock = MovedClock::new();
    let config = JwtIssuerConfig::new("shop", ISSUER, AUDIENCE, JwksSource::File(path.to_owned()));
    (JwtIssuers::new(vec![config], clock.clone()).unwrap(), clock)
}

#[tokio::test]
async fn a_changed_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = |key: &TestKey| key.token(&claims(json!({})));
    write(&path, 1, &key_set(&[&old]).to_string());
    let (issuers, clock) = issuers(&path);
    assert!(issuers.verify(&token(&old)).await.is_ok());
    write(&path, 2, &key_set(&[&new]).to_string());
    assert_eq!(issuers.verify(&token(&new)).await, Err(TokenRefusal::UnknownKey));
    assert!(issuers.verify(&token(&old)).await.is_ok());
    clock.advance(1);
    assert!(issuers.verify(&token(&new)).await.is_ok());
    assert_eq!(issuers.verify(&token(&old)).await, Err(TokenRefusal::UnknownKey));
}

#[tokio::test]
async fn a_removed_key_is_noticed_within_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let (old, new) = (TestKey::ed("1"), TestKey::ed("2"));
    let token = old.token(&claims(json!({})));
    write(&path, 1, &key_set(&[&old]).to_string());
    let (issuers, clock) = issuers(&path);
    assert!(issuers.verify(&token).await.is_ok());
    write(&path, 2, &key_set(&[&new]).to_string());
    clock.advance(59);
    assert!(issuers.verify(&token).await.is_ok());
    clock.advance(1);
    assert_eq!(issuers.verify(&token).await, Err(TokenRefusal::UnknownKey));
}

#[tokio::test]
async fn a_broken_or_missing_file_keeps_the_last_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let key = TestKey::ed("1");
    let unknown = TestKey::ed("2").token(&claims(json!({})));
    let token = key.token(&claims(json!({})));
    let (issuers, clock) = issuers(&path);
    assert_eq!(issuers.verify(&token).await, Err(unavailable()));
    assert_eq!(issuers.key_problem("shop"), Some(JwksProblem::File(std::io::ErrorKind::NotFound)));
    clock.advance(1);
    write(&path, 1, &key_set(&[&key]).to_string());
    assert!(issuers.verify(&token).await.is_ok());
    for (version, text) in [(2, "{".to_owned()), (3, " ".repeat(1 << 20))] {
        write(&path, version, &text);
        clock.advance(1);
        assert_eq!(issuers.verify(&unknown).await, Err(TokenRefusal::UnknownKey));
        assert!(issuers.key_problem("shop").is_some());
        assert!(issuers.verify(&token).await.is_ok());
    }
    assert_eq!(issuers.key_problem("shop"), Some(JwksProblem::TooLarge));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    clock.advance(1);
    assert_eq!(issuers.verify(&unknown).await, Err(TokenRefusal::UnknownKey));
    assert_eq!(issuers.key_problem("shop"), Some(JwksProblem::File(std::io::ErrorKind::InvalidInput)));
    assert!(issuers.verify(&token).await.is_ok());
}
