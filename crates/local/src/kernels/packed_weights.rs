//! Weights and activations as bytes with scales, laid out for the dot products.
//!
//! Sixteen rows of weights form a group. In it, four neighbouring columns of all sixteen rows stand side by side, so that
//! one instruction multiplies them with the same four activations, and each of sixteen sums belongs to one row. Weights
//! are kept as bytes from 1 to 255 that stand for -127 to 127, because the instruction wants one side unsigned; what that
//! adds to a sum is known from the activations alone, and is taken off beforehand.

use super::dot;
use super::float::join;
use super::pool::Disjoint;
use super::{BLOCK, Cpu, KernelPool, Level};

/// Rows in a group.
pub const GROUP: usize = 16;
/// Columns that one instruction takes.
pub(super) const STEP: usize = 4;
pub(super) const STEPS: usize = BLOCK / STEP;
/// Zero as a weight.
pub(super) const ZERO: u8 = 128;
const MOST: f32 = 127.0;
/// Pieces per thread that a multiplication is cut into.
const PIECES_PER_THREAD: usize = 4;

/// Four columns of sixteen rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct WeightLine(pub(super) [u8; GROUP * STEP]);

/// The scales of a block of sixteen rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Scales(pub(super) [f32; GROUP]);

/// A matrix of weights.
pub struct Matrix {
    lines: Vec<WeightLine>,
    scales: Vec<Scales>,
    blocks: usize,
    rows: usize,
}

impl Matrix {
    /// An empty matrix; columns that do not fill a block are left out, so the caller sees to it that there are none.
    pub fn new(columns: usize) -> Self {
        Self { lines: Vec::new(), scales: Vec::new(), blocks: columns / BLOCK, rows: 0 }
    }

    /// Adds a row below the others.
    pub fn push(&mut self, row: &[f32]) {
        let lane = self.rows % GROUP;
        if lane == 0 {
            self.lines.resize(self.lines.len() + self.blocks * STEPS, WeightLine([ZERO; GROUP * STEP]));
            self.scales.resize(self.scales.len() + self.blocks, Scales([0.0; GROUP]));
        }
        let group = self.rows / GROUP;
        let scales = self.scales.iter_mut().skip(group * self.blocks);
        let lines = self.lines.chunks_exact_mut(STEPS).skip(group * self.blocks);
        for ((block, scales), lines) in row.chunks_exact(BLOCK).zip(scales).zip(lines) {
            let (scale, inverse) = scale(block);
            if let Some(slot) = scales.0.get_mut(lane) {
                *slot = scale;
            }
            let mut bytes = [ZERO; BLOCK];
            for (byte, value) in bytes.iter_mut().zip(block) {
                *byte = to_i8(value * inverse).cast_unsigned().wrapping_add(ZERO);
            }
            for (four, line) in bytes.as_chunks::<STEP>().0.iter().zip(lines) {
                if let Some(place) = line.0.as_chunks_mut::<STEP>().0.get_mut(lane) {
                    *place = *four;
                }
            }
        }
        self.rows += 1;
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Numbers in a row of the result: the rows of the matrix, filled up to whole groups.
    pub fn width(&self) -> usize {
        self.rows.next_multiple_of(GROUP)
    }

    pub fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice()) + size_of_val(self.scales.as_slice())
    }

    /// One row as numbers again. Of a row that is not there, nothing is written.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let (group, lane) = (row / GROUP, row % GROUP);
        let scales = self.scales.iter().skip(group * self.blocks);
        let lines = self.lines.chunks_exact(STEPS).skip(group * self.blocks);
        for ((out, scales), lines) in out.chunks_exact_mut(BLOCK).zip(scales).zip(lines) {
            let scale = scales.0.get(lane).copied().unwrap_or(0.0);
            let bytes = lines.iter().flat_map(|line| line.0.iter().skip(lane * STEP).take(STEP));
            for (out, byte) in out.iter_mut().zip(bytes) {
                *out = scale * (f32::from(*byte) - f32::from(ZERO));
            }
        }
    }

    /// Multiplies each row of activations; the results stand one after the other, [`Matrix::width`] numbers each.
    pub fn multiply(&self, cpu: Cpu, pool: &mut KernelPool, activations: &Activations, out: &mut [f32]) {
        let width = self.width();
        let groups = width / GROUP;
        let size = groups.div_ceil(pool.threads() * PIECES_PER_THREAD).max(1);
        let out = Disjoint::new(out);
        pool.run(groups.div_ceil(size), &|piece| {
            for group in piece * size..groups.min((piece + 1) * size) {
                let start = group * self.blocks;
                let lines = self.lines.get(start * STEPS..(start + self.blocks) * STEPS).unwrap_or_default();
                let scales = self.scales.get(start..start + self.blocks).unwrap_or_default();
                dot::group(cpu, (lines, scales), activations, &mut |index, sums| {
                    // SAFETY: each group belongs to one piece, and its place in each row of the result to it alone.
                    let place = unsafe { out.range(index * width + group * GROUP, GROUP) };
                    place.copy_from_slice(sums.get(..place.len()).unwrap_or_default());
                });
            }
        });
    }
}

/// The nearest whole number, for numbers from -127 to 127.
#[inline(always)]
fn to_i8(value: f32) -> i8 {
    /// Adding it leaves the nearest whole number in the last bits.
    const ROUND: f32 = 12_582_912.0;
    (value + ROUND).to_bits() as i8
}

/// The scale of a block, and what to multiply its numbers with to get whole ones up to 127.
#[inline(always)]
fn scale(block: &[f32]) -> (f32, f32) {
    let mut lanes = [0.0_f32; GROUP];
    for values in block.as_chunks::<GROUP>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = if value.abs() > *lane { value.abs() } else { *lane };
        }
    }
    let largest = join(lanes, |a, b| if a > b { a } else { b });
    let scale = largest / MOST;
    if scale.is_normal() { (scale, 1.0 / scale) } else { (0.0, 0.0) }
}

/// One row of activations.
#[derive(Default, Clone)]
pub(super) struct Quantised {
    values: Vec<i8>,
    scales: Vec<f32>,
    /// The number that the weights' offset adds to the sum of a block, negated.
    offsets: Vec<i32>,
}

/// The numbers of a block, its scale and its offset.
type QuantisedBlock<'a> = (&'a mut [i8; BLOCK], &'a mut f32, &'a mut i32);

impl Quantised {
    fn resize(&mut self, length: usize) {
        let blocks = length / BLOCK;
        self.values.resize(blocks * BLOCK, 0);
        self.scales.resize(blocks, 0.0);
        self.offsets.resize(blocks, 0);
    }

    #[inline(always)]
    fn blocks(&mut self) -> impl Iterator<Item = QuantisedBlock<'_>> {
        let facts = self.scales.iter_mut().zip(&mut self.offsets);
        let blocks = self.values.as_chunks_mut::<BLOCK>().0.iter_mut().zip(facts);
        blocks.map(|(values, (scale, offset))| (values, scale, offset))
    }
}

for_each_cpu!(
    /// Fills what has been made as long as the row.
    quantise = quantise_plain(row: &[f32], out: &mut Quantised)
);

for_each_cpu!(
    /// Fills what has been made as long as the row, and `rest` with what is left out.
    quantise_twice = quantise_twice_plain(row: &[f32], out: &mut Quantised, rest: &mut Quantised)
);

#[inline(always)]
fn quantise_plain(row: &[f32], out: &mut Quantised) {
    for (block, out) in row.as_chunks::<BLOCK>().0.iter().zip(out.blocks()) {
        quantise_block(block, out);
    }
}

#[inline(always)]
fn quantise_twice_plain(row: &[f32], out: &mut Quantised, rest: &mut Quantised) {
    let blocks = row.as_chunks::<BLOCK>().0.iter().zip(out.blocks()).zip(rest.blocks());
    for ((block, out), rest) in blocks {
        let left = quantise_block(block, out);
        quantise_block(&left, rest);
    }
}

/// Gives what is left out.
#[inline(always)]
fn quantise_block(block: &[f32; BLOCK], (values, factor, offset): QuantisedBlock<'_>) -> [f32; BLOCK] {
    let (scale, inverse) = scale(block);
    let mut left = [0.0; BLOCK];
    let mut sum = 0;
    for ((value, out), left) in block.iter().zip(values).zip(&mut left) {
        *out = to_i8(value * inverse);
        sum += i32::from(*out);
        *left = value - scale * f32::from(*out);
    }
    *factor = scale;
    *offset = -i32::from(ZERO) * sum;
    left
}

/// A block of several rows of activations, in the order in which they are multiplied.
#[derive(Clone, Copy)]
pub(super) struct ActivationBlock<const N: usize> {
    pub(super) values: [[[i8; STEP]; N]; STEPS],
    pub(super) scales: [f32; N],
    /// The numbers to begin the sums with.
    pub(super) offsets: [i32; N],
}

impl<const N: usize> Default for ActivationBlock<N> {
    fn default() -> Self {
        Self { values: [[[0; STEP]; N]; STEPS], scales: [0.0; N], offsets: [0; N] }
    }
}

impl<const N: usize> ActivationBlock<N> {
    /// Takes block `index` of each row, as far as there is one.
    fn fill(&mut self, rows: &[Quantised], index: usize) {
        for (lane, row) in rows.iter().enumerate().take(N) {
            let values = row.values.as_chunks::<BLOCK>().0.get(index);
            let facts = row.scales.get(index).zip(row.offsets.get(index));
            let (Some(values), Some((scale, offset))) = (values, facts) else { return };
            let places = self.scales.get_mut(lane).zip(self.offsets.get_mut(lane));
            let Some((scale_place, offset_place)) = places else { return };
            (*scale_place, *offset_place) = (*scale, *offset);
            for (step, four) in self.values.iter_mut().zip(values.as_chunks::<STEP>().0) {
                if let Some(place) = step.get_mut(lane) {
                    *place = *four;
                }
            }
        }
    }
}

/// Rows that are multiplied at once, so that weights are read once for all of them.
const WIDE: usize = 8;
const NARROW: usize = 4;

/// Rows of activations. Kept from step to step, so that its memory is.
#[derive(Default)]
pub struct Activations {
    rows: Vec<Quantised>,
    used: usize,
    /// Blocks of a row; at least one, which may be nothing.
    pub(super) blocks: usize,
    pub(super) eights: Vec<ActivationBlock<WIDE>>,
    pub(super) fours: Vec<ActivationBlock<NARROW>>,
    pub(super) ones: Vec<ActivationBlock<1>>,
}

impl Activations {
    /// Takes rows of `width` numbers each.
    pub fn fill(&mut self, cpu: Cpu, pool: &mut KernelPool, numbers: &[f32], width: usize) {
        self.fill_rows(pool, numbers.len() / width.max(1), 1, |index, rows| {
            let row = numbers.get(index * width..(index + 1) * width);
            for (out, row) in rows.iter_mut().zip(row) {
                out.resize(row.len());
                quantise(cpu, row, out);
            }
        });
        self.pack(pool, width);
    }

    /// Takes rows in twice as many: after each comes the part that eight bits leave out. The sum of the two results is
    /// nearly that of all bits.
    pub fn fill_fine(&mut self, cpu: Cpu, pool: &mut KernelPool, numbers: &[f32], width: usize) {
        self.fill_rows(pool, numbers.len() / width.max(1), 2, |index, rows| {
            let row = numbers.get(index * width..(index + 1) * width);
            if let ([out, rest], Some(row)) = (rows, row) {
                out.resize(row.len());
                rest.resize(row.len());
                quantise_twice(cpu, row, out, rest);
            }
        });
        self.pack(pool, width);
    }

    /// Makes as many rows as are needed, and hands them out `each` by `each`.
    fn fill_rows(
        &mut self,
        pool: &mut KernelPool,
        count: usize,
        each: usize,
        fill: impl Fn(usize, &mut [Quantised]) + Sync,
    ) {
        self.used = count * each;
        if self.rows.len() < self.used {
            self.rows.resize(self.used, Quantised::default());
        }
        pool.run_each(self.rows.get_mut(..count * each).unwrap_or_default(), each, fill);
    }

    fn pack(&mut self, pool: &mut KernelPool, width: usize) {
        let rows = self.rows.get(..self.used).unwrap_or_default();
        self.blocks = (width / BLOCK).max(1);
        let (eights, rest) = rows.as_chunks::<WIDE>();
        let (fours, ones) = rest.as_chunks::<NARROW>();
        pack(pool, eights, self.blocks, &mut self.eights);
        pack(pool, fours, self.blocks, &mut self.fours);
        pack(pool, ones.as_chunks::<1>().0, self.blocks, &mut self.ones);
    }
}

/// Lays tiles of rows out in blocks.
fn pack<const N: usize>(
    pool: &mut KernelPool,
    tiles: &[[Quantised; N]],
    blocks: usize,
    out: &mut Vec<ActivationBlock<N>>,
) {
    out.resize(tiles.len() * blocks, ActivationBlock::default());
    pool.run_each(out, blocks, |index, blocks| {
        let Some(rows) = tiles.get(index) else { return };
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = ActivationBlock::default();
            block.fill(rows, index);
        }
    });
}
