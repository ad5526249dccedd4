//! CSV: rows of text, separated by commas, semicolons, tabs or bars.

use csv::{ReaderBuilder, StringRecord};

use super::{SheetBounds, SheetRows};
use crate::documents::outline::Outline;
use crate::documents::{DocumentProblem, ExtractedDocument, text};

/// Characters that may stand between cells. Where two fit as well, the first counts.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];
/// Lines that are compared to find the delimiter.
const SAMPLE_LINES: usize = 20;
/// The first line with which Excel is told the delimiter.
const DELIMITER_LINE: &str = "sep=";

pub(in crate::documents) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    let text = text::decode(bytes, None);
    let (delimiter, text) = delimiter(&text);
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let (mut bounds, mut rows) = (SheetBounds::default(), SheetRows::default());
    let mut record = StringRecord::new();
    let mut number = 0_u32;
    let damaged = |_| DocumentProblem::Unreadable { what: "its rows are damaged" };
    while reader.read_record(&mut record).map_err(damaged)? {
        number = number.saturating_add(1);
        for (column, cell) in (0..).zip(&record) {
            rows.add(&mut bounds, (number, column), cell)?;
        }
    }
    let mut outline = Outline::default();
    rows.write(None, &mut outline)?;
    Ok(outline.finish(None, None))
}

/// The delimiter, as the text says or as most lines agree, and the text with the rows.
fn delimiter(text: &str) -> (u8, &str) {
    let first = text.lines().next().unwrap_or_default();
    let stated = first.strip_prefix(DELIMITER_LINE).and_then(|stated| stated.chars().next());
    if let Some(stated) = stated.filter(|stated| DELIMITERS.contains(stated)) {
        let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
        return (u8::try_from(stated).unwrap_or(b','), rest);
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(SAMPLE_LINES).collect();
    let agreement = |delimiter: &char| {
        let counts: Vec<usize> = lines.iter().map(|line| count_unquoted(line, *delimiter)).collect();
        let usual = counts.iter().copied().max().unwrap_or(0);
        (counts.iter().filter(|count| **count == usual && usual > 0).count(), usual)
    };
    // Of equal ones, `max_by_key` takes the last.
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| agreement(delimiter));
    (best.and_then(|best| u8::try_from(*best).ok()).unwrap_or(b','), text)
}

/// How often a character stands outside of quotation marks.
fn count_unquoted(line: &str, wanted: char) -> usize {
    let mut quoted = false;
    let mut count = 0;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            _ if character == wanted && !quoted => count += 1,
            _ => {}
        }
    }
    count
}
