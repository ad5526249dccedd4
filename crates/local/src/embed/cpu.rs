//! The inner loops, in the widest instructions that this machine has. Which those are is asked once, so one binary runs
//! everywhere.

#![expect(unsafe_code, reason = "wide instructions may only be called where the machine has them")]

use super::functions;

/// A tile of a product: so many rows of the one factor and columns of the other at a time.
pub(super) const ROWS: usize = 8;
pub(super) const COLUMNS: usize = 32;
pub(super) type Tile = [[f32; COLUMNS]; ROWS];

/// What the narrower instructions hold in their registers: a part of a tile.
const PART_ROWS: usize = 4;
const PART_COLUMNS: usize = 16;

/// Only this file makes one, so a kind that is here is a kind that the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cpu(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// A function under its name for each kind of machine; the compiler makes another version of it for each.
macro_rules! for_each_kind {
    ($name:ident($($argument:ident: $kind:ty),*)) => {
        pub(super) fn $name(self, $($argument: $kind),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512($($argument: $kind),*) {
                functions::$name($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $kind),*) {
                functions::$name($($argument),*);
            }
            match self.0 {
                // SAFETY: the kind says that the machine has these instructions.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => unsafe { avx2($($argument),*) },
                Kind::Portable => functions::$name($($argument),*),
            }
        }
    };
}

impl Cpu {
    /// From the widest to what every machine has.
    pub(super) fn all() -> Vec<Self> {
        let mut kinds = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let narrower = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if narrower && is_x86_feature_detected!("avx512f") {
                kinds.push(Self(Kind::Avx512));
            }
            if narrower {
                kinds.push(Self(Kind::Avx2));
            }
        }
        kinds.push(Self(Kind::Portable));
        kinds
    }

    pub(super) fn best() -> Self {
        Self::all().first().copied().unwrap_or(Self(Kind::Portable))
    }

    /// The sums over the depth of both: `rows` and `panel` hold one step of it in each item.
    pub(super) fn tile(self, rows: &[[f32; ROWS]], panel: &[[f32; COLUMNS]]) -> Tile {
        match self.0 {
            // SAFETY: the kind says that the machine has these instructions.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { wide::tile(rows, panel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { wide::narrower_tile(rows, panel) },
            Kind::Portable => parts(rows, panel, |a, b, sum| a * b + sum),
        }
    }

    for_each_kind!(gelu(values: &mut [f32]));
    for_each_kind!(softmax(scores: &mut [f32], scale: f32));
    for_each_kind!(normalise(values: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32));
}

/// A tile in parts, each small enough for the compiler to keep in registers.
#[inline(always)]
fn parts(rows: &[[f32; ROWS]], panel: &[[f32; COLUMNS]], add: impl Fn(f32, f32, f32) -> f32 + Copy) -> Tile {
    let mut tile = [[0.0; COLUMNS]; ROWS];
    for (part, lines) in tile.chunks_exact_mut(PART_ROWS).enumerate() {
        for column in (0..COLUMNS).step_by(PART_COLUMNS) {
            let sums = part_of(rows, panel, (part * PART_ROWS, column), add);
            for (line, sums) in lines.iter_mut().zip(sums) {
                if let Some(place) = line.get_mut(column..column + PART_COLUMNS) {
                    place.copy_from_slice(&sums);
                }
            }
        }
    }
    tile
}

#[inline(always)]
fn part_of(
    rows: &[[f32; ROWS]],
    panel: &[[f32; COLUMNS]],
    (row, column): (usize, usize),
    add: impl Fn(f32, f32, f32) -> f32 + Copy,
) -> [[f32; PART_COLUMNS]; PART_ROWS] {
    let mut sums = [[0.0; PART_COLUMNS]; PART_ROWS];
    for (left, right) in rows.iter().zip(panel) {
        let left = left.get(row..).and_then(<[f32]>::first_chunk::<PART_ROWS>);
        let right = right.get(column..).and_then(<[f32]>::first_chunk::<PART_COLUMNS>);
        let (Some(left), Some(right)) = (left, right) else { break };
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum = add(*left, *right, *sum);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! Tiles for the machines with fused multiplication.

    use std::arch::x86_64::{
        __m512, _MM_HINT_T1, _mm_prefetch, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::{COLUMNS, ROWS, Tile, parts};

    /// Numbers in a register; two of them are a line of a tile.
    const LANES: usize = 16;

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(super) fn tile(rows: &[[f32; ROWS]], panel: &[[f32; COLUMNS]]) -> Tile {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for (left, right) in rows.iter().zip(panel) {
            fetch_ahead(right, panel.len());
            let right = load(right);
            for (sums, left) in sums.iter_mut().zip(left) {
                let left = _mm512_set1_ps(*left);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = _mm512_fmadd_ps(left, right, *sum);
                }
            }
        }
        let mut tile = [[0.0; COLUMNS]; ROWS];
        for (line, [low, high]) in tile.iter_mut().zip(sums) {
            // SAFETY: a line has room for two registers.
            unsafe {
                _mm512_storeu_ps(line.as_mut_ptr(), low);
                _mm512_storeu_ps(line.as_mut_ptr().add(LANES), high);
            }
        }
        tile
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    fn load(line: &[f32; COLUMNS]) -> [__m512; 2] {
        // SAFETY: a line fills two registers.
        unsafe { [_mm512_loadu_ps(line.as_ptr()), _mm512_loadu_ps(line.as_ptr().add(LANES))] }
    }

    /// The next panel begins where this one ends; it comes into the cache while this one is worked on.
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn fetch_ahead(line: &[f32; COLUMNS], depth: usize) {
        let next = line.as_ptr().wrapping_add(depth * COLUMNS);
        _mm_prefetch::<_MM_HINT_T1>(next.cast());
        _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(LANES).cast());
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn narrower_tile(rows: &[[f32; ROWS]], panel: &[[f32; COLUMNS]]) -> Tile {
        parts(rows, panel, f32::mul_add)
    }
}
