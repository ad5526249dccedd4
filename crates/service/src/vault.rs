//! Credentials of users, sealed with a key that is not in the database, each for its own place in it.

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use protocol::Scope;
use store::Store;
use tools::{Failed, Vault};

/// Seals and opens what the store keeps.
pub(crate) struct SealedVault {
    store: Store,
    /// None for a key that cannot be used, which none of the right length is.
    key: Option<RandomizedNonceKey>,
}

impl SealedVault {
    pub(crate) fn new(store: Store, key: &[u8; 32]) -> Self {
        Self { store, key: RandomizedNonceKey::new(&AES_256_GCM, key).ok() }
    }

    pub(crate) fn seal(&self, scope: &Scope, name: &str, value: &str) -> Option<Vec<u8>> {
        let mut bytes = value.as_bytes().to_vec();
        let nonce = self.key.as_ref()?.seal_in_place_append_tag(place(scope, name), &mut bytes).ok()?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut bytes);
        Some(sealed)
    }

    fn open(&self, scope: &Scope, name: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let (nonce, mut rest) = (Nonce::try_assume_unique_for_key(nonce).ok()?, rest.to_vec());
        let opened = self.key.as_ref()?.open_in_place(nonce, place(scope, name), &mut rest).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

/// A sealed value is good at its own place and nowhere else.
fn place(scope: &Scope, name: &str) -> Aad<Vec<u8>> {
    Aad::from([scope.app.as_str(), scope.user.as_str(), name].join("\0").into_bytes())
}

#[async_trait]
impl Vault for SealedVault {
    async fn credential(&self, scope: &Scope, name: &str) -> Result<Option<String>, Failed> {
        let unavailable = |message: &str| Failed::new("unavailable", message.to_owned());
        let sealed = self.store.credential(scope, name).await.map_err(|error| {
            tracing::error!(%error, "a credential could not be read");
            unavailable("the user's credentials cannot be read at the moment")
        })?;
        let Some(sealed) = sealed else { return Ok(None) };
        match self.open(scope, name, &sealed) {
            Some(value) => Ok(Some(value)),
            None => {
                tracing::error!(
                    name,
                    "a credential cannot be decrypted; was the vault key (RONDO_VAULT_KEY or vault.key) \
                     changed?"
                );
                Err(unavailable("the user's credential cannot be decrypted; ask the user to enter it again"))
            }
        }
    }
}
