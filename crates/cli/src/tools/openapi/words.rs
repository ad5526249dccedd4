//! Foreign words as names and texts that can stand in a file of ours.

/// Bytes of a tool's name.
const MAX_NAME_CHARS: usize = 64;

/// Of a description; a model reads each of them before every answer.
const MAX_TEXT_CHARS: usize = 1024;

/// One line without control characters and without those that make a text look like another, cut to what is kept.
pub(super) fn line(text: &str) -> String {
    let plain: String = text
        .chars()
        .filter(|c| !is_hidden(*c))
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match plain.char_indices().nth(MAX_TEXT_CHARS) {
        None => plain,
        Some(_) => plain.chars().take(MAX_TEXT_CHARS - 1).chain(['…']).collect(),
    }
}

/// Marks of direction, blanks without width and tags: a person who reviews a text does not see them, a model does.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// A tool's name: letters, digits, underscores and dashes.
pub(super) fn tool_name(text: &str) -> String {
    let name = single_underscores(text, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if name.is_empty() { "call".to_owned() } else { name.chars().take(MAX_NAME_CHARS).collect() }
}

/// A name that a template can use: letters, digits and underscores, and no digit first.
pub(super) fn variable(text: &str) -> String {
    let name = single_underscores(text, |c| c.is_ascii_alphanumeric() || c == '_');
    match name.chars().next() {
        None => "value".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name,
    }
}

/// A file's name, without its ending.
pub(super) fn file_name(text: &str) -> String {
    let name = single_underscores(&text.to_lowercase(), |c| c.is_ascii_alphanumeric()).replace('_', "-");
    if name.is_empty() { "openapi".to_owned() } else { name.chars().take(MAX_NAME_CHARS).collect() }
}

/// The name, or with a number behind it if it is taken, at most as long as a tool's name may be.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let within = |most: usize| name.chars().take(most).collect::<String>();
    let numbered = (2..=usize::MAX).map(|number| {
        let ending = format!("_{number}");
        format!("{}{ending}", within(MAX_NAME_CHARS - ending.len()))
    });
    std::iter::once(within(MAX_NAME_CHARS)).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// With one underscore in place of any others in a row.
fn single_underscores(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let parts = text.split(|c| !is_kept(c)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_")
}
