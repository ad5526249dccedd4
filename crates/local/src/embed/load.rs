//! A folder as it is downloaded, read and checked: what kind of network it holds, how its words become one vector, and
//! how long a text may be.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::kernels::BLOCK;

/// The longest of the small files; a tokenizer for many languages takes 20 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Larger than any BERT; what is beyond is a mistake or malice.
const MAX_WIDTH: usize = 8192;
const MAX_LAYERS: usize = 96;
const MAX_WORDS: usize = 1 << 20;
const MAX_POSITIONS: usize = 8192;
/// The first token, the last, and one between them.
const MIN_POSITIONS: usize = 3;

/// Why a folder is not taken.
#[derive(Debug, thiserror::Error)]
pub enum EmbedderLoadError {
    #[error("{} cannot be read: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} cannot be used: {what}", .path.display())]
    Unfit { path: PathBuf, what: String },
    #[error("a thread for embeddings cannot be started: {0}")]
    Thread(io::Error),
}

impl EmbedderLoadError {
    pub(super) fn unfit(path: &Path, what: impl Into<String>) -> Self {
        EmbedderLoadError::Unfit { path: path.into(), what: what.into() }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| EmbedderLoadError::Read { path: path.into(), source }
    }
}

/// How the vectors of a text's tokens become the text's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean, as all-MiniLM does it.
    Mean,
    /// The first token's, as bge does it.
    First,
}

/// The sizes of a network, checked; their names are those of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct BertShape {
    model_type: String,
    hidden_act: String,
    position_embedding_type: Option<String>,
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) vocab_size: usize,
    pub(super) max_position_embeddings: usize,
    pub(super) type_vocab_size: usize,
    pub(super) layer_norm_eps: f32,
}

#[derive(Deserialize)]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

#[derive(Deserialize)]
struct SentenceFile {
    max_seq_length: Option<usize>,
}

impl BertShape {
    pub(super) fn read(folder: &Path) -> Result<Self, EmbedderLoadError> {
        let path = folder.join("config.json");
        let shape: Self = json(&path)?;
        shape.check().map_err(|what| EmbedderLoadError::unfit(&path, what))?;
        Ok(shape)
    }

    fn check(&self) -> Result<(), String> {
        let position = self.position_embedding_type.as_deref().unwrap_or("absolute");
        if self.model_type != "bert" || self.hidden_act != "gelu" || position != "absolute" {
            return Err("only BERT with GELU and absolute positions is supported".into());
        }
        let sizes = [
            ("hidden_size", self.hidden_size, 1, MAX_WIDTH),
            ("intermediate_size", self.intermediate_size, 1, MAX_WIDTH),
            ("num_hidden_layers", self.num_hidden_layers, 1, MAX_LAYERS),
            ("num_attention_heads", self.num_attention_heads, 1, self.hidden_size),
            ("vocab_size", self.vocab_size, 1, MAX_WORDS),
            ("max_position_embeddings", self.max_position_embeddings, MIN_POSITIONS, MAX_POSITIONS),
            ("type_vocab_size", self.type_vocab_size, 1, MAX_WIDTH),
        ];
        if let Some((name, size, least, most)) =
            sizes.into_iter().find(|(_, size, least, most)| size < least || size > most)
        {
            return Err(format!("{name} is {size}, not from {least} to {most}"));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "{} heads cannot divide {} dimensions evenly",
                self.num_attention_heads, self.hidden_size
            ));
        }
        if [self.hidden_size, self.intermediate_size].iter().any(|size| !size.is_multiple_of(BLOCK)) {
            return Err(format!("hidden_size and intermediate_size have to be multiples of {BLOCK}"));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            return Err(format!("layer_norm_eps is {}", self.layer_norm_eps));
        }
        Ok(())
    }
}

/// A wrong guess would go unnoticed and give poor vectors, so a folder that does not say is refused.
pub(super) fn pooling(folder: &Path) -> Result<Pooling, EmbedderLoadError> {
    let path = folder.join("1_Pooling/config.json");
    let file: PoolingFile = json(&path)?;
    match (file.pooling_mode_cls_token, file.pooling_mode_mean_tokens) {
        (false, true) => Ok(Pooling::Mean),
        (true, false) => Ok(Pooling::First),
        (true, true) | (false, false) => Err(EmbedderLoadError::unfit(
            &path,
            "it must select exactly one of mean pooling and first-token pooling",
        )),
    }
}

/// Tokens of a text that are read: what the model was trained with, or all its positions where it does not say.
pub(super) fn max_tokens(folder: &Path, positions: usize) -> Result<usize, EmbedderLoadError> {
    let path = folder.join("sentence_bert_config.json");
    if !path.exists() {
        return Ok(positions);
    }
    let file: SentenceFile = json(&path)?;
    match file.max_seq_length.unwrap_or(positions) {
        length if length < MIN_POSITIONS => Err(EmbedderLoadError::unfit(
            &path,
            format!("max_seq_length is {length}, fewer than {MIN_POSITIONS}"),
        )),
        length => Ok(length.min(positions)),
    }
}

pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, EmbedderLoadError> {
    let mut text = String::new();
    let file = File::open(path).map_err(EmbedderLoadError::read(path))?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(EmbedderLoadError::read(path))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(EmbedderLoadError::unfit(path, format!("it is longer than {MAX_FILE_BYTES} bytes")));
    }
    serde_json::from_str(&text).map_err(|error| EmbedderLoadError::unfit(path, error.to_string()))
}
