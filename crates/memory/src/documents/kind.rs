//! The kind of an upload. Its bytes are believed first; its name and declared type only choose between kinds of text.

use std::io::Cursor;

use zip::ZipArchive;

use super::{DocumentProblem, check_size, docx, sheet};

/// How far into a file its mark is looked for, in bytes.
const MARK_BYTES: usize = 1024;
/// How much of a text is looked at for control characters, in bytes.
const SAMPLE_BYTES: usize = 4096;
/// Bytes of the sample among which one control character is too many for text.
const CONTROL_SHARE: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    Text,
    Markdown,
    Html,
    Pdf,
    Docx,
    Csv,
    Xlsx,
}

impl DocumentKind {
    pub const ALL: [Self; 7] =
        [Self::Text, Self::Markdown, Self::Html, Self::Pdf, Self::Docx, Self::Csv, Self::Xlsx];

    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Csv => "csv",
            Self::Xlsx => "xlsx",
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::Html => "text/html",
            Self::Pdf => "application/pdf",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Csv => "text/csv",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    }
}

/// The kind of an upload, or why it cannot be read.
pub fn kind(name: &str, declared: Option<&str>, bytes: &[u8]) -> Result<DocumentKind, DocumentProblem> {
    check_size(bytes)?;
    let start = bytes.get(..MARK_BYTES.min(bytes.len())).unwrap_or_default();
    if memchr::memmem::find(start, b"%PDF-").is_some() {
        return Ok(DocumentKind::Pdf);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return archive(bytes);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        return Err(compound(bytes));
    }
    if let Some((_, what)) = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return Err(DocumentProblem::Unsupported { what });
    }
    if is_binary(bytes) {
        return Err(DocumentProblem::Unsupported { what: "a binary file" });
    }
    text_kind(name, declared, start)
}

const MARKS: &[(&[u8], &str)] = &[
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"RIFF", "a picture or a sound"),
    (b"II*\0", "a picture"),
    (b"MM\0*", "a picture"),
    (b"\x1f\x8b", "a compressed file"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!", "an archive"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
];

fn archive(bytes: &[u8]) -> Result<DocumentKind, DocumentProblem> {
    let archive = ZipArchive::new(Cursor::new(bytes))
        .map_err(|_| DocumentProblem::Unreadable { what: "its archive is damaged" })?;
    if archive.index_for_name(docx::MAIN_PART).is_some() {
        return Ok(DocumentKind::Docx);
    }
    if archive.index_for_name(sheet::xlsx::MAIN_PART).is_some() {
        return Ok(DocumentKind::Xlsx);
    }
    let has = |folder: &[u8]| archive.file_names_raw().any(|name| name.starts_with(folder));
    let what = match () {
        () if has(b"xl/") => "a spreadsheet of another format",
        () if has(b"ppt/") => "a presentation",
        () => "an archive",
    };
    Err(DocumentProblem::Unsupported { what })
}

/// Office puts documents with a password into the container of its older formats.
fn compound(bytes: &[u8]) -> DocumentProblem {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    match memchr::memmem::find(bytes, &name) {
        Some(_) => DocumentProblem::Encrypted,
        None => DocumentProblem::Unsupported { what: "a file of an older Office" },
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return false;
    }
    let sample = bytes.get(..SAMPLE_BYTES.min(bytes.len())).unwrap_or_default();
    let controls =
        sample.iter().filter(|byte| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)).count();
    bytes.contains(&0) || controls * CONTROL_SHARE > sample.len()
}

fn text_kind(name: &str, declared: Option<&str>, start: &[u8]) -> Result<DocumentKind, DocumentProblem> {
    let start = super::text::decode(start, None).to_ascii_lowercase();
    let start = start.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        return Ok(DocumentKind::Html);
    }
    if start.starts_with("<svg") || start.starts_with("<?xml") && start.contains("<svg") {
        return Err(DocumentProblem::Unsupported { what: "a picture" });
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let declared = declared.map(|declared| declared.split(';').next().unwrap_or_default().trim());
    let declared = declared.unwrap_or_default().to_ascii_lowercase();
    Ok(match (ending.as_str(), declared.as_str()) {
        ("html" | "htm" | "xhtml", _) => DocumentKind::Html,
        ("md" | "markdown" | "mdx", _) => DocumentKind::Markdown,
        ("txt" | "text", _) => DocumentKind::Text,
        ("csv" | "tsv", _) => DocumentKind::Csv,
        (_, "text/html" | "application/xhtml+xml") => DocumentKind::Html,
        (_, "text/markdown" | "text/x-markdown") => DocumentKind::Markdown,
        (_, "text/csv" | "application/csv" | "text/tab-separated-values") => DocumentKind::Csv,
        (_, _) => DocumentKind::Text,
    })
}
