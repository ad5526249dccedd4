//! Records: a scope's own, found by fields and words, with a version that only grows.

use std::sync::Arc;

use proptest::prelude::*;
use protocol::{AppId, Ids, RecordId, RecordView, Scope};
use serde_json::{Value, json};
use store::{Error, MAX_RECORD_BYTES, MAX_RECORDS_PER_TYPE, PageOf, RecordQuery, TimeCursor, Write};

use crate::support::{Fixture, Forward, after, once, scope};

fn put(id: RecordId, data: impl Into<Option<Value>>, expected: u64) -> Write {
    Write::Record { id, kind: "part".into(), data: data.into(), expected }
}

async fn make(fixture: &Fixture, scope: &Scope, data: Value) -> RecordView {
    let write = put(fixture.ids.record(), data, 0);
    fixture.store.put_record(scope, write, None).await.unwrap().unwrap()
}

fn words(text: &str) -> RecordQuery {
    RecordQuery { text: Some(text.into()), fields: vec![] }
}

fn fields(fields: &[(&str, Value)]) -> RecordQuery {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    RecordQuery { text: None, fields }
}

async fn found(fixture: &Fixture, scope: &Scope, query: RecordQuery) -> Vec<RecordId> {
    let page = PageOf { after: None, limit: 100 };
    let rows = fixture.store.records(scope, "part", query, page).await.unwrap().rows;
    rows.into_iter().map(|row| row.id).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let Err(Error::Changed(words)) = result else { panic!("not refused: {result:?}") };
    words
}

#[tokio::test]
async fn e4_a_version_grows_with_each_change_and_outlives_a_deletion() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (alice, store) = (scope("alice"), &fixture.store);
    let made = make(&fixture, &alice, json!({ "name": "bolt" })).await;
    let expected = RecordView {
        id: made.id,
        kind: "part".into(),
        version: 1,
        data: json!({ "name": "bolt" }),
        created_at: after(0),
        updated_at: after(0),
    };
    assert_eq!(made, expected);
    clock.to(5);
    let changed = store.put_record(&alice, put(made.id, json!({ "name": "nut" }), 1), None).await.unwrap();
    let expected =
        RecordView { version: 2, data: json!({ "name": "nut" }), updated_at: after(5), ..expected };
    assert_eq!(changed, Some(expected.clone()));
    assert_eq!(store.record_of(&alice, "part", made.id).await.unwrap(), expected);
    for wrong in [0, 1, 3] {
        let words = refusal(store.put_record(&alice, put(made.id, json!({}), wrong), None).await);
        assert!(words.contains("its version is 2"), "{words}");
    }
    assert_eq!(store.put_record(&alice, put(made.id, None, 2), None).await.unwrap(), None);
    assert!(matches!(store.record_of(&alice, "part", made.id).await, Err(Error::NotFound("record"))));
    for nothing in [put(made.id, None, 3), put(made.id, None, 0), put(fixture.ids.record(), None, 0)] {
        refusal(store.put_record(&alice, nothing, None).await);
    }
    refusal(store.put_record(&alice, put(made.id, json!({}), 0), None).await);
    let again = store.put_record(&alice, put(made.id, json!({}), 3), None).await.unwrap().unwrap();
    assert_eq!(again.version, 4);
}

#[tokio::test]
async fn m1_m3_nobody_reaches_finds_or_changes_the_records_of_another_scope() {
    let fixture = Fixture::new();
    let (alice, bob) = (scope("alice"), scope("bob"));
    let elsewhere = Scope { app: AppId::new("other"), ..alice.clone() };
    for _ in 0..200 {
        make(&fixture, &bob, json!({ "name": "needle needle needle" })).await;
    }
    let mine = make(&fixture, &alice, json!({ "name": "a needle in much hay" })).await;
    let page = PageOf { after: None, limit: 1 };
    let store = &fixture.store;
    assert_eq!(
        store.records(&alice, "part", words("needle"), page).await.unwrap().rows,
        std::slice::from_ref(&mine)
    );
    for other in [&bob, &elsewhere] {
        assert!(matches!(store.record_of(other, "part", mine.id).await, Err(Error::NotFound("record"))));
        assert_eq!(store.count_records(other, "part", &[mine.id]).await.unwrap(), 0);
        assert!(!found(&fixture, other, words("hay")).await.contains(&mine.id));
        for expected in [0, 1] {
            refusal(store.put_record(other, put(mine.id, json!({}), expected), None).await);
            refusal(store.put_record(other, put(mine.id, None, expected), None).await);
        }
    }
    assert!(matches!(store.record_of(&alice, "tool", mine.id).await, Err(Error::NotFound("record"))));
    let retyped = Write::Record { id: mine.id, kind: "tool".into(), data: Some(json!({})), expected: 1 };
    refusal(store.put_record(&alice, retyped, None).await);
    assert_eq!(store.records(&alice, "tool", words("needle"), page).await.unwrap().rows, []);
}

#[tokio::test]
async fn records_are_found_by_their_fields_exactly_and_by_what_a_list_holds() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let data = json!({
        "a.b": 1, "quo\"te": "x", "tags": ["red", 2, true], "none": null, "size": { "mm": 1.5 }, "on": true, "$": 3,
    });
    let id = make(&fixture, &alice, data).await.id;
    make(&fixture, &alice, json!({ "other": "red" })).await;
    make(&fixture, &alice, json!(["red"])).await;
    make(&fixture, &alice, json!("red")).await;
    for (name, value) in [
        ("a.b", json!(1)),
        ("a.b", json!(1.0)),
        ("quo\"te", json!("x")),
        ("tags", json!("red")),
        ("tags", json!(2)),
        ("tags", json!(true)),
        ("tags", json!(["red", 2, true])),
        ("none", json!(null)),
        ("size", json!({ "mm": 1.5 })),
        ("on", json!(true)),
        ("$", json!(3)),
    ] {
        assert_eq!(found(&fixture, &alice, fields(&[(name, value.clone())])).await, [id], "{name} {value}");
    }
    for (name, value) in [
        ("a.b", json!("1")),
        ("a.b", json!(true)),
        ("a", json!({ "b": 1 })),
        ("tags", json!("re")),
        ("tags", json!(1)),
        ("tags", json!(["red"])),
        ("missing", json!(null)),
        ("size", json!("{\"mm\":1.5}")),
        ("on", json!(1)),
        ("$.on", json!(true)),
        ("0", json!("red")),
    ] {
        assert_eq!(found(&fixture, &alice, fields(&[(name, value.clone())])).await, [], "{name} {value}");
    }
    let both = [("on", json!(true)), ("tags", json!("red"))];
    assert_eq!(found(&fixture, &alice, fields(&both)).await, [id]);
    assert_eq!(found(&fixture, &alice, fields(&[both[0].clone(), ("tags", json!("blue"))])).await, []);
}

#[tokio::test]
async fn words_find_texts_at_any_depth_from_their_beginnings_best_first() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let deep = make(&fixture, &alice, json!({ "a": [{ "b": "Crème brûlée, twice-baked" }] })).await;
    let much = make(&fixture, &alice, json!({ "text": "bolt bolt bolt", "name": 12 })).await.id;
    let little = make(&fixture, &alice, json!({ "text": "one bolt among many other words here" })).await.id;
    for query in
        ["creme", "CRÈME", "bru", "twice-baked", "baked twice", "brule cre", "\"creme\"", "cre\u{300}me"]
    {
        assert_eq!(found(&fixture, &alice, words(query)).await, [deep.id], "{query}");
    }
    assert_eq!(found(&fixture, &alice, words("bolt")).await, [much, little]);
    for nothing in ["name", "12", "rème", "bolt creme", "text"] {
        assert_eq!(found(&fixture, &alice, words(nothing)).await, [], "{nothing}");
    }
    let both = RecordQuery { text: Some("bolt".into()), fields: vec![("name".into(), json!(12))] };
    assert_eq!(found(&fixture, &alice, both).await, [much]);
    let changed = put(deep.id, json!({ "a": "flan" }), 1);
    fixture.store.put_record(&alice, changed, None).await.unwrap();
    assert_eq!(found(&fixture, &alice, words("creme")).await, []);
    assert_eq!(found(&fixture, &alice, words("flan")).await, [deep.id]);
    fixture.store.put_record(&alice, put(deep.id, None, 2), None).await.unwrap();
    assert_eq!(found(&fixture, &alice, words("flan")).await, []);
    for all in ["", "  ", "\"\"", "...", "\u{0}"] {
        assert_eq!(found(&fixture, &alice, words(all)).await.len(), 2, "{all:?} asks for no word");
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    for number in 0..7 {
        clock.to(number / 2); // two changes share a moment
        make(&fixture, &alice, json!({ "text": "bolt ".repeat(1 + number as usize % 3) })).await;
    }
    for query in [words("bolt"), RecordQuery::default()] {
        let all = found(&fixture, &alice, query.clone()).await;
        assert_eq!(all.len(), 7);
        let mut paged = Vec::new();
        let mut after = None;
        for _ in 0..4 {
            let page = PageOf { after, limit: 2 };
            let rows = fixture.store.records(&alice, "part", query.clone(), page).await.unwrap().rows;
            after = rows.last().map(|row| TimeCursor { at: row.updated_at, id: row.id }).or(after);
            paged.extend(rows.into_iter().map(|row| row.id));
        }
        assert_eq!(paged, all);
    }
}

#[tokio::test]
async fn a_record_is_so_long_and_a_scope_has_so_many() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let longest = Value::from("x".repeat(MAX_RECORD_BYTES - 2));
    make(&fixture, &alice, longest).await;
    let longer = put(fixture.ids.record(), Value::from("x".repeat(MAX_RECORD_BYTES - 1)), 0);
    assert!(refusal(fixture.store.put_record(&alice, longer, None).await).contains("65536 bytes"));
    fixture
        .database()
        .execute(
            "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO records (id, app, user, type, version, state, data, created_at, updated_at)
                 SELECT randomblob(16), 'app', 'alice', 'part', 1, 1, '{}', 0, 0 FROM n",
            [MAX_RECORDS_PER_TYPE as i64],
        )
        .unwrap();
    let one_more = put(fixture.ids.record(), json!({}), 0);
    assert!(
        refusal(fixture.store.put_record(&alice, one_more.clone(), None).await).contains("10000 records")
    );
    make(&fixture, &scope("bob"), json!({})).await;
    let first = found(&fixture, &alice, words("")).await[0];
    fixture.store.put_record(&alice, put(first, None, 1), None).await.unwrap();
    fixture.store.put_record(&alice, one_more, None).await.expect("a deleted one makes room");
}

#[tokio::test]
async fn records_are_counted_once_each_if_they_are_there() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let first = make(&fixture, &alice, json!({})).await.id;
    let second = make(&fixture, &alice, json!({})).await.id;
    let gone = make(&fixture, &alice, json!({})).await.id;
    fixture.store.put_record(&alice, put(gone, None, 1), None).await.unwrap();
    let named = [first, second, first, gone, fixture.ids.record()];
    assert_eq!(fixture.store.count_records(&alice, "part", &named).await.unwrap(), 2);
    assert_eq!(fixture.store.count_records(&alice, "tool", &named).await.unwrap(), 0);
    assert_eq!(fixture.store.count_records(&alice, "part", &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn q3_under_a_key_a_record_is_put_once() {
    let fixture = Fixture::new();
    let (alice, store) = (scope("alice"), &fixture.store);
    let made = store.put_record(&alice, put(fixture.ids.record(), json!(1), 0), once("a", 1)).await.unwrap();
    let again = store.put_record(&alice, put(fixture.ids.record(), json!(1), 0), once("a", 1)).await.unwrap();
    assert_eq!(made, again);
    let other = store.put_record(&alice, put(fixture.ids.record(), json!(2), 0), once("a", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)));
    let id = made.unwrap().id;
    assert_eq!(store.put_record(&alice, put(id, None, 1), once("b", 1)).await.unwrap(), None);
    assert_eq!(store.put_record(&alice, put(id, None, 1), once("b", 1)).await.unwrap(), None);
    refusal(store.put_record(&alice, put(id, None, 1), once("c", 1)).await);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// One database takes many searches: opening it is what costs.
    #[test]
    fn no_search_is_a_syntax_error(texts in proptest::collection::vec(
        prop_oneof![
            any::<String>(),
            r#"[-"'*^:(){}+AND OR NOT NEAR,.\\\x00\u{fe0f}\u{301}a]{0,40}"#,
            "[ab\"]{1000,2000}",
        ],
        40,
    )) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let alice = scope("alice");
            for text in texts {
                make(&fixture, &alice, json!({ "text": text, &text: [&text] })).await;
                found(&fixture, &alice, words(&text)).await;
                let fields = fields(&[(&text, json!(text)), ("text", json!(text))]);
                prop_assert!(!found(&fixture, &alice, fields).await.is_empty(), "{:?}", text);
            }
            Ok(())
        })?;
    }
}
