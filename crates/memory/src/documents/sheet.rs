//! Rows of spreadsheets and of CSV files as text. Each part repeats the header row, so that a piece can be read alone.

pub(super) mod csv;
pub(super) mod xlsx;

use std::collections::BTreeMap;

use super::outline::{Outline, shortened};
use super::{DocumentProblem, TARGET_CHUNK_BYTES, clean};

/// The most rows with text that the sheets of a document may have together.
const MAX_ROWS: usize = 100_000;
/// The most cells with text that they may have together.
const MAX_CELLS: usize = 1_000_000;
/// The most columns a sheet may have; Excel has no more either.
const MAX_COLUMNS: u32 = 16_384;
/// The longest text of one cell, in bytes.
const MAX_CELL_BYTES: usize = 128 * 1024;
/// Rows with text among which the header is searched: titles and remarks stand above it.
const HEADER_AMONG: usize = 10;
/// Bytes after which the name of a sheet is cut: it is repeated at every part.
const MAX_NAME_BYTES: usize = 80;
const BETWEEN_CELLS: &str = " | ";

/// Rows that are read from all sheets of a document, so that they are bounded together.
#[derive(Debug, Default)]
struct SheetBounds {
    rows: usize,
    cells: usize,
}

/// The rows of one sheet that have text, in their order.
#[derive(Debug, Default)]
struct SheetRows(Vec<SheetRow>);

#[derive(Debug)]
struct SheetRow {
    /// From 1, as spreadsheets count.
    number: u32,
    /// The texts of cells by column, from 0. An empty cell is absent.
    cells: BTreeMap<u32, String>,
}

impl SheetRows {
    /// Adds a cell. Rows come in order, and a cell that comes twice counts once.
    fn add(
        &mut self,
        bounds: &mut SheetBounds,
        (number, column): (u32, u32),
        text: &str,
    ) -> Result<(), DocumentProblem> {
        if text.len() > MAX_CELL_BYTES {
            return Err(DocumentProblem::TooLarge { what: "bytes in a cell", limit: MAX_CELL_BYTES });
        }
        let text = clean::line(text);
        if text.is_empty() {
            return Ok(());
        }
        if column >= MAX_COLUMNS {
            return Err(DocumentProblem::TooLarge { what: "columns", limit: MAX_COLUMNS as usize });
        }
        bounds.cells += 1;
        if bounds.cells > MAX_CELLS {
            return Err(DocumentProblem::TooLarge { what: "cells", limit: MAX_CELLS });
        }
        if self.0.last().is_none_or(|last| last.number != number) {
            bounds.rows += 1;
            if bounds.rows > MAX_ROWS {
                return Err(DocumentProblem::TooLarge { what: "rows", limit: MAX_ROWS });
            }
            self.0.push(SheetRow { number, cells: BTreeMap::new() });
        }
        if let Some(row) = self.0.last_mut() {
            row.cells.insert(column, text);
        }
        Ok(())
    }

    /// Writes the rows in parts of about the length of a piece.
    fn write(self, name: Option<&str>, outline: &mut Outline) -> Result<(), DocumentProblem> {
        let name = name.map(|name| shortened(&clean::line(name), MAX_NAME_BYTES));
        let name = name.filter(|name| !name.is_empty());
        let header = header_index(&self.0);
        let above = self.0.get(..header.unwrap_or(self.0.len())).unwrap_or_default();
        let mut parts = Parts { name: name.as_deref(), header: None, lines: Vec::new(), outline };
        for row in above {
            let cells: Vec<&str> = row.cells.values().map(String::as_str).collect();
            parts.add(row, cells.join(BETWEEN_CELLS))?;
        }
        parts.close()?;
        let Some((header, below)) = header.and_then(|index| self.0.get(index..)?.split_first()) else {
            return Ok(());
        };
        let columns = columns(header, below);
        let titles: Vec<&str> = columns.values().map(String::as_str).collect();
        parts.header = Some(titles.join(BETWEEN_CELLS));
        for row in below {
            parts.add_below(row, &columns)?;
        }
        parts.close()
    }
}

/// The row that names the columns: the first that is at least half as wide as the widest. A sheet of one column has none,
/// and neither has one without a row below it.
fn header_index(rows: &[SheetRow]) -> Option<usize> {
    let widest = rows.iter().map(|row| row.cells.len()).max().filter(|widest| *widest > 1)?;
    let is_header = |row: &SheetRow| row.cells.len() > 1 && row.cells.len() * 2 >= widest;
    let index = rows.iter().take(HEADER_AMONG).position(is_header)?;
    Some(index).filter(|index| index + 1 < rows.len())
}

/// The titles of all columns that have text. A column without a title has its letters.
fn columns(header: &SheetRow, below: &[SheetRow]) -> BTreeMap<u32, String> {
    let mut columns = header.cells.clone();
    for column in below.iter().flat_map(|row| row.cells.keys()) {
        columns.entry(*column).or_insert_with(|| letters(*column));
    }
    columns
}

/// The name of a column, as spreadsheets write it: A, B, …, Z, AA.
fn letters(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = column + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// Rows on their way into parts.
struct Parts<'a> {
    name: Option<&'a str>,
    /// The row that every part begins with.
    header: Option<String>,
    /// Rows of the part that is open, each with its number.
    lines: Vec<(u32, String)>,
    outline: &'a mut Outline,
}

impl Parts<'_> {
    fn add(&mut self, row: &SheetRow, line: String) -> Result<(), DocumentProblem> {
        let held: usize = self.lines.iter().map(|(_, line)| line.len() + 1).sum();
        if !self.lines.is_empty() && self.head_bytes() + held + line.len() > TARGET_CHUNK_BYTES {
            self.close()?;
        }
        self.lines.push((row.number, line));
        Ok(())
    }

    /// Adds a row under the header. A row that does not fit into a piece beside the header is written with the title
    /// before each cell instead.
    fn add_below(&mut self, row: &SheetRow, columns: &BTreeMap<u32, String>) -> Result<(), DocumentProblem> {
        let cell = |column: &u32| row.cells.get(column).map_or("", String::as_str);
        let cells: Vec<&str> = columns.keys().map(cell).collect();
        let line = cells.join(BETWEEN_CELLS).trim_end_matches(['|', ' ']).to_owned();
        if self.head_bytes() + line.len() <= TARGET_CHUNK_BYTES {
            return self.add(row, line);
        }
        self.close()?;
        let titled = columns
            .iter()
            .filter_map(|(column, title)| Some(format!("{title}: {}", row.cells.get(column)?)))
            .collect::<Vec<_>>();
        self.write(row.number, row.number, &titled.join("\n"))
    }

    /// Bytes that a part has before its first row.
    fn head_bytes(&self) -> usize {
        self.name.into_iter().chain(self.header.as_deref()).map(|line| line.len() + 1).sum()
    }

    fn close(&mut self) -> Result<(), DocumentProblem> {
        let lines = std::mem::take(&mut self.lines);
        let (Some((first, _)), Some((last, _))) = (lines.first(), lines.last()) else { return Ok(()) };
        let rows = lines.iter().map(|(_, line)| line.as_str());
        let text: Vec<&str> = self.header.as_deref().into_iter().chain(rows).collect();
        let text = text.join("\n");
        self.write(*first, *last, &text)
    }

    fn write(&mut self, first: u32, last: u32, text: &str) -> Result<(), DocumentProblem> {
        let rows = if first == last { format!("row {first}") } else { format!("rows {first}-{last}") };
        match self.name {
            Some(name) => self.outline.sheet_part(&format!("{name}, {rows}"), &format!("{name}\n{text}")),
            None => self.outline.sheet_part(&rows, text),
        }
    }
}
