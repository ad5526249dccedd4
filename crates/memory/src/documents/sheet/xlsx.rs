//! XLSX: the cells of visible sheets as Excel last calculated them. Formulas show their values.
//!
//! The parser trusts what a file says of itself. So the file is first written anew: only its XML, not compressed, within
//! one bound for all of it, and without the count by which the parser would reserve memory.

use std::io::{Cursor, Read as _, Write as _};

use calamine::{DataRef, ExcelDateTime, Reader as _, SheetType, SheetVisible, Xlsx, XlsxError};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{SheetBounds, SheetRows};
use crate::documents::outline::Outline;
use crate::documents::{DocumentProblem, ExtractedDocument, MAX_INFLATED_BYTES};

/// The part a workbook cannot be without.
pub(in crate::documents) const MAIN_PART: &str = "xl/workbook.xml";
/// The most files a workbook may have.
const MAX_ENTRIES: usize = 10_000;
/// The most sheets a workbook may have.
const MAX_SHEETS: usize = 1_000;
/// The part with the texts of cells, and the attribute in it that says how many there are.
const STRINGS_PART: &str = "sharedstrings.xml";
const STRINGS_COUNT: &[u8] = b"uniqueCount";
/// Numbers from here on are written with an exponent.
const LONG_NUMBER: f64 = 1e15;
const SECONDS_PER_DAY: f64 = 86_400.0;

const DAMAGED: DocumentProblem = DocumentProblem::Unreadable { what: "its archive is damaged" };

pub(in crate::documents) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    let plain = plain_package(bytes)?;
    let mut workbook: Xlsx<_> = Xlsx::new(Cursor::new(plain)).map_err(|error| read_problem(&error))?;
    let shown = workbook.sheets_metadata().iter().filter(|sheet| {
        // Hidden sheets are no text for people.
        sheet.visible == SheetVisible::Visible && sheet.typ == SheetType::WorkSheet
    });
    let names: Vec<String> = shown.map(|sheet| sheet.name.clone()).collect();
    if names.len() > MAX_SHEETS {
        return Err(DocumentProblem::TooLarge { what: "sheets", limit: MAX_SHEETS });
    }
    let (mut bounds, mut outline) = (SheetBounds::default(), Outline::default());
    for name in names {
        let mut rows = SheetRows::default();
        let mut cells = workbook.worksheet_cells_reader(&name).map_err(|error| read_problem(&error))?;
        while let Some(cell) = cells.next_cell().map_err(|error| read_problem(&error))? {
            let (row, column) = cell.get_position();
            rows.add(&mut bounds, (row.saturating_add(1), column), &cell_text(cell.get_value()))?;
        }
        rows.write(Some(&name), &mut outline)?;
    }
    Ok(outline.finish(None, None))
}

/// The XML of a workbook in an archive that is not compressed.
fn plain_package(bytes: &[u8]) -> Result<Vec<u8>, DocumentProblem> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| DAMAGED)?;
    if archive.len() > MAX_ENTRIES {
        return Err(DocumentProblem::TooLarge { what: "parts", limit: MAX_ENTRIES });
    }
    let mut plain = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut left = MAX_INFLATED_BYTES;
    for index in 0..archive.len() {
        let part = archive.by_index(index).map_err(|_| DAMAGED)?;
        let name = part.name().map_err(|_| DAMAGED)?.into_owned();
        let lower = name.to_ascii_lowercase();
        if !(lower.ends_with(".xml") || lower.ends_with(".rels")) {
            continue; // pictures, programs, settings of printers
        }
        let mut content = Vec::new();
        let inflated = part.take(left + 1).read_to_end(&mut content);
        left = left.checked_sub(content.len() as u64).ok_or_else(DocumentProblem::part_too_large)?;
        inflated.map_err(|_| DocumentProblem::Unreadable { what: "a part of it is damaged" })?;
        if content.contains(&0) {
            return Err(DocumentProblem::Unreadable { what: "its XML is not UTF-8" });
        }
        if lower.ends_with(STRINGS_PART) {
            hide_count(&mut content);
        }
        plain.start_file(name, options).map_err(|_| DAMAGED)?;
        plain.write_all(&content).map_err(|_| DAMAGED)?;
    }
    Ok(plain.finish().map_err(|_| DAMAGED)?.into_inner())
}

/// Renames the attribute in place.
fn hide_count(content: &mut [u8]) {
    let found: Vec<usize> = memchr::memmem::find_iter(content, STRINGS_COUNT).collect();
    for at in found {
        if let Some(name) = content.get_mut(at..at + STRINGS_COUNT.len()) {
            name.make_ascii_lowercase();
        }
    }
}

fn read_problem(error: &XlsxError) -> DocumentProblem {
    if matches!(error, XlsxError::Password) {
        return DocumentProblem::Encrypted;
    }
    DocumentProblem::Unreadable { what: "its parts do not fit together" }
}

/// A cell as people read it.
fn cell_text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(true) => "TRUE".to_owned(),
        DataRef::Bool(false) => "FALSE".to_owned(),
        DataRef::DateTime(time) => time_text(time),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

/// With the fifteen digits that Excel has, so that a sum is not a long fraction.
fn number_text(number: f64) -> String {
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    let is_short = rounded == 0.0 || (1.0 / LONG_NUMBER..LONG_NUMBER).contains(&rounded.abs());
    if is_short { rounded.to_string() } else { format!("{rounded:e}") }
}

/// A date, a time of day, both, or a duration.
fn time_text(time: &ExcelDateTime) -> String {
    let value = time.as_f64();
    if time.is_duration() {
        let seconds = (value * SECONDS_PER_DAY).round() as i64;
        let (sign, seconds) = (if seconds < 0 { "-" } else { "" }, seconds.unsigned_abs());
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let clock = match second {
        0 => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    };
    let date = format!("{year}-{month:02}-{day:02}");
    match (value < 1.0, value.fract() == 0.0) {
        (true, _) => clock,
        (false, true) => date,
        (false, false) => format!("{date} {clock}"),
    }
}
