//! The network: word pieces in, one vector for each text out.
//!
//! The tokens of all texts of a batch stand in one matrix, one text after the other, so the large products are made
//! once for all and no row is filling; only attention looks at one text at a time. A text's vector does not depend on
//! the other texts.

use std::path::Path;

use super::load::{BertShape, EmbedderLoadError, Pooling};
use super::weights::BertWeights;
use crate::kernels::{Activations, Attention, Cpu, KernelPool, Matrix, add, attend, centre, dot, gelu};

pub(super) struct Bert {
    shape: BertShape,
    pooling: Pooling,
    words: Vec<f32>,
    /// With the kind of the first sentence added, since there is no second one.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    /// Queries, keys and values at once.
    attention: Linear,
    attended: Linear,
    attended_norm: Norm,
    widen: Linear,
    narrow: Linear,
    narrow_norm: Norm,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

/// A layer that multiplies by what was learnt and adds to it.
struct Linear {
    matrix: Matrix,
    bias: Vec<f32>,
    precision: Precision,
}

/// How exactly a layer takes what it multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// Eight bits.
    Plain,
    /// Sixteen, for rows that were normalised: a few of their numbers are far larger than the others, which eight bits
    /// would leave little of.
    Fine,
}

/// The machine that computes: its instructions and its threads.
pub(super) struct Machine {
    pub(super) cpu: Cpu,
    pub(super) pool: KernelPool,
}

/// Room that is kept from one batch to the next.
#[derive(Default)]
pub(super) struct Room {
    hidden: Vec<f32>,
    joined: Vec<f32>,
    context: Vec<f32>,
    added: Vec<f32>,
    inner: Vec<f32>,
    work: Work,
    /// One for each head of each text.
    heads: Vec<Head>,
}

/// Buffers of a product on its way.
#[derive(Default)]
struct Work {
    activations: Activations,
    /// Each row of a product in two parts.
    halves: Vec<f32>,
}

/// Keys and values by which the tokens of a text ask each other.
#[derive(Default)]
struct Head {
    keys: Vec<f32>,
    values: Vec<f32>,
    /// The values that the tokens get.
    taken: Vec<f32>,
}

impl Bert {
    pub(super) fn read(folder: &Path, pooling: Pooling) -> Result<Self, EmbedderLoadError> {
        let shape = BertShape::read(folder)?;
        let mut weights = BertWeights::open(&folder.join("model.safetensors"))?;
        let BertShape { hidden_size: hidden, .. } = shape;
        let words = weights.read("embeddings.word_embeddings.weight", &[shape.vocab_size, hidden])?;
        let kinds =
            weights.read("embeddings.token_type_embeddings.weight", &[shape.type_vocab_size, hidden])?;
        let mut positions = weights
            .read("embeddings.position_embeddings.weight", &[shape.max_position_embeddings, hidden])?;
        positions.chunks_exact_mut(hidden).for_each(|row| add(row, kinds.get(..hidden).unwrap_or_default()));
        let norm = Norm::read(&mut weights, "embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.num_hidden_layers)
            .map(|index| Layer::read(&mut weights, index, &shape))
            .collect::<Result<_, _>>()?;
        Ok(Self { shape, pooling, words, positions, norm, layers })
    }

    pub(super) fn shape(&self) -> &BertShape {
        &self.shape
    }

    /// Memory that the weights take.
    pub(super) fn bytes(&self) -> usize {
        let layers = self.layers.iter();
        let linear =
            layers.flat_map(|layer| [&layer.attention, &layer.attended, &layer.widen, &layer.narrow]);
        let tables = size_of_val(self.words.as_slice()) + size_of_val(self.positions.as_slice());
        tables + linear.map(Linear::bytes).sum::<usize>()
    }

    /// One vector of length one for each text, in their order.
    pub(super) fn embed(&self, machine: &mut Machine, texts: &[Vec<u32>], room: &mut Room) -> Vec<Vec<f32>> {
        self.look_up(machine, texts, &mut room.hidden);
        for layer in &self.layers {
            self.apply(machine, layer, texts, room);
        }
        let rows = rows_of(texts, &room.hidden, self.shape.hidden_size);
        rows.into_iter().map(|own| self.pool(own)).collect()
    }

    fn look_up(&self, machine: &mut Machine, texts: &[Vec<u32>], hidden: &mut Vec<f32>) {
        let width = self.shape.hidden_size;
        hidden.clear();
        for text in texts {
            for (id, position) in text.iter().zip(self.positions.chunks_exact(width)) {
                let start = hidden.len();
                let word = *id as usize * width;
                // The tokenizer was checked against the table, so each word has a row in it.
                hidden.extend_from_slice(self.words.get(word..word + width).unwrap_or(position));
                add(hidden.get_mut(start..).unwrap_or_default(), position);
            }
        }
        self.norm.apply(machine, hidden, &[]);
    }

    fn apply(&self, machine: &mut Machine, layer: &Layer, texts: &[Vec<u32>], room: &mut Room) {
        let Room { hidden, joined, context, added, inner, work, heads } = room;
        layer.attention.apply(machine, hidden, joined, work);
        self.attend(machine, texts, joined, heads);
        self.gather(texts, heads, context);
        layer.attended.apply(machine, context, added, work);
        layer.attended_norm.apply(machine, hidden, added);
        layer.widen.apply(machine, hidden, inner, work);
        let cpu = machine.cpu;
        machine.pool.run_each(inner, self.shape.intermediate_size, |_, row| gelu(cpu, row));
        layer.narrow.apply(machine, inner, added, work);
        layer.narrow_norm.apply(machine, hidden, added);
    }

    /// For each text and head: how much each token takes from each, and what it takes.
    fn attend(&self, machine: &mut Machine, texts: &[Vec<u32>], joined: &[f32], heads: &mut Vec<Head>) {
        let BertShape { hidden_size: hidden, num_attention_heads: count, .. } = self.shape;
        let parts = rows_of(texts, joined, 3 * hidden);
        if heads.len() < texts.len() * count {
            heads.resize_with(texts.len() * count, Head::default);
        }
        let cpu = machine.cpu;
        let used = heads.get_mut(..texts.len() * count).unwrap_or_default();
        machine.pool.run_each(used, 1, |piece, heads| {
            for (room, own) in heads.iter_mut().zip(parts.get(piece / count)) {
                self.attend_with(cpu, piece % count, own, room);
            }
        });
    }

    fn attend_with(&self, cpu: Cpu, head: usize, joined: &[f32], room: &mut Head) {
        let Head { keys, values, taken } = room;
        let hidden = self.shape.hidden_size;
        let width = hidden / self.shape.num_attention_heads;
        let rows = joined.chunks_exact(3 * hidden);
        let part = |row: &'_ [f32], which: usize| {
            let start = which * hidden + head * width;
            start..(start + width).min(row.len())
        };
        keys.clear();
        values.clear();
        for row in rows.clone() {
            keys.extend_from_slice(row.get(part(row, 1)).unwrap_or_default());
            values.extend_from_slice(row.get(part(row, 2)).unwrap_or_default());
        }
        taken.resize(keys.len(), 0.0);
        for (row, out) in rows.zip(taken.chunks_exact_mut(width)) {
            let query = row.get(part(row, 0)).unwrap_or_default();
            attend(cpu, &Attention { query, keys, values }, out);
        }
    }

    /// Puts the results of the heads side by side again.
    fn gather(&self, texts: &[Vec<u32>], heads: &[Head], context: &mut Vec<f32>) {
        let BertShape { hidden_size: hidden, num_attention_heads: count, .. } = self.shape;
        let width = hidden / count;
        context.clear();
        for (text, heads) in texts.iter().zip(heads.chunks_exact(count)) {
            for token in 0..text.len() {
                let parts =
                    heads.iter().filter_map(|head| head.taken.get(token * width..(token + 1) * width));
                parts.for_each(|part| context.extend_from_slice(part));
            }
        }
    }

    fn pool(&self, tokens: &[f32]) -> Vec<f32> {
        let mut rows = tokens.chunks_exact(self.shape.hidden_size);
        let mut vector = rows.next().unwrap_or_default().to_vec();
        match self.pooling {
            // The length becomes one below, so a sum is as good as a mean.
            Pooling::Mean => rows.for_each(|row| add(&mut vector, row)),
            Pooling::First => {}
        }
        let length = dot(&vector, &vector).sqrt().max(f32::MIN_POSITIVE);
        vector.iter_mut().for_each(|value| *value /= length);
        vector
    }
}

impl Layer {
    fn read(weights: &mut BertWeights, index: usize, shape: &BertShape) -> Result<Self, EmbedderLoadError> {
        let BertShape { hidden_size: hidden, intermediate_size: inner, .. } = *shape;
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let part = name(&format!("attention.self.{part}"));
            weight.extend(weights.read(&format!("{part}.weight"), &[hidden, hidden])?);
            bias.extend(weights.read(&format!("{part}.bias"), &[hidden])?);
        }
        let mut linear = |part: &str, inputs: usize, outputs: usize, precision: Precision| {
            let weight = weights.read(&format!("{}.weight", name(part)), &[outputs, inputs])?;
            let bias = weights.read(&format!("{}.bias", name(part)), &[outputs])?;
            Ok::<_, EmbedderLoadError>(Linear::new(&weight, bias, inputs, precision))
        };
        let attended = linear("attention.output.dense", hidden, hidden, Precision::Plain)?;
        let widen = linear("intermediate.dense", hidden, inner, Precision::Fine)?;
        let narrow = linear("output.dense", inner, hidden, Precision::Plain)?;
        Ok(Self {
            attention: Linear::new(&weight, bias, hidden, Precision::Fine),
            attended,
            attended_norm: Norm::read(weights, &name("attention.output.LayerNorm"), shape)?,
            widen,
            narrow,
            narrow_norm: Norm::read(weights, &name("output.LayerNorm"), shape)?,
        })
    }
}

impl Linear {
    /// `weight` has a row of `inputs` numbers for each of the outputs, `bias` a number.
    fn new(weight: &[f32], bias: Vec<f32>, inputs: usize, precision: Precision) -> Self {
        let mut matrix = Matrix::new(inputs);
        weight.chunks_exact(inputs.max(1)).for_each(|row| matrix.push(row));
        Self { matrix, bias, precision }
    }

    fn bytes(&self) -> usize {
        self.matrix.bytes() + size_of_val(self.bias.as_slice())
    }

    fn apply(&self, machine: &mut Machine, input: &[f32], output: &mut Vec<f32>, work: &mut Work) {
        let Machine { cpu, pool } = machine;
        let (inputs, width) = (self.matrix.columns().max(1), self.matrix.width().max(1));
        let count = input.len() / inputs;
        output.resize(count * width, 0.0);
        match self.precision {
            Precision::Plain => {
                work.activations.fill(*cpu, pool, input, inputs);
                self.matrix.multiply(*cpu, pool, &work.activations, output);
                pool.run_each(output, width, |_, row| add(row, &self.bias));
            }
            Precision::Fine => {
                work.activations.fill_fine(*cpu, pool, input, inputs);
                work.halves.resize(2 * count * width, 0.0);
                self.matrix.multiply(*cpu, pool, &work.activations, &mut work.halves);
                let halves = &work.halves;
                pool.run_each(output, width, |index, row| {
                    let start = 2 * index * width;
                    row.iter_mut().zip(&self.bias).for_each(|(value, bias)| *value = *bias);
                    add(row, halves.get(start..start + width).unwrap_or_default());
                    add(row, halves.get(start + width..).unwrap_or_default());
                });
            }
        }
    }
}

impl Norm {
    fn read(weights: &mut BertWeights, name: &str, shape: &BertShape) -> Result<Self, EmbedderLoadError> {
        let weight = weights.read(&format!("{name}.weight"), &[shape.hidden_size])?;
        let bias = weights.read(&format!("{name}.bias"), &[shape.hidden_size])?;
        Ok(Self { weight, bias, epsilon: shape.layer_norm_eps })
    }

    /// Adds to each row, if there is something to add, and normalises it.
    fn apply(&self, machine: &mut Machine, values: &mut [f32], added: &[f32]) {
        let (width, cpu) = (self.weight.len().max(1), machine.cpu);
        machine.pool.run_each(values, width, |index, row| {
            add(row, added.get(index * width..).unwrap_or_default());
            centre(cpu, row, (&self.weight, &self.bias), self.epsilon);
        });
    }
}

/// The rows of each text, of this width for each of its tokens.
fn rows_of<'r>(texts: &[Vec<u32>], mut rows: &'r [f32], width: usize) -> Vec<&'r [f32]> {
    let own = |text: &Vec<u32>| {
        let (own, others) = rows.split_at_checked(text.len() * width).unwrap_or_default();
        rows = others;
        own
    };
    texts.iter().map(own).collect()
}
