//! Tables: columns as wide as their text, or as narrow as the screen demands.

use anstyle::Style;

use super::layout::{StyledWord, cell_lines, text_columns, words};
use super::{Look, inline};

/// Columns of text that a column keeps on a narrow screen.
const MIN_CELL_COLUMNS: usize = 6;

const BETWEEN: &str = " │ ";
const BELOW_HEAD: &str = "─┼─";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Left,
    Centre,
    Right,
}

/// The rows as a table; none if they are not one: the second row must be the line below the head.
pub(super) fn table(rows: &[String], look: Look) -> Option<String> {
    let [head, below, body @ ..] = rows else { return None };
    let alignments = cells(below).iter().map(|cell| alignment(cell)).collect::<Option<Vec<_>>>()?;
    let styled = |row: &String, style: Style| {
        let mut row: Vec<_> =
            cells(row).iter().map(|cell| words(&inline::spans(cell, style, look))).collect();
        row.resize_with(alignments.len(), Vec::new);
        row
    };
    let mut table = vec![styled(head, look.style(Style::new().bold()))];
    table.extend(body.iter().map(|row| styled(row, Style::new())));
    let widths = column_widths(&table, alignments.len(), look.columns);
    let columns: Vec<(Alignment, usize)> = alignments.into_iter().zip(widths).collect();
    let mut out = String::new();
    for (place, row) in table.iter().enumerate() {
        write_row(row, &columns, &mut out);
        if place == 0 {
            let rules: Vec<String> = columns.iter().map(|(_, width)| "─".repeat(*width)).collect();
            out.extend([rules.join(BELOW_HEAD).as_str(), "\n"]);
        }
    }
    Some(out)
}

/// As wide as the text of each column, and then narrower, the widest first, until all fit.
fn column_widths(table: &[Vec<Vec<StyledWord>>], count: usize, columns: usize) -> Vec<usize> {
    let width = |column: usize| {
        table
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| text_columns(cell))
            .max()
            .unwrap_or_default()
    };
    let mut widths: Vec<usize> = (0..count).map(|column| width(column).max(1)).collect();
    let room = columns.saturating_sub(BETWEEN.chars().count() * count.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > MIN_CELL_COLUMNS => *widest -= 1,
            _ => break,
        }
    }
    widths
}

fn write_row(row: &[Vec<StyledWord>], columns: &[(Alignment, usize)], out: &mut String) {
    let cells: Vec<_> = row.iter().zip(columns).map(|(cell, (_, width))| cell_lines(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default().max(1);
    for line in 0..height {
        let mut parts = Vec::new();
        for (cell, (alignment, width)) in cells.iter().zip(columns) {
            let (text, taken) = cell.get(line).map_or(("", 0), |(text, taken)| (text.as_str(), *taken));
            let free = width.saturating_sub(taken);
            let before = match alignment {
                Alignment::Left => 0,
                Alignment::Centre => free / 2,
                Alignment::Right => free,
            };
            parts.push(format!("{}{text}{}", " ".repeat(before), " ".repeat(free - before)));
        }
        out.extend([parts.join(BETWEEN).trim_end(), "\n"]);
    }
}

/// The cells of a row: what is between its bars, other than bars in code and escaped ones.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let (mut cells, mut cell, mut is_code) = (Vec::new(), String::new(), false);
    let mut chars = row.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('|') => cell.push('|'),
                next => cell.extend([Some(c), next].into_iter().flatten()),
            },
            '|' if !is_code => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            _ => {
                is_code ^= c == '`';
                cell.push(c);
            }
        }
    }
    if !cell.trim().is_empty() {
        cells.push(cell.trim().to_owned());
    }
    cells
}

/// How a column is aligned, by the cell below its head.
fn alignment(cell: &str) -> Option<Alignment> {
    let dashes = cell.trim_matches(':');
    let is_rule = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
    is_rule.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
        (true, true) => Alignment::Centre,
        (false, true) => Alignment::Right,
        (_, false) => Alignment::Left,
    })
}
