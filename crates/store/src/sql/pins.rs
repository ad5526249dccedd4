//! Pins: what users marked as important, in one thread or in all of an app.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{PinId, PinView, Principal, Scope, ThreadId};

use super::append::Batch;
use super::read::{
    count, find_first, find_only, find_page, has_any, id, maybe_id, one_more, scope_at, sql, text, time,
};
use super::{RowsOf, SqlStore, idempotency, texts};
use crate::rules::pins::{check_pin_room, check_pin_text};
use crate::{Error, IdempotencyClaim, MAX_PINS_PER_SCOPE, NewPinRow, PageOf, PageRows};

const COLUMNS: &str = "p.id, p.thread, p.text, p.created_at";

impl SqlStore {
    pub(crate) async fn add_pin(
        &self,
        scope: &Scope,
        pin: NewPinRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<PinView, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = idempotency::claim(batch, &scope, once.as_ref(), pin.id.uuid())? {
                return find(batch.conn(), &scope, earlier.into());
            }
            insert(batch, &scope, &pin)?;
            find(batch.conn(), &scope, pin.id)
        };
        self.writer.write(work).await
    }

    pub(crate) async fn pins(&self, scope: &Scope, thread: Option<ThreadId>) -> Result<Vec<PinView>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| all(conn, &scope, thread)).await
    }

    pub(crate) async fn pin_page(
        &self,
        scope: &Scope,
        thread: Option<ThreadId>,
        page: PageOf<u64>,
    ) -> Result<PageRows<PinView>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, thread, page)).await
    }

    pub(crate) async fn delete_pin(
        &self,
        principal: &Principal,
        pin: PinId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        self.writer.write_for(rows, move |batch| delete(batch, &principal, pin, once.as_ref())).await
    }
}

/// Adds a pin; its thread, if it has one, must be the scope's.
pub(super) fn insert(batch: &Batch<'_>, scope: &Scope, new: &NewPinRow) -> Result<(), Error> {
    check_pin_text(&new.text)?;
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    if let Some(thread) = new.thread {
        let statement =
            "SELECT 1 FROM threads WHERE id = ?1 AND app = ?2 AND user = ?3 AND deleted_at IS NULL";
        let there = has_any(batch.conn(), statement, params![thread.bytes(), app, user])?;
        if !there {
            return Err(Error::NotFound("thread"));
        }
    }
    let statement = "SELECT count(*) FROM pins WHERE app = ?1 AND user = ?2";
    check_pin_room(find_only(batch.conn(), statement, [app, user], |row| count(row, 0))?)?;
    let statement =
        "INSERT INTO pins (id, app, user, thread, text, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    batch.execute(
        statement,
        params![new.id.bytes(), app, user, new.thread.as_ref().map(ThreadId::bytes), new.text, batch.at()],
    )
}

fn delete(
    batch: &Batch<'_>,
    principal: &Principal,
    pin: PinId,
    once: Option<&IdempotencyClaim>,
) -> Result<(), Error> {
    if idempotency::is_repeated(batch, principal, once)? {
        return Ok(());
    }
    let statement = "DELETE FROM pins WHERE id = ?1 AND user = ?2 RETURNING app, user";
    let scope =
        find_first(batch.conn(), statement, params![pin.bytes(), principal.user().as_str()], |row| {
            scope_at(row, 0)
        })?
        .filter(|scope| principal.may_use(&scope.app))
        .ok_or(Error::NotFound("pin"))?; // then nothing of it is committed
    idempotency::claim(batch, &scope, once, pin.uuid())?;
    texts::drop_of(batch, &scope, &pin.to_string())?;
    batch.note_removed()
}

/// All pins that a prompt of the thread may have, oldest first.
pub(super) fn all(
    conn: &SqlConnection,
    scope: &Scope,
    thread: Option<ThreadId>,
) -> Result<Vec<PinView>, Error> {
    let mut pins = Vec::new();
    loop {
        let page = PageOf { after: Some(pins.len() as u64), limit: MAX_PINS_PER_SCOPE };
        let PageRows { rows, more } = list(conn, scope, thread, page)?;
        pins.extend(rows);
        if !more || pins.len() >= MAX_PINS_PER_SCOPE {
            return Ok(pins);
        }
    }
}

fn find(conn: &SqlConnection, scope: &Scope, pin: PinId) -> Result<PinView, Error> {
    let statement = format!("SELECT {COLUMNS} FROM pins p WHERE p.id = ?1 AND p.app = ?2 AND p.user = ?3");
    find_first(conn, &statement, params![pin.bytes(), scope.app.as_str(), scope.user.as_str()], pin_row)?
        .ok_or(Error::NotFound("pin"))
}

fn list(
    conn: &SqlConnection,
    scope: &Scope,
    thread: Option<ThreadId>,
    page: PageOf<u64>,
) -> Result<PageRows<PinView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM pins p LEFT JOIN threads t ON t.id = p.thread
            WHERE p.app = ?1 AND p.user = ?2 AND (p.thread IS NULL OR p.thread = ?3 AND t.deleted_at IS NULL)
            ORDER BY p.created_at, p.id LIMIT ?4 OFFSET ?5"
    );
    let thread = thread.as_ref().map(ThreadId::bytes);
    let (limit, before) = (one_more(page.limit), page.after.map_or(0, sql));
    let key = params![scope.app.as_str(), scope.user.as_str(), thread, limit, before];
    find_page(conn, &statement, key, page.limit, pin_row)
}

fn pin_row(row: &SqlRow<'_>) -> Result<PinView, Error> {
    Ok(PinView {
        id: id(row, 0)?,
        thread_id: maybe_id(row, 1)?,
        text: text(row, 2)?,
        created_at: time(row, 3)?,
    })
}
