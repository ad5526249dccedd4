//! The findings of `rondo doctor` about the PostgreSQL that `RONDO_STORE` names.

use protocol::SystemClock;
use store::postgres::{self, ExaminedPostgres, PostgresAddress};

use super::Diagnosis;
use super::nodes::{self, Sharing};
use crate::config::Config;
use crate::vault;

/// A difference of the clocks that has no visible effect, in milliseconds.
const MAX_CLOCK_AHEAD: i64 = 5_000;

/// Connections that should be left for the server: those that read, the one that writes, and one for its successor.
const NEEDED_CONNECTIONS: i64 = postgres::READERS as i64 + 2;

pub(super) fn check(config: &Config) -> Vec<Diagnosis> {
    let Some(address) = &config.store else { return vec![] };
    let key = vault::existing_key(&config.data).map(|key| key.as_ref().map(vault::fingerprint));
    let name = key.as_ref().ok().and_then(Option::as_deref);
    match postgres::examine(address, &SystemClock, name) {
        Ok(found) => {
            let sharing = Sharing::of(vault::is_from_outside());
            let nodes = nodes::check(sharing, &key, &found);
            findings(address, &found).into_iter().chain(nodes).collect()
        }
        Err(error) => vec![Diagnosis::Bad(format!("database: {address}: {error}; check RONDO_STORE"))],
    }
}

fn vector_finding(found: &ExaminedPostgres) -> Diagnosis {
    match &found.vector {
        Some(version) => Diagnosis::Good(format!("database: extension vector, version {version}")),
        None => Diagnosis::Bad(
            "database: the extension vector is missing; install pgvector where PostgreSQL runs, and execute \
             CREATE EXTENSION vector in the database as a superuser"
                .to_owned(),
        ),
    }
}

fn findings(address: &PostgresAddress, found: &ExaminedPostgres) -> Vec<Diagnosis> {
    let known = postgres::SCHEMA_VERSION;
    let tables = match found.schema_version {
        None => "which gets its tables at the first start".to_owned(),
        Some(version) => format!("schema {version}"),
    };
    let mut findings =
        vec![Diagnosis::Good(format!("database: {address}, version {}, {tables}", found.version))];
    if found.schema_version.is_some_and(|version| version > known) {
        findings.push(Diagnosis::Bad(format!(
            "database: this version of Rondo knows schemas up to {known}; use the version that made it"
        )));
    }
    findings.push(vector_finding(found));
    if found.passes_policies {
        findings.push(Diagnosis::Note(
            "database: the role is a superuser or has BYPASSRLS, so the policies that keep users apart do nothing; use \
             a role of its own"
                .to_owned(),
        ));
    }
    if !found.may_create {
        let schema = address.schema();
        findings.push(Diagnosis::Bad(format!(
            "database: the role may not make the schema {schema}; run `CREATE SCHEMA {schema} AUTHORIZATION ROLE` as its owner"
        )));
    }
    if found.clock_ahead.abs() > MAX_CLOCK_AHEAD {
        let ahead = found.clock_ahead;
        findings.push(Diagnosis::Note(format!(
            "database: its clock is {ahead} ms ahead of this machine's; set both by NTP"
        )));
    }
    let left = found.max_connections - found.connections;
    if left < NEEDED_CONNECTIONS {
        findings.push(Diagnosis::Bad(format!(
            "database: {left} of {} connections are left, and a server uses up to {NEEDED_CONNECTIONS}; raise max_connections",
            found.max_connections
        )));
    }
    findings
}
