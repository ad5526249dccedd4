//! HTML as its reader sees it.
//!
//! Tags are taken as they come, without a tree: nested elements cost no stack, and a missing end tag no more than a
//! block that ends early. The elements that are open are remembered, so that what is hidden ends where its parent does;
//! there are no more of them than bytes in the document.

mod open;

use std::cell::RefCell;

use encoding_rs::Encoding;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use self::open::{ELEMENTS, Open};
use super::outline::Outline;
use super::table::TableText;
use super::{BlockKind, DocumentProblem, ExtractedDocument, MAX_TEXT_BYTES, text};

/// Bytes from the start of a document in which it names its encoding.
const CHARSET_BYTES: usize = 1024;

pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    extract_text(&text::decode(bytes, said_encoding(bytes)))
}

pub(super) fn extract_text(text: &str) -> Result<ExtractedDocument, DocumentProblem> {
    let tokenizer = Tokenizer::new(HtmlReader(RefCell::new(HtmlPage::default())), TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(text));
    // Only a sink that runs scripts is ever asked to feed again.
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    let page = tokenizer.sink.0.into_inner();
    match page.problem {
        Some(problem) => Err(problem),
        None => Ok(page.outline.finish(Some(&page.title), None)),
    }
}

fn said_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(bytes.get(..CHARSET_BYTES.min(bytes.len()))?).to_ascii_lowercase();
    let (_, after) = start.split_once("charset=")?;
    let label = after.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(['"', '\'', ' ', '>', ';', '/']).unwrap_or(label.len());
    Encoding::for_label(label.get(..end)?.as_bytes())
}

struct HtmlReader(RefCell<HtmlPage>);

impl TokenSink for HtmlReader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(characters) => page.characters(&characters),
            Token::TagToken(tag) => return page.tag(&tag),
            Token::EOFToken => page.end(),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

/// The part of a page that was read so far.
#[derive(Default)]
struct HtmlPage {
    outline: Outline,
    open: Open,
    title: String,
    in_title: bool,
    /// The text since the last block began.
    buffer: String,
    heading: Option<u8>,
    preformatted: usize,
    /// One number for each open list: the next item of one that counts, none for one with dots.
    lists: Vec<Option<u32>>,
    list: String,
    /// The next text begins an item.
    item: bool,
    tables: usize,
    table: TableText,
    problem: Option<DocumentProblem>,
}

impl HtmlPage {
    fn characters(&mut self, characters: &str) {
        if self.in_title {
            self.title.push_str(characters);
            return;
        }
        if self.open.is_hidden() || self.problem.is_some() {
            return;
        }
        if self.preformatted > 0 && self.tables == 0 {
            self.buffer.push_str(characters);
        } else {
            self.push_words(characters);
        }
        if self.buffer.len() > MAX_TEXT_BYTES
            || self.list.len() > MAX_TEXT_BYTES
            || self.table.len() > MAX_TEXT_BYTES
        {
            self.problem = Some(DocumentProblem::TooLarge { what: "bytes of text", limit: MAX_TEXT_BYTES });
        }
    }

    /// Line breaks in the source are no line breaks on the page.
    fn push_words(&mut self, characters: &str) {
        for character in characters.chars() {
            if !character.is_ascii_whitespace() {
                self.buffer.push(character);
            } else if !self.buffer.ends_with([' ', '\n']) {
                self.buffer.push(' ');
            }
        }
    }

    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        match tag.kind {
            TagKind::StartTag => {
                let first_title = name == "title" && self.title.is_empty() && !self.open.is_hidden();
                self.open.start(tag);
                self.in_title = first_title;
                if !self.open.is_hidden() {
                    self.start(name);
                }
                if !ELEMENTS.void.contains(name) {
                    return raw(name);
                }
            }
            TagKind::EndTag => {
                self.in_title = false;
                let hidden = self.open.is_hidden();
                self.open.end(&tag.name);
                if !hidden {
                    self.finish(name);
                }
            }
        }
        TokenSinkResult::Continue
    }

    fn start(&mut self, name: &str) {
        match name {
            "br" => self.buffer.push('\n'),
            "pre" => {
                self.flush();
                self.preformatted += 1;
            }
            "ul" | "ol" | "menu" | "dl" => {
                self.flush();
                self.lists.push((name == "ol").then_some(1));
                self.item = false;
            }
            "li" | "dt" | "dd" => {
                self.flush();
                self.item = true;
            }
            "table" => {
                self.flush();
                self.tables += 1;
            }
            "td" | "th" if self.tables > 0 => self.cell(),
            "tr" if self.tables > 0 => self.row(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush();
                self.heading = name.get(1..).and_then(|level| level.parse().ok());
            }
            _ if ELEMENTS.blocks.contains(name) => self.flush(),
            _ => {}
        }
    }

    fn finish(&mut self, name: &str) {
        match name {
            "pre" => {
                self.flush();
                self.preformatted = self.preformatted.saturating_sub(1);
            }
            "ul" | "ol" | "menu" | "dl" => {
                self.flush();
                self.lists.pop();
                self.item = false;
                if self.lists.is_empty() {
                    self.end_list();
                }
            }
            "table" if self.tables > 0 => {
                self.row();
                self.tables -= 1;
                if self.tables == 0 {
                    self.end_table();
                }
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush();
                self.heading = None;
            }
            _ if ELEMENTS.blocks.contains(name) => self.flush(),
            _ => {}
        }
    }

    /// Puts what was said since the last boundary where it belongs.
    fn flush(&mut self) {
        if self.tables > 0 {
            self.buffer.push(' ');
            return;
        }
        let text = std::mem::take(&mut self.buffer);
        if text.trim().is_empty() {
            return;
        }
        if !self.lists.is_empty() {
            self.list_line(text.trim());
            return;
        }
        let pushed = match self.heading {
            Some(level) => self.outline.heading(level, &text, None),
            None if self.preformatted > 0 => self.outline.block(BlockKind::Code, &text, None),
            None => self.outline.block(BlockKind::Paragraph, &text, None),
        };
        self.note(pushed);
    }

    fn list_line(&mut self, text: &str) {
        if !self.list.is_empty() {
            self.list.push('\n');
        }
        if std::mem::take(&mut self.item) {
            match self.lists.last_mut() {
                Some(Some(number)) => {
                    self.list.push_str(&format!("{number}. "));
                    *number = number.saturating_add(1);
                }
                Some(None) | None => self.list.push_str("- "),
            }
        }
        self.list.push_str(text);
    }

    fn end_list(&mut self) {
        let list = std::mem::take(&mut self.list);
        let pushed = self.outline.block(BlockKind::List, &list, None);
        self.note(pushed);
    }

    fn cell(&mut self) {
        self.table.push_cell(&std::mem::take(&mut self.buffer));
    }

    fn row(&mut self) {
        self.cell();
        self.table.end_row();
    }

    fn end_table(&mut self) {
        let table = self.table.take();
        if self.lists.is_empty() {
            let pushed = self.outline.block(BlockKind::Table, &table, None);
            self.note(pushed);
        } else {
            self.list_line(table.trim());
        }
    }

    fn end(&mut self) {
        if self.tables > 0 {
            self.row();
            self.tables = 0;
            self.end_table();
        }
        self.flush();
        self.end_list();
    }

    fn note(&mut self, pushed: Result<(), DocumentProblem>) {
        if let Err(problem) = pushed {
            self.problem.get_or_insert(problem);
        }
    }
}

/// Elements whose content is no markup.
fn raw(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}
