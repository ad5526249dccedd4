//! What is done to rows of numbers between the products, written so that the compiler turns it into wide instructions.

/// Numbers that are summed side by side.
const LANES: usize = 16;

/// `x` times the share of a normal distribution below it.
#[inline(always)]
pub(super) fn gelu(values: &mut [f32]) {
    for value in values {
        *value *= 0.5 + 0.5 * error_function(*value * std::f32::consts::FRAC_1_SQRT_2);
    }
}

/// A quotient of two polynomials, less than 1e-6 away from it everywhere.
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let above = -2.726_142_3e-10;
    let above = above * square + 2.770_681_4e-8;
    let above = above * square - 2.101_024e-6;
    let above = above * square - 5.692_506_4e-5;
    let above = above * square - 7.349_906_3e-4;
    let above = above * square - 2.954_6e-3;
    let above = above * square - 1.609_603_3e-2;
    let below = -1.456_607_15e-5;
    let below = below * square - 2.133_740_5e-4;
    let below = below * square - 1.682_827e-3;
    let below = below * square - 7.373_329_3e-3;
    let below = below * square - 1.426_473_9e-2;
    x * above / below
}

/// The scores as shares of one.
#[inline(always)]
pub(super) fn softmax(scores: &mut [f32], scale: f32) {
    let largest = fold(scores, f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = exponential((*score - largest) * scale);
    }
    let part = 1.0 / fold(scores, 0.0, |sum, score| sum + score);
    for score in scores {
        *score *= part;
    }
}

/// For numbers that are not positive: a power of two, and a polynomial for what is left.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    // Adding this leaves the nearest whole number in the low bits.
    const ROUNDING: f32 = 12_582_912.0;
    const EXPONENT_BIAS: u32 = 127;
    const FRACTION_BITS: u32 = 23;
    let x = x.max(-87.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUNDING;
    let whole = rounded - ROUNDING;
    // The logarithm of two in two parts, so that nothing is lost in the difference.
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let sum = 1.987_569_1e-4;
    let sum = sum * rest + 1.398_199_9e-3;
    let sum = sum * rest + 8.333_452e-3;
    let sum = sum * rest + 4.166_579_6e-2;
    let sum = sum * rest + 1.666_666_5e-1;
    let sum = sum * rest + 0.5;
    let sum = sum * rest * rest + rest + 1.0;
    sum * f32::from_bits(rounded.to_bits().wrapping_add(EXPONENT_BIAS) << FRACTION_BITS)
}

/// Moved and stretched to a mean of nothing and a variance of one, and then as was learnt.
#[inline(always)]
pub(super) fn normalise(values: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) {
    let count = values.len() as f32;
    let mean = fold(values, 0.0, |sum, value| sum + value) / count;
    for value in values.iter_mut() {
        *value -= mean;
    }
    let variance = squares(values) / count;
    let scale = 1.0 / (variance + epsilon).sqrt();
    for ((value, weight), bias) in values.iter_mut().zip(weight).zip(bias) {
        *value = *value * scale * weight + bias;
    }
}

#[inline(always)]
pub(super) fn squares(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()
}

#[inline(always)]
fn fold(values: &[f32], start: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, *value);
        }
    }
    lanes.iter().chain(rest).fold(start, |sum, value| join(sum, *value))
}
