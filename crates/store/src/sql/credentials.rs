//! Credentials: sealed bytes by name, each in its scope.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{CredentialView, Scope};
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, find_all, find_first, find_only, text, time};
use super::{RowsOf, SqlStore, idempotency};
use crate::rules::credentials::{check_credential, check_credential_room};
use crate::{Error, IdempotencyClaim, MAX_CREDENTIALS_PER_SCOPE};

impl SqlStore {
    pub(crate) async fn credentials(&self, scope: &Scope) -> Result<Vec<CredentialView>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope)).await
    }

    pub(crate) async fn credential(&self, scope: &Scope, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, name) = (scope.clone(), name.to_owned());
        self.readers.read_for(rows, move |conn| sealed_credential(conn, &scope, &name)).await
    }

    pub(crate) async fn put_credential(
        &self,
        scope: &Scope,
        name: &str,
        sealed: Vec<u8>,
        once: Option<IdempotencyClaim>,
    ) -> Result<CredentialView, Error> {
        let (scope, name) = (scope.clone(), name.to_owned());
        let work = move |batch: &mut Batch<'_>| {
            if idempotency::claim(batch, &scope, once.as_ref(), Uuid::nil())?.is_none() {
                put(batch, &scope, &name, &sealed)?;
            }
            find(batch.conn(), &scope, &name)?.ok_or(Error::NotFound("credential"))
        };
        self.writer.write(work).await
    }

    pub(crate) async fn delete_credential(
        &self,
        scope: &Scope,
        name: &str,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (scope, name) = (scope.clone(), name.to_owned());
        let work = move |batch: &mut Batch<'_>| {
            if idempotency::claim(batch, &scope, once.as_ref(), Uuid::nil())?.is_some() {
                return Ok(());
            }
            delete(batch, &scope, &name)
        };
        self.writer.write(work).await
    }
}

fn put(batch: &Batch<'_>, scope: &Scope, name: &str, sealed: &[u8]) -> Result<(), Error> {
    check_credential(name, sealed.len())?;
    let key = [scope.app.as_str(), scope.user.as_str(), name];
    let statement = "SELECT count(*) FROM credentials WHERE app = ?1 AND user = ?2 AND name <> ?3";
    check_credential_room(find_only(batch.conn(), statement, key, |row| count(row, 0))?)?;
    let statement = "INSERT INTO credentials (app, user, name, sealed, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (app, user, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at";
    batch.execute(statement, params![scope.app.as_str(), scope.user.as_str(), name, sealed, batch.at()])
}

fn delete(batch: &Batch<'_>, scope: &Scope, name: &str) -> Result<(), Error> {
    let statement = "DELETE FROM credentials WHERE app = ?1 AND user = ?2 AND name = ?3";
    let deleted = batch.count_changed(statement, [scope.app.as_str(), scope.user.as_str(), name])?;
    if deleted == 0 { Err(Error::NotFound("credential")) } else { Ok(()) }
}

fn find(conn: &SqlConnection, scope: &Scope, name: &str) -> Result<Option<CredentialView>, Error> {
    let statement = "SELECT name, updated_at FROM credentials WHERE app = ?1 AND user = ?2 AND name = ?3";
    find_first(conn, statement, [scope.app.as_str(), scope.user.as_str(), name], credential_row)
}

fn sealed_credential(conn: &SqlConnection, scope: &Scope, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let statement = "SELECT sealed FROM credentials WHERE app = ?1 AND user = ?2 AND name = ?3";
    find_first(conn, statement, [scope.app.as_str(), scope.user.as_str(), name], |row| row.get(0))
}

fn list(conn: &SqlConnection, scope: &Scope) -> Result<Vec<CredentialView>, Error> {
    let statement =
        "SELECT name, updated_at FROM credentials WHERE app = ?1 AND user = ?2 ORDER BY name LIMIT ?3";
    let bound = MAX_CREDENTIALS_PER_SCOPE as i64;
    find_all(conn, statement, params![scope.app.as_str(), scope.user.as_str(), bound], credential_row)
}

fn credential_row(row: &SqlRow<'_>) -> Result<CredentialView, Error> {
    Ok(CredentialView { name: text(row, 0)?, updated_at: time(row, 1)? })
}
