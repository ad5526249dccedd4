//! The check of statements: noted while the tests run, looked at after them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{build_for_tests, succeeds};

/// The store notes statements in this folder as long as the file in it is there.
fn folder(root: &Path) -> PathBuf {
    root.join("target/statements")
}

fn switch(root: &Path) -> PathBuf {
    folder(root).join("on")
}

/// Forgets what was noted, and lets the store note from here on.
pub(crate) fn begin(root: &Path) {
    let _there_was_none = fs::remove_dir_all(folder(root)).is_err();
    let begun = fs::create_dir_all(folder(root)).and_then(|()| fs::write(switch(root), ""));
    if let Err(error) = begun {
        eprintln!("error: statements cannot be noted: {error}");
    }
}

/// Nothing is noted any more.
pub(crate) fn end(root: &Path) {
    let _nobody_began = fs::remove_file(switch(root)).is_err();
}

/// Looks at what was noted.
pub(crate) fn check(root: &Path) -> bool {
    build_for_tests(root, ["statements"])
        .is_some_and(|[program]| succeeds(Command::new(program).current_dir(root)))
}
