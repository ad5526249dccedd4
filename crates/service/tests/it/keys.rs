//! The cache of keys in memory, which must never say anything else than the database.

use std::time::Duration;

use futures_util::FutureExt;
use protocol::Rights;
use service::NewKey;
use testkit::TestApp;

/// Long enough for anything that does not wait for a turn.
const A_WHILE: Duration = Duration::from_millis(500);

/// While a key is being stored, no request reads the keys: the result would be old by the time it is put in place, and
/// the new key, or the end of an old one, would be lost.
#[tokio::test]
async fn keys_are_read_and_changed_one_after_the_other() {
    let app = TestApp::start().await;
    let key = |user: &str| NewKey { user: user.into(), app: None, admin: false, ..NewKey::default() };
    let old = app.service.add_key(key("ann"), None).await.unwrap();
    let (writing, revoked) = (app.database(), app.service.revoke_key(old.id, None));
    writing.execute_batch("BEGIN IMMEDIATE").unwrap(); // the server waits for this to end before it writes
    let mut revoked = Box::pin(revoked);
    let mut added = Box::pin(app.service.add_key(key("bob"), None));
    assert!((&mut revoked).now_or_never().is_none() && (&mut added).now_or_never().is_none());
    tokio::task::yield_now().await; // both have begun
    let read = tokio::time::timeout(A_WHILE, app.service.load_keys()).await;
    assert!(read.is_err(), "the keys were read while they were being changed");
    writing.execute_batch("ROLLBACK").unwrap();
    let (revoked, added, read) = tokio::join!(revoked, added, app.service.load_keys());
    revoked.unwrap();
    read.unwrap();
    assert!(app.service.has_keys());
    assert_eq!(app.service.key_grant(&old.token.unwrap()).await.unwrap(), None);
    let grant = app.service.key_grant(&added.unwrap().token.unwrap()).await.unwrap().unwrap();
    assert_eq!((grant.user.as_str(), grant.rights), ("bob", Rights::USER));
}

/// The caller may be gone before the answer is there.
#[tokio::test]
async fn a_key_is_revoked_though_nobody_waits_for_it() {
    let app = TestApp::start().await;
    let key = NewKey { user: "ann".into(), app: None, admin: false, ..NewKey::default() };
    let made = app.service.add_key(key, None).await.unwrap();
    let writing = app.database();
    writing.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut revoked = Box::pin(app.service.revoke_key(made.id, None));
    assert!((&mut revoked).now_or_never().is_none());
    drop(revoked);
    writing.execute_batch("ROLLBACK").unwrap();
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM keys WHERE revoked_at IS NOT NULL"), 1);
    assert_eq!(app.service.key_grant(&made.token.unwrap()).await.unwrap(), None);
}
