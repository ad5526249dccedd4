//! The ideas that orders to an assistant are made of, told by their words in five languages.
//!
//! "Ignore your rules" and "Vergiss deine Vorgaben" share no word, but two ideas. Knowledge of ideas that is learned in
//! one language holds in the others.

use std::collections::HashMap;

use crate::words;

/// Ideas there can be, one bit each.
pub(super) const MAX_IDEAS: usize = 64;
/// Letters of the longest beginning of a word, and characters of the longest Chinese word, that are looked up.
const MAX_LETTERS: usize = 16;

/// An idea, by its place in the list.
pub(super) type Idea = usize;

/// The list of ideas with their words.
#[derive(Debug, Default)]
pub(super) struct Ideas {
    names: Vec<String>,
    /// Whole words. Words of scripts without blanks are found inside others.
    words: HashMap<String, Vec<Idea>>,
    /// Beginnings of words.
    beginnings: HashMap<String, Vec<Idea>>,
    /// Words side by side, by the first of them.
    phrases: HashMap<String, Vec<(Vec<Wanted>, Idea)>>,
}

/// A word of a phrase after its first.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Word(String),
    Beginning(String),
}

impl Wanted {
    fn of(word: &str) -> Self {
        match word.strip_suffix('*') {
            Some(beginning) => Self::Beginning(beginning.to_owned()),
            None => Self::Word(word.to_owned()),
        }
    }

    fn matches_word(&self, word: &str) -> bool {
        match self {
            Self::Word(wanted) => word == wanted,
            Self::Beginning(beginning) => word.starts_with(beginning.as_str()),
        }
    }
}

impl Ideas {
    /// Reads lines such as `override: ignor* disregard set_aside`. Ideas beyond [`MAX_IDEAS`] are not looked for.
    pub(super) fn parse(list: &str) -> Self {
        let mut ideas = Self::default();
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        for (name, words) in lines.filter_map(|line| line.split_once(':')).take(MAX_IDEAS) {
            let idea = ideas.names.len();
            ideas.names.push(name.to_owned());
            for word in words.split_whitespace() {
                ideas.add(&words::folded(word), idea);
            }
        }
        ideas
    }

    fn add(&mut self, word: &str, idea: Idea) {
        if let Some((first, rest)) = word.split_once('_') {
            let rest = rest.split('_').map(Wanted::of).collect();
            self.phrases.entry(first.to_owned()).or_default().push((rest, idea));
        } else if let Some(beginning) = word.strip_suffix('*') {
            self.beginnings.entry(beginning.to_owned()).or_default().push(idea);
        } else {
            self.words.entry(word.to_owned()).or_default().push(idea);
        }
    }

    pub(super) fn name(&self, idea: Idea) -> &str {
        self.names.get(idea).map_or("", String::as_str)
    }

    /// The ideas of the first of these words, which may need those after it to be one.
    pub(super) fn of_word(&self, words: &[String]) -> Vec<Idea> {
        let Some((first, rest)) = words.split_first() else { return Vec::new() };
        let mut found: Vec<Idea> = self.words.get(first).into_iter().flatten().copied().collect();
        for (end, letter) in first.char_indices().take(MAX_LETTERS) {
            let beginning = first.get(..end + letter.len_utf8()).unwrap_or_default();
            found.extend(self.beginnings.get(beginning).into_iter().flatten());
        }
        for (wanted, idea) in self.phrases.get(first).into_iter().flatten() {
            let mut said = rest.iter();
            if wanted.iter().all(|wanted| said.next().is_some_and(|word| wanted.matches_word(word))) {
                found.push(*idea);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The ideas in a run of a script without blanks, each with the character at which its word begins.
    pub(super) fn of_run(&self, run: &str) -> Vec<(usize, Idea)> {
        let mut found = Vec::new();
        for (place, (from, _)) in run.char_indices().enumerate() {
            let rest = run.get(from..).unwrap_or_default();
            for (end, letter) in rest.char_indices().take(MAX_LETTERS) {
                let word = rest.get(..end + letter.len_utf8()).unwrap_or_default();
                found.extend(self.words.get(word).into_iter().flatten().map(|idea| (place, *idea)));
            }
        }
        found
    }
}
