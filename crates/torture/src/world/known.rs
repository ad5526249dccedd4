//! What nobody may see who is not meant to: words that belong to one user, and secrets that belong to nobody.

use std::sync::Arc;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Known {
    /// Users, each with their word.
    canaries: Arc<[(String, String)]>,
    secrets: Arc<[String]>,
}

impl Known {
    pub(crate) fn new(canaries: Vec<(String, String)>, secrets: Vec<String>) -> Self {
        Self { canaries: canaries.into(), secrets: secrets.into() }
    }

    /// The names of the users whose words are in the text.
    pub(crate) fn owners(&self, text: &str) -> Vec<String> {
        let said = self.canaries.iter().filter(|(_, canary)| text.contains(canary.as_str()));
        said.map(|(user, _)| user.clone()).collect()
    }

    pub(crate) fn holds_secret(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret.as_str()))
    }

    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }
}
