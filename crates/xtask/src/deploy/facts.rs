//! The facts about the server that files in `deploy` rely on. They are read from the source and the documents, so that a
//! change there is noticed here.

use std::collections::BTreeSet;
use std::path::Path;

use walkdir::WalkDir;

/// The names that files in `deploy` may use.
pub(super) struct ServerFacts {
    /// `docs/configuration.md`.
    configuration: String,
    /// Paths of the HTTP API.
    pub(super) paths: BTreeSet<String>,
    /// The default of `server.drain_seconds`.
    pub(super) drain: u64,
    /// Seconds that a server takes at most after its drain.
    pub(super) letting_go: u64,
}

impl ServerFacts {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let configuration = read_text(&root.join("docs/configuration.md"))?;
        let drain = number_after(&configuration, "| `server.drain_seconds` | `")
            .ok_or("docs/configuration.md does not say the default of server.drain_seconds")?;
        let letting_go = number_after(
            &read_text(&root.join("crates/cli/src/serve.rs"))?,
            "const LETTING_GO: Duration = Duration::from_secs(",
        )
        .ok_or("crates/cli/src/serve.rs does not say LETTING_GO in whole seconds")?;
        let mut paths = BTreeSet::new();
        for entry in WalkDir::new(root.join("crates/server/src/routes")).into_iter().flatten() {
            if entry.file_type().is_file() {
                paths.extend(paths_in(&read_text(entry.path())?));
            }
        }
        Ok(Self { configuration, paths, drain, letting_go })
    }

    #[cfg(test)]
    pub(super) fn for_tests(configuration: &str, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Self { configuration: configuration.to_owned(), paths, drain: 25, letting_go: 7 }
    }

    /// Whether the documents name a variable or a key of `rondo.toml`.
    pub(super) fn knows(&self, setting: &str) -> bool {
        self.configuration.contains(&format!("`{setting}`"))
    }

    /// Whether a variable may be set for the server. Variables of others are not ours to judge.
    pub(super) fn may_be_set(&self, variable: &str) -> bool {
        !variable.starts_with("RONDO_") || self.knows(variable)
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The number that stands after these words.
fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The paths that a file of routes declares.
fn paths_in(source: &str) -> impl Iterator<Item = String> + '_ {
    source.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("path = \"")?;
        path.split_once('"').map(|(path, _)| path.to_owned())
    })
}
