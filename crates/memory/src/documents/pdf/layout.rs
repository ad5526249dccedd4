//! From glyphs on a page to lines, and from lines to paragraphs and headings.
//!
//! Glyphs are taken in the order they are drawn, which is the order of reading in what word processors and typesetters
//! make, columns included.

use std::collections::BTreeMap;

use hayro_interpret::kurbo::{Point, Vec2};

use crate::documents::outline::Outline;
use crate::documents::{BlockKind, DocumentProblem};

/// All of these are shares of the size of a font.
const WORD_GAP: f64 = 0.18;
const SAME_LINE: f64 = 0.5;
const STEP_BACK: f64 = 1.0;
/// Lines further apart than this are no lines of one paragraph.
const FAR_APART: f64 = 2.5;
const SINGLE_SPACED: f64 = 1.25;
/// How much more than usual lines are apart where a paragraph ends.
const PARAGRAPH_GAP: f64 = 1.3;
/// How much larger than most text a heading is.
const HEADING_SIZE: f64 = 1.15;
const MAX_HEADING_BYTES: usize = 200;
const MAX_HEADING_LEVEL: u8 = 6;
/// Points within which the lines of a column begin, indents included.
const COLUMN_POINTS: f64 = 40.0;
/// Fewer distances than this between lines tell nothing.
const FEW_DISTANCES: usize = 20;
/// Dots that fill the line in a table of contents, which names headings and has none.
const LEADER: &str = "....";
/// Directions of text whose unit vectors differ by more than this are different.
const SAME_DIRECTION: f64 = 0.1;
/// The finest difference between sizes that is seen, as a share of a point.
const SIZE_STEPS: f64 = 2.0;

/// The place of a glyph, and the size of its font.
#[derive(Clone, Copy)]
pub(super) struct GlyphMark {
    pub(super) start: Point,
    pub(super) end: Point,
    pub(super) size: f64,
}

/// A line of text, and where it is, measured along and across the direction it is read in.
pub(super) struct PdfLine {
    text: String,
    direction: Vec2,
    start: f64,
    end: f64,
    across: f64,
    size: f64,
}

#[derive(Default)]
pub(super) struct PdfLines {
    lines: Vec<PdfLine>,
}

impl PdfLines {
    pub(super) fn add(&mut self, text: &str, mark: GlyphMark) {
        if !(mark.size.is_finite() && mark.start.is_finite() && mark.end.is_finite()) {
            return;
        }
        let way = mark.end - mark.start;
        let direction = if way.hypot() > f64::EPSILON { way.normalize() } else { Vec2::new(1.0, 0.0) };
        let (along, across) = (direction.dot(mark.start.to_vec2()), direction.cross(mark.start.to_vec2()));
        let end = direction.dot(mark.end.to_vec2());
        if let Some(line) = self.lines.last_mut()
            && (line.direction - direction).hypot() < SAME_DIRECTION
            && (line.across - across).abs() < SAME_LINE * line.size
            && along > line.end - STEP_BACK * line.size
        {
            if along - line.end > WORD_GAP * mark.size && !line.text.ends_with(' ') {
                line.text.push(' ');
            }
            line.text.push_str(text);
            line.end = end;
            line.size = line.size.max(mark.size);
            return;
        }
        self.lines.push(PdfLine {
            text: text.to_owned(),
            direction,
            start: along,
            end,
            across,
            size: mark.size,
        });
    }

    pub(super) fn finish(self) -> Vec<PdfLine> {
        self.lines.into_iter().filter(|line| !line.text.trim().is_empty()).collect()
    }
}

/// Lines that belong together.
struct Paragraph {
    text: String,
    size: f64,
    page: u32,
}

pub(super) fn outline(pages: &[Vec<PdfLine>]) -> Result<Outline, DocumentProblem> {
    let usual = usual_distance(pages);
    let paragraphs: Vec<Paragraph> =
        (1..).zip(pages).flat_map(|(page, lines)| paragraphs_of(lines, page, usual)).collect();
    let body = body_size(&paragraphs);
    let is_heading = |paragraph: &Paragraph| {
        paragraph.size >= body * HEADING_SIZE
            && paragraph.text.len() <= MAX_HEADING_BYTES
            && paragraph.text.chars().any(char::is_alphabetic)
            && !paragraph.text.contains(LEADER)
    };
    let mut sizes: Vec<u64> =
        paragraphs.iter().filter(|each| is_heading(each)).map(|each| step(each.size)).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes.dedup();
    let mut outline = Outline::default();
    for paragraph in &paragraphs {
        let page = Some(paragraph.page);
        if is_heading(paragraph) {
            let rank = sizes.iter().position(|size| *size == step(paragraph.size)).unwrap_or_default();
            let level = u8::try_from(rank + 1).unwrap_or(MAX_HEADING_LEVEL).min(MAX_HEADING_LEVEL);
            outline.heading(level, &paragraph.text, page)?;
        } else {
            let kind = if is_item(&paragraph.text) { BlockKind::List } else { BlockKind::Paragraph };
            outline.block(kind, &paragraph.text, page)?;
        }
    }
    Ok(outline)
}

fn paragraphs_of(lines: &[PdfLine], page: u32, usual: f64) -> Vec<Paragraph> {
    let margins = Margins::of(lines);
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut before: Option<&PdfLine> = None;
    for line in lines {
        let joined =
            before.is_some_and(|before| goes_on(before, line, usual) && margins.is_full(before, line));
        match paragraphs.last_mut() {
            Some(paragraph) if joined => join(&mut paragraph.text, &line.text),
            Some(_) | None => paragraphs.push(Paragraph { text: line.text.clone(), size: line.size, page }),
        }
        before = Some(line);
    }
    paragraphs
}

fn goes_on(before: &PdfLine, line: &PdfLine, usual: f64) -> bool {
    let distance = line.across - before.across;
    (before.direction - line.direction).hypot() < SAME_DIRECTION
        && step(before.size).abs_diff(step(line.size)) <= 1
        && distance > 0.0
        && distance <= usual * PARAGRAPH_GAP * line.size
        && !is_item(&line.text)
}

/// How far the lines of a page reach, by where they begin: those of a column begin together.
struct Margins(BTreeMap<i64, f64>);

impl Margins {
    fn of(lines: &[PdfLine]) -> Self {
        let mut margins = BTreeMap::new();
        for line in lines {
            let reach = margins.entry(Self::column(line)).or_insert(line.end);
            *reach = line.end.max(*reach);
        }
        Self(margins)
    }

    fn column(line: &PdfLine) -> i64 {
        (line.start / COLUMN_POINTS).round() as i64
    }

    /// Whether the first word of the next line had no room left in this one: if it had, a paragraph ended here.
    fn is_full(&self, line: &PdfLine, next: &PdfLine) -> bool {
        let columns = [line, next].map(Self::column);
        let near = columns.map(|column| self.0.range(column.saturating_sub(1)..=column.saturating_add(1)));
        let reaches = near.into_iter().flatten().map(|(_, reach)| *reach);
        let letters = next.text.chars().count().max(1) as f64;
        let word = next.text.trim_start().chars().take_while(|letter| !letter.is_whitespace()).count() as f64;
        let width = (next.end - next.start) / letters * word;
        line.end + width + line.size > reaches.fold(line.end, f64::max)
    }
}

/// How far apart lines of one paragraph are in this document, as a share of their size. Most distances are that, and
/// the others are larger. A few distances tell nothing, and are taken for single spacing.
fn usual_distance(pages: &[Vec<PdfLine>]) -> f64 {
    let pairs = pages.iter().flat_map(|lines| lines.iter().zip(lines.iter().skip(1)));
    let alike = pairs.filter(|(before, line)| step(before.size) == step(line.size) && line.size > 0.0);
    let mut distances: Vec<f64> =
        alike.map(|(before, line)| (line.across - before.across) / line.size).collect();
    distances.retain(|distance| *distance > SAME_LINE && *distance < FAR_APART);
    distances.sort_unstable_by(f64::total_cmp);
    let usual = distances.get(distances.len() / 4).copied().unwrap_or_default();
    if distances.len() < FEW_DISTANCES { usual.min(SINGLE_SPACED) } else { usual }
}

/// The size of most of the text.
fn body_size(paragraphs: &[Paragraph]) -> f64 {
    let mut bytes = BTreeMap::<u64, usize>::new();
    for paragraph in paragraphs {
        *bytes.entry(step(paragraph.size)).or_default() += paragraph.text.len();
    }
    let most = bytes.iter().max_by_key(|(_, bytes)| **bytes);
    most.map_or(f64::INFINITY, |(size, _)| *size as f64 / SIZE_STEPS)
}

fn step(size: f64) -> u64 {
    (size * SIZE_STEPS).round() as u64
}

/// A word that was cut at the end of a line becomes whole again.
fn join(text: &mut String, line: &str) {
    let line = line.trim_start();
    text.truncate(text.trim_end().len());
    let mut last = text.chars().rev();
    let cut = matches!(last.next(), Some('-' | '\u{ad}' | '\u{2010}'))
        && last.next().is_some_and(char::is_alphabetic)
        && line.starts_with(char::is_lowercase);
    if cut {
        text.pop();
    } else {
        text.push(' ');
    }
    text.push_str(line);
}

fn is_item(text: &str) -> bool {
    let mut characters = text.trim_start().chars();
    matches!(characters.next(), Some('•' | '‣' | '▪' | '●' | '◦' | '–' | '-' | '*' | '\u{b7}'))
        && characters.next().is_some_and(char::is_whitespace)
}
