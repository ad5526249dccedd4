//! Documents whose adding is cut: nothing is seen of a half, and all of a whole.

use std::sync::Arc;
use std::time::Duration;

use protocol::{ChunkId, DocumentId};
use rusqlite::Connection;
use store::{Error, MAX_CHUNK_BYTES};

use super::{Reader, add, count, listed, new, purge};
use crate::support::{Fixture, Published, after, once, open, principal, scope};

const HOUR: i64 = 60 * 60;

fn id(number: u128) -> DocumentId {
    DocumentId::new(uuid::Uuid::from_u128(number))
}

/// Leaves a document of three pieces as a process does that dies before the last part.
fn leave_half(database: &Connection, document: DocumentId) {
    database
        .execute(
            "INSERT INTO documents (id, app, user, name, kind, bytes, text_bytes, chunks, suspicious, status, created_at)
                VALUES (?1, 'app', 'alice', 'half', 'text', 9, 9, 3, 0, 'adding', ?2)",
            rusqlite::params![document.bytes(), after(0).as_millisecond()],
        )
        .unwrap();
    for number in 0..2u8 {
        leave_piece(database, document, number);
    }
}

fn leave_piece(database: &Connection, document: DocumentId, number: u8) {
    database
        .execute(
            "INSERT INTO chunks (id, document, number, text, place, suspicious) VALUES (randomblob(16), ?1, ?2, 'x', '', 0)",
            rusqlite::params![document.bytes(), number],
        )
        .unwrap();
}

#[tokio::test]
async fn nobody_sees_a_half_and_it_is_purged_after_an_hour() {
    let fixture = Fixture::new();
    let (alice, half) = (scope("alice"), id(1));
    leave_half(&fixture.database(), half);
    assert!(listed(&fixture, &alice).await.is_empty());
    assert!(matches!(fixture.store.document(&principal("alice"), half).await, Err(Error::NotFound(_))));
    assert_eq!(fixture.store.chunks(&alice, half, 0, 9).await.unwrap(), []);
    let deleted = fixture.store.delete_document(&principal("alice"), half, None).await;
    assert!(matches!(deleted, Err(Error::NotFound("document"))));
    purge(&fixture, HOUR - 1).await;
    assert_eq!(count(&fixture, "chunks"), 2, "it may be under way");
    purge(&fixture, HOUR).await;
    assert_eq!((count(&fixture, "documents"), count(&fixture, "chunks")), (0, 0));
    assert_eq!(fixture.store.recall_head(&alice).await.unwrap(), 0);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_left_half() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let document = new(&fixture, "dropped", 900);
    let adding = fixture.store.add_document(&alice, document, once("k", 1));
    let cut = tokio::time::timeout(Duration::ZERO, adding).await;
    assert!(cut.is_err());
    // The next write comes after all that was begun.
    assert!(!fixture.store.purge(after(0), after(0)).await.unwrap());
    assert!(listed(&fixture, &alice).await.is_empty());
    assert_eq!(count(&fixture, "documents"), 1);
    let again = fixture.store.add_document(&alice, new(&fixture, "again", 900), once("k", 1)).await.unwrap();
    purge(&fixture, HOUR).await;
    assert_eq!(listed(&fixture, &alice).await, ["again"]);
    assert_eq!((count(&fixture, "documents"), count(&fixture, "chunks")), (1, i64::from(again.chunks)));
}

#[tokio::test]
async fn a_document_that_recall_was_told_of_in_part_is_told_of_in_full() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let whole = add(&fixture, &alice, "whole", 3).await;
    let cut = add(&fixture, &alice, "cut", 450).await;
    let database = fixture.database();
    let forget =
        "DELETE FROM items WHERE id IN (SELECT id FROM chunks WHERE document = ?1 AND number >= 200)";
    database.execute(forget, [cut.id.bytes()]).unwrap();
    database.execute("UPDATE documents SET listed = 200 WHERE id = ?1", [cut.id.bytes()]).unwrap();
    let late = id(7);
    leave_half(&database, late);
    leave_piece(&database, late, 2);
    database.execute("UPDATE documents SET status = 'ready' WHERE id = ?1", [late.bytes()]).unwrap();
    let mut reader = Reader::default();
    reader.read(&fixture).await;
    assert_eq!((reader.of(whole.id), reader.of(cut.id), reader.of(late)), (3, 200, 0));
    let (published, Fixture { store, folder, ids, .. }) = (Arc::new(Published::default()), fixture);
    drop(store);
    let store = open(folder.path(), published.clone()).unwrap();
    let fixture = Fixture { store, published, ids, folder };
    purge(&fixture, 0).await;
    reader.read(&fixture).await;
    assert_eq!((reader.of(whole.id), reader.of(cut.id), reader.of(late)), (3, 450, 3));
    assert_eq!(count(&fixture, "items"), 456, "each once");
}

#[tokio::test]
async fn two_who_add_the_same_under_one_key_get_one() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let add = || fixture.store.add_document(&alice, new(&fixture, "same", 300), once("k", 1));
    let (one, two) = tokio::join!(add(), add());
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(listed(&fixture, &alice).await, ["same"]);
    let mut reader = Reader::default();
    reader.read(&fixture).await;
    assert_eq!(reader.pieces.len(), 300);
    purge(&fixture, 0).await;
    assert_eq!((count(&fixture, "documents"), count(&fixture, "chunks")), (1, 300));
}

#[tokio::test]
async fn a_document_of_many_parts_keeps_its_order() {
    let fixture = Fixture::new();
    let mut document = new(&fixture, "long", 450);
    for piece in &mut document.chunks[100..300] {
        piece.text = "y".repeat(MAX_CHUNK_BYTES);
    }
    let expected: Vec<ChunkId> = document.chunks.iter().map(|piece| piece.id).collect();
    let added = fixture.store.add_document(&scope("alice"), document, None).await.unwrap();
    let pieces = fixture.store.chunks(&scope("alice"), added.id, 0, 450).await.unwrap();
    assert_eq!(pieces.iter().map(|piece| piece.id).collect::<Vec<_>>(), expected);
    assert!((0..).zip(&pieces).all(|(number, piece)| piece.number == number));
    let rows = fixture.store.recall_changes(&scope("alice"), 0, None, 450).await.unwrap();
    assert_eq!(rows.len(), 450, "each is told once");
}

#[tokio::test]
async fn the_database_holds_documents_to_their_order() {
    let fixture = Fixture::new();
    let ready = add(&fixture, &scope("alice"), "ready", 1).await;
    let database = fixture.database();
    leave_half(&database, id(9));
    let refused = |sql: &str, words: &str| {
        let error = database.execute(sql, []).expect_err(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    };
    let all = "all of its pieces";
    refused("UPDATE documents SET status = 'ready' WHERE status = 'adding'", all);
    refused("UPDATE documents SET status = 'adding' WHERE status = 'ready'", "becomes ready once");
    refused("UPDATE documents SET user = 'mallory'", "stays in its scope");
    refused("UPDATE documents SET listed = chunks + 1", "CHECK");
    refused("DELETE FROM chunks", "go with their document");
    refused("UPDATE chunks SET text = 'y'", "do not change");
    refused(
        "INSERT INTO chunks (id, document, number, text, place, suspicious)
            SELECT randomblob(16), id, 7, 'x', '', 0 FROM documents WHERE status = 'ready'",
        "before a document is ready",
    );
    refused("DELETE FROM documents WHERE status = 'ready'", "FOREIGN KEY");
    database.execute("UPDATE documents SET deleted_at = 1 WHERE status = 'adding'", []).unwrap();
    refused(
        "UPDATE documents SET status = 'ready', chunks = 2 WHERE status = 'adding'",
        "not after its deletion",
    );
    assert_eq!(fixture.store.chunks(&scope("alice"), ready.id, 0, 9).await.unwrap().len(), 1);
}
