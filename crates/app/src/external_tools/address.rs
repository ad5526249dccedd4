//! The address of a request: where it goes is fixed, and what a call puts into it cannot lead elsewhere.

use serde_json::Value;
use url::Url;

use super::template::{Names, TextTemplate, Writing};
use crate::template::Mistake;

/// A length that servers commonly take.
const MAX_URL_BYTES: usize = 8 * 1024;

/// An address whose path and query may hold values of a call, each of which stays within its segment or parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct UrlTemplate {
    /// Scheme, host and port.
    origin: String,
    segments: Vec<Segment>,
    query: Option<TextTemplate>,
}

#[derive(Debug, Clone, PartialEq)]
struct Segment {
    template: TextTemplate,
    /// Whether a call changes it.
    is_filled: bool,
}

enum Piece<'a> {
    Text(&'a str),
    /// With its braces.
    Tag(&'a str),
}

/// The texts of the templates that a path and a query are made of.
#[derive(Default)]
struct Parts {
    segments: Vec<(String, bool)>,
    query: Option<String>,
}

impl UrlTemplate {
    pub fn new(source: &str, names: Names) -> Result<Self, String> {
        Self::read(source, names).map_err(|mistake| mistake.to_string())
    }

    pub(crate) fn read(source: &str, names: Names) -> Result<Self, Mistake> {
        if source.len() > MAX_URL_BYTES {
            return Err(Mistake::new(format!("it has more than {MAX_URL_BYTES} bytes"), "shorten it"));
        }
        let after_scheme = source.find("://").map_or(0, |at| at + "://".len());
        let end = source.get(after_scheme..).unwrap_or_default().find(['/', '?', '#']);
        let (head, tail) =
            source.split_at_checked(end.map_or(source.len(), |end| after_scheme + end)).unwrap_or_default();
        if head.contains(['{', '}']) {
            let remedy = "write them literally; only the path and the query may contain {{ … }}";
            return Err(Mistake::new("scheme, host or port is a template", remedy));
        }
        let origin = origin(head)?;
        let Parts { segments, query } = parts(tail)?;
        let read = |text: &str| {
            let template = TextTemplate::read(text, names, Writing::Encoded)?;
            if template.secrets().is_empty() && template.credentials().is_empty() {
                return Ok(template);
            }
            let remedy = "addresses are logged; put the secret into headers, query or body";
            Err(Mistake::new("the url itself names a secret", remedy))
        };
        let mut checked = Vec::new();
        for (text, is_filled) in segments {
            if !is_filled && is_dots(&text) {
                let message = format!("the path has the segment {text:?}");
                return Err(Mistake::new(message, "write the path without it"));
            }
            checked.push(Segment { template: read(&text)?, is_filled });
        }
        Ok(Self { origin, segments: checked, query: query.as_deref().map(read).transpose()? })
    }

    pub fn render(&self, values: &Value) -> Result<String, String> {
        let mut text = self.origin.clone();
        for Segment { template, is_filled } in &self.segments {
            let segment = template.write(values)?;
            if *is_filled && (segment.is_empty() || is_dots(&segment)) {
                return Err("a part of the path becomes empty, \".\" or \"..\"".into());
            }
            text.push('/');
            text.push_str(&segment);
        }
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(&query.write(values)?);
        }
        if text.len() > MAX_URL_BYTES {
            return Err(format!("it becomes longer than {MAX_URL_BYTES} bytes"));
        }
        match Url::parse(&text) {
            Ok(url) if url.origin().ascii_serialization() == self.origin => Ok(url.into()),
            Ok(_) | Err(_) => Err("it does not become an address of the same host".into()),
        }
    }
}

/// Scheme, host and port of an address that has nothing else.
fn origin(head: &str) -> Result<String, Mistake> {
    let wrong = |message: &str| Mistake::new(message, "write https:// or http://, a host, and the path");
    check_text(head)?;
    if head.contains('@') {
        let remedy = "remove it; secrets belong into headers, as {{ secret.NAME }}";
        return Err(Mistake::new("the url contains a user name or a password", remedy));
    }
    let url = Url::parse(head).map_err(|error| wrong(&format!("it is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("it does not begin with http:// or https://"));
    }
    Ok(url.origin().ascii_serialization())
}

/// Cuts what follows the host at slashes and at the first question mark, but for those inside of braces.
fn parts(tail: &str) -> Result<Parts, Mistake> {
    let mut parts = Parts::default();
    for piece in pieces(tail)? {
        match piece {
            Piece::Tag(tag) => parts.add(tag, true),
            Piece::Text(text) if parts.query.is_some() => parts.add(text, false),
            Piece::Text(text) => {
                let (path, query) =
                    text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
                for (index, text) in path.split('/').enumerate() {
                    if index > 0 {
                        parts.segments.push((String::new(), false));
                    }
                    parts.add(text, false);
                }
                parts.query = query.map(str::to_owned);
            }
        }
    }
    Ok(parts)
}

impl Parts {
    /// To the query once there is one, else to the last segment.
    fn add(&mut self, text: &str, fills: bool) {
        if let Some(query) = &mut self.query {
            query.push_str(text);
        } else if let Some((segment, is_filled)) = self.segments.last_mut() {
            segment.push_str(text);
            *is_filled |= fills;
        }
    }
}

fn pieces(tail: &str) -> Result<Vec<Piece<'_>>, Mistake> {
    let mut pieces = Vec::new();
    let mut rest = tail;
    while let Some((text, _)) = rest.split_once("{{") {
        check_text(text)?;
        pieces.push(Piece::Text(text));
        rest = rest.get(text.len()..).unwrap_or_default();
        let end = tag_end(rest).ok_or_else(|| Mistake::new("a {{ is not closed", "close it with }}"))?;
        let (tag, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        pieces.push(Piece::Tag(tag));
        rest = after;
    }
    check_text(rest)?;
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Returns the place at which the tag that begins the text ends, not counting what stands in quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '}' && before == '}' => return Some(at + 1),
            None => {}
        }
        before = if quote.is_some() { ' ' } else { c };
    }
    None
}

/// Every reader must read the text of the app as one and the same address.
fn check_text(text: &str) -> Result<(), Mistake> {
    if text.contains("{%") || text.contains("{#") {
        return Err(Mistake::new("the url contains a statement", "write only {{ … }} into it"));
    }
    if text.contains('#') {
        return Err(Mistake::new("the url has a fragment, which is never sent", "remove it"));
    }
    if let Some(odd) = text.chars().find(|c| c.is_whitespace() || c.is_control() || "\\{}".contains(*c)) {
        return Err(Mistake::new(format!("the url contains {odd:?}"), "write it percent-encoded"));
    }
    let encodes =
        |after: &str| after.len() >= 2 && after.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(encodes) {
        return Err(Mistake::new("the url contains a \"%\" that encodes nothing", "write %25"));
    }
    Ok(())
}

/// Whether a segment stands for the folder itself or the one above, however it is spelt.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}
