//! Credentials of users, sealed with a key that is not in the database, each for its own place in it.

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use protocol::{CredentialView, Principal, Scope};
use store::{MAX_CREDENTIAL_NAME_BYTES, Once, Store};
use tools::{Failed, Vault};

use crate::{Engine, Error};

/// Bytes of a credential.
const MAX_VALUE_BYTES: usize = 8 * 1024;

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

    fn seal(&self, scope: &Scope, name: &str, value: &str) -> Option<Vec<u8>> {
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

/// What is sealed is good at its own place and nowhere else.
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
                tracing::error!(name, "a credential cannot be opened: was the vault's key changed?");
                Err(unavailable("the user's credential cannot be opened; ask them to give it again"))
            }
        }
    }
}

impl Engine {
    /// The names of what the user has given to an app.
    pub async fn credentials(&self, principal: &Principal, app: &str) -> Result<Vec<CredentialView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(self.store().credentials(&scope).await?)
    }

    /// Keeps a credential, sealed. Servers that need it are looked at with it.
    pub async fn put_credential(
        &self,
        principal: &Principal,
        (app, name): (&str, &str),
        value: &str,
        once: Option<Once>,
    ) -> Result<CredentialView, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > MAX_CREDENTIAL_NAME_BYTES || !name.chars().all(letters) {
            let rule = format!("must be 1 to {MAX_CREDENTIAL_NAME_BYTES} letters, digits or underscores");
            return Err(Error::invalid("name", rule));
        }
        if value.is_empty() || value.len() > MAX_VALUE_BYTES || value.chars().any(char::is_control) {
            let rule = format!("must have 1 to {MAX_VALUE_BYTES} bytes and no control characters");
            return Err(Error::invalid("value", rule));
        }
        let sealed = self.shared.vault.seal(&scope, name, value).ok_or(Error::Internal)?;
        let row = match self.store().put_credential(&scope, name, sealed, once).await {
            Ok(row) => row,
            Err(store::Error::Changed(message)) => {
                return Err(Error::Conflict { code: "credentials_full", message });
            }
            Err(error) => return Err(error.into()),
        };
        self.in_background(self.clone().look_at_personal_servers(scope));
        Ok(row)
    }

    pub async fn delete_credential(
        &self,
        principal: &Principal,
        (app, name): (&str, &str),
        once: Option<Once>,
    ) -> Result<(), Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(self.store().delete_credential(&scope, name, once).await?)
    }
}
