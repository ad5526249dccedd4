//! The weights of models on this machine: a folder for each model in the data folder, with a manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The provider of all models that run in this process.
pub(crate) const PROVIDER: &str = "local";

/// The weights of a chat model in its folder.
pub(crate) const CHAT_FILE: &str = "model.gguf";

pub(crate) const MODELS: &str = "models";
pub(crate) const MANIFEST: &str = "model.json";
/// How the name of a folder ends whose model is not complete.
pub(crate) const PARTIAL: &str = ".partial";
const MAX_NAME_BYTES: usize = 64;
const MAX_MODELS: usize = 1000;
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// Models with fewer bytes of weights call tools at random. A model of half a billion parameters has more.
const MIN_TOOL_MODEL_BYTES: u64 = 300_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WeightsKind {
    Chat,
    Embedding,
}

/// A model whose weights are on this machine; all but its folder is the content of `model.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PulledModel {
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) kind: WeightsKind,
    /// A URL, a package or a path; only for people, and to tell models of the same name apart.
    pub(crate) source: String,
    /// Of all files together.
    pub(crate) bytes: u64,
    /// The SHA-256 of each file.
    pub(crate) sha256: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quantisation: Option<String>,
    /// Tokens that a chat model was trained with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<u32>,
}

impl PulledModel {
    /// Whether it is offered tools by default.
    pub(crate) fn is_offered_tools(&self) -> bool {
        self.bytes >= MIN_TOOL_MODEL_BYTES
    }
}

/// The models in a data folder, by name.
pub(crate) fn pulled_models(data: &Path) -> Vec<PulledModel> {
    let Ok(entries) = fs::read_dir(data.join(MODELS)) else { return Vec::new() };
    let folders = entries.take(MAX_MODELS).filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PulledModel> = folders.filter_map(read_model).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

pub(crate) fn read_model(folder: PathBuf) -> Option<PulledModel> {
    let name = folder.file_name()?.to_str().filter(|name| is_model_name(name))?.to_owned();
    let mut text = String::new();
    let file = File::open(folder.join(MANIFEST)).ok()?;
    file.take(MAX_MANIFEST_BYTES).read_to_string(&mut text).ok()?;
    match serde_json::from_str::<PulledModel>(&text) {
        Ok(model) => Some(PulledModel { name, folder, ..model }),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the manifest of a pulled model cannot be read");
            None
        }
    }
}

/// Names are folders, so they must not lead elsewhere or look like something that is not finished.
pub(crate) fn is_model_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(good)
        && !name.starts_with(['.', '-'])
        && !name.ends_with(PARTIAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_nothing_more() {
        let (longest, too_long) = ("x".repeat(64), "x".repeat(65));
        for good in ["a", "smollm2-135m", "Qwen3_8B.Q4_K_M", &longest] {
            assert!(is_model_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", ".hidden", "-x", "a b", "x.partial", "ü", &too_long] {
            assert!(!is_model_name(bad), "{bad}");
        }
    }
}
