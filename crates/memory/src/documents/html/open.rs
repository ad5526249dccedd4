//! The elements that are open, and whether one of them is hidden from people.

use std::collections::HashMap;

use html5ever::LocalName;
use html5ever::tokenizer::Tag;

use crate::phrases::{PhraseList, lists};

lists! {
    pub(super) static ELEMENTS: HtmlElements = "elements.toml"; {
        blocks: PhraseList,
        /// Elements without content and without an end tag.
        void: PhraseList,
        /// Elements that are no part of the text of a page.
        dropped: PhraseList,
        end_a_paragraph: PhraseList,
    }
}

/// How far up an unclosed paragraph or item is looked for when the next one begins.
const MAX_IMPLIED: usize = 32;

#[derive(Default)]
pub(super) struct Open {
    names: Vec<LocalName>,
    /// How many of each name are open, so that an end tag without a start tag costs no search.
    counts: HashMap<LocalName, usize>,
    /// How many elements were open when the outermost hidden one began.
    hidden: Option<usize>,
}

impl Open {
    pub(super) fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    pub(super) fn start(&mut self, tag: &Tag) {
        self.close_implied(&tag.name);
        if ELEMENTS.void.contains(&tag.name) || tag.self_closing && !is_known(&tag.name) {
            return;
        }
        if self.hidden.is_none() && (ELEMENTS.dropped.contains(&tag.name) || hides_content(tag)) {
            self.hidden = Some(self.names.len());
        }
        *self.counts.entry(tag.name.clone()).or_default() += 1;
        self.names.push(tag.name.clone());
    }

    pub(super) fn end(&mut self, name: &LocalName) {
        if self.counts.get(name).copied().unwrap_or_default() == 0 {
            return;
        }
        while let Some(last) = self.names.pop() {
            if let Some(count) = self.counts.get_mut(&last) {
                *count = count.saturating_sub(1);
            }
            if last == *name {
                break;
            }
        }
        if self.hidden.is_some_and(|hidden| hidden >= self.names.len()) {
            self.hidden = None;
        }
    }

    /// A paragraph ends where a block begins, and an item, cell or row where the next one does.
    fn close_implied(&mut self, name: &str) {
        let ends: &[&str] = match name {
            "li" => &["li"],
            "dt" | "dd" => &["dt", "dd"],
            "td" | "th" => &["td", "th"],
            "tr" => &["tr"],
            "option" => &["option"],
            _ if ELEMENTS.end_a_paragraph.contains(name) => &["p"],
            _ => return,
        };
        let bounds =
            |other: &str| matches!(other, "table" | "ul" | "ol" | "dl") || other == "td" && ends == ["p"];
        let above = self.names.iter().rev().take(MAX_IMPLIED).take_while(|other| !bounds(other));
        let found = above.into_iter().find(|other| ends.contains(&&***other)).cloned();
        if let Some(found) = found {
            self.end(&found);
        }
    }
}

/// In HTML a slash closes no element; only those of other vocabularies, such as drawings, are closed by it.
fn is_known(name: &str) -> bool {
    !matches!(name, "svg" | "math")
}

fn hides_content(tag: &Tag) -> bool {
    tag.attrs.iter().any(|attribute| match &*attribute.name.local {
        "hidden" => true,
        "aria-hidden" => attribute.value.trim().eq_ignore_ascii_case("true"),
        "style" => attribute.value.to_ascii_lowercase().split(';').any(hides_by_style),
        _ => false,
    })
}

fn hides_by_style(declaration: &str) -> bool {
    let Some((property, value)) = declaration.split_once(':') else { return false };
    let value = value.trim_end_matches("!important").trim();
    let zero = || {
        let number =
            value.trim_end_matches(|character: char| character.is_ascii_alphabetic() || character == '%');
        number.parse::<f64>().is_ok_and(|number| number == 0.0)
    };
    match property.trim() {
        "display" => value == "none",
        "visibility" => value == "hidden" || value == "collapse",
        "opacity" | "font-size" => zero(),
        _ => false,
    }
}
