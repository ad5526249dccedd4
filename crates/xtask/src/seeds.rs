//! `docs/seeds.md`, statement by statement: runs the test behind each row, and shows that it can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use crate::cargo::{TEST_FEATURES, cargo};

/// Rows that one test may stand for.
const MAX_ROWS_PER_TEST: usize = 3;

/// The file in which the tests look for the name of what is to be broken.
pub(crate) const BROKEN: &str = "target/seeds/broken";

/// One statement of a product's document.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    /// The heading it stands under.
    seed: String,
    number: String,
    statement: String,
    test: String,
    group: String,
}

/// Runs every test and prints the table; with `--mutate`, breaks each group of rows, or those
/// that are named, and expects its tests to fail.
pub(crate) fn run(root: &Path, args: &[String]) -> bool {
    let rows = match std::fs::read_to_string(root.join("docs/seeds.md")) {
        Ok(page) => rows(&page),
        Err(error) => {
            eprintln!("error: docs/seeds.md: {error}");
            return false;
        }
    };
    let wrong = mistakes(&rows);
    for mistake in &wrong {
        println!("WRONG   {mistake}");
    }
    let shown = match args {
        [] => shows(root, &rows),
        [flag, groups @ ..] if flag == "--mutate" => mutate(root, &rows, groups),
        _ => {
            eprintln!("error: `cargo xtask seeds` takes nothing, or --mutate and perhaps names of groups");
            false
        }
    };
    shown && wrong.is_empty()
}

fn shows(root: &Path, rows: &[Row]) -> bool {
    let Some(results) = results(root, &[]) else { return false };
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let passed = results.get(&row.test) == Some(&true);
        let count = counts.entry(&row.seed).or_default();
        *count = (count.0 + usize::from(passed), count.1 + 1);
        println!(
            "{}  {:<16} {:>3}  {}",
            if passed { "pass" } else { "FAIL" },
            row.seed,
            row.number,
            row.statement
        );
    }
    println!();
    for (seed, (passed, all)) in &counts {
        println!("{seed:<20} {passed} of {all}");
    }
    counts.values().all(|(passed, all)| passed == all) && !rows.is_empty()
}

/// Breaks what each group of rows rests on, and says which rows did not notice.
fn mutate(root: &Path, rows: &[Row], only: &[String]) -> bool {
    let mut groups: BTreeSet<&str> = rows.iter().map(|row| row.group.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !groups.contains(name.as_str())) {
        eprintln!("error: docs/seeds.md has no group {unknown}");
        return false;
    }
    groups.retain(|group| only.is_empty() || only.iter().any(|name| name == group));
    let broken = root.join(BROKEN);
    let mut all = true;
    for group in groups {
        let written = broken
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&broken, group));
        let of_group: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        let tests: Vec<&str> = of_group.iter().map(|row| row.test.as_str()).collect();
        let results = written.ok().and_then(|()| results(root, &tests));
        let _ = std::fs::remove_file(&broken);
        let Some(results) = results else { return false };
        let unmoved: Vec<&&Row> =
            of_group.iter().filter(|row| results.get(&row.test) != Some(&false)).collect();
        println!(
            "{:<32} {} of {} rows fail when it is broken",
            group,
            of_group.len() - unmoved.len(),
            of_group.len()
        );
        for row in &unmoved {
            println!("UNMOVED {} {}: {}", row.seed, row.number, row.statement);
        }
        all &= unmoved.is_empty();
    }
    all
}

/// The tests by name, and whether each passed. None if they could not be built.
fn results(root: &Path, tests: &[&str]) -> Option<BTreeMap<String, bool>> {
    let args = ["test", "--quiet", "--workspace", "--features", TEST_FEATURES, "--test", "seeds", "--no-run"];
    if !cargo(root, &args).status().is_ok_and(|status| status.success()) {
        return None;
    }
    let mut runner =
        cargo(root, &["test", "--workspace", "--features", TEST_FEATURES, "--test", "seeds", "--"]);
    if !tests.is_empty() {
        runner.arg("--exact").args(tests);
    }
    let output = runner.stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(result).collect())
}

/// `test tutor::it_remembers ... ok`
fn result(line: &str) -> Option<(String, bool)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.to_owned(), result.trim() == "ok"))
}

fn rows(page: &str) -> Vec<Row> {
    let mut seed = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            seed = title.trim().to_owned();
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [number, statement, _, test, group] = cells.as_slice() else { continue };
        if number.parse::<usize>().is_ok() {
            let plain = |cell: &str| cell.trim_matches('`').to_owned();
            let (statement, number) = ((*statement).to_owned(), (*number).to_owned());
            rows.push(Row { seed: seed.clone(), number, statement, test: plain(test), group: plain(group) });
        }
    }
    rows
}

fn mistakes(rows: &[Row]) -> Vec<String> {
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows {
        if row.test.is_empty() || row.group.is_empty() {
            wrong.push(format!("{} {} has no test or no group", row.seed, row.number));
        }
        *used.entry(&row.test).or_default() += 1;
    }
    for (test, count) in used.into_iter().filter(|(_, count)| *count > MAX_ROWS_PER_TEST) {
        wrong.push(format!("{test} stands for {count} rows; write another test"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Seeds\n\n## Tutor\n\n| # | statement | where | test | group |\n|---|---|---|---|---|\n\
                        | 1 | It remembers. | `apps/tutor` | `tutor::remembers` | `tutor.memory` |\n";

    #[test]
    fn a_row_is_read_with_its_test_and_group() {
        let rows = rows(PAGE);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(
            (row.seed.as_str(), row.test.as_str(), row.group.as_str()),
            ("Tutor", "tutor::remembers", "tutor.memory")
        );
        assert_eq!(mistakes(&rows), [""; 0]);
    }

    #[test]
    fn a_row_without_a_test_and_a_test_for_too_many_rows_are_mistakes() {
        let missing = PAGE.replace("`tutor::remembers`", "");
        assert_eq!(mistakes(&rows(&missing)).len(), 1);
        let line = PAGE.lines().last().unwrap_or_default();
        let many = format!("{PAGE}{}", format!("{line}\n").repeat(MAX_ROWS_PER_TEST));
        assert_eq!(mistakes(&rows(&many)).len(), 1);
    }

    #[test]
    fn results_are_read_off_the_runner() {
        assert_eq!(result("test tutor::a ... ok"), Some(("tutor::a".into(), true)));
        assert_eq!(result("test tutor::a ... FAILED"), Some(("tutor::a".into(), false)));
        assert_eq!(result("running 3 tests"), None);
    }
}
