//! Arithmetic on plain numbers: norms, positions, gates and attention.
//!
//! Written so that the compiler makes wide instructions of it, once for each kind of processor.

use super::{Cpu, Level};

/// Sums that run side by side; as many as the widest registers hold.
const LANES: usize = 16;
/// Positions whose scores are known before the largest of them is looked for.
const STRIDE: usize = 64;

for_each_cpu!(
    /// Divides a row by the root of its mean square, and multiplies it with the weights.
    normalise = normalise_plain(row: &[f32], weights: &[f32], epsilon: f32, out: &mut [f32])
);

for_each_cpu!(
    /// Lets the first half of a row gate the second.
    swiglu = swiglu_plain(row: &[f32], out: &mut [f32])
);

for_each_cpu!(
    /// Multiplies each number with the share of a normal distribution below it.
    gelu = gelu_plain(values: &mut [f32])
);

for_each_cpu!(
    /// Moves and stretches a row to a mean of nothing and a variance of one, and then as was learnt: by a factor and a
    /// summand for each number.
    centre = centre_plain(row: &mut [f32], learnt: (&[f32], &[f32]), epsilon: f32)
);

for_each_cpu!(
    /// The result of one head over all positions so far.
    attend = attend_plain(attention: &Attention<'_>, out: &mut [f32])
);

/// One head's question, and what it is put to: as many keys and values as there are positions.
pub(crate) struct Attention<'a> {
    pub(crate) query: &'a [f32],
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
}

/// Adds to each number the one at its place.
#[inline(always)]
pub(crate) fn add(values: &mut [f32], added: &[f32]) {
    values.iter_mut().zip(added).for_each(|(value, added)| *value += added);
}

#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    join(lanes, |a, b| a + b) + rest
}

/// Joins lanes in halves, which takes four steps rather than sixteen.
#[inline(always)]
pub(super) fn join(mut lanes: [f32; LANES], two: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low = two(*low, *high);
        }
        half /= 2;
    }
    let [joined, ..] = lanes;
    joined
}

/// Joins a stride, many at a time.
#[inline(always)]
fn join_stride(stride: &[f32; STRIDE], two: impl Fn(f32, f32) -> f32) -> f32 {
    let ([first, rest @ ..], _) = stride.as_chunks::<LANES>() else { return 0.0 };
    let mut lanes = *first;
    for chunk in rest {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = two(*lane, *value);
        }
    }
    join(lanes, two)
}

#[inline(always)]
fn normalise_plain(row: &[f32], weights: &[f32], epsilon: f32, out: &mut [f32]) {
    let mean = dot(row, row) / row.len().max(1) as f32;
    let factor = 1.0 / (mean + epsilon).sqrt();
    for ((out, value), weight) in out.iter_mut().zip(row).zip(weights) {
        *out = value * factor * weight;
    }
}

#[inline(always)]
fn swiglu_plain(row: &[f32], out: &mut [f32]) {
    let (gates, values) = row.split_at(row.len() / 2);
    for ((out, gate), value) in out.iter_mut().zip(gates).zip(values) {
        *out = gate / (1.0 + exp(-gate)) * value;
    }
}

#[inline(always)]
fn gelu_plain(values: &mut [f32]) {
    for value in values {
        *value *= 0.5 + 0.5 * error_function(*value * std::f32::consts::FRAC_1_SQRT_2);
    }
}

/// A quotient of two polynomials, less than 1e-6 away from it everywhere.
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let mut above = -2.726_142_3e-10;
    for coefficient in
        [2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2]
    {
        above = above * square + coefficient;
    }
    let mut below = -1.456_607_15e-5;
    for coefficient in [-2.133_740_5e-4, -1.682_827e-3, -7.373_329_3e-3, -1.426_473_9e-2] {
        below = below * square + coefficient;
    }
    x * above / below
}

#[inline(always)]
fn centre_plain(row: &mut [f32], (factors, summands): (&[f32], &[f32]), epsilon: f32) {
    let count = row.len().max(1) as f32;
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let mean = (join(lanes, |a, b| a + b) + rest.iter().sum::<f32>()) / count;
    for value in row.iter_mut() {
        *value -= mean;
    }
    let scale = 1.0 / (dot(row, row) / count + epsilon).sqrt();
    for ((value, factor), summand) in row.iter_mut().zip(factors).zip(summands) {
        *value = *value * scale * factor + summand;
    }
}

/// The exponential function, to seven digits, without a branch.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding it leaves the nearest whole number in the last bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    // ln 2 in two parts, the first of which is exact in few bits.
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let mut power = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
        power = power * rest + coefficient;
    }
    f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Heads have one of a few sizes. Where the compiler knows it, sums stay in registers.
#[inline(always)]
fn attend_plain(attention: &Attention<'_>, out: &mut [f32]) {
    match attention.query.len() {
        32 => attend_sized::<32>(attention, out),
        64 => attend_sized::<64>(attention, out),
        128 => attend_sized::<128>(attention, out),
        _ => attend_pieces(attention, out),
    }
}

#[inline(always)]
fn attend_sized<const SIZE: usize>(attention: &Attention<'_>, out: &mut [f32]) {
    let (Some(query), Some(out)) = (attention.query.first_chunk::<SIZE>(), out.first_chunk_mut::<SIZE>())
    else {
        return;
    };
    let mut mean = Mean::default();
    let mut sums = [0.0; SIZE];
    let keys = attention.keys.as_chunks::<SIZE>().0.chunks(STRIDE);
    for (keys, values) in keys.zip(attention.values.as_chunks::<SIZE>().0.chunks(STRIDE)) {
        let scores = keys.iter().map(|key| dot(query, key));
        let weights = mean.weigh(scores, SIZE, &mut sums);
        for (weight, value) in weights.iter().zip(values) {
            for (sum, value) in sums.iter_mut().zip(value) {
                *sum += weight * value;
            }
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = sum / mean.total;
    }
}

#[inline(always)]
fn attend_pieces(attention: &Attention<'_>, out: &mut [f32]) {
    let size = attention.query.len().max(1);
    let mut mean = Mean::default();
    out.fill(0.0);
    let keys = attention.keys.chunks(STRIDE * size);
    for (keys, values) in keys.zip(attention.values.chunks(STRIDE * size)) {
        let scores = keys.chunks_exact(size).map(|key| dot(attention.query, key));
        let weights = mean.weigh(scores, size, out);
        for (weight, value) in weights.iter().zip(values.chunks_exact(size)) {
            for (out, value) in out.iter_mut().zip(value) {
                *out += weight * value;
            }
        }
    }
    for out in out.iter_mut() {
        *out /= mean.total;
    }
}

/// A weighted mean on its way. The scores of a stride of positions are turned into weights at once; when a larger one
/// appears, what has been added up so far is scaled down to it. So no list of all scores is kept.
struct Mean {
    largest: f32,
    total: f32,
}

impl Default for Mean {
    fn default() -> Self {
        Self { largest: f32::NEG_INFINITY, total: 0.0 }
    }
}

impl Mean {
    #[inline(always)]
    fn weigh(&mut self, scores: impl Iterator<Item = f32>, size: usize, sums: &mut [f32]) -> [f32; STRIDE] {
        let scale = 1.0 / (size as f32).sqrt();
        let mut weights = [f32::NEG_INFINITY; STRIDE];
        for (weight, score) in weights.iter_mut().zip(scores) {
            *weight = score * scale;
        }
        let before = self.largest;
        self.largest = before.max(join_stride(&weights, |a, b| if a > b { a } else { b }));
        let faded = exp(before - self.largest);
        self.total *= faded;
        for sum in sums.iter_mut() {
            *sum *= faded;
        }
        for weight in &mut weights {
            *weight = exp(*weight - self.largest);
        }
        self.total += join_stride(&weights, |a, b| a + b);
        weights
    }
}

/// Turns each pair of a head by its angle. Where the pairs are neighbours, as in Llama, `apart` is 1; where they are half
/// a head apart, as in Qwen, it is that half.
pub(crate) fn rotate(head: &mut [f32], angles: &[(f32, f32)], apart: usize) {
    for (pair, (sine, cosine)) in angles.iter().enumerate() {
        let first = if apart == 1 { 2 * pair } else { pair };
        let Ok([a, b]) = head.get_disjoint_mut([first, first + apart]) else { return };
        (*a, *b) = (*a * cosine - *b * sine, *a * sine + *b * cosine);
    }
}
