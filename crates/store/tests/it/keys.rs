//! Keys: their rights, their end, their successors, and which of them an admin of some apps can manage.

use std::sync::Arc;

use protocol::{ActsFor, AppId, Ids, KeyId, KeyView, Right, Rights};
use store::{Error, NewKeyRotation, PageOf, RotatedKey, Store, TimeCursor};
use uuid::Uuid;

use crate::actions::refusal;
use crate::admin_audit::told;
use crate::support::{Fixture, Forward, after, once, scope};

/// A key for a user as a caller asks for it; the store says when it was made.
pub(crate) fn new_key(id: Uuid, user: &str, app: Option<&str>) -> KeyView {
    KeyView {
        id: KeyId::new(id),
        user: user.into(),
        app: app.map(str::to_owned),
        admin: false,
        rights: Rights::USER,
        acts_for: None,
        created_at: after(0),
        expires_at: None,
        used_at: None,
        revoked_at: None,
        made_by: Some("olga".into()),
        revoked_by: None,
        replaced_by: None,
    }
}

/// The hash of the key with a number.
pub(crate) fn hash(number: u8) -> [u8; 32] {
    [number; 32]
}

/// Adds a key for `ann`, and gives it.
pub(crate) async fn add(fixture: &Fixture, number: u8, app: Option<&str>) -> KeyView {
    let key = new_key(fixture.ids.fresh(), "ann", app);
    assert_eq!(fixture.store.add_key(key.clone(), hash(number), None).await.unwrap(), None);
    key
}

pub(crate) fn apps(names: &[&str]) -> Option<Vec<AppId>> {
    Some(names.iter().map(|name| AppId::new(*name)).collect())
}

async fn found(fixture: &Fixture, number: u8) -> KeyView {
    fixture.store.key_by_hash(hash(number)).await.unwrap().unwrap()
}

fn rotation(fixture: &Fixture, old: KeyId, number: u8) -> NewKeyRotation {
    NewKeyRotation {
        old,
        only_apps: None,
        new: new_key(fixture.ids.fresh(), "mallory", None),
        hash: hash(number),
        old_ends_at: after(60),
        once: None,
    }
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_with_all_that_it_allows() {
    let fixture = Fixture::new();
    assert!(!fixture.store.has_keys().await.unwrap());
    let (read, run, admin) = (Right::Read, Right::Run, Right::Admin);
    for (number, rights) in (1..).zip([vec![read], vec![run], vec![admin], vec![read, run, admin]]) {
        let rights = Rights::of(rights);
        let key = KeyView {
            rights,
            admin: rights.has(Right::Admin),
            acts_for: (number == 2).then_some(ActsFor::Any),
            expires_at: (number == 3).then(|| after(9)),
            ..new_key(fixture.ids.fresh(), "ann", (number == 1).then_some("app"))
        };
        fixture.store.add_key(key.clone(), hash(number), None).await.unwrap();
        assert_eq!(found(&fixture, number).await, key);
    }
    assert_eq!(fixture.store.key_by_hash(hash(9)).await.unwrap(), None);
    assert!(fixture.store.has_keys().await.unwrap());
}

#[tokio::test]
async fn a_key_is_made_once_under_an_idempotency_key() {
    let fixture = Fixture::new();
    let add = async |number| {
        let key = new_key(fixture.ids.fresh(), "ann", None);
        let once = Some((scope("olga"), once("k", 1).unwrap()));
        (key.id, fixture.store.add_key(key, hash(number), once).await.unwrap())
    };
    let (first, none) = add(1).await;
    assert_eq!(none, None);
    assert_eq!(add(2).await.1, Some(first));
    assert_eq!(fixture.store.key_by_hash(hash(2)).await.unwrap(), None);
    assert_eq!(told(&fixture, None).await.len(), 1, "a repeated request is no second entry");
}

#[tokio::test]
async fn a_key_is_good_until_it_expires_or_is_revoked() {
    let fixture = Fixture::new();
    let good = async |seconds| fixture.store.has_good_keys(after(seconds)).await.unwrap();
    assert!(!good(0).await);
    let ends = KeyView { expires_at: Some(after(10)), ..new_key(fixture.ids.fresh(), "ann", None) };
    fixture.store.add_key(ends, hash(1), None).await.unwrap();
    assert_eq!([good(9).await, good(10).await], [true, false]);
    let key = add(&fixture, 2, None).await;
    assert!(good(10).await);
    fixture.store.revoke_key(key.id, None, "olga".into()).await.unwrap().unwrap();
    assert_eq!([good(9).await, good(10).await], [true, false]);
    assert!(fixture.store.has_keys().await.unwrap());
}

#[tokio::test]
async fn the_last_use_of_a_key_never_goes_back() {
    let fixture = Fixture::new();
    let key = add(&fixture, 1, None).await;
    for (at, noted) in [(5, 5), (3, 5), (7, 7)] {
        fixture.store.note_key_use(key.id, after(at)).await.unwrap();
        assert_eq!(found(&fixture, 1).await.used_at, Some(after(noted)));
    }
    fixture.store.note_key_use(KeyId::new(fixture.ids.fresh()), after(1)).await.unwrap();
}

/// All keys by pages of two.
async fn all(store: &Store, apps: Option<Vec<AppId>>) -> Vec<KeyId> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.keys(apps.clone(), PageOf { after, limit: 2 }).await.unwrap();
        after = page.rows.last().map(|key| TimeCursor { at: key.created_at, id: key.id });
        all.extend(page.rows.iter().map(|key| key.id));
        if !page.more {
            return all;
        }
        assert_eq!(page.rows.len(), 2);
    }
}

#[tokio::test]
async fn keys_are_listed_oldest_first_and_an_admin_of_some_apps_sees_those_of_the_apps() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let mut ids = Vec::new();
    let of = [None, Some("a"), Some("b"), Some("a"), Some("c"), Some("b"), Some("a"), None];
    for (number, app) in (0..).zip(of) {
        clock.to(i64::from(number) / 3); // some have the same time
        ids.push(add(&fixture, number, app).await.id);
    }
    assert_eq!(all(&fixture.store, None).await, ids);
    assert_eq!(all(&fixture.store, apps(&["a"])).await, [ids[1], ids[3], ids[6]]);
    assert_eq!(all(&fixture.store, apps(&["b", "a"])).await, [ids[1], ids[2], ids[3], ids[5], ids[6]]);
    assert_eq!(all(&fixture.store, apps(&["d"])).await, []);
    assert_eq!(all(&fixture.store, apps(&[])).await, []);
}

#[tokio::test]
async fn a_key_is_revoked_once_and_only_by_an_admin_who_looks_after_it() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (own, everywhere) = (add(&fixture, 1, Some("a")).await, add(&fixture, 2, None).await);
    let revoke = async |id, only| fixture.store.revoke_key(id, only, "olga".into()).await.unwrap();
    assert_eq!(revoke(own.id, apps(&["b", "c"])).await, None);
    assert_eq!(revoke(everywhere.id, apps(&["a"])).await, None);
    assert_eq!(revoke(KeyId::new(fixture.ids.fresh()), None).await, None);
    assert_eq!(found(&fixture, 1).await.revoked_at, None);
    clock.to(5);
    assert_eq!(revoke(own.id, apps(&["b", "a"])).await.unwrap().hash, hash(1));
    let revoked = KeyView { revoked_at: Some(after(5)), revoked_by: Some("olga".into()), ..own.clone() };
    assert_eq!(found(&fixture, 1).await, revoked);
    clock.to(6);
    let again = fixture.store.revoke_key(own.id, None, "otto".into()).await.unwrap().unwrap();
    assert_eq!(again.hash, hash(1));
    assert_eq!(found(&fixture, 1).await, revoked);
    let kinds: Vec<_> = told(&fixture, None).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["key_revoked", "key_made", "key_made"]);
}

#[tokio::test]
async fn a_rotated_key_has_a_successor_with_its_rights_and_stays_for_a_while() {
    let fixture = Fixture::new();
    let rights = Rights::of([Right::Read, Right::Admin]);
    let (admin, acts_for) = (true, Some(ActsFor::Any));
    let old = KeyView { rights, admin, acts_for, ..new_key(fixture.ids.fresh(), "ann", Some("a")) };
    fixture.store.add_key(old.clone(), hash(1), None).await.unwrap();
    fixture.store.note_key_use(old.id, after(1)).await.unwrap();
    let asked = rotation(&fixture, old.id, 2);
    let RotatedKey { id, made } = fixture.store.rotate_key(asked.clone()).await.unwrap().unwrap();
    let made = made.unwrap();
    assert_eq!((id, made.old_hash), (asked.new.id, hash(1)));
    assert_eq!(found(&fixture, 1).await, made.old);
    assert_eq!(found(&fixture, 2).await, made.new);
    assert_eq!(made.new, KeyView { id, ..old.clone() });
    let (expires_at, used_at, replaced_by) = (Some(after(60)), Some(after(1)), Some(id));
    assert_eq!(made.old, KeyView { expires_at, used_at, replaced_by, ..old });
}

#[tokio::test]
async fn a_rotation_never_makes_a_key_last_longer() {
    let fixture = Fixture::new();
    let key = KeyView { expires_at: Some(after(30)), ..new_key(fixture.ids.fresh(), "ann", None) };
    fixture.store.add_key(key.clone(), hash(1), None).await.unwrap();
    let mut asked = rotation(&fixture, key.id, 2);
    asked.new.expires_at = Some(after(300));
    fixture.store.rotate_key(asked).await.unwrap().unwrap();
    assert_eq!(found(&fixture, 1).await.expires_at, Some(after(30)));
    assert_eq!(found(&fixture, 2).await.expires_at, Some(after(300)));
}

#[tokio::test]
async fn a_repeated_rotation_gives_the_key_that_was_made_then() {
    let fixture = Fixture::new();
    let key = add(&fixture, 1, None).await;
    let asked = |number| NewKeyRotation {
        once: Some((scope("olga"), once("k", 1).unwrap())),
        ..rotation(&fixture, key.id, number)
    };
    let first = fixture.store.rotate_key(asked(2)).await.unwrap().unwrap();
    let second = fixture.store.rotate_key(asked(3)).await.unwrap().unwrap();
    assert_eq!(second, RotatedKey { id: first.id, made: None });
    assert_eq!(fixture.store.key_by_hash(hash(3)).await.unwrap(), None);
    let other = NewKeyRotation { once: Some((scope("olga"), once("k", 2).unwrap())), ..asked(4) };
    assert!(matches!(fixture.store.rotate_key(other).await, Err(Error::KeyReused)));
    assert_eq!(told(&fixture, None).await.len(), 2);
}

#[tokio::test]
async fn a_key_that_is_gone_or_out_of_reach_is_not_rotated() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let key = add(&fixture, 1, Some("a")).await;
    let outside = NewKeyRotation {
        only_apps: apps(&["b"]),
        once: Some((scope("olga"), once("k", 1).unwrap())),
        ..rotation(&fixture, key.id, 2)
    };
    assert_eq!(fixture.store.rotate_key(outside.clone()).await.unwrap(), None);
    assert_eq!(
        fixture.store.rotate_key(outside).await.unwrap(),
        None,
        "a refusal uses no idempotency key up"
    );
    let within = NewKeyRotation { only_apps: apps(&["a"]), ..rotation(&fixture, key.id, 2) };
    let successor = fixture.store.rotate_key(within).await.unwrap().unwrap().id;
    let rotate = async |id| fixture.store.rotate_key(rotation(&fixture, id, 3)).await;
    let words = format!("the key was replaced by {successor} already; rotate that key");
    assert_eq!(refusal(rotate(key.id).await), words);
    fixture.store.revoke_key(successor, None, "olga".into()).await.unwrap();
    assert_eq!(refusal(rotate(successor).await), "the key is revoked; make a new key");
    let ends = KeyView { expires_at: Some(after(10)), ..new_key(fixture.ids.fresh(), "ann", None) };
    fixture.store.add_key(ends.clone(), hash(4), None).await.unwrap();
    clock.to(10);
    assert_eq!(refusal(rotate(ends.id).await), "the key has expired; make a new key");
    assert_eq!(fixture.store.key_by_hash(hash(3)).await.unwrap(), None);
}

#[tokio::test]
async fn all_keys_can_be_removed_and_the_audit_stays() {
    let fixture = Fixture::new();
    assert_eq!(fixture.store.remove_keys("local".into()).await.unwrap(), 0);
    let key = add(&fixture, 1, None).await;
    add(&fixture, 2, Some("a")).await;
    fixture.store.revoke_key(key.id, None, "olga".into()).await.unwrap();
    assert_eq!(fixture.store.remove_keys("local".into()).await.unwrap(), 2);
    assert!(!fixture.store.has_keys().await.unwrap());
    let entries = told(&fixture, None).await;
    assert_eq!(entries[0], ("keys_removed".to_owned(), r#"{"count":2}"#.to_owned()));
    assert_eq!(entries.len(), 4);
}
