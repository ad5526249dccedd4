//! DOCX: the paragraphs, lists and tables of its main part, as Word shows them.
//!
//! Text that was deleted, moved away or hidden is left out. Entities are never declared by the file: those XML itself
//! knows are resolved, and all others are dropped.

mod parts;

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use self::parts::{Package, Style};
use super::outline::Outline;
use super::table::TableText;
use super::{BlockKind, DocumentProblem, ExtractedDocument, MAX_PAGES};

/// The part a document cannot be without.
pub(super) const MAIN_PART: &str = "word/document.xml";
/// How deep elements may be nested.
const MAX_DEPTH: usize = 256;
/// The mark Word leaves where a page ended when it last showed the document.
const RENDERED_BREAK: &str = "lastRenderedPageBreak";
/// The attribute in the XML where an author ended a page.
const AUTHOR_BREAK: &str = "type=\"page\"";

pub(super) fn extract(bytes: &[u8]) -> Result<ExtractedDocument, DocumentProblem> {
    let mut package = Package::open(bytes)?;
    let main =
        package.part(MAIN_PART)?.ok_or(DocumentProblem::Unreadable { what: "its main part is missing" })?;
    let styles = package.part("word/styles.xml")?.map(|styles| parts::styles(&styles)).transpose()?;
    let title = package.part("docProps/core.xml")?.map(|core| parts::title(&core)).transpose()?.flatten();
    let mut body = Body { styles: styles.unwrap_or_default(), ..Body::default() };
    body.rendered = main.contains(RENDERED_BREAK);
    body.paged = body.rendered || main.contains(AUTHOR_BREAK);
    read(&main, |event| body.event(event))?;
    body.end_list()?;
    let pages = body.page();
    if pages > MAX_PAGES {
        return Err(DocumentProblem::TooManyPages { pages, limit: MAX_PAGES });
    }
    let pages = body.paged.then_some(pages);
    Ok(body.outline.finish(title.as_deref(), pages))
}

/// Something of an XML part.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Start(&'a str, &'a BytesStart<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Reads a part piece by piece. An element without content is a start and an end.
fn read(
    xml: &str,
    mut take: impl FnMut(Piece<'_>) -> Result<(), DocumentProblem>,
) -> Result<(), DocumentProblem> {
    let damaged = DocumentProblem::Unreadable { what: "its XML is damaged" };
    let mut reader = Reader::from_str(xml);
    let mut depth = 0_usize;
    loop {
        match reader.read_event().map_err(|_| damaged.clone())? {
            Event::Start(start) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(DocumentProblem::Unreadable { what: "its XML is nested too deeply" });
                }
                take(Piece::Start(start.local_name().as_ref(), &start))?;
            }
            Event::Empty(start) => {
                take(Piece::Start(start.local_name().as_ref(), &start))?;
                take(Piece::End(start.local_name().as_ref()))?;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                take(Piece::End(end.local_name().as_ref()))?;
            }
            Event::Text(text) => take(Piece::Text(&text.xml10_content()))?,
            Event::CData(text) => take(Piece::Text(&text.xml10_content()))?,
            Event::GeneralRef(entity) => {
                let character = entity.resolve_char_ref().ok().flatten().map(String::from);
                let known = quick_xml::escape::resolve_predefined_entity(&entity.xml10_content());
                take(Piece::Text(character.as_deref().or(known).unwrap_or_default()))?;
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof if depth > 0 => return Err(damaged),
            Event::Eof => return Ok(()),
        }
    }
}

/// The value of an attribute with any prefix.
fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = start.attributes();
    let found = attributes
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(quick_xml::XmlVersion::default()).ok().map(|value| value.into_owned())
}

/// Whether a property such as "hidden" is set: it is when it has no value.
fn is_on(start: &BytesStart<'_>) -> bool {
    !matches!(attribute(start, "val").as_deref(), Some("0" | "false" | "off"))
}

/// The part of the main part that is read so far.
#[derive(Default)]
struct Body {
    outline: Outline,
    styles: HashMap<String, Style>,
    /// How many open elements are left out, the outermost included.
    left_out: usize,
    in_text: bool,
    /// The run is hidden, or its properties said so.
    vanished: bool,
    in_paragraph_properties: bool,
    paragraph: String,
    paragraph_page: Option<u32>,
    style: Style,
    is_item: bool,
    list: String,
    list_page: Option<u32>,
    tables: usize,
    table: TableText,
    /// Ends of pages so far.
    page_ends: u32,
    /// Something marks where pages end. Without that nothing is known of them.
    paged: bool,
    /// Word marked where pages end, and its marks are counted instead of what the author put there.
    rendered: bool,
}

impl Body {
    fn event(&mut self, piece: Piece<'_>) -> Result<(), DocumentProblem> {
        match piece {
            Piece::Start(_, _) if self.left_out > 0 => self.left_out += 1,
            Piece::End(_) if self.left_out > 0 => self.left_out -= 1,
            Piece::Start("del" | "moveFrom" | "Fallback", _) => self.left_out = 1,
            Piece::Start(name, start) => self.start(name, start)?,
            Piece::End(name) => self.end(name)?,
            Piece::Text(text) => {
                if self.in_text && !self.vanished && self.left_out == 0 {
                    self.push(text);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, name: &str, start: &BytesStart<'_>) -> Result<(), DocumentProblem> {
        match name {
            "p" => self.end_paragraph()?,
            "pPr" => self.in_paragraph_properties = true,
            "pStyle" => {
                let style = attribute(start, "val").unwrap_or_default();
                self.style = self.styles.get(&style).copied().unwrap_or_else(|| parts::style_by_name(&style));
            }
            "numPr" => self.is_item = true,
            "outlineLvl" if self.in_paragraph_properties => {
                self.style = parts::outline_level(attribute(start, "val").as_deref()).unwrap_or(self.style);
            }
            "r" => self.vanished = false,
            "vanish" if !self.in_paragraph_properties => self.vanished = is_on(start),
            "t" => self.in_text = true,
            "tab" | "ptab" if !self.in_paragraph_properties => self.push(" "),
            "noBreakHyphen" => self.push("-"),
            "cr" => self.push("\n"),
            "br" if attribute(start, "type").as_deref() == Some("page") => self.author_break(),
            "br" => self.push("\n"),
            RENDERED_BREAK => self.next_page(),
            "tbl" => {
                self.end_paragraph()?;
                self.end_list()?;
                self.tables += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), DocumentProblem> {
        match name {
            "p" => self.end_paragraph()?,
            "pPr" => self.in_paragraph_properties = false,
            "r" => self.vanished = false,
            "t" => self.in_text = false,
            "tc" if self.tables > 0 => self.end_cell(),
            "tr" if self.tables > 0 => {
                self.end_cell();
                self.table.end_row();
            }
            "tbl" if self.tables > 0 => {
                self.end_cell();
                self.tables -= 1;
                if self.tables == 0 {
                    let table = self.table.take();
                    let page = self.paragraph_page.take();
                    self.outline.block(BlockKind::Table, &table, self.known_page(page))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, text: &str) {
        if self.paragraph_page.is_none() && !text.trim().is_empty() {
            self.paragraph_page = Some(self.page());
        }
        self.paragraph.push_str(text);
    }

    fn author_break(&mut self) {
        if !self.rendered {
            self.next_page();
        }
    }

    fn next_page(&mut self) {
        self.page_ends = self.page_ends.saturating_add(1);
    }

    fn page(&self) -> u32 {
        self.page_ends.saturating_add(1)
    }

    fn known_page(&self, page: Option<u32>) -> Option<u32> {
        page.filter(|_| self.paged)
    }

    fn end_paragraph(&mut self) -> Result<(), DocumentProblem> {
        if self.tables > 0 {
            self.paragraph.push(' ');
            self.style = Style::default();
            self.is_item = false;
            return Ok(());
        }
        let text = std::mem::take(&mut self.paragraph);
        let page = self.paragraph_page.take();
        let style = std::mem::take(&mut self.style);
        let is_item = std::mem::take(&mut self.is_item) || style == Style::Item;
        if text.trim().is_empty() {
            return Ok(());
        }
        let heading = match style {
            Style::Heading(level) => Some(level),
            Style::Item | Style::Plain => None,
        };
        if is_item && heading.is_none() {
            if self.list.is_empty() {
                self.list_page = page;
            }
            let text = text.replace('\n', " ");
            self.list.push_str(&format!("- {}\n", text.trim()));
            return Ok(());
        }
        self.end_list()?;
        match heading {
            Some(level) => self.outline.heading(level, &text, self.known_page(page)),
            None => self.outline.block(BlockKind::Paragraph, &text, self.known_page(page)),
        }
    }

    fn end_list(&mut self) -> Result<(), DocumentProblem> {
        let list = std::mem::take(&mut self.list);
        let page = self.list_page.take();
        self.outline.block(BlockKind::List, &list, self.known_page(page))
    }

    fn end_cell(&mut self) {
        self.table.push_cell(&std::mem::take(&mut self.paragraph));
    }
}
