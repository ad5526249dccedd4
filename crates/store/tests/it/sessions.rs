//! Sessions: found by their hash, good for as long as their key, and forgotten a day after their end.

use std::sync::Arc;

use protocol::{Ids, KeyId, KeyView, Right, Rights, SessionId, SessionView};
use store::{MAX_SESSIONS_PER_USER, NewKeyRotation, PageOf, SessionRow, TimeCursor};

use crate::admin_audit::told;
use crate::keys::{add, apps, hash, new_key};
use crate::support::{Fixture, Forward, after};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

fn session(fixture: &Fixture, key: Option<KeyId>) -> SessionView {
    SessionView {
        id: SessionId::new(fixture.ids.fresh()),
        user: "ann".into(),
        apps: None,
        rights: Rights::USER,
        key,
        issuer: None,
        created_at: after(0),
        expires_at: after(3_600),
    }
}

/// Adds a session with a hash of its own, and gives it.
async fn open(fixture: &Fixture, number: u8, key: Option<KeyId>) -> SessionView {
    let session = session(fixture, key);
    assert_eq!(fixture.store.add_session(session.clone(), hash(number), None).await.unwrap(), []);
    session
}

async fn found(fixture: &Fixture, number: u8) -> SessionRow {
    fixture.store.session_by_hash(hash(number)).await.unwrap().unwrap()
}

async fn is_good(fixture: &Fixture, number: u8, seconds: i64) -> bool {
    found(fixture, number).await.is_good(after(seconds))
}

async fn listed(fixture: &Fixture, only: Option<&[&str]>, seconds: i64) -> Vec<SessionId> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageOf { after: cursor, limit: 2 };
        let page = fixture.store.sessions(only.and_then(apps), page, after(seconds)).await.unwrap();
        cursor = page.rows.last().map(|row| TimeCursor { at: row.created_at, id: row.id });
        all.extend(page.rows.iter().map(|row| row.id));
        if !page.more {
            return all;
        }
    }
}

#[tokio::test]
async fn a_session_is_found_by_its_hash_as_it_was_made() {
    let fixture = Fixture::new();
    let session = SessionView {
        apps: Some(vec!["a".into(), "b\"c".into()]),
        rights: Rights::of([Right::Read]),
        issuer: Some("https://issuer.example".into()),
        ..session(&fixture, None)
    };
    fixture.store.add_session(session.clone(), hash(1), Some("backend".into())).await.unwrap();
    let row = found(&fixture, 1).await;
    let (ended, key_is_gone, key_expires_at) = (false, false, None);
    let actor = Some("backend".into());
    assert_eq!(row, SessionRow { view: session, actor, ended, key_is_gone, key_expires_at });
    assert_eq!([row.is_good(after(3_599)), row.is_good(after(3_600))], [true, false]);
    assert_eq!(fixture.store.session_by_hash(hash(2)).await.unwrap(), None);
    assert_eq!(told(&fixture, None).await, [], "a session that is made is no act of an admin");
}

#[tokio::test]
async fn sessions_end_with_the_key_that_they_were_made_with() {
    let fixture = Fixture::new();
    let (key, other) = (add(&fixture, 1, None).await, add(&fixture, 2, None).await);
    for number in 1..=3 {
        open(&fixture, number, Some(key.id)).await;
    }
    let left = [open(&fixture, 4, Some(other.id)).await.id, open(&fixture, 5, None).await.id];
    fixture.store.revoke_key(key.id, None, "olga".into()).await.unwrap().unwrap();
    for (number, good) in [(1, false), (3, false), (4, true), (5, true)] {
        assert_eq!(is_good(&fixture, number, 0).await, good, "{number}");
    }
    // A session that was made while its key was being revoked is as good as its key.
    open(&fixture, 6, Some(key.id)).await;
    assert!(found(&fixture, 6).await.key_is_gone && !is_good(&fixture, 6, 0).await);
    let mut open = listed(&fixture, None, 0).await;
    open.sort();
    assert_eq!(open, left, "a session without its key is not open");
}

#[tokio::test]
async fn a_session_is_good_only_while_its_key_is() {
    let fixture = Fixture::new();
    let key = KeyView { expires_at: Some(after(10)), ..new_key(fixture.ids.fresh(), "ann", None) };
    fixture.store.add_key(key.clone(), hash(1), None).await.unwrap();
    open(&fixture, 1, Some(key.id)).await;
    assert_eq!([is_good(&fixture, 1, 9).await, is_good(&fixture, 1, 10).await], [true, false]);
    let rotation = NewKeyRotation {
        old: key.id,
        only_apps: None,
        new: new_key(fixture.ids.fresh(), "ann", None),
        hash: hash(2),
        old_ends_at: after(5),
        once: None,
    };
    fixture.store.rotate_key(rotation).await.unwrap().unwrap();
    assert_eq!([is_good(&fixture, 1, 4).await, is_good(&fixture, 1, 5).await], [true, false]);
}

#[tokio::test]
async fn the_removal_of_all_keys_ends_their_sessions_and_no_others() {
    let fixture = Fixture::new();
    let key = add(&fixture, 1, None).await;
    open(&fixture, 1, Some(key.id)).await;
    let other = open(&fixture, 2, None).await;
    fixture.store.remove_keys("local".into()).await.unwrap();
    let row = found(&fixture, 1).await;
    assert!(row.key_is_gone && !is_good(&fixture, 1, 0).await);
    assert!(is_good(&fixture, 2, 0).await);
    assert_eq!(listed(&fixture, None, 0).await, [other.id]);
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_sessions_and_the_oldest_ends_first() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let key = add(&fixture, 1, None).await;
    let bob = SessionView { user: "bob".into(), ..session(&fixture, Some(key.id)) };
    fixture.store.add_session(bob, hash(1), None).await.unwrap();
    let mut hash = [9; 32];
    let mut ended = Vec::new();
    let mut first = None;
    for number in 0..=MAX_SESSIONS_PER_USER {
        hash[..8].copy_from_slice(&number.to_be_bytes());
        clock.to(i64::try_from(number).unwrap());
        let session = session(&fixture, Some(key.id));
        first.get_or_insert(session.id);
        ended.extend(fixture.store.add_session(session, hash, None).await.unwrap());
    }
    assert_eq!(ended, [first.unwrap()]);
    assert!(is_good(&fixture, 1, 0).await, "another user of the same key keeps theirs");
}

#[tokio::test]
async fn an_admin_ends_a_session_within_reach_and_the_audit_says_so() {
    let fixture = Fixture::new();
    let mine = open(&fixture, 1, None).await;
    assert!(fixture.store.end_session(mine.id, None, None).await.unwrap());
    assert!(!is_good(&fixture, 1, 0).await);
    assert_eq!(told(&fixture, None).await, [], "a user who leaves is no act of an admin");
    let of = |names: &[&str]| SessionView {
        apps: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..session(&fixture, None)
    };
    let (one, two, everywhere) = (of(&["a"]), of(&["a", "b"]), session(&fixture, None));
    for (number, session) in (2..).zip([&one, &two, &everywhere]) {
        fixture.store.add_session(session.clone(), hash(number), None).await.unwrap();
    }
    let end = async |session: &SessionView, only| {
        fixture.store.end_session(session.id, only, Some("olga".into())).await.unwrap()
    };
    assert!(!end(&everywhere, apps(&["a"])).await);
    assert!(!end(&two, apps(&["a"])).await);
    assert!(!end(&one, apps(&["b"])).await);
    assert!(end(&one, apps(&["a"])).await);
    assert!(end(&one, apps(&["a"])).await, "a second time changes nothing");
    assert!(end(&two, apps(&["b", "a"])).await);
    let detail = |apps: &str| ("session_ended".to_owned(), format!(r#"{{"apps":{apps},"user":"ann"}}"#));
    assert_eq!(told(&fixture, None).await, [detail(r#"["a","b"]"#), detail(r#"["a"]"#)]);
    assert_eq!(told(&fixture, apps(&["a"])).await, [detail(r#"["a"]"#)], "the other concerns two apps");
    let unknown = SessionId::new(fixture.ids.fresh());
    assert!(!fixture.store.end_session(unknown, None, None).await.unwrap());
}

#[tokio::test]
async fn open_sessions_are_listed_newest_first_and_by_the_apps_of_an_admin() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let mut ids = Vec::new();
    let of: [Option<&[&str]>; 6] =
        [None, Some(&["a"]), Some(&["a", "b"]), Some(&["b"]), Some(&["a"]), Some(&["c", "a"])];
    for (number, names) in (1..).zip(of) {
        clock.to(i64::from(number) / 2);
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let session = SessionView { apps: names, ..session(&fixture, None) };
        fixture.store.add_session(session.clone(), hash(number), None).await.unwrap();
        ids.push(session.id);
    }
    let newest: Vec<_> = ids.iter().rev().copied().collect();
    assert_eq!(listed(&fixture, None, 0).await, newest);
    assert_eq!(listed(&fixture, Some(&["a"]), 0).await, [ids[4], ids[1]]);
    assert_eq!(listed(&fixture, Some(&["b", "a"]), 0).await, [ids[4], ids[3], ids[2], ids[1]]);
    fixture.store.end_session(ids[4], None, None).await.unwrap();
    assert_eq!(listed(&fixture, Some(&["a"]), 0).await, [ids[1]]);
    assert_eq!(listed(&fixture, None, 3_600).await, [], "all have expired");
}

#[tokio::test]
async fn sessions_are_forgotten_a_day_after_their_end() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let long = SessionView { expires_at: after(30 * DAY), ..session(&fixture, None) };
    fixture.store.add_session(long.clone(), hash(1), None).await.unwrap();
    let ended = SessionView { expires_at: after(30 * DAY), ..session(&fixture, None) };
    fixture.store.add_session(ended.clone(), hash(2), None).await.unwrap();
    fixture.store.end_session(ended.id, None, None).await.unwrap();
    open(&fixture, 3, None).await; // for an hour
    let kept = async || {
        while fixture.store.purge(after(-1), after(-1)).await.unwrap() {}
        let found = async |number| fixture.store.session_by_hash(hash(number)).await.unwrap().is_some();
        [found(1).await, found(2).await, found(3).await]
    };
    clock.to(DAY);
    assert_eq!(kept().await, [true, true, true]);
    clock.to(DAY + 1);
    assert_eq!(kept().await, [true, false, true]);
    clock.to(DAY + 3_601);
    assert_eq!(kept().await, [true, false, false]);
    // More than one transaction may forget.
    for number in 0..1_200_u64 {
        let mut hash = [7; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        fixture.store.add_session(session(&fixture, None), hash, None).await.unwrap();
    }
    assert_eq!(kept().await, [true, false, false]);
    let left: i64 =
        fixture.database().query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

/// A node asks for the end of access when another one has changed keys or sessions.
#[tokio::test]
async fn the_end_of_access_is_known_by_the_id_of_a_key_or_a_session() {
    let fixture = Fixture::new();
    let (key, unknown) = (add(&fixture, 1, None).await, fixture.ids.fresh());
    let session = open(&fixture, 2, Some(key.id)).await;
    let ids = vec![key.id.uuid(), session.id.uuid(), unknown];
    let ends = || fixture.store.access_ends(ids.clone());
    let never = jiff::Timestamp::UNIX_EPOCH;
    assert_eq!(ends().await.unwrap(), [(session.id.uuid(), session.expires_at), (unknown, never)]);
    fixture.store.revoke_key(key.id, None, "olga".into()).await.unwrap();
    assert_eq!(ends().await.unwrap()[0], (key.id.uuid(), after(0)));
}
