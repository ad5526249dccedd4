//! Documents: seen whole or not at all, also if a step is interrupted, and gone with all that was made of them.

mod parts;

use std::collections::BTreeMap;

use protocol::{AppId, ChunkId, ContextLoaded, DocumentId, Event, Ids, Scope};
use store::{
    ChunkRow, DocumentRow, Error, ItemRef, MAX_CHUNK_BYTES, MAX_CHUNKS_PER_DOCUMENT, MAX_CHUNKS_PER_READ,
    MAX_DOCUMENTS_PER_SCOPE, NewChunk, NewDocument, NewText, NewVector, PackedVector, PageOf, RecallItem,
    TimeCursor, Write,
};

use crate::support::{Fixture, Forward, after, once, principal, scope};

const MODEL: &str = "small";

fn elsewhere() -> Scope {
    Scope { app: AppId::new("other"), ..scope("alice") }
}

/// A document of `pieces` short pieces, the third of which is suspicious.
fn new(fixture: &Fixture, name: &str, pieces: usize) -> NewDocument {
    let piece = |number: usize| NewChunk {
        id: fixture.ids.chunk(),
        text: format!("{name} {number}"),
        place: format!("page {}", number + 1),
        suspicious: number == 2,
    };
    NewDocument {
        quota: 1 << 30,
        id: fixture.ids.document(),
        name: name.into(),
        title: Some("A title".into()),
        kind: "pdf",
        bytes: 9,
        pages: Some(3),
        chunks: (0..pieces).map(piece).collect(),
    }
}

async fn add(fixture: &Fixture, scope: &Scope, name: &str, pieces: usize) -> DocumentRow {
    fixture.store.add_document(scope, new(fixture, name, pieces), None).await.unwrap()
}

async fn listed(fixture: &Fixture, scope: &Scope) -> Vec<String> {
    let page = PageOf { after: None, limit: 100 };
    let rows = fixture.store.documents(scope, page).await.unwrap().rows;
    rows.into_iter().map(|row| row.name).collect()
}

fn count(fixture: &Fixture, of: &str) -> i64 {
    fixture.database().query_row(&format!("SELECT count(*) FROM {of}"), [], |row| row.get(0)).unwrap()
}

async fn purge(fixture: &Fixture, seconds: i64) {
    while fixture.store.purge(after(seconds), after(0)).await.unwrap() {}
}

/// The pieces that a reader holds who has read every change.
#[derive(Default)]
struct Reader {
    rev: u64,
    pieces: BTreeMap<ChunkId, (ChunkRow, Option<u8>)>,
}

impl Reader {
    async fn read(&mut self, fixture: &Fixture) {
        loop {
            let rows =
                fixture.store.recall_changes(&scope("alice"), self.rev, Some(MODEL), 100).await.unwrap();
            let Some(last) = rows.last() else { break };
            self.rev = last.rev;
            for row in rows {
                match row.what {
                    RecallItem::Chunk(row, vector) => {
                        self.pieces.insert(row.id, (row, vector.map(|vector| vector.hash[0])));
                    }
                    RecallItem::DocumentGone(id) => self.pieces.retain(|_, (row, _)| row.document != id),
                    RecallItem::Gone(ItemRef::Chunk(id)) => drop(self.pieces.remove(&id)),
                    what @ (RecallItem::Memory(..)
                    | RecallItem::Message(..)
                    | RecallItem::ThreadGone(_)
                    | RecallItem::Tombstones
                    | RecallItem::Gone(_)) => panic!("{what:?}"),
                }
            }
        }
        assert_eq!(fixture.store.recall_head(&scope("alice")).await.unwrap(), self.rev);
    }

    fn of(&self, document: DocumentId) -> usize {
        self.pieces.values().filter(|(row, _)| row.document == document).count()
    }
}

fn vector(id: ChunkId, byte: u8) -> NewVector {
    NewVector {
        item: ItemRef::Chunk(id),
        hash: [byte; 16],
        vector: PackedVector::pack(&[f32::from(byte), 1.0]),
    }
}

#[tokio::test]
async fn a_document_reads_back_as_it_was_added() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let document = new(&fixture, "notes", 3);
    let added = fixture.store.add_document(&alice, document.clone(), None).await.unwrap();
    let expected = DocumentRow {
        id: document.id,
        scope: alice.clone(),
        name: "notes".into(),
        title: Some("A title".into()),
        kind: "pdf".into(),
        bytes: 9,
        text_bytes: 21,
        pages: Some(3),
        chunks: 3,
        suspicious: 1,
        created_at: after(0),
    };
    assert_eq!(added, expected);
    assert_eq!(fixture.store.document(&principal("alice"), document.id).await.unwrap(), expected);
    let pieces = fixture.store.chunks(&alice, document.id, 0, 9).await.unwrap();
    let expected: Vec<_> = (0..)
        .zip(document.chunks)
        .map(|(number, NewChunk { id, text, place, suspicious })| ChunkRow {
            id,
            document: document.id,
            name: "notes".into(),
            number,
            text,
            place,
            suspicious,
            at: after(0),
        })
        .collect();
    assert_eq!(pieces, expected);
    let mut reader = Reader::default();
    reader.read(&fixture).await;
    let told: Vec<_> = reader.pieces.into_values().map(|(row, _)| row).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn documents_are_listed_newest_first_and_pieces_from_a_number_on() {
    let clock = std::sync::Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    add(&fixture, &alice, "one", 1).await;
    clock.to(1);
    let two = add(&fixture, &alice, "two", MAX_CHUNKS_PER_READ + 1).await;
    clock.to(2);
    add(&fixture, &alice, "three", 0).await;
    assert_eq!(listed(&fixture, &alice).await, ["three", "two", "one"]);
    let cursor = TimeCursor { at: two.created_at, id: two.id };
    let rest = fixture.store.documents(&alice, PageOf { after: Some(cursor), limit: 9 }).await.unwrap().rows;
    assert_eq!(rest.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["one"]);
    let numbers = async |from, limit| -> Vec<u32> {
        let pieces = fixture.store.chunks(&alice, two.id, from, limit).await.unwrap();
        pieces.into_iter().map(|piece| piece.number).collect()
    };
    assert_eq!(numbers(3, 2).await, [3, 4]);
    assert_eq!(numbers(0, usize::MAX).await.len(), MAX_CHUNKS_PER_READ);
    assert_eq!(numbers(500, 9).await, [500]);
    assert!(numbers(501, 9).await.is_empty() && numbers(u32::MAX, 9).await.is_empty());
}

#[tokio::test]
async fn a_document_is_nobody_elses() {
    let fixture = Fixture::new();
    let hers = add(&fixture, &scope("alice"), "hers", 2).await;
    let piece = fixture.store.chunks(&scope("alice"), hers.id, 0, 1).await.unwrap().remove(0);
    for stranger in [scope("mallory"), elsewhere()] {
        assert!(listed(&fixture, &stranger).await.is_empty());
        assert_eq!(fixture.store.chunks(&stranger, hers.id, 0, 9).await.unwrap(), []);
        assert_eq!(fixture.store.recall_changes(&stranger, 0, None, 9).await.unwrap(), []);
        fixture.store.put_vectors(&stranger, MODEL, vec![vector(piece.id, 1)]).await.unwrap();
    }
    let mallory = principal("mallory");
    assert!(matches!(fixture.store.document(&mallory, hers.id).await, Err(Error::NotFound("document"))));
    let deleted = fixture.store.delete_document(&mallory, hers.id, None).await;
    assert!(matches!(deleted, Err(Error::NotFound("document"))));
    assert_eq!((count(&fixture, "vectors"), listed(&fixture, &scope("alice")).await.len()), (0, 1));
}

#[tokio::test]
async fn a_document_is_added_once_under_a_key() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let key = once("k", 1).unwrap();
    assert_eq!(fixture.store.document_made(&alice, &key).await.unwrap(), None);
    let added = fixture.store.add_document(&alice, new(&fixture, "one", 2), once("k", 1)).await.unwrap();
    let again = fixture.store.add_document(&alice, new(&fixture, "one", 2), once("k", 1)).await.unwrap();
    assert_eq!(again, added);
    assert_eq!(fixture.store.document_made(&alice, &key).await.unwrap(), Some(added.clone()));
    assert_eq!(fixture.store.document_made(&scope("bob"), &key).await.unwrap(), None);
    assert_eq!((listed(&fixture, &alice).await.len(), count(&fixture, "chunks")), (1, 2));
    let other = fixture.store.add_document(&alice, new(&fixture, "two", 2), once("k", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    let other = fixture.store.document_made(&alice, &once("k", 2).unwrap()).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    let reused = fixture.store.delete_document(&her, added.id, once("k", 3)).await;
    assert!(matches!(reused, Err(Error::KeyReused)));
    for _ in 0..2 {
        fixture.store.delete_document(&her, added.id, once("gone", 1)).await.unwrap();
    }
    let gone = fixture.store.delete_document(&her, added.id, None).await;
    assert!(matches!(gone, Err(Error::NotFound("document"))));
    let gone = fixture.store.add_document(&alice, new(&fixture, "one", 2), once("k", 1)).await;
    assert!(matches!(gone, Err(Error::NotFound("document"))));
}

#[tokio::test]
async fn pieces_and_documents_are_bounded() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    for (bytes, good) in [(0, false), (1, true), (MAX_CHUNK_BYTES, true), (MAX_CHUNK_BYTES + 1, false)] {
        let mut document = new(&fixture, "long", 2);
        document.chunks[1].text = "x".repeat(bytes);
        let added = fixture.store.add_document(&alice, document, None).await;
        assert_eq!(added.is_ok(), good, "{bytes} bytes");
        assert!(good || matches!(added, Err(Error::Changed(_))));
    }
    let many =
        fixture.store.add_document(&alice, new(&fixture, "many", MAX_CHUNKS_PER_DOCUMENT + 1), None).await;
    assert!(matches!(many, Err(Error::Changed(_))));
    assert_eq!(count(&fixture, "documents"), 2, "nothing was begun");
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_DOCUMENTS_PER_SCOPE})
         INSERT INTO documents (id, app, user, name, kind, bytes, text_bytes, chunks, suspicious, status, created_at)
             SELECT randomblob(16), 'app', 'alice', 'x', 'text', 0, 0, 0, 0, 'adding', 0 FROM n"
    );
    fixture.database().execute(&fill, []).unwrap();
    let full = fixture.store.add_document(&alice, new(&fixture, "x", 1), None).await;
    let Err(Error::Changed(words)) = full else { panic!("there was room") };
    assert_eq!(words, "there are already 1000 documents; delete some first");
    add(&fixture, &elsewhere(), "x", 1).await;
    let newest =
        fixture.store.documents(&alice, PageOf { after: None, limit: 1 }).await.unwrap().rows.remove(0);
    fixture.store.delete_document(&principal("alice"), newest.id, None).await.unwrap();
    add(&fixture, &alice, "x", 1).await;
}

#[tokio::test]
async fn pieces_have_vectors_until_they_are_deleted() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let added = add(&fixture, &alice, "one", 3).await;
    let wanting = async || fixture.store.scopes_to_embed(MODEL, None, 9).await.unwrap().len();
    let embedded = async || fixture.store.document_embedded(added.id, MODEL).await.unwrap();
    let pieces = fixture.store.chunks(&alice, added.id, 0, 9).await.unwrap();
    assert_eq!((wanting().await, embedded().await), (1, 0));
    let vectors = |pieces: &[ChunkRow]| pieces.iter().map(|piece| vector(piece.id, 7)).collect();
    fixture.store.put_vectors(&alice, MODEL, vectors(&pieces[..2])).await.unwrap();
    fixture.store.put_vectors(&alice, "large", vectors(&pieces)).await.unwrap();
    assert_eq!((wanting().await, embedded().await), (1, 2));
    let mut reader = Reader::default();
    reader.read(&fixture).await;
    let held: Vec<_> = pieces.iter().map(|piece| reader.pieces[&piece.id].1).collect();
    assert_eq!(held, [Some(7), Some(7), None]);
    fixture.store.put_vectors(&alice, MODEL, vectors(&pieces[2..])).await.unwrap();
    assert_eq!((wanting().await, embedded().await), (0, 3));
    fixture.store.delete_document(&principal("alice"), added.id, None).await.unwrap();
    let head = fixture.store.recall_head(&alice).await.unwrap();
    fixture.store.put_vectors(&alice, MODEL, vectors(&pieces)).await.unwrap();
    assert_eq!(fixture.store.recall_head(&alice).await.unwrap(), head, "a deleted one gets none");
    assert!(fixture.store.scopes_to_embed("third", None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_deleted_document_is_hidden_at_once_and_purged_with_all_that_was_made_of_it() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let (gone, kept) = (add(&fixture, &alice, "gone", 450).await, add(&fixture, &alice, "kept", 3).await);
    let pieces = fixture.store.chunks(&alice, gone.id, 0, 450).await.unwrap();
    let vectors = pieces.iter().map(|piece| vector(piece.id, 1)).collect();
    fixture.store.put_vectors(&alice, MODEL, vectors).await.unwrap();
    let (_, log) = fixture.run().await;
    let named = |id: DocumentId| (id.to_string(), [1; 16]);
    let text = |id: DocumentId| NewText { source: id.to_string(), hash: [1; 16], text: "x".into() };
    let loaded = || Event::ContextLoaded(ContextLoaded::default());
    let keep = |id| log.record(vec![loaded()], vec![], vec![Write::Keep(text(id))]);
    keep(gone.id).await.unwrap();
    keep(kept.id).await.unwrap();
    fixture.store.delete_document(&her, gone.id, None).await.unwrap();
    keep(gone.id).await.unwrap();
    let texts = fixture.store.texts(&alice, &[named(gone.id), named(kept.id)]).await.unwrap();
    assert_eq!(texts, [None, Some("x".into())], "nor does a run that began before bring it back");
    assert_eq!(listed(&fixture, &alice).await, ["kept"]);
    assert!(matches!(fixture.store.document(&her, gone.id).await, Err(Error::NotFound("document"))));
    assert_eq!(fixture.store.chunks(&alice, gone.id, 0, 9).await.unwrap(), []);
    assert_eq!(count(&fixture, "chunks"), 453);
    let head = fixture.store.recall_head(&alice).await.unwrap();
    purge(&fixture, -1).await;
    assert_eq!(count(&fixture, "chunks"), 453, "not before its time");
    purge(&fixture, 0).await;
    let left =
        ["documents", "chunks", "vectors", "items WHERE kind = 'chunk'", "items WHERE kind = 'document'"];
    assert_eq!(left.map(|of| count(&fixture, of)), [1, 3, 0, 3, 1]);
    assert_eq!(fixture.store.recall_head(&alice).await.unwrap(), head, "the newest change never goes back");
    assert_eq!(fixture.store.chunks(&alice, kept.id, 0, 9).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_reader_who_goes_on_and_one_who_starts_anew_hold_the_same_pieces() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let mut along = Reader::default();
    let (one, two) = (add(&fixture, &alice, "one", 250).await, add(&fixture, &alice, "two", 5).await);
    along.read(&fixture).await;
    assert_eq!((along.of(one.id), along.of(two.id)), (250, 5));
    fixture.store.delete_document(&her, one.id, None).await.unwrap();
    for purged in [false, true] {
        if purged {
            purge(&fixture, 0).await;
        }
        along.read(&fixture).await;
        let mut anew = Reader::default();
        anew.read(&fixture).await;
        assert_eq!((along.of(one.id), along.of(two.id)), (0, 5));
        assert_eq!((&anew.pieces, anew.rev), (&along.pieces, along.rev));
    }
}
