//! Products of matrices: the one factor as tiles of rows, the other as panels of columns, each laid out in the order in
//! which the kernel reads it.

use super::cpu::{COLUMNS, Cpu, ROWS, Tile};

/// Rows that are multiplied at a time, so that they stay in the processor's cache while the panels pass by.
const BLOCK_ROWS: usize = 128;

/// Some columns of a matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    data: &'a [f32],
    stride: usize,
    from: usize,
    width: usize,
}

impl<'a> View<'a> {
    /// A whole matrix with rows of `width` numbers.
    pub(super) fn whole(data: &'a [f32], width: usize) -> Self {
        Self { data, stride: width, from: 0, width }
    }

    pub(super) fn columns(data: &'a [f32], stride: usize, from: usize, width: usize) -> Self {
        Self { data, stride, from, width }
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &'a [f32]> + use<'a> {
        let (from, to) = (self.from, self.from + self.width);
        self.data.chunks_exact(self.stride.max(1)).map(move |row| row.get(from..to).unwrap_or_default())
    }
}

/// Where a product goes: columns of a matrix from `from` on.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) from: usize,
    pub(super) width: usize,
}

impl Target<'_> {
    /// What of the tile lies beyond the matrix is filling.
    fn write(&mut self, (row, column): (usize, usize), tile: &Tile, bias: &[f32; COLUMNS]) {
        let (from, to) = (self.from + column, self.from + self.width.min(column + COLUMNS));
        let lines = self.data.chunks_exact_mut(self.stride.max(1)).skip(row);
        for (line, sums) in lines.zip(tile) {
            let line = line.get_mut(from..to).unwrap_or_default();
            for ((place, sum), bias) in line.iter_mut().zip(sums).zip(bias) {
                *place = sum + bias;
            }
        }
    }
}

/// Rows in tiles: the numbers that are multiplied in one step stand together.
#[derive(Debug, Default)]
pub(super) struct Rows {
    depth: usize,
    tiles: Vec<[f32; ROWS]>,
}

impl Rows {
    pub(super) fn fill(&mut self, view: View<'_>) {
        self.depth = view.width.max(1);
        self.tiles.clear();
        self.tiles.resize(view.rows().len().div_ceil(ROWS) * self.depth, [0.0; ROWS]);
        for (index, row) in view.rows().enumerate() {
            let tile = self.tiles.iter_mut().skip(index / ROWS * self.depth);
            for (step, value) in tile.zip(row) {
                if let Some(place) = step.get_mut(index % ROWS) {
                    *place = *value;
                }
            }
        }
    }
}

/// Columns in panels, and what is added to each.
#[derive(Debug, Default)]
pub(super) struct Panels {
    depth: usize,
    panels: Vec<[f32; COLUMNS]>,
    bias: Vec<[f32; COLUMNS]>,
}

impl Panels {
    /// The rows of `view` become columns.
    pub(super) fn fill_turned(&mut self, view: View<'_>) {
        self.clear(view.width, view.rows().len());
        for (index, row) in view.rows().enumerate() {
            let panel = self.panels.iter_mut().skip(index / COLUMNS * self.depth);
            for (step, value) in panel.zip(row) {
                if let Some(place) = step.get_mut(index % COLUMNS) {
                    *place = *value;
                }
            }
        }
    }

    /// The columns of `view` stay columns.
    pub(super) fn fill(&mut self, view: View<'_>) {
        self.clear(view.rows().len(), view.width);
        for (index, row) in view.rows().enumerate() {
            let steps = self.panels.iter_mut().skip(index).step_by(self.depth);
            for (step, values) in steps.zip(row.chunks(COLUMNS)) {
                step.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
            }
        }
    }

    fn clear(&mut self, depth: usize, columns: usize) {
        let count = columns.div_ceil(COLUMNS);
        self.depth = depth.max(1);
        self.panels.clear();
        self.panels.resize(count * self.depth, [0.0; COLUMNS]);
        self.bias.clear();
        self.bias.resize(count, [0.0; COLUMNS]);
    }
}

pub(super) fn multiply(cpu: Cpu, rows: &Rows, panels: &Panels, target: &mut Target<'_>) {
    let columns = panels.panels.chunks_exact(panels.depth.max(1)).zip(&panels.bias);
    for (index, (panel, bias)) in columns.enumerate() {
        for (tile_index, tile) in rows.tiles.chunks_exact(rows.depth.max(1)).enumerate() {
            target.write((tile_index * ROWS, index * COLUMNS), &cpu.tile(tile, panel), bias);
        }
    }
}

/// A layer that multiplies by what was learnt and adds to it.
#[derive(Debug)]
pub(super) struct Linear {
    panels: Panels,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// `weight` has a row of `inputs` numbers for each of the outputs, `bias` a number.
    pub(super) fn new(weight: &[f32], bias: &[f32], inputs: usize) -> Self {
        let mut panels = Panels::default();
        panels.fill_turned(View::whole(weight, inputs));
        for (places, values) in panels.bias.iter_mut().zip(bias.chunks(COLUMNS)) {
            places.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
        }
        Self { panels, inputs, outputs: bias.len() }
    }

    /// `rows` is room for the tiles.
    pub(super) fn apply(&self, cpu: Cpu, input: &[f32], output: &mut Vec<f32>, rows: &mut Rows) {
        let (inputs, outputs) = (self.inputs.max(1), self.outputs.max(1));
        output.resize(input.len() / inputs * outputs, 0.0);
        let blocks = output.chunks_mut(BLOCK_ROWS * outputs).zip(input.chunks(BLOCK_ROWS * inputs));
        for (data, input) in blocks {
            rows.fill(View::whole(input, inputs));
            multiply(cpu, rows, &self.panels, &mut Target { data, stride: outputs, from: 0, width: outputs });
        }
    }
}
