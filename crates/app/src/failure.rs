//! What the user reads when no model could answer, by why.

/// Why no model could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The provider has no such model.
    UnknownModel,
    /// The provider does not take the key.
    Key,
    /// What may be spent is used up, here or at the provider.
    Quota,
    /// The provider cannot be reached, is overloaded or breaks off.
    Outage,
    Other,
}

/// The replies of an app; none at all where a run is to fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureReplies {
    pub unknown_model: Option<String>,
    pub key: Option<String>,
    pub quota: Option<String>,
    pub outage: Option<String>,
    /// For what has none of its own.
    pub default: Option<String>,
}

impl FailureReplies {
    /// One reply for all.
    pub fn always(text: impl Into<String>) -> Self {
        Self { default: Some(text.into()), ..Self::default() }
    }

    pub fn of(&self, cause: FailureCause) -> Option<&str> {
        let own = match cause {
            FailureCause::UnknownModel => &self.unknown_model,
            FailureCause::Key => &self.key,
            FailureCause::Quota => &self.quota,
            FailureCause::Outage => &self.outage,
            FailureCause::Other => &None,
        };
        own.as_deref().or(self.default.as_deref())
    }
}
