//! A tool or an MCP server by name, with the line of the file that names it.

use std::path::PathBuf;

use crate::Problem;

/// A tool by name, with the place that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRef {
    pub name: String,
    pub file: PathBuf,
    pub line: usize,
    pub column: usize,
}

impl ToolRef {
    /// A problem with this tool, pointing at the line that names it.
    pub fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem {
            file: self.file.clone(),
            line: Some(self.line),
            column: Some(self.column),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}
