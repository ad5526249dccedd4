//! Small models that find no end say the same thing again and again. An answer that does so is ended.

/// Tokens of the longest phrase that is looked for.
const MAX_PHRASE: usize = 64;
/// Tokens that a loop has at least. Shorter ones, such as a row of dashes, are part of ordinary texts.
const MIN_LOOP: usize = 48;

/// Whether the newest tokens are one phrase, said this many times in a row.
pub(super) fn is_loop(tokens: &[u32], times: usize) -> bool {
    (1..=MAX_PHRASE).any(|phrase| {
        let length = phrase.saturating_mul(times).max(MIN_LOOP);
        let Some(start) = tokens.len().checked_sub(length) else { return false };
        let newest = tokens.get(start..).unwrap_or_default();
        newest.iter().zip(newest.iter().skip(phrase)).all(|(before, after)| before == after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_that_is_said_again_and_again_is_a_loop() {
        let phrase = |length: u32, times: usize| (0..length).collect::<Vec<u32>>().repeat(times);
        assert!(is_loop(&phrase(20, 4), 4));
        assert!(is_loop(&[vec![99; 7], phrase(20, 4)].concat(), 4));
        assert!(is_loop(&phrase(1, 48), 4));
        assert!(!is_loop(&phrase(20, 3), 4), "a refrain is no loop");
        assert!(!is_loop(&phrase(1, 47), 4), "nor is a short row of one sign");
        assert!(!is_loop(&[phrase(20, 4), vec![99]].concat(), 4), "it has ended by itself");
        assert!(!is_loop(&(0..1000).collect::<Vec<u32>>(), 4));
        assert!(!is_loop(&[], 4));
        assert!(!is_loop(&phrase(20, 9), usize::MAX));
    }
}
