//! The rows that prompts are made of: each in its scope, within its bounds, once under a key, and gone with what it
//! comes from.

mod personas;
mod pins;
mod texts;

use std::sync::Arc;

use protocol::{AppId, ContextLoaded, Event, Scope, UserId};
use serde_json::{Map, Value, json};
use store::{Error, MAX_PROFILE_BYTES, NewText, ProfileRow, RunLog, Write};

use crate::support::{Fixture, Published, after, once, open, scope};

/// Returns the scope of the same user in another app.
pub(crate) fn elsewhere() -> Scope {
    Scope { app: AppId::new("other"), ..scope("alice") }
}

fn loaded() -> Event {
    Event::ContextLoaded(ContextLoaded { date: "2026-03-01".into(), ..ContextLoaded::default() })
}

fn text(source: &(impl ToString + ?Sized), number: u8) -> NewText {
    NewText { source: source.to_string(), hash: [number; 16], text: format!("text {number}") }
}

/// Keeps texts as a run does that begins.
async fn keep(log: &RunLog, texts: Vec<NewText>) -> Result<Vec<bool>, Error> {
    log.record(vec![loaded()], vec![], texts.into_iter().map(Write::Keep).collect()).await
}

/// Whether this text is there for alice.
async fn is_kept(fixture: &Fixture, source: impl ToString, number: u8) -> bool {
    let named = [(source.to_string(), [number; 16])];
    let found = fixture.store.texts(&scope("alice"), &named).await.unwrap();
    assert_eq!(found.len(), 1);
    found[0].is_some()
}

#[tokio::test]
async fn a_profile_is_the_users_own_and_of_all_apps_or_of_one() {
    let fixture = Fixture::new();
    let everywhere = |user: &str| Scope { app: AppId::new(""), user: UserId::new(user) };
    let (alice, bob) = (everywhere("alice"), everywhere("bob"));
    let nothing = ProfileRow { fields: json!({}), ..ProfileRow::default() };
    assert_eq!(fixture.store.profile(&alice).await.unwrap(), nothing);
    let said = ProfileRow {
        name: Some("Alice".into()),
        timezone: Some("Europe/Oslo".into()),
        locale: None,
        fields: json!({ "z": 1, "a": [0.1] }),
        updated_at: None,
        version: 0,
    };
    let kept = fixture.store.put_profile(&alice, said.clone(), once("one", 1)).await.unwrap();
    assert_eq!(kept, ProfileRow { updated_at: Some(after(0)), version: 1, ..said.clone() });
    let again = fixture.store.put_profile(&alice, said.clone(), once("one", 1)).await.unwrap();
    assert_eq!(again, kept, "a second time gives what there is now");
    let reused = fixture.store.put_profile(&alice, said.clone(), once("one", 2)).await;
    assert!(matches!(reused, Err(Error::KeyReused)));
    let late = fixture.store.put_profile(&alice, said, None).await;
    assert!(matches!(late, Err(Error::Changed(_))), "it was made for nothing having been said");
    assert_eq!(fixture.store.profile(&alice).await.unwrap(), kept);
    for other in [&bob, &scope("alice")] {
        assert_eq!(fixture.store.profile(other).await.unwrap(), nothing);
    }
    let here = ProfileRow { name: Some("Al".into()), fields: json!({}), ..ProfileRow::default() };
    fixture.store.put_profile(&scope("alice"), here, once("one", 1)).await.unwrap();
    assert_eq!(fixture.store.profile(&alice).await.unwrap(), kept, "another scope, another profile");
    let empty = ProfileRow { version: 1, ..ProfileRow::default() };
    let emptied = fixture.store.put_profile(&alice, empty, None).await.unwrap();
    assert_eq!(emptied, ProfileRow { updated_at: Some(after(0)), version: 2, ..nothing });
}

#[tokio::test]
async fn the_fields_of_a_profile_are_an_object_of_so_many_bytes() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let wordy = |bytes: usize| {
        let frame = json!({ "a": "" }).to_string().len();
        Map::from_iter([("a".to_owned(), json!("x".repeat(bytes - frame)))])
    };
    let cases = [
        (Value::Object(wordy(MAX_PROFILE_BYTES)), true),
        (Value::Object(wordy(MAX_PROFILE_BYTES + 1)), false),
        (json!([]), false),
        (json!("x"), false),
    ];
    for (fields, good) in cases {
        let put =
            fixture.store.put_profile(&alice, ProfileRow { fields, ..ProfileRow::default() }, None).await;
        assert_eq!(put.is_ok(), good);
        assert!(good || matches!(put, Err(Error::Changed(_))));
    }
}

#[tokio::test]
async fn a_secret_is_drawn_once() {
    let fixture = Fixture::new();
    let secret = fixture.store.secret().await.unwrap();
    assert_ne!(secret, Fixture::new().store.secret().await.unwrap());
    let Fixture { store, folder, .. } = fixture;
    drop(store);
    let again = open(folder.path(), Arc::new(Published::default())).unwrap();
    assert_eq!(again.secret().await.unwrap(), secret);
}
