//! Every rule fires on a sample, and stays quiet on its neighbour.

use std::fs;

use super::*;

/// Returns the findings in one file.
fn check_file(path: &str, text: &str, members: &BTreeSet<String>) -> Vec<Finding> {
    super::check_file(path, text, members).0
}

const DOC: &str = "//! A file for a test.\n";

/// Returns the findings in a Rust file with a proper doc, whose code starts on line 2.
fn found(path: &str, code: &str) -> Vec<String> {
    let findings = check_file(path, &format!("{DOC}{code}"), &BTreeSet::new());
    findings.iter().map(ToString::to_string).collect()
}

fn assert_fires(path: &str, code: &str, expected: &str) {
    assert_eq!(found(path, code), [format!("{path}:{expected}")], "{code}");
}

fn assert_quiet(path: &str, code: &str) {
    assert_eq!(found(path, code), [""; 0], "{code}");
}

#[test]
fn words_stay_in_their_rooms() {
    let http = "only `server` knows HTTP serving; put it there, or use testkit's upstream";
    let request =
        "only `identity`, `model`, `cli` and external tools make requests; in tests use testkit's client";
    let environment = "the environment is read in cli's config alone; take the value as an argument";
    for (path, code, home, word, remedy) in [
        (
            "crates/agent/src/a.rs",
            "use rusqlite::Connection;",
            "crates/store/src/a.rs",
            "rusqlite",
            "only `store` knows SQL; ask it through the methods of `Store`",
        ),
        ("crates/cli/src/a.rs", "use axum::Router;", "crates/server/src/a.rs", "axum", http),
        ("crates/cli/src/a.rs", "use hyper::Body;", "crates/testkit/src/a.rs", "hyper", http),
        ("crates/cli/src/a.rs", "use hyper_util::rt;", "crates/server/src/a.rs", "hyper_util", http),
        ("crates/server/src/a.rs", "use reqwest::Client;", "crates/model/src/a.rs", "reqwest", request),
        ("crates/cli/src/main.rs", "use std::env;", "crates/cli/src/config.rs", "std::env", environment),
        (
            "crates/agent/src/a.rs",
            "fn f() { env::var(\"A\"); }",
            "crates/cli/src/config/a.rs",
            "env::var",
            environment,
        ),
        (
            "crates/agent/src/a.rs",
            "fn f() { Principal::authenticated(user); }",
            "crates/server/src/auth.rs",
            "Principal::authenticated",
            "a principal comes from authentication; take a `Scope` as an argument",
        ),
    ] {
        assert_fires(path, code, &format!("2: `{word}` does not belong here; {remedy}"));
        assert_quiet(home, code);
    }
}

#[test]
fn some_words_belong_nowhere() {
    let expect = "write `#[expect(.., reason = \"..\")]`, which ends when its reason does";
    let unfinished = "finish it, or return a typed error";
    for (code, word, remedy) in [
        ("#[test]\n#[ignore = \"slow\"]\nfn f() {}", "#[ignore", "make the test run, or delete it"),
        ("\n#[allow(dead_code)]\nfn f() {}", "#[allow(", expect),
        ("\n#![allow(dead_code)]", "#![allow(", expect),
        ("fn f() {\ntodo!()\n}", "todo!(", unfinished),
        ("fn f() {\nunimplemented!()\n}", "unimplemented!(", unfinished),
    ] {
        assert_fires("crates/agent/src/a.rs", code, &format!("3: `{word}` does not belong here; {remedy}"));
    }
}

#[test]
fn a_word_in_a_comment_or_a_string_is_no_code() {
    assert_quiet(
        "crates/agent/src/a.rs",
        "/// Like `rusqlite`, todo!(.\nfn f() -> &'static str { \"axum #[ignore\" }",
    );
}

#[test]
fn a_word_inside_a_macro_is_code() {
    let expected = "2: `todo!(` does not belong here; finish it, or return a typed error";
    assert_fires("crates/agent/src/a.rs", "fn f() { vec![todo!()]; }", expected);
}

#[test]
fn tests_may_be_anyone_but_may_not_sleep() {
    let principal = "fn f() { Principal::authenticated(user); }";
    assert_quiet("crates/agent/src/run/tests.rs", principal);
    assert_quiet("crates/agent/tests/it/main.rs", principal);
    assert_quiet("crates/agent/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {principal} }}"));
    assert_quiet("crates/agent/src/a.rs", "#[tokio::test]\nasync fn f() { Principal::authenticated(user); }");

    let remedy = "wait for the event itself, or pause the clock and advance it";
    for (code, word) in [("tokio::time::sleep(d)", "time::sleep"), ("std::thread::sleep(d)", "thread::sleep")]
    {
        let code = format!("fn f() {{ {code}; }}");
        let expected = format!("2: `{word}` does not belong here; {remedy}");
        assert_fires("crates/agent/src/tests.rs", &code, &expected);
        assert_fires("crates/agent/tests/it/a.rs", &code, &expected);
        assert_quiet("crates/agent/src/a.rs", &code);
    }
}

#[test]
fn sql_stays_in_the_store() {
    for verb in ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE"] {
        let code = format!("fn f() {{ run(r#\"\n  {verb} x\"#); }}");
        assert_fires(
            "crates/agent/src/a.rs",
            &code,
            "2: SQL outside the store; move the statement into `store`",
        );
        assert_quiet("crates/store/src/sqlite/a.rs", &code);
        assert_quiet("crates/agent/tests/it/a.rs", &code);
    }
    assert_quiet("crates/agent/src/a.rs", "const A: &str = \"Select one, or UPDATE\";");
    assert_quiet("crates/agent/src/a.rs", "/// UPDATE is a word.\nconst A: &str = \"UPDATE\";");
}

#[test]
fn files_and_functions_have_sizes() {
    let body = |lines| format!("fn long() {{\n{}}}\n", "f();\n".repeat(lines));
    let remedy = "move its steps into functions with names";
    let path = "crates/agent/src/a.rs";
    assert_quiet(path, &body(60));
    assert_fires(path, &body(61), &format!("2: function `long` has 61 lines, more than 60; {remedy}"));
    let method = format!("impl A {{\n{}}}", body(61));
    assert_fires(path, &method, &format!("3: function `long` has 61 lines, more than 60; {remedy}"));
    let provided = format!("trait A {{\n{}}}", body(61));
    assert_fires(path, &provided, &format!("3: function `long` has 61 lines, more than 60; {remedy}"));
    assert_quiet(path, &format!("#[test]\n{}", body(100)));
    let test = format!("#[cfg(test)]\nmod tests {{\n{}}}", body(101));
    assert_fires(path, &test, &format!("4: function `long` has 101 lines, more than 100; {remedy}"));

    assert_quiet(path, &"\n".repeat(599));
    assert_fires(path, &"\n".repeat(600), "601: the file has 601 lines, more than 600; split it by subject");
}

#[test]
fn every_file_says_what_it_is() {
    let path = "crates/agent/src/a.rs";
    let expected = format!(
        "{path}:1: the file has no module doc; begin the file with `//!` and a sentence on what it is"
    );
    for text in ["", "fn f() {}", "//! .\n", "\n//! A file for a test."] {
        let findings: Vec<String> =
            check_file(path, text, &BTreeSet::new()).iter().map(ToString::to_string).collect();
        assert_eq!(findings, [expected.as_str()], "{text:?}");
    }
}

#[test]
fn a_file_must_parse() {
    let findings = found("crates/agent/src/a.rs", "fn f( {");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].contains("does not parse"), "{findings:?}");
}

#[test]
fn paths_of_one_machine_are_found_in_any_text() {
    let root = ["/ro", "ot/"].concat();
    let remedy = "write a path relative to the repository";
    for before in ["", "see `", "cd "] {
        let text = format!("one\n{before}{root}x");
        let findings = check_file("docs/a.md", &text, &BTreeSet::new());
        let expected = format!("`{root}` is a path of one machine");
        assert_eq!(findings, [Finding::new("docs/a.md", 2, expected, remedy)]);
    }
    for before in ["a", "https://example.com", "~", "./x"] {
        assert_eq!(check_file("docs/a.md", &format!("{before}{root}x"), &BTreeSet::new()), []);
    }
}

/// Returns the findings in the manifest of `folder`.
fn manifest(folder: &str, rest: &str) -> Vec<String> {
    let members = ["protocol", "store", "agent", "testkit", "attic"].map(String::from).into();
    let text = format!("[package]\nname = \"{folder}\"\n[lints]\nworkspace = true\n{rest}");
    let path = format!("crates/{folder}/Cargo.toml");
    check_file(&path, &text, &members).iter().map(ToString::to_string).collect()
}

#[test]
fn crates_use_only_what_their_room_may() {
    let store = |table: &str, name: &str| {
        manifest("store", &format!("[{table}]\nserde = \"1\"\n{name}.workspace = true"))
    };
    let wrong = |name: &str, table: &str| {
        [format!("crates/store/Cargo.toml:7: `store` may not use `{name}` in [{table}]; it may use protocol")]
    };
    assert_eq!(store("dependencies", "protocol"), [""; 0]);
    assert_eq!(store("dependencies", "agent"), wrong("agent", "dependencies"));
    assert_eq!(store("dependencies", "testkit"), wrong("testkit", "dependencies"));
    assert_eq!(store("build-dependencies", "agent"), wrong("agent", "build-dependencies"));
    assert_eq!(store("target.'cfg(unix)'.dependencies", "agent"), wrong("agent", "dependencies"));
    assert_eq!(store("dev-dependencies", "testkit"), [""; 0]);
    assert_eq!(store("dev-dependencies", "agent"), wrong("agent", "dev-dependencies"));
    assert_eq!(manifest("testkit", "[dependencies]\nagent.workspace = true"), [""; 0]);
    assert_eq!(
        manifest("protocol", "[dependencies]\nstore.workspace = true"),
        [
            "crates/protocol/Cargo.toml:6: `protocol` may not use `store` in [dependencies]; it may use no other crate \
          of this workspace"
        ]
    );
}

#[test]
fn a_crate_has_a_room_a_name_and_lints() {
    assert_eq!(
        manifest("attic", ""),
        ["crates/attic/Cargo.toml:1: crate `attic` is not in the table of crates; add it in \
          crates/xtask/src/tidy/rooms.rs, with what it may use"]
    );
    let path = "crates/store/Cargo.toml";
    let findings = check_file(path, "[package]\nname = \"stroe\"", &BTreeSet::new());
    let expected = [
        Finding::new(path, 1, "the crate's name is not its folder's", "name both the same"),
        Finding::new(
            path,
            1,
            "the crate does not take part in the lint table",
            "add `[lints] workspace = true`",
        ),
    ];
    assert_eq!(findings, expected);
    assert!(check_file(path, "[", &BTreeSet::new())[0].what.starts_with("is not TOML"));
}

#[test]
fn the_walk_sees_our_files_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["crates/agent/src", "target/debug", ".git", "data", "console/node_modules/x"] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
        fs::write(root.path().join(folder).join("a.rs"), "").unwrap();
    }
    fs::write(root.path().join("picture.png"), [0xff, 0xd8]).unwrap();
    let paths: Vec<String> = check(root.path()).into_iter().map(|finding| finding.path).collect();
    assert_eq!(paths, ["crates/agent/src/a.rs"]);
}

/// The sources of a workspace, as paths and texts.
fn tree(files: &[(&str, &str)]) -> SourceTree {
    let file =
        |(path, text): &(&str, &str)| SourceFile::new(path, RustFile::parse(path, text).unwrap()).unwrap();
    SourceTree::new(files.iter().map(file).collect())
}

fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_visible_type_has_a_name_of_its_own() {
    let found = shown(&type_names::check(&tree(&[
        (
            "crates/a/src/lib.rs",
            "pub struct Place;\npub enum Error {}\nstruct Hidden;\npub(self) struct Own;",
        ),
        (
            "crates/b/src/lib.rs",
            "pub enum Error {}\nmod x { pub(crate) trait Place {} }\nstruct Hidden;\nstruct Own;",
        ),
        ("crates/b/src/wire.rs", "pub struct Place;"),
        ("crates/b/src/tests.rs", "pub struct Place;"),
        ("crates/b/src/c.rs", "#[cfg(test)]\nmod tests { pub type Place = u8; }\n#[cfg(test)]\nmod fake;"),
        ("crates/b/src/c/fake.rs", "pub struct Place;"),
    ])));
    let remedy = "give it a name with its noun, which no other type has";
    assert_eq!(
        found,
        [
            format!("crates/a/src/lib.rs:1: the type `Place` is also in crates/b/src/lib.rs:2; {remedy}"),
            format!("crates/b/src/lib.rs:2: the type `Place` is also in crates/a/src/lib.rs:1; {remedy}"),
        ]
    );
    let errors =
        tree(&[("crates/a/src/b.rs", "pub enum Error {}"), ("crates/a/src/c.rs", "pub enum Error {}")]);
    assert_eq!(type_names::check(&errors).len(), 2, "a crate has one error");
}

#[test]
fn a_private_type_does_not_have_the_name_of_a_visible_type() {
    let private =
        "struct Place;\nfn f() { enum Place {} }\nimpl A for B { type Place = u8; }\ntype Own = u8;";
    let found = shown(&type_names::check(&tree(&[
        ("crates/a/src/lib.rs", "pub(crate) trait Place {}"),
        ("crates/b/src/lib.rs", private),
        ("crates/b/src/wire.rs", "struct Place;\npub struct Own;"),
        ("crates/b/src/c.rs", "#[cfg(test)]\nmod tests { struct Place; }\nstruct Own;"),
    ])));
    let expected = |line: u8| {
        format!(
            "crates/b/src/lib.rs:{line}: the private type `Place` has the name of a type in crates/a/src/lib.rs:1; \
             give it a name with its noun, which no other type has"
        )
    };
    assert_eq!(found, [expected(1), expected(2)]);
}

#[test]
fn a_name_says_something_by_itself() {
    let code = "mod shelf;\nfn said() {}\nfn told_user() {}\ntrait T { fn it(&self); }\nimpl A { fn whole(&self) {} }\n\
                impl Iterator for A { fn seen() {} }\n#[cfg(test)]\nmod tests { fn held() {} }";
    let found = shown(&bare_names::check(&tree(&[("crates/a/src/b.rs", code)])));
    let names: Vec<&str> = found.iter().filter_map(|finding| finding.split('`').nth(1)).collect();
    assert_eq!(names, ["said", "it", "whole", "shelf"]);
}

#[test]
fn a_name_has_no_everyday_phrase() {
    let code = "mod look_after_threads;\nfn take_back() {}\nimpl A { fn let_go_of_slots(&self) {} }\n\
                fn outlet_goes() {}\nfn take_backup() {}\n#[cfg(test)]\nmod tests { fn let_go() {} }";
    let found = shown(&bare_names::check(&tree(&[("crates/a/src/b.rs", code)])));
    let finding = |line: u8, kind: &str, name: &str, phrase: &str, instead: &str| {
        format!(
            "crates/a/src/b.rs:{line}: the name of the {kind} `{name}` has the everyday phrase `{phrase}`; write what \
             the {kind} does, such as {instead}"
        )
    };
    let expected = [
        finding(2, "function", "take_back", "take_back", "`undo`, `withdraw` or `revoke`"),
        finding(3, "function", "let_go_of_slots", "let_go", "`release`, `remove` or `close`"),
        finding(
            1,
            "module",
            "look_after_threads",
            "look_after",
            "`maintain`, `keep` or the noun of the duty",
        ),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_sentence_of_a_comment_begins_with_its_subject() {
    let finding = |line: usize, words: &str| {
        format!(
            "crates/a/src/b.rs:{line}: a sentence of a comment begins with \"{words}\"; name the subject first: \
             \"The rows that a run writes\", \"Returns the rows that a run writes\""
        )
    };
    for (code, line, words) in [
        ("/// What it does.\nfn f() {}", 2, "What"),
        ("/// Rows of a run. Those of a thread\n/// are others.\nfn f() {}", 2, "Those"),
        ("/// A row, and\n/// more (of a run.) Such rows are few.\nfn f() {}", 3, "Such"),
        ("fn f() {\n    // A row.\n    //\n    // - Whose it is.\n    g();\n}", 5, "Whose"),
        ("struct S {\n    /// The same of a thread.\n    rows: u8,\n}", 3, "The same"),
        ("tell! {\n    /// What it does.\n    fn f();\n}", 3, "What"),
    ] {
        assert_eq!(found("crates/a/src/b.rs", code), [finding(line, words)], "{code}");
    }
    for quiet in [
        "/// What does it do? It returns.\nfn f() {}",
        "/// Returns what it has. These are rows.\nfn f() {}",
        "/// Suchlike rows.\nfn f() {}",
        "/// \"What it does.\"\nfn f() {}",
        "/// A row.\n/// ```text\n/// What it does.\n/// ```\nfn f() {}",
        "// The same of a thread.\nfn f() {}",
        "/// Rows such as\n/// Such, and\n/// What.\nfn f() {}",
        "const TEXT: &str = \"\n// What it does.\n\";",
    ] {
        assert_quiet("crates/a/src/b.rs", quiet);
    }
}

#[test]
fn two_modules_of_a_crate_do_not_import_each_other() {
    let root = ("crates/a/src/lib.rs", "mod one;\nmod two;\npub use two::{deep::Thing as Gadget, Other};");
    let pairs = |one: &str, two: &str| {
        let files = [root, ("crates/a/src/one.rs", one), ("crates/a/src/two/deep.rs", two)];
        cycles::pairs(&tree(&files)).len()
    };
    let back = "fn f() { vec![crate::one::g::<u8>()]; }";
    for there in [
        "use crate::two::X;",
        "use crate::{std, two::{self, X}};",
        "use super::two::*;",
        "use crate::Gadget;",
        "fn f(x: crate::Other) {}",
        "mod inner { use super::super::two::X; }",
        "fn f() { for x in crate::two::list() {} }",
    ] {
        assert_eq!(pairs(there, back), 1, "{there}");
        assert_eq!(pairs(there, ""), 0, "{there}");
    }
    for unrelated in [
        "use crate::Thing;",
        "pub(in crate::two) fn f() {}",
        "/// See [`crate::two::X`].\nfn f() {}",
        "#[cfg(test)]\nmod tests { use crate::two::X; }",
        "use std::two::X;",
        "use self::two::X;",
    ] {
        assert_eq!(pairs(unrelated, back), 0, "{unrelated}");
    }
}

#[test]
fn test_code_stands_under_tests() {
    let found = shown(&test_places::check(&tree(&[
        ("crates/a/src/run.rs", "#[cfg(test)]\nmod machine;\n#[cfg(test)]\nmod tests;"),
        ("crates/a/src/run/tests.rs", "#[cfg(test)]\nmod turns;"),
    ])));
    let remedy = "call it `tests`, or move it into a folder `tests`";
    assert_eq!(found, [format!("crates/a/src/run.rs:2: the module `machine` is test code; {remedy}")]);
}

#[test]
fn a_patch_that_does_not_apply_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("crates/torture/planted");
    fs::create_dir_all(&planted).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    let git = std::process::Command::new("git").args(["init", "--quiet"]).current_dir(folder.path()).status();
    if !git.is_ok_and(|status| status.success()) {
        return; // the rule itself is skipped then, too
    }
    fs::write(folder.path().join("src/a.txt"), "one\ntwo\n").unwrap();
    let tree = SourceTree::new(vec![]);
    let patch = |line: &str| {
        format!(
            "A bug.\nFound by: O1\n\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n {line}\n-two\n+three\n"
        )
    };
    fs::write(planted.join("good.patch"), patch("one")).unwrap();
    assert_eq!(patches::check(folder.path(), &tree), []);
    fs::write(planted.join("good.patch"), patch("one").replace("+three", "+Renamed::new() // a Comment"))
        .unwrap();
    let findings = patches::check(folder.path(), &tree);
    assert!(
        findings.len() == 1 && findings[0].what == "the patch uses the type `Renamed`, which is in no source",
        "{findings:?}"
    );
    fs::write(planted.join("good.patch"), patch("zero")).unwrap();
    let findings = patches::check(folder.path(), &tree);
    assert!(
        findings.len() == 1 && findings[0].what.starts_with("the patch does not apply: "),
        "{findings:?}"
    );
}
