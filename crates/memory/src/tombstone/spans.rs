//! The words of a text with their places, in the form they are compared in.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// One word: where it is, and how it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Small letters, composed, with a plain `'` for every apostrophe.
    pub(crate) word: String,
}

impl AsRef<str> for WordSpan {
    fn as_ref(&self) -> &str {
        &self.word
    }
}

/// Every word in order. Punctuation and white space only separate; an apostrophe between letters belongs to its word.
pub(crate) fn spans(text: &str) -> Vec<WordSpan> {
    let mut spans = Vec::new();
    let mut open: Option<usize> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let inner = open.is_some() && chars.peek().is_some_and(|(_, next)| in_word(*next));
        let goes_on = in_word(c) && !stands_alone(c);
        let joins = open.is_some() && (is_combining_mark(c) || (inner && (is_apostrophe(c) || is_unseen(c))));
        if goes_on || joins {
            open.get_or_insert(at);
            continue;
        }
        close(text, open.take(), at, &mut spans);
        if stands_alone(c) {
            close(text, Some(at), at + c.len_utf8(), &mut spans);
        }
    }
    close(text, open, text.len(), &mut spans);
    spans
}

fn close(text: &str, start: Option<usize>, end: usize, spans: &mut Vec<WordSpan>) {
    let Some(start) = start else { return };
    let plain = |c: char| if is_apostrophe(c) { '\'' } else { c };
    let said = text.get(start..end).unwrap_or_default().chars().filter(|c| !is_unseen(*c)).map(plain);
    let word: String = said.flat_map(char::to_lowercase).nfc().collect();
    spans.push(WordSpan { start, end, word });
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric()
}

pub(crate) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{02bc}' | '\u{ff07}')
}

/// Soft hyphens and joiners, which a reader does not see.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// Letters of scripts that put no space between words: each is compared by itself.
pub(crate) fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
        && in_word(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        spans(text).into_iter().map(|span| span.word).collect()
    }

    #[test]
    fn words_are_compared_without_case_and_punctuation() {
        assert_eq!(words("Hello,  WORLD!\n—it’s me"), ["hello", "world", "it's", "me"]);
        assert_eq!(words("the cats' 'toy'"), ["the", "cats", "toy"]);
        assert_eq!(words("so\u{ad}lid"), ["solid"]);
        assert_eq!(words("cafe\u{301} CAFÉ"), ["café", "café"]);
        assert_eq!(words("我住 Oslo"), ["我", "住", "oslo"]);
        assert_eq!(words(" \t…!"), Vec::<String>::new());
    }

    #[test]
    fn places_are_those_of_the_text() {
        for text in ["Zoë’s cat, 3 kg!", "我 x", "a\u{301}", "'tis"] {
            for span in spans(text) {
                assert!(!text[span.start..span.end].trim().is_empty(), "{text:?}");
            }
        }
        let places: Vec<_> = spans("Zoë’s cat").iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(places, [(0, 8), (9, 12)]);
    }
}
