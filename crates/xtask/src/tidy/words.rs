//! Words that belong to some rooms only, and words that belong to none.

use super::Finding;
use crate::source::{RustFile, Token};

enum Place {
    Nowhere,
    /// Under paths that begin so.
    Only(&'static [&'static str]),
    /// Under paths that begin so, and in test code anywhere.
    OnlyOrTests(&'static [&'static str]),
    /// Anywhere but in test code.
    NotInTests,
}

struct Rule {
    /// Rust, which need not be complete.
    code: &'static str,
    place: Place,
    remedy: &'static str,
}

const SQL_ROOMS: &[&str] =
    &["crates/store/", "crates/bench/", "crates/testkit/", "crates/testpg/", "crates/torture/"];
const HTTP_ROOMS: &[&str] = &["crates/server/", "crates/testkit/", "crates/bench/src/streams/"];
const HTTP_REMEDY: &str = "only `server` knows HTTP serving; put it there, or use testkit's upstream";
const ENVIRONMENT_ROOMS: &[&str] = &[
    "crates/cli/build.rs",
    "crates/cli/src/config",
    "crates/server/build.rs",
    "crates/xtask/",
    "crates/bench/",
    "crates/torture/",
    "crates/store/tests/postgres/",
    "crates/testkit/src/database.rs",
];
const ENVIRONMENT_REMEDY: &str =
    "the environment is read in cli's config alone; take the value as an argument";
const EXPECT_REMEDY: &str = "write `#[expect(.., reason = \"..\")]`, which ends when its reason does";
const UNFINISHED_REMEDY: &str = "finish it, or return a typed error";
const SLEEP_REMEDY: &str = "wait for the event itself, or pause the clock and advance it";

const RULES: &[Rule] = &[
    Rule {
        code: "rusqlite",
        place: Place::Only(SQL_ROOMS),
        remedy: "only `store` knows SQL; ask it through the methods of `Store`",
    },
    Rule { code: "axum", place: Place::Only(HTTP_ROOMS), remedy: HTTP_REMEDY },
    Rule { code: "hyper", place: Place::Only(HTTP_ROOMS), remedy: HTTP_REMEDY },
    Rule { code: "hyper_util", place: Place::Only(HTTP_ROOMS), remedy: HTTP_REMEDY },
    Rule {
        code: "reqwest",
        place: Place::Only(&[
            "crates/identity/src/key_source",
            "crates/model/",
            "crates/tools/src/external",
            "crates/cli/",
            "crates/testkit/",
            "crates/torture/",
        ]),
        remedy: "only `identity`, `model`, `cli` and external tools make requests; in tests use testkit's client",
    },
    Rule {
        code: "Principal::authenticated",
        place: Place::OnlyOrTests(&["crates/server/src/auth", "crates/testkit/", "crates/bench/"]),
        remedy: "a principal comes from authentication; take a `Scope` as an argument",
    },
    Rule { code: "std::env", place: Place::Only(ENVIRONMENT_ROOMS), remedy: ENVIRONMENT_REMEDY },
    Rule { code: "env::var", place: Place::Only(ENVIRONMENT_ROOMS), remedy: ENVIRONMENT_REMEDY },
    Rule { code: "#[ignore", place: Place::Nowhere, remedy: "make the test run, or delete it" },
    Rule { code: "#[allow(", place: Place::Nowhere, remedy: EXPECT_REMEDY },
    Rule { code: "#![allow(", place: Place::Nowhere, remedy: EXPECT_REMEDY },
    Rule { code: "todo!(", place: Place::Nowhere, remedy: UNFINISHED_REMEDY },
    Rule { code: "unimplemented!(", place: Place::Nowhere, remedy: UNFINISHED_REMEDY },
    Rule { code: "time::sleep", place: Place::NotInTests, remedy: SLEEP_REMEDY },
    Rule { code: "thread::sleep", place: Place::NotInTests, remedy: SLEEP_REMEDY },
];

const SQL_VERBS: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE"];

pub(super) fn check(path: &str, text: &str, file: &RustFile) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| apply(rule, path, text, file)).collect();
    findings.extend(sql(path, file));
    findings
}

fn apply(rule: &Rule, path: &str, text: &str, file: &RustFile) -> Vec<Finding> {
    let code = signs(rule.code);
    // Few files have the words at all, and looking for them in the text is quick.
    if !code.iter().all(|sign| text.contains(sign)) {
        return Vec::new();
    }
    let hits =
        file.tokens.windows(code.len()).filter(|window| window.iter().map(|token| &token.text).eq(&code));
    let lines = hits.filter_map(<[Token]>::first).map(|token| token.line);
    let wrong = lines.filter(|line| !rule.place.permits(path, file.is_test(*line)));
    let finding =
        |line| Finding::new(path, line, format!("`{}` does not belong here", rule.code), rule.remedy);
    wrong.map(finding).collect()
}

impl Place {
    fn permits(&self, path: &str, test: bool) -> bool {
        let within = |rooms: &[&str]| rooms.iter().any(|room| path.starts_with(room));
        match self {
            Place::Nowhere => false,
            Place::Only(rooms) => within(rooms),
            Place::OnlyOrTests(rooms) => test || within(rooms),
            Place::NotInTests => !test,
        }
    }
}

/// Strings that begin like a statement. A heuristic, but the way SQL is written here.
fn sql(path: &str, file: &RustFile) -> Vec<Finding> {
    let is_sql = |token: &Token| {
        let text = token.string().unwrap_or_default();
        text.trim_start().split_once(char::is_whitespace).is_some_and(|(verb, _)| SQL_VERBS.contains(&verb))
    };
    if SQL_ROOMS.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let hits = file.tokens.iter().filter(|token| !file.is_test(token.line) && is_sql(token));
    hits.map(|token| {
        Finding::new(path, token.line, "SQL outside the store", "move the statement into `store`")
    })
    .collect()
}

/// Splits code into what [`Token`] holds: words, and single signs.
fn signs(code: &str) -> Vec<String> {
    let mut signs: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in code.chars() {
        let word = c.is_alphanumeric() || c == '_';
        match signs.last_mut().filter(|_| word && in_word) {
            Some(last) => last.push(c),
            None => signs.push(c.to_string()),
        }
        in_word = word;
    }
    signs
}
