//! The dialect of PostgreSQL: places for values have numbers after `$`, `user` is a word of its own, a cross join has
//! no condition, and no statement names its index.

/// The statement as PostgreSQL reads it.
pub(super) fn postgres_text(statement: &str) -> String {
    let mut translated = String::with_capacity(statement.len() + 16);
    let mut rest = statement;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\'' | '"' => quoted_bytes(rest, first),
            '?' => {
                translated.push('$');
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (part, left) = rest.split_at(taken);
        rest = left;
        match part {
            "user" => translated.push_str("\"user\""),
            // SQLite goes through the tables of a cross join in their order; the condition is the same.
            "CROSS" => {}
            "INDEXED" => rest = after_words(left, 2),
            _ => translated.push_str(part),
        }
    }
    translated
}

/// Returns the text after the first `words` words.
fn after_words(text: &str, words: usize) -> &str {
    (0..words).fold(text, |text, _| text.trim_start().trim_start_matches(is_word))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The bytes of a quoted part, with both quotes. Doubled quotes are two parts, which are taken over as they are.
fn quoted_bytes(text: &str, quote: char) -> usize {
    text.char_indices().skip(1).find(|(_, c)| *c == quote).map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::postgres_text;

    #[test]
    fn places_and_the_word_user_are_written_as_postgresql_reads_them() {
        assert_eq!(
            postgres_text("SELECT t.user, 'a user?' FROM threads t WHERE user = ?1 AND users = ?12"),
            "SELECT t.\"user\", 'a user?' FROM threads t WHERE \"user\" = $1 AND users = $12"
        );
        assert_eq!(
            postgres_text("SELECT 1 FROM a INDEXED BY a_newest CROSS JOIN b ON b.id = a.id"),
            "SELECT 1 FROM a   JOIN b ON b.id = a.id"
        );
        assert_eq!(postgres_text("SELECT \"user\" || 'it''s ?'"), "SELECT \"user\" || 'it''s ?'");
    }
}
