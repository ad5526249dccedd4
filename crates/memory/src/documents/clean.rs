//! Text as people see it: nothing hidden in it, one kind of line end, one kind of blank.

use unicode_normalization::UnicodeNormalization;

/// Lines without blanks around them and without empty lines.
pub(super) fn lines(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for line in visible(text).split('\n') {
        let before = cleaned.len();
        for word in line.split_whitespace() {
            if cleaned.len() > before {
                cleaned.push(' ');
            } else if !cleaned.is_empty() {
                cleaned.push('\n');
            }
            cleaned.push_str(word);
        }
    }
    cleaned
}

/// One line.
pub(super) fn line(text: &str) -> String {
    lines(&text.replace(['\n', '\r'], " "))
}

/// Lines as they stand, for code: only what ends a line and more than one empty line are dropped.
pub(super) fn code(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut empty = 0_usize;
    for line in visible(text).split('\n').map(str::trim_end) {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        if !cleaned.is_empty() {
            cleaned.push_str(if empty > 0 { "\n\n" } else { "\n" });
        }
        cleaned.push_str(line);
        empty = 0;
    }
    cleaned
}

fn visible(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {
                characters.next_if_eq(&'\n');
                cleaned.push('\n');
            }
            '\n' | '\t' => cleaned.push(character),
            '\u{0b}' | '\u{0c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => cleaned.push('\n'),
            // Letters that are written as one, such as "ffi".
            '\u{fb00}'..='\u{fb06}' => cleaned.extend([character].into_iter().nfkc()),
            _ if is_invisible(character) => {}
            _ if character.is_whitespace() => cleaned.push(' '),
            _ => cleaned.push(character),
        }
    }
    cleaned
}

/// Characters that show nothing, or change the order in which others are shown: they hide text from people.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
