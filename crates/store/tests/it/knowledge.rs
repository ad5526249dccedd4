//! Documents of apps: of no user, read by all users of their app, and each in the place of the one with its name.

use protocol::{AppId, ChunkId, ContextLoaded, DocumentId, Event, Ids, Scope};
use store::rules::knowledge::MAX_KNOWLEDGE_TEXT_BYTES;
use store::{DocumentRow, Error, NewChunk, NewDocument, NewText, PageOf, RecallItem, Write, source};

use crate::support::{Fixture, after, principal, scope};

const HASH: [u8; 16] = [7; 16];

fn app() -> AppId {
    scope("alice").app
}

fn new(fixture: &Fixture, name: &str, text: &str) -> NewDocument {
    let chunk =
        NewChunk { id: fixture.ids.chunk(), text: text.into(), place: "part 1".into(), suspicious: false };
    NewDocument {
        quota: u64::MAX,
        id: fixture.ids.document(),
        name: name.into(),
        title: None,
        kind: "text",
        bytes: 9,
        pages: None,
        chunks: vec![chunk],
    }
}

async fn put(fixture: &Fixture, name: &str, hash: u8, text: &str) -> DocumentRow {
    fixture.store.put_knowledge(&app(), [hash; 32], new(fixture, name, text)).await.unwrap()
}

async fn listed(fixture: &Fixture, app: &AppId) -> Vec<(String, u8)> {
    let page = PageOf { after: None, limit: 100 };
    let rows = fixture.store.knowledge(app, page).await.unwrap().rows;
    rows.into_iter().map(|row| (row.document.name, row.hash[0])).collect()
}

/// The texts that recall has of the app's own scope.
async fn recalled(fixture: &Fixture) -> Vec<String> {
    let of_app = Scope::of_app(app());
    let mut held: Vec<(ChunkId, DocumentId, String)> = Vec::new();
    for row in fixture.store.recall_changes(&of_app, 0, None, 100).await.unwrap() {
        if let RecallItem::DocumentGone(gone) = row.what {
            held.retain(|(_, document, _)| *document != gone);
        } else if let RecallItem::Chunk(chunk, _) = row.what {
            held.push((chunk.id, chunk.document, chunk.text));
        }
    }
    held.into_iter().map(|(_, _, text)| text).collect()
}

fn count(fixture: &Fixture, of: &str) -> i64 {
    fixture.database().query_row(&format!("SELECT count(*) FROM {of}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_document_takes_the_place_of_the_one_with_its_name_and_is_read_by_every_user() {
    let fixture = Fixture::new();
    let first = put(&fixture, "prices.csv", 1, "ten").await;
    put(&fixture, "about.md", 1, "about us").await;
    assert_eq!(first.scope, Scope::of_app(app()));
    let second = put(&fixture, "prices.csv", 2, "twelve").await;
    assert_eq!(listed(&fixture, &app()).await, [("about.md".to_owned(), 1), ("prices.csv".to_owned(), 2)]);
    assert_eq!(recalled(&fixture).await, ["about us", "twelve"]);
    for user in ["alice", "bob"] {
        assert_eq!(fixture.store.document(&principal(user), second.id).await.unwrap(), second);
        let chunks = fixture.store.chunks(&scope(user), second.id, 0, 10).await.unwrap();
        assert_eq!(chunks[0].text, "twelve");
        let gone = fixture.store.document(&principal(user), first.id).await;
        assert!(matches!(gone, Err(Error::NotFound("document"))), "{gone:?}");
        let refused = fixture.store.delete_document(&principal(user), second.id, None).await;
        assert!(matches!(refused, Err(Error::NotFound("document"))), "{refused:?}");
        let own = fixture.store.documents(&scope(user), PageOf { after: None, limit: 10 }).await.unwrap();
        assert!(own.rows.is_empty(), "they are no user's own");
    }
    let elsewhere = Scope { app: AppId::new("other"), ..scope("alice") };
    assert!(fixture.store.chunks(&elsewhere, second.id, 0, 10).await.unwrap().is_empty());
    assert_eq!(listed(&fixture, &elsewhere.app).await, []);
    fixture.store.delete_knowledge(&elsewhere.app, second.id).await.unwrap();
    assert_eq!(listed(&fixture, &app()).await.len(), 2, "another app's are left alone");
    for _ in 0..2 {
        fixture.store.delete_knowledge(&app(), second.id).await.unwrap();
    }
    assert_eq!(recalled(&fixture).await, ["about us"]);
    while fixture.store.purge(after(10), after(0)).await.unwrap() {}
    assert_eq!((count(&fixture, "documents"), count(&fixture, "chunks")), (1, 1));
}

#[tokio::test]
async fn lists_come_in_pages_by_name() {
    let fixture = Fixture::new();
    for name in ["c", "a", "b"] {
        put(&fixture, name, 1, name).await;
    }
    let page = async |after: Option<u64>| {
        let page = fixture.store.knowledge(&app(), PageOf { after, limit: 2 }).await.unwrap();
        (page.rows.into_iter().map(|row| row.document.name).collect::<Vec<_>>(), page.more)
    };
    assert_eq!(page(None).await, (vec!["a".to_owned(), "b".to_owned()], true));
    assert_eq!(page(Some(2)).await, (vec!["c".to_owned()], false));
}

#[tokio::test]
async fn what_a_process_left_half_added_is_discarded() {
    let fixture = Fixture::new();
    put(&fixture, "kept.md", 1, "kept").await;
    let half = "INSERT INTO documents (id, app, user, name, kind, bytes, text_bytes, chunks, suspicious, status, created_at)
        SELECT randomblob(16), app, ?1, 'half.md', kind, 1, ?2, 0, 0, 'adding', created_at FROM documents WHERE name = 'kept.md'";
    let large = MAX_KNOWLEDGE_TEXT_BYTES as i64;
    for user in ["", "alice"] {
        fixture.database().execute(half, rusqlite::params![user, large]).unwrap();
    }
    fixture.store.discard_unfinished_knowledge(&app()).await.unwrap();
    assert_eq!(count(&fixture, "documents WHERE deleted_at IS NOT NULL AND user = ''"), 1);
    assert_eq!(
        count(&fixture, "documents WHERE status = 'adding' AND deleted_at IS NULL"),
        1,
        "a user's upload"
    );
    assert_eq!(listed(&fixture, &app()).await, [("kept.md".to_owned(), 1)]);
}

#[tokio::test]
async fn there_is_room_for_so_much_text_and_a_new_version_does_not_count_twice() {
    let fixture = Fixture::new();
    put(&fixture, "a.md", 1, "a").await;
    let fill = "UPDATE documents SET text_bytes = ?1 WHERE name = 'a.md'";
    fixture.database().execute(fill, [MAX_KNOWLEDGE_TEXT_BYTES as i64]).unwrap();
    let refused = fixture.store.put_knowledge(&app(), [1; 32], new(&fixture, "b.md", "b")).await;
    assert!(
        matches!(&refused, Err(Error::Changed(message)) if message.contains("bytes of text")),
        "{refused:?}"
    );
    assert_eq!(count(&fixture, "documents"), 1, "nothing is stored of it");
    put(&fixture, "a.md", 2, "b").await;
    put(&fixture, "b.md", 1, "b").await;
}

#[tokio::test]
async fn texts_of_prompts_are_kept_once_for_all_users_and_go_with_the_document() {
    let fixture = Fixture::new();
    let document = put(&fixture, "a.md", 1, "shared words").await;
    let of_document = source::of_knowledge(document.id);
    let text = |source: &str| NewText { source: source.into(), hash: HASH, text: "shared words".into() };
    let (_, log) = fixture.run().await;
    let absent = source::of_knowledge(fixture.ids.document());
    let kept = vec![text(&of_document), text(&absent)].into_iter().map(Write::Keep).collect();
    let loaded = Event::ContextLoaded(ContextLoaded::default());
    log.record(vec![loaded], vec![], kept).await.unwrap();
    assert_eq!(count(&fixture, "texts WHERE user = ''"), 1, "of what is there");
    let named = [(of_document.clone(), HASH)];
    for user in ["alice", "bob"] {
        let found = fixture.store.texts(&scope(user), &named).await.unwrap();
        assert_eq!(found, [Some("shared words".to_owned())]);
    }
    fixture.store.delete_knowledge(&app(), document.id).await.unwrap();
    assert_eq!(fixture.store.texts(&scope("alice"), &named).await.unwrap(), [None]);
    assert_eq!(count(&fixture, "texts"), 0);
}
