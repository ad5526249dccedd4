//! The parts of a DOCX package: what is compressed in it, which styles are headings, and its title.

use std::collections::HashMap;
use std::io::{Cursor, Read as _};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{Piece, attribute, read};
use crate::documents::{DocumentProblem, MAX_INFLATED_BYTES, text};

/// The most files a package may have.
const MAX_ENTRIES: usize = 10_000;
/// The deepest heading Word knows.
const MAX_LEVEL: u8 = 9;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    Heading(u8),
    Item,
}

pub(super) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
}

impl<'a> Package<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, DocumentProblem> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| read_problem(&error))?;
        if archive.len() > MAX_ENTRIES {
            return Err(DocumentProblem::TooLarge { what: "parts", limit: MAX_ENTRIES });
        }
        Ok(Self { archive })
    }

    pub(super) fn part(&mut self, name: &str) -> Result<Option<String>, DocumentProblem> {
        let file = match self.archive.by_name(name) {
            Ok(file) => file,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(read_problem(&error)),
        };
        let mut bytes = Vec::new();
        let inflated = file.take(MAX_INFLATED_BYTES + 1).read_to_end(&mut bytes);
        if bytes.len() as u64 > MAX_INFLATED_BYTES {
            return Err(DocumentProblem::part_too_large());
        }
        inflated.map_err(|_| DocumentProblem::Unreadable { what: "a part of it is damaged" })?;
        Ok(Some(text::decode(&bytes, None)))
    }
}

fn read_problem(error: &ZipError) -> DocumentProblem {
    let locked = matches!(
        error,
        ZipError::InvalidPassword | ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)
    );
    if locked {
        DocumentProblem::Encrypted
    } else {
        DocumentProblem::Unreadable { what: "its archive is damaged" }
    }
}

/// The meaning of each style, by the names Word gives them in every language.
pub(super) fn styles(xml: &str) -> Result<HashMap<String, Style>, DocumentProblem> {
    let mut styles = HashMap::new();
    let mut id = None;
    read(xml, |piece| {
        match piece {
            Piece::Start("style", start) => id = attribute(start, "styleId"),
            Piece::Start("name", start) => {
                let style = style_by_name(&attribute(start, "val").unwrap_or_default());
                if let Some(id) = &id {
                    styles.insert(id.clone(), style);
                }
            }
            Piece::Start("outlineLvl", start) => {
                let style = outline_level(attribute(start, "val").as_deref());
                if let (Some(id), Some(style)) = (&id, style) {
                    styles.insert(id.clone(), style);
                }
            }
            Piece::End("style") => id = None,
            Piece::Start(..) | Piece::End(_) | Piece::Text(_) => {}
        }
        Ok(())
    })?;
    Ok(styles)
}

pub(super) fn style_by_name(name: &str) -> Style {
    let name = name.to_ascii_lowercase().replace(' ', "");
    let level = name.strip_prefix("heading").and_then(|level| level.parse().ok());
    match level {
        Some(level @ 1..=MAX_LEVEL) => Style::Heading(level),
        Some(_) | None if name == "title" => Style::Heading(1),
        Some(_) | None if name.starts_with("listbullet") || name.starts_with("listnumber") => Style::Item,
        Some(_) | None => Style::Plain,
    }
}

/// Levels are counted from 0 here, and 9 is no heading.
pub(super) fn outline_level(value: Option<&str>) -> Option<Style> {
    let level: u8 = value?.parse().ok()?;
    (level < MAX_LEVEL).then_some(Style::Heading(level + 1))
}

pub(super) fn title(xml: &str) -> Result<Option<String>, DocumentProblem> {
    let mut inside = false;
    let mut title = String::new();
    read(xml, |piece| {
        match piece {
            Piece::Start("title", _) => inside = true,
            Piece::End("title") => inside = false,
            Piece::Text(text) if inside => title.push_str(text),
            Piece::Start(..) | Piece::End(_) | Piece::Text(_) => {}
        }
        Ok(())
    })?;
    Ok((!title.trim().is_empty()).then_some(title))
}
