//! Plain text: its encoding, and its paragraphs.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::outline::Outline;
use super::{BlockKind, DocumentProblem, ExtractedDocument};

/// The share of lines that look like code, in percent, from which a paragraph keeps its lines.
const CODE_PERCENT: usize = 40;

pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    let text = decode(bytes, None).replace("\r\n", "\n").replace('\r', "\n");
    let mut outline = Outline::default();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            lines.push(line);
            continue;
        }
        let paragraph = std::mem::take(&mut lines);
        if looks_like_code(&paragraph) {
            outline.block(BlockKind::Code, &paragraph.join("\n"), None)?;
        } else if paragraph.iter().any(|line| is_item(line)) {
            outline.block(BlockKind::List, &items(&paragraph), None)?;
        } else {
            outline.block(BlockKind::Paragraph, &paragraph.join(" "), None)?;
        }
    }
    Ok(outline.finish(None, None))
}

/// Bytes as text: by their mark, else as the document says, else as UTF-8, else as Windows-1252, which takes any.
pub(super) fn decode(bytes: &[u8], said: Option<&'static Encoding>) -> String {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0.into_owned();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let encoding = said.filter(|said| *said != UTF_8).unwrap_or(WINDOWS_1252);
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

fn looks_like_code(lines: &[&str]) -> bool {
    let code = lines.iter().filter(|line| {
        let end = line.trim_end();
        line.starts_with("    ") || line.starts_with('\t') || end.ends_with(['{', '}', ';', '\\'])
    });
    !lines.is_empty() && code.count() * 100 >= lines.len() * CODE_PERCENT
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|character: char| character.is_ascii_digit());
    ["- ", "* ", "• "].iter().any(|mark| line.starts_with(mark))
        || digits.len() < line.len() && (digits.starts_with(". ") || digits.starts_with(") "))
}

/// Each item on a line of its own; a line that is no item goes on with the one before.
fn items(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        if !text.is_empty() {
            text.push(if is_item(line) { '\n' } else { ' ' });
        }
        text.push_str(line.trim());
    }
    text
}
