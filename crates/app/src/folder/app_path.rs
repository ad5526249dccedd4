//! Files that an app names: they are in its folder, or they are refused.

use std::path::{Component, Path, PathBuf};

use super::declared_tools::ToolTable;
use crate::source::{Problem, Spanned};

impl ToolTable<'_> {
    /// Returns the path of a file or folder of the app, which the value of a key names.
    pub(super) fn app_path(&self, key: &str, name: &Spanned<String>) -> Result<PathBuf, Problem> {
        let (dir, field, written) = (self.beside.dir, self.field(key), name.get_ref());
        let relative = Path::new(written);
        let at = |message: String, remedy: &str| self.source.problem(name.span(), message, remedy);
        let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if written.is_empty() || !is_plain {
            let message = format!("{field} is {written:?}");
            return Err(at(message, "write a path below the app's folder, without \"..\""));
        }
        let path = dir.join(relative);
        let unreadable = |error: std::io::Error| {
            at(format!("{field}: {written}: {error}"), "create it, or correct the path")
        };
        let (real, root) =
            (path.canonicalize().map_err(unreadable)?, dir.canonicalize().map_err(unreadable)?);
        if !real.starts_with(root) {
            let message = format!("{field}: {written} is outside the app's folder");
            return Err(at(message, "copy the file into it"));
        }
        Ok(path)
    }
}
