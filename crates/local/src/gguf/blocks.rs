//! How GGUF packs numbers into blocks, and how they are unpacked.

/// How a tensor's numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Numbers in a block of the larger kind, and in the smaller one.
const SUPER: usize = 256;
const SMALL: usize = 32;
const HALF: usize = SMALL / 2;

impl Encoding {
    pub(super) fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Numbers in one block.
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => SMALL,
            Self::Q4K | Self::Q5K | Self::Q6K => SUPER,
        }
    }

    /// Bytes of one block.
    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 2 + HALF,
            Self::Q4_1 => 4 + HALF,
            Self::Q5_0 => 2 + 4 + HALF,
            Self::Q5_1 => 4 + 4 + HALF,
            Self::Q8_0 => 2 + SMALL,
            Self::Q4K => 4 + 12 + SUPER / 2,
            Self::Q5K => 4 + 12 + SUPER / 8 + SUPER / 2,
            Self::Q6K => SUPER / 2 + SUPER / 4 + SUPER / 16 + 2,
        }
    }

    pub(super) fn row_bytes(self, columns: usize) -> usize {
        columns / self.block() * self.bytes()
    }

    pub(super) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        let blocks = bytes.chunks_exact(self.bytes()).zip(out.chunks_exact_mut(self.block()));
        for (block, out) in blocks {
            match self {
                Self::F32 => fill(out, [f32::from_le_bytes(head(block))]),
                Self::F16 => fill(out, [half_float(block)]),
                Self::Bf16 => fill(out, [f32::from_bits(u32::from(u16::from_le_bytes(head(block))) << 16)]),
                Self::Q4_0 => q4(half_float(block), -8.0 * half_float(block), tail(block, 2), out),
                Self::Q4_1 => q4(half_float(block), half_float(tail(block, 2)), tail(block, 4), out),
                Self::Q5_0 => q5(half_float(block), -16.0 * half_float(block), tail(block, 2), out),
                Self::Q5_1 => q5(half_float(block), half_float(tail(block, 2)), tail(block, 4), out),
                Self::Q8_0 => {
                    let scale = half_float(block);
                    fill(out, tail(block, 2).iter().map(|byte| scale * f32::from(byte.cast_signed())));
                }
                Self::Q4K => q4_or_q5_k(block, &[], tail(block, 16), out),
                Self::Q5K => q4_or_q5_k(block, tail(block, 16), tail(block, 16 + SUPER / 8), out),
                Self::Q6K => q6_k(block, out),
            }
        }
    }
}

fn fill(out: &mut [f32], values: impl IntoIterator<Item = f32>) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = value;
    }
}

/// The first bytes; zeros where there are none, which the sizes above rule out.
fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn tail(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or_default()
}

fn half_float(bytes: &[u8]) -> f32 {
    half_to_single(u16::from_le_bytes(head(bytes)))
}

/// A number of 16 bits as one of 32.
fn half_to_single(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        0 => {
            let small = fraction as f32 * (1.0 / 16_777_216.0);
            f32::from_bits(small.to_bits() | sign)
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}

fn low_half(byte: &u8) -> f32 {
    f32::from(byte & 15)
}

fn high_half(byte: &u8) -> f32 {
    f32::from(byte >> 4)
}

fn q4(scale: f32, min: f32, packed: &[u8], out: &mut [f32]) {
    let values = packed.iter().map(low_half).chain(packed.iter().map(high_half));
    fill(out, values.map(|value| scale * value + min));
}

fn q5(scale: f32, min: f32, bytes: &[u8], out: &mut [f32]) {
    let fifth = u32::from_le_bytes(head(bytes));
    let packed = tail(bytes, 4);
    let values = packed.iter().map(low_half).chain(packed.iter().map(high_half));
    let values = values.enumerate().map(|(index, value)| value + (((fifth >> index) & 1) * 16) as f32);
    fill(out, values.map(|value| scale * value + min));
}

/// The scale and the minimum of each of the eight parts of a block, six bits each.
fn six_bits(scales: [u8; 12]) -> [(f32, f32); 8] {
    let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = scales;
    let first = |a: u8, b: u8| (f32::from(a & 63), f32::from(b & 63));
    let second =
        |a: u8, b: u8, c: u8| (f32::from((c & 15) | ((a >> 6) << 4)), f32::from((c >> 4) | ((b >> 6) << 4)));
    [
        first(a0, b0),
        first(a1, b1),
        first(a2, b2),
        first(a3, b3),
        second(a0, b0, c0),
        second(a1, b1, c1),
        second(a2, b2, c2),
        second(a3, b3, c3),
    ]
}

/// Numbers of four bits, with a fifth bit from `fifth` where there is one.
fn q4_or_q5_k(block: &[u8], fifth: &[u8], packed: &[u8], out: &mut [f32]) {
    let (scale, min) = (half_float(block), half_float(tail(block, 2)));
    let parts = six_bits(head(tail(block, 4)));
    let packed = packed.chunks_exact(SMALL).flat_map(|bytes| [(bytes, false), (bytes, true)]).enumerate();
    for (((bit, (bytes, upper)), (part, least)), out) in packed.zip(parts).zip(out.chunks_exact_mut(SMALL)) {
        let value = if upper { high_half } else { low_half };
        let fifths = fifth.iter().copied().chain(std::iter::repeat(0));
        let whole =
            bytes.iter().zip(fifths).map(|(byte, fifth)| value(byte) + f32::from((fifth >> bit) & 1) * 16.0);
        fill(out, whole.map(|value| scale * part * value - min * least));
    }
}

fn q6_k(block: &[u8], out: &mut [f32]) {
    let (lows, rest) = block.split_at_checked(SUPER / 2).unwrap_or_default();
    let (highs, rest) = rest.split_at_checked(SUPER / 4).unwrap_or_default();
    let (scales, scale) = rest.split_at_checked(SUPER / 16).unwrap_or_default();
    let scale = half_float(scale);
    let halves = lows.chunks_exact(64).zip(highs.chunks_exact(32)).zip(scales.chunks_exact(8));
    for (((lows, highs), scales), out) in halves.zip(out.chunks_exact_mut(SUPER / 2)) {
        // Four runs of 32 numbers: the low halves of the bytes, then the high ones; two more bits each from `highs`.
        for (run, out) in out.chunks_exact_mut(32).enumerate() {
            let packed = lows.iter().skip(32 * (run % 2)).zip(highs);
            for (index, ((byte, upper), out)) in packed.zip(out).enumerate() {
                let four = if run < 2 { byte & 15 } else { byte >> 4 };
                let six = four | (((upper >> (2 * run)) & 3) << 4);
                let part = scales.get(2 * run + index / 16).copied().unwrap_or(0).cast_signed();
                *out = scale * f32::from(part) * (f32::from(six) - 32.0);
            }
        }
    }
}
