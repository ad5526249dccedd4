//! Dot products of one group of weights with rows of activations.

use super::packed::{GROUP, Line, STEP, STEPS, Scales, ZERO};
use super::{BLOCK, Cpu, Level};

/// One row of activations: whole numbers, and per block their scale and what to begin the sum with.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) values: &'a [i8],
    pub(super) scales: &'a [f32],
    pub(super) offsets: &'a [i32],
}

pub(super) type Weights<'a> = (&'a [Line], &'a [Scales]);

pub(super) type Sums = [f32; GROUP];

/// Rows that are multiplied at once, so that weights are read once for all of them.
const WIDE: usize = 8;
const NARROW: usize = 4;

/// Hands out the sums of each row with its index.
pub(super) fn group(cpu: Cpu, weights: Weights<'_>, rows: &[Row<'_>], out: &mut dyn FnMut(usize, &Sums)) {
    let (eights, rest) = rows.as_chunks::<WIDE>();
    let (fours, ones) = rest.as_chunks::<NARROW>();
    for (index, rows) in eights.iter().enumerate() {
        emit(index * WIDE, &tile(cpu, weights, rows), out);
    }
    let done = eights.len() * WIDE;
    for (index, rows) in fours.iter().enumerate() {
        emit(done + index * NARROW, &tile(cpu, weights, rows), out);
    }
    let done = done + fours.len() * NARROW;
    for (index, row) in ones.iter().enumerate() {
        emit(done + index, &tile(cpu, weights, &[*row]), out);
    }
}

fn emit(first: usize, sums: &[Sums], out: &mut dyn FnMut(usize, &Sums)) {
    for (index, sums) in sums.iter().enumerate() {
        out(first + index, sums);
    }
}

/// How many blocks all of them have. What is longer than the others is not read.
fn blocks<const N: usize>((lines, scales): Weights<'_>, rows: &[Row<'_>; N]) -> usize {
    let shortest = |row: &Row<'_>| (row.values.len() / BLOCK).min(row.scales.len()).min(row.offsets.len());
    let rows = rows.iter().map(shortest).min().unwrap_or(0);
    rows.min(scales.len()).min(lines.len() / STEPS)
}

fn tile<const N: usize>(cpu: Cpu, weights: Weights<'_>, rows: &[Row<'_>; N]) -> [Sums; N] {
    match cpu.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Cpu` of this level exists only where the processor has these instructions.
        Level::Vnni => unsafe { x86::vnni(weights, rows) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::avx2(weights, rows) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Vnni | Level::Avx2 => plain(weights, rows),
        Level::Plain => plain(weights, rows),
    }
}

fn plain<const N: usize>(weights: Weights<'_>, rows: &[Row<'_>; N]) -> [Sums; N] {
    let blocks = blocks(weights, rows);
    rows.map(|row| {
        let mut sums = [0.0; GROUP];
        let facts = row.scales.iter().zip(row.offsets).take(blocks);
        let values = row.values.as_chunks::<BLOCK>().0.iter().zip(facts);
        for ((values, (factor, offset)), (lines, scales)) in
            values.zip(weights.0.chunks_exact(STEPS).zip(weights.1))
        {
            let mut whole = [*offset; GROUP];
            for (line, four) in lines.iter().zip(values.as_chunks::<STEP>().0) {
                for (whole, weights) in whole.iter_mut().zip(line.0.as_chunks::<STEP>().0) {
                    let products = weights.iter().zip(four).map(|(a, b)| i32::from(*a) * i32::from(*b));
                    *whole += products.sum::<i32>();
                }
            }
            for ((sum, whole), scale) in sums.iter_mut().zip(whole).zip(scales.0) {
                *sum += whole as f32 * (scale * factor);
            }
        }
        sums
    })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The same with the instructions of newer processors.

    use std::arch::x86_64::*;

    use super::*;

    /// Half a group: as many sums as fit into 256 bits.
    const HALF: usize = GROUP / 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn vnni<const N: usize>(weights: Weights<'_>, rows: &[Row<'_>; N]) -> [Sums; N] {
        let blocks = blocks(weights, rows);
        let (lines, scales) = (weights.0.as_ptr(), weights.1.as_ptr());
        let mut sums = [_mm512_setzero_ps(); N];
        for block in 0..blocks {
            // SAFETY: `block` is below what `blocks` found all of the slices to have.
            unsafe {
                let mut whole = rows.map(|row| _mm512_set1_epi32(*row.offsets.as_ptr().add(block)));
                for step in 0..STEPS {
                    let line = _mm512_load_si512(lines.add(block * STEPS + step).cast());
                    for (whole, row) in whole.iter_mut().zip(rows) {
                        let four = row.values.as_ptr().add(block * BLOCK + step * STEP).cast::<i32>();
                        *whole = _mm512_dpbusd_epi32(*whole, line, _mm512_set1_epi32(four.read_unaligned()));
                    }
                }
                let scale = _mm512_load_ps(scales.add(block).cast());
                for ((sum, whole), row) in sums.iter_mut().zip(whole).zip(rows) {
                    let factor = _mm512_set1_ps(*row.scales.as_ptr().add(block));
                    *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), _mm512_mul_ps(scale, factor), *sum);
                }
            }
        }
        sums.map(|sum| {
            let mut out = [0.0; GROUP];
            // SAFETY: sixteen numbers fit.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
            out
        })
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2<const N: usize>(weights: Weights<'_>, rows: &[Row<'_>; N]) -> [Sums; N] {
        let mut out = [[0.0; GROUP]; N];
        for half in 0..2 {
            let sums = avx2_half(weights, rows, half);
            for (out, sum) in out.iter_mut().zip(sums) {
                // SAFETY: a half of the numbers, from a half on, fits.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(half * HALF), sum) };
            }
        }
        out
    }

    /// The sums of the lower or of the upper eight rows.
    #[target_feature(enable = "avx2,fma")]
    fn avx2_half<const N: usize>(weights: Weights<'_>, rows: &[Row<'_>; N], half: usize) -> [__m256; N] {
        let blocks = blocks(weights, rows);
        let (lines, scales) = (weights.0.as_ptr(), weights.1.as_ptr());
        let (ones, zero) = (_mm256_set1_epi16(1), _mm256_set1_epi8(ZERO.cast_signed()));
        let mut sums = [_mm256_setzero_ps(); N];
        for block in 0..blocks {
            // SAFETY: `block` is below what `blocks` found all of the slices to have, and `half` is 0 or 1.
            unsafe {
                let mut whole = [_mm256_setzero_si256(); N];
                for step in 0..STEPS {
                    let line = lines.add(block * STEPS + step).cast::<__m256i>().add(half);
                    // Sums of two products are kept in 16 bits, which is too little for unsigned bytes. So the
                    // weights are made signed again, and their signs go to the activations.
                    let signed = _mm256_xor_si256(_mm256_load_si256(line), zero);
                    let size = _mm256_abs_epi8(signed);
                    for (whole, row) in whole.iter_mut().zip(rows) {
                        let four = row.values.as_ptr().add(block * BLOCK + step * STEP).cast::<i32>();
                        let four = _mm256_sign_epi8(_mm256_set1_epi32(four.read_unaligned()), signed);
                        let pairs = _mm256_maddubs_epi16(size, four);
                        *whole = _mm256_add_epi32(*whole, _mm256_madd_epi16(pairs, ones));
                    }
                }
                let scale = _mm256_load_ps(scales.add(block).cast::<f32>().add(half * HALF));
                for ((sum, whole), row) in sums.iter_mut().zip(whole).zip(rows) {
                    let factor = _mm256_set1_ps(*row.scales.as_ptr().add(block));
                    *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(scale, factor), *sum);
                }
            }
        }
        sums
    }
}
