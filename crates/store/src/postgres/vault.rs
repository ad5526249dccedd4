//! Whether a server has the vault key that encrypts the users' credentials in the database. The database keeps a name of the
//! key, which does not tell the key.

use super::node::NOW;
use crate::Error;
use crate::sql::{SqlConnection, find_first, has_any, params};

/// The row of `state` that names the key.
const VAULT: &str = "vault";

/// The fit of a server's vault key to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultFit {
    /// No server has named its key yet.
    First,
    /// The servers before had the same key.
    Same,
    /// The servers before had another key, and no credentials are left that it has encrypted.
    Replaces,
    /// Nodes that run now have another key.
    DiffersFromNodes,
    /// Another key has encrypted the credentials.
    DiffersFromCredentials,
}

/// Compares the name of a key with what the database knows.
pub(super) fn compare(conn: &SqlConnection, vault: &str) -> Result<VaultFit, Error> {
    let nodes = format!("SELECT 1 FROM nodes WHERE vault <> ?1 AND lease_until > {NOW} LIMIT 1");
    if has_any(conn, &nodes, params![vault])? {
        return Ok(VaultFit::DiffersFromNodes);
    }
    Ok(match name_of_key(conn)? {
        None => VaultFit::First,
        Some(before) if before == vault => VaultFit::Same,
        Some(_) if has_any(conn, "SELECT 1 FROM credentials LIMIT 1", [])? => {
            VaultFit::DiffersFromCredentials
        }
        Some(_) => VaultFit::Replaces,
    })
}

/// Refuses a server whose key could not decrypt what is there.
pub(super) fn require(conn: &SqlConnection, vault: &str) -> Result<VaultFit, Error> {
    let refusal = match compare(conn, vault)? {
        fit @ (VaultFit::First | VaultFit::Same | VaultFit::Replaces) => return Ok(fit),
        VaultFit::DiffersFromNodes => {
            "the servers that share this database have another vault key; give this one the same RONDO_VAULT_KEY"
        }
        VaultFit::DiffersFromCredentials => {
            "another vault key has encrypted the users' credentials in this database; set RONDO_VAULT_KEY to that key, \
             or put its vault.key into the data folder; docs/postgres.md says how to go on without that key"
        }
    };
    Err(Error::Unusable(refusal.to_owned()))
}

/// Refuses a server whose key could not decrypt what is there, and notes the name of a new key. No other server may commit
/// meanwhile.
pub(super) fn require_and_note(conn: &SqlConnection, vault: &str) -> Result<(), Error> {
    if require(conn, vault)? == VaultFit::Same {
        return Ok(());
    }
    note(conn, vault)
}

/// Notes the name of the key that encrypts from now on.
pub(crate) fn note(conn: &SqlConnection, vault: &str) -> Result<(), Error> {
    let statement = "INSERT INTO state (name, value) VALUES (?1, ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    conn.execute(statement, [VAULT, vault])
}

/// Returns the name of the key with which the credentials are encrypted, if a server has said so.
pub(crate) fn name_of_key(conn: &SqlConnection) -> Result<Option<String>, Error> {
    find_first(conn, "SELECT value FROM state WHERE name = ?1", [VAULT], |row| row.get(0))
}
