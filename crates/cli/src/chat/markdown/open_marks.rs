//! How much of a line can be shown before the rest of it has come: no mark may be open that changes how it looks.

use unicode_width::UnicodeWidthChar;

/// Marks that are open in a line.
#[derive(Default)]
struct OpenMarks {
    /// Runs of a mark, by its character and length. The last one is the innermost.
    runs: Vec<(char, usize)>,
    /// Whether the text of a link is open, or its address.
    brackets: usize,
    in_address: bool,
}

impl OpenMarks {
    fn is_clear(&self) -> bool {
        self.runs.is_empty() && self.brackets == 0 && !self.in_address
    }

    fn is_code(&self) -> bool {
        self.runs.last().is_some_and(|(mark, _)| *mark == '`')
    }

    /// A run opens, or closes the open run of the same mark and length.
    fn take_run(&mut self, run: (char, usize)) {
        match self.runs.iter().rposition(|open| *open == run) {
            Some(place) => self.runs.truncate(place),
            None => self.runs.push(run),
        }
    }
}

/// Bytes at the beginning of a text whose look no later text can change, up to the end of a word.
pub(super) fn settled_bytes(text: &str) -> usize {
    let mut open = OpenMarks::default();
    let (mut settled, mut before) = (0, ' ');
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let mut end = at + c.len_utf8();
        match c {
            '\\' if !open.is_code() => {
                chars.next();
            }
            '`' | '*' | '_' | '~' => {
                while chars.next_if(|(_, next)| *next == c).is_some() {
                    end += c.len_utf8();
                }
                let after = chars.peek().map_or(' ', |(_, next)| *next);
                if is_mark(c, before, after) && (c == '`' || !open.is_code()) {
                    open.take_run((c, end - at));
                }
            }
            '[' if !open.is_code() => open.brackets += 1,
            ']' if !open.is_code() => {
                open.brackets = open.brackets.saturating_sub(1);
                open.in_address = chars.next_if(|(_, next)| *next == '(').is_some();
            }
            ')' => open.in_address = false,
            _ => {}
        }
        before = c;
        if open.is_clear() && is_word_end(c) {
            settled = end;
        }
    }
    settled
}

/// Whether a run of marks can open or close something: not between spaces, and an underscore not inside a word.
fn is_mark(mark: char, before: char, after: char) -> bool {
    let is_apart = before.is_whitespace() && after.is_whitespace();
    let is_inside = before.is_alphanumeric() && after.is_alphanumeric();
    mark == '`' || !(is_apart || mark == '_' && is_inside)
}

/// White space, and the characters of scripts that write no spaces.
fn is_word_end(c: char) -> bool {
    c.is_whitespace() || c.width().is_some_and(|width| width > 1)
}
