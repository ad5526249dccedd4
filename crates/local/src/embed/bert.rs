//! The network: word pieces in, one vector for each text out.
//!
//! The tokens of all texts of a batch stand in one matrix, one text after the other, so the large products are made once
//! for all and no row is filling; only attention looks at one text at a time. A text's vector is the same whatever stands
//! beside it.

use std::path::Path;

use super::cpu::Cpu;
use super::functions;
use super::load::{LoadError, Pooling, Shape};
use super::matrix::{Linear, Panels, Rows, Target, View, multiply};
use super::weights::Weights;

#[derive(Debug)]
pub(super) struct Bert {
    cpu: Cpu,
    shape: Shape,
    pooling: Pooling,
    words: Vec<f32>,
    /// With the kind of the first sentence added, since there is no second one.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    /// Queries, keys and values at once.
    attention: Linear,
    attended: Linear,
    attended_norm: Norm,
    widen: Linear,
    narrow: Linear,
    narrow_norm: Norm,
}

#[derive(Debug)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

/// Room that a thread keeps from one batch to the next.
#[derive(Debug, Default)]
pub(super) struct Room {
    hidden: Vec<f32>,
    joined: Vec<f32>,
    context: Vec<f32>,
    added: Vec<f32>,
    inner: Vec<f32>,
    rows: Rows,
    heads: Heads,
}

#[derive(Debug, Default)]
struct Heads {
    rows: Rows,
    panels: Panels,
    scores: Vec<f32>,
}

impl Bert {
    pub(super) fn read(folder: &Path, pooling: Pooling, cpu: Cpu) -> Result<Self, LoadError> {
        let shape = Shape::read(folder)?;
        let mut weights = Weights::open(&folder.join("model.safetensors"))?;
        let Shape { hidden, .. } = shape;
        let words = weights.read("embeddings.word_embeddings.weight", &[shape.words, hidden])?;
        let kinds = weights.read("embeddings.token_type_embeddings.weight", &[shape.kinds, hidden])?;
        let mut positions =
            weights.read("embeddings.position_embeddings.weight", &[shape.positions, hidden])?;
        positions.chunks_exact_mut(hidden).for_each(|row| add(row, kinds.get(..hidden).unwrap_or_default()));
        let norm = Norm::read(&mut weights, "embeddings.LayerNorm", &shape)?;
        let layers = (0..shape.layers)
            .map(|index| Layer::read(&mut weights, index, &shape))
            .collect::<Result<_, _>>()?;
        Ok(Self { cpu, shape, pooling, words, positions, norm, layers })
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// One vector of length one for each text, in their order.
    pub(super) fn embed(&self, texts: &[Vec<u32>], room: &mut Room) -> Vec<Vec<f32>> {
        self.look_up(texts, &mut room.hidden);
        for layer in &self.layers {
            self.apply(layer, texts, room);
        }
        let mut rest = room.hidden.as_slice();
        let pooled = texts.iter().map(|text| {
            let (own, others) = rest.split_at_checked(text.len() * self.shape.hidden).unwrap_or_default();
            rest = others;
            self.pool(own)
        });
        pooled.collect()
    }

    fn look_up(&self, texts: &[Vec<u32>], hidden: &mut Vec<f32>) {
        let width = self.shape.hidden;
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
        self.norm.apply(self.cpu, hidden);
    }

    fn apply(&self, layer: &Layer, texts: &[Vec<u32>], room: &mut Room) {
        let Room { hidden, joined, context, added, inner, rows, heads } = room;
        let cpu = self.cpu;
        layer.attention.apply(cpu, hidden, joined, rows);
        context.resize(hidden.len(), 0.0);
        self.attend(texts, joined, context, heads);
        layer.attended.apply(cpu, context, added, rows);
        add(hidden, added);
        layer.attended_norm.apply(cpu, hidden);
        layer.widen.apply(cpu, hidden, inner, rows);
        cpu.gelu(inner);
        layer.narrow.apply(cpu, inner, added, rows);
        add(hidden, added);
        layer.narrow_norm.apply(cpu, hidden);
    }

    /// For each text and head: how much each token takes from each, and what it takes.
    fn attend(&self, texts: &[Vec<u32>], mut joined: &[f32], mut context: &mut [f32], heads: &mut Heads) {
        let Shape { hidden, heads: count, .. } = self.shape;
        for text in texts {
            let tokens = text.len();
            let (own, others) = joined.split_at_checked(tokens * 3 * hidden).unwrap_or_default();
            let (target, targets) =
                std::mem::take(&mut context).split_at_mut_checked(tokens * hidden).unwrap_or_default();
            (joined, context) = (others, targets);
            for head in 0..count {
                self.attend_with(head, own, target, heads);
            }
        }
    }

    fn attend_with(&self, head: usize, joined: &[f32], context: &mut [f32], room: &mut Heads) {
        let Heads { rows, panels, scores } = room;
        let hidden = self.shape.hidden;
        let width = hidden / self.shape.heads;
        let tokens = context.len() / hidden;
        let part = |which| View::columns(joined, 3 * hidden, which * hidden + head * width, width);
        rows.fill(part(0));
        panels.fill_turned(part(1));
        scores.resize(tokens * tokens, 0.0);
        let mut target = Target { data: scores, stride: tokens, from: 0, width: tokens };
        multiply(self.cpu, rows, panels, &mut target);
        let scale = 1.0 / (width as f32).sqrt();
        scores.chunks_exact_mut(tokens.max(1)).for_each(|scores| self.cpu.softmax(scores, scale));
        rows.fill(View::whole(scores, tokens));
        panels.fill(part(2));
        let mut target = Target { data: context, stride: hidden, from: head * width, width };
        multiply(self.cpu, rows, panels, &mut target);
    }

    fn pool(&self, tokens: &[f32]) -> Vec<f32> {
        let mut rows = tokens.chunks_exact(self.shape.hidden);
        let mut vector = rows.next().unwrap_or_default().to_vec();
        match self.pooling {
            // The length becomes one below, so a sum is as good as a mean.
            Pooling::Mean => rows.for_each(|row| add(&mut vector, row)),
            Pooling::First => {}
        }
        let length = functions::squares(&vector).sqrt().max(f32::MIN_POSITIVE);
        vector.iter_mut().for_each(|value| *value /= length);
        vector
    }
}

impl Layer {
    fn read(weights: &mut Weights, index: usize, shape: &Shape) -> Result<Self, LoadError> {
        let Shape { hidden, inner, .. } = *shape;
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let part = name(&format!("attention.self.{part}"));
            weight.extend(weights.read(&format!("{part}.weight"), &[hidden, hidden])?);
            bias.extend(weights.read(&format!("{part}.bias"), &[hidden])?);
        }
        let mut linear = |part: &str, inputs: usize, outputs: usize| {
            let weight = weights.read(&format!("{}.weight", name(part)), &[outputs, inputs])?;
            let bias = weights.read(&format!("{}.bias", name(part)), &[outputs])?;
            Ok::<_, LoadError>(Linear::new(&weight, &bias, inputs))
        };
        let attended = linear("attention.output.dense", hidden, hidden)?;
        let widen = linear("intermediate.dense", hidden, inner)?;
        let narrow = linear("output.dense", inner, hidden)?;
        Ok(Self {
            attention: Linear::new(&weight, &bias, hidden),
            attended,
            attended_norm: Norm::read(weights, &name("attention.output.LayerNorm"), shape)?,
            widen,
            narrow,
            narrow_norm: Norm::read(weights, &name("output.LayerNorm"), shape)?,
        })
    }
}

impl Norm {
    fn read(weights: &mut Weights, name: &str, shape: &Shape) -> Result<Self, LoadError> {
        let weight = weights.read(&format!("{name}.weight"), &[shape.hidden])?;
        let bias = weights.read(&format!("{name}.bias"), &[shape.hidden])?;
        Ok(Self { weight, bias, epsilon: shape.epsilon })
    }

    fn apply(&self, cpu: Cpu, values: &mut [f32]) {
        for row in values.chunks_exact_mut(self.weight.len().max(1)) {
            cpu.normalise(row, &self.weight, &self.bias, self.epsilon);
        }
    }
}

fn add(values: &mut [f32], added: &[f32]) {
    values.iter_mut().zip(added).for_each(|(value, added)| *value += added);
}
