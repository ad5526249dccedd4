//! How commands on this machine reach the server that owns the data folder: a file in it, which only the server's own
//! user can read, says where it listens and holds a token that is good while it runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::replace_file::{PRIVATE, replace_file};

const FILE: &str = "control.json";

#[derive(Serialize, Deserialize)]
pub(crate) struct ControlFile {
    pub(crate) url: String,
    pub(crate) token: String,
    /// Fingerprints of the certificates that the server may show; none for a server without TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) certificates: Vec<String>,
}

/// The file as long as the server runs.
pub(crate) struct PublishedControl {
    file: PathBuf,
}

impl ControlFile {
    pub(crate) fn publish(&self, data: &Path) -> std::io::Result<PublishedControl> {
        self.write(data)?;
        Ok(PublishedControl { file: data.join(FILE) })
    }

    /// Writes it over the one that is there.
    pub(crate) fn write(&self, data: &Path) -> std::io::Result<()> {
        replace_file(&data.join(FILE), &serde_json::to_vec(self)?, PRIVATE)
    }

    /// The control file of a data folder, if a server runs or was killed.
    pub(crate) fn of(data: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(data.join(FILE)).ok()?).ok()
    }
}

impl Drop for PublishedControl {
    fn drop(&mut self) {
        // Left behind, it would only point at nothing.
        let _ = fs::remove_file(&self.file);
    }
}
