//! Private words: each user has one that no other user may see, and secrets that no user may see.

use std::sync::Arc;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct PrivateWords {
    /// Users, each with their word.
    canaries: Arc<[(String, String)]>,
    secrets: Arc<[String]>,
}

impl PrivateWords {
    pub(crate) fn new(canaries: Vec<(String, String)>, secrets: Vec<String>) -> Self {
        Self { canaries: canaries.into(), secrets: secrets.into() }
    }

    /// The names of the users whose words are in the text.
    pub(crate) fn owners(&self, text: &str) -> Vec<String> {
        let owners = self.canaries.iter().filter(|(_, canary)| text.contains(canary.as_str()));
        owners.map(|(user, _)| user.clone()).collect()
    }

    pub(crate) fn holds_secret(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret.as_str()))
    }

    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }
}
