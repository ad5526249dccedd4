//! Lists of words and phrases. They stand in TOML files beside the code that uses them, and are read at first use.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Declares lists that are read from a data file at first use, with a test that reads the file.
macro_rules! lists {
    ($shown:vis static $name:ident: $lists:ident = $file:literal; { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $shown static $name: std::sync::LazyLock<$lists> =
            std::sync::LazyLock::new(|| $crate::phrases::read_data(include_str!($file)));

        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $shown struct $lists {
            $($(#[$doc])* $shown $field: $type,)*
        }

        #[cfg(test)]
        mod data_file {
            #[test]
            fn is_read() {
                toml::from_str::<super::$lists>(include_str!($file)).unwrap();
            }
        }
    };
}

pub(crate) use lists;

/// Phrases in lower case with one space between their words, sorted.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct PhraseList(Vec<String>);

impl TryFrom<Vec<String>> for PhraseList {
    type Error = String;

    fn try_from(mut phrases: Vec<String>) -> Result<Self, String> {
        let is_plain = |phrase: &&String| {
            let words: Vec<&str> = phrase.split_whitespace().collect();
            !words.is_empty() && words.join(" ") == **phrase && phrase.to_lowercase() == **phrase
        };
        if let Some(phrase) = phrases.iter().find(|phrase| !is_plain(phrase)) {
            return Err(format!("`{phrase}` is not words in lower case with one space between them"));
        }
        phrases.sort_unstable();
        match phrases.windows(2).find(|two| two.first() == two.last()) {
            Some(twice) => Err(format!("{twice:?} stands twice in one list")),
            None => Ok(Self(phrases)),
        }
    }
}

impl PhraseList {
    pub(crate) fn contains(&self, phrase: &str) -> bool {
        self.0.binary_search_by(|known| known.as_str().cmp(phrase)).is_ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The longest phrase that these words begin with.
    pub(crate) fn longest_start<W: AsRef<str>>(&self, words: &[W]) -> Option<&str> {
        self.iter().filter(|phrase| starts_with(words, phrase)).max_by_key(|phrase| phrase.len())
    }

    /// The longest phrase that these words end with.
    pub(crate) fn longest_end<W: AsRef<str>>(&self, words: &[W]) -> Option<&str> {
        let ends = |phrase: &&str| {
            let from = words.len().checked_sub(word_count(phrase));
            from.and_then(|from| words.get(from..)).is_some_and(|tail| starts_with(tail, phrase))
        };
        self.iter().filter(ends).max_by_key(|phrase| phrase.len())
    }
}

/// Whether the words begin with the phrase.
pub(crate) fn starts_with<W: AsRef<str>>(words: &[W], phrase: &str) -> bool {
    let mut words = words.iter();
    phrase.split(' ').all(|word| words.next().is_some_and(|next| next.as_ref() == word))
}

pub(crate) fn word_count(phrase: &str) -> usize {
    phrase.split(' ').count()
}

/// Reads a data file. The files are part of the program and tests read each of them, so a file that cannot be read counts
/// as empty.
pub(crate) fn read_data<T: DeserializeOwned + Default>(toml: &str) -> T {
    toml::from_str(toml).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Greetings {
        greetings: PhraseList,
    }

    fn list(phrases: &[&str]) -> Result<PhraseList, String> {
        phrases.iter().map(|phrase| (*phrase).to_owned()).collect::<Vec<_>>().try_into()
    }

    #[test]
    fn a_list_knows_its_phrases_and_finds_the_longest_at_either_end() {
        let list = list(&["thank you very much", "thank you", "hi", "you very much"]).unwrap();
        assert!(list.contains("hi") && !list.contains("thank"));
        let words = ["hi", "thank", "you", "very", "much"];
        assert_eq!(list.longest_start(&words), Some("hi"));
        assert_eq!(list.longest_start(&words[1..]), Some("thank you very much"));
        assert_eq!(list.longest_start(&words[1..3]), Some("thank you"));
        assert_eq!(list.longest_end(&words), Some("thank you very much"));
        assert_eq!((list.longest_start(&words[4..]), list.longest_end(&words[..2])), (None, None));
        assert_eq!(list.longest_start::<&str>(&[]), None);
    }

    #[test]
    fn a_malformed_list_is_refused() {
        for broken in [&["two  spaces"][..], &["Large"], &[""], &[" hi"], &["hi", "hey", "hi"], &["a\nb"]] {
            assert!(list(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_file_with_another_field_or_without_one_is_refused_and_counts_as_empty() {
        let read = |toml: &str| toml::from_str::<Greetings>(toml);
        assert!(read("greetings = ['hi']").unwrap().greetings.contains("hi"));
        for broken in ["", "greeting = ['hi']", "greetings = 'hi'", "greetings = ['hi']\nmore = []", "["] {
            assert!(read(broken).is_err(), "{broken}");
            assert_eq!(read_data::<Greetings>(broken).greetings.iter().count(), 0);
        }
    }
}
