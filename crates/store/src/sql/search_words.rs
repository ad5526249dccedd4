//! The words of records as PostgreSQL's search has them: small letters without marks, each with its place.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Words of one record that are found. PostgreSQL keeps places up to 16,383.
const MAX_WORDS: usize = 16_000;

/// Words of a search, and characters of each, that count.
const MAX_ASKED: usize = 16;
const MAX_WORD_CHARS: usize = 64;

/// The words of a text as a `tsvector`.
pub(super) fn search_vector(text: &str) -> String {
    let words = words(text).take(MAX_WORDS).enumerate();
    words.map(|(at, word)| format!("'{word}':{}", at + 1)).collect::<Vec<_>>().join(" ")
}

/// A search as a `tsquery`: all of its words, the last part of each matched from its beginning. None without any word.
pub(super) fn search_query(text: &str) -> Option<String> {
    let parts = text.split(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    let each = parts.filter(|part| !part.is_empty()).take(MAX_ASKED).filter_map(|part| {
        let together: Vec<String> = words(part).map(|word| format!("'{word}'")).collect();
        (!together.is_empty()).then(|| format!("({}:*)", together.join(" <-> ")))
    });
    let query = each.collect::<Vec<_>>().join(" & ");
    (!query.is_empty()).then_some(query)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c));
    let plain = parts.map(|part| {
        let plain = part.nfd().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c));
        plain.flat_map(char::to_lowercase).take(MAX_WORD_CHARS).collect::<String>()
    });
    plain.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_marks_and_have_places() {
        assert_eq!(search_vector("Café, L'Été"), "'cafe':1 'l':2 'ete':3");
        assert_eq!(search_query("ca \"L'été\"").as_deref(), Some("('ca':*) & ('l' <-> 'ete':*)"));
        assert_eq!(search_query(" -- "), None);
    }
}
