//! Threads found by their titles and by what was said in them.

use std::collections::HashSet;

use memory::index::{ItemRef, RecallFilter};
use memory::recall::{RecallHit, RecallQuestion};
use memory::words;
use protocol::{MessageMatch, Page, Principal, ThreadHit, ThreadId};
use store::ThreadTitle;

use crate::checks::{hits, question};
use crate::{Error, Service, views};

/// Messages that a search looks at; recall gives no more.
const MAX_MESSAGES: usize = memory::index::MAX_HITS;

/// Messages that are shown of one thread.
const MAX_MATCHES_PER_THREAD: usize = 3;

/// Bytes of a message that are shown, and those of them before the first word that was looked for.
const MAX_EXCERPT_BYTES: usize = 300;
const EXCERPT_LEAD_BYTES: usize = 80;

/// Bytes of a message in which a word is looked for. Words after them show its beginning.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;

/// The sign where something of a text is left out.
const CUT: &str = "…";

impl Service {
    /// The user's threads in an app that have the words in their titles, newest first, and then those in which they were
    /// said, best first. Archived ones are found, too.
    pub async fn search_threads(
        &self,
        principal: &Principal,
        app: &str,
        text: &str,
        limit: Option<u32>,
    ) -> Result<Page<ThreadHit>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let text = question("q", text)?;
        let limit = hits(limit)?;
        let searched = SearchedWords::of(text);
        let forgotten = self.recall().forgotten_words(&scope).await?;
        let titles = self.store().titles(&scope).await?;
        let named = {
            let (searched, forgotten) = (searched.clone(), forgotten.clone());
            let is_named = move |title: &ThreadTitle| {
                searched.are_in(&title.title)
                    && searched.are_in(&forgotten.clear(&title.title, title.created_at))
            };
            let look = move || named_threads(titles, is_named, limit);
            tokio::task::spawn_blocking(look).await.map_err(|_| Error::Internal)?
        };
        let asked = RecallQuestion::new(text, self.now(), MAX_MESSAGES, RecallFilter::Messages);
        let said = self.recall().search(&scope, asked).await?;
        let ids = threads_of(&named, &said, limit);
        let rows = self.store().threads_by_id(&scope, &ids).await?;
        let hit = |mut row: store::ThreadRow| {
            // Words that were forgotten are not read in what a search finds.
            row.title = row.title.map(|title| forgotten.clear(&title, row.created_at).into_owned());
            let matches = said.iter().filter_map(|found| message_match(found, row.id, &searched));
            ThreadHit {
                title_match: named.contains(&row.id),
                matches: matches.take(MAX_MATCHES_PER_THREAD).collect(),
                thread: views::thread(row),
            }
        };
        Ok(Page { data: rows.into_iter().map(hit).collect(), next: None })
    }
}

/// The words that are looked for, without their case and accents.
#[derive(Debug, Clone)]
struct SearchedWords(Vec<String>);

impl SearchedWords {
    fn of(text: &str) -> Self {
        Self(words::tokens(text).map(words::folded).collect())
    }

    /// Whether all words are in a text, each from the beginning of one of its words on. A script without blanks between
    /// words has them anywhere.
    fn are_in(&self, text: &str) -> bool {
        let tokens: Vec<String> = words::tokens(text).map(words::folded).collect();
        !self.0.is_empty() && self.0.iter().all(|word| tokens.iter().any(|token| begins_with(token, word)))
    }

    /// The place of the first of the words in a text.
    fn first_in(&self, text: &str) -> Option<usize> {
        let mut from = 0;
        for token in words::tokens(text) {
            let at = from + text.get(from..)?.find(token)?;
            let folded = words::folded(token);
            if self.0.iter().any(|word| begins_with(&folded, word)) {
                return Some(at);
            }
            from = at + token.len();
        }
        None
    }
}

fn begins_with(token: &str, word: &str) -> bool {
    token.starts_with(word) || (!word.is_ascii() && token.contains(word))
}

/// The threads with a title that is meant, newest first.
fn named_threads(
    titles: Vec<ThreadTitle>,
    is_named: impl Fn(&ThreadTitle) -> bool,
    limit: usize,
) -> Vec<ThreadId> {
    let mut named: Vec<ThreadTitle> = titles.into_iter().filter(is_named).collect();
    named.sort_by_key(|title| std::cmp::Reverse((title.updated_at, title.id)));
    named.into_iter().take(limit).map(|title| title.id).collect()
}

/// The threads to show: those that are named so, then those in which it was said.
fn threads_of(named: &[ThreadId], said: &[RecallHit], limit: usize) -> Vec<ThreadId> {
    let mut known = HashSet::new();
    let all = named.iter().copied().chain(said.iter().filter_map(|found| found.item.thread));
    all.filter(|thread| known.insert(*thread)).take(limit).collect()
}

/// None if it was said elsewhere.
fn message_match(found: &RecallHit, thread: ThreadId, searched: &SearchedWords) -> Option<MessageMatch> {
    let item = &found.item;
    let ItemRef::Message(message_id) = item.id else { return None };
    let role = item.role.filter(|_| item.thread == Some(thread))?;
    Some(MessageMatch { message_id, role, text: excerpt(&item.text, searched), created_at: item.at })
}

/// The part of a text around the first word that was looked for; its beginning if none of them is in it.
fn excerpt(text: &str, searched: &SearchedWords) -> String {
    if text.len() <= MAX_EXCERPT_BYTES {
        return text.to_owned();
    }
    let looked_at = text.get(..text.floor_char_boundary(MAX_SEARCHED_BYTES)).unwrap_or_default();
    let at = searched.first_in(looked_at).unwrap_or(0);
    let start = text.floor_char_boundary(at.saturating_sub(EXCERPT_LEAD_BYTES));
    let end = text.floor_char_boundary(start.saturating_add(MAX_EXCERPT_BYTES));
    let before = if start > 0 { CUT } else { "" };
    let after = if end < text.len() { CUT } else { "" };
    format!("{before}{}{after}", text.get(start..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_all_words_or_is_not_meant() {
        let searched = SearchedWords::of("Río  azul");
        assert!(searched.are_in("El rio AZULADO"));
        assert!(!searched.are_in("El rio verde"));
        assert!(!searched.are_in("Trio azul"), "a word counts from its beginning");
        assert!(SearchedWords::of("東京").are_in("私の東京旅行"));
        assert!(!SearchedWords::of("?!").are_in("?!"));
    }

    #[test]
    fn an_excerpt_shows_the_word_that_was_looked_for() {
        let text = format!("{} Lisbon {}", "é".repeat(400), "b".repeat(400));
        let shown = excerpt(&text, &SearchedWords::of("lisb"));
        assert!(shown.starts_with(CUT) && shown.ends_with(CUT) && shown.contains("Lisbon"), "{shown}");
        assert!(shown.len() <= MAX_EXCERPT_BYTES + 2 * CUT.len());
        assert!(excerpt(&text, &SearchedWords::of("Porto")).starts_with('é'));
        assert_eq!(excerpt("short", &SearchedWords::of("x")), "short");
    }
}
