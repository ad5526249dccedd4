//! The database of a test: a file in its folder, or a schema of the PostgreSQL that `cargo xtask test` has started.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use protocol::Clock;
use store::postgres::PostgresAddress;
use store::{Error, Publish, Store, StoreOptions};

/// The address of the PostgreSQL of the tests. Without it, tests use SQLite.
const ADDRESS: &str = "RONDO_TEST_POSTGRES";

/// Opens the store of a test. A folder has the same database each time.
pub fn open_store(
    folder: &Path,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    options: StoreOptions,
) -> Result<Store, Error> {
    match postgres_of(folder) {
        Some(address) => Store::open_postgres(&address, clock, publish, options),
        None => Store::open_sqlite(folder, clock, publish, options),
    }
}

/// The schema that stands for a folder, if the tests run on PostgreSQL.
pub fn postgres_of(folder: &Path) -> Option<PostgresAddress> {
    let (address, schema) = (address()?, schema_of(folder));
    Some(format!("{address}?schema={schema}").parse().expect("the address of the tests can be read"))
}

/// Returns the address of a folder's database as a URL, as a server is given it.
pub fn postgres_url_of(folder: &Path) -> Option<String> {
    let address = address()?;
    let part = |name: &str| address.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let (user, database) = (part("user")?, part("dbname")?);
    let host = part("host")?.replace('/', "%2F");
    Some(format!("postgres://{user}@{host}/{database}?schema={}", schema_of(folder)))
}

#[expect(clippy::disallowed_methods, reason = "the variable is for tests alone")]
fn address() -> Option<String> {
    std::env::var(ADDRESS).ok().filter(|address| !address.is_empty())
}

fn schema_of(folder: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    format!("test_{:016x}", hasher.finish())
}
