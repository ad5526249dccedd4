//! The profile: facts that the user states about themselves.

use std::fmt::Write as _;

use app::Fragment;
use serde_json::Value;
use store::ProfileRow;

use crate::context::{PromptPiece, cap_text};

/// Bytes of all of it.
const MAX_BYTES: usize = 2_000;

pub(in crate::context) fn piece(profile: &ProfileRow) -> Option<PromptPiece> {
    let mut lines = String::new();
    let known = [("Name", &profile.name), ("Timezone", &profile.timezone), ("Locale", &profile.locale)];
    for (what, value) in known {
        if let Some(value) = value {
            let _ = writeln!(lines, "- {what}: {}", Value::from(value.as_str()));
        }
    }
    for (what, value) in profile.fields.as_object().into_iter().flatten() {
        let _ = writeln!(lines, "- {}: {value}", Value::from(what.as_str()));
    }
    let lines = lines.trim_end();
    let source = store::source::of_profile(profile.version);
    (!lines.is_empty()).then(|| PromptPiece::of_data(Fragment::Profile, source, cap_text(lines, MAX_BYTES)))
}
