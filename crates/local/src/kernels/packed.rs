//! Weights and activations as bytes with scales, laid out for the dot products.
//!
//! Sixteen rows of weights form a group. In it, four neighbouring columns of all sixteen rows stand side by side, so that
//! one instruction multiplies them with the same four activations, and each of sixteen sums belongs to one row. Weights
//! are kept as bytes from 1 to 255 that stand for -127 to 127, because the instruction wants one side unsigned; what that
//! adds to a sum is known from the activations alone, and is taken off beforehand.

use super::dot::{self, Row};
use super::pool::Disjoint;
use super::{BLOCK, Cpu, Level, Pool};

/// Rows in a group.
pub const GROUP: usize = 16;
/// Columns that one instruction takes.
pub(super) const STEP: usize = 4;
pub(super) const STEPS: usize = BLOCK / STEP;
/// What zero is as a weight.
pub(super) const ZERO: u8 = 128;
const MOST: f32 = 127.0;
/// Pieces per thread that a multiplication is cut into.
const PIECES_PER_THREAD: usize = 4;

/// Four columns of sixteen rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; GROUP * STEP]);

/// The scales of a block of sixteen rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Scales(pub(super) [f32; GROUP]);

/// A matrix of weights.
pub struct Matrix {
    lines: Vec<Line>,
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
            self.lines.resize(self.lines.len() + self.blocks * STEPS, Line([ZERO; GROUP * STEP]));
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
            for (four, line) in block.chunks_exact(STEP).zip(lines) {
                let bytes = line.0.iter_mut().skip(lane * STEP);
                for (value, byte) in four.iter().zip(bytes) {
                    *byte = ((value * inverse).round() + f32::from(ZERO)) as u8;
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
    pub fn multiply(&self, cpu: Cpu, pool: &mut Pool, activations: &Activations, out: &mut [f32]) {
        let width = self.width();
        let groups = width / GROUP;
        let rows: Vec<Row<'_>> = activations.rows().iter().map(Quantised::row).collect();
        let size = groups.div_ceil(pool.threads() * PIECES_PER_THREAD).max(1);
        let out = Disjoint::new(out);
        pool.run(groups.div_ceil(size), &|piece| {
            for group in piece * size..groups.min((piece + 1) * size) {
                let start = group * self.blocks;
                let lines = self.lines.get(start * STEPS..(start + self.blocks) * STEPS).unwrap_or_default();
                let scales = self.scales.get(start..start + self.blocks).unwrap_or_default();
                dot::group(cpu, (lines, scales), &rows, &mut |index, sums| {
                    // SAFETY: each group belongs to one piece, and its place in each row of the result to it alone.
                    let place = unsafe { out.range(index * width + group * GROUP, GROUP) };
                    place.copy_from_slice(sums.get(..place.len()).unwrap_or_default());
                });
            }
        });
    }
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
    let largest = lanes.iter().fold(0.0_f32, |largest, lane| largest.max(*lane));
    let scale = largest / MOST;
    if scale.is_normal() { (scale, 1.0 / scale) } else { (0.0, 0.0) }
}

/// One row of activations.
#[derive(Default, Clone)]
pub(super) struct Quantised {
    values: Vec<i8>,
    scales: Vec<f32>,
    /// What the weights' offset adds to the sum of a block, negated.
    offsets: Vec<i32>,
}

impl Quantised {
    fn fill(&mut self, cpu: Cpu, row: &[f32]) {
        let blocks = row.len() / BLOCK;
        self.values.resize(blocks * BLOCK, 0);
        self.scales.resize(blocks, 0.0);
        self.offsets.resize(blocks, 0);
        quantise(cpu, row, self);
    }

    fn row(&self) -> Row<'_> {
        Row { values: &self.values, scales: &self.scales, offsets: &self.offsets }
    }
}

for_each_cpu!(
    /// Fills what has been made as long as the row.
    quantise = quantise_plain(row: &[f32], out: &mut Quantised)
);

#[inline(always)]
fn quantise_plain(row: &[f32], out: &mut Quantised) {
    /// Adding it leaves the nearest whole number in the last bits.
    const ROUND: f32 = 12_582_912.0;
    let facts = out.scales.iter_mut().zip(&mut out.offsets);
    let values = out.values.as_chunks_mut::<BLOCK>().0;
    for ((block, values), (factor, offset)) in row.as_chunks::<BLOCK>().0.iter().zip(values).zip(facts) {
        let (scale, inverse) = scale(block);
        let mut sum = 0;
        for (value, out) in block.iter().zip(values) {
            *out = (value * inverse + ROUND).to_bits() as i8;
            sum += i32::from(*out);
        }
        *factor = scale;
        *offset = -i32::from(ZERO) * sum;
    }
}

/// Rows of activations. Kept from step to step, so that its memory is.
#[derive(Default)]
pub struct Activations {
    rows: Vec<Quantised>,
    used: usize,
}

impl Activations {
    /// Takes rows of `width` numbers each.
    pub fn fill(&mut self, cpu: Cpu, pool: &mut Pool, numbers: &[f32], width: usize) {
        self.used = numbers.len() / width.max(1);
        if self.rows.len() < self.used {
            self.rows.resize(self.used, Quantised::default());
        }
        let used = self.used;
        let Some(rows) = self.rows.get_mut(..used) else { return };
        pool.each(rows, 1, |index, rows| {
            let row = numbers.get(index * width..(index + 1) * width);
            for (out, row) in rows.iter_mut().zip(row) {
                out.fill(cpu, row);
            }
        });
    }

    pub(super) fn rows(&self) -> &[Quantised] {
        self.rows.get(..self.used).unwrap_or_default()
    }
}
