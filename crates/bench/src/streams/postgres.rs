//! The PostgreSQL of the benchmark: one server for all measurements, with an empty schema for each of them.
//!
//! It runs on the core of the load, so that the core of the server under test has that server alone. It syncs its
//! write-ahead log, as PostgreSQL does unless it is told otherwise.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use store::inspection::number_of;
use store::postgres::PostgresAddress;
use testpg::{PostgresPrograms, PostgresServer};

use super::figures::{ServerFigures, StreamFigure};
use super::measure::family_ms;
use super::pass_through::{PassThrough, PassedTraffic};

const BYTES_PER_KIB: f64 = 1024.0;

/// The server.
pub(super) struct BenchPostgres {
    server: PostgresServer,
    schemas: Cell<usize>,
}

/// The schema in which a server under test finds its database.
#[derive(Debug)]
pub(super) struct BenchSchema {
    /// The value of `RONDO_STORE`.
    pub(super) url: String,
    address: PostgresAddress,
    /// The first process of PostgreSQL.
    process: u32,
}

/// The counters of the database at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostgresReading {
    cpu_ms: f64,
    counters: DatabaseCounters,
}

#[derive(Debug, Clone, Copy)]
struct DatabaseCounters {
    /// Transactions of the writer.
    commits: i64,
    /// Bytes that the write-ahead log has had.
    wal: i64,
    /// Bytes of all tables and indexes.
    size: i64,
}

impl BenchPostgres {
    /// Starts a server from the package that a variable names, given the value of the variable.
    pub(super) fn start(package: Option<OsString>) -> Result<Self, String> {
        let server = PostgresServer::start(&PostgresPrograms::of_variable(package)?, &[])?;
        Ok(Self { server, schemas: Cell::new(0) })
    }

    /// Listens in front of the server, and counts.
    pub(super) fn pass_through(&self) -> Result<PassThrough, String> {
        PassThrough::start(self.server.folder())
    }

    /// The program `psql` with a statement, and with the rights of servers.
    pub(super) fn psql(&self, statement: &str) -> Command {
        let mut psql = self.server.program("psql");
        psql.args(["--username=rondo", "--dbname=rondo", "--no-psqlrc", "--quiet", "--host"]);
        psql.arg(self.server.folder()).args(["--command", statement]);
        psql
    }

    /// The place of a new schema. The schema of the measurement before goes, and all is written to the disk, so that every
    /// measurement begins alike.
    pub(super) fn next_schema(&self, through: Option<&PassThrough>) -> Result<BenchSchema, String> {
        let before = self.schemas.get();
        self.schemas.set(before + 1);
        let database = direct_address(self.server.folder(), "public")?;
        let execute = |statement: &str| {
            store::inspection::execute(&database, statement)
                .map(drop)
                .map_err(|error| format!("PostgreSQL refused {statement}: {error}"))
        };
        execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", schema_name(before)))?;
        self.server.run_as_admin("postgres", &["CHECKPOINT"])?;
        let schema = schema_name(before + 1);
        Ok(BenchSchema {
            url: store_url(through.map_or(self.server.folder(), PassThrough::folder), &schema),
            address: direct_address(self.server.folder(), &schema)?,
            process: self.server.process_id().ok_or("PostgreSQL has ended")?,
        })
    }
}

impl BenchSchema {
    /// Reads the counters before a load: the questions first, because they cost processor time themselves.
    pub(super) fn read_before(&self) -> Result<PostgresReading, String> {
        let counters = self.counters()?;
        Ok(PostgresReading { cpu_ms: family_ms(self.process)?, counters })
    }

    /// Reads the counters after a load.
    pub(super) fn read_after(&self) -> Result<PostgresReading, String> {
        let cpu_ms = family_ms(self.process)?;
        Ok(PostgresReading { cpu_ms, counters: self.counters()? })
    }

    /// How many connections servers have open.
    pub(super) fn connections(&self) -> Result<i64, String> {
        // The connection of the question is not counted.
        self.number(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'rondo' AND pid <> pg_backend_pid()",
        )
    }

    fn number(&self, statement: &str) -> Result<i64, String> {
        number_of(&self.address, statement).map_err(|error| format!("PostgreSQL says no number: {error}"))
    }

    fn counters(&self) -> Result<DatabaseCounters, String> {
        let number = |statement: &str| self.number(statement);
        Ok(DatabaseCounters {
            // A server that is alone has one row. With nodes, the row of the turn counts the commits of all of them.
            commits: number("SELECT max(number) FROM commits")?,
            wal: number("SELECT CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT)")?,
            size: number("SELECT pg_database_size(current_database())")?,
        })
    }
}

impl PostgresReading {
    pub(super) fn cpu_ms_since(&self, before: &Self) -> f64 {
        self.cpu_ms - before.cpu_ms
    }

    /// Adds what PostgreSQL has done since an earlier reading.
    pub(super) fn add_to(&self, figures: &mut ServerFigures, before: &Self, seconds: f64) {
        let good = figures.good as f64;
        let grown =
            |count: fn(&DatabaseCounters) -> i64| (count(&self.counters) - count(&before.counters)) as f64;
        figures.set(StreamFigure::PostgresCpu, Some(self.cpu_ms_since(before) / good));
        figures.set(StreamFigure::Commits, Some(grown(|counters| counters.commits) / seconds));
        figures.set(StreamFigure::WalPerRun, Some(grown(|counters| counters.wal) / BYTES_PER_KIB / good));
        figures.set(StreamFigure::DiskPerRun, Some(grown(|counters| counters.size) / BYTES_PER_KIB / good));
    }
}

impl PassedTraffic {
    /// Adds what has passed since an earlier moment.
    pub(super) fn add_to(self, figures: &mut ServerFigures, before: Self, good: usize) {
        let per_run =
            |after: usize, before: usize, unit: f64| Some((after - before) as f64 / unit / good as f64);
        figures.set(StreamFigure::Statements, per_run(self.statements, before.statements, 1.0));
        figures.set(StreamFigure::ToPostgres, per_run(self.to_database, before.to_database, BYTES_PER_KIB));
        figures.set(
            StreamFigure::FromPostgres,
            per_run(self.from_database, before.from_database, BYTES_PER_KIB),
        );
    }
}

fn schema_name(number: usize) -> String {
    format!("bench_{number}")
}

/// The address of a schema of the server whose socket is in a folder.
fn store_url(folder: &Path, schema: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://rondo@{folder}/rondo?schema={schema}")
}

fn direct_address(folder: &Path, schema: &str) -> Result<PostgresAddress, String> {
    store_url(folder, schema).parse().map_err(|error| format!("PostgreSQL has no usable address: {error}"))
}
