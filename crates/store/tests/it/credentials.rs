//! Credentials: a scope's own, by name, within bounds, and once under a key.

use std::sync::Arc;

use protocol::{CredentialView, Scope};
use store::{Error, MAX_CREDENTIAL_BYTES, MAX_CREDENTIAL_NAME_BYTES, MAX_CREDENTIALS_PER_SCOPE};

use crate::actions::refusal;
use crate::context::elsewhere;
use crate::support::{Fixture, Forward, Published, after, once, open, scope};

async fn put(fixture: &Fixture, name: &str, sealed: &[u8]) -> Result<CredentialView, Error> {
    fixture.store.put_credential(&scope("alice"), name, sealed.to_vec(), None).await
}

async fn sealed(fixture: &Fixture, scope: &Scope, name: &str) -> Option<Vec<u8>> {
    fixture.store.credential(scope, name).await.unwrap()
}

#[tokio::test]
async fn a_credential_is_put_replaced_and_deleted_in_its_scope() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let alice = scope("alice");
    let row = |name: &str, seconds| CredentialView { name: name.into(), updated_at: after(seconds) };
    let bytes = [0, 255, 10, 128];
    assert_eq!(put(&fixture, "mail", &bytes).await.unwrap(), row("mail", 0));
    clock.to(5);
    put(&fixture, "bank", b"one").await.unwrap();
    assert_eq!(sealed(&fixture, &alice, "mail").await.unwrap(), bytes);
    for stranger in [scope("mallory"), elsewhere()] {
        assert_eq!(fixture.store.credentials(&stranger).await.unwrap(), []);
        assert_eq!(sealed(&fixture, &stranger, "mail").await, None);
        let deleted = fixture.store.delete_credential(&stranger, "mail", None).await;
        assert!(matches!(deleted, Err(Error::NotFound("credential"))));
        fixture.store.put_credential(&stranger, "mail", b"theirs".to_vec(), None).await.unwrap();
    }
    assert_eq!(put(&fixture, "mail", b"two").await.unwrap(), row("mail", 5));
    assert_eq!(fixture.store.credentials(&alice).await.unwrap(), [row("bank", 5), row("mail", 5)], "by name");
    fixture.store.delete_credential(&alice, "mail", None).await.unwrap();
    assert_eq!(sealed(&fixture, &alice, "mail").await, None);
    assert_eq!(fixture.store.credentials(&alice).await.unwrap(), [row("bank", 5)]);
    assert_eq!(sealed(&fixture, &scope("mallory"), "mail").await.unwrap(), b"theirs");
    let gone = fixture.store.delete_credential(&alice, "mail", None).await;
    assert!(matches!(gone, Err(Error::NotFound("credential"))));
    let Fixture { store, folder, .. } = fixture;
    drop(store);
    let again = open(folder.path(), Arc::new(Published::default())).unwrap();
    assert_eq!(again.credential(&alice, "bank").await.unwrap().unwrap(), b"one");
}

#[tokio::test]
async fn a_change_of_a_credential_happens_once_under_a_key() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let keyed = async |value: &[u8], key, asked| {
        fixture.store.put_credential(&alice, "mail", value.to_vec(), once(key, asked)).await
    };
    let first = keyed(b"one", "put", 1).await.unwrap();
    put(&fixture, "mail", b"two").await.unwrap();
    assert_eq!(keyed(b"one", "put", 1).await.unwrap(), first);
    assert_eq!(sealed(&fixture, &alice, "mail").await.unwrap(), b"two", "a second time changes nothing");
    assert!(matches!(keyed(b"three", "put", 2).await, Err(Error::KeyReused)));
    for _ in 0..2 {
        fixture.store.delete_credential(&alice, "mail", once("delete", 1)).await.unwrap();
    }
    assert!(matches!(keyed(b"one", "put", 1).await, Err(Error::NotFound("credential"))));
    let refused = fixture.store.delete_credential(&alice, "mail", once("again", 1)).await;
    assert!(matches!(refused, Err(Error::NotFound("credential"))));
    keyed(b"four", "again", 2).await.expect("a refusal does not use up its key");
}

#[tokio::test]
async fn names_and_values_have_so_many_bytes_and_there_are_so_many_credentials() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    for (name, bytes, reason) in [
        (String::new(), 1, "the name of a credential has 1 to 64 bytes"),
        ("é".repeat(MAX_CREDENTIAL_NAME_BYTES / 2) + "n", 1, "the name of a credential has 1 to 64 bytes"),
        ("mail".into(), MAX_CREDENTIAL_BYTES + 1, "a sealed credential has at most 16384 bytes"),
    ] {
        assert_eq!(refusal(put(&fixture, &name, &vec![7; bytes]).await), reason);
    }
    assert_eq!(fixture.store.credentials(&alice).await.unwrap(), []);
    put(&fixture, &"n".repeat(MAX_CREDENTIAL_NAME_BYTES), &[7; MAX_CREDENTIAL_BYTES]).await.unwrap();
    for number in 1..MAX_CREDENTIALS_PER_SCOPE {
        put(&fixture, &format!("c{number}"), b"x").await.unwrap();
    }
    let words = refusal(put(&fixture, "more", b"x").await);
    assert_eq!(words, "there are already 64 credentials; delete some first");
    put(&fixture, "c1", b"y").await.expect("one that is there can be replaced");
    assert_eq!(fixture.store.credentials(&alice).await.unwrap().len(), MAX_CREDENTIALS_PER_SCOPE);
    fixture.store.put_credential(&elsewhere(), "more", b"x".to_vec(), None).await.unwrap();
    fixture.store.delete_credential(&alice, "c1", None).await.unwrap();
    put(&fixture, "more", b"x").await.expect("there is room again");
}
