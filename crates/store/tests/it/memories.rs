//! Memories: a scope's own, counted when an answer refers to them, once under a key, and out of sight once forgotten.

use protocol::{AppId, Clock, Event, Ids, MemoryId, RunStatus, Scope, StreamComplete};
use store::{
    Error, MAX_MEMORIES_PER_SCOPE, MAX_MEMORY_BYTES, MemoryEdit, MemoryRow, MemoryStatus, NewMemoryRow,
    PageOf, TimeCursor,
};
use testkit::still::StandingClock;

use crate::support::{Fixture, answer, end, once, principal, scope, step_end};

mod changes;
mod extraction;
mod recall;

fn new(fixture: &Fixture, text: &str) -> NewMemoryRow {
    NewMemoryRow {
        id: fixture.ids.memory(),
        text: text.into(),
        kind: "fact".into(),
        source: "user",
        sources: vec![],
        valid_from: None,
        created_at: None,
    }
}

async fn add(fixture: &Fixture, scope: &Scope, text: &str) -> MemoryRow {
    fixture.store.add_memory(scope, new(fixture, text), None).await.unwrap()
}

async fn listed(fixture: &Fixture, scope: &Scope) -> Vec<String> {
    let page = PageOf { after: None, limit: 100 };
    texts(fixture.store.memories(scope, Some(MemoryStatus::Active), page).await.unwrap().rows)
}

fn texts(rows: Vec<MemoryRow>) -> Vec<String> {
    rows.into_iter().map(|row| row.text).collect()
}

#[tokio::test]
async fn what_has_the_same_words_is_added_once_while_it_is_active() {
    let fixture = Fixture::new();
    let (alice, bob) = (scope("alice"), scope("bob"));
    let first = add(&fixture, &alice, "Lives in Oslo").await;
    for text in ["Lives in Oslo", "lives in  OSLO!", "(lives in Oslo)"] {
        assert_eq!(add(&fixture, &alice, text).await, first, "{text}");
    }
    assert_ne!(add(&fixture, &bob, "Lives in Oslo").await.id, first.id, "of somebody else");
    assert_ne!(add(&fixture, &alice, "Lives in Rome").await.id, first.id);
    let edit = MemoryEdit { text: Some("Lives in Bergen".into()), kind: None };
    fixture.store.edit_memory(&principal("alice"), first.id, edit, None).await.unwrap();
    let second = add(&fixture, &alice, "Lives in Oslo").await;
    assert_ne!(second.id, first.id, "it says something else by now");
    assert_eq!(add(&fixture, &alice, "lives in bergen").await.id, first.id);
    fixture.store.forget_memory(&principal("alice"), second.id, None).await.unwrap();
    assert_ne!(add(&fixture, &alice, "Lives in Oslo").await.id, second.id, "it was forgotten");
    assert_eq!(listed(&fixture, &alice).await.len(), 3);
}

#[tokio::test]
async fn signs_without_words_are_told_apart() {
    let fixture = Fixture::new();
    let first = add(&fixture, &scope("alice"), "👍").await;
    assert_ne!(add(&fixture, &scope("alice"), "👎").await.id, first.id);
    assert_eq!(add(&fixture, &scope("alice"), " 👍 ").await.id, first.id);
}

#[tokio::test]
async fn a_memory_reads_back_as_it_was_added() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let added = add(&fixture, &alice, "lives in Oslo").await;
    let now = StandingClock.now();
    let expected = MemoryRow {
        id: added.id,
        scope: alice.clone(),
        text: "lives in Oslo".into(),
        kind: "fact".into(),
        status: MemoryStatus::Active,
        access_count: 0,
        last_accessed_at: None,
        source: "user".into(),
        created_at: now,
        updated_at: now,
        version: 1,
        valid_from: None,
        valid_until: None,
        superseded_by: None,
        first_source: None,
    };
    assert_eq!(added, expected);
    assert_eq!(fixture.store.memory(&principal("alice"), added.id).await.unwrap(), expected);
    assert_eq!(fixture.store.active_memories(&alice, 10).await.unwrap(), [expected]);
}

#[tokio::test]
async fn lists_are_newest_first_and_prompts_oldest_first() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let mut rows = Vec::new();
    for text in ["a", "b", "c", "d"] {
        rows.push(add(&fixture, &alice, text).await);
    }
    // The clock stands still, so make the past: "d" becomes the oldest, and the rest share a moment.
    let past = "UPDATE memories SET created_at = created_at - 60000 WHERE text = 'd'";
    fixture.database().execute(past, []).unwrap();
    assert_eq!(listed(&fixture, &alice).await, ["c", "b", "a", "d"]);
    assert_eq!(texts(fixture.store.active_memories(&alice, 3).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(texts(fixture.store.active_memories(&alice, 9).await.unwrap()), ["d", "a", "b", "c"]);
    let after = Some(TimeCursor { at: rows[1].created_at, id: rows[1].id });
    let rest = fixture
        .store
        .memories(&alice, Some(MemoryStatus::Active), PageOf { after, limit: 1 })
        .await
        .unwrap()
        .rows;
    assert_eq!(texts(rest), ["a"]);
    let ids: Vec<MemoryId> = [3, 0, 2].map(|place: usize| rows[place].id).to_vec();
    let wanted = [ids.as_slice(), &[fixture.ids.memory()]].concat();
    assert_eq!(texts(fixture.store.memories_by_id(&alice, &wanted).await.unwrap()), ["d", "a", "c"]);
}

#[tokio::test]
async fn m1_nobody_reaches_the_memories_of_another_scope() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let hers = add(&fixture, &alice, "hers").await;
    let elsewhere = Scope { app: AppId::new("other"), ..alice.clone() };
    for stranger in [&scope("mallory"), &elsewhere] {
        assert_eq!(listed(&fixture, stranger).await, Vec::<String>::new());
        assert!(fixture.store.active_memories(stranger, 9).await.unwrap().is_empty());
        assert!(fixture.store.memories_by_id(stranger, &[hers.id]).await.unwrap().is_empty());
    }
    let mallory = principal("mallory");
    assert!(matches!(fixture.store.memory(&mallory, hers.id).await, Err(Error::NotFound("memory"))));
    let forgotten = fixture.store.forget_memory(&mallory, hers.id, once("k", 1)).await;
    assert!(matches!(forgotten, Err(Error::NotFound("memory"))));
    assert_eq!(listed(&fixture, &alice).await, ["hers"]);
    let stolen = fixture.database().execute("UPDATE memories SET user = 'mallory'", []).unwrap_err();
    assert!(stolen.to_string().contains("M1: a memory stays in its scope"));
}

#[tokio::test]
async fn a_forgotten_memory_is_in_no_list_and_stays_forgotten() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let kept = add(&fixture, &alice, "kept").await;
    let gone = add(&fixture, &alice, "gone").await;
    for _ in 0..2 {
        fixture.store.forget_memory(&her, gone.id, None).await.unwrap();
        assert_eq!(listed(&fixture, &alice).await, ["kept"]);
        assert_eq!(texts(fixture.store.active_memories(&alice, 9).await.unwrap()), ["kept"]);
        let both = fixture.store.memories_by_id(&alice, &[gone.id, kept.id]).await.unwrap();
        assert_eq!(texts(both), ["kept"]);
        let row = fixture.store.memory(&her, gone.id).await.unwrap();
        assert_eq!((row.status.name(), row.text.as_str()), ("forgotten", "gone"));
    }
}

#[tokio::test]
async fn under_a_key_a_memory_is_added_and_forgotten_once() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let first = fixture.store.add_memory(&alice, new(&fixture, "one"), once("a", 1)).await.unwrap();
    let again = fixture.store.add_memory(&alice, new(&fixture, "one"), once("a", 1)).await.unwrap();
    assert_eq!(again, first);
    let other = fixture.store.add_memory(&alice, new(&fixture, "two"), once("a", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    assert_eq!(listed(&fixture, &alice).await, ["one"]);
    for _ in 0..2 {
        fixture.store.forget_memory(&her, first.id, once("b", 1)).await.unwrap();
    }
    assert!(matches!(fixture.store.forget_memory(&her, first.id, once("a", 3)).await, Err(Error::KeyReused)));
    let again = fixture.store.add_memory(&alice, new(&fixture, "one"), once("a", 1)).await.unwrap();
    assert_eq!((again.id, again.status.name()), (first.id, "forgotten"), "as it is now");
}

#[tokio::test]
async fn a_scope_remembers_so_much_and_a_memory_is_so_long() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let fill = format!("INSERT INTO memory_counts VALUES ('app', 'alice', {MAX_MEMORIES_PER_SCOPE} - 1)");
    fixture.database().execute(&fill, []).unwrap();
    let last = add(&fixture, &alice, "the last that fits").await;
    let refused = fixture.store.add_memory(&alice, new(&fixture, "too many"), once("k", 1)).await;
    assert!(matches!(refused, Err(Error::MemoriesFull)));
    add(&fixture, &scope("bob"), "somebody else's").await;
    fixture.store.forget_memory(&principal("alice"), last.id, None).await.unwrap();
    let fits = fixture.store.restore_memory(&principal("alice"), last.id, None).await.unwrap();
    assert_eq!(fits.status.name(), "active");
    fixture.store.forget_memory(&principal("alice"), last.id, None).await.unwrap();
    let fits = fixture.store.add_memory(&alice, new(&fixture, "fits now"), once("k", 1)).await;
    assert_eq!(fits.unwrap().text, "fits now", "a refusal uses up no key");
    let restored = fixture.store.restore_memory(&principal("alice"), last.id, None).await;
    assert!(matches!(restored, Err(Error::MemoriesFull)), "its place is taken");
    assert_eq!(fixture.store.memory(&principal("alice"), last.id).await.unwrap().status.name(), "forgotten");
    for (bytes, good) in [(0, false), (1, true), (MAX_MEMORY_BYTES, true), (MAX_MEMORY_BYTES + 1, false)] {
        let added = fixture.store.add_memory(&scope("eve"), new(&fixture, &"x".repeat(bytes)), None).await;
        assert_eq!(added.is_ok(), good, "{bytes} bytes");
    }
    let wide = new(&fixture, &"é".repeat(MAX_MEMORY_BYTES / 2 + 1));
    assert!(
        fixture.store.add_memory(&scope("eve"), wide, None).await.is_err(),
        "bytes count, not characters"
    );
}

#[tokio::test]
async fn an_answer_counts_the_memories_it_refers_to() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let used = add(&fixture, &alice, "used").await;
    let unused = add(&fixture, &alice, "unused").await;
    let forgotten = add(&fixture, &alice, "forgotten").await;
    fixture.store.forget_memory(&her, forgotten.id, None).await.unwrap();
    let foreign = add(&fixture, &scope("bob"), "foreign").await;
    let references: Vec<String> = [used.id, used.id, forgotten.id, foreign.id, fixture.ids.memory()]
        .map(|id| id.to_string())
        .into_iter()
        .chain(["".into(), "mem_".into(), used.id.to_string().to_uppercase(), "' OR 1".into()])
        .collect();
    let Event::StreamComplete(said) = answer(fixture.ids.message()) else { unreachable!() };
    let said = Event::StreamComplete(StreamComplete { memories_referenced: references, ..said });
    let (submitted, log) = fixture.run().await;
    log.record(vec![step_end(vec![]), said, end(submitted.run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
    let count = async |user: &str, id| {
        let row = fixture.store.memory(&principal(user), id).await.unwrap();
        (row.access_count, row.last_accessed_at)
    };
    assert_eq!(count("alice", used.id).await, (1, Some(StandingClock.now())), "an answer counts once");
    for (user, id) in [("alice", unused.id), ("alice", forgotten.id), ("bob", foreign.id)] {
        assert_eq!(count(user, id).await, (0, None));
    }
}
