//! A section made to fit: by whole items, those that matter most, with a word on how many are missing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Tokens that the end of a line and a blank one may take.
const LINE_TOKENS: usize = 2;

/// The unit that counts as one item of a section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SectionItems {
    /// A line, with the lines below it that are indented.
    #[default]
    Lines,
    /// All lines up to a blank one: what is said of one person must not be taken for what is said of another.
    Paragraphs,
}

impl SectionItems {
    pub(crate) const NAMES: [(&'static str, SectionItems); 2] =
        [("lines", SectionItems::Lines), ("paragraphs", SectionItems::Paragraphs)];
}

/// A section as it was written, ready to be shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionText {
    title: String,
    items: Vec<SectionItem>,
    /// Whether there was more than a section may write at all.
    is_cut: bool,
}

/// A part of a section that is shown whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SectionItem {
    text: String,
    /// The paragraph it stands in, from 0.
    paragraph: usize,
}

/// A section that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortSection {
    pub text: String,
    /// Items that are in it, and items that there are.
    pub shown: usize,
    pub all: usize,
}

impl SectionText {
    pub(super) fn new(title: &str, body: &str, items: SectionItems, is_cut: bool) -> Self {
        let mut found: Vec<SectionItem> = Vec::new();
        let (mut paragraph, mut begins) = (0, true);
        for line in body.lines() {
            if line.is_empty() {
                (paragraph, begins) = (paragraph + 1, true);
                continue;
            }
            let belongs = match items {
                SectionItems::Lines => line.starts_with(char::is_whitespace),
                SectionItems::Paragraphs => true,
            };
            match found.last_mut().filter(|_| belongs && !begins) {
                Some(item) => {
                    item.text.push('\n');
                    item.text.push_str(line);
                }
                None => found.push(SectionItem { text: line.to_owned(), paragraph }),
            }
            begins = false;
        }
        Self { title: title.to_owned(), items: found, is_cut }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All of it.
    pub fn full_text(&self) -> String {
        let all: Vec<&SectionItem> = self.items.iter().collect();
        self.text_of_items(&all)
    }

    /// As many items as fit into `room` tokens: those that `matters` puts first, and of equals the first ones. They
    /// keep their order, and a last line says how many there are. Where none fits whole, the first one is told as far
    /// as its lines go; where not even one does, only that there are some; and nothing where there is no room for that
    /// either.
    pub fn shorten_to(
        &self,
        room: usize,
        tokens: impl Fn(&str) -> usize,
        matters: impl Fn(&str) -> usize,
    ) -> Option<ShortSection> {
        let all = self.items.len();
        let whole = self.full_text();
        if tokens(&whole) <= room {
            return Some(ShortSection { text: whole, shown: all, all });
        }
        let mut ranked: Vec<(usize, usize)> =
            self.items.iter().map(|item| matters(&item.text)).enumerate().collect();
        ranked.sort_by_key(|(place, matters)| (Reverse(*matters), *place));
        // Counted apart, texts take a little more than together, never less.
        let frame = tokens(&self.title) + tokens(&note(all, all, self.is_cut)) + LINE_TOKENS;
        let mut left = room.saturating_sub(frame);
        let mut taken = BTreeSet::new();
        for (place, _) in &ranked {
            let cost = self.items.get(*place).map_or(0, |item| tokens(&item.text) + LINE_TOKENS);
            if let Some(rest) = left.checked_sub(cost) {
                left = rest;
                taken.insert(*place);
            }
        }
        if !taken.is_empty() {
            return Some(ShortSection { text: self.items_at(&taken), shown: taken.len(), all });
        }
        let first = ranked.first().and_then(|(place, _)| self.items.get(*place))?;
        let begun = (1..first.text.lines().count()).rev().map(|lines| self.item_beginning(first, lines));
        let nothing = format!("{}: on record, but there is no room for any of the {all} here.", self.title);
        let text = begun.chain([nothing]).find(|text| tokens(text) <= room)?;
        Some(ShortSection { text, shown: 0, all })
    }

    /// The first lines of an item that is too long.
    fn item_beginning(&self, item: &SectionItem, lines: usize) -> String {
        let lines: Vec<&str> = item.text.lines().take(lines).collect();
        format!("{}:\n{}\n{}", self.title, lines.join("\n"), note(0, self.items.len(), self.is_cut))
    }

    /// The items at these places, and that there are more.
    fn items_at(&self, places: &BTreeSet<usize>) -> String {
        let kept: Vec<&SectionItem> = places.iter().filter_map(|place| self.items.get(*place)).collect();
        format!("{}\n{}", self.text_of_items(&kept), note(kept.len(), self.items.len(), self.is_cut))
    }

    fn text_of_items(&self, items: &[&SectionItem]) -> String {
        let mut text = format!("{}:", self.title);
        let mut paragraph = items.first().map(|item| item.paragraph);
        for item in items {
            if paragraph != Some(item.paragraph) {
                text.push('\n');
                paragraph = Some(item.paragraph);
            }
            text.push('\n');
            text.push_str(&item.text);
        }
        if items.len() == self.items.len() && self.is_cut {
            text.push('\n');
            text.push_str(super::template::CUT);
        }
        text
    }
}

/// A note for the reader, so that the reader does not take a part for the complete text.
fn note(shown: usize, all: usize, is_cut: bool) -> String {
    let more = if is_cut { "more than " } else { "" };
    if shown == 0 {
        return format!("[Only a part of 1 of {more}{all} is shown; the rest is on record.]");
    }
    format!("[{shown} of {more}{all} shown; the others are on record too.]")
}
