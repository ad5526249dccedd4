//! Models of the Llama family: what they are made of, and one step of them.
//!
//! `SmolLM2` and Llama 3 are such models, and so are Qwen 2 (which adds to its questions, keys and values) and Qwen 3
//! (which normalises questions and keys).

mod load;

use crate::kernels::{
    Activations, Attention, Cpu, KernelPool, Matrix, add, attend, normalise, rotate, swiglu,
};

pub use load::{LlamaLoadError, load};

/// Pairs per head that positions turn, at most: half of the longest head.
const MAX_PAIRS: usize = 256;
/// Positions by which a cache grows.
const GROWTH: usize = 256;

/// The numbers a model is described by.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaShape {
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    /// Heads that have keys and values of their own; several questions share one.
    pub key_heads: usize,
    pub head_size: usize,
    pub feed_forward: usize,
    pub context: usize,
    pub vocabulary: usize,
    epsilon: f32,
    /// How far apart the two numbers of a pair are that positions turn.
    apart: usize,
}

impl LlamaShape {
    fn queries(&self) -> usize {
        self.heads * self.head_size
    }

    fn keys(&self) -> usize {
        self.key_heads * self.head_size
    }

    /// Memory that a sequence of `tokens` tokens takes.
    pub fn cache_bytes(&self, tokens: usize) -> usize {
        let values = 2 * self.layers * self.keys() * tokens.next_multiple_of(GROWTH);
        values * size_of::<f32>()
    }
}

struct Layer {
    attention_norm: Vec<f32>,
    /// Questions, keys and values, one below the other.
    attention: Matrix,
    bias: Option<Vec<f32>>,
    /// Weights that normalise questions and keys.
    head_norms: Option<(Vec<f32>, Vec<f32>)>,
    output: Matrix,
    feed_norm: Vec<f32>,
    /// Gates and values, one below the other.
    feed_in: Matrix,
    feed_out: Matrix,
}

/// A model's weights, which never change.
pub struct Llama {
    pub shape: LlamaShape,
    embedding: Matrix,
    /// None if words are read and written with the same weights.
    output: Option<Matrix>,
    norm: Vec<f32>,
    layers: Vec<Layer>,
    /// How fast each pair of a head turns.
    speeds: Vec<f32>,
}

/// The state of a sequence so far: its tokens, and their keys and values by layer and head.
#[derive(Default)]
pub struct Cache {
    tokens: Vec<u32>,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Cache {
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Forgets everything but the first tokens.
    pub fn truncate(&mut self, shape: &LlamaShape, tokens: usize) {
        self.tokens.truncate(tokens);
        for list in self.keys.iter_mut().chain(&mut self.values) {
            list.truncate(tokens * shape.head_size);
        }
    }

    pub fn bytes(&self) -> usize {
        self.keys.iter().chain(&self.values).map(|list| list.capacity() * size_of::<f32>()).sum()
    }
}

/// A sequence that takes part in a step, with the tokens that follow what its cache holds.
pub struct StepPart<'a> {
    pub cache: &'a mut Cache,
    pub tokens: &'a [u32],
    /// The scores of the tokens that may come next, after the last of these tokens.
    pub scores: Option<&'a mut Vec<f32>>,
}

/// Computes steps. Its memory is kept from one to the next.
pub struct Runner {
    cpu: Cpu,
    pool: KernelPool,
    activations: Activations,
    /// One row per token.
    hidden: Vec<f32>,
    normed: Vec<f32>,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    result: Vec<f32>,
}

/// A token of a step: which sequence it belongs to, and where it stands in it.
#[derive(Clone, Copy)]
struct Place {
    part: usize,
    position: usize,
}

impl Runner {
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Ok(Self {
            cpu: Cpu::detect(),
            pool: KernelPool::new(threads)?,
            activations: Activations::default(),
            hidden: Vec::new(),
            normed: Vec::new(),
            wide: Vec::new(),
            narrow: Vec::new(),
            result: Vec::new(),
        })
    }

    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Lets every part take its tokens in. Their weights are read once for all of them, so a step with two sequences
    /// takes little longer than one with one.
    pub fn step(&mut self, model: &Llama, parts: &mut [StepPart<'_>]) {
        let mut places = Vec::new();
        for (index, part) in parts.iter_mut().enumerate() {
            let start = part.cache.tokens.len();
            places.extend((start..start + part.tokens.len()).map(|position| Place { part: index, position }));
            part.cache.tokens.extend_from_slice(part.tokens);
            part.cache.keys.resize_with(model.shape.layers * model.shape.key_heads, Vec::new);
            part.cache.values.resize_with(model.shape.layers * model.shape.key_heads, Vec::new);
        }
        let width = model.shape.width;
        self.hidden.resize(places.len() * width, 0.0);
        self.hidden.fill(0.0);
        let tokens = parts.iter().flat_map(|part| part.tokens);
        for (row, token) in self.hidden.chunks_exact_mut(width).zip(tokens) {
            model.embedding.row(*token as usize, row);
        }
        let turns: Vec<_> = places.iter().map(|place| model.turn(place.position)).collect();
        for (index, layer) in model.layers.iter().enumerate() {
            self.attention(model, (index, layer), (&places, &turns), parts);
            self.feed_forward(model, layer);
        }
        self.scores(model, parts);
    }

    fn attention(
        &mut self,
        model: &Llama,
        (index, layer): (usize, &Layer),
        (places, turns): (&[Place], &[Turn]),
        parts: &mut [StepPart<'_>],
    ) {
        let (shape, cpu) = (&model.shape, self.cpu);
        self.multiply_normed(&layer.attention_norm, shape, &layer.attention);
        let first = index * shape.key_heads;
        for ((row, place), turn) in self.wide.chunks_exact_mut(layer.attention.width()).zip(places).zip(turns)
        {
            prepare(cpu, layer, shape, row, turn);
            if let Some(part) = parts.get_mut(place.part) {
                remember(part.cache, shape, first, row);
            }
        }
        self.narrow.resize(places.len() * shape.queries(), 0.0);
        let (questions, stride) = (&self.wide, layer.attention.width());
        let parts = &*parts;
        self.pool.run_each(&mut self.narrow, shape.head_size, |piece, out| {
            let (row, head) = (piece / shape.heads, piece % shape.heads);
            let slot = first + head * shape.key_heads / shape.heads;
            let _ = answer(
                cpu,
                (questions, row * stride + head * shape.head_size),
                (parts, places.get(row), slot),
                out,
            );
        });
        self.add(shape, &layer.output, shape.queries());
    }

    fn feed_forward(&mut self, model: &Llama, layer: &Layer) {
        let (shape, cpu) = (&model.shape, self.cpu);
        self.multiply_normed(&layer.feed_norm, shape, &layer.feed_in);
        let (gates, stride) = (&self.wide, layer.feed_in.width());
        self.narrow.resize(gates.len() / stride * shape.feed_forward, 0.0);
        self.pool.run_each(&mut self.narrow, shape.feed_forward, |row, out| {
            if let Some(gates) = gates.get(row * stride..(row + 1) * stride) {
                swiglu(cpu, gates, out);
            }
        });
        self.add(shape, &layer.feed_out, shape.feed_forward);
    }

    /// Normalises what is hidden and multiplies it, into `wide`.
    fn multiply_normed(&mut self, norm: &[f32], shape: &LlamaShape, matrix: &Matrix) {
        let (cpu, width, hidden) = (self.cpu, shape.width, &self.hidden);
        self.normed.resize(hidden.len(), 0.0);
        self.pool.run_each(&mut self.normed, width, |row, out| {
            if let Some(row) = hidden.get(row * width..(row + 1) * width) {
                normalise(cpu, row, norm, shape.epsilon, out);
            }
        });
        self.activations.fill(self.cpu, &mut self.pool, &self.normed, width);
        self.wide.resize(hidden.len() / width * matrix.width(), 0.0);
        matrix.multiply(cpu, &mut self.pool, &self.activations, &mut self.wide);
    }

    /// Multiplies `narrow` and adds it to what is hidden.
    fn add(&mut self, shape: &LlamaShape, matrix: &Matrix, width: usize) {
        self.activations.fill(self.cpu, &mut self.pool, &self.narrow, width);
        self.result.resize(self.hidden.len() / shape.width * matrix.width(), 0.0);
        matrix.multiply(self.cpu, &mut self.pool, &self.activations, &mut self.result);
        let rows = self.hidden.chunks_exact_mut(shape.width);
        for (row, more) in rows.zip(self.result.chunks_exact(matrix.width())) {
            add(row, more);
        }
    }

    /// The scores of every part that wants them.
    fn scores(&mut self, model: &Llama, parts: &mut [StepPart<'_>]) {
        let width = model.shape.width;
        self.normed.clear();
        let mut end = 0;
        for part in parts.iter() {
            end += part.tokens.len();
            let last = end.checked_sub(1).and_then(|last| self.hidden.get(last * width..end * width));
            let (Some(_), Some(last)) = (&part.scores, last) else { continue };
            let start = self.normed.len();
            self.normed.resize(start + width, 0.0);
            let out = self.normed.get_mut(start..).unwrap_or_default();
            normalise(self.cpu, last, &model.norm, model.shape.epsilon, out);
        }
        let output = model.output.as_ref().unwrap_or(&model.embedding);
        self.activations.fill(self.cpu, &mut self.pool, &self.normed, width);
        self.result.resize(self.normed.len() / width * output.width(), 0.0);
        output.multiply(self.cpu, &mut self.pool, &self.activations, &mut self.result);
        let wanted = parts.iter_mut().filter_map(|part| part.scores.as_mut());
        for (scores, row) in wanted.zip(self.result.chunks_exact(output.width())) {
            scores.clear();
            scores.extend(row.iter().take(model.shape.vocabulary));
        }
    }
}

/// Sines and cosines of a position.
type Turn = Vec<(f32, f32)>;

impl Llama {
    fn turn(&self, position: usize) -> Turn {
        self.speeds.iter().map(|speed| (position as f32 * speed).sin_cos()).collect()
    }

    /// Memory that the weights take.
    pub fn bytes(&self) -> usize {
        let layers = self.layers.iter();
        let layers =
            layers.flat_map(|layer| [&layer.attention, &layer.output, &layer.feed_in, &layer.feed_out]);
        layers.chain([&self.embedding]).chain(&self.output).map(Matrix::bytes).sum()
    }
}

/// Adds what is to be added to questions, keys and values, and turns questions and keys to their position.
fn prepare(cpu: Cpu, layer: &Layer, shape: &LlamaShape, row: &mut [f32], turn: &Turn) {
    add(row, layer.bias.as_deref().unwrap_or_default());
    for (index, head) in row.chunks_exact_mut(shape.head_size).take(shape.heads + shape.key_heads).enumerate()
    {
        if let Some((queries, keys)) = &layer.head_norms {
            let weights = if index < shape.heads { queries } else { keys };
            let before = head.to_vec();
            normalise(cpu, &before, weights, shape.epsilon, head);
        }
        rotate(head, turn, shape.apart);
    }
}

/// Puts the keys and values of a row into the cache, from this slot on.
fn remember(cache: &mut Cache, shape: &LlamaShape, first: usize, row: &[f32]) {
    let heads = row.chunks_exact(shape.head_size).skip(shape.heads);
    let keys = cache.keys.iter_mut().skip(first).take(shape.key_heads);
    let values = cache.values.iter_mut().skip(first).take(shape.key_heads);
    for (list, head) in keys.chain(values).zip(heads) {
        // Doubling, which is what lists do by themselves, would take twice the memory a long conversation needs.
        if list.capacity() - list.len() < head.len() {
            list.reserve_exact(head.len() * GROWTH);
        }
        list.extend_from_slice(head);
    }
}

/// The result of one head of one token. Nothing is written if any of it is not there, which does not happen.
fn answer(
    cpu: Cpu,
    (questions, start): (&[f32], usize),
    (parts, place, slot): (&[StepPart<'_>], Option<&Place>, usize),
    out: &mut [f32],
) -> Option<()> {
    let place = place?;
    let cache = &parts.get(place.part)?.cache;
    let end = (place.position + 1) * out.len();
    let attention = Attention {
        query: questions.get(start..start + out.len())?,
        keys: cache.keys.get(slot)?.get(..end)?,
        values: cache.values.get(slot)?.get(..end)?,
    };
    attend(cpu, &attention, out);
    Some(())
}
