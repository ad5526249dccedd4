//! Dot products of one group of weights with rows of activations.

use super::packed_weights::{ActivationBlock, Activations, GROUP, STEP, STEPS, Scales, WeightLine};
use super::{Cpu, Level};

pub(super) type GroupWeights<'a> = (&'a [WeightLine], &'a [Scales]);

pub(super) type Sums = [f32; GROUP];

/// Hands out the sums of each row with its index.
pub(super) fn group(
    cpu: Cpu,
    weights: GroupWeights<'_>,
    rows: &Activations,
    out: &mut dyn FnMut(usize, &Sums),
) {
    let mut index = 0;
    let mut emit = |sums: &[Sums]| {
        for sums in sums {
            out(index, sums);
            index += 1;
        }
    };
    let blocks = rows.blocks.max(1);
    rows.eights.chunks_exact(blocks).for_each(|rows| emit(&tile(cpu, weights, rows)));
    rows.fours.chunks_exact(blocks).for_each(|rows| emit(&tile(cpu, weights, rows)));
    rows.ones.chunks_exact(blocks).for_each(|rows| emit(&tile(cpu, weights, rows)));
}

/// The end of a slice that is longer than the others is not read.
fn tile<const N: usize>(cpu: Cpu, weights: GroupWeights<'_>, rows: &[ActivationBlock<N>]) -> [Sums; N] {
    match cpu.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Cpu` of this level exists only where the processor has these instructions.
        Level::Vnni => unsafe { x86::vnni(weights, rows) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::avx2(weights, rows) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Vnni | Level::Avx2 => plain_sums(weights, rows),
        Level::Plain => plain_sums(weights, rows),
    }
}

fn plain_sums<const N: usize>((lines, scales): GroupWeights<'_>, rows: &[ActivationBlock<N>]) -> [Sums; N] {
    let mut sums = [[0.0; GROUP]; N];
    for ((lines, scales), rows) in lines.as_chunks::<STEPS>().0.iter().zip(scales).zip(rows) {
        let mut whole = rows.offsets.map(|offset| [offset; GROUP]);
        for (line, fours) in lines.iter().zip(&rows.values) {
            for (whole, four) in whole.iter_mut().zip(fours) {
                for (whole, weights) in whole.iter_mut().zip(line.0.as_chunks::<STEP>().0) {
                    let products = weights.iter().zip(four).map(|(a, b)| i32::from(*a) * i32::from(*b));
                    *whole += products.sum::<i32>();
                }
            }
        }
        for ((sums, whole), factor) in sums.iter_mut().zip(whole).zip(rows.scales) {
            for ((sum, whole), scale) in sums.iter_mut().zip(whole).zip(scales.0) {
                *sum += whole as f32 * (scale * factor);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Dot products with the instructions of newer processors.

    use std::arch::x86_64::*;

    use super::*;

    /// Half a group: as many sums as fit into 256 bits.
    const HALF: usize = GROUP / 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn vnni<const N: usize>(
        (lines, scales): GroupWeights<'_>,
        rows: &[ActivationBlock<N>],
    ) -> [Sums; N] {
        let mut sums = [_mm512_setzero_ps(); N];
        for ((lines, scales), rows) in lines.as_chunks::<STEPS>().0.iter().zip(scales).zip(rows) {
            let mut whole = rows.offsets.map(|offset| _mm512_set1_epi32(offset));
            for (line, fours) in lines.iter().zip(&rows.values) {
                // SAFETY: a line is as long as a register, and lies as it wants to.
                let line = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
                for (whole, four) in whole.iter_mut().zip(fours) {
                    *whole = _mm512_dpbusd_epi32(*whole, line, _mm512_set1_epi32(four_in_one(*four)));
                }
            }
            // SAFETY: as above.
            let scale = unsafe { _mm512_load_ps(scales.0.as_ptr()) };
            for ((sum, whole), factor) in sums.iter_mut().zip(whole).zip(rows.scales) {
                let scale = _mm512_mul_ps(scale, _mm512_set1_ps(factor));
                *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), scale, *sum);
            }
        }
        sums.map(|sum| {
            let mut out = [0.0; GROUP];
            // SAFETY: sixteen numbers fit.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
            out
        })
    }

    /// Four activations in one number, to be multiplied with four weights of each row.
    fn four_in_one(four: [i8; STEP]) -> i32 {
        i32::from_ne_bytes(four.map(i8::cast_unsigned))
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2<const N: usize>(weights: GroupWeights<'_>, rows: &[ActivationBlock<N>]) -> [Sums; N] {
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
    fn avx2_half<const N: usize>(
        (lines, scales): GroupWeights<'_>,
        rows: &[ActivationBlock<N>],
        half: usize,
    ) -> [__m256; N] {
        let (ones, zero) =
            (_mm256_set1_epi16(1), _mm256_set1_epi8(crate::kernels::packed_weights::ZERO.cast_signed()));
        let mut sums = [_mm256_setzero_ps(); N];
        for ((lines, scales), rows) in lines.as_chunks::<STEPS>().0.iter().zip(scales).zip(rows) {
            let mut whole = [_mm256_setzero_si256(); N];
            for (line, fours) in lines.iter().zip(&rows.values) {
                // SAFETY: a line is as long as two registers, and `half` is 0 or 1.
                let line = unsafe { _mm256_load_si256(line.0.as_ptr().cast::<__m256i>().add(half)) };
                // Sums of two products are kept in 16 bits, which is too little for unsigned bytes. So the weights are
                // made signed again, and their signs go to the activations.
                let signed = _mm256_xor_si256(line, zero);
                let size = _mm256_abs_epi8(signed);
                for (whole, four) in whole.iter_mut().zip(fours) {
                    let four = _mm256_sign_epi8(_mm256_set1_epi32(four_in_one(*four)), signed);
                    let pairs = _mm256_maddubs_epi16(size, four);
                    *whole = _mm256_add_epi32(*whole, _mm256_madd_epi16(pairs, ones));
                }
            }
            // SAFETY: as above.
            let scale = unsafe { _mm256_load_ps(scales.0.as_ptr().add(half * HALF)) };
            for ((sum, whole), factor) in sums.iter_mut().zip(whole).zip(rows.scales) {
                let scale = _mm256_mul_ps(scale, _mm256_set1_ps(factor));
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scale, *sum);
            }
        }
        sums
    }
}
