//! Files: a scope's own Markdown by path, with a version that only grows.

use protocol::{AppId, Scope};
use store::{Error, FileRow, MAX_FILE_BYTES, MAX_FILES_PER_SCOPE, MAX_PATH_BYTES, Write};

use crate::support::{Fixture, after, once, scope};

fn put<'a>(path: &str, content: impl Into<Option<&'a str>>, expected: u64) -> Write {
    Write::File { path: path.into(), content: content.into().map(str::to_owned), expected }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let Err(Error::Changed(words)) = result else { panic!("not refused: {result:?}") };
    words
}

#[tokio::test]
async fn e4_a_file_keeps_its_version_through_changes_and_deletion() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    assert_eq!(store.file_version(&alice, "a.md").await.unwrap(), 0);
    let row = FileRow { path: "a.md".into(), version: 1, content: "# A".into(), updated_at: after(0) };
    assert_eq!(store.put_file(&alice, put("a.md", "# A", 0), None).await.unwrap(), Some(row.clone()));
    assert_eq!(store.file(&alice, "a.md").await.unwrap(), row);
    for (wrong, words) in [
        (0, "there is a file a.md already; its version is 1"),
        (2, "the file a.md has changed meanwhile; its version is 1"),
    ] {
        assert_eq!(refusal(store.put_file(&alice, put("a.md", "no", wrong), None).await), words);
    }
    assert_eq!(store.put_file(&alice, put("a.md", "", 1), None).await.unwrap().unwrap().content, "");
    assert_eq!(store.put_file(&alice, put("a.md", None, 2), None).await.unwrap(), None);
    assert!(matches!(store.file(&alice, "a.md").await, Err(Error::NotFound("file"))));
    assert_eq!(store.file_version(&alice, "a.md").await.unwrap(), 3);
    for nothing in [put("a.md", None, 3), put("b.md", None, 0), put("a.md", "x", 0)] {
        refusal(store.put_file(&alice, nothing, None).await);
    }
    assert_eq!(store.put_file(&alice, put("a.md", "new", 3), None).await.unwrap().unwrap().version, 4);
}

#[tokio::test]
async fn m1_files_are_a_scopes_own_and_listed_by_path() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    for path in ["b.md", "a.md", "a/c.md"] {
        store.put_file(&alice, put(path, path, 0), None).await.unwrap();
    }
    store.put_file(&alice, put("b.md", None, 1), None).await.unwrap();
    let paths: Vec<String> = store.files(&alice).await.unwrap().into_iter().map(|row| row.path).collect();
    assert_eq!(paths, ["a.md", "a/c.md"]);
    let elsewhere = Scope { app: AppId::new("other"), ..alice.clone() };
    for other in [scope("bob"), elsewhere] {
        assert_eq!(store.files(&other).await.unwrap(), []);
        assert!(matches!(store.file(&other, "a.md").await, Err(Error::NotFound("file"))));
        assert_eq!(store.file_version(&other, "a.md").await.unwrap(), 0);
        store.put_file(&other, put("a.md", "theirs", 0), None).await.unwrap();
    }
    assert_eq!(store.file(&alice, "a.md").await.unwrap().content, "a.md");
}

#[tokio::test]
async fn a_file_is_so_long_its_path_too_and_a_scope_has_so_many() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    let longest = "x".repeat(MAX_FILE_BYTES);
    let path = "p".repeat(MAX_PATH_BYTES);
    store.put_file(&alice, put(&path, longest.as_str(), 0), None).await.unwrap();
    for refused in
        [put("a", format!("{longest}x").as_str(), 0), put(&format!("{path}p"), "", 0), put("", "", 0)]
    {
        refusal(store.put_file(&alice, refused, None).await);
    }
    fixture
        .database()
        .execute(
            "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO files (app, user, path, version, state, content, updated_at)
                 SELECT 'app', 'alice', 'f' || i, 1, 1, '', 0 FROM n",
            [MAX_FILES_PER_SCOPE as i64],
        )
        .unwrap();
    assert!(refusal(store.put_file(&alice, put("a", "", 0), None).await).contains("1000 files"));
    store.put_file(&alice, put("f2", "changed", 1), None).await.expect("changing makes no new one");
    store.put_file(&alice, put("f2", None, 2), None).await.unwrap();
    store.put_file(&alice, put("a", "", 0), None).await.expect("a deleted one makes room");
}

#[tokio::test]
async fn q3_under_a_key_a_file_is_put_once() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    let made = store.put_file(&alice, put("a.md", "x", 0), once("a", 1)).await.unwrap();
    assert_eq!(store.put_file(&alice, put("a.md", "x", 0), once("a", 1)).await.unwrap(), made);
    let other = store.put_file(&alice, put("a.md", "y", 1), once("a", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
}
