//! Personas: named prompts of users, each in its scope.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::Scope;
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, find_first, find_only, find_page, one_more, sql, text, time};
use super::{RowsOf, SqlStore, idempotency, texts};
use crate::rules::personas::{check_persona_id, check_persona_prompt, check_persona_room};
use crate::{Error, IdempotencyClaim, NewPersonaRow, PageOf, PageRows, PersonaRow, source};

const COLUMNS: &str = "id, name, prompt, settings, created_at, updated_at";

impl SqlStore {
    pub(crate) async fn personas(
        &self,
        scope: &Scope,
        page: PageOf<u64>,
    ) -> Result<PageRows<PersonaRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, page)).await
    }

    pub(crate) async fn persona(&self, scope: &Scope, id: &str) -> Result<Option<PersonaRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, id) = (scope.clone(), id.to_owned());
        self.readers.read_for(rows, move |conn| find(conn, &scope, &id)).await
    }

    pub(crate) async fn add_persona(
        &self,
        scope: &Scope,
        persona: NewPersonaRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<PersonaRow, Error> {
        self.put(scope, persona, once, insert).await
    }

    pub(crate) async fn change_persona(
        &self,
        scope: &Scope,
        persona: NewPersonaRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<PersonaRow, Error> {
        self.put(scope, persona, once, update).await
    }

    pub(crate) async fn delete_persona(
        &self,
        scope: &Scope,
        id: &str,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (scope, id) = (scope.clone(), id.to_owned());
        let work = move |batch: &mut Batch<'_>| {
            if idempotency::claim(batch, &scope, once.as_ref(), Uuid::nil())?.is_some() {
                return Ok(());
            }
            delete(batch, &scope, &id)
        };
        self.writer.write(work).await
    }
}

impl SqlStore {
    /// Puts a persona down, once under a key. The persona that a key made is found by the id, which the request names
    /// again.
    async fn put(
        &self,
        scope: &Scope,
        persona: NewPersonaRow,
        once: Option<IdempotencyClaim>,
        put: fn(&Batch<'_>, &Scope, &NewPersonaRow) -> Result<(), Error>,
    ) -> Result<PersonaRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if idempotency::claim(batch, &scope, once.as_ref(), Uuid::nil())?.is_none() {
                check_persona_prompt(&persona.prompt)?;
                put(batch, &scope, &persona)?;
            }
            find(batch.conn(), &scope, &persona.id)?.ok_or(Error::NotFound("persona"))
        };
        self.writer.write(work).await
    }
}

fn insert(batch: &Batch<'_>, scope: &Scope, new: &NewPersonaRow) -> Result<(), Error> {
    check_persona_id(&new.id, find(batch.conn(), scope, &new.id)?.is_some())?;
    let statement = "SELECT count(*) FROM personas WHERE app = ?1 AND user = ?2";
    let there =
        find_only(batch.conn(), statement, [scope.app.as_str(), scope.user.as_str()], |row| count(row, 0))?;
    check_persona_room(there)?;
    let statement = "INSERT INTO personas (app, user, id, name, prompt, settings, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)";
    write(batch, scope, new, statement)
}

fn update(batch: &Batch<'_>, scope: &Scope, new: &NewPersonaRow) -> Result<(), Error> {
    let statement = "UPDATE personas SET name = ?4, prompt = ?5, settings = ?6, updated_at = ?7
                WHERE app = ?1 AND user = ?2 AND id = ?3";
    write(batch, scope, new, statement)
}

fn write(batch: &Batch<'_>, scope: &Scope, new: &NewPersonaRow, statement: &str) -> Result<(), Error> {
    let NewPersonaRow { id, name, prompt, settings } = new;
    let (app, user, settings) = (scope.app.as_str(), scope.user.as_str(), settings.to_string());
    batch.execute(statement, params![app, user, id, name, prompt, settings, batch.at()])
}

fn delete(batch: &Batch<'_>, scope: &Scope, id: &str) -> Result<(), Error> {
    let key = [scope.app.as_str(), scope.user.as_str(), id];
    let statement = "DELETE FROM personas WHERE app = ?1 AND user = ?2 AND id = ?3";
    let deleted = batch.count_changed(statement, key)?;
    if deleted == 0 {
        return Err(Error::NotFound("persona"));
    }
    let statement = "UPDATE threads SET persona = NULL WHERE app = ?1 AND user = ?2 AND persona = ?3";
    batch.execute(statement, key)?;
    texts::drop_of(batch, scope, &source::of_persona(id))?;
    batch.note_removed()
}

fn find(conn: &SqlConnection, scope: &Scope, id: &str) -> Result<Option<PersonaRow>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM personas WHERE app = ?1 AND user = ?2 AND id = ?3");
    find_first(conn, &statement, [scope.app.as_str(), scope.user.as_str(), id], persona_row)
}

fn list(conn: &SqlConnection, scope: &Scope, page: PageOf<u64>) -> Result<PageRows<PersonaRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM personas WHERE app = ?1 AND user = ?2 ORDER BY name, id LIMIT ?3 OFFSET ?4"
    );
    let (limit, before) = (one_more(page.limit), page.after.map_or(0, sql));
    let key = params![scope.app.as_str(), scope.user.as_str(), limit, before];
    find_page(conn, &statement, key, page.limit, persona_row)
}

fn persona_row(row: &SqlRow<'_>) -> Result<PersonaRow, Error> {
    Ok(PersonaRow {
        id: text(row, 0)?,
        name: text(row, 1)?,
        prompt: text(row, 2)?,
        settings: text(row, 3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}
