//! Credentials that users give to apps, as clients ask for them.

use std::sync::Arc;

use agent::look_at_personal_servers;
use protocol::{CredentialView, Principal};
use store::{IdempotencyClaim, MAX_CREDENTIAL_NAME_BYTES};

use crate::{Error, Service};

/// Bytes of a credential.
const MAX_VALUE_BYTES: usize = 8 * 1024;

impl Service {
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
        once: Option<IdempotencyClaim>,
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
        self.world().tasks.spawn(look_at_personal_servers(Arc::clone(self.world()), scope));
        Ok(row)
    }

    pub async fn delete_credential(
        &self,
        principal: &Principal,
        (app, name): (&str, &str),
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (scope, _) = self.share_of(principal, app)?;
        Ok(self.store().delete_credential(&scope, name, once).await?)
    }
}
