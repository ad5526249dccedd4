//! A model from a GGUF file.

use super::{Layer, Llama, LlamaShape, MAX_PAIRS};
use crate::gguf::{Gguf, GgufError};
use crate::kernels::{BLOCK, GROUP, Matrix};

const MAX_LAYERS: usize = 512;
const MAX_WIDTH: usize = 1 << 16;
const MAX_HEADS: usize = 512;
const MAX_CONTEXT: usize = 1 << 20;
/// Defaults for files that do not say how fast positions turn, or how small a norm may get.
const DEFAULT_BASE: f32 = 10_000.0;
const DEFAULT_EPSILON: f32 = 1e-5;

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LlamaLoadError {
    #[error(transparent)]
    File(#[from] GgufError),
    #[error("models of the family `{0}` are not supported; use one of llama, qwen2 or qwen3")]
    Family(String),
    #[error("the model's {0} is not supported")]
    Unsupported(&'static str),
    #[error("the threads of the model cannot be started: {0}")]
    Threads(#[from] std::io::Error),
}

/// Reads a model's weights. Its context may be limited further, since memory grows with it.
pub fn load(file: &mut Gguf, max_context: usize) -> Result<Llama, LlamaLoadError> {
    let mut shape = shape(file)?;
    shape.context = shape.context.min(max_context);
    let (pairs, base) = read_rotation(file, &shape)?;
    let speeds = (0..pairs).map(|pair| base.powf(-(pair as f32) / pairs as f32)).collect();
    let mut layers = Vec::new();
    for index in 0..shape.layers {
        layers.push(layer(file, &shape, index)?);
    }
    let embedding = matrix(file, &[("token_embd.weight".into(), shape.vocabulary)], shape.width)?;
    let mut output = None;
    if file.tensor("output.weight").is_ok() {
        output = Some(matrix(file, &[("output.weight".into(), shape.vocabulary)], shape.width)?);
    }
    let norm = file.vector("output_norm.weight", shape.width)?;
    let mut model = Llama { shape, embedding, output, norm, layers, speeds };
    if file.tensor("rope_freqs.weight").is_ok() {
        let factors = file.vector("rope_freqs.weight", pairs)?;
        for (speed, factor) in model.speeds.iter_mut().zip(factors) {
            *speed /= factor;
        }
    }
    Ok(model)
}

fn shape(file: &Gguf) -> Result<LlamaShape, LlamaLoadError> {
    let family = file.text("general.architecture").unwrap_or_default().to_owned();
    if !["llama", "qwen2", "qwen3"].contains(&family.as_str()) {
        return Err(LlamaLoadError::Family(family));
    }
    let size = |key: &str, max: usize| {
        let key = format!("{family}.{key}");
        let found = file.integer::<usize>(&key).filter(|value| (1..=max).contains(value));
        found.ok_or(GgufError::NoEntry(key))
    };
    let width = size("embedding_length", MAX_WIDTH)?;
    let heads = size("attention.head_count", MAX_HEADS)?;
    let mut shape = LlamaShape {
        layers: size("block_count", MAX_LAYERS)?,
        width,
        heads,
        key_heads: size("attention.head_count_kv", heads).unwrap_or(heads),
        head_size: size("attention.key_length", 2 * MAX_PAIRS).unwrap_or(width / heads),
        feed_forward: size("feed_forward_length", MAX_WIDTH)?,
        context: size("context_length", MAX_CONTEXT)?,
        vocabulary: file.tensor("token_embd.weight")?.rows,
        epsilon: file
            .number(&format!("{family}.attention.layer_norm_rms_epsilon"))
            .unwrap_or(DEFAULT_EPSILON),
        apart: 1,
    };
    if family != "llama" {
        shape.apart = read_rotation(file, &shape)?.0;
    }
    let whole_blocks = [shape.width, shape.queries(), shape.feed_forward];
    if whole_blocks.iter().any(|size| !size.is_multiple_of(BLOCK)) {
        return Err(LlamaLoadError::Unsupported("width"));
    }
    if !shape.heads.is_multiple_of(shape.key_heads) || !shape.head_size.is_multiple_of(GROUP) {
        return Err(LlamaLoadError::Unsupported("number or size of heads"));
    }
    Ok(shape)
}

/// How many pairs of a head positions turn, and the base of their speeds.
fn read_rotation(file: &Gguf, shape: &LlamaShape) -> Result<(usize, f32), LlamaLoadError> {
    let family = file.text("general.architecture").unwrap_or_default();
    let scaling = file.text(&format!("{family}.rope.scaling.type"));
    if scaling.is_some_and(|scaling| scaling != "none") {
        return Err(LlamaLoadError::Unsupported("way of stretching its context"));
    }
    let turned = file.integer(&format!("{family}.rope.dimension_count")).unwrap_or(shape.head_size);
    let pairs = turned / 2;
    if pairs == 0 || turned > shape.head_size || pairs > MAX_PAIRS {
        return Err(LlamaLoadError::Unsupported("encoding of positions"));
    }
    Ok((pairs, file.number(&format!("{family}.rope.freq_base")).unwrap_or(DEFAULT_BASE)))
}

fn layer(file: &mut Gguf, shape: &LlamaShape, index: usize) -> Result<Layer, LlamaLoadError> {
    let name = |part: &str| format!("blk.{index}.{part}");
    let (queries, keys) = (shape.queries(), shape.keys());
    let attention =
        [(name("attn_q.weight"), queries), (name("attn_k.weight"), keys), (name("attn_v.weight"), keys)];
    let feed_in =
        [(name("ffn_gate.weight"), shape.feed_forward), (name("ffn_up.weight"), shape.feed_forward)];
    let feed_out = matrix(file, &[(name("ffn_down.weight"), shape.width)], shape.feed_forward)?;
    let mut bias = None;
    if file.tensor(&name("attn_q.bias")).is_ok() {
        let mut all = file.vector(&name("attn_q.bias"), queries)?;
        all.extend(file.vector(&name("attn_k.bias"), keys)?);
        all.extend(file.vector(&name("attn_v.bias"), keys)?);
        bias = Some(all);
    }
    let mut head_norms = None;
    if file.tensor(&name("attn_q_norm.weight")).is_ok() {
        let queries = file.vector(&name("attn_q_norm.weight"), shape.head_size)?;
        head_norms = Some((queries, file.vector(&name("attn_k_norm.weight"), shape.head_size)?));
    }
    Ok(Layer {
        attention_norm: file.vector(&name("attn_norm.weight"), shape.width)?,
        attention: matrix(file, &attention, shape.width)?,
        bias,
        head_norms,
        output: matrix(file, &[(name("attn_output.weight"), shape.width)], queries)?,
        feed_norm: file.vector(&name("ffn_norm.weight"), shape.width)?,
        feed_in: matrix(file, &feed_in, shape.width)?,
        feed_out,
    })
}

/// Tensors with these rows, one below the other.
fn matrix(file: &mut Gguf, parts: &[(String, usize)], columns: usize) -> Result<Matrix, LlamaLoadError> {
    let mut matrix = Matrix::new(columns);
    for (name, rows) in parts {
        let tensor = file.tensor(name)?;
        if (tensor.columns, tensor.rows) != (columns, *rows) {
            return Err(GgufError::Shape(name.clone()).into());
        }
        file.rows(name, |row| matrix.push(row))?;
    }
    Ok(matrix)
}
