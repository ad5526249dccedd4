//! The files of apps, for runs that began with them.

use std::sync::Arc;

use protocol::AppId;
use store::MAX_APP_REVISIONS;

use crate::support::{Fixture, Forward};

#[tokio::test]
async fn a_bounded_number_of_revisions_of_each_app_is_kept() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (store, app) = (&fixture.store, AppId::new("demo"));
    assert!(!store.note_served_revision(&app, "r0").await.unwrap());
    store.keep_revision(&AppId::new("other"), "r0", b"other".to_vec()).await.unwrap();
    for number in 0..=MAX_APP_REVISIONS {
        clock.to(number);
        store.keep_revision(&app, &format!("r{number}"), vec![1]).await.unwrap();
        assert!(
            store.note_served_revision(&app, "r0").await.unwrap(),
            "what is served again is not the oldest"
        );
    }
    assert_eq!(store.files_of_revision(&app, "r0").await.unwrap(), Some(vec![1]));
    assert_eq!(store.files_of_revision(&app, "r1").await.unwrap(), None, "the oldest is gone");
    assert_eq!(store.files_of_revision(&app, "r2").await.unwrap(), Some(vec![1]));
    assert_eq!(store.files_of_revision(&AppId::new("other"), "r0").await.unwrap(), Some(b"other".to_vec()));
}
