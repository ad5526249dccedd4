//! A key that no log line can show.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ConfigSecret(String);

impl ConfigSecret {
    /// The key without the white space around it. None when it could not be sent in a header, as when two lines were
    /// pasted into one variable.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let key = text.trim();
        let sendable = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        sendable.then(|| Self(key.to_owned()))
    }

    /// The key itself, for the one place that sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfigSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigSecret(..)")
    }
}
