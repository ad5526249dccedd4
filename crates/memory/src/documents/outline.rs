//! Blocks in the order they are read, each under the headings that were open when it came.

use super::{
    BETWEEN_BLOCKS, BlockKind, DocumentBlock, DocumentProblem, ExtractedDocument, MAX_BLOCKS, MAX_TEXT_BYTES,
    clean,
};

/// A heading above a block is cut after this many bytes: it is repeated at every block.
const MAX_PATH_HEADING_BYTES: usize = 120;

#[derive(Debug, Default)]
pub(super) struct Outline {
    blocks: Vec<DocumentBlock>,
    above: Vec<(u8, String)>,
    first_heading: Option<String>,
    bytes: usize,
}

impl Outline {
    /// A heading of a level from 1, the outermost, to 9.
    pub(super) fn heading(
        &mut self,
        level: u8,
        text: &str,
        page: Option<u32>,
    ) -> Result<(), DocumentProblem> {
        let text = clean::line(text);
        if text.is_empty() {
            return Ok(());
        }
        self.above.retain(|(other, _)| *other < level);
        let short = shortened(&text, MAX_PATH_HEADING_BYTES);
        if level == 1 && self.first_heading.is_none() {
            self.first_heading = Some(short.clone());
        }
        self.push(BlockKind::Heading, text, page)?;
        self.above.push((level, short));
        Ok(())
    }

    pub(super) fn block(
        &mut self,
        kind: BlockKind,
        text: &str,
        page: Option<u32>,
    ) -> Result<(), DocumentProblem> {
        let text = match kind {
            BlockKind::Code => clean::code(text),
            BlockKind::Heading | BlockKind::Paragraph | BlockKind::List | BlockKind::Table => {
                clean::lines(text)
            }
        };
        self.push(kind, text, page)
    }

    /// A part of a sheet, under a heading that says which rows it has.
    pub(super) fn sheet_part(&mut self, place: &str, text: &str) -> Result<(), DocumentProblem> {
        self.push_under(vec![place.to_owned()], BlockKind::Table, clean::lines(text), None)
    }

    /// The document that was read, called `title` or else by its first heading of level 1.
    pub(super) fn finish(self, title: Option<&str>, pages: Option<u32>) -> ExtractedDocument {
        let title = title.map(|title| shortened(&clean::line(title), MAX_PATH_HEADING_BYTES));
        let title = title.filter(|title| !title.is_empty()).or(self.first_heading);
        ExtractedDocument { title, blocks: self.blocks, pages }
    }

    fn push(&mut self, kind: BlockKind, text: String, page: Option<u32>) -> Result<(), DocumentProblem> {
        let headings = self.above.iter().map(|(_, heading)| heading.clone()).collect();
        self.push_under(headings, kind, text, page)
    }

    fn push_under(
        &mut self,
        headings: Vec<String>,
        kind: BlockKind,
        text: String,
        page: Option<u32>,
    ) -> Result<(), DocumentProblem> {
        if text.is_empty() {
            return Ok(());
        }
        self.bytes += text.len() + BETWEEN_BLOCKS.len();
        if self.bytes > MAX_TEXT_BYTES {
            return Err(DocumentProblem::TooLarge { what: "bytes of text", limit: MAX_TEXT_BYTES });
        }
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(DocumentProblem::TooLarge { what: "paragraphs", limit: MAX_BLOCKS });
        }
        self.blocks.push(DocumentBlock { kind, text, headings, page });
        Ok(())
    }
}

/// At most `most` bytes of a text, with a sign that it continues.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}
