//! Changes by users to their memories: each change is a version, forgetting covers the words, and all can be undone.

use std::sync::Arc;

use protocol::{Event, Ids, MemoryId, MemoryVersionView, MessageId, RunStatus, ThreadId};
use store::{
    AppliedChange, Error, MAX_SOURCES_PER_MEMORY, MemoryEdit, MemoryOrigin, MemoryRow, MemoryStatus,
    MemoryVersionReason, NewMemoryRow, PageOf, SnapshotLine, TombstoneRow, Write,
};

use super::{add, listed, new, texts};
use crate::actions::{act, action, refusal, run_with_calls};
use crate::support::{Fixture, Forward, after, end, once, principal, scope, step_end};

/// A snapshot of one line, which nothing takes away.
fn line(text: &str) -> Vec<SnapshotLine> {
    vec![SnapshotLine { source: "nothing".into(), at: after(0), text: text.into() }]
}

pub(super) fn said(thread: ThreadId, message: MessageId, words: &str) -> MemoryOrigin {
    MemoryOrigin {
        thread: Some(thread),
        message: Some(message),
        words: Some(words.into()),
        at: Some(after(0)),
    }
}

fn edit(text: Option<&str>, kind: Option<&str>) -> MemoryEdit {
    MemoryEdit { text: text.map(Into::into), kind: kind.map(Into::into) }
}

/// The versions of a memory as number, status, reason and text.
pub(super) async fn versions(fixture: &Fixture, id: MemoryId) -> Vec<(u64, String, String, String)> {
    let history = fixture.store.memory_history(&principal("alice"), id).await.unwrap();
    let newest = history.versions.last().unwrap();
    let MemoryRow { version, text, kind, status, .. } = &history.memory;
    assert_eq!(
        (newest.version, &newest.text, &newest.kind, newest.status),
        (*version, text, kind, *status),
        "a memory is its newest version"
    );
    let named = |row: MemoryVersionView| {
        (row.version, row.status.name().to_owned(), row.reason.name().to_owned(), row.text)
    };
    history.versions.into_iter().map(named).collect()
}

fn version(number: u64, status: &str, reason: &str, text: &str) -> (u64, String, String, String) {
    (number, status.into(), reason.into(), text.into())
}

async fn forgotten(fixture: &Fixture) -> Vec<String> {
    let tombstones = fixture.store.tombstones(&scope("alice")).await.unwrap();
    tombstones.into_iter().map(|tombstone| tombstone.words).collect()
}

#[tokio::test]
async fn an_import_keeps_its_times_and_sources() {
    let fixture = Fixture::new();
    let (thread, message) = (fixture.ids.thread(), fixture.ids.message());
    let sources = vec![
        MemoryOrigin { words: Some("by hand".into()), at: Some(after(-5)), ..MemoryOrigin::default() },
        said(thread, message, "I live in Oslo"),
        MemoryOrigin::default(),
    ];
    let memory = NewMemoryRow {
        source: "import",
        sources: sources.clone(),
        valid_from: Some(after(-86_400)),
        created_at: Some(after(-60)),
        ..new(&fixture, "lives in Oslo")
    };
    let row = fixture.store.add_memory(&scope("alice"), memory.clone(), None).await.unwrap();
    assert_eq!((row.created_at, row.updated_at, row.valid_from), (after(-60), after(0), memory.valid_from));
    assert_eq!((row.source.as_str(), &row.first_source), ("import", &Some(sources[0].clone())));
    let history = fixture.store.memory_history(&principal("alice"), row.id).await.unwrap();
    let undated = MemoryOrigin { at: Some(after(0)), ..MemoryOrigin::default() };
    assert_eq!(history.sources, [sources[0].clone(), sources[1].clone(), undated]);
    let first = MemoryVersionView {
        version: 1,
        text: "lives in Oslo".into(),
        kind: "fact".into(),
        status: MemoryStatus::Active,
        reason: MemoryVersionReason::Created,
        valid_from: memory.valid_from,
        valid_until: None,
        at: after(0),
    };
    assert_eq!((history.versions, history.memory), (vec![first], row));
}

#[tokio::test]
async fn a_memory_has_so_many_sources() {
    let fixture = Fixture::new();
    let sources = vec![MemoryOrigin::default(); MAX_SOURCES_PER_MEMORY + 1];
    let memory = NewMemoryRow { sources, ..new(&fixture, "x") };
    let row = fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
    let history = fixture.store.memory_history(&principal("alice"), row.id).await.unwrap();
    assert_eq!(history.sources.len(), MAX_SOURCES_PER_MEMORY);
}

#[tokio::test]
async fn an_edit_is_a_version_and_only_what_is_active_can_be_edited() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let her = principal("alice");
    let row = add(&fixture, &scope("alice"), "lives in Oslo").await;
    clock.to(9);
    let change = async |of: MemoryEdit, key| fixture.store.edit_memory(&her, row.id, of, key).await;
    let edited = change(edit(Some("lives in Rome"), None), once("k", 1)).await.unwrap();
    let expected =
        MemoryRow { text: "lives in Rome".into(), version: 2, updated_at: after(9), ..row.clone() };
    assert_eq!(edited, expected);
    let repeated = change(edit(Some("lives in Rome"), None), once("k", 1)).await.unwrap();
    assert_eq!(repeated, expected, "once under a key");
    assert!(matches!(change(edit(None, Some("x")), once("k", 2)).await, Err(Error::KeyReused)));
    assert_eq!(change(edit(None, None), None).await.unwrap(), expected, "nothing to change is no version");
    assert_eq!(change(edit(Some("lives in Rome"), Some("fact")), None).await.unwrap(), expected);
    assert_eq!(change(edit(None, Some("place")), None).await.unwrap().kind, "place");
    assert!(change(edit(Some(""), None), None).await.is_err());
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    let refused = change(edit(Some("again"), None), once("l", 1)).await;
    assert_eq!(refusal(refused), "the memory is forgotten; restore it first");
    let expected = [
        version(1, "active", "created", "lives in Oslo"),
        version(2, "active", "edited", "lives in Rome"),
        version(3, "active", "edited", "lives in Rome"),
        version(4, "forgotten", "forgotten", "lives in Rome"),
    ];
    assert_eq!(versions(&fixture, row.id).await, expected);
}

#[tokio::test]
async fn words_stay_forgotten_while_a_thread_has_them_and_no_longer() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (submitted, log) = fixture.run().await;
        log.record(vec![end(submitted.run, RunStatus::Failed)], vec![], vec![]).await.unwrap();
        threads.push(submitted.thread);
    }
    let sources = threads.iter().map(|thread| said(*thread, fixture.ids.message(), "my dog Rex")).collect();
    let memory = NewMemoryRow { sources, ..new(&fixture, "has a dog") };
    let row = fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    for (thread, left) in threads.into_iter().zip([&["has a dog", "my dog Rex"][..], &["has a dog"]]) {
        fixture.store.delete_thread(&her, thread, None).await.unwrap();
        while fixture.store.purge(after(0), after(0)).await.unwrap() {}
        assert_eq!(forgotten(&fixture).await, left);
    }
}

#[tokio::test]
async fn what_is_forgotten_covers_its_words_until_it_is_restored() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let her = principal("alice");
    let (thread, message) = (fixture.ids.thread(), fixture.ids.message());
    let sources = vec![
        said(thread, message, "my dog Rex"),
        said(thread, message, "Rex, my dog"),
        said(thread, message, "my dog Rex"),
        MemoryOrigin::default(),
    ];
    let memory = NewMemoryRow { sources, ..new(&fixture, "has a dog, Rex") };
    let row = fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
    let other = add(&fixture, &scope("alice"), "likes tea").await;
    clock.to(7);
    for _ in 0..2 {
        fixture.store.forget_memory(&her, row.id, once("k", 1)).await.unwrap();
    }
    let words = ["Rex, my dog", "has a dog, Rex", "my dog Rex"];
    let expected = words.map(|words| TombstoneRow { memory: row.id, words: words.into(), at: after(7) });
    assert_eq!(fixture.store.tombstones(&scope("alice")).await.unwrap(), expected);
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    assert_eq!(forgotten(&fixture).await, words, "forgetting twice is forgetting once");
    fixture.store.forget_memory(&her, other.id, None).await.unwrap();
    clock.to(8);
    for key in [once("r", 1), once("r", 1), None] {
        let restored = fixture.store.restore_memory(&her, row.id, key).await.unwrap();
        assert_eq!((restored.status.name(), restored.version), ("active", 3));
        assert_eq!((restored.created_at, restored.updated_at), (after(0), after(8)));
    }
    assert_eq!(forgotten(&fixture).await, ["likes tea"], "the other one stays forgotten");
    assert_eq!(listed(&fixture, &scope("alice")).await, ["has a dog, Rex"]);
    let expected = [
        version(1, "active", "created", "has a dog, Rex"),
        version(2, "forgotten", "forgotten", "has a dog, Rex"),
        version(3, "active", "restored", "has a dog, Rex"),
    ];
    assert_eq!(versions(&fixture, row.id).await, expected);
    let again = fixture.store.forget_memory(&her, row.id, once("k", 1)).await;
    again.expect("an earlier request is known again");
    assert_eq!(listed(&fixture, &scope("alice")).await, ["has a dog, Rex"], "and changes nothing");
}

#[tokio::test]
async fn m1_another_user_reads_and_changes_nothing() {
    let fixture = Fixture::new();
    let (hers, mallory) = (add(&fixture, &scope("alice"), "hers").await, principal("mallory"));
    let missing = |error: Error| matches!(error, Error::NotFound("memory"));
    let store = &fixture.store;
    assert!(missing(store.memory_history(&mallory, hers.id).await.unwrap_err()));
    assert!(missing(store.edit_memory(&mallory, hers.id, edit(Some("x"), None), None).await.unwrap_err()));
    assert!(missing(store.restore_memory(&mallory, hers.id, None).await.unwrap_err()));
    store.set_memory_off(&scope("mallory"), true, None).await.unwrap();
    assert!(!store.memory_is_off(&scope("alice")).await.unwrap());
    store.forget_memory(&principal("alice"), hers.id, None).await.unwrap();
    assert!(missing(store.restore_memory(&mallory, hers.id, None).await.unwrap_err()));
    assert_eq!(store.tombstones(&scope("mallory")).await.unwrap(), []);
    assert_eq!(store.memories(&scope("mallory"), None, ALL).await.unwrap().rows, []);
    let (submitted, _) = fixture.run().await;
    let stolen = store.keep_snapshot(&scope("mallory"), submitted.thread, line("x")).await;
    assert!(matches!(stolen, Err(Error::NotFound("thread"))));
    assert_eq!(store.snapshot(&scope("alice"), submitted.thread).await.unwrap(), None);
    store.keep_snapshot(&scope("alice"), submitted.thread, line("hers")).await.unwrap();
    assert_eq!(store.snapshot(&scope("mallory"), submitted.thread).await.unwrap(), None);
}

const ALL: PageOf<store::TimeCursor<MemoryId>> = PageOf { after: None, limit: 100 };

#[tokio::test]
async fn what_is_forgotten_or_foreign_is_found_among_others() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let (kept, gone) = (add(&fixture, &alice, "kept").await, add(&fixture, &alice, "gone").await);
    let foreign = add(&fixture, &scope("bob"), "foreign").await;
    fixture.store.forget_memory(&her, gone.id, None).await.unwrap();
    let ids = [foreign.id, kept.id, gone.id, fixture.ids.memory()];
    let found = fixture.store.forgotten_among(&alice, &ids).await.unwrap();
    assert_eq!(found, [ids[0], ids[2], ids[3]]);
    assert_eq!(fixture.store.forgotten_among(&alice, &[]).await.unwrap(), []);
}

#[tokio::test]
async fn lists_are_by_status() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    add(&fixture, &alice, "kept").await;
    let gone = add(&fixture, &alice, "gone").await;
    fixture.store.forget_memory(&principal("alice"), gone.id, None).await.unwrap();
    for (status, expected) in [
        (Some(MemoryStatus::Active), vec!["kept"]),
        (Some(MemoryStatus::Forgotten), vec!["gone"]),
        (Some(MemoryStatus::Expired), vec![]),
        (None, vec!["gone", "kept"]),
    ] {
        let rows = fixture.store.memories(&alice, status, ALL).await.unwrap().rows;
        assert_eq!(texts(rows), expected, "{status:?}");
    }
}

#[tokio::test]
async fn the_switch_is_off_for_one_scope_until_it_is_on_again() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    assert!(!store.memory_is_off(&alice).await.unwrap());
    for off in [true, true, false, false, true] {
        store.set_memory_off(&alice, off, None).await.unwrap();
        assert_eq!(store.memory_is_off(&alice).await.unwrap(), off);
    }
    store.set_memory_off(&alice, false, once("k", 1)).await.unwrap();
    store.set_memory_off(&alice, true, None).await.unwrap();
    store.set_memory_off(&alice, false, once("k", 1)).await.unwrap();
    assert!(store.memory_is_off(&alice).await.unwrap(), "an earlier request changes nothing");
    assert!(!store.memory_is_off(&scope("bob")).await.unwrap());
}

#[tokio::test]
async fn the_first_snapshot_of_a_thread_stays_as_long_as_the_thread() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let (alice, store) = (scope("alice"), &fixture.store);
    assert_eq!(store.snapshot(&alice, submitted.thread).await.unwrap(), None);
    for body in ["first", "second"] {
        let kept = store.keep_snapshot(&alice, submitted.thread, line(body)).await.unwrap();
        assert_eq!(kept, line("first"));
    }
    assert_eq!(store.snapshot(&alice, submitted.thread).await.unwrap(), Some(line("first")));
    let nowhere = store.keep_snapshot(&alice, fixture.ids.thread(), line("x")).await;
    assert!(matches!(nowhere, Err(Error::NotFound("thread"))));
    store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    let late = store.keep_snapshot(&alice, submitted.thread, line("x")).await;
    assert!(matches!(late, Err(Error::NotFound("thread"))));
    let ended = crate::support::end(submitted.run, protocol::RunStatus::Cancelled);
    log.record(vec![ended], vec![], vec![]).await.unwrap();
    while store.purge(after(1), after(0)).await.unwrap() {}
    assert_eq!(store.snapshot(&alice, submitted.thread).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_call_remembers_is_taken_back_with_it() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    let memories = [new(&fixture, "one"), new(&fixture, "two")];
    for (call, memory) in calls.iter().zip(&memories) {
        act(&log, *call, vec![Write::Remember(memory.clone())]).await.unwrap();
    }
    let made = action(&fixture, calls[0]).await;
    assert_eq!(made.changes, [AppliedChange::Memory { id: memories[0].id, version: 1 }]);
    let by = |fixture: &Fixture| store::NewAction {
        id: fixture.ids.action(),
        tool: "undo".into(),
        effect: protocol::Effect::Reversible,
        input: serde_json::Value::Null,
        actor: None,
    };
    let her = principal("alice");
    let undone = fixture.store.undo(&her, made.id, by(&fixture), None).await.unwrap();
    assert_eq!(undone.changes, [AppliedChange::Memory { id: memories[0].id, version: 2 }]);
    let expected = [version(1, "active", "created", "one"), version(2, "removed", "undone", "one")];
    assert_eq!(versions(&fixture, memories[0].id).await, expected);
    fixture.store.edit_memory(&her, memories[1].id, edit(Some("2"), None), None).await.unwrap();
    let late = fixture.store.undo(&her, calls[1].into(), by(&fixture), None).await;
    let why = format!(
        "the memory {} was changed since then by hand, so the action cannot be undone",
        memories[1].id
    );
    assert_eq!(refusal(late), why);
    assert_eq!(listed(&fixture, &scope("alice")).await, ["2"]);
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_run_is_asked_to_remember_is_written_as_it_begins() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let loaded = || {
        serde_json::from_str("{\"memories\":[],\"summaries\":[],\"date\":\"2026-03-01\"}")
            .map(Event::ContextLoaded)
            .unwrap()
    };
    let source = said(submitted.thread, fixture.ids.message(), "remember that I am called Ann");
    let memory =
        NewMemoryRow { source: "asked", sources: vec![source.clone()], ..new(&fixture, "is called Ann") };
    let remember = || vec![Write::Remember(memory.clone())];
    for events in [vec![], vec![step_end(vec![])], vec![loaded(), loaded()]] {
        let refused = log.record(events, vec![], remember()).await;
        assert!(matches!(refused, Err(Error::Aborted)));
    }
    let misplaced = vec![Write::File { path: "a.md".into(), content: None, expected: 0 }];
    assert!(matches!(log.record(vec![loaded()], vec![], misplaced).await, Err(Error::Aborted)));
    assert_eq!(log.record(vec![loaded()], vec![], remember()).await.unwrap(), [true]);
    let row = fixture.store.memory(&principal("alice"), memory.id).await.unwrap();
    assert_eq!((row.scope, row.source.as_str(), row.first_source), (scope("alice"), "asked", Some(source)));
    let full = format!("UPDATE memory_counts SET active = {}", store::MAX_MEMORIES_PER_SCOPE);
    fixture.database().execute(&full, []).unwrap();
    let more = vec![Write::Remember(new(&fixture, "one more"))];
    let refused = log.record(vec![loaded()], vec![], more).await;
    assert_eq!(refusal(refused), "the user has the maximum number of memories");
    let kinds: Vec<_> =
        fixture.published.of(submitted.thread).iter().map(|event| event.kind.clone()).collect();
    assert_eq!(kinds, ["message:user", "run:start", "context:loaded"], "nothing of the refused one stays");
}

#[tokio::test]
async fn a_deleted_conversation_leaves_that_something_was_said_and_when() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let other = said(fixture.ids.thread(), fixture.ids.message(), "kept");
    let sources = vec![said(submitted.thread, fixture.ids.message(), "gone"), other.clone()];
    let memory = NewMemoryRow { sources, ..new(&fixture, "x") };
    let row = fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
    let her = principal("alice");
    fixture.store.delete_thread(&her, submitted.thread, None).await.unwrap();
    let ended = crate::support::end(submitted.run, protocol::RunStatus::Cancelled);
    log.record(vec![ended], vec![], vec![]).await.unwrap();
    let head = fixture.store.recall_head(&scope("alice")).await.unwrap();
    while fixture.store.purge(after(1), after(0)).await.unwrap() {}
    let gone = MemoryOrigin { at: Some(after(0)), ..MemoryOrigin::default() };
    let history = fixture.store.memory_history(&her, row.id).await.unwrap();
    assert_eq!(history.sources, [gone.clone(), other]);
    assert_eq!((history.memory.first_source, history.memory.version), (Some(gone), 1));
    let changed = fixture.store.recall_changes(&scope("alice"), head, None, 9).await.unwrap();
    assert_eq!(changed.len(), 1, "whoever holds its words is told");
}
