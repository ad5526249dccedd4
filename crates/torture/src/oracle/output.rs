//! O17: what the server wrote of itself: no panic, no bug, and no error that a killed server need not have. A
//! client that was refused for the moment was told when to try again.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::record::{Trial, Trigger, Violation};

use super::case::{is_absence, is_of_database, violation};

/// Errors that a full disk explains.
const OF_A_FULL_DISK: [&str; 5] = [
    "a batch of writes was not committed",
    "a run stopped before its end; the next start of the server resumes it",
    "the next queued run of a thread was not started",
    "an interrupted action got no result; the next start of the server tries again",
    "summaries and pins could not be read; the prompt has only the last messages",
];

/// Errors that a database which goes away explains.
const OF_A_LOST_DATABASE: [&str; 1] = ["a batch of writes was not committed"];

/// Characters of a line that are told.
const TOLD: usize = 300;

pub(super) fn check(paths: &[PathBuf], trial: &Trial) -> Vec<Violation> {
    let known = explanations(trial);
    let bare =
        trial.bare_refusals.iter().map(|what| violation("O17", format!("503 without Retry-After: {what}")));
    paths.iter().flat_map(|path| of_log(path, &known)).chain(bare).collect()
}

fn of_log(path: &Path, known: &[&str]) -> Vec<Violation> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return vec![violation("O17", format!("the server's log cannot be read: {error}"))],
    };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let bad = lines.filter(|line| is_bad(line, known));
    bad.map(|line| violation("O17", line.chars().take(TOLD).collect::<String>())).collect()
}

/// Errors that what was done to the server explains.
fn explanations(trial: &Trial) -> Vec<&'static str> {
    let mut known = Vec::new();
    if trial.blows.iter().any(|blow| blow.trigger == Trigger::DiskFull) {
        known.extend(OF_A_FULL_DISK);
    }
    if trial.blows.iter().any(|blow| is_of_database(blow.trigger) || is_absence(blow.trigger)) {
        known.extend(OF_A_LOST_DATABASE);
    }
    known
}

fn is_bad(line: &str, known: &[&str]) -> bool {
    if line.contains("panic") || has_word(line, "BUG") {
        return true;
    }
    let explained = known.iter().any(|known| line.contains(known));
    has_word(line, "ERROR") && !explained
}

/// Whether the word stands by itself: `DEBUG` is none.
fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Blow;

    #[test]
    fn errors_are_found_unless_a_full_disk_explains_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let lines = [
            "2026-11-15T21:00:00Z  INFO serving on http://127.0.0.1:1",
            "2026-11-15T21:00:00Z DEBUG a thread got a title",
            "2026-11-15T21:00:01Z ERROR a batch of writes was not committed error=the disk is full",
            "2026-11-15T21:00:02Z ERROR the store failed error=x",
            "thread 'main' panicked at src/main.rs:1:1:",
            "BUG: this cannot be",
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let check = |path: &Path, trial: &Trial| check(&[path.to_path_buf()], trial);
        assert_eq!(check(&path, &Trial::default()).len(), 4);
        let blow = Blow::to_all(Trigger::DiskFull, 0);
        let full = Trial { blows: vec![blow], ..Trial::default() };
        assert_eq!(check(&path, &full).len(), 3);
        let bare = Trial { bare_refusals: vec!["GET / at 0 µs".into()], ..full.clone() };
        assert_eq!(check(&path, &bare).len(), 4);
        let blow = Blow::to_all(Trigger::DatabaseCrash, 0);
        let away = Trial { blows: vec![blow], ..Trial::default() };
        assert_eq!(check(&path, &away).len(), 3);
        assert_eq!(
            check(&folder.path().join("none"), &full).len(),
            1,
            "a log that is not there proves nothing"
        );
    }
}
