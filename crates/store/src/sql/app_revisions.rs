//! Revisions of apps: the files of each, so that a run continues with the app that it began with.

use protocol::AppId;

use super::SqlStore;
use super::append::Batch;
use super::read::find_first;
use crate::sql::{SqlConnection, params};
use crate::{Error, MAX_APP_REVISIONS};

impl SqlStore {
    pub(crate) async fn note_served_revision(&self, app: &AppId, revision: &str) -> Result<bool, Error> {
        let (app, revision) = (app.clone(), revision.to_owned());
        self.writer.write(move |batch| note_served(batch, &app, &revision)).await
    }

    pub(crate) async fn keep_revision(
        &self,
        app: &AppId,
        revision: &str,
        files: Vec<u8>,
    ) -> Result<(), Error> {
        let (app, revision) = (app.clone(), revision.to_owned());
        self.writer.write(move |batch| keep(batch, &app, &revision, &files)).await
    }

    pub(crate) async fn files_of_revision(
        &self,
        app: &AppId,
        revision: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (app, revision) = (app.clone(), revision.to_owned());
        self.readers.read(move |conn| files(conn, &app, &revision)).await
    }
}

/// Whether the revision is kept.
fn note_served(batch: &Batch<'_>, app: &AppId, revision: &str) -> Result<bool, Error> {
    let statement = "UPDATE app_revisions SET served_at = ?3 WHERE app = ?1 AND revision = ?2";
    Ok(batch.count_changed(statement, params![app.as_str(), revision, batch.at()])? > 0)
}

fn keep(batch: &Batch<'_>, app: &AppId, revision: &str, files: &[u8]) -> Result<(), Error> {
    let statement = "INSERT INTO app_revisions (app, revision, served_at, files) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (app, revision) DO UPDATE SET served_at = excluded.served_at";
    batch.execute(statement, params![app.as_str(), revision, batch.at(), files])?;
    let statement = "DELETE FROM app_revisions WHERE app = ?1 AND revision IN
            (SELECT revision FROM app_revisions WHERE app = ?1
                ORDER BY served_at DESC, revision LIMIT ?2 OFFSET ?2)";
    batch.execute(statement, params![app.as_str(), MAX_APP_REVISIONS])
}

fn files(conn: &SqlConnection, app: &AppId, revision: &str) -> Result<Option<Vec<u8>>, Error> {
    let statement = "SELECT files FROM app_revisions WHERE app = ?1 AND revision = ?2";
    find_first(conn, statement, params![app.as_str(), revision], |row| row.get(0))
}
