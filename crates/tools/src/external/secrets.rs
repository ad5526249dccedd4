//! Secrets by name: the operator's, and the user's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use protocol::Scope;
use serde_json::{Map, Value, json};

use super::border::Hidden;
use super::webhook::{UndeliveredWebhook, read_key};
use crate::{Calling, Failed};

/// The operator's secrets, which templates name.
#[derive(Default)]
pub struct Secrets {
    /// Locked for a look, never over an await.
    values: RwLock<BTreeMap<String, String>>,
}

impl Secrets {
    pub fn new(values: BTreeMap<String, String>) -> Self {
        Self { values: RwLock::new(values) }
    }

    /// Takes in more, as for an app that was added; what is there under the same name is replaced.
    pub fn add(&self, values: BTreeMap<String, String>) {
        self.values.write().unwrap_or_else(PoisonError::into_inner).extend(values);
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The key that webhooks are signed with.
    pub(super) fn webhook_key(&self, name: &str) -> Result<Vec<u8>, UndeliveredWebhook> {
        let refused = |reason: String| UndeliveredWebhook { reason, is_final: false };
        let secret = self.get(name).ok_or_else(|| refused(format!("the secret {name:?} is not set")))?;
        read_key(&secret).ok_or_else(|| {
            refused(format!("the secret {name:?} is not whsec_ and a key of 16 to 128 bytes in base64"))
        })
    }

    fn get(&self, name: &str) -> Option<String> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(values.keys()).finish()
    }
}

/// The place in which the credentials of users are kept.
#[async_trait]
pub trait Vault: Send + Sync + 'static {
    /// None when the user has given none of that name.
    async fn credential(&self, scope: &Scope, name: &str) -> Result<Option<String>, Failed>;
}

/// The secrets and credentials that the templates of one call name.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    pub(super) secrets: BTreeSet<String>,
    pub(super) credentials: BTreeSet<String>,
}

impl Needs {
    pub(super) fn new(secrets: BTreeSet<&str>, credentials: BTreeSet<&str>) -> Self {
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        Self { secrets: owned(secrets), credentials: owned(credentials) }
    }
}

/// The values that fill templates, and the secrets among them.
pub(super) struct Filling {
    pub(super) values: Map<String, Value>,
    pub(super) hidden: Hidden,
}

impl Filling {
    /// Takes together what a call's templates name, and nothing else.
    pub(super) async fn gather(
        calling: &Calling<'_>,
        secrets: &Secrets,
        needs: &Needs,
    ) -> Result<Self, Failed> {
        let mut hidden = Hidden::default();
        let (mut operators, mut users) = (Map::new(), Map::new());
        for name in &needs.secrets {
            let value = secrets.get(name).ok_or_else(|| not_configured(name))?;
            hidden.add(name, &value);
            operators.insert(name.clone(), value.into());
        }
        for name in &needs.credentials {
            let value = calling.vault.credential(calling.scope, name).await?;
            let value = value.ok_or_else(|| not_given(calling.scope, name))?;
            hidden.add(name, &value);
            users.insert(name.clone(), value.into());
        }
        let values = Map::from_iter([
            ("input".into(), calling.input.clone()),
            ("secret".into(), operators.into()),
            ("credential".into(), users.into()),
            ("user".into(), json!({ "id": calling.scope.user.as_str() })),
            ("app".into(), json!({ "id": calling.scope.app.as_str() })),
            ("thread".into(), json!({ "id": calling.thread })),
            ("call".into(), json!({ "key": calling.key() })),
        ]);
        Ok(Self { values, hidden })
    }
}

fn not_configured(name: &str) -> Failed {
    Failed::new("not_configured", format!("the operator has not set the secret {name:?}"))
}

fn not_given(scope: &Scope, name: &str) -> Failed {
    let message = format!(
        "the user has not given the credential {name:?} yet; ask them to connect it (PUT /v1/apps/{}/credentials/{name})",
        scope.app
    );
    Failed::new("credential_required", message)
}
