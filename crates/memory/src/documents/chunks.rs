//! A document in pieces that can be found and cited: cut where its structure says, and never inside a word.

use std::ops::Range;

use super::outline::shortened;
use super::{BETWEEN_BLOCKS, BlockKind, ExtractedDocument, full_text};

/// About how long a chunk is, in bytes.
pub const TARGET_CHUNK_BYTES: usize = 800;
/// The longest chunk, in bytes.
pub const MAX_CHUNK_BYTES: usize = 1600;
/// A rest shorter than this joins the chunk before it.
const SMALL_BYTES: usize = 200;
/// The longest place, in bytes.
const MAX_PLACE_BYTES: usize = 200;

/// A piece of a document, which is `full_text[from..to]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentChunk {
    pub text: String,
    /// The place of the chunk, for people: "page 3, Dosage", "Setup > Linux", or "part 4" when nothing better is known.
    pub place: String,
    pub page: Option<u32>,
    pub from: usize,
    pub to: usize,
}

/// The document in chunks, which together hold all of its text in order.
pub fn chunks(extracted: &ExtractedDocument) -> Vec<DocumentChunk> {
    let text = full_text(extracted);
    let mut packing = Packing::default();
    for atom in atoms(extracted) {
        packing.add(atom);
    }
    let pieces = packing.finish();
    let chunks = pieces.into_iter().enumerate().map(|(index, piece)| DocumentChunk {
        text: text.get(piece.range.clone()).unwrap_or_default().to_owned(),
        place: place(&piece.section, index + 1),
        page: piece.section.page,
        from: piece.range.start,
        to: piece.range.end,
    });
    chunks.collect()
}

/// The section that a text stands in, whose bounds no chunk crosses.
#[derive(Clone, PartialEq, Eq)]
struct ChunkSection<'a> {
    above: &'a [String],
    /// A heading stands under itself, too.
    own: Option<&'a str>,
    page: Option<u32>,
}

impl ChunkSection<'_> {
    fn is_heading(&self) -> bool {
        self.own.is_some()
    }
}

struct Piece<'a> {
    range: Range<usize>,
    /// The section of its text, or of its last heading while it has no text.
    section: ChunkSection<'a>,
}

impl Piece<'_> {
    fn len_with(&self, end: usize) -> usize {
        end.saturating_sub(self.range.start)
    }
}

#[derive(Default)]
struct Packing<'a> {
    done: Vec<Piece<'a>>,
    current: Option<Piece<'a>>,
}

impl<'a> Packing<'a> {
    fn add(&mut self, atom: Piece<'a>) {
        let Some(current) = &mut self.current else {
            self.current = Some(atom);
            return;
        };
        let length = current.len_with(atom.range.end);
        // Headings go with what comes after them, be it longer than usual.
        let fits = match current.section.is_heading() {
            true => length <= MAX_CHUNK_BYTES,
            false => current.section == atom.section && length <= TARGET_CHUNK_BYTES,
        };
        if fits {
            current.range.end = atom.range.end;
            current.section = atom.section;
        } else {
            self.close();
            self.current = Some(atom);
        }
    }

    fn close(&mut self) {
        let Some(piece) = self.current.take() else { return };
        let small = piece.range.len() < SMALL_BYTES && !piece.section.is_heading();
        match self.done.last_mut() {
            Some(last)
                if small
                    && last.section == piece.section
                    && last.len_with(piece.range.end) <= MAX_CHUNK_BYTES =>
            {
                last.range.end = piece.range.end;
            }
            Some(_) | None => self.done.push(piece),
        }
    }

    /// A heading at the very end goes with what is before it.
    fn finish(mut self) -> Vec<Piece<'a>> {
        let alone = self.current.take_if(|piece| piece.section.is_heading());
        self.close();
        if let Some(heading) = alone {
            match self.done.last_mut() {
                Some(last) if last.len_with(heading.range.end) <= MAX_CHUNK_BYTES => {
                    last.range.end = heading.range.end
                }
                Some(_) | None => self.done.push(heading),
            }
        }
        self.done
    }
}

fn atoms(extracted: &ExtractedDocument) -> Vec<Piece<'_>> {
    let mut atoms = Vec::new();
    let mut from = 0;
    for block in &extracted.blocks {
        let own = (block.kind == BlockKind::Heading).then_some(block.text.as_str());
        let section = ChunkSection { above: &block.headings, own, page: block.page };
        let mut ranges = Vec::new();
        cut(&block.text, from, Cut::Lines, &mut ranges);
        atoms.extend(ranges.into_iter().map(|range| Piece { range, section: section.clone() }));
        from += block.text.len() + BETWEEN_BLOCKS.len();
    }
    atoms
}

#[derive(Clone, Copy)]
enum Cut {
    Lines,
    Sentences,
    Words,
}

/// Cuts a text that begins at `from` where it hurts least, and again what is still too long.
fn cut(text: &str, from: usize, by: Cut, ranges: &mut Vec<Range<usize>>) {
    let trimmed = text.trim();
    if trimmed.len() <= TARGET_CHUNK_BYTES {
        if !trimmed.is_empty() {
            let start = from + text.len() - text.trim_start().len();
            ranges.push(start..start + trimmed.len());
        }
        return;
    }
    let mut rest = text;
    let mut start = from;
    while !rest.is_empty() {
        let end = match by {
            Cut::Lines => rest.find('\n').map_or(rest.len(), |end| end + 1),
            Cut::Sentences => sentence_end(rest),
            Cut::Words => words_end(rest),
        };
        let (piece, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        match by {
            Cut::Lines => cut(piece, start, Cut::Sentences, ranges),
            Cut::Sentences | Cut::Words => cut(piece, start, Cut::Words, ranges),
        }
        start += piece.len();
        rest = after;
    }
}

fn sentence_end(text: &str) -> usize {
    let mut ended = false;
    for (index, character) in text.char_indices() {
        match character {
            '。' | '！' | '？' => return index + character.len_utf8(),
            '.' | '!' | '?' | '…' => ended = true,
            '"' | '\'' | ')' | ']' | '”' | '’' | '»' if ended => {}
            _ if character.is_whitespace() && ended => return index,
            _ => ended = false,
        }
    }
    text.len()
}

/// As many words as fit. A text of this length without a blank is no word, and is cut between characters.
fn words_end(text: &str) -> usize {
    let most = text.floor_char_boundary(TARGET_CHUNK_BYTES);
    let fits = text.get(..most).unwrap_or(text);
    if fits.len() == text.len() {
        return text.len();
    }
    if text.get(most..).is_some_and(|rest| rest.starts_with(char::is_whitespace)) {
        return most;
    }
    let blank = fits.char_indices().rev().find(|(index, character)| *index > 0 && character.is_whitespace());
    blank.map_or(most, |(index, _)| index)
}

fn place(section: &ChunkSection<'_>, number: usize) -> String {
    let path: Vec<&str> = section.above.iter().map(String::as_str).chain(section.own).collect();
    let path = path.join(" > ");
    let place = match section.page {
        Some(page) if path.is_empty() => format!("page {page}"),
        Some(page) => format!("page {page}, {path}"),
        None if path.is_empty() => format!("part {number}"),
        None => path,
    };
    shortened(&place, MAX_PLACE_BYTES)
}
